/** Endpoints that time out on logs of many blocks, on a virtual clock: they get smaller ranges. */
import { expect, test } from "bun:test";
import type { Address } from "../../src/core/hex.ts";
import { EndpointPool } from "../../src/rpc/endpoint/endpoint-pool.ts";
import type { Endpoint } from "../../src/rpc/port.ts";
import { RpcChainReader } from "../../src/rpc/reading/reader.ts";
import { RpcError } from "../../src/rpc/rpc-errors.ts";
import { ProcessClock, Scheduler } from "../support/simulation/scheduler.ts";

const ADDRESS = `0x${"a".repeat(40)}` as Address;
const TIMEOUT_MS = 30_000;

/** A chain with endpoints that take `msOf(blocks)` ms for logs. NaN: the endpoint lacks the block. */
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
      transfers: () => Promise.reject(new Error("this endpoint is never called for transfers")),
      destroy: () => undefined,
    }),
  );
  const pool = new EndpointPool({ chain: "eth", endpoints, clock });
  const reader = new RpcChainReader({ chainId: 1, pool, multicall: ADDRESS, finalityDepth: 5, depthIsSet: true });
  /** Runs the clock until the promise settles. */
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

/** Time of a node that scans every block. */
const scanning = (blocks: number) => blocks / 10;

test("reads history in smaller ranges after timeouts, and rarely repeats a range that timed out", async () => {
  const { backfill, asked } = world(scanning);
  await backfill(10_000_000);
  const late = asked.filter(([, blocks]) => scanning(blocks) >= TIMEOUT_MS);
  expect(late.length).toBeGreaterThan(0);
  expect(late.length).toBeLessThan(asked.length / 10);
});

test("does so too if another endpoint answers first and is then preferred", async () => {
  const hanging = (blocks: number) => (blocks > 10_000 ? TIMEOUT_MS : 20);
  const { backfill, asked } = world(hanging, () => 100);
  await backfill(50_000_000);
  const hung = asked.filter(([label, blocks]) => label === "eth#1" && blocks > 10_000);
  expect(hung.length).toBeGreaterThan(0);
  // Each of them has cost a second.
  expect(hung.length).toBeLessThan(5);
});

test("shrinks the ranges of a search until they are answered in time, and those of a long gap from poll to poll", async () => {
  const { reader, settle, asked } = world((blocks) => (blocks > 700 ? TIMEOUT_MS : 1));
  const { signal } = new AbortController();
  const filter = { addresses: [ADDRESS], topics: [], fromBlock: 0, toBlock: 1_999 };
  expect(await settle(reader.logSearch().next(filter, { signal }))).toEqual({ logs: [], toBlock: 499 });
  // The follower reads for other parts, too, so each poll tries once and the next one goes on.
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

test("does so too beside an endpoint that lacks the last block of the range", async () => {
  const { reader, settle } = world(
    (blocks) => (blocks > 700 ? TIMEOUT_MS : 1),
    () => Number.NaN,
  );
  const { signal } = new AbortController();
  const filter = { addresses: [ADDRESS], topics: [], fromBlock: 0, toBlock: 1_999 };
  const found = settle(reader.logSearch().next(filter, { signal }));
  expect(await found).toMatchObject({ toBlock: 499 });
});

test("does not treat a timeout on a single block as a block that is too large", async () => {
  const { reader, settle } = world(() => TIMEOUT_MS);
  const failed = settle(reader.logs({ addresses: [ADDRESS], topics: [], fromBlock: 4, toBlock: 5 }));
  expect(await failed.catch((error: unknown) => error)).toMatchObject({ code: "chain_unavailable", retryable: true });
});

test("reads a long range in one request after an outage in which a single block timed out", async () => {
  let isDown = true;
  const { reader, settle, asked } = world(() => (isDown ? TIMEOUT_MS : 1));
  const read = (fromBlock: number, toBlock: number) =>
    settle(reader.logs({ addresses: [ADDRESS], topics: [], fromBlock, toBlock }).catch((error: unknown) => error));
  expect(await read(100_000, 100_000)).toMatchObject({ code: "chain_unavailable" });
  isDown = false;
  asked.length = 0;
  expect(await read(0, 99_999)).toEqual([]);
  expect(asked).toEqual([["eth#1", 100_000]]);
});
