/** The service under test, in a process of its own with its own log, and a client of its socket. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Address } from "../../src/core/hex.ts";
import { startServiceProcess } from "../../test/support/process.ts";
import { TEST_KEY } from "../../test/support/service.ts";

export const KEY_HEADERS = { "x-api-key": TEST_KEY } as const;

/** A port without a listener: pages come from memory, whatever the chain does. */
export const NO_NODE = "http://127.0.0.1:9";

/** Starts a node that has no block, and says so at once: pages wait for no header. */
export function startBlocklessNode() {
  return Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: async (request) => {
      const body = (await request.json()) as { id: unknown; method: string } | { id: unknown; method: string }[];
      const answers = [body].flat().map(({ id, method }) => {
        return { jsonrpc: "2.0", id, result: method === "eth_chainId" ? "0x1" : null };
      });
      return Response.json(Array.isArray(body) ? answers : answers[0]);
    },
  });
}

/** The address of a made-up contract. */
export const numberedAddress = (index: number) => `0x${(index + 1).toString(16).padStart(40, "0")}` as Address;

export interface BenchService {
  readonly base: string;
  readonly port: number;
  readonly pid: number;
  readonly logUrl: string;
  get(path: string): Promise<Response>;
  /** Ends the process; its log stays. */
  stop(): Promise<void>;
}

export interface BenchServiceOptions {
  readonly rpcUrl: string;
  readonly logUrl: string;
  readonly env?: Readonly<Record<string, string>>;
}

export async function startBenchService({ rpcUrl, logUrl, env = {} }: BenchServiceOptions): Promise<BenchService> {
  const service = await startServiceProcess({
    EVENT_LOG_URL: logUrl,
    RPC_URL_ETH: rpcUrl,
    RPC_URLS_ONLY: "true",
    RATE_LIMIT_PER_MINUTE: "10000000",
    LOG_LEVEL: "error",
    ...env,
  });
  const stop = async (): Promise<void> => {
    service.kill("SIGKILL");
    await service.exited;
  };
  return {
    base: service.base,
    port: Number(new URL(service.base).port),
    pid: service.pid,
    logUrl,
    get: service.get,
    stop,
  };
}

export interface TemporaryFolder {
  readonly path: string;
  /** URL of a SQLite log in the folder. */
  readonly logUrl: string;
  remove(): void;
}

/** A folder that is removed when this process ends, at the latest. */
export function temporaryFolder(): TemporaryFolder {
  const path = mkdtempSync(join(tmpdir(), "bench-"));
  const remove = (): void => rmSync(path, { recursive: true, force: true });
  process.once("exit", remove);
  return {
    path,
    logUrl: `sqlite://${join(path, "events.db")}`,
    remove: () => {
      process.off("exit", remove);
      remove();
    },
  };
}

/** The message that a collection is complete. */
export interface Indexed {
  readonly block: number;
  readonly total: number;
  /** Ms from the subscription that requested the collection to the message. */
  readonly ms: number;
}

/** Subscribes to a collection and resolves with `indexed`. @throws Error if the socket closes */
export async function untilIndexed(service: BenchService, address: string): Promise<Indexed> {
  const { promise, resolve, reject } = Promise.withResolvers<Indexed>();
  const socket = new WebSocket(`ws://127.0.0.1:${service.port}/api/v2/ws`, {
    headers: KEY_HEADERS,
  } as unknown as string[]);
  let started = 0;
  socket.onopen = () => {
    started = performance.now();
    socket.send(JSON.stringify({ action: "subscribe", chain: "eth", address }));
  };
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(String(data)) as { type: string; block: number; total: number };
    if (message.type === "indexed") {
      const { block, total } = message;
      resolve({ block, total, ms: performance.now() - started });
    }
    if (message.type === "error") reject(new Error(String(data)));
  };
  socket.onclose = () => reject(new Error("the service closed the socket"));
  const indexed = await promise;
  socket.onclose = null;
  socket.close();
  return indexed;
}
