/**
 * Readings of a large collection, over a real log: the event loop goes on while they run, and they end with their client.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { personAddress } from "../../../scripts/bench/fill.ts";
import { FILLED_ADDRESS, type FilledLog, filledLog } from "../../../scripts/bench/filled-log.ts";
import { stillChain } from "../../../scripts/bench/listing-page.ts";
import { Budget } from "../../../src/core/budget.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { runInSlices } from "../../../src/core/turns.ts";
import { HotCollections } from "../../../src/nft/collections/hot-collections.ts";
import { findEntries, ownedEntries, transfersPage } from "../../../src/nft/explore/walks.ts";
import { HolderRanking, rankHolders } from "../../../src/nft/exports/holders.ts";
import type { WalkSource } from "../../../src/nft/walks/snapshot.ts";
import { type StartedWalk, startWalk } from "../../../src/nft/walks/walk.ts";

const TOKENS = 60_000;
const WHALE = personAddress(1);

let filled: FilledLog;
beforeAll(async () => {
  filled = await filledLog({ tokens: TOKENS, moves: 1, people: 1 / 3, whales: 2 });
});
afterAll(async () => {
  await filled.close();
  filled.remove();
});

/** The collection in an empty memory, and the start of a walk through its pairs or tokens. */
async function opened(byPair: boolean): Promise<{ source: WalkSource; start: StartedWalk }> {
  const projections = new HotCollections({ log: filled.log, logger: silentLogger, maxBytes: 2 ** 30 });
  const { chain } = stillChain(await projections.get(1, FILLED_ADDRESS));
  const source = { projections, chain, chainId: 1, address: FILLED_ADDRESS } as WalkSource;
  return { source, start: await startWalk(source, { asOfBlock: undefined, byPair }) };
}

/** Counts the turns of the event loop until the promise settles, and calls `each` in each of them. */
async function turnsUntil(promise: Promise<unknown>, each: (turn: number) => void = () => undefined): Promise<number> {
  let isSettled = false;
  const settle = () => {
    isSettled = true;
  };
  promise.then(settle, settle);
  for (let turn = 0; ; turn++) {
    await new Promise<void>((resolve) => setImmediate(resolve));
    if (isSettled) return turn;
    each(turn);
  }
}

const all = () => true;
/** Each reading, with the least number of its slices. */
const READINGS = {
  "a ranking of holders": { byPair: true, slices: 20, read: rankHolders },
  "tokens of an owner": {
    byPair: true,
    slices: 10,
    read: (source: WalkSource, start: StartedWalk) => ownedEntries(source, start, 10, { owner: WHALE, matches: all }),
  },
  "tokens that match": {
    byPair: false,
    slices: 100,
    read: (source: WalkSource, start: StartedWalk) => findEntries(source, start, 10, () => false),
  },
  "transfers from an owner": {
    byPair: false,
    slices: 10,
    read: (source: WalkSource, start: StartedWalk) =>
      transfersPage(source, start, { from: WHALE }, { isFirst: true, limit: 10 }),
  },
} as const;

describe.each(Object.entries(READINGS))("%s", (_name, { byPair, slices, read }) => {
  test("lets the event loop turn between its slices", async () => {
    const { source, start } = await opened(byPair);
    const reading = read(source, start);
    expect(await turnsUntil(reading)).toBeGreaterThan(slices);
    expect(await reading).toBeDefined();
  });

  test("ends within a slice once its client is gone, and leaves nothing that a later reading misses", async () => {
    const { source, start } = await opened(byPair);
    const expected = await read(source, start);
    const other = await opened(byPair);
    const client = new AbortController();
    const reading = new Budget({ signal: client.signal }).run(() => read(other.source, other.start));
    const gone = new Error("the client is gone");
    const turns = await turnsUntil(reading, (turn) => {
      if (turn === 3) client.abort(gone);
    });
    await expect(reading).rejects.toBe(gone);
    expect(turns).toBeLessThan(8);
    const again = await read(other.source, other.start);
    const shown = (value: Awaited<ReturnType<typeof read>>) => {
      if (value instanceof HolderRanking) return value.slice(0, 1_000);
      return "places" in value ? [value.entries, value.places] : value;
    };
    expect(shown(again)).toEqual(shown(expected));
  });
});

test("work in slices ends before its next slice once its client is gone", async () => {
  const client = new AbortController();
  let slices = 0;
  const work = function* (): Generator<void, string> {
    for (; slices < 100; slices++) {
      if (slices === 5) client.abort(new Error("gone"));
      yield;
    }
    return "done";
  };
  await expect(new Budget({ signal: client.signal }).run(() => runInSlices(work()))).rejects.toThrow("gone");
  expect(slices).toBeLessThan(7);
});
