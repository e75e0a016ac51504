/**
 * Behaviour of the channel that is hard to reach over a socket: the bound on subscriptions, a gap of more than 1,000
 * versions, fast progress, and the order of events during a replay.
 */

import { afterAll, describe, expect, test } from "bun:test";
import { type Clock, systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { Lifecycle } from "../../src/core/lifecycle.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { TransferKind } from "../../src/events/columns.ts";
import { type ContractIdentified, type NftEvent, nftStream, type StreamName } from "../../src/events/types.ts";
import type { EventLog, ReadOptions } from "../../src/log/event-log.ts";
import { openLog } from "../../src/log/open.ts";
import { initialState } from "../../src/nft/collections/collection.ts";
import { HotCollections } from "../../src/nft/collections/hot-collections.ts";
import { Demand } from "../../src/nft/indexing/demand.ts";
import { Channel, type ChannelOptions } from "../../src/push/channel.ts";
import type { ServerMessage } from "../../src/push/message-models.ts";
import { messageOfEvent } from "../../src/push/messages.ts";
import { identified as begun, committed, hash } from "../support/histories.ts";
import { KNOWN } from "../support/known-chains.ts";
import { columnsOf, type ModelTransfer } from "../support/naive-ledger.ts";
import { OPERATOR } from "../support/requesters.ts";
import { eventually, temporaryLogUrl } from "../support/service.ts";

const log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
const projections = new HotCollections({ log, logger: silentLogger, maxBytes: 1e9 });
/**
 * The channel's reads, by stream and version. `beforeRead` runs before each, and `refusal` makes the next request fail.
 */
const reads: [StreamName, ReadOptions][] = [];
let beforeRead: (() => Promise<void>) | undefined;
const watched = {
  read: async (stream: StreamName, options: ReadOptions = {}) => {
    reads.push([stream, options]);
    await beforeRead?.();
    return await log.read(stream, options);
  },
  checksum: (stream: StreamName, version: number) => log.checksum(stream, version),
} as EventLog;
let refusal: Error | undefined;
let ahead = 0;
const lifecycle = new Lifecycle(silentLogger);
const options: ChannelOptions = {
  log: watched,
  projections,
  clock: { ...systemClock, now: () => systemClock.now() + ahead },
  logger: silentLogger,
  chains: KNOWN,
  chainOf: (chainId) =>
    chainId !== 1
      ? undefined
      : {
          version: 0,
          head: () => undefined,
          finalized: () => undefined,
          header: () => undefined,
          isCanonical: () => true,
          newest: async () => undefined,
        },
  demand: {
    request: async (contract, collection, requester) => {
      if (refusal !== undefined) throw refusal;
      return demand.request(contract, collection, requester);
    },
  },
  maxSubscriptions: 3,
};
const demand = new Demand({
  ...{ log, clock: options.clock, lifecycle, takeNew: () => undefined, staleMs: 600_000 },
  candidatesOf: () => ({ request: () => undefined }),
});
const channel = new Channel(options);
afterAll(async () => {
  channel.stop();
  projections.close();
  await log.close();
});

function peer(of = channel) {
  const messages: ServerMessage[] = [];
  const self = {
    key: OPERATOR,
    send: (message: ServerMessage) => void messages.push(message),
    ask: (work: () => Promise<void>) => work(),
    onRead: () => undefined,
  };
  of.open(self);
  const receive = (message: object) => of.receive(self, JSON.stringify(message));
  return { self, messages, receive };
}

const address = (n: number) => `0x${n.toString(16).padStart(40, "0")}` as Address;
const identified: NftEvent = { ...begun, block: 5_000 };
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
const versionsOf = (messages: readonly ServerMessage[], type: string) =>
  messages.flatMap((message) => (message.type === type && "version" in message ? [message.version] : []));

/**
 * Appends a complete collection: `backfilled` versions up to its completion, then one per block. Returns its version.
 */
async function finished(n: number, backfilled: number, followed: number): Promise<number> {
  const history: NftEvent[] = [{ type: "IndexingRequested" }, identified];
  for (let block = 0; block < backfilled; block++) history.push(committed(block));
  history.push({ type: "IndexingCompleted", block: backfilled - 1, hash: hash(backfilled - 1) });
  for (let block = backfilled; block < backfilled + followed; block++) history.push(committed(block));
  return await log.append({ stream: nftStream(1, address(n)), events: history, expectedVersion: 0 });
}

test("lets a thousand messages that end subscriptions wait without a request of the rate, and no more", async () => {
  const { self } = peer();
  let asked = 0;
  self.ask = (work) => {
    asked++;
    return work();
  };
  const text = JSON.stringify({ action: "unsubscribe", address: address(2) });
  await Promise.all(Array.from({ length: 1_500 }, () => channel.receive(self, text)));
  expect(asked).toBe(500);
  // Once those have had their turn, the next ones are free again.
  await channel.receive(self, text);
  expect(asked).toBe(500);
});

test("limits the number of subscriptions, and an unsubscribe frees a place", async () => {
  const { messages, receive } = peer();
  for (let n = 1; n <= 4; n++) await receive({ action: "subscribe", address: address(n) });
  expect(messages.map((message) => message.type)).toEqual(["status", "status", "status", "error"]);
  expect(messages.at(-1)).toMatchObject({ code: "rate_limited" });
  await receive({ action: "unsubscribe", address: address(2) });
  await receive({ action: "subscribe", address: address(4) });
  expect(messages.at(-1)).toMatchObject({ type: "status", address: address(4) });
});

test("replays up to 1,000 versions after since, reports a gap beyond that, and thins progress messages but keeps the last", async () => {
  const stream = nftStream(1, address(100));
  const first: NftEvent[] = [{ type: "IndexingRequested" }, identified];
  await log.append({ stream, events: first, expectedVersion: 0 });
  const watcher = peer();
  await watcher.receive({ action: "subscribe", address: address(100) });
  for (let block = 0; block < 50; block++) {
    await log.append({ stream, events: [committed(block)], expectedVersion: block + 2 });
  }
  await eventually("the last progress message has arrived", async () =>
    watcher.messages.find((m) => m.type === "progress" && m.transfers === 50),
  );
  const progress = watcher.messages.filter((message) => message.type === "progress");
  expect(progress.length).toBeLessThan(10);
  expect(progress.at(-1)).toMatchObject({ version: 52, percent: 0, blocksLeft: 4_951 });

  const completed: NftEvent = { type: "IndexingCompleted", block: 49, hash: hash(49) };
  const rest = Array.from({ length: 1_200 }, (_, i) => committed(50 + i));
  await log.append({ stream, events: [completed, ...rest], expectedVersion: 52 });
  const version = 53 + 1_200;
  await eventually("the last version has arrived", async () =>
    watcher.messages.find((m) => "version" in m && m.version === version),
  );

  const old = peer();
  await old.receive({ action: "subscribe", address: address(100), since: 10 });
  expect(old.messages).toHaveLength(2);
  expect(old.messages[0]).toMatchObject({ type: "status", gap: true, version });
  expect(old.messages[1]).toMatchObject({ type: "indexed", block: 49, total: 50, version: 53 });

  const recent = peer();
  await recent.receive({ action: "subscribe", address: address(100), since: version - 1_000 });
  const told = recent.messages.filter((message) => message.type === "transfers");
  expect(told.map((message) => message.version)).toEqual(Array.from({ length: 1_000 }, (_, i) => version - 999 + i));
  expect(recent.messages.filter((message) => message.type === "indexed")).toHaveLength(0);
  expect(recent.messages[0]).not.toHaveProperty("gap");
});

test("builds a message once for many subscribers, and does not send an earlier event to a later subscriber", async () => {
  const stream = nftStream(1, address(200));
  const done: NftEvent = { type: "IndexingCompleted", block: 0, hash: hash(0) };
  const history: NftEvent[] = [{ type: "IndexingRequested" }, identified, committed(0), done];
  await log.append({ stream, events: history, expectedVersion: 0 });
  const peers = Array.from({ length: 50 }, () => peer());
  await Promise.all(peers.map(({ receive }) => receive({ action: "subscribe", address: address(200) })));
  await log.append({ stream, events: [committed(1)], expectedVersion: 4 });
  const moved = await eventually("all subscribers have received the transfers", async () => {
    const told = peers.map(({ messages }) => messages.filter(({ type }) => type === "transfers"));
    return told.every(({ length }) => length > 0) ? told.flat() : undefined;
  });
  expect(moved).toHaveLength(peers.length);
  expect(new Set(moved).size).toBe(1);
  const late = peer();
  await late.receive({ action: "subscribe", address: address(200) });
  expect(late.messages.map(({ type }) => type)).toEqual(["status", "indexed"]);
});

describe("the replay after since", () => {
  test("starts at the completion, because earlier events produce no message", async () => {
    const version = await finished(300, 500, 3);
    const { messages, receive } = peer();
    reads.length = 0;
    await receive({ action: "subscribe", address: address(300), since: 1 });
    expect(messages.map(({ type }) => type)).toEqual(["status", "indexed", "transfers", "transfers", "transfers"]);
    const read = reads.filter(([stream]) => stream === nftStream(1, address(300)));
    expect(read.map(([, { from }]) => from)).toEqual([version - 2]);
  });

  test("reads nothing before the completion, and sends progress and the current failure", async () => {
    const history: NftEvent[] = [{ type: "IndexingRequested" }, identified, committed(0), committed(1)];
    const failed: NftEvent = { type: "IndexingFailed", reason: "refused", attempt: 1, retryAt: 5_000 };
    const stream = nftStream(1, address(301));
    await log.append({ stream, events: [...history, failed], expectedVersion: 0 });
    const { messages, receive } = peer();
    reads.length = 0;
    await receive({ action: "subscribe", address: address(301), since: 2 });
    expect(messages.map(({ type }) => type)).toEqual(["status", "failed", "progress"]);
    expect(messages[1]).toMatchObject({ version: 5, reason: "refused", nextTry: new Date(5_000).toISOString() });
    expect(reads).toEqual([]);
    const informed = peer();
    await informed.receive({ action: "subscribe", address: address(301), since: 5 });
    expect(informed.messages.map(({ type }) => type)).toEqual(["status"]);
  });

  test("reports the failure of a finished collection once", async () => {
    const version = await finished(306, 2, 2);
    const failed: NftEvent = { type: "IndexingFailed", reason: "refused", attempt: 1, retryAt: 5_000 };
    await log.append({ stream: nftStream(1, address(306)), events: [failed], expectedVersion: version });
    const { messages, receive } = peer();
    await receive({ action: "subscribe", address: address(306), since: 5 });
    expect(messages.map(({ type }) => type)).toEqual(["status", "transfers", "transfers", "failed"]);
  });

  test.each([
    ["subscribed again", 320, {}],
    ["subscribed all the time", 321, {}],
    ["new", 322, {}],
    ["subscribed again, of an archive", 323, { isUnproven: true }],
    ["subscribed all the time, of an archive", 324, { isUnproven: true }],
    ["new, of an archive", 325, { isUnproven: true }],
  ] as const)("over blocks that were read a second time, on a connection that is %s", async (kind, n, unproven) => {
    const version = await finished(n, 3, 1);
    const [first, second] = [peer(), peer()];
    await first.receive({ action: "subscribe", address: address(n) });
    expect(first.messages.map(({ type }) => type)).toEqual(["status", "indexed"]);
    const isLive = kind.startsWith("subscribed all");
    if (!isLive) await first.receive({ action: "unsubscribe", address: address(n) });
    const { messages, receive } = kind.startsWith("new") ? second : first;
    let before = messages.length;
    const rejoined: NftEvent[] = [
      { type: "BlocksReverted", ancestor: { number: 2, hash: hash(2) }, rejoins: true },
      committed(3),
      { type: "IndexingCompleted", block: 3, hash: hash(3), ...unproven },
      committed(4),
    ];
    await log.append({ stream: nftStream(1, address(n)), events: rejoined, expectedVersion: version });
    if (!isLive) await receive({ action: "subscribe", address: address(n), since: version });
    await projections.newest(1, address(n));
    const told: unknown[] = messages
      .slice(before)
      .map((message) => [message.type, "version" in message && message.version]);
    const last = ["transfers", version + 4];
    const read = [["reorged", version + 1], ["transfers", version + 2], last];
    const status = ["status", version];
    // A new connection learns by `indexed` of all that its pages have by then. The others have had it.
    const isProven = !("isUnproven" in unproven);
    const toNew = isProven ? [status, ["indexed", version + 3], last] : [["status", version + 4]];
    expect(told).toEqual(kind.startsWith("new") ? toNew : isLive ? read : [status, ...read]);
    if (isProven) return;
    before = messages.length;
    const counts = { touched: 1, hashed: 1, sampled: 0, byRoot: 0, absent: 0, holdings: 1, of: 1, contradicted: 0 };
    const proven: NftEvent = { type: "HistoryProven", archives: "portal", block: 4, ...counts };
    await log.append({ stream: nftStream(1, address(n)), events: [proven], expectedVersion: version + 4 });
    await projections.newest(1, address(n));
    const types = messages.slice(before).map(({ type }) => type);
    expect(types).toEqual(kind.startsWith("new") ? ["indexed"] : []);
  });

  test("says `indexed` once, also where owners were doubted and blocks were read a second time", async () => {
    const version = await finished(327, 3, 1);
    const { messages, receive } = peer();
    await receive({ action: "subscribe", address: address(327) });
    const events: NftEvent[] = [
      { type: "OwnersDoubted", block: 3, reason: "the contract names another owner" },
      { type: "OwnersSettled", contradicted: 0 },
      { type: "BlocksReverted", ancestor: { number: 2, hash: hash(2) }, rejoins: true },
      committed(3),
      { type: "IndexingCompleted", block: 3, hash: hash(3) },
    ];
    await log.append({ stream: nftStream(1, address(327)), events, expectedVersion: version });
    await projections.newest(1, address(327));
    const told = messages.map(({ type }) => type);
    expect(told).toEqual(["status", "indexed", "status", "status", "reorged", "transfers"]);
  });

  test("says `indexed` again on a connection after the collection was indexed anew while it was not subscribed", async () => {
    const version = await finished(326, 3, 1);
    const { messages, receive } = peer();
    await receive({ action: "subscribe", address: address(326) });
    await receive({ action: "unsubscribe", address: address(326) });
    const anew: NftEvent[] = [{ type: "ReindexRequested" }, identified, committed(0)];
    const stream = nftStream(1, address(326));
    await log.append({ stream, events: anew, expectedVersion: version });
    const before = messages.length;
    await receive({ action: "subscribe", address: address(326), since: version });
    const done: NftEvent[] = [committed(1), { type: "IndexingCompleted", block: 1, hash: hash(1) }];
    await log.append({ stream, events: done, expectedVersion: version + 3 });
    await projections.newest(1, address(326));
    const told = messages.slice(before).filter(({ type }) => type !== "progress");
    expect(told.map(({ type }) => type)).toEqual(["status", "indexed"]);
    expect(told[0]).toMatchObject({ gap: true });
  });

  test("is sent in small parts with event-loop turns between them", async () => {
    const version = await finished(302, 5, 900);
    await projections.get(1, address(302));
    const peers = Array.from({ length: 10 }, peer);
    const told = () => peers.reduce((sum, { messages }) => sum + messages.length, 0);
    const all = Promise.all(
      peers.map(({ receive }) => receive({ action: "subscribe", address: address(302), since: 7 })),
    );
    let most = 0;
    for (let before = told(); told() < 10 * 902; before = told()) {
      await turn();
      most = Math.max(most, told() - before);
    }
    await all;
    expect(most).toBeLessThan(500);
    for (const { messages } of peers) {
      expect(versionsOf(messages, "transfers")).toEqual(Array.from({ length: 900 }, (_, i) => version - 899 + i));
    }
  });

  test("comes before events that happen meanwhile, without loss or repetition", async () => {
    let version = await finished(303, 5, 900);
    const stream = nftStream(1, address(303));
    const collection = await projections.get(1, address(303));
    const { messages, receive } = peer();
    let block = 905;
    let parts = 0;
    beforeRead = async () => {
      parts++;
      if (block === 925) return;
      version = await log.append({ stream, events: [committed(block++)], expectedVersion: version });
      await eventually("the event is folded", async () => collection.version === version || undefined);
    };
    await receive({ action: "subscribe", address: address(303), since: 7 });
    beforeRead = undefined;
    expect(parts).toBeGreaterThan(5);
    version = await log.append({ stream, events: [committed(block)], expectedVersion: version });
    await eventually(
      "the last version has arrived",
      async () => versionsOf(messages, "transfers").includes(version) || undefined,
    );
    const count = block - 4;
    expect(versionsOf(messages, "transfers")).toEqual(Array.from({ length: count }, (_, i) => version - count + 1 + i));
  });

  test("places a reorganisation of the chain that arrives meanwhile in order", async () => {
    let version = await finished(310, 5, 900);
    const stream = nftStream(1, address(310));
    const collection = await projections.get(1, address(310));
    const { messages, receive } = peer();
    const last = version;
    let parts = 0;
    beforeRead = async () => {
      if (++parts !== 3) return;
      channel.onMoved(1, { head: undefined, ancestor: { number: 904, hash: hash(904) } });
      version = await log.append({ stream, events: [committed(905)], expectedVersion: version });
      await eventually("the event is folded", async () => collection.version === version || undefined);
    };
    await receive({ action: "subscribe", address: address(310), since: 7 });
    beforeRead = undefined;
    expect(parts).toBeGreaterThan(5);
    const order = messages.slice(-3).map((message) => [message.type, "version" in message && message.version]);
    expect(order).toEqual([
      ["transfers", last],
      ["reorged", last],
      ["transfers", version],
    ]);
    expect(messages.filter(({ type }) => type === "reorged")).toHaveLength(1);
  });
});

describe("an address without a contract", () => {
  const nothing: ContractIdentified = { ...begun, kind: "not_a_contract", forms: [] };
  const resume = expect.any(String);
  const told = (n: number, version: number) => [
    { type: "status", chain: "eth", address: address(n), version, resume, status: "SYNCING", block: null, percent: 0 },
    {
      ...{ type: "failed", chain: "eth", address: address(n), version, resume, code: "not_a_contract" },
      ...{ reason: "the address has neither code nor an NFT log", nextTry: null },
    },
  ];

  test("is reported to later subscribers like to the first, and is identified anew when that is due", async () => {
    const first = peer();
    await first.receive({ action: "subscribe", address: address(400) });
    const stream = nftStream(1, address(400));
    await log.append({ stream, events: [nothing], expectedVersion: 1 });
    await eventually("the first subscriber has been notified", async () => first.messages.length === 2 || undefined);
    expect(first.messages.map(({ type }) => type)).toEqual(["status", "failed"]);
    for (const since of [undefined, 0, 1, 2]) {
      const later = peer();
      await later.receive({ action: "subscribe", address: address(400), since });
      expect(later.messages).toEqual(told(400, 2) as unknown as ServerMessage[]);
    }
    expect((await log.head(stream)).version).toBe(2);
    ahead = 600_000;
    const late = peer();
    await late.receive({ action: "subscribe", address: address(400) });
    ahead = 0;
    expect(late.messages).toEqual(told(400, 2) as unknown as ServerMessage[]);
    await eventually(
      "a new identification is requested",
      async () => (await log.head(stream)).version === 3 || undefined,
    );
    // The result of the new identification is sent when it is appended.
    await log.append({ stream, events: [nothing], expectedVersion: 3 });
    await eventually("the later subscriber has been notified", async () => late.messages.length === 3 || undefined);
    expect(late.messages.at(-1)).toEqual({ ...(told(400, 4)[1] as object) } as ServerMessage);
  });

  test("is reported differently from a contract that is no NFT and has an empty, synced listing", async () => {
    const other: ContractIdentified = { ...begun, kind: "not_nft", forms: [] };
    const stream = nftStream(1, address(401));
    await log.append({ stream, events: [{ type: "IndexingRequested" }, other], expectedVersion: 0 });
    const { messages, receive } = peer();
    await receive({ action: "subscribe", address: address(401) });
    expect(messages).toHaveLength(1);
    expect(messages[0]).toMatchObject({ type: "status", status: "SYNCED", percent: 100, block: null });
  });
});

describe("an error names its subject", () => {
  const mixed = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

  test("for a chain that is not enabled and for malformed messages", async () => {
    const { messages, receive } = peer();
    await receive({ action: "subscribe", chain: "POLYGON", address: mixed });
    await receive({ action: "subscribe", chain: "mars", address: mixed });
    await receive({ action: "subscribe", chain: "0x1", address: "0x12" });
    await receive({ action: "subscribe", address: mixed, since: -1 });
    await receive({ action: "dance", chain: "eth", address: mixed });
    await receive({ action: "subscribe", chain: 7, address: mixed });
    await receive({ action: "subscribe", chain: "eth" });
    const lower = mixed.toLowerCase();
    expect(messages.map(({ type: _, ...error }) => ({ ...error, message: undefined }) as unknown)).toEqual([
      { code: "chain_not_enabled", chain: "polygon", address: lower },
      { code: "invalid_parameter", chain: "mars", address: lower },
      { code: "invalid_parameter", chain: "eth", address: "0x12" },
      { code: "invalid_parameter", chain: "eth", address: lower },
      { code: "invalid_parameter", chain: "eth", address: lower },
      { code: "invalid_parameter", address: lower },
      { code: "invalid_parameter" },
    ]);
  });

  test("for one subscription too many, with the version if it is known", async () => {
    const version = await finished(500, 1, 0);
    await projections.get(1, address(500));
    const { messages, receive } = peer();
    for (const n of [501, 502, 503]) await receive({ action: "subscribe", address: address(n) });
    await receive({ action: "subscribe", address: address(500) });
    await receive({ action: "subscribe", address: address(504) });
    const [known, unknown] = messages.slice(-2);
    expect(known).toMatchObject({ type: "error", code: "rate_limited", chain: "eth", address: address(500), version });
    expect(unknown).toMatchObject({ type: "error", code: "rate_limited", chain: "eth", address: address(504) });
    expect(unknown).not.toHaveProperty("version");
  });

  test("for an internal error, which also frees the place of the failed subscription", async () => {
    const { messages, receive } = peer();
    refusal = new Error("the log is away");
    for (let n = 510; n < 514; n++) await receive({ action: "subscribe", address: address(n) });
    refusal = undefined;
    const errors = messages.map((message) => [message.type, "code" in message && message.code]);
    expect(errors).toEqual(Array.from({ length: 4 }, () => ["error", "internal"]));
    expect(messages[3]).toMatchObject({ chain: "eth", address: address(513) });
    expect(channel.collections.hasSubscribers(1, address(513))).toBe(false);
  });
});

test("sends each reorganisation of the chain, and a collection's own with orphaned blocks in place of it", async () => {
  const version = await finished(650, 500, 2);
  const { messages, receive } = peer();
  await receive({ action: "subscribe", address: address(650) });
  const ancestor = { number: 500, hash: hash(500) };
  channel.onMoved(1, { head: undefined, ancestor });
  const events: NftEvent[] = [{ type: "BlocksReverted", ancestor }];
  await log.append({ stream: nftStream(1, address(650)), events, expectedVersion: version });
  await eventually("the revert of the stream has arrived", async () => messages.find(({ type }) => type === "reorged"));
  expect(versionsOf(messages, "reorged")).toEqual([version + 1]);
  channel.onMoved(1, { head: undefined, ancestor });
  expect(versionsOf(messages, "reorged")).toEqual([version + 1, version + 1]);
});

describe("an evicted collection", () => {
  const small = new HotCollections({ log, logger: silentLogger, maxBytes: 1 });
  /** Waits that thin out messages last one turn of the event loop. */
  const clock: Clock = {
    ...systemClock,
    after: (_ms, act) => {
      const timer = setImmediate(act);
      return () => clearImmediate(timer);
    },
  };
  const crowded = new Channel({ ...options, clock, projections: small });
  afterAll(() => {
    crowded.stop();
    small.close();
  });

  /** Subscribes to a finished collection and then evicts it. */
  async function evicted(n: number) {
    const version = await finished(n, 500, 2);
    const { messages, receive } = peer(crowded);
    await receive({ action: "subscribe", address: address(n) });
    const told = messages.splice(0).map(({ type }) => type);
    expect(told).toEqual(["status", "indexed"]);
    await small.get(1, address(n + 1));
    expect(small.peek(nftStream(1, address(n)))).toBeUndefined();
    return { version, messages };
  }

  test("sends no old progress while it is hydrated again", async () => {
    await finished(701, 1, 0);
    const { version, messages } = await evicted(700);
    const stream = nftStream(1, address(700));
    await log.append({ stream, events: [committed(502)], expectedVersion: version });
    await eventually("the transfers have arrived", async () => messages.find(({ type }) => type === "transfers"));
    expect(messages.map((message) => [message.type, "version" in message && message.version])).toEqual([
      ["transfers", version + 1],
    ]);
  });

  test("sends the chain's reverts like any other collection", async () => {
    await finished(711, 1, 0);
    const { version, messages } = await evicted(710);
    crowded.onMoved(1, { head: undefined, ancestor: { number: 501, hash: hash(501) } });
    expect(messages).toEqual([
      { type: "reorged", chain: "eth", address: address(710), version, block: 501, hash: hash(501) },
    ]);
  });

  test("sends the progress of its metadata, which needs no hydration", async () => {
    await finished(721, 1, 0);
    const { version, messages } = await evicted(720);
    crowded.collections.onMetadataProgress(1, address(720), { resolved: 500, failed: 1 });
    const told = await eventually("the metadata progress has arrived", async () => messages[0]);
    expect(told).toEqual({
      ...{ type: "metadata", chain: "eth", address: address(720), version, resume: expect.any(String) },
      ...{ resolved: 500, failed: 1, left: 1 },
    });
  });
});

test("gives transfers the block of the newest transfer, not the end of the range", async () => {
  const version = await finished(600, 1, 0);
  const { messages, receive } = peer();
  await receive({ action: "subscribe", address: address(600) });
  const transfers = [2, 4, 4].map((block, i) => ({
    ...{ kind: TransferKind.erc721, block, from: 0, to: 1, id: BigInt(100 + i), amount: 1n },
  }));
  const range = { type: "TransfersCommitted", fromBlock: 1, toBlock: 9, toHash: hash(9) } as const;
  const event: NftEvent = { ...range, count: 3, transfers: columnsOf(transfers) };
  await log.append({ stream: nftStream(1, address(600)), events: [event], expectedVersion: version });
  const told = await eventually("the transfers have arrived", async () =>
    messages.find(({ type }) => type === "transfers"),
  );
  expect(told).toMatchObject({ block: 4, tokenIds: ["100", "101", "102"], version: version + 1 });
});

/** Returns the message for the transfers of one event, and the time it took to build, in ms. */
function said(transfers: readonly ModelTransfer[]) {
  const range = { type: "TransfersCommitted", fromBlock: 1, toBlock: 9, toHash: hash(9) } as const;
  const event: NftEvent = { ...range, count: transfers.length, transfers: columnsOf(transfers) };
  const stream = nftStream(1, address(601));
  const done = { ...initialState(), completed: { number: 1, hash: hash(1) }, completedVersion: 1 };
  const began = performance.now();
  const message = messageOfEvent({ chain: "eth", address: address(601) }, done, {
    stream,
    version: 9,
    time: 0,
    checksum: 0,
    event,
  });
  return { message, ms: performance.now() - began };
}

test("names only the first ids if an event has more transfers than can be examined at once", () => {
  const moved = (count: number) =>
    Array.from({ length: count }, (_, i) => ({
      ...{ kind: TransferKind.erc1155, block: 5, from: 1, to: 2, id: 2n ** 200n + BigInt(i % 2), amount: 1n },
    }));
  const ids = moved(2).map(({ id }) => String(id));
  expect(said(moved(16_384)).message).toMatchObject({ tokenIds: ids });
  expect(said(moved(16_384)).message).not.toHaveProperty("truncated");
  expect(said(moved(16_385)).message).toMatchObject({ tokenIds: ids, truncated: true });
});

test("walks a range once even if an event repeats it ten thousand times", () => {
  const ranges = Array.from({ length: 10_000 }, (_, i) => ({
    ...{ kind: TransferKind.range, block: 5, from: 0, to: 1, id: BigInt(i % 500), amount: BigInt(1_000 - (i % 500)) },
  }));
  const last = { kind: TransferKind.erc721, block: 5, from: 1, to: 2, id: 999n, amount: 1n };
  const { message, ms } = said([...ranges, last]);
  expect(message).toMatchObject({ tokenIds: Array.from({ length: 1_000 }, (_, i) => String(i)) });
  expect(message).not.toHaveProperty("truncated");
  // To walk every range would take three quarters of a second.
  expect(ms).toBeLessThan(400);
  expect(said([...ranges, { ...last, id: 1_000n }]).message).toMatchObject({ truncated: true });
});
