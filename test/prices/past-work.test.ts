/**
 * Many concurrent requests about the past on a node without archive state: a few run at once, some wait, the others are
 * refused with a retry time. Requests at the head never wait for them.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { Budget } from "../../src/core/budget.ts";
import type { Refusal } from "../../src/core/errors.ts";
import type { LogFilter } from "../../src/rpc/port.ts";
import { dollarWorld, TOKEN, WETH, type World } from "../support/prices/world.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

const AT_ONCE = 16;
const WAITING = 256;

/** $20 since block 0, $40 since 2,000, no archive state. Searches of logs below `held` wait for `release`. */
async function scene(held = Number.POSITIVE_INFINITY) {
  const world = dollarWorld();
  const { chain } = world;
  const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
  chain.mine(2_000);
  // A hundred blocks before the block of a day ago, so its state is found without a held search.
  world.setPair(pool, TOKEN, 10_000n, 200n);
  world.setPair(world.dollar, WETH, 1_000n, 2_000_000n);
  chain.mine(7_300);
  chain.archive = false;
  world.follower.start();
  await world.price(TOKEN);
  const gate = Promise.withResolvers<void>();
  const full = Promise.withResolvers<void>();
  const seen = { now: 0, most: 0 };
  const { logs } = chain;
  chain.logs = async (filter: LogFilter) => {
    if (filter.toBlock >= held) return logs.call(chain, filter);
    seen.now++;
    seen.most = Math.max(seen.most, seen.now);
    if (seen.now === AT_ONCE) full.resolve();
    await gate.promise;
    try {
      return await logs.call(chain, filter);
    } finally {
      seen.now--;
    }
  };
  return { world, seen, full: full.promise, release: gate.resolve };
}

const ask = (world: World, block: number): Promise<unknown> =>
  world.price(TOKEN, { to_block: String(block) }).then(
    ({ usdPrice }) => usdPrice,
    ({ code, retryAfter }: Refusal) => ({ code, retryAfter }),
  );

/** Requests prices at `count` blocks from `first` on. */
const askMany = (world: World, first: number, count: number): Promise<unknown>[] =>
  Array.from({ length: count }, (_, index) => ask(world, first + index));

describe("concurrent requests about the past", () => {
  test("run a few at once, wait in a bounded queue, and are refused beyond it with a retry time", async () => {
    const { world, seen, full, release } = await scene();
    const asked = askMany(world, 100, AT_ONCE + WAITING + 100);
    await full;
    const refused = { code: "rate_limited", retryAfter: 5 };
    expect(await Promise.all(asked.slice(AT_ONCE + WAITING))).toEqual(Array.from({ length: 100 }, () => refused));
    release();
    const answers = await Promise.all(asked.slice(0, AT_ONCE + WAITING));
    expect(answers).toEqual(answers.map(() => 20));
    expect(seen.most).toBe(AT_ONCE);
    // A client that retries gets an answer.
    expect(await Promise.all(askMany(world, 500, 100))).toEqual(Array.from({ length: 100 }, () => 20));
    expect(seen.most).toBe(AT_ONCE);
  });

  test("leave the queue with their client, while those of other clients stay", async () => {
    const { world, full, release } = await scene();
    const begun = askMany(world, 100, AT_ONCE);
    await full;
    const client = new AbortController();
    const question = new Budget({ signal: client.signal });
    const left = question.run(() => world.price(TOKEN, { to_block: "900" })).catch(({ name }: Error) => name);
    const shared = question.run(() => world.price(TOKEN, { to_block: "901" })).catch(({ name }: Error) => name);
    const again = ask(world, 901);
    client.abort();
    expect(await Promise.all([left, shared])).toEqual(["AbortError", "AbortError"]);
    const { requests } = world.chain;
    requests.length = 0;
    release();
    const wanted = [...begun, again];
    expect(await Promise.all(wanted)).toEqual(wanted.map(() => 20));
    expect(requests.some((request) => request.endsWith("-900"))).toBe(false);
    expect(await ask(world, 900)).toBe(20);
  });

  test("do not delay requests at the head or the change over a day", async () => {
    const { world, full, release } = await scene(1_500);
    const asked = askMany(world, 100, AT_ONCE + WAITING);
    await full;
    expect((await world.price(TOKEN)).usdPrice).toBe(40);
    expect((await world.price(TOKEN, { include: "percent_change" }))["24hrPercentChange"]).toBe("0");
    release();
    expect(await Promise.all(asked)).toEqual(asked.map(() => 20));
  });

  test("share one run if they are about the same block", async () => {
    const { world, seen, full, release } = await scene();
    const same = Array.from({ length: 1_000 }, () => ask(world, 90));
    const others = askMany(world, 100, AT_ONCE - 1);
    await full;
    release();
    const all = [...same, ...others];
    expect(await Promise.all(all)).toEqual(all.map(() => 20));
    expect(seen.most).toBe(AT_ONCE);
  });
});
