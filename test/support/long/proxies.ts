/**
 * Real proxies in front of real processes, from the files that are shipped: nginx and Caddy as Debian has them, with the
 * shipped configuration but for addresses and certificates, and nginx with the matches of the Kubernetes HTTPRoute.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { guardChild } from "../../../scripts/local-chain/guard.ts";
import { eventually } from "../service.ts";
import { debianProgram } from "./debian.ts";

const DEPLOY = join(import.meta.dir, "../../../scripts/deploy");

export type Kind = "nginx" | "caddy" | "gateway";

export interface Proxy {
  readonly port: number;
  stop(): Promise<void>;
}

/** A free port. The proxies can't choose one by themselves. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Replaces a part of a shipped file that must be there. */
function replaced(text: string, part: string | RegExp, by: string): string {
  const after = text.replace(part, by);
  if (after === text) throw new Error(`the shipped file has no ${String(part)}`);
  return after;
}

/** @param isByContract true to have each collection served by a replica of its own, as the shipped file says how */
function nginxOf(port: number, upstreams: readonly number[], isByContract: boolean): string {
  const servers = upstreams.map((one) => `server 127.0.0.1:${one} max_fails=0;`).join("\n");
  let text = readFileSync(join(DEPLOY, "nginx.conf"), "utf8");
  text = replaced(text, "server 127.0.0.1:3000 max_fails=0;", servers);
  if (isByContract) text = replaced(text, /#:/g, "");
  text = replaced(text, "listen 443 ssl;", `listen 127.0.0.1:${port};`);
  return replaced(text, /^ *ssl_certificate.*$/gm, "");
}

interface RouteMatch {
  readonly method?: string;
  readonly path: { readonly type: "PathPrefix" | "Exact" | "RegularExpression"; readonly value: string };
}

/** The matches of the HTTPRoute as a gateway reads them: `PathPrefix` by whole segments, methods for themselves. */
function gatewayOf(port: number, [upstream]: readonly number[]): string {
  const documents = Bun.YAML.parse(readFileSync(join(DEPLOY, "kubernetes.yaml"), "utf8")) as readonly {
    readonly kind: string;
    readonly spec: { readonly rules: readonly { readonly matches: readonly RouteMatch[] }[] };
  }[];
  const route = documents.find(({ kind }) => kind === "HTTPRoute");
  if (route === undefined) throw new Error("the shipped file has no HTTPRoute");
  const matches = route.spec.rules.flatMap((rule) => rule.matches);
  const byPath = Map.groupBy(matches, ({ path }) => `${path.type} ${path.value}`);
  const locations = [...byPath.values()].flatMap((same) => {
    const [{ path }] = same as [RouteMatch];
    const methods = same.flatMap(({ method }) => method ?? []);
    const only = methods.length === 0 ? "" : `limit_except ${methods.join(" ")} { deny all; }`;
    const pass = `{ ${only} proxy_pass http://127.0.0.1:${upstream}; }`;
    if (path.type === "RegularExpression") return `location ~ "${path.value}" ${pass}`;
    if (path.type === "Exact") return `location = ${path.value} ${pass}`;
    return [`location = ${path.value} ${pass}`, `location ${path.value}/ ${pass}`];
  });
  return `server { listen 127.0.0.1:${port}; ${locations.join("\n")} location / { return 404; } }`;
}

const NGINX_MAIN = (folder: string, site: string) => `
daemon off; pid ${folder}/pid; error_log stderr crit; worker_processes 1;
events { worker_connections 1024; }
http { access_log off; client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/f; uwsgi_temp_path ${folder}/u; scgi_temp_path ${folder}/s; ${site} }`;

function caddyOf(port: number, upstreams: readonly number[]): string {
  let text = readFileSync(join(DEPLOY, "Caddyfile"), "utf8");
  text = replaced(text, "nft.example.org {", `http://127.0.0.1:${port} {`);
  const all = upstreams.map((one) => `127.0.0.1:${one}`).join(" ");
  text = replaced(text, /^(\s*)reverse_proxy 127\.0\.0\.1:3000 \{/gm, `$1reverse_proxy ${all} {`);
  return `{\n\tadmin off\n\tauto_https off\n}\n${text}`;
}

/** Starts a proxy in front of processes on ports of this machine. @param isByContract for nginx: see `nginxOf` */
export async function startProxy(kind: Kind, upstreams: readonly number[], isByContract = false): Promise<Proxy> {
  const folder = mkdtempSync(join(tmpdir(), "proxy-"));
  const port = await freePort();
  let command: string[];
  if (kind === "caddy") {
    writeFileSync(join(folder, "Caddyfile"), caddyOf(port, upstreams));
    command = [
      debianProgram("caddy", "usr/bin/caddy"),
      "run",
      "--adapter",
      "caddyfile",
      "--config",
      join(folder, "Caddyfile"),
    ];
  } else {
    const site = kind === "nginx" ? nginxOf(port, upstreams, isByContract) : gatewayOf(port, upstreams);
    writeFileSync(join(folder, "nginx.conf"), NGINX_MAIN(folder, site));
    for (const name of ["body", "proxy", "f", "u", "s"]) mkdirSync(join(folder, name));
    command = [debianProgram("nginx", "usr/sbin/nginx"), "-p", folder, "-c", join(folder, "nginx.conf")];
  }
  const env = { PATH: process.env["PATH"] ?? "", HOME: folder, XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder };
  const child = Bun.spawn(command, { env, stdin: "ignore", stdout: "ignore", stderr: "pipe" });
  const guard = guardChild({ pid: child.pid, signal: "KILL" });
  const errors = new Response(child.stderr).text();
  const isUp = async () => {
    if (child.exitCode !== null) throw new Error(`${kind} ended: ${await errors}`);
    return fetch(`http://127.0.0.1:${port}/nowhere`).then(
      () => true,
      () => undefined,
    );
  };
  await eventually(`${kind} listens`, isUp);
  return {
    port,
    stop: async () => {
      child.kill("SIGTERM");
      await child.exited;
      guard.dismiss();
      if (existsSync(folder)) rmSync(folder, { recursive: true, force: true });
    },
  };
}
