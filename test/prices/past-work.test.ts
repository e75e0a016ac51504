/**
 * Many questions about the past at the same time, of a node without old state: few are worked on at once, some wait, the
 * others are told to come back, and nobody who asks about the head waits for them.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { ApiError } from "../../src/core/errors.ts";
import type { LogFilter } from "../../src/rpc/port.ts";
import { dollarWorld, TOKEN, WETH, type World } from "./support/world.ts";

// Real parts, on machines that have others to serve: the runner's five seconds would kill them in the middle.
setDefaultTimeout(30_000);

const AT_ONCE = 16;
const WAITING = 256;
const MINUTE = 60_000;

/** $20 since block 0, $40 since 2,000, a node without old state, and searches of logs below `held` that wait for `release`. */
async function scene(held = Number.POSITIVE_INFINITY) {
  const world = dollarWorld();
  const { chain } = world;
  const pool = world.pair(TOKEN, 10_000n, WETH, 100n);
  chain.mine(2_000);
  // A hundred blocks before the one of a day ago: its states are found without a look at what is held.
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
    ({ status, code, headers }: ApiError) => ({ status, code, retryAfter: headers["retry-after"] }),
  );

/** Questions about as many blocks from `first` on. */
const askMany = (world: World, first: number, count: number): Promise<unknown>[] =>
  Array.from({ length: count }, (_, index) => ask(world, first + index));

describe("questions about the past at the same time", () => {
  test("are worked on a few at once, and those that too many come before are told to come back", async () => {
    const { world, seen, full, release } = await scene();
    const asked = askMany(world, 100, AT_ONCE + WAITING + 100);
    await full;
    const refused = { status: 429, code: "rate_limited", retryAfter: "5" };
    expect(await Promise.all(asked.slice(AT_ONCE + WAITING))).toEqual(Array.from({ length: 100 }, () => refused));
    release();
    const answers = await Promise.all(asked.slice(0, AT_ONCE + WAITING));
    expect(answers).toEqual(answers.map(() => 20));
    expect(seen.most).toBe(AT_ONCE);
    // Who comes back has an answer.
    expect(await Promise.all(askMany(world, 500, 100))).toEqual(Array.from({ length: 100 }, () => 20));
    expect(seen.most).toBe(AT_ONCE);
  });

  test("are not begun when nobody has asked for a minute, and are when somebody has", async () => {
    const { world, full, release } = await scene();
    const begun = askMany(world, 100, AT_ONCE);
    await full;
    const [left, asked] = [ask(world, 900), ask(world, 901)];
    world.clock.ms += MINUTE / 2;
    const again = ask(world, 901);
    world.clock.ms += MINUTE / 2;
    const { requests } = world.chain;
    requests.length = 0;
    release();
    const wanted = [...begun, asked, again];
    expect(await Promise.all(wanted)).toEqual(wanted.map(() => 20));
    expect(await left).toEqual({ status: 503, code: "chain_unavailable", retryAfter: "5" });
    expect(requests.some((request) => request.endsWith("-900"))).toBe(false);
    expect(await ask(world, 900)).toBe(20);
  });

  test("keep nobody waiting who asks about the head, or for the change over a day", async () => {
    const { world, full, release } = await scene(1_500);
    const asked = askMany(world, 100, AT_ONCE + WAITING);
    await full;
    expect((await world.price(TOKEN)).usdPrice).toBe(40);
    expect((await world.price(TOKEN, { include: "percent_change" }))["24hrPercentChange"]).toBe("0");
    release();
    expect(await Promise.all(asked)).toEqual(asked.map(() => 20));
  });

  test("about the same block are one", async () => {
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
