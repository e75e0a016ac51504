/** A walk continues only on a process that knows at least as much of the chain as the one where it began. */

import { expect, test } from "bun:test";
import type { Address } from "../../../src/core/hex.ts";
import type { NftEvent, TransfersCommitted } from "../../../src/events/types.ts";
import { type Collection, evolve, initialState } from "../../../src/nft/collections/collection.ts";
import type { HotCollections } from "../../../src/nft/collections/hot-collections.ts";
import { openCursor, signCursor, type Walk } from "../../../src/nft/walks/cursor.ts";
import { planPage } from "../../../src/nft/walks/plan.ts";
import { currentCollection } from "../../../src/nft/walks/snapshot.ts";
import { committed, hash, identified } from "../../support/histories.ts";

const OF = { chainId: 1, address: `0x${"11".repeat(20)}` as Address };

/** Checksum of the chain's event of a version. */
const checksum = (version: number): number => 1_000 + version;

/** A process that shows `version` of the chain and can catch up to `logged`. `done` lists its actions in order. */
function source(version: number, logged: number) {
  const done: string[] = [];
  const chain = {
    version,
    head: () => undefined,
    finalized: () => undefined,
    header: () => undefined,
    isCanonical: () => true,
    catchUp: async (wanted: number) => {
      done.push(`catch up to ${wanted}`);
      chain.version = Math.min(wanted, logged);
    },
    checksumOf: async (of: number) => (of <= logged ? checksum(of) : undefined),
  };
  const collection: Collection = { ...initialState(), status: "synced", chainVersion: 3 };
  const get = async () => {
    done.push("read");
    return collection;
  };
  return { done, of: { chain, projections: { get, newest: get } as unknown as HotCollections } };
}

test("catches up with the chain version of the walk before it reads the collection", async () => {
  const { done, of } = source(5, 9);
  await currentCollection({ ...of, ...OF }, { base: 0, block: 10, chainVersion: 7, chainChecksum: checksum(7) });
  expect(done).toEqual(["catch up to 7", "read"]);
});

test("reads at once if it knows that version, or if a walk begins", async () => {
  for (const walk of [undefined, { base: 0, block: 10, chainVersion: 5, chainChecksum: checksum(5) }]) {
    const { done, of } = source(5, 9);
    await currentCollection({ ...of, ...OF }, walk);
    expect(done).toEqual(["read"]);
  }
});

test.each([
  ["lacks that version", 7, checksum(7)],
  ["has another event of that version", 4, checksum(4) + 1],
])("refuses the walk for good if the log %s, because it went back", async (_how, chainVersion, chainChecksum) => {
  const { of } = source(5, 6);
  const walk = currentCollection({ ...of, ...OF }, { base: 0, block: 10, chainVersion, chainChecksum });
  await expect(walk).rejects.toMatchObject({ code: "cursor_reorged" });
});

test("accepts the walk of an older release, whose cursors have no checksum", async () => {
  const { done, of } = source(5, 6);
  await currentCollection({ ...of, ...OF }, { base: 0, block: 10, chainVersion: 5, chainChecksum: undefined });
  expect(done).toEqual(["read"]);
});

test("marks a page of a joining collection as final only up to the chain's finalized block", () => {
  const header = (number: number) => ({ number, hash: hash(number) });
  const chain = {
    version: 3,
    head: () => header(2),
    finalized: () => header(0),
    header,
    isCanonical: () => true,
  };
  const shape = { hex: false, holders: false, withTotal: false };
  const first = { ...shape, limit: 10, asOfBlock: undefined, part: undefined };
  const collection = initialState();
  const finality = (event: NftEvent) => {
    evolve(collection, event, collection.version + 1, 0);
    const { walk, finalized } = planPage(OF, collection, chain, { first });
    return [collection.status, walk.block, finalized];
  };
  evolve(collection, identified, 1, 0);
  // Blocks read by a backfill are final, even if the chain is not followed that far yet.
  expect(finality(committed(0))).toEqual(["syncing", 0, true]);
  expect(finality(committed(1))).toEqual(["syncing", 1, true]);
  expect(finality({ ...(committed(2) as TransfersCommitted), chainVersion: 3 })).toEqual(["syncing", 2, false]);
  expect(finality({ type: "IndexingCompleted", block: 2, hash: hash(2) })).toEqual(["synced", 2, false]);
});

test("ends the walk of a followed collection whose history is read again, and not that of a backfill", () => {
  const header = (number: number) => ({ number, hash: hash(number) });
  const chain = { version: 3, head: () => header(2), finalized: () => header(0), header, isCanonical: () => true };
  const first = { hex: false, holders: false, withTotal: false, limit: 1, asOfBlock: undefined, part: undefined };
  const build = (events: readonly NftEvent[]) => {
    const collection = initialState();
    for (const event of [identified, ...events]) evolve(collection, event, collection.version + 1, 0);
    return collection;
  };
  const history = [0, 1, 2].map((block) => committed(block));
  const done: NftEvent = { type: "IndexingCompleted", block: 2, hash: hash(2) };
  const readAgain = build([...history, committed(3)]);
  const nextOf = (collection: Collection) => {
    const { walk, next } = planPage(OF, collection, chain, { first });
    const cursor = openCursor(signCursor({ ...walk, position: next, page: 1 }, "secret"), "secret") as Walk;
    return planPage(OF, readAgain, chain, { cursor });
  };
  expect(nextOf(build(history)).entries).toHaveLength(1);
  expect(() => nextOf(build([...history, done]))).toThrow("read again since, from final blocks");
});
