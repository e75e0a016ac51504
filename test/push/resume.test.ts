/**
 * Clients that move between replicas and give the last record they know as `since`: a replica that is behind the log, a
 * log that has another record of that version, and a log that has none.
 */
import { afterAll, beforeEach, expect, test } from "bun:test";
import { HotCollections } from "../../src/collections/hot-collections.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { type NftEvent, nftStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { Channel } from "../../src/push/channel.ts";
import type { ServerMessage } from "../../src/push/message-models.ts";
import { committed, hash, identified } from "../support/histories.ts";
import { READER } from "../support/requesters.ts";
import { eventually, temporaryLogUrl } from "../support/service.ts";

const url = temporaryLogUrl();

/** A replica over the shared log. It shows blocks up to `shown`. */
async function replica() {
  const log = await openLog(url, systemClock, silentLogger);
  const projections = new HotCollections({ log, logger: silentLogger, maxBytes: 1e9 });
  const view = { shown: Number.MAX_SAFE_INTEGER, version: 1 };
  const channel = new Channel({
    log,
    projections,
    clock: systemClock,
    logger: silentLogger,
    chainOf: () => ({
      version: view.version,
      head: () => (view.shown === Number.MAX_SAFE_INTEGER ? undefined : { number: view.shown, hash: hash(view.shown) }),
      finalized: () => undefined,
      header: () => undefined,
      isCanonical: () => true,
    }),
    demand: { request: async () => undefined },
    maxSubscriptions: 3,
  });
  const subscribe = async (since?: unknown) => {
    const messages: ServerMessage[] = [];
    const peer = {
      key: READER,
      send: (message: ServerMessage) => void messages.push(message),
      ask: (work: () => Promise<void>) => work(),
      onRead: () => undefined,
    };
    channel.open(peer);
    await channel.receive(peer, JSON.stringify({ action: "subscribe", address, since }));
    return messages;
  };
  const show = (block: number, version = 1) => {
    Object.assign(view, { shown: block, version });
    channel.onChainViewMoved(1);
  };
  const revert = (ancestor: number, version: number) => {
    show(ancestor, version);
    channel.chainReverted(1, { number: ancestor, hash: hash(ancestor) });
  };
  const close = async () => {
    channel.stop();
    await projections.close();
    await log.close();
  };
  return { log, projections, subscribe, show, revert, close };
}

const [writer, other] = [await replica(), await replica()];
afterAll(async () => {
  await Promise.all([writer.close(), other.close()]);
});

let count = 0;
let address: Address;
let version = 0;
beforeEach(async () => {
  for (const { show } of [writer, other]) show(Number.MAX_SAFE_INTEGER);
  address = `0x${(++count).toString(16).padStart(40, "0")}` as Address;
  const done: NftEvent = { type: "IndexingCompleted", block: 2, hash: hash(2) };
  version = 0;
  await append({ type: "IndexingRequested" }, identified, ...[0, 1, 2].map((block) => committed(block)), done);
});

async function append(...events: NftEvent[]): Promise<void> {
  version = await writer.log.append({ stream: nftStream(1, address), events, expectedVersion: version });
}

const followed = (block: number, chainVersion = 1): NftEvent => ({ ...committed(block), chainVersion }) as NftEvent;

const brief = (messages: readonly ServerMessage[]) =>
  messages.map((message) => [message.type, "version" in message ? message.version : undefined]);

const resumeOf = (message: ServerMessage | undefined): string =>
  (message !== undefined && "resume" in message && message.resume) || "none";

test("gives every message that moves the version the name of its record", async () => {
  const messages = await writer.subscribe();
  await append(followed(3), { type: "BlocksReverted", ancestor: { number: 2, hash: hash(2) }, chainVersion: 1 });
  await eventually("the events arrive", async () => (messages.length >= 4 ? true : undefined));
  expect(brief(messages)).toEqual([
    ["status", 6],
    ["indexed", 6],
    ["transfers", 7],
    ["reorged", 8],
  ]);
  for (const message of messages) {
    const at = (message as { version: number }).version;
    const checksum = await writer.log.checksum(nftStream(1, address), at);
    expect(resumeOf(message)).toBe(`${at}.${checksum?.toString(36)}`);
  }
});

test("goes on after the record that a resume names, on any replica", async () => {
  const messages = await writer.subscribe();
  await append(followed(3));
  await append(followed(4));
  await eventually("the transfers arrive", async () => (messages.length === 4 ? true : undefined));
  const resume = resumeOf(messages[2]);
  for (const { subscribe } of [writer, other]) {
    const later = await subscribe(resume);
    expect(brief(later)).toEqual([
      ["status", 7],
      ["transfers", 8],
    ]);
    expect(resumeOf(later[0])).toBe(resume);
  }
});

test.each(["resume", "version"])(
  "waits for a record above what this replica knows, and repeats nothing: by %s",
  async (by) => {
    // The other replica has the collection in memory, and gets no wake-up before its next poll.
    await other.subscribe();
    const messages = await writer.subscribe();
    await append(followed(3));
    await eventually("the transfers arrive", async () => (messages.length === 3 ? true : undefined));
    const later = await other.subscribe(by === "resume" ? resumeOf(messages[2]) : 7);
    expect(brief(later)).toEqual([["status", 7]]);
    expect(later[0]).not.toHaveProperty("gap");
    await append(followed(4));
    await eventually("the next transfers arrive", async () => (later.length > 1 ? true : undefined));
    expect(brief(later)).toEqual([
      ["status", 7],
      ["transfers", 8],
    ]);
  },
);

test("repeats nothing that another replica showed before this one does", async () => {
  other.show(2);
  await append(followed(3));
  const later = await other.subscribe(7);
  expect(brief(later)).toEqual([["status", 7]]);
  other.show(3);
  await append(followed(4));
  other.show(4);
  await eventually("the next transfers arrive", async () => (later.length > 1 ? true : undefined));
  expect(brief(later)).toEqual([
    ["status", 7],
    ["transfers", 8],
  ]);
});

test("does not repeat a reorg that the client knows from another replica", async () => {
  other.show(2, 1);
  await append(followed(3));
  const ancestor = { number: 2, hash: hash(2) };
  await append({ type: "BlocksReverted", ancestor, chainVersion: 3 }, followed(3, 3));
  const later = await other.subscribe(9);
  expect(brief(later)).toEqual([["status", 9]]);
  // This replica learns it only now.
  other.show(3, 2);
  other.revert(2, 3);
  other.show(3, 4);
  expect(brief(later)).toEqual([["status", 9]]);
  // The next one is news.
  other.revert(2, 5);
  expect(brief(later).slice(1)).toEqual([["reorged", 9]]);
});

test.each([
  ["a record of that version that is another one", () => "6.zzzzz"],
  ["no record of that version", () => "9.zzzzz"],
  ["fewer versions", () => 9],
])("reports a gap if the log has %s", async (_what, since) => {
  for (const { subscribe } of [writer, other]) {
    const messages = await subscribe(since());
    expect(messages).toMatchObject([
      { type: "status", version: 6, gap: true },
      { type: "indexed", version: 6 },
    ]);
  }
});

test.each([-1, 1.5, "", "7", "7.", "x.7", "7.7.7", "7.ABC", "99999999999.7", {}, null])(
  "refuses %p as since",
  async (since) => {
    expect(await writer.subscribe(since)).toMatchObject([{ type: "error", code: "invalid_parameter" }]);
  },
);
