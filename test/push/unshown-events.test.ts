/** Events that the chain doesn't show yet. They wait for it, in collections and in messages, and no subscription misses them. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { TransferKind } from "../../src/events/columns.ts";
import { type NftEvent, nftStream } from "../../src/events/types.ts";
import type { EventLog } from "../../src/log/event-log.ts";
import { openLog } from "../../src/log/open.ts";
import { snapshotOf } from "../../src/nft/walks/snapshot.ts";
import type { ServerMessage } from "../../src/push/message-models.ts";
import { type Connection, StreamSubscription } from "../../src/push/subscription.ts";
import { committed, hash, identified } from "../support/histories.ts";
import { columnsOf } from "../support/naive-ledger.ts";
import { READER } from "../support/requesters.ts";
import { eventually, temporaryLogUrl } from "../support/service.ts";
import { brief, ShowingProcess, WrittenChain } from "../support/written-chain.ts";

const address = `0x${"1".padStart(40, "0")}` as Address;
const stream = nftStream(1, address);

let log: EventLog;
let chain: WrittenChain;
let process: ShowingProcess;
let version = 0;
beforeEach(async () => {
  log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
  chain = new WrittenChain(log);
  process = new ShowingProcess(log);
  version = 0;
  const history = Array.from({ length: 10 }, (_, block) => committed(block));
  await append({ type: "IndexingRequested" }, identified, ...history);
  await append({ type: "IndexingCompleted", block: 9, hash: hash(9) });
  await advance(9);
});
afterEach(async () => {
  await process.close();
  await log.close();
});

async function append(...events: NftEvent[]): Promise<void> {
  version = await log.append({ stream, events, expectedVersion: version });
}

/** The event that the follower appends for a block, before it moves the head. */
const followed = (block: number): NftEvent =>
  ({ ...committed(block), toHash: chain.hashOf(block), chainVersion: chain.version }) as NftEvent;

/** The event by which the follower takes the blocks above the ancestor back, after the chain's own. */
const reverted = (block: number): NftEvent => ({
  ...{ type: "BlocksReverted", ancestor: { number: block, hash: chain.hashOf(block) }, chainVersion: chain.version },
});

async function advance(head: number): Promise<void> {
  await chain.advance(head);
  await process.show();
}

async function subscribe(since?: number) {
  const messages = await process.subscribe(address, since);
  return Object.assign(() => brief(messages), { messages });
}

test("sends transfers in order when the chain shows their block", async () => {
  const heard = await subscribe();
  const greeting = heard();
  await append(followed(10));
  expect(heard()).toEqual(greeting);
  await advance(10);
  expect(heard()).toEqual([...greeting, ["transfers", 14]]);
  await append(followed(11));
  expect(heard()).toEqual([...greeting, ["transfers", 14]]);
  await advance(11);
  expect(heard()).toEqual([...greeting, ["transfers", 14], ["transfers", 15]]);
});

test("never folds a collection ahead of the chain that is shown", async () => {
  const collection = await process.projections.get(1, address);
  await append(followed(10));
  await process.projections.newest(1, address);
  expect([collection.version, collection.end?.number]).toEqual([13, 9]);
  expect((await process.projections.apart(1, address)).end?.number).toBe(9);
  await advance(10);
  expect([collection.version, collection.end?.number]).toEqual([14, 10]);
});

test("has folded a collection when the head is shown, also one that is hydrated meanwhile", async () => {
  await append(followed(10));
  const ends: (number | undefined)[] = [];
  process.view.onMoved(() => ends.push(process.projections.peek(stream)?.end?.number));
  await Promise.all([process.projections.get(1, address), advance(10)]);
  expect((await process.projections.get(1, address)).end?.number).toBe(10);
  expect(ends.filter((end) => end !== undefined && end !== 10)).toEqual([]);
});

test("reads a stream no further than the next pages, however much of it the chain doesn't show yet", async () => {
  let reads = 0;
  const counted = new Proxy(log, {
    get: (target, name) => {
      if (name === "read") reads++;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  const late = new ShowingProcess(counted);
  await late.show();
  const transfers = Array.from({ length: 8_000 }, (_, id) => ({
    ...{ kind: TransferKind.erc721, from: 0, to: 1, id: BigInt(100 + id), amount: 1n },
  }));
  for (let block = 10; block < 60; block++) {
    const columns = columnsOf(transfers.map((one) => ({ ...one, block, id: one.id + BigInt(block * 100_000) })));
    await append({ ...followed(block), count: transfers.length, transfers: columns } as NftEvent);
    await chain.advance(block);
  }
  reads = 0;
  expect((await late.projections.get(1, address)).end?.number).toBe(9);
  expect(reads).toBeLessThan(6);
  await late.show();
  expect((await late.projections.get(1, address)).end?.number).toBe(59);
  await late.close();
});

test("waits for the chain to show the branch, not only to reach the height", async () => {
  const heard = await subscribe();
  const greeting = heard();
  await append(followed(10));
  await advance(10);
  await chain.revert(9);
  await append(reverted(9));
  await append(followed(10));
  expect(heard()).toEqual([...greeting, ["transfers", 14]]);
  expect((await process.projections.newest(1, address)).version).toBe(14);
  await process.show();
  expect(heard()).toEqual([...greeting, ["transfers", 14], ["reorged", 15]]);
  await advance(10);
  expect(heard()).toEqual([...greeting, ["transfers", 14], ["reorged", 15], ["transfers", 16]]);
});

test("shows a collection that another process is ahead with, after a revert, up to the ancestor", async () => {
  await append(followed(10));
  await advance(10);
  await append(followed(11));
  await chain.advance(11);
  await chain.revert(10);
  // The collection is read for the first time between the chain's revert and its own.
  await process.show();
  const collection = await process.projections.get(1, address);
  expect([collection.end?.number, process.view.head()?.number]).toEqual([11, 10]);
  await append(reverted(10));
  await eventually("the revert is folded", async () => collection.end?.number === 10 || undefined);
});

test("lists a collection that joins in parts up to the ancestor, before its own revert comes", async () => {
  const joining = `0x${"3".padStart(40, "0")}` as Address;
  const part = { ...committed(0), toBlock: 9, toHash: hash(9), chainVersion: chain.version } as NftEvent;
  const events: NftEvent[] = [{ type: "IndexingRequested" }, identified, part];
  await log.append({ stream: nftStream(1, joining), events, expectedVersion: 0 });
  const collection = await process.projections.get(1, joining);
  expect(snapshotOf(collection, process.view, undefined).block).toMatchObject({ number: 9, hash: hash(9) });
  await chain.revert(7);
  await process.show();
  expect([collection.status, collection.end?.number]).toEqual(["syncing", 9]);
  expect(snapshotOf(collection, process.view, undefined).block).toMatchObject({ number: 7, hash: hash(7) });
});

test("lists a collection whose history is read again up to the final block that is read, above the shown head", async () => {
  await append(followed(10));
  await advance(10);
  const rejoins = { ...reverted(9), rejoins: true } as NftEvent;
  const backfilled = { ...committed(10), toBlock: 15, toHash: hash(15) } as NftEvent;
  await append(rejoins, backfilled);
  const collection = await process.projections.newest(1, address);
  expect(snapshotOf(collection, process.view, undefined).block).toMatchObject({ number: 15, hash: hash(15) });
});

test("lists a collection that is indexed anew up to the final block that is read, above the shown head", async () => {
  await append(followed(10));
  await advance(10);
  const backfilled = { ...committed(0), toBlock: 15, toHash: hash(15) } as NftEvent;
  await append({ type: "ReindexRequested" }, identified, backfilled);
  const collection = await process.projections.newest(1, address);
  expect(snapshotOf(collection, process.view, undefined).block).toMatchObject({ number: 15, hash: hash(15) });
});

test.each([undefined, 13, 12, 5])(
  "sends transfers to a subscription (since %p) made between the event and its head",
  async (since) => {
    // With since 12 the collection is not in memory, otherwise it is.
    if (since !== 12) await process.projections.get(1, address);
    await append(followed(10));
    await append({ type: "FlagsChanged", possibleSpam: true, verifiedCollection: false, rule: "url" });
    const heard = await subscribe(since);
    // A client that is cut off after `status` goes on from its version and misses nothing.
    expect(heard()[0]).toEqual(["status", since ?? 13]);
    expect(heard().filter(([type]) => type === "transfers")).toEqual([]);
    await advance(10);
    await append(followed(11));
    await append({ type: "FlagsChanged", possibleSpam: false, verifiedCollection: false, rule: "" });
    await advance(11);
    expect(heard().filter(([type]) => type === "transfers")).toEqual([
      ["transfers", 14],
      ["transfers", 16],
    ]);
  },
);

/** A process that runs `between` once, when collections are at the next head, and before it is shown. */
async function movingProcess(between: () => Promise<void>): Promise<ShowingProcess> {
  let isDue = true;
  const moving = new ShowingProcess(log, {
    beforeShown: async () => {
      if (!isDue || moving.view.head() === undefined) return;
      isDue = false;
      await between();
    },
  });
  await moving.show();
  return moving;
}

test.each([undefined, 13, 12, 5])(
  "sends transfers to a subscription (since %p) made between the fold of a collection and the head",
  async (since) => {
    let messages: ServerMessage[] = [];
    const subscribed = Promise.withResolvers<void>();
    const moving = await movingProcess(async () => {
      const greeted = moving.subscribe(address, since, (sent) => {
        messages = sent;
        if (sent.at(-1)?.type === "status") subscribed.resolve();
      });
      void greeted.catch(subscribed.reject);
      await subscribed.promise;
    });
    // With since 12 the collection is hydrated during the move, otherwise it is in memory.
    if (since !== 12) await moving.projections.get(1, address);
    await append(followed(10));
    await chain.advance(10);
    await moving.show();
    await append(followed(11));
    await chain.advance(11);
    await moving.show();
    const isWhole = () => brief(messages).filter(([type]) => type === "transfers").length >= 2 || undefined;
    await eventually("both transfers", async () => isWhole());
    expect(messages[0]).toMatchObject({ type: "status", version: since ?? 13, block: 9 });
    expect(brief(messages).filter(([type, of]) => type === "transfers" && Number(of) > 13)).toEqual([
      ["transfers", 14],
      ["transfers", 15],
    ]);
    await moving.close();
  },
);

test("sends transfers to a subscription that is made after a move failed, once the chain shows them", async () => {
  let messages: ServerMessage[] = [];
  const moving = await movingProcess(() => Promise.reject(new Error("the log is away")));
  await moving.projections.get(1, address);
  await append(followed(10));
  await chain.advance(10);
  await expect(moving.show()).rejects.toThrow("the log is away");
  const greeted = Promise.withResolvers<void>();
  const subscribed = moving.subscribe(address, undefined, (sent) => {
    messages = sent;
    greeted.resolve();
  });
  await greeted.promise;
  expect(messages[0]).toMatchObject({ type: "status", version: 13, block: 9 });
  await moving.show();
  await subscribed;
  expect(brief(messages).at(-1)).toEqual(["transfers", 14]);
  await moving.close();
});

/** A subscription of a collection that is ahead of its chain. Resolves when the client has its status. */
async function subscribeTo(ahead: ShowingProcess): Promise<ServerMessage[]> {
  const greeted = Promise.withResolvers<ServerMessage[]>();
  void ahead.subscribe(address, undefined, greeted.resolve).catch(greeted.reject);
  return greeted.promise;
}

test("tells a subscription of a revert that the collection records after the chain, without another move", async () => {
  await process.projections.get(1, address);
  await append(followed(10), followed(11));
  await advance(11);
  await chain.revert(10);
  await process.show();
  const messages = await subscribeTo(process);
  expect(messages[0]).toMatchObject({ type: "status", version: 14, block: 10 });
  await append(reverted(10));
  await eventually("the revert", async () => brief(messages).some(([type]) => type === "reorged") || undefined);
  expect(brief(messages).slice(2)).toEqual([
    ["transfers", 15],
    ["reorged", 16],
  ]);
});

test("tells the revert of a block that was never shown, also of a collection that was evicted meanwhile", async () => {
  const small = new ShowingProcess(log, { maxBytes: 1 });
  await small.show();
  const messages = await small.subscribe(address);
  // A follower that crashed wrote the block for a head that never came.
  await append(followed(10));
  await chain.revert(9);
  await small.show();
  const ahead = small.projections.peek(stream)!;
  expect([ahead.version, ahead.end?.number]).toEqual([14, 10]);
  const other = `0x${"2".padStart(40, "0")}` as Address;
  await log.append({ stream: nftStream(1, other), events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
  await small.projections.get(1, other);
  expect(small.projections.peek(stream)).toBeUndefined();
  await append(reverted(9));
  await eventually("the revert", async () => brief(messages).some(([, of]) => of === 15) || undefined);
  expect(brief(messages).slice(2)).toEqual([
    ["reorged", 13],
    ["reorged", 15],
  ]);
  await small.close();
});

test("a collection that is read apart is no news for its subscribers", async () => {
  const small = new ShowingProcess(log, { maxBytes: 1 });
  await small.show();
  await small.subscribe(address);
  const other = `0x${"2".padStart(40, "0")}` as Address;
  await log.append({ stream: nftStream(1, other), events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
  await small.projections.get(1, other);
  expect(small.projections.peek(stream)).toBeUndefined();
  const told: number[] = [];
  small.projections.subscribe((_stream, _collection, recorded) => told.push(recorded.version));
  expect((await small.projections.apart(1, address)).version).toBe(13);
  expect(told).toEqual([]);
  await small.close();
});

test("tells a subscription of a removal while the chain can't move", async () => {
  const halting = await movingProcess(() => Promise.reject(new Error("the log is away")));
  await halting.projections.get(1, address);
  await append(followed(10));
  await chain.advance(10);
  await expect(halting.show()).rejects.toThrow("the log is away");
  const messages = await subscribeTo(halting);
  expect(messages[0]).toMatchObject({ type: "status", version: 13, block: 9 });
  await append({ type: "CollectionRemoved" });
  await eventually("the removal", async () => brief(messages).some(([, of]) => of === 15) || undefined);
  expect(messages.at(-1)).toMatchObject({ type: "status", version: 15, gap: true });
  await halting.close();
});

test("sends all transfers of many blocks that a process shows late to a subscription", async () => {
  for (let block = 10; block < 60; block++) {
    await append(followed(block));
    await chain.advance(block);
  }
  const heard = await subscribe();
  expect(heard()[0]).toEqual(["status", 13]);
  await process.show();
  expect(heard().filter(([type]) => type === "transfers")).toHaveLength(50);
});

test("shows each move of a chain that it is late with: the head, the reorganisation and the new head", async () => {
  const heard = await subscribe();
  const greeting = heard();
  await append(followed(10));
  await chain.advance(10);
  await chain.revert(9);
  await append(reverted(9));
  await append(followed(10));
  await chain.advance(10);
  await process.show();
  expect(heard()).toEqual([...greeting, ["transfers", 14], ["reorged", 15], ["transfers", 16]]);
});

test("sends `indexed` when the page has reached the completion", async () => {
  await process.close();
  await log.close();
  log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
  chain = new WrittenChain(log);
  process = new ShowingProcess(log);
  version = 0;
  await append(
    { type: "IndexingRequested" },
    identified,
    ...Array.from({ length: 10 }, (_, block) => committed(block)),
  );
  await advance(7);
  const heard = await subscribe();
  expect(heard()).toEqual([["status", 12]]);
  await append({ type: "IndexingCompleted", block: 9, hash: hash(9) });
  await process.projections.newest(1, address);
  expect(heard()).toEqual([["status", 12]]);
  // Its page is that of the head now, so its status names no more of the backfill.
  const late = await subscribeTo(process);
  expect(late[0]).toMatchObject({ type: "status", version: 10, block: 7 });
  await advance(9);
  expect(heard()).toEqual([
    ["status", 12],
    ["indexed", 13],
  ]);
  await eventually("`indexed`", async () => brief(late).some(([type]) => type === "indexed") || undefined);
});

test("sends no transfers of a block for a head that never came, only the revert", async () => {
  const heard = await subscribe();
  const greeting = heard();
  // The follower crashed here. The next one takes the block back at the chain's recorded head.
  await append(followed(10));
  await append(reverted(9));
  await eventually("the revert is folded", async () => heard().length > greeting.length || undefined);
  expect(heard()).toEqual([...greeting, ["reorged", 15]]);
});

/** One event for blocks 10 to 13, as a follower writes it after a gap: token 1000 + block moves in each of them. */
function straddling(): NftEvent {
  const transfers = [10, 11, 12, 13].map((block) => ({
    ...{ kind: TransferKind.erc721, block, from: 0, to: 1, id: BigInt(1_000 + block), amount: 1n },
  }));
  const range = { type: "TransfersCommitted", fromBlock: 10, toBlock: 13, toHash: hash(13) } as const;
  return { ...range, count: transfers.length, transfers: columnsOf(transfers), chainVersion: chain.version };
}

test("keeps the transfers up to the ancestor if a revert cuts through an event that was never shown", async () => {
  const heard = await subscribe();
  await append(straddling());
  await append({ type: "BlocksReverted", ancestor: { number: 11, hash: hash(11) }, chainVersion: chain.version });
  await process.projections.newest(1, address);
  await advance(11);
  expect(heard().slice(-2)).toEqual([
    ["transfers", 14],
    ["reorged", 15],
  ]);
  const transfers = heard.messages.find(({ type }) => type === "transfers");
  expect(transfers).toMatchObject({ block: 11, tokenIds: ["1010", "1011"] });
});

test("tells a reorganisation once: by the chain, or by the collection that has orphaned blocks", async () => {
  const untouched = `0x${"2".padStart(40, "0")}` as Address;
  const history = [0, 1, 2].map((block) => committed(block));
  const done: NftEvent = { type: "IndexingCompleted", block: 2, hash: hash(2) };
  const events: NftEvent[] = [{ type: "IndexingRequested" }, identified, ...history, done];
  const last = await log.append({ stream: nftStream(1, untouched), events, expectedVersion: 0 });
  const [own, other] = [await subscribe(), brief(await process.subscribe(untouched))];
  const others = await process.subscribe(untouched);
  await append(followed(10));
  await advance(10);
  await chain.revert(9);
  await process.show();
  expect(brief(others)).toEqual([...other, ["reorged", last]]);
  expect(own().at(-1)).toEqual(["transfers", 14]);
  await append(reverted(9));
  await eventually("the collection's own revert", async () => own().at(-1)?.[0] === "reorged" || undefined);
  await advance(12);
  expect(own().filter(([type]) => type === "reorged")).toEqual([["reorged", 15]]);
  expect(brief(others).filter(([type]) => type === "reorged")).toEqual([["reorged", last]]);
});

test("does not let progress of the metadata overtake status and the replay", async () => {
  await append(followed(10));
  await advance(10);
  const { channel, projections } = process;
  await projections.get(1, address);
  channel.collections.onMetadataProgress(1, address, { resolved: 0, failed: 0 });
  const messages: ServerMessage[] = [];
  const self = {
    key: READER,
    send: (message: ServerMessage) => void messages.push(message),
    ask: (work: () => Promise<void>) => work(),
    onRead: () => undefined,
  };
  channel.open(self);
  const subscribed = channel.receive(self, JSON.stringify({ action: "subscribe", address, since: 13 }));
  channel.collections.onMetadataProgress(1, address, { resolved: 1, failed: 0 });
  await subscribed;
  const kinds = () => messages.map(({ type }) => type);
  await eventually("the progress arrives", async () => (kinds().includes("metadata") ? true : undefined));
  expect(kinds()).toEqual(["status", "transfers", "metadata"]);
});

test.each([13, 15])("names only the record that the client has by progress of the metadata: known at %d", (at) => {
  const messages: ServerMessage[] = [];
  const connection: Connection = { subscriptions: new Map(), indexed: new Map() };
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
