/** The thread that reads traits: from a SQLite log by itself, and from bodies that this process reads. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { systemClock } from "../../../src/core/clock.ts";
import type { Hash } from "../../../src/core/hex.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import type { EventLog } from "../../../src/log/event-log.ts";
import { openLog } from "../../../src/log/open.ts";
import { MetadataBook } from "../../../src/nft/metadata/book.ts";
import { outcomeEvents } from "../../../src/nft/metadata/books.ts";
import { storeDocument, storeText } from "../../../src/nft/metadata/outcome-documents.ts";
import { TraitThread } from "../../../src/nft/metadata/trait-thread.ts";
import { temporaryLogUrl } from "../../support/service.ts";

const kind = TransferKind.erc721;
let log: EventLog;
beforeEach(async () => {
  log = await openLog(temporaryLogUrl(), systemClock, silentLogger);
});
afterEach(() => log.close());

/** A book of tokens 1, 2 and so on, with these documents. */
function bookOf(hashes: readonly (Hash | undefined)[]): MetadataBook {
  const book = new MetadataBook();
  const outcomes = hashes.map((hash, at) => {
    const token = { kind, id: BigInt(at + 1) };
    return { token, hash, reason: hash === undefined ? ("no_uri" as const) : undefined, bytes: 0, since: 0 };
  });
  let version = 0;
  for (const event of outcomeEvents(outcomes)) book.evolve(event, ++version, 1);
  return book;
}

/** The traits of tokens 1 to `count`, by both ways, request by request. */
async function readBoth(book: MetadataBook, count: number) {
  const ways = { byThread: log, here: { getBlobs: log.getBlobs.bind(log), blobFile: undefined } };
  const read: Record<string, (string[][] | null)[]> = {};
  for (const [way, of] of Object.entries(ways)) {
    const thread = new TraitThread(of);
    const tokens: (string[][] | null)[] = [];
    while (tokens.length < count) {
      const rest = Array.from({ length: count - tokens.length }, (_, at) => ({ kind, id: tokens.length + at + 1 }));
      const { types, typeOf, values, traits, ends } = await thread.read(book, rest);
      const textsOf = (trait: number) => [types[typeOf[trait] as number] as string, values[trait] as string];
      expect(ends.length).toBeGreaterThan(0);
      let from = 0;
      for (const end of ends) {
        tokens.push(end < 0 ? null : [...traits.slice(from, end)].map(textsOf));
        from = Math.max(from, end);
      }
    }
    await thread.close();
    read[way] = tokens;
  }
  expect(read["here"]).toEqual(read["byThread"] as never);
  return read["byThread"];
}

const attributesOf = (pairs: readonly (readonly [unknown, unknown])[]) =>
  JSON.stringify({ attributes: pairs.map(([trait_type, value]) => ({ trait_type, value })) });

test("traits are plain values with a type, each once, and a token without readable metadata has none", async () => {
  const body = async (text: string) => (await storeText(log, { uri: `https://example.org/${text}`, text }, [])).hash;
  const shared = await body(attributesOf([["Kind", "shared"]]));
  const large = attributesOf([["Number", 1]]).replace("1}", "1e999}");
  const book = bookOf([
    await body(
      attributesOf([
        ["Kind", "a"],
        ["Kind", "a"],
        ["Level", 7],
        ["Rare", true],
        [null, "x"],
        ["List", [1]],
      ]),
    ),
    shared,
    undefined,
    await body("no JSON"),
    (await storeDocument(log, { uri: "https://example.org/p", image: "https://example.org/p" }, [])).hash,
    (await storeDocument(log, { uri: "https://example.org/m", body: `0x${"1".repeat(64)}` as Hash }, [])).hash,
    await body(large),
    await body(
      attributesOf([
        ["Long", "x".repeat(201)],
        ["a:b", "c"],
      ]),
    ),
    await body("{}"),
    shared,
  ]);
  const sharedTraits = [["Kind", "shared"]];
  expect(await readBoth(book, 11)).toEqual([
    [
      ["Kind", "a"],
      ["Level", "7"],
      ["Rare", "true"],
    ],
    sharedTraits,
    ...[null, null, null, null],
    [],
    [["a:b", "c"]],
    [],
    sharedTraits,
    null,
  ]);
});

test("a request ends after a quarter of a megabyte, and the next ones read the rest", async () => {
  const filler = "x".repeat(100_000);
  const hashes = await Promise.all(
    Array.from({ length: 12 }, async (_, at) => {
      const text = JSON.stringify({ description: filler, attributes: [{ trait_type: "Number", value: at }] });
      return (await storeText(log, { uri: "https://example.org/1", text }, [])).hash;
    }),
  );
  const thread = new TraitThread(log);
  const tokens = hashes.map((_, at) => ({ kind, id: at + 1 }));
  expect((await thread.read(bookOf(hashes), tokens)).ends.length).toBe(3);
  await thread.close();
  expect(await readBoth(bookOf(hashes), 12)).toEqual(hashes.map((_, at) => [["Number", String(at)]]));
});
