/** The metrics that operators watch, and the dashboard and alerts over them. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { runCli } from "../support/cli.ts";
import { startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

const ROOT = join(import.meta.dir, "../..");
const DEPLOY = join(ROOT, "scripts/deploy");
const OPERATOR_KEY = "operator-key-0123456789";
const METRICS_KEY = "metrics-key-0123456789";

let service: TestService;
beforeAll(async () => {
  const env = { METRICS_KEY, OPERATOR_KEYS: OPERATOR_KEY };
  service = await startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl: temporaryLogUrl(), env });
});
afterAll(() => service?.stop());

const scrape = async (): Promise<string> =>
  (await service.fetch("/metrics", { headers: { "x-api-key": METRICS_KEY } })).text();

test("count collections by status, the queue, the log's bytes, the version and the uses of keys", async () => {
  // An operator's request is recorded at once, also without an endpoint.
  await service.get(`/api/v2/nft/0x${"12".repeat(20)}`, { "x-api-key": OPERATOR_KEY });
  await service.get(`/api/v2/nft/0x${"13".repeat(20)}`);
  const used = process.cpuUsage();
  const text = await scrape();
  const value = (series: string) =>
    Number(
      text
        .split("\n")
        .find((line) => line.startsWith(`${series} `))
        ?.split(" ")
        .at(-1),
    );
  expect(value('collections{status="requested"}') + value('collections{status="failing"}')).toBe(1);
  expect([value("indexing_queue"), value("log_writable")]).toEqual([1, 1]);
  expect(value("log_bytes")).toBeGreaterThan(4_096);
  expect(value("log_free_bytes")).toBeGreaterThan(0);
  expect(value('api_key_requests_today{key="API_KEYS#1"}')).toBeGreaterThan(0);
  expect(value("process_resident_memory_bytes")).toBeGreaterThan(1_000_000);
  // All that the process has used, not what it used since the first scrape.
  expect(value("process_cpu_seconds_total")).toBeGreaterThanOrEqual((used.user + used.system) / 1e6);
  expect(text).toMatch(/build_info\{version="\d+\.\d+\.\d+"\} 1/);
  expect(text).not.toContain(TEST_KEY);
});

test("name no key without a key of their own", async () => {
  const open = await startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl: temporaryLogUrl() });
  await open.get(`/api/v2/nft/0x${"12".repeat(20)}`);
  const text = await (await open.fetch("/metrics")).text();
  expect(text).not.toContain("API_KEYS#1");
  await open.stop();
});

/** Words of PromQL that stand where names of metrics stand. */
const FUNCTIONS = new Set(
  "sum min max count by rate increase histogram_quantile predict_linear and or on unless le without ignoring offset h".split(
    " ",
  ),
);

/** The names of metrics in a query. */
function metricsOf(query: string): string[] {
  const plain = query
    .replace(/\{[^}]*\}/g, "")
    .replace(/\bby \([^)]*\)/g, "")
    .replace(/\[[^\]]*\]/g, "");
  return [...plain.matchAll(/[a-z_][a-z0-9_]*/g)].map(([name]) => name).filter((name) => !FUNCTIONS.has(name));
}

interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: { readonly summary: string; readonly action: string };
}

function alertRules(): readonly Alert[] {
  const { groups } = Bun.YAML.parse(readFileSync(join(DEPLOY, "alerts.yml"), "utf8")) as {
    readonly groups: readonly { readonly rules: readonly Alert[] }[];
  };
  return groups.flatMap(({ rules }) => rules);
}

test("have alerts that say what to do, by commands, scripts and variables that exist", async () => {
  const { out } = await runCli(["help"], {});
  const commands = new Set([...out.matchAll(/^ {2}(\w+) {2,}/gm)].map(([, name]) => name as string));
  const settings = readFileSync(join(ROOT, "scripts/deploy/configuration.md"), "utf8");
  const rules = alertRules();
  expect(rules.length).toBeGreaterThan(12);
  for (const { alert, annotations } of rules) {
    const action = annotations.action.replace(/\S+\.md\b/g, "");
    const named = {
      commands: [...action.matchAll(/bun run cli (\w+)/g)].map(([, name]) => name as string),
      scripts: [...action.matchAll(/bun (scripts\/\S+)/g)].map(([, path]) => path as string),
      variables: [...action.matchAll(/\b[A-Z]{3,}(?:_[A-Z]+)*(?:_<CHAIN>)?/g)].map(([name]) => name),
    };
    expect([alert, Object.values(named).flat().length > 0]).toEqual([alert, true]);
    const unknown = [
      ...named.commands.filter((name) => !commands.has(name)),
      ...named.scripts.filter((path) => !existsSync(join(ROOT, path))),
      ...named.variables.filter((name) => !settings.includes(`\`${name}\``)),
    ];
    expect([alert, unknown]).toEqual([alert, []]);
  }
});

test("have every name that the dashboard and the alerts query", async () => {
  const known = new Set([...(await scrape()).matchAll(/^# TYPE (\S+)/gm)].map((match) => match[1] as string));
  const dashboard = JSON.parse(readFileSync(join(DEPLOY, "grafana.json"), "utf8")) as {
    readonly panels: readonly { readonly title: string; readonly targets?: readonly { readonly expr: string }[] }[];
  };
  const queries = [
    ...dashboard.panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => [title, expr] as const)),
    ...alertRules().map(({ alert, expr }) => [alert, expr] as const),
  ];
  expect(queries.length).toBeGreaterThan(35);
  for (const [where, query] of queries) {
    const names = metricsOf(query).map((name) => name.replace(/_(?:bucket|sum|count)$/, ""));
    expect([where, names.length > 0, names.filter((name) => !known.has(name))]).toEqual([where, true, []]);
  }
});
