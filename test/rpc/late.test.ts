/** Endpoints that take too long for logs of many blocks, on a virtual clock: they are asked for fewer. */
import { expect, test } from "bun:test";
import type { Address } from "../../src/core/hex.ts";
import { EndpointPool } from "../../src/rpc/endpoint/endpoint-pool.ts";
import { SpanController } from "../../src/rpc/endpoint/span.ts";
import type { Endpoint } from "../../src/rpc/port.ts";
import { RpcChainReader } from "../../src/rpc/reader.ts";
import { RpcError } from "../../src/rpc/rpc-errors.ts";
import { ProcessClock, Scheduler } from "../simulation/scheduler.ts";

const ADDRESS = `0x${"a".repeat(40)}` as Address;
const TIMEOUT_MS = 30_000;

/** A chain whose endpoints take `msOf` so many blocks for their logs; NaN: they have none. */
function world(...msOf: ((blocks: number) => number)[]) {
  const scheduler = new Scheduler(1);
  const clock = new ProcessClock(scheduler);
  const asked: [label: string, blocks: number][] = [];
  const take = async (label: string, blocks: number, signal?: AbortSignal) => {
    asked.push([label, blocks]);
    const ms = msOf[Number(label.slice(4)) - 1]?.(blocks) ?? 0;
    if (Number.isNaN(ms)) throw new RpcError("transient", "the endpoint lacks a block");
    await clock.sleep(Math.min(ms, TIMEOUT_MS), signal);
    if (ms >= TIMEOUT_MS) throw new RpcError("late", `no answer within ${TIMEOUT_MS} ms`);
  };
  const endpoints = msOf.map(
    (_, index): Endpoint => ({
      label: `eth#${index + 1}`,
      async request(_method, [filter]) {
        const { fromBlock, toBlock } = filter as { fromBlock: string; toBlock: string };
        await take(this.label, Number(toBlock) - Number(fromBlock) + 1);
        return [];
      },
      transfers: () => Promise.reject(new Error("not asked")),
      destroy: () => undefined,
    }),
  );
  const pool = new EndpointPool({ chain: "eth", endpoints, clock });
  const reader = new RpcChainReader({ chainId: 1, pool, multicall: ADDRESS, finalityDepth: 5, depthIsSet: true });
  /** Lets time pass until the promise settles. */
  const settle = async <T>(promise: Promise<T>): Promise<T> => {
    let done = false;
    promise.finally(() => (done = true)).catch(() => undefined);
    while (!done) if (!(await scheduler.step())) await new Promise<void>((resolve) => setImmediate(resolve));
    return promise;
  };
  /** Reads a history in bulk. */
  const backfill = async (blocks: number) => {
    for (let next = 0; next < blocks; ) {
      next += await settle(
        pool.bulk(async (endpoint, span, signal) => {
          await take(endpoint.label, span, signal);
          pool.recordHistory(endpoint, span, 0);
          return span;
        }, blocks - next),
      );
    }
  };
  return { reader, asked, settle, backfill };
}

/** As long as a node that reads every block. */
const scanning = (blocks: number) => blocks / 10;

test("history that takes an endpoint too long is read in smaller parts, and not asked for whole again and again", async () => {
  const { backfill, asked } = world(scanning);
  await backfill(10_000_000);
  const late = asked.filter(([, blocks]) => scanning(blocks) >= TIMEOUT_MS);
  expect(late.length).toBeGreaterThan(0);
  expect(late.length).toBeLessThan(asked.length / 10);
});

test("so it is where another endpoint answers before it does, which is asked first then", async () => {
  const hanging = (blocks: number) => (blocks > 10_000 ? TIMEOUT_MS : 20);
  const { backfill, asked } = world(hanging, () => 100);
  await backfill(50_000_000);
  const hung = asked.filter(([label, blocks]) => label === "eth#1" && blocks > 10_000);
  expect(hung.length).toBeGreaterThan(0);
  // Each of them has cost a second.
  expect(hung.length).toBeLessThan(5);
});

test("a search comes down to ranges that are answered in time, and so do the logs of a long gap, look by look", async () => {
  const { reader, settle, asked } = world((blocks) => (blocks > 700 ? TIMEOUT_MS : 1));
  const span = new SpanController();
  const { signal } = new AbortController();
  const filter = { addresses: [ADDRESS], topics: [], fromBlock: 0, toBlock: 1_999 };
  expect(await settle(reader.firstLogs(filter, span, { signal }))).toEqual({ logs: [], toBlock: 499 });
  // Who follows a chain reads for others, too, and comes back to it.
  const spans: number[] = [];
  for (let look = 0; look < 3; look++) {
    asked.length = 0;
    const failure = await settle(reader.completeLogs(filter, []).catch((error: unknown) => error));
    spans.push(asked[0]?.[1] ?? 0);
    if (look < 2) expect(failure).toMatchObject({ code: "chain_unavailable", retryable: true });
    else expect(failure).toEqual([]);
  }
  expect(spans).toEqual([2_000, 1_000, 500]);
});

test("so they do beside an endpoint that lacks the block which they are to reach", async () => {
  const { reader, settle } = world(
    (blocks) => (blocks > 700 ? TIMEOUT_MS : 1),
    () => Number.NaN,
  );
  const { signal } = new AbortController();
  const filter = { addresses: [ADDRESS], topics: [], fromBlock: 0, toBlock: 1_999 };
  const found = settle(reader.firstLogs(filter, new SpanController(), { signal }));
  expect(await found).toMatchObject({ toBlock: 499 });
});

test("one block that is not answered in time is not a block too large", async () => {
  const { reader, settle } = world(() => TIMEOUT_MS);
  const failed = settle(reader.logs({ addresses: [ADDRESS], topics: [], fromBlock: 4, toBlock: 5 }));
  expect(await failed.catch((error: unknown) => error)).toMatchObject({ code: "chain_unavailable", retryable: true });
});
