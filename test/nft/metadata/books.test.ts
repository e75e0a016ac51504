/** Many books requested at once: a bounded number is read at a time, each once, and a book in memory waits for none. */
import { expect, test } from "bun:test";
import type { Address, Hash } from "../../../src/core/hex.ts";
import { createLogger } from "../../../src/core/logger.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { encodeTokens } from "../../../src/events/token-columns.ts";
import { type MetadataResolved, metadataStream, type Recorded, type StreamName } from "../../../src/events/types.ts";
import { MetadataBooks } from "../../../src/nft/metadata/books.ts";
import { MemoryLog } from "../../support/memory-log.ts";
import { eventually } from "../../support/service.ts";

const COLD = 100;
const addressOf = (n: number) => `0x${n.toString(16).padStart(40, "0")}` as Address;
const HOT = addressOf(0);

/** A log that holds the reads of all streams but the hot one until `letOn`. */
class HeldLog extends MemoryLog {
  readonly begun: StreamName[] = [];
  readonly #gate = Promise.withResolvers<void>();
  active = 0;
  most = 0;

  letOn(): void {
    this.#gate.resolve();
  }

  override async read(stream: StreamName, options = {}): Promise<Recorded[]> {
    if (stream === metadataStream(1, HOT)) return super.read(stream, options);
    this.begun.push(stream);
    this.most = Math.max(this.most, ++this.active);
    await this.#gate.promise;
    this.active--;
    return super.read(stream, options);
  }
}

test("reads a hundred cold books sixteen at a time, each once, without delaying a hot one", async () => {
  const log = new HeldLog();
  const requested = { type: "MetadataSettled", collection: 1, dueAt: 1 } as const;
  const append = async (n: number, expectedVersion: number) => {
    await log.append({ stream: metadataStream(1, addressOf(n)), events: [requested], expectedVersion });
  };
  for (let n = 0; n <= COLD; n++) await append(n, 0);
  const books = new MetadataBooks({ log, logger: createLogger("silent"), maxBytes: 2 ** 24 });
  await books.get(1, HOT);
  const asked = Array.from({ length: COLD }, (_, n) => books.get(1, addressOf(n + 1)));
  await eventually("some books are being read", async () => (log.active > 0 ? true : undefined));
  await append(0, 1);
  expect((await books.current(1, HOT)).version).toBe(2);
  expect(log.active).toBe(16);
  log.letOn();
  expect((await Promise.all(asked)).map(({ version }) => version)).toEqual(Array(COLD).fill(1));
  expect(log.most).toBe(16);
  // Two reads per book: one for the event, one to see that it is the last.
  expect(log.begun).toHaveLength(2 * COLD);
  books.close();
});

test("counts the growth of a book, and keeps a book larger than the whole memory bound", async () => {
  const log = new MemoryLog();
  const stream = metadataStream(1, HOT);
  const resolved = (from: number): MetadataResolved => {
    const tokens = Array.from({ length: 1_000 }, (_, i) => ({
      kind: TransferKind.erc721,
      id: BigInt(from + i),
      hash: `0x${"a".repeat(64)}` as Hash,
    }));
    return { type: "MetadataResolved", since: 1, count: tokens.length, bytes: 1, tokens: encodeTokens(tokens) };
  };
  await log.append({ stream, events: [resolved(0)], expectedVersion: 0 });
  const books = new MetadataBooks({ log, logger: createLogger("silent"), maxBytes: 2 ** 24 });
  await books.get(1, HOT);
  const before = books.bytes;
  await log.append({ stream, events: [resolved(1_000), resolved(2_000), resolved(3_000)], expectedVersion: 1 });
  await books.current(1, HOT);
  await eventually("the growth of the book is counted", async () => (books.bytes > 2 * before ? true : undefined));
  books.close();

  const narrow = new MetadataBooks({ log, logger: createLogger("silent"), maxBytes: 100 });
  const book = await narrow.get(1, HOT);
  expect(narrow.peek(1, HOT)).toBe(book);
  narrow.close();
});
