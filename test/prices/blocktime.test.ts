import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { BlockTimes } from "../../src/prices/past-figures.ts";
import { FakeChain } from "../support/prices/fake-chain.ts";
import { dollarWorld, TOKEN, WETH } from "../support/prices/world.ts";

/** A chain of 1,001 blocks. Its fastest endpoint lacks some. `header` asks all endpoints, and has all if `all.has`. */
function lacking(isLacked: (block: number) => boolean): { chain: FakeChain; times: BlockTimes; all: { has: boolean } } {
  const chain = new FakeChain();
  chain.mine(1_000);
  const all = { has: false };
  const { header, headers } = chain;
  chain.headers = async (numbers) =>
    (await headers.call(chain, numbers)).map((entry) => (isLacked(entry!.number) ? undefined : entry));
  chain.header = async (number) => (isLacked(number) && !all.has ? undefined : await header.call(chain, number));
  return { chain, times: new BlockTimes(chain, 12), all };
}

const UNAVAILABLE = { code: "chain_unavailable", retryable: true };

test("finds the last block at or before a time, whatever the block times", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.integer({ min: 0, max: 90 }), { minLength: 1, maxLength: 300 }),
      fc.integer({ min: -50, max: 12_000 }),
      async (gaps, back) => {
        const chain = new FakeChain();
        for (const gap of gaps) chain.mine(1, gap);
        const times = new BlockTimes(chain, 12);
        const moment = chain.tip.timestamp - back;
        const expected = chain.blocks.findLast((header) => header.timestamp <= moment);
        for (let round = 0; round < 2; round++) {
          const found = await times.lastAt(moment, chain.tip, chain.tip.number);
          expect(found?.number).toBe(expected?.number);
        }
      },
    ),
    { numRuns: 200 },
  );
});

test("finds the block a day ago on a chain of irregular blocks in a few round trips, and from memory the second time", async () => {
  const chain = new FakeChain();
  for (let index = 0; index < 20_000; index++) chain.mine(1, index % 3 === 0 ? 24 : index % 100 === 0 ? 300 : 6);
  const times = new BlockTimes(chain, 12);
  await times.lastAt(chain.tip.timestamp - 86_400, chain.tip, chain.tip.number);
  expect(chain.requests.length).toBeLessThanOrEqual(8);
  chain.requests.length = 0;
  await times.lastAt(chain.tip.timestamp - 86_400, chain.tip, chain.tip.number);
  expect(chain.requests).toEqual([]);
});

describe("headers that the fastest endpoint lacks", () => {
  const momentOf = (chain: FakeChain, block: number): number => chain.blocks[block]!.timestamp;

  test("end the search if no endpoint has them, and the search works once an endpoint does", async () => {
    const { chain, times, all } = lacking((block) => block >= 500 && block <= 990);
    const find = (block: number) => times.lastAt(momentOf(chain, block), chain.tip, chain.tip.number);
    expect((await find(100))?.number).toBe(100);
    chain.requests.length = 0;
    await expect(find(700)).rejects.toMatchObject(UNAVAILABLE);
    expect(chain.requests.length).toBeLessThan(40);
    all.has = true;
    expect((await find(700))?.number).toBe(700);
  });

  test("are not mistaken for the beginning of the chain", async () => {
    const { chain, times, all } = lacking((block) => block < 900);
    const find = (block: number) => times.lastAt(momentOf(chain, block), chain.tip, chain.tip.number);
    await expect(find(700)).rejects.toMatchObject(UNAVAILABLE);
    all.has = true;
    expect((await find(700))?.number).toBe(700);
    expect(await times.lastAt(momentOf(chain, 0) - 1, chain.tip, chain.tip.number)).toBeUndefined();
  });

  test("make a request fail as retryable instead of omitting the requested field", async () => {
    const world = dollarWorld();
    const { chain } = world;
    world.pair(TOKEN, 10_000n, WETH, 100n);
    chain.mine(20_000);
    world.follower.start();
    const { header, headers } = chain;
    chain.headers = async (numbers) => numbers.map(() => undefined);
    chain.header = async () => undefined;
    await expect(world.price(TOKEN, { include: "percent_change" })).rejects.toMatchObject(UNAVAILABLE);
    Object.assign(chain, { header, headers });
    expect((await world.price(TOKEN, { include: "percent_change" }))["24hrPercentChange"]).toBe("0");
  });
});
