/** Records of an exploring route become objects in slices: a page may have megabytes of metadata. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { FILLED_ADDRESS, type FilledLog, filledLog } from "../../../scripts/bench/filled-log.ts";
import { first, stillChain } from "../../../scripts/bench/listing-page.ts";
import { recordsOf } from "../../../src/nft/listings/pages.ts";
import { NO_METADATA, type RecordFacts } from "../../../src/nft/listings/record.ts";
import { planPage } from "../../../src/nft/walks/plan.ts";

let filled: FilledLog;
beforeAll(async () => {
  filled = await filledLog({ tokens: 200, moves: 0 });
});
afterAll(async () => {
  await filled.close();
  filled.remove();
});

async function slicesOf(facts: RecordFacts): Promise<{ records: object[]; slices: number }> {
  const { collection } = await filled.hydrate();
  const { chain } = stillChain(collection);
  const { entries } = planPage({ chainId: 1, address: FILLED_ADDRESS }, collection, chain, first());
  const of = { address: FILLED_ADDRESS, collection, names: undefined };
  const work = recordsOf(of, entries, Array(entries.length).fill(facts), { native: false, hex: false });
  for (let slices = 1; ; slices++) {
    const { done, value } = work.next();
    if (done === true) return { records: value, slices };
  }
}

test("records without metadata are made in one slice", async () => {
  const { records, slices } = await slicesOf(NO_METADATA);
  expect([records.length, slices]).toEqual([100, 1]);
});

test("records with 50 KB each are made in slices of a few", async () => {
  const metadata = JSON.stringify("x".repeat(50_000));
  const { records, slices } = await slicesOf({ ...NO_METADATA, metadata });
  expect(records.map((record) => (record as { token_id: string }).token_id)).toEqual(
    (await slicesOf(NO_METADATA)).records.map((record) => (record as { token_id: string }).token_id),
  );
  expect(slices).toBeGreaterThan(15);
});
