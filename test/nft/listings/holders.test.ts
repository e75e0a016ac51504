/**
 * Listings of holders that must be counted first. Counting runs in slices with event-loop turns between them, once for
 * any number of concurrent requests, and its result is true at its block despite new events, reverts and blocks
 * meanwhile. The log, the route and the fold are real.
 */

import { afterAll, describe, expect, test } from "bun:test";
import { listingOperations } from "../../../src/api/routes/listing.ts";
import type { NftChain } from "../../../src/api/wire/answered-block.ts";
import { systemClock } from "../../../src/core/clock.ts";
import type { Address, Hash } from "../../../src/core/hex.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { type BlockRef, type NftEvent, nftStream } from "../../../src/events/types.ts";
import { openLog } from "../../../src/log/open.ts";
import { type Collection, evolve, initialState } from "../../../src/nft/collections/collection.ts";
import { HotCollections } from "../../../src/nft/collections/hot-collections.ts";
import { sampleHoldings } from "../../../src/nft/indexing/audit.ts";
import { claimsOf } from "../../../src/nft/indexing/claims.ts";
import { countEntries, positionAfter, readSlice } from "../../../src/nft/ledger/listing.ts";
import { NO_METADATA } from "../../../src/nft/listings/record.ts";
import { documentOf } from "../../../src/nft/metadata/contract-document.ts";
import { NO_TEXT } from "../../../src/nft/metadata/resolve/normalize.ts";
import type { FirstPage } from "../../../src/nft/walks/cursor.ts";
import { currentPlan } from "../../../src/nft/walks/sliced-plan.ts";
import type { ShownChain } from "../../../src/nft/walks/snapshot.ts";
import { hash, identified } from "../../support/histories.ts";
import { KNOWN } from "../../support/known-chains.ts";
import { columnsOf, type ModelTransfer, modelListing, readable } from "../../support/naive-ledger.ts";
import { READER } from "../../support/requesters.ts";
import { temporaryLogUrl } from "../../support/service.ts";

const address = `0x${"be".repeat(20)}` as Address;
const BLOCKS = 300;
const PER_BLOCK = 40;
const { erc721, erc1155, range } = TransferKind;

/** A generator of numbers below `below`. The same seed gives the same numbers. */
function numbers(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0;
    return state % below;
  };
}

const OWNERS = 40;
type Draw = (below: number) => number;
type Make = (draw: Draw, block: number) => ModelTransfer;

const singles: Make = (draw, block) => {
  const isRanged = draw(3) === 0;
  const id = BigInt(isRanged ? 1_000_000 + draw(3_000) : draw(2_000));
  return { kind: erc721, block, from: 1 + draw(OWNERS), to: draw(OWNERS), id, amount: 1n };
};
const amounts: Make = (draw, block) => {
  const from = draw(2) === 0 ? 0 : 1 + draw(OWNERS);
  const to = draw(9) === 0 ? 0 : 1 + draw(OWNERS);
  return { kind: erc1155, block, from, to, id: BigInt(draw(200)), amount: BigInt(1 + draw(3)) };
};
/** The transfers in the history of each kind of collection. Ids of the range move among the others. */
const shapes: { readonly [what: string]: { readonly make: Make; readonly isRanged: boolean } } = {
  "tokens of one owner": { make: singles, isRanged: false },
  amounts: { make: amounts, isRanged: false },
  "tokens of one owner, many from an id range": { make: singles, isRanged: true },
  "every kind": { make: (draw, block) => (draw(2) === 0 ? singles : amounts)(draw, block), isRanged: true },
};
type Shape = (typeof shapes)[string];

function transfersOf({ make, isRanged }: Shape, seed: number, from: number, to: number): ModelTransfer[] {
  const draw = numbers(seed);
  const transfers: ModelTransfer[] = [];
  for (let block = from; block <= to; block++) {
    if (block === 0 && isRanged) {
      transfers.push({ kind: range, block, from: 0, to: 1, id: 1_000_000n, amount: 3_000n });
    }
    for (let i = 0; i < PER_BLOCK; i++) transfers.push(make(draw, block));
  }
  return transfers;
}

function committed(transfers: readonly ModelTransfer[], from: number, to: number, fork = 0): NftEvent {
  const [count, columns] = [transfers.length, columnsOf(transfers)];
  return {
    type: "TransfersCommitted",
    fromBlock: from,
    toBlock: to,
    toHash: forked(to, fork),
    count,
    transfers: columns,
  };
}

/** The hash of a block on one of several branches. */
const forked = (block: number, fork: number): Hash => hash(block + fork * 1_000_000);

const history = (transfers: readonly ModelTransfer[]): NftEvent[] => [
  { type: "IndexingRequested" },
  identified,
  committed(transfers, 0, BLOCKS),
  { type: "IndexingCompleted", block: BLOCKS, hash: hash(BLOCKS) },
];

/** Calls `each` in every turn of the event loop until the promise settles. Returns the number of turns. */
async function turnsUntil(promise: Promise<unknown>, each: (turn: number) => void = () => {}): Promise<number> {
  let isSettled = false;
  const settled = () => {
    isSettled = true;
  };
  promise.then(settled, settled);
  for (let turn = 0; ; turn++) {
    await new Promise<void>((resolve) => setImmediate(resolve));
    if (isSettled) return turn;
    each(turn);
  }
}

const log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
const projections = new HotCollections({ log, logger: silentLogger, maxBytes: 1e9 });
afterAll(async () => {
  await projections.close();
  await log.close();
});

/** The route over the real log, on a chain with a fixed head. */
async function routeOf(chainId: 1 | 56 | 137, transfers: readonly ModelTransfer[]) {
  await log.append({ stream: nftStream(chainId, address), events: history(transfers), expectedVersion: 0 });
  await projections.get(chainId, address);
  const head: BlockRef = { number: BLOCKS, hash: hash(BLOCKS) };
  const view: ShownChain = {
    version: 0,
    head: () => head,
    finalized: () => head,
    header: (number) => ({ number, hash: hash(number) }),
    isCanonical: () => true,
    catchUp: async () => {},
    checksumOf: () => undefined,
  };
  const chain: NftChain = {
    view,
    headerOf: async (block) => ({ number: block, hash: hash(block), parentHash: hash(block - 1), timestamp: block }),
    blockFacts: { timeOf: () => undefined, callsFor: () => ({ headers: 0, logs: 0 }), read: async () => [] },
    factsOf: async (_address, entries) => ({ facts: entries.map(() => NO_METADATA), isSettled: true, isWhole: true }),
    traitsOf: () => Promise.reject(new Error("no traits are read here")),
    outcomesOf: async () => [],
    documentOf: async () => documentOf({ ...NO_METADATA, normalized: NO_TEXT.normalized }, undefined),
    proofs: {
      prove: () => Promise.reject(new Error("nothing is proven here")),
      proveTransfer: () => Promise.reject(new Error("nothing is proven here")),
      compared: () => undefined,
    },
    lockedAt: async () => null,
    healthOf: async () => ({ resolved: 0, failed: 0, reasons: {}, failedTokens: [] }),
    metadataVersion: () => 0,
    trouble: () => undefined,
  };
  const [listing] = listingOperations(500);
  const deps = {
    projections,
    clock: systemClock,
    cursorSecret: "a secret of the tests",
    maxPageSize: 500,
    wireTypes: "native" as const,
    preview: async () => undefined,
    nftChain: () => chain,
    namesOf: () => undefined,
    chains: KNOWN,
    demand: { request: async () => undefined },
    isStale: () => false,
  };
  const name = KNOWN.byId(chainId)?.name;
  return async (query: string) => {
    const search = `chain=${name}&holders=true&${query}`;
    const request = new Request(`http://localhost/?${search}`);
    const answered = await listing?.handle(
      {
        request,
        search,
        params: { address },
        chains: KNOWN,
        requester: { ...READER, scope: "read", hash: Buffer.alloc(32) },
      },
      deps,
    );
    if (answered === undefined || !("cached" in answered)) throw new Error("a listing is cached");
    return JSON.parse(await answered.cached.answer.body.text()) as {
      total: number;
      result: { token_id: string; owner_of: string }[];
    };
  };
}

describe("a count of holders over the route", () => {
  const transfers = transfersOf(shapes["amounts"] as Shape, 1, 0, BLOCKS);
  const truth = (block: number) => modelListing(transfers, block, true);

  test("and a range leave event-loop turns to other work, and equal the naive model", async () => {
    const get = await routeOf(1, transfers);
    const asked = get("disable_total=false&as_of_block=290");
    expect(await turnsUntil(asked)).toBeGreaterThan(5);
    expect((await asked).total).toBe(truth(290).length);
    const part = get("totalRanges=10&range=9&as_of_block=280");
    expect(await turnsUntil(part)).toBeGreaterThan(5);
    const listed = truth(280);
    const begin = Math.floor((9 * listed.length) / 10);
    const ids = (await part).result.map(({ token_id }) => token_id);
    expect(ids).toEqual(listed.slice(begin, begin + 100).map(({ id }) => id));
  });

  test("of one block is made once for any number of requests", async () => {
    const get = await routeOf(137, transfers);
    const alone = await turnsUntil(get("disable_total=false&as_of_block=250"));
    const many = Array.from({ length: 20 }, (_, i) => get(`totalRanges=20&range=${i}&limit=500&as_of_block=251`));
    expect(await turnsUntil(Promise.all(many))).toBeLessThan(alone * 2);
    const results = (await Promise.all(many)).flatMap(({ result }) => result);
    expect(results.length).toBe(truth(251).length);
    // The count is known, so the answer comes at once.
    expect(await turnsUntil(get("disable_total=false&as_of_block=251"))).toBeLessThan(3);
  });

  test("adds the memory of its index to the collection's bytes", async () => {
    const ranged = transfersOf(shapes["tokens of one owner, many from an id range"] as Shape, 1, 0, BLOCKS);
    const get = await routeOf(56, ranged);
    const { ledger } = await projections.get(56, address);
    const before = { ledger: ledger.bytes, hot: projections.stats().bytes };
    await get("totalRanges=2&range=1&as_of_block=280");
    const index = ledger.pairIndexes.find(280);
    const gaps = [...(index?.gaps.values() ?? [])].map(({ byteLength }) => byteLength);
    expect(gaps).toEqual([expect.any(Number)]);
    const { bytes } = ledger.pairIndexes;
    expect(bytes).toBeGreaterThan((gaps[0] as number) + 100 * (index?.marks.length ?? 0));
    expect(ledger.bytes).toBe(before.ledger + bytes);
    expect(projections.stats().bytes).toBe(before.hot + bytes);
    ledger.revert(279);
    expect(ledger.pairIndexes.bytes).toBe(0);
  });

  test("is refused if too many blocks are being counted at once, and the other requests are answered", async () => {
    const source = sourceOf(replay(transfers), branchOf(0));
    const asked = Array.from({ length: 30 }, (_, i) => planOf(source, { withTotal: true, asOfBlock: 100 + i }));
    const outcomes = await Promise.allSettled(asked);
    const refused = outcomes.filter(({ status }) => status === "rejected");
    expect(refused.length).toBe(30 - 16);
    for (const outcome of refused) {
      expect((outcome as PromiseRejectedResult).reason).toMatchObject({ code: "rate_limited" });
    }
    for (const [i, outcome] of outcomes.entries()) {
      if (outcome.status === "fulfilled") expect(outcome.value.walk?.total).toBe(truth(100 + i).length);
    }
    const again = await planOf(source, { withTotal: true, asOfBlock: 129 });
    expect(again.walk?.total).toBe(truth(129).length);
  });
});

/** A chain that shows one branch. Blocks of other branches are not canonical. */
function branchOf(fork: number) {
  const chain = {
    version: 0,
    fork,
    /** Lower blocks are the same on all branches. */
    forkedAt: 0,
    number: BLOCKS,
    head: (): BlockRef => ({ number: chain.number, hash: chain.headerOf(chain.number) }),
    finalized: () => undefined,
    header: (number: number): BlockRef => ({ number, hash: chain.headerOf(number) }),
    isCanonical: (block: BlockRef) => block.hash === chain.headerOf(block.number),
    headerOf: (block: number) => forked(block, block < chain.forkedAt ? 0 : chain.fork),
    catchUp: async () => {},
    checksumOf: () => undefined,
  };
  return chain;
}

function sourceOf(collection: Collection, chain: ShownChain) {
  const get = async () => collection;
  const projections = { get, newest: get, updateSize: () => {} };
  return { collection, chain, projections: projections as unknown as HotCollections };
}

function planOf({ collection, ...source }: ReturnType<typeof sourceOf>, fields: Partial<FirstPage>) {
  const first = { limit: 100, hex: false, holders: true, withTotal: false, asOfBlock: undefined, part: undefined };
  const from = { first: { ...first, ...fields } };
  return (async () => currentPlan({ ...source, chainId: 1, address }, collection, from))();
}

function replay(transfers: readonly ModelTransfer[]): Collection {
  const state = initialState();
  for (const [i, event] of history(transfers).entries()) evolve(state, event, i + 1, 0);
  return state;
}

describe.each(Object.keys(shapes))("a listing of %s", (what) => {
  const shape = shapes[what] as Shape;
  const transfers = transfersOf(shape, 7, 0, BLOCKS);
  const BLOCK = 200;

  test("keeps the snapshot of its block while the history grows and forks above it", async () => {
    const collection = replay(transfers);
    const append = (event: NftEvent) => evolve(collection, event, collection.version + 1, 0);
    const asked = planOf(sourceOf(collection, branchOf(0)), {
      withTotal: true,
      asOfBlock: BLOCK,
      part: { range: 2, totalRanges: 3 },
    });
    const turns = await turnsUntil(asked, (turn) => {
      const end = collection.end?.number as number;
      if (turn % 3 === 2) {
        const number = Math.max(BLOCK, end - 1 - (turn % 50));
        append({ type: "BlocksReverted", ancestor: { number, hash: hash(number) } });
      } else append(committed(transfersOf(shape, turn, end + 1, end + 2), end + 1, end + 2));
    });
    expect(turns).toBeGreaterThan(5);
    const plan = await asked;
    const truth = modelListing(transfers, BLOCK, true);
    expect(plan.walk.total).toBe(truth.length);
    const begin = Math.floor((2 * truth.length) / 3);
    expect(readable(collection, plan.entries)).toEqual(truth.slice(begin, begin + 100));
    // Every position in the index, read from the present history.
    for (let skip = 0; skip <= truth.length; skip += 37) {
      const from = positionAfter(collection.ledger, BLOCK, true, skip);
      const slice = from && readSlice(collection.ledger, { block: BLOCK, holders: true, from, limit: 1 });
      expect(readable(collection, slice?.entries ?? [])).toEqual(truth.slice(skip, skip + 1));
    }
    expect(countEntries(collection.ledger, BLOCK, true)).toBe(truth.length);
  });

  test("starts again when a fork orphans its block, and shows the new branch", async () => {
    const collection = replay(transfers);
    const chain = branchOf(0);
    const append = (event: NftEvent) => evolve(collection, event, collection.version + 1, 0);
    const ancestor = BLOCKS - 20;
    const fresh = transfersOf(shape, 99, ancestor + 1, BLOCKS);
    const asked = planOf(sourceOf(collection, chain), {
      withTotal: true,
      asOfBlock: BLOCKS - 1,
      part: { range: 0, totalRanges: 2 },
    });
    await turnsUntil(asked, (turn) => {
      if (turn !== 3) return;
      Object.assign(chain, { fork: 1, forkedAt: ancestor + 1 });
      append({ type: "BlocksReverted", ancestor: { number: ancestor, hash: hash(ancestor) } });
      append(committed(fresh, ancestor + 1, BLOCKS, 1));
    });
    const { walk, entries, snapshot } = await asked;
    const truth = modelListing([...transfers.filter(({ block }) => block <= ancestor), ...fresh], BLOCKS - 1, true);
    expect(walk).toMatchObject({ block: BLOCKS - 1, hash: forked(BLOCKS - 1, 1), total: truth.length });
    expect(snapshot.version).toBe(collection.version);
    expect(readable(collection, entries)).toEqual(truth.slice(0, Math.min(100, Math.floor(truth.length / 2))));
  });
});

describe("a page after many holdings that were given away", () => {
  /** Ten thousand holdings that were minted and burned, one token with as many owners, and a few present holdings. */
  const gone = Array.from({ length: 10_000 }, (_, i): ModelTransfer[] => {
    const block = 1 + Math.floor(i / 100);
    const person = 2 + i;
    return [
      { kind: erc1155, block, from: 0, to: person, id: 7n, amount: 1n },
      { kind: erc1155, block, from: person, to: 0, id: 7n, amount: 1n },
      { kind: erc721, block, from: i === 0 ? 0 : 1 + (i % 30), to: 1 + ((i + 1) % 30), id: 1n, amount: 1n },
    ];
  }).flat();
  const held = Array.from({ length: 150 }, (_, i): ModelTransfer => {
    return { kind: erc1155, block: 150, from: 0, to: 1 + i, id: BigInt(i), amount: 2n };
  });
  const transfers = [...gone, ...held];
  const truth = modelListing(transfers, BLOCKS, true);

  test("is read in slices while the history grows", async () => {
    const collection = replay(transfers);
    const asked = planOf(sourceOf(collection, branchOf(0)), { asOfBlock: BLOCKS });
    const turns = await turnsUntil(asked, (turn) => {
      const event = committed(
        transfersOf(shapes["every kind"] as Shape, turn, BLOCKS + 1, BLOCKS + 1),
        BLOCKS + 1,
        BLOCKS + 1,
      );
      const ancestor = { number: BLOCKS, hash: hash(BLOCKS) };
      if (turn % 2 === 0) evolve(collection, event, collection.version + 1, 0);
      else evolve(collection, { type: "BlocksReverted", ancestor }, collection.version + 1, 0);
    });
    expect(turns).toBeGreaterThan(5);
    expect(readable(collection, (await asked).entries)).toEqual(truth.slice(0, 100));
  });

  test("continues by its cursor, and starts again when a fork orphans its block", async () => {
    const collection = replay(transfers);
    const source = sourceOf(collection, branchOf(0));
    const { walk, next } = await planOf(source, {});
    const cursor = { ...walk!, chainId: 1, address, position: next!, page: 1, left: undefined };
    const rest = await currentPlan({ ...source, chainId: 1, address }, collection, { cursor });
    expect(readable(collection, rest.entries)).toEqual(truth.slice(100, 200));

    const ancestor = BLOCKS - 200;
    const fresh = held.map((one) => ({ ...one, amount: 3n }));
    const asked = planOf(source, {});
    await turnsUntil(asked, (turn) => {
      if (turn !== 2) return;
      Object.assign(source.chain, { fork: 1, forkedAt: ancestor + 1 });
      evolve(
        collection,
        { type: "BlocksReverted", ancestor: { number: ancestor, hash: hash(ancestor) } },
        collection.version + 1,
        0,
      );
      evolve(collection, committed(fresh, ancestor + 1, BLOCKS, 1), collection.version + 1, 0);
    });
    const after = modelListing([...gone.filter(({ block }) => block <= ancestor), ...fresh], BLOCKS, true);
    const plan = await asked;
    expect(plan.walk.hash).toBe(forked(BLOCKS, 1));
    expect(readable(collection, plan.entries)).toEqual(after.slice(0, 100));
  });
});

describe("a page of tokens with a long history at an early block", () => {
  /** One token of each kind that moves to and fro, and some that don't move. */
  const moves = Array.from({ length: 100_000 }, (_, i): ModelTransfer[] => {
    const block = 2 + Math.floor(i / 1_000);
    const [from, to] = i % 2 === 0 ? [1, 2] : [2, 1];
    return [
      { kind: erc721, block, from, to, id: 1n, amount: 1n },
      { kind: erc1155, block, from, to, id: 7n, amount: 2n },
    ];
  }).flat();
  const minted = Array.from({ length: 20 }, (_, i): ModelTransfer[] => [
    { kind: erc721, block: 1, from: 0, to: 1, id: BigInt(i), amount: 1n },
    { kind: erc1155, block: 1, from: 0, to: 1, id: BigInt(i), amount: 2n },
  ]).flat();
  const transfers = [...minted, ...moves];
  const collection = replay(transfers);

  test("is read in slices the first time, at once the second time, and again after a fork orphans its block", async () => {
    const chain = branchOf(0);
    const source = sourceOf(collection, chain);
    const asked = planOf(source, { holders: false, asOfBlock: 1 });
    expect(await turnsUntil(asked)).toBeGreaterThan(5);
    const truth = modelListing(minted, 1, false);
    expect(readable(collection, (await asked).entries)).toEqual(truth);
    expect(await turnsUntil(planOf(source, { holders: false, asOfBlock: 1 }))).toBeLessThan(2);
    const later = planOf(source, { holders: false, asOfBlock: 40, part: { range: 1, totalRanges: 2 } });
    expect(await turnsUntil(later)).toBeLessThan(2);
    const half = modelListing(
      transfers.filter(({ block }) => block <= 40),
      40,
      false,
    );
    expect(readable(collection, (await later).entries)).toEqual(half.slice(20));
    // Tokens without a transfer are read at once in any case.
    expect(await turnsUntil(planOf(source, { holders: false }))).toBeLessThan(2);

    evolve(
      collection,
      { type: "BlocksReverted", ancestor: { number: 101, hash: hash(101) } },
      collection.version + 1,
      0,
    );
    evolve(
      collection,
      committed(
        moves.map((one) => ({ ...one, block: 102 })),
        102,
        BLOCKS,
      ),
      collection.version + 1,
      0,
    );
    const fresh = [{ kind: erc721, block: 1, from: 0, to: 3, id: 99n, amount: 1n }];
    const again = planOf(source, { holders: false, asOfBlock: 1 });
    const turns = await turnsUntil(again, (turn) => {
      if (turn !== 2) return;
      Object.assign(chain, { fork: 1, forkedAt: 1 });
      const ancestor = { number: 0, hash: hash(0) };
      evolve(collection, { type: "BlocksReverted", ancestor }, collection.version + 1, 0);
      evolve(collection, committed(fresh, 1, BLOCKS, 1), collection.version + 1, 0);
    });
    expect(turns).toBeGreaterThan(2);
    const { walk, entries } = await again;
    expect(walk?.hash).toBe(forked(1, 1));
    expect(readable(collection, entries)).toEqual(modelListing(fresh, 1, false));
  });
});

describe("a range of tokens with a long history at an early block", () => {
  /**
   * One token that moves to and fro, among tokens of which some were burned. So the start of a range must be searched.
   */
  const minted = Array.from({ length: 40 }, (_, i): ModelTransfer[] => [
    { kind: erc721, block: 1, from: 0, to: 1, id: BigInt(i), amount: 1n },
    ...(i % 5 === 4 ? [{ kind: erc721, block: 1, from: 1, to: 0, id: BigInt(i), amount: 1n }] : []),
  ]).flat();
  const moves = Array.from({ length: 200_000 }, (_, i): ModelTransfer => {
    const [from, to] = i % 2 === 0 ? [1, 2] : [2, 1];
    return { kind: erc721, block: 2 + Math.floor(i / 1_000), from, to, id: 1n, amount: 1n };
  });

  test("is found in slices the first time, and at once the second time", async () => {
    const source = sourceOf(replay([...minted, ...moves]), branchOf(0));
    const truth = modelListing(minted, 1, false);
    const ask = () => planOf(source, { holders: false, asOfBlock: 1, part: { range: 1, totalRanges: 2 } });
    const [first, steps] = [ask(), source.collection.ledger.steps];
    let [most, before] = [0, steps.count];
    const turns = await turnsUntil(first, () => {
      most = Math.max(most, steps.count - before);
      before = steps.count;
    });
    expect(turns).toBeGreaterThan(5);
    expect(most).toBeLessThan(moves.length / 4);
    expect(readable(source.collection, (await first).entries)).toEqual(truth.slice(16));
    expect(await turnsUntil(ask())).toBeLessThan(2);
  });
});

describe("during a count", () => {
  const shape = shapes["amounts"] as Shape;
  const transfers = transfersOf(shape, 3, 0, BLOCKS);

  test("a fork of blocks without transfers moves the page to the new branch", async () => {
    const collection = replay(transfers);
    const chain = branchOf(0);
    chain.number = BLOCKS + 10;
    const asked = planOf(sourceOf(collection, chain), { part: { range: 1, totalRanges: 2 } });
    await turnsUntil(asked, (turn) => {
      if (turn === 2) Object.assign(chain, { version: 1, fork: 1, forkedAt: BLOCKS + 5 });
    });
    const plan = await asked;
    expect(plan.walk).toMatchObject({ block: BLOCKS + 10, hash: forked(BLOCKS + 10, 1), chainVersion: 1 });
  });

  test("a head that falls below the page's block moves the page to the new head", async () => {
    const collection = replay(transfers);
    const chain = branchOf(0);
    const asked = planOf(sourceOf(collection, chain), { withTotal: true, part: { range: 1, totalRanges: 2 } });
    await turnsUntil(asked, (turn) => {
      if (turn !== 2) return;
      chain.number = BLOCKS - 7;
      const ancestor = { number: BLOCKS - 7, hash: hash(BLOCKS - 7) };
      evolve(collection, { type: "BlocksReverted", ancestor }, collection.version + 1, 0);
    });
    const { walk } = await asked;
    expect(walk).toMatchObject({ block: BLOCKS - 7, total: modelListing(transfers, BLOCKS - 7, true).length });
  });

  test("reverts of the block in every turn do not keep the request from ending with a true answer", async () => {
    const collection = replay(transfers);
    const append = (event: NftEvent) => evolve(collection, event, collection.version + 1, 0);
    let truth = transfers;
    const asked = planOf(sourceOf(collection, branchOf(0)), { withTotal: true, asOfBlock: BLOCKS - 1 });
    let reverts = 0;
    await turnsUntil(asked, (turn) => {
      const ancestor = BLOCKS - 10;
      const fresh = transfersOf(shape, 1_000 + turn, ancestor + 1, BLOCKS);
      append({ type: "BlocksReverted", ancestor: { number: ancestor, hash: hash(ancestor) } });
      append(committed(fresh, ancestor + 1, BLOCKS));
      truth = [...truth.filter(({ block }) => block <= ancestor), ...fresh];
      reverts++;
    });
    expect(reverts).toBeGreaterThan(2);
    expect((await asked).walk?.total).toBe(modelListing(truth, BLOCKS - 1, true).length);
  });

  test("a later event does not raise the version by which the page is cached", async () => {
    const collection = replay(transfers);
    const before = collection.version;
    const asked = planOf(sourceOf(collection, branchOf(0)), { withTotal: true, asOfBlock: BLOCKS - 9 });
    await turnsUntil(asked, (turn) => {
      if (turn !== 1) return;
      evolve(
        collection,
        committed(transfersOf(shape, 5, BLOCKS + 1, BLOCKS + 1), BLOCKS + 1, BLOCKS + 1),
        before + 1,
        0,
      );
    });
    expect((await asked).snapshot.version).toBe(before);
    expect(collection.version).toBe(before + 1);
  });
});

describe.each(Object.keys(shapes))("a sample of %s", (what) => {
  test("contains only true holdings, and builds no index", () => {
    const transfers = transfersOf(shapes[what] as Shape, 21, 0, BLOCKS);
    const collection = replay(transfers);
    const draw = numbers(5);
    const random = () => draw(2 ** 31) / 2 ** 31;
    for (const block of [0, 150, BLOCKS]) {
      const truth = modelListing(transfers, block, true);
      const known = new Set(truth.map(({ kind, id, owner, amount }) => `${kind}/${id}/${owner}/${amount}`));
      const holdings = sampleHoldings(collection, block, { count: 200, random });
      const drawn = holdings.map(({ kind, id, owner, amount }) => `${kind}/${id}/${Number(owner)}/${amount}`);
      expect(drawn.filter((one) => !known.has(one))).toEqual([]);
      expect(new Set(drawn).size).toBeGreaterThan(Math.min(known.size, 100) / 4);
      expect(collection.ledger.pairIndexes.find(block)).toBeUndefined();
    }
  });

  test("is asked for each holding once, so that none counts as two confirmed ones", async () => {
    const transfers = transfersOf(shapes[what] as Shape, 21, 0, BLOCKS);
    const collection = replay(transfers);
    const draw = numbers(5);
    const random = () => draw(2 ** 31) / 2 ** 31;
    const { holdings, of } = await claimsOf(collection, address, BLOCKS, { most: 40, isCounted: false, random });
    expect(holdings.length).toBeGreaterThan(10);
    expect(new Set(holdings.map(({ call }) => call.data)).size).toBe(holdings.length);
    expect(of).toBe(modelListing(transfers, BLOCKS, true).length);
  });
});
