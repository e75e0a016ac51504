/** A collection joins over final blocks without kept headers. Its logs are checked by headers linked to the head. */
import { afterAll, expect, test } from "bun:test";
import { ForkedAnswersError } from "../../../src/chain/branch.ts";
import { DEFAULT_CHAIN } from "../../../src/chains/chains.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { AppError } from "../../../src/core/errors.ts";
import type { Address, Hash } from "../../../src/core/hex.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { type BlockRef, chainStream, nftStream } from "../../../src/events/types.ts";
import type { StreamHead } from "../../../src/log/event-log.ts";
import { openLog } from "../../../src/log/open.ts";
import { REQUESTED } from "../../../src/nft/collections/headline.ts";
import { type FollowedCollection, FollowedStreams } from "../../../src/nft/indexing/collection-streams.ts";
import { JoiningCollections } from "../../../src/nft/indexing/joining.ts";
import { TRANSFER } from "../../../src/rpc/decode/transfer-topics.ts";
import type { BlockHeader, ChainLog, ChainReader, CompleteLogsOptions, LogFilter } from "../../../src/rpc/port.ts";
import { RpcError } from "../../../src/rpc/rpc-errors.ts";
import { temporaryLogUrl } from "../../support/service.ts";

const address = `0x${"a".repeat(40)}` as Address;
const HEAD = 20;
/** Newer blocks are not final, and their headers are kept. */
const FINAL = 15;
/** The last common block of the two branches, and the head of an endpoint stuck on the losing branch. */
const [PARTING, STUCK] = [7, 10];

const hashOf = (number: number, branch = 0) => `0x${branch}${number.toString(16).padStart(63, "0")}` as Hash;
const branchOf = (number: number, isLosing: boolean) => (isLosing && number > PARTING && number <= STUCK ? 1 : 0);
const header = (number: number, isLosing = false): BlockHeader => ({
  number,
  hash: hashOf(number, branchOf(number, isLosing)),
  parentHash: hashOf(number - 1, isLosing && number <= STUCK ? branchOf(number - 1, true) : 0),
  timestamp: number * 12,
  logsBloom: `0x${"f".repeat(512)}`,
});
const word = (value: number) => `0x${value.toString(16).padStart(64, "0")}` as Hash;
const mint = (number: number, id: number, isLosing: boolean): ChainLog => ({
  address,
  topics: [TRANSFER, word(0), word(1), word(id)],
  data: "0x",
  blockNumber: number,
  blockHash: hashOf(number, branchOf(number, isLosing)),
  transactionHash: word(number),
  transactionIndex: 0,
  logIndex: 0,
});

const log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
afterAll(() => log.close());

interface Lies {
  readonly headers: boolean;
  readonly logs: boolean;
  /** Returns the error of reading this collection's logs, if it fails. */
  readonly failing?: (address: Address | undefined) => Error | undefined | Promise<Error | undefined>;
}

/** A reader with headers or logs from the losing branch, as far as that branch goes. */
function joining(lies: Lies) {
  const joined: FollowedCollection[] = [];
  const failed: Address[] = [];
  const wanted: (BlockRef | undefined)[] = [];
  const handedBack: StreamHead[] = [];
  let now = 0;
  const reader = {
    presentHeaders: async (numbers: readonly number[]) => numbers.map((number) => header(number, lies.headers)),
    completeLogs: async ({ addresses }: LogFilter, _headers: unknown, { requiredBlock }: CompleteLogsOptions) => {
      wanted.push(requiredBlock);
      const failure = await lies.failing?.(addresses[0]);
      if (failure !== undefined) throw failure;
      return [mint(5, 1, false), mint(9, lies.logs ? 3 : 2, lies.logs)];
    },
  } as unknown as ChainReader;
  const observer = { malformed: () => undefined } as never;
  const streams = new FollowedStreams({ chain: DEFAULT_CHAIN, log, clock: systemClock, observer });
  const collections = new JoiningCollections({
    reader,
    streams,
    clock: { ...systemClock, now: () => now },
    verify: "sample",
    onJoined: (followed) => joined.push(followed),
    onHandedBack: (head) => handedBack.push(head),
    onMovedOn: async () => undefined,
    onPartRead: () => undefined,
    onFailed: ({ address }) => failed.push(address),
  });
  const pass = (ms: number) => {
    now += ms;
  };
  return { collections, streams, joined, failed, wanted, handedBack, pass };
}

test("refuses logs or headers of a losing branch, and accepts those of the winning branch", async () => {
  await log.append({ stream: nftStream(1, address), events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
  const chainVersion = await log.append({
    stream: chainStream(1),
    events: [{ type: "FollowingBegan", holder: "test" }],
    expectedVersion: 0,
  });
  const state = { ...REQUESTED, status: "joining" as const, forms: ["erc721" as const], startBlock: 1 };
  const headerOf = (number: number) => (number > FINAL ? header(number) : undefined);
  const all = [
    { headers: true, logs: true },
    { headers: true, logs: false },
    { headers: false, logs: true },
  ];
  for (const lies of all) {
    const { collections, joined } = joining(lies);
    collections.add({ address, version: 1, state });
    const failure = await collections
      .join({ head: header(HEAD), final: FINAL, headerOf })
      .catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ForkedAnswersError);
    expect(joined).toEqual([]);
  }
  expect((await log.head(nftStream(1, address))).version).toBe(1);

  const { collections, streams, joined } = joining({ headers: false, logs: false });
  streams.chain = { version: chainVersion, headers: new Map() };
  collections.add({ address, version: 1, state });
  await collections.join({ head: header(HEAD), final: FINAL, headerOf });
  expect(joined).toMatchObject([{ address, state: { status: "following", end: HEAD, endHash: hashOf(HEAD) } }]);
  const events = await log.read(nftStream(1, address), { from: 2 });
  expect(events.map(({ event }) => event.type)).toEqual(["TransfersCommitted", "IndexingCompleted"]);
});

test("requires an endpoint that has the head when headers do not cover the range", async () => {
  const state = { ...REQUESTED, status: "joining" as const, forms: ["erc721" as const], startBlock: 1 };
  for (const [head, isCovered] of [
    [512, true],
    [513, false],
  ] as const) {
    const { collections, wanted } = joining({ headers: false, logs: false });
    // The stream isn't at this version, so the join only reads and writes nothing.
    collections.add({ address, version: 7, state });
    await collections.join({ head: header(head), final: FINAL, headerOf: () => undefined }).catch(() => undefined);
    expect(wanted).toEqual([isCovered ? undefined : header(head)]);
  }
});

test("joins the other collections although one cannot be read, temporarily or permanently", async () => {
  const [bad, slow, ...good] = ["1", "2", "3", "4"].map((digit) => `0x${digit.repeat(40)}` as Address);
  let isMended = false;
  const { collections, streams, joined, failed, pass } = joining({
    headers: false,
    logs: false,
    failing: (of) => {
      if (of === bad && !isMended) return new AppError("too large", { code: "block_too_large" });
      return of === slow && !isMended ? new AppError("no answer", { code: "x", retryable: true }) : undefined;
    },
  });
  const chain = await log.head(chainStream(1));
  streams.chain = { version: chain.version, headers: new Map() };
  const state = { ...REQUESTED, status: "joining" as const, forms: ["erc721" as const], startBlock: 1 };
  for (const address of [bad, slow, ...good] as Address[]) {
    await log.append({ stream: nftStream(1, address), events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
    collections.add({ address, version: 1, state });
  }
  const headerOf = (number: number) => (number > FINAL ? header(number) : undefined);
  const join = () => collections.join({ head: header(HEAD), final: FINAL, headerOf }).catch((error: unknown) => error);
  // A transient failure is retried at the next poll, after the other collections. A permanent one waits for its
  // backoff.
  expect(await join()).toMatchObject({ retryable: true });
  expect(await join()).toMatchObject({ retryable: true });
  expect(joined.map(({ address }) => address)).toEqual(good);
  expect(failed).toEqual([bad!]);
  const last = (await log.read(nftStream(1, bad!))).at(-1)?.event;
  expect(last).toMatchObject({ type: "IndexingFailed", attempt: 1, reason: "too large" });
  isMended = true;
  await join();
  expect(joined.map(({ address }) => address)).toEqual([...good, slow!]);
  pass(5_000);
  await join();
  expect(joined.at(-1)).toMatchObject({ address: bad, state: { status: "following", attempt: 0, retryAt: 0 } });
});

test("waits for the retry of a collection that failed, but not for a time that only a wrong clock can have set", async () => {
  const [soon, never] = ["b", "c"].map((digit) => `0x${digit.repeat(40)}` as Address) as [Address, Address];
  const { collections, streams, joined } = joining({ headers: false, logs: false });
  streams.chain = { version: (await log.head(chainStream(1))).version, headers: new Map() };
  for (const [address, ms] of [
    [soon, 600_000],
    [never, 7_200_000],
  ] as const) {
    await log.append({ stream: nftStream(1, address), events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
    const state = { ...REQUESTED, status: "joining" as const, forms: ["erc721" as const], startBlock: 1 };
    collections.add({ address, version: 1, state: { ...state, attempt: 1, retryAt: ms } });
  }
  const headerOf = (number: number) => (number > FINAL ? header(number) : undefined);
  expect(await collections.join({ head: header(HEAD), final: FINAL, headerOf })).toBe(true);
  expect(joined.map(({ address }) => address)).toEqual([never]);
});

test("does not join a history that ends on a block of another branch, even if that block was final to its reader", async () => {
  const parted = `0x${"8".repeat(40)}` as Address;
  await log.append({ stream: nftStream(1, parted), events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
  // First with headers for all blocks after it, then with headers for the newest blocks only.
  for (const [version, head] of [
    [1, HEAD],
    [2, 700],
  ] as const) {
    const { collections, streams, joined, failed } = joining({ headers: false, logs: false });
    streams.chain = { version: (await log.head(chainStream(1))).version, headers: new Map() };
    const state = { ...REQUESTED, status: "joining" as const, end: 9, endHash: hashOf(9, 1) };
    collections.add({ address: parted, version, state });
    expect(
      await collections
        .join({ head: header(head), final: FINAL, headerOf: () => undefined })
        .catch((error: unknown) => error),
    ).toBe(true);
    expect([joined, failed]).toEqual([[], [parted]]);
    const last = (await log.read(nftStream(1, parted))).at(-1)?.event;
    expect(last).toMatchObject({ type: "IndexingFailed", reason: expect.stringContaining("block 9") });
  }
});

test("backs off from a collection that fails in several polls, and records the failure", async () => {
  const slow = `0x${"7".repeat(40)}` as Address;
  const { collections, streams, failed, pass } = joining({
    headers: false,
    logs: false,
    failing: () => new AppError("no answer", { code: "chain_unavailable", retryable: true }),
  });
  streams.chain = { version: (await log.head(chainStream(1))).version, headers: new Map() };
  const state = { ...REQUESTED, status: "joining" as const, forms: ["erc721" as const], startBlock: 1 };
  await log.append({ stream: nftStream(1, slow), events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
  collections.add({ address: slow, version: 1, state });
  const join = () =>
    collections.join({ head: header(HEAD), final: FINAL, headerOf: () => undefined }).catch((error: unknown) => error);
  for (let look = 1; look <= 2; look++) expect(await join()).toMatchObject({ retryable: true });
  expect(await join()).toBe(true);
  expect(failed).toEqual([slow]);
  // Meanwhile the chain's polls don't fail because of it.
  expect(await join()).toBe(true);
  const last = (await log.read(nftStream(1, slow))).at(-1)?.event;
  expect(last).toMatchObject({ type: "IndexingFailed", attempt: 1, reason: "no answer" });
  pass(5_000);
  expect(await join()).toMatchObject({ retryable: true });
});

test("joins a collection that failed as soon as it can be read, whatever the outcome of the append it waited for", async () => {
  const [failing, given] = ["5", "6"].map((digit) => `0x${digit.repeat(40)}` as Address) as [Address, Address];
  const state = { ...REQUESTED, status: "joining" as const, forms: ["erc721" as const], startBlock: 1 };
  const headerOf = (number: number) => (number > FINAL ? header(number) : undefined);
  const headOf = async (address: Address) => {
    const stream = nftStream(1, address);
    await log.append({ stream, events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
    return log.head(stream);
  };
  let failure: Error | undefined = new RpcError("state_unavailable", "pruned history unavailable");
  const reading = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  let isHeld = true;
  const { collections, streams, joined, failed, pass } = joining({
    headers: false,
    logs: false,
    failing: async (of) => {
      if (of === given && isHeld) {
        begun.resolve();
        await reading.promise;
        return new AppError("no answer", { code: "x", retryable: true });
      }
      return of === failing ? failure : undefined;
    },
  });
  streams.chain = { version: (await log.head(chainStream(1))).version, headers: new Map() };
  const join = () => collections.join({ head: header(HEAD), final: FINAL, headerOf }).catch((error: unknown) => error);
  // A permanent failure is recorded on the collection. The next attempt starts from the version after that record.
  collections.expect(failing, state, headOf(failing));
  expect(await join()).toBe(true);
  expect(failed).toEqual([failing]);
  failure = undefined;
  pass(5_000);
  expect(await join()).toBe(true);
  expect(joined.map(({ address }) => address)).toEqual([failing]);
  // The first append fails while logs are read, and the append of the next attempt arrives before the read ends.
  const append = Promise.withResolvers<StreamHead>();
  collections.expect(given, state, append.promise);
  const first = join();
  await begun.promise;
  append.reject(new Error("the append failed"));
  await append.promise.catch(() => undefined);
  collections.expect(given, state, headOf(given));
  reading.resolve();
  expect(await first).toMatchObject({ retryable: true });
  isHeld = false;
  expect(await join()).toBe(true);
  expect(joined.map(({ address }) => address)).toEqual([failing, given]);
});

test("hands a collection that is far behind back to a job, without an event, and only as the chain's follower", async () => {
  const slow = `0x${"12".repeat(20)}` as Address;
  const state = { ...REQUESTED, status: "joining" as const, forms: ["erc721" as const], startBlock: 1 };
  const stream = nftStream(1, slow);
  await log.append({ stream, events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
  const { collections, streams, joined, handedBack } = joining({ headers: false, logs: false });
  const { version } = await log.head(chainStream(1));
  const join = () =>
    collections
      .join({ head: header(20_000), final: 19_936, headerOf: () => undefined })
      .catch((error: unknown) => error);
  streams.chain = { version: version + 1, headers: new Map() };
  collections.add({ address: slow, version: 1, state });
  expect(await join()).toMatchObject({ code: "concurrency", stream: chainStream(1) });
  expect((await log.head(stream)).headline).toBeUndefined();
  streams.chain = { version, headers: new Map() };
  collections.add({ address: slow, version: 1, state });
  expect(await join()).toBe(true);
  expect(handedBack).toEqual([await log.head(stream)]);
  expect(handedBack[0]).toMatchObject({ version: 1, headline: { status: "backfilling" } });
  expect({ joined, isWaiting: collections.isWaiting }).toEqual({ joined: [], isWaiting: false });
});

test("joins a collection once although its own append announced it a second time during the join", async () => {
  const told = `0x${"9".repeat(40)}` as Address;
  const state = { ...REQUESTED, status: "joining" as const, forms: ["erc721" as const], startBlock: 1 };
  const stream = nftStream(1, told);
  await log.append({ stream, events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
  const { collections, streams, joined, wanted } = joining({
    headers: false,
    logs: false,
    failing: () => {
      collections.add({ address: told, version: 1, state });
      return undefined;
    },
  });
  streams.chain = { version: (await log.head(chainStream(1))).version, headers: new Map() };
  const headerOf = (number: number) => (number > FINAL ? header(number) : undefined);
  collections.expect(told, state, log.head(stream));
  await collections.join({ head: header(HEAD), final: FINAL, headerOf });
  await collections.join({ head: header(HEAD), final: FINAL, headerOf });
  expect(joined.map(({ address }) => address)).toEqual([told]);
  expect(wanted).toHaveLength(1);
});
