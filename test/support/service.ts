/**
 * The service under test: the same program that `start` runs, in this process or in a separate one, on port 0, with a
 * client. Tests wait for conditions, never for durations.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CHAINS } from "../../src/chains/chains.ts";
import { envSuffix } from "../../src/chains/trouble.ts";
import { readConfig } from "../../src/config.ts";
import type { Clock } from "../../src/core/clock.ts";
import { createLogger, type Logger } from "../../src/core/logger.ts";
import type { openLog } from "../../src/log/open.ts";
import type { Wire } from "../../src/nft/metadata/resolve/wire.ts";
import { type Service, startService } from "../../src/service.ts";

export const TEST_KEY = "test-key-0123456789";

export interface TestService extends Service {
  /** GETs a path below the service's root with the API key, and parses the body. */
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  fetch(path: string, init?: RequestInit): Promise<Response>;
  readonly socketUrl: string;
}

// biome-ignore lint/suspicious/noExplicitAny: tests read single fields of bodies
export type Body = any;

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
}

export interface TestServiceOptions {
  readonly rpcUrl: string;
  readonly logUrl: string;
  readonly env?: Record<string, string>;
  readonly logger?: Logger;
  readonly clock?: Clock;
  readonly metadataWire?: Wire;
  readonly metadataSampleMs?: number;
  readonly auditMs?: number;
  /** Minimum time between polls of a chain, in ms. Default: 50. */
  readonly minPollMs?: number;
  readonly openLog?: typeof openLog;
  readonly onKeyMade?: (key: string) => void;
}

/** Makes a fresh folder, removed when the process ends, and returns the URL of a SQLite log in it. */
export function temporaryLogUrl(): string {
  const folder = mkdtempSync(join(tmpdir(), "service-log-"));
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
  return `sqlite://${join(folder, "events.db")}`;
}

export async function startTestService({
  rpcUrl,
  logUrl,
  env,
  logger,
  ...metadata
}: TestServiceOptions): Promise<TestService> {
  const config = readConfig({
    PORT: "0",
    API_KEYS: TEST_KEY,
    EVENT_LOG_URL: logUrl,
    RPC_URL_ETH: rpcUrl,
    RPC_URLS_ONLY: "true",
    // Tests await each block.
    ...Object.fromEntries(CHAINS.map((chain) => [`FOLLOW_EVERY_${envSuffix(chain.name)}`, "0"])),
    RATE_LIMIT_PER_MINUTE: "10000000",
    COLLECTIONS_PER_HOUR: "1000000",
    ...env,
  });
  const level = process.env["TEST_LOG_LEVEL"] === "debug" ? "debug" : "silent";
  const service = await startService({ config, logger: logger ?? createLogger(level), minPollMs: 50, ...metadata });
  const root = `http://127.0.0.1:${service.port}`;
  const request = (path: string, init: RequestInit = {}) =>
    fetch(`${root}${path}`, { ...init, headers: { "x-api-key": TEST_KEY, ...(init.headers ?? {}) } });
  return {
    ...service,
    socketUrl: `ws://127.0.0.1:${service.port}/api/v2/ws`,
    fetch: request,
    get: async (path, headers = {}) => {
      const response = await request(path, { headers });
      return { status: response.status, headers: response.headers, body: await response.json() };
    },
  };
}

/** How much slower than a quiet machine a shared one may be. */
const PATIENCE = 4;

/** Calls `probe` until it returns a value. After `ms`, several times over, it throws the last error of `probe`, or an error with `what`. */
export async function eventually<T>(what: string, probe: () => Promise<T | undefined>, ms = 15_000): Promise<T> {
  const deadline = performance.now() + ms * PATIENCE;
  for (;;) {
    const found = await probe();
    if (found !== undefined) return found;
    if (performance.now() > deadline) throw new Error(`did not happen within ${ms * PATIENCE} ms: ${what}`);
    await Bun.sleep(20);
  }
}

/** Polls the collection until it is SYNCED and, if given, listed at `block` or later. */
export function synced(service: TestService, address: string, block = 0, query = ""): Promise<Answer> {
  return eventually(`${address} is synced at block ${block}`, async () => {
    const answer = await service.get(`/api/v2/nft/${address}?limit=500${query}`);
    if (answer.status !== 200 || answer.body.status !== "SYNCED") return undefined;
    return Number(answer.headers.get("x-as-of-block") ?? -1) >= block ? answer : undefined;
  });
}

/**
 * Polls until each token of the synced collections had an attempt to fetch its metadata, and none failed. Two answers of one
 * block are equal only from then on: metadata comes beside the blocks.
 */
export async function metadataKnown(service: TestService, ...addresses: readonly string[]): Promise<void> {
  for (const address of addresses) {
    await eventually(`the metadata of ${address} is known`, async () => {
      const { body } = await service.get(`/api/collections/eth/${address}`);
      return body.metadata?.left === 0 && body.metadata.failed === 0 ? true : undefined;
    });
  }
}

/** Returns all records of a listing by walking its pages. */
export async function walkListing(service: TestService, address: string, query: string): Promise<Body[]> {
  const records: Body[] = [];
  let cursor: string | null = "";
  while (cursor !== null) {
    const path: string = `/api/v2/nft/${address}?${query}${cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`}`;
    const { status, body } = await service.get(path);
    if (status !== 200) throw new Error(`${path}: ${JSON.stringify(body)}`);
    records.push(...body.result);
    cursor = body.cursor;
  }
  return records;
}
