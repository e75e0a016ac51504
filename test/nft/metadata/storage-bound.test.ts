/** Disk space for metadata: inline content is stored once, and each collection has a bound. */
import { afterEach, expect, test } from "bun:test";
import { systemClock } from "../../../src/core/clock.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { encodeTokens } from "../../../src/events/token-columns.ts";
import { metadataStream } from "../../../src/events/types.ts";
import type { EventLog } from "../../../src/log/event-log.ts";
import { appendMetadata } from "../../../src/nft/metadata/books.ts";
import { fromBlob, type OutcomeDocument, toBlob } from "../../../src/nft/metadata/outcome-documents.ts";
import { addressOf, type RunningMetadata, type RunningOptions, startMetadata } from "../../support/metadata/running.ts";
import { eventually } from "../../support/service.ts";

const A = addressOf("a");
const kind = TransferKind.erc721;
const TEN_MINUTES = 600_000;

let running: RunningMetadata;
afterEach(() => running.stop());

/** Starts metadata over a log that counts the bytes of new blobs. Returns a function that reads the count. */
async function start(options: RunningOptions): Promise<() => number> {
  const stored = new Map<string, number>();
  running = await startMetadata({
    ...options,
    wrapLog: (log) =>
      new Proxy(log, {
        get: (target, name) => {
          const value = Reflect.get(target, name, target);
          if (name !== "putBlob") return typeof value === "function" ? value.bind(target) : value;
          return async (bytes: Uint8Array): ReturnType<EventLog["putBlob"]> => {
            const hash = await target.putBlob(bytes);
            stored.set(hash, bytes.length);
            return hash;
          };
        },
      }),
  });
  return () => stored.values().reduce((sum, bytes) => sum + bytes, 0);
}

const bodyOf = (id: number, length: number): string => JSON.stringify({ name: String(id).padEnd(length, "é") });
const base64 = (text: string): string => Buffer.from(text).toString("base64");

/** The metadata book of collection A. */
const bookOf = () => running.metadata.books.get(1, A);

test("stores inline content once and shows the URI as the contract gave it", async () => {
  const bodies = Array.from({ length: 6 }, (_, id) => bodyOf(id, 10_000));
  const [one, two, three, four, five, six] = bodies as [string, string, string, string, string, string];
  const uris = [
    `data:application/json;base64,${base64(one)}`,
    `data:application/json,${two}`,
    three,
    // Spelt in a way that cannot be rebuilt from the content.
    ` ${four}\n`,
    `data:application/json;base64,${base64(five).replace(/.{76}/g, "$&\n")}`,
    `data:application/json,${encodeURIComponent(six)}`,
  ];
  const stored = await start({ stories: { [A]: uris } });
  await running.settled(A, uris.length);
  const page = await running.page(A, uris.length);
  expect(page.map(({ tokenUri }) => JSON.parse(tokenUri))).toEqual(uris);
  expect(page.map(({ metadata }) => JSON.parse(metadata))).toEqual(bodies);
  const bytes = (texts: readonly string[]) => texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  // The remaining fields of a document take about 150 bytes.
  expect(stored() - bytes(bodies) - bytes(uris.slice(3))).toBeLessThan(6 * 200);
  expect((await bookOf()).storedBytes).toBe(stored());
});

test("still reads a stored document that contains its whole URI, from an earlier release", async () => {
  const body = bodyOf(0, 1_000);
  const uri = `data:application/json,${body}`;
  await start({ stories: {} });
  const { log } = running;
  const document: OutcomeDocument = { uri, body: await log.putBlob(new TextEncoder().encode(body)) };
  const hash = await log.putBlob(toBlob(document));
  const tokens = encodeTokens([{ kind, id: 0n, hash }]);
  const failed = { type: "MetadataFailed", since: 0, count: 1, reason: "timeout", bytes: 0, tokens } as const;
  const resolved = { type: "MetadataResolved", since: 0, count: 1, bytes: 0, tokens } as const;
  await log.append({ stream: metadataStream(1, A), events: [resolved, failed], expectedVersion: 0 });
  // The collection is added after its metadata, and the failed attempt is repeated.
  await running.add(A, [uri]);
  const found = await eventually("the token has been fetched again", async () => {
    const book = await bookOf();
    return book.version > 2 ? book.good(book.find(kind, 0)) : undefined;
  });
  expect(fromBlob<OutcomeDocument>((await log.getBlob(found.hash ?? hash)) ?? new Uint8Array())).toEqual(document);
  expect((await bookOf()).storedBytes).toBe(0);
});

test("fetches only the tokens that are read once a collection exceeds its storage bound", async () => {
  const [TOKENS, BODY, MAX] = [400, 20_000, 1_000_000];
  // Half of them fail and would be retried. Their URIs take as much space.
  const uris = Array.from({ length: TOKENS }, (_, id) =>
    id % 2 === 0 ? `data:application/json,${bodyOf(id, BODY)}` : `data:application/json,[${id}${" ".repeat(2 * BODY)}]`,
  );
  await start({ stories: { [A]: uris }, maxStoredBytes: MAX });
  const settled = await eventually("the collection has reached its bound", async () => {
    const book = await bookOf();
    return book.storedBytes >= MAX && running.chain.inFlight() === 0 ? book.storedBytes : undefined;
  });
  // Fetches in flight at that moment may exceed the bound, at most one visit's window.
  expect(settled).toBeLessThan(MAX + 48 * 2.1 * BODY);
  // Only a page view fetches more.
  const last = { from: TOKENS - 2 };
  await running.page(A, 2, last);
  await eventually("the viewed tokens have metadata", async () => {
    const [even, odd] = await running.page(A, 2, last);
    return even?.metadata !== "null" && odd?.tokenUri !== "null" ? true : undefined;
  });
  const { resolved, failed, storedBytes, version } = await bookOf();
  expect(storedBytes).toBeGreaterThan(settled);
  expect(storedBytes).toBeLessThan(settled + 2.5 * 2 * BODY);
  expect(resolved + failed).toBeLessThan(TOKENS / 2);
  // An announcement that all tokens changed causes no fetch.
  const whole = { fromId: "0", toId: String(TOKENS) };
  const doubt = { type: "MetadataOutdated", ...whole, cause: "announced", block: 1 } as const;
  await running.log.append({ stream: metadataStream(1, A), events: [doubt], expectedVersion: version });
  await running.page(A, 2, { from: TOKENS - 4 });
  await eventually("the tokens viewed later have metadata", async () => {
    const book = await bookOf();
    return book.find(kind, TOKENS - 3) >= 0 ? true : undefined;
  });
  expect((await bookOf()).storedBytes).toBeLessThan(settled + 2.5 * 4 * BODY);
});

test("refetches a collection that keeps announcing changes only until its book is full", async () => {
  const [TOKENS, ROOM] = [100, 2 ** 17];
  const uris = Array.from({ length: TOKENS }, (_, id) => `data:application/json,{"name":"${id}"}`);
  let laterMs = 0;
  const clock = { ...systemClock, now: () => systemClock.now() + laterMs };
  await start({ stories: { [A]: uris }, cacheBytes: ROOM, clock });
  await running.settled(A, TOKENS);
  const { outcomes, metadata, log } = running;
  const announce = () => {
    const doubt = {
      type: "MetadataOutdated",
      fromId: "0",
      toId: String(TOKENS),
      cause: "announced",
      block: 1,
    } as const;
    return appendMetadata({ log, books: metadata.books }, { chainId: 1, address: A }, [doubt]);
  };
  const { storedBytes } = await bookOf();
  // Each outcome takes forty bytes, so the book holds some thousands if it forgets none.
  for (let round = 2; (await bookOf()).bytes < ROOM; round++) {
    expect(round).toBeLessThan(100);
    laterMs += TEN_MINUTES;
    await announce();
    await eventually("all tokens are refetched, or the book is full", async () =>
      (outcomes.get("resolved") ?? 0) >= TOKENS * round || (await bookOf()).bytes >= ROOM ? true : undefined,
    );
  }
  // The stored bytes have not grown, so the storage bound is not the reason.
  expect((await bookOf()).storedBytes).toBe(storedBytes);
  const isDone = async () => (running.chain.inFlight() === 0 ? true : undefined);
  await eventually("no fetch is in flight", isDone);
  const before = outcomes.get("resolved");
  laterMs += TEN_MINUTES;
  await announce();
  // Viewed tokens are still fetched, and they are queued after the announced ones.
  await running.page(A, 2, { from: TOKENS });
  await eventually("the viewed tokens were fetched", async () => (outcomes.get("no_uri") === 2 ? true : undefined));
  await eventually("no fetch is in flight after the view", isDone);
  expect(outcomes.get("resolved")).toBe(before as number);
});

test("refetches a collection that announces changes in every block at most every ten minutes", async () => {
  const TOKENS = 1_500;
  const uris = Array.from({ length: TOKENS }, (_, id) => `data:application/json,{"name":"${id}"}`);
  let laterMs = 0;
  const clock = { ...systemClock, now: () => systemClock.now() + laterMs };
  await start({ stories: { [A]: uris }, clock });
  await running.settled(A, TOKENS);
  const { outcomes, metadata, log } = running;
  const asked = () => outcomes.get("resolved") ?? 0;
  const announce = (from: number, to: number) => {
    const doubt = { type: "MetadataOutdated", fromId: `${from}`, toId: `${to}`, cause: "announced", block: 1 } as const;
    return appendMetadata({ log, books: metadata.books }, { chainId: 1, address: A }, [doubt]);
  };
  /** The next token to view. A viewed token is fetched after all others that are due. */
  let read = TOKENS;
  const idle = async () => {
    await eventually("no fetch is in flight", async () => (running.chain.inFlight() === 0 ? true : undefined));
    await running.page(A, 1, { from: read++ });
    await eventually("it is fetched", async () => (outcomes.get("no_uri") === read - TOKENS ? true : undefined));
    await eventually("no fetch is left", async () => (running.chain.inFlight() === 0 ? true : undefined));
  };
  // At once: all tokens a second time, and some single ones.
  await announce(0, TOKENS);
  await eventually("all tokens are fetched again", async () => (asked() === 2 * TOKENS ? true : undefined));
  await announce(7, 7);
  await eventually("the announced token is fetched again", async () => (asked() === 2 * TOKENS + 1 ? true : undefined));
  for (let block = 0; block < 20; block++) await announce(0, TOKENS);
  const most = 2 * TOKENS + 1_000;
  await eventually("the fetches up to the bound are made", async () => (asked() === most ? true : undefined));
  await idle();
  expect(asked()).toBe(most);
  // Tokens beyond the bound stay marked, and none of them is skipped for good.
  const book = await bookOf();
  for (let round = 0; round < 2; round++) {
    laterMs += TEN_MINUTES;
    await announce(TOKENS + 100, TOKENS + 100);
  }
  await eventually("no token is marked as outdated", async () =>
    Array.from({ length: TOKENS }, (_, id) => book.isOutdated(book.find(kind, id))).includes(true) ? undefined : true,
  );
});
