/** A service whose questions are measured: the CPU of its serving thread, its event loop, and what it asks of its node. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { guardChild } from "../../local-chain/guard.ts";
import type { Turns } from "../parts/measured-service.ts";
import { temporaryFolder } from "../service.ts";

export const [READER, GREEDY, OPERATOR] = [
  "honest-key-0123456789",
  "greedy-key-0123456789",
  "operator-key-0123456789",
] as const;

export interface MeasuredService {
  readonly base: string;
  readonly port: number;
  ask(path: string, init?: RequestInit & { readonly key?: string }): Promise<Response>;
  /** CPU of the serving thread so far, in ms. */
  cpuMs(): number;
  watch(): void;
  /** The longest time between two turns of the event loop since `watch`, in ms. */
  look(): Promise<number>;
  stop(): Promise<void>;
}

export async function startMeasuredService(
  rpcUrl: string,
  env: Readonly<Record<string, string>> = {},
): Promise<MeasuredService> {
  const folder = temporaryFolder();
  const serving = Promise.withResolvers<string>();
  let looked = Promise.withResolvers<number>();
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "../parts/measured-service.ts")], {
    env: {
      ...{ PATH: process.env["PATH"] ?? "", PORT: "0", EVENT_LOG_URL: folder.logUrl },
      ...{ RPC_URL_ETH: rpcUrl, RPC_URLS_ONLY: "true", RATE_LIMIT_PER_MINUTE: "10000000", LOG_LEVEL: "error" },
      ...{ API_KEYS: `${READER},${GREEDY}`, OPERATOR_KEYS: OPERATOR, METADATA_ALLOW_PRIVATE: "true" },
      ...env,
    },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "inherit",
    ipc: (message: { url: string } | Turns) => {
      if ("url" in message) serving.resolve(message.url);
      else looked.resolve(message.longestMs);
    },
  });
  const guard = guardChild({ pid: child.pid, signal: "KILL" });
  const base = await Promise.race([
    serving.promise,
    child.exited.then((code) => Promise.reject(new Error(`the service ended with ${code}`))),
  ]);
  return {
    base,
    port: Number(new URL(base).port),
    ask: (path, { key = READER, headers, ...init } = {}) =>
      fetch(`${base}${path}`, { ...init, headers: { "x-api-key": key, ...headers } }),
    // The first number is ns on a core; the main thread has the id of its process.
    cpuMs: () => Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/schedstat`, "latin1").split(" ")[0]) / 1e6,
    watch: () => child.send("watch"),
    look: () => {
      looked = Promise.withResolvers();
      child.send("look");
      return looked.promise;
    },
    stop: async () => {
      child.kill("SIGKILL");
      await child.exited;
      guard.dismiss();
      folder.remove();
    },
  };
}

/** Resolves once `probe` does with true. @throws Error after `ms` */
export async function until(what: string, probe: () => Promise<boolean>, ms = 120_000): Promise<void> {
  for (const end = performance.now() + ms; !(await probe()); await Bun.sleep(50)) {
    if (performance.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
  }
}
