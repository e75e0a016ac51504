import { expect, test } from "bun:test";
import fc from "fast-check";
import { BlockTimes } from "../../src/prices/blocktime.ts";
import { FakeChain } from "./support/fake-chain.ts";

test("the last block at or before a moment, whatever the block times", async () => {
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

test("a day back on a chain of irregular blocks takes a few round trips, and none the second time", async () => {
  const chain = new FakeChain();
  for (let index = 0; index < 20_000; index++) chain.mine(1, index % 3 === 0 ? 24 : index % 100 === 0 ? 300 : 6);
  const times = new BlockTimes(chain, 12);
  await times.lastAt(chain.tip.timestamp - 86_400, chain.tip, chain.tip.number);
  expect(chain.requests.length).toBeLessThanOrEqual(8);
  chain.requests.length = 0;
  await times.lastAt(chain.tip.timestamp - 86_400, chain.tip, chain.tip.number);
  expect(chain.requests).toEqual([]);
});
