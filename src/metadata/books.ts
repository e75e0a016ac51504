/**
 * The metadata books in memory: hydrated from the log when first asked for, kept current by its wake-ups, evicted by
 * bytes. As the collections' projections, but nobody is told of every event: listeners hear that a book has moved.
 */
import { LRUCache } from "lru-cache";
import { isAbort } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import { otherWork } from "../core/own-thread.ts";
import { Slots } from "../core/slots.ts";
import { type MetadataEvent, metadataStream, type Recorded, type StreamName } from "../events/types.ts";
import type { EventLog } from "../log/port.ts";
import { MetadataBook } from "./book.ts";

/** What was folded, after it was. */
export type BookListener = (stream: StreamName, book: MetadataBook, events: readonly Recorded<MetadataEvent>[]) => void;

export interface BooksOptions {
  readonly log: EventLog;
  readonly logger: Logger;
  readonly maxBytes: number;
}

/** Bytes of one read while hydrating: a slice of the event loop of a few milliseconds. */
const SLICE_BYTES = 256 * 1024;
/** Books hydrated at a time: what is half read counts nowhere as memory yet. */
const AT_ONCE = 16;

export class MetadataBooks {
  readonly #log: EventLog;
  readonly #logger: Logger;
  readonly #hot: LRUCache<StreamName, MetadataBook>;
  readonly #slots = new Slots(AT_ONCE);
  readonly #reading = new Map<StreamName, Promise<MetadataBook>>();
  readonly #listeners = new Set<BookListener>();
  readonly #unsubscribe: () => void;

  constructor({ log, logger, maxBytes }: BooksOptions) {
    this.#log = log;
    this.#logger = logger;
    // One larger than all the room there is takes all of it: a cache that refused it would have it read anew each time.
    this.#hot = new LRUCache({ maxSize: maxBytes, sizeCalculation: (book) => Math.min(maxBytes, book.bytes) });
    this.#unsubscribe = log.subscribe((stream, version) => {
      const book = stream.startsWith("metadata/") ? this.#hot.peek(stream) : undefined;
      if (book === undefined || book.version >= version) return;
      this.#catchUp(stream, book).catch((error: unknown) => {
        if (!isAbort(error)) this.#logger.error({ err: error, stream }, "metadata could not be brought up to date");
      });
    });
  }

  get bytes(): number {
    return this.#hot.calculatedSize;
  }

  subscribe(listener: BookListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The book as far as the log had it when it was last told of it. */
  async get(chainId: number, address: Address): Promise<MetadataBook> {
    const stream = metadataStream(chainId, address);
    return this.#hot.get(stream) ?? this.#catchUp(stream, new MetadataBook());
  }

  /** The book when it is in memory. */
  peek(chainId: number, address: Address): MetadataBook | undefined {
    return this.#hot.get(metadataStream(chainId, address));
  }

  /** The book as far as the log is now: for writers, who must know the stream's version. */
  async current(chainId: number, address: Address): Promise<MetadataBook> {
    const stream = metadataStream(chainId, address);
    for (;;) {
      const book = await this.get(chainId, address);
      const { version } = await this.#log.head(stream);
      if (book.version >= version) return book;
      await this.#catchUp(stream, book);
    }
  }

  /** One reader a stream: reads on until nothing is left. A book that failed half-way is dropped. */
  #catchUp(stream: StreamName, book: MetadataBook): Promise<MetadataBook> {
    const before = this.#reading.get(stream);
    // A read under way may have passed the end already: another follows it.
    const reading = (before ?? Promise.resolve(book))
      // What is in memory already reads a little more, and waits for nobody's history.
      .then((current) =>
        current.version > 0 ? this.#read(stream, current) : this.#slots.run(() => this.#read(stream, current)),
      )
      .catch((error: unknown) => {
        this.#hot.delete(stream);
        throw error;
      })
      .finally(() => {
        if (this.#reading.get(stream) === reading) this.#reading.delete(stream);
      });
    this.#reading.set(stream, reading);
    return reading;
  }

  async #read(stream: StreamName, book: MetadataBook): Promise<MetadataBook> {
    for (;;) {
      const page = (await this.#log.read(stream, {
        from: book.version + 1,
        maxBytes: SLICE_BYTES,
      })) as Recorded<MetadataEvent>[];
      if (page.length === 0) break;
      for (const { event, version, time } of page) book.evolve(event, version, time);
      for (const listener of this.#listeners) listener(stream, book, page);
      // The next slice waits its turn: requests are answered in between.
      await otherWork();
    }
    // A stream nobody wrote is kept too: its wake-up must find a book to move. It costs little and is evicted first.
    // Taken out first: what is stored in its own place keeps the size it had there.
    this.#hot.delete(stream);
    this.#hot.set(stream, book);
    return book;
  }

  close(): void {
    this.#unsubscribe();
    this.#hot.clear();
  }
}
