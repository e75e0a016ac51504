/** Messages about blocks that the chain view does not show yet. They wait for it, and no subscription misses them. */
import { afterAll, beforeEach, expect, test } from "bun:test";
import { HotCollections } from "../../src/collections/hot-collections.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { TransferKind } from "../../src/events/columns.ts";
import { type NftEvent, nftStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { Channel } from "../../src/push/channel.ts";
import type { ServerMessage } from "../../src/push/message-models.ts";
import { type Connection, StreamSubscription } from "../../src/push/subscription.ts";
import { committed, hash, identified } from "../support/histories.ts";
import { columnsOf } from "../support/naive-ledger.ts";
import { READER } from "../support/requesters.ts";
import { eventually, temporaryLogUrl } from "../support/service.ts";

const log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
const projections = new HotCollections({ log, logger: silentLogger, maxBytes: 1e9 });
/** The state of the chain view. */
const shown = { version: 1, number: 9 };
const channel = new Channel({
  log,
  projections,
  clock: systemClock,
  logger: silentLogger,
  chainOf: () => ({
    version: shown.version,
    head: () => ({ number: shown.number, hash: hash(shown.number) }),
    finalized: () => undefined,
    header: () => undefined,
    isCanonical: () => true,
  }),
  demand: { request: async () => undefined },
  maxSubscriptions: 3,
});
afterAll(async () => {
  channel.stop();
  await projections.close();
  await log.close();
});

let count = 0;
let address: Address;
let version = 0;
beforeEach(async () => {
  address = `0x${(++count).toString(16).padStart(40, "0")}` as Address;
  Object.assign(shown, { version: 1, number: 9 });
  version = 0;
  const history = Array.from({ length: 10 }, (_, block) => committed(block));
  await append({ type: "IndexingRequested" }, identified, ...history);
  await append({ type: "IndexingCompleted", block: 9, hash: hash(9) });
});

async function append(...events: NftEvent[]): Promise<void> {
  version = await log.append({ stream: nftStream(1, address), events, expectedVersion: version });
  const collection = projections.peek(nftStream(1, address));
  await eventually(
    "the event is folded",
    async () => collection === undefined || collection.version === version || undefined,
  );
}

/** The event that the follower appends for a block, before it moves the head. */
const followed = (block: number, chainVersion = shown.version): NftEvent =>
  ({ ...committed(block), chainVersion }) as NftEvent;

function show(number: number, chainVersion = shown.version + 1): void {
  Object.assign(shown, { number, version: chainVersion });
  channel.onChainViewMoved(1);
}

async function subscribe(since?: number) {
  const messages: ServerMessage[] = [];
  const self = {
    key: READER,
    send: (message: ServerMessage) => void messages.push(message),
    ask: (work: () => Promise<void>) => work(),
    onRead: () => undefined,
  };
  channel.open(self);
  await channel.receive(self, JSON.stringify({ action: "subscribe", address, since }));
  const heard = () => messages.map((message) => [message.type, "version" in message ? message.version : undefined]);
  return Object.assign(heard, { messages });
}

test("sends transfers in order when the chain view shows their block", async () => {
  const heard = await subscribe();
  const greeting = heard();
  await append(followed(10));
  await append(followed(11, 2));
  expect(heard()).toEqual(greeting);
  show(10);
  expect(heard()).toEqual([...greeting, ["transfers", 14]]);
  show(11);
  expect(heard()).toEqual([...greeting, ["transfers", 14], ["transfers", 15]]);
});

test("waits for the chain view to fold the branch, not only to reach the height", async () => {
  const heard = await subscribe();
  const greeting = heard();
  await append(followed(9 + 1));
  show(10);
  await append({ type: "BlocksReverted", ancestor: { number: 9, hash: hash(9) }, chainVersion: 3 });
  await append(followed(10, 3));
  expect(heard()).toEqual([...greeting, ["transfers", 14]]);
  show(9, 3);
  expect(heard()).toEqual([...greeting, ["transfers", 14], ["reorged", 15]]);
  show(10, 4);
  expect(heard()).toEqual([...greeting, ["transfers", 14], ["reorged", 15], ["transfers", 16]]);
});

test.each([undefined, 13, 12, 5])(
  "sends transfers to a subscription (since %p) made between the event and its head",
  async (since) => {
    // With since 12 the collection is not in memory, otherwise it is.
    if (since !== 12) await projections.get(1, address);
    await append(followed(10));
    await append({ type: "FlagsChanged", possibleSpam: true, verifiedCollection: false, rule: "url" });
    await append(followed(11));
    await append({ type: "FlagsChanged", possibleSpam: false, verifiedCollection: false, rule: "" });
    const heard = await subscribe(since);
    // A client that is cut off after `status` goes on from its version and misses nothing.
    expect(heard()[0]).toEqual(["status", since ?? 13]);
    expect(heard().filter(([type]) => type === "transfers")).toEqual([]);
    show(11);
    expect(heard().filter(([type]) => type === "transfers")).toEqual([
      ["transfers", 14],
      ["transfers", 16],
    ]);
  },
);

test("sends all unshown transfers of many blocks to a new subscription", async () => {
  for (let block = 10; block < 60; block++) await append(followed(block));
  const heard = await subscribe();
  expect(heard()[0]).toEqual(["status", 13]);
  show(59);
  expect(heard().filter(([type]) => type === "transfers")).toHaveLength(50);
});

test("sends `indexed` when the page has reached the completion", async () => {
  shown.number = 7;
  const heard = await subscribe();
  expect(heard()).toEqual([["status", 12]]);
  show(9);
  expect(heard()).toEqual([
    ["status", 12],
    ["indexed", 13],
  ]);
});

test("sends no transfers of a block that was orphaned before it was shown, only the revert", async () => {
  const heard = await subscribe();
  const greeting = heard();
  await append(followed(10));
  await append({ type: "BlocksReverted", ancestor: { number: 9, hash: hash(9) }, chainVersion: 2 });
  expect(heard()).toEqual(greeting);
  show(9);
  expect(heard()).toEqual([...greeting, ["reorged", 15]]);
});

/** One event for blocks 10 to 13, as a follower writes it after a gap: token 1000 + block moves in each of them. */
function straddling(): NftEvent {
  const transfers = [10, 11, 12, 13].map((block) => ({
    ...{ kind: TransferKind.erc721, block, from: 0, to: 1, id: BigInt(1_000 + block), amount: 1n },
  }));
  const range = { type: "TransfersCommitted", fromBlock: 10, toBlock: 13, toHash: hash(13) } as const;
  return { ...range, count: transfers.length, transfers: columnsOf(transfers), chainVersion: 1 };
}

test.each(["before", "after"])(
  "keeps the transfers up to the ancestor if a fork cuts through an event that is not shown yet: subscribed %s",
  async (when) => {
    const early = when === "before" ? await subscribe() : undefined;
    await append(straddling());
    await append({ type: "BlocksReverted", ancestor: { number: 11, hash: hash(11) }, chainVersion: 3 });
    const heard = early ?? (await subscribe());
    show(11, 3);
    expect(heard().slice(-2)).toEqual([
      ["transfers", 14],
      ["reorged", 15],
    ]);
    const transfers = heard.messages.find(({ type }) => type === "transfers");
    expect(transfers).toMatchObject({ block: 11, tokenIds: ["1010", "1011"] });
  },
);

test("does not let progress of the metadata overtake status and the replay", async () => {
  await append(followed(10));
  show(10);
  await projections.get(1, address);
  channel.onMetadataProgress(1, address, { resolved: 0, failed: 0 });
  const messages: ServerMessage[] = [];
  const self = {
    key: READER,
    send: (message: ServerMessage) => void messages.push(message),
    ask: (work: () => Promise<void>) => work(),
    onRead: () => undefined,
  };
  channel.open(self);
  const subscribed = channel.receive(self, JSON.stringify({ action: "subscribe", address, since: 13 }));
  channel.onMetadataProgress(1, address, { resolved: 1, failed: 0 });
  await subscribed;
  const kinds = () => messages.map(({ type }) => type);
  await eventually("the progress arrives", async () => (kinds().includes("metadata") ? true : undefined));
  expect(kinds()).toEqual(["status", "transfers", "metadata"]);
});

test("keeps the transfers of the new branch when another subscription begins while they are held", async () => {
  const early = await subscribe();
  await append(followed(10));
  await append({ type: "BlocksReverted", ancestor: { number: 9, hash: hash(9) }, chainVersion: 2 });
  await append(followed(10, 3));
  const late = await subscribe(13);
  show(10, 3);
  for (const heard of [early, late]) {
    expect(heard().slice(-2)).toEqual([
      ["reorged", 15],
      ["transfers", 16],
    ]);
  }
});

test.each([13, 15])("names only the record that the client has by progress of the metadata: known at %d", (at) => {
  const messages: ServerMessage[] = [];
  const stream = nftStream(1, address);
  const connection: Connection = { subscriptions: new Map(), indexed: new Set() };
  const peer = {
    key: READER,
    send: (message: ServerMessage) => void messages.push(message),
    ask: (work: () => Promise<void>) => work(),
    onRead: () => undefined,
  };
  const subscription = new StreamSubscription(stream, { peer, connection, unpin: () => undefined });
  connection.subscriptions.set(stream, subscription);
  const envelope = { chain: "eth", address };
  const metadata = {
    type: "metadata",
    ...envelope,
    version: at,
    resume: `${at}.a`,
    resolved: 1,
    failed: 0,
    left: 0,
  } as const;
  subscription.startAfter(13);
  subscription.onMetadata(metadata);
  subscription.replay(14, { type: "transfers", ...envelope, version: 14, resume: "14.b", block: 10, tokenIds: [] });
  subscription.goLive();
  const { resume: _other, ...rest } = metadata;
  expect(messages.at(-1)).toEqual({ ...rest, version: 14 });
});
