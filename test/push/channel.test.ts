/** What is hard to reach over a socket: the bound on subscriptions, a gap of more than 1,000 versions, quick progress. */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { type NftEvent, nftStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { CollectionProjections } from "../../src/nfts/projections.ts";
import { Channel } from "../../src/push/channel.ts";
import type { ServerMessage } from "../../src/push/messages.ts";
import { identified as begun, committed, hash } from "../nfts/histories.ts";
import { eventually, temporaryLogUrl } from "../support/service.ts";

// Real parts, on machines that have others to serve: the runner's five seconds would kill them in the middle.
setDefaultTimeout(30_000);

const log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
const projections = new CollectionProjections({ log, logger: silentLogger, maxBytes: 1e9 });
const channel = new Channel({
  log,
  projections,
  clock: systemClock,
  logger: silentLogger,
  chainOf: () => ({
    version: 0,
    head: () => undefined,
    finalized: () => undefined,
    header: () => undefined,
    isCanonical: () => true,
  }),
  requestIndexing: async (chainId, address) => {
    const stream = nftStream(chainId, address as Address);
    await log.append({ stream, events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
  },
  maxSubscriptions: 3,
});
afterAll(async () => {
  channel.stop();
  projections.close();
  await log.close();
});

function peer() {
  const messages: ServerMessage[] = [];
  const self = { send: (message: ServerMessage) => void messages.push(message) };
  channel.open(self);
  const receive = (message: object) => channel.receive(self, JSON.stringify(message));
  return { self, messages, receive };
}

const address = (n: number) => `0x${n.toString(16).padStart(40, "0")}` as Address;
const identified: NftEvent = { ...begun, block: 5_000 };

test("subscriptions are bounded, and room comes back", async () => {
  const { messages, receive } = peer();
  for (let n = 1; n <= 4; n++) await receive({ action: "subscribe", address: address(n) });
  expect(messages.map((message) => message.type)).toEqual(["status", "status", "status", "error"]);
  expect(messages.at(-1)).toMatchObject({ code: "rate_limited" });
  await receive({ action: "unsubscribe", address: address(2) });
  await receive({ action: "subscribe", address: address(4) });
  expect(messages.at(-1)).toMatchObject({ type: "status", address: address(4) });
});

test("since: up to 1,000 versions are replayed in order, more is a gap; progress is held back, the last one comes", async () => {
  const stream = nftStream(1, address(100));
  const first: NftEvent[] = [{ type: "IndexingRequested" }, identified];
  await log.append({ stream, events: first, expectedVersion: 0 });
  const watcher = peer();
  await watcher.receive({ action: "subscribe", address: address(100) });
  for (let block = 0; block < 50; block++) {
    await log.append({ stream, events: [committed(block)], expectedVersion: block + 2 });
  }
  await eventually("the last progress", async () =>
    watcher.messages.find((m) => m.type === "progress" && m.transfers === 50),
  );
  const progress = watcher.messages.filter((message) => message.type === "progress");
  expect(progress.length).toBeLessThan(10);
  expect(progress.at(-1)).toMatchObject({ version: 52, percent: 0, blocksLeft: 4_951 });

  const completed: NftEvent = { type: "IndexingCompleted", block: 49, hash: hash(49) };
  const rest = Array.from({ length: 1_200 }, (_, i) => committed(50 + i));
  await log.append({ stream, events: [completed, ...rest], expectedVersion: 52 });
  const version = 53 + 1_200;
  await eventually("all is told", async () => watcher.messages.find((m) => "version" in m && m.version === version));

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

test("what many are told is made once, and an event of before is not told to who came after it", async () => {
  const stream = nftStream(1, address(200));
  const done: NftEvent = { type: "IndexingCompleted", block: 0, hash: hash(0) };
  const history: NftEvent[] = [{ type: "IndexingRequested" }, identified, committed(0), done];
  await log.append({ stream, events: history, expectedVersion: 0 });
  const peers = Array.from({ length: 50 }, peer);
  await Promise.all(peers.map(({ receive }) => receive({ action: "subscribe", address: address(200) })));
  await log.append({ stream, events: [committed(1)], expectedVersion: 4 });
  const moved = await eventually("all are told", async () => {
    const told = peers.map(({ messages }) => messages.filter(({ type }) => type === "transfers"));
    return told.every(({ length }) => length > 0) ? told.flat() : undefined;
  });
  expect(moved).toHaveLength(peers.length);
  expect(new Set(moved).size).toBe(1);
  const late = peer();
  await late.receive({ action: "subscribe", address: address(200) });
  expect(late.messages.map(({ type }) => type)).toEqual(["status", "indexed"]);
});
