/**
 * Clients that move between replicas and give the last record they know as `since`: a replica that is behind the log, a
 * log that has another record of that version, and a log that has none.
 */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { type NftEvent, nftStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import type { ServerMessage } from "../../src/push/message-models.ts";
import { committed, hash, identified } from "../support/histories.ts";
import { eventually, temporaryLogUrl } from "../support/service.ts";
import { brief, ShowingProcess, WrittenChain } from "../support/written-chain.ts";

const address = `0x${"1".padStart(40, "0")}` as Address;
const stream = nftStream(1, address);

/** Two replicas over one log. The other one shows only what the test has it show. */
let writer: ShowingProcess;
let other: ShowingProcess;
let chain: WrittenChain;
let version = 0;
beforeEach(async () => {
  const url = temporaryLogUrl();
  const open = async () => new ShowingProcess(await openLog(url, systemClock, silentLogger));
  [writer, other] = [await open(), await open()];
  chain = new WrittenChain(writer.log);
  const done: NftEvent = { type: "IndexingCompleted", block: 2, hash: hash(2) };
  version = 0;
  await append({ type: "IndexingRequested" }, identified, ...[0, 1, 2].map((block) => committed(block)), done);
  await chain.advance(2);
  await Promise.all([writer.show(), other.show()]);
});
afterEach(async () => {
  for (const one of [writer, other]) {
    await one.close();
    await one.log.close();
  }
});

async function append(...events: NftEvent[]): Promise<void> {
  version = await writer.log.append({ stream, events, expectedVersion: version });
}

/** Records a block with a transfer, and the head that it leads to. */
async function follow(block: number): Promise<void> {
  const { version: chainVersion } = chain;
  await append({ ...committed(block), toHash: chain.hashOf(block), chainVersion } as NftEvent);
  await chain.advance(block);
}

/** Records a reorganisation, on the chain and then on the collection. */
async function revert(block: number): Promise<void> {
  await chain.revert(block);
  const ancestor = { number: block, hash: chain.hashOf(block) };
  await append({ type: "BlocksReverted", ancestor, chainVersion: chain.version });
}

const resumeOf = (message: ServerMessage | undefined): string =>
  (message !== undefined && "resume" in message && message.resume) || "none";

test("gives every message that moves the version the name of its record", async () => {
  const messages = await writer.subscribe(address);
  await follow(3);
  await revert(2);
  await writer.show();
  await eventually("the events arrive", async () => (messages.length >= 4 ? true : undefined));
  expect(brief(messages)).toEqual([
    ["status", 6],
    ["indexed", 6],
    ["transfers", 7],
    ["reorged", 8],
  ]);
  for (const message of messages) {
    const at = (message as { version: number }).version;
    const checksum = await writer.log.checksum(stream, at);
    expect(resumeOf(message)).toBe(`${at}.${checksum?.toString(36)}`);
  }
});

test("goes on after the record that a resume names, on any replica", async () => {
  const messages = await writer.subscribe(address);
  await follow(3);
  await follow(4);
  await writer.show();
  expect(messages).toHaveLength(4);
  const resume = resumeOf(messages[2]);
  for (const one of [writer, other]) {
    const later = await one.subscribe(address, resume);
    expect(brief(later)).toEqual([
      ["status", 7],
      ["transfers", 8],
    ]);
    expect(resumeOf(later[0])).toBe(resume);
  }
});

test.each(["resume", "version"])(
  "shows what another replica has told the client of, and repeats nothing: by %s",
  async (by) => {
    // The other replica has the collection in memory, and gets no wake-up before its next poll.
    await other.subscribe(address);
    const messages = await writer.subscribe(address);
    await follow(3);
    await writer.show();
    expect(messages).toHaveLength(3);
    const later = await other.subscribe(address, by === "resume" ? resumeOf(messages[2]) : 7);
    expect(brief(later)).toEqual([["status", 7]]);
    expect(later[0]).not.toHaveProperty("gap");
    expect(other.view.head()?.number).toBe(3);
    await follow(4);
    await other.show();
    expect(brief(later)).toEqual([
      ["status", 7],
      ["transfers", 8],
    ]);
  },
);

test("does not repeat a reorganisation that the client knows from another replica", async () => {
  await follow(3);
  await revert(2);
  await follow(3);
  const later = await other.subscribe(address, 9);
  expect(brief(later)).toEqual([["status", 9]]);
  await other.show();
  expect(brief(later)).toEqual([["status", 9]]);
  // The next one is news.
  await revert(2);
  await other.show();
  await eventually("the revert arrives", async () => (later.length > 1 ? true : undefined));
  expect(brief(later).slice(1)).toEqual([["reorged", 10]]);
});

test.each([
  ["a record of that version that is another one", () => "6.zzzzz"],
  ["no record of that version", () => "9.zzzzz"],
  ["fewer versions", () => 9],
])("reports a gap if the log has %s", async (_what, since) => {
  for (const one of [writer, other]) {
    const messages = await one.subscribe(address, since());
    expect(messages).toMatchObject([
      { type: "status", version: 6, gap: true },
      { type: "indexed", version: 6 },
    ]);
  }
});

test.each([-1, 1.5, "", "7", "7.", "x.7", "7.7.7", "7.ABC", "99999999999.7", {}, null])(
  "refuses %p as since",
  async (since) => {
    expect(await writer.subscribe(address, since)).toMatchObject([{ type: "error", code: "invalid_parameter" }]);
  },
);
