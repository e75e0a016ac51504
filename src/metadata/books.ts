/**
 * The cache of metadata books: hydrated from the log on first use, kept current by the log's wake-ups, evicted by
 * bytes. Like `CollectionProjections`, but listeners are called once per page of events, not per event.
 */
import { LRUCache } from "lru-cache";
import { Semaphore, yieldToEventLoop } from "../core/background.ts";
import { isAbort } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import { type MetadataEvent, metadataStream, type Recorded, type StreamName } from "../events/types.ts";
import type { EventLog } from "../log/event-log.ts";
import { MetadataBook } from "./book.ts";

/** Called after events were folded. */
type BookListener = (stream: StreamName, book: MetadataBook, events: readonly Recorded<MetadataEvent>[]) => void;

interface BooksOptions {
  readonly log: EventLog;
  readonly logger: Logger;
  readonly maxBytes: number;
}

/** Bytes per read of a hydration: a few milliseconds of the event loop. */
const SLICE_BYTES = 256 * 1024;
/** Concurrent hydrations. The cache doesn't count their memory yet. */
const AT_ONCE = 16;

export class MetadataBooks {
  readonly #log: EventLog;
  readonly #logger: Logger;
  readonly #hot: LRUCache<StreamName, MetadataBook>;
  readonly #slots = new Semaphore(AT_ONCE);
  readonly #reading = new Map<StreamName, Promise<MetadataBook>>();
  readonly #listeners = new Set<BookListener>();
  readonly #unsubscribe: () => void;

  constructor({ log, logger, maxBytes }: BooksOptions) {
    this.#log = log;
    this.#logger = logger;
    // Cap the size at the cache's: the cache would refuse a larger book, and each call would read it again.
    this.#hot = new LRUCache({ maxSize: maxBytes, sizeCalculation: (book) => Math.min(maxBytes, book.bytes) });
    this.#unsubscribe = log.subscribe((stream, version) => {
      const book = stream.startsWith("metadata/") ? this.#hot.peek(stream) : undefined;
      if (book === undefined || book.version >= version) return;
      this.#catchUp(stream, book).catch((error: unknown) => {
        if (!isAbort(error)) this.#logger.error({ err: error, stream }, "failed to fold new events of a metadata book");
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

  /** The book, as current as the last wake-up. */
  async get(chainId: number, address: Address): Promise<MetadataBook> {
    const stream = metadataStream(chainId, address);
    return this.#hot.get(stream) ?? this.#catchUp(stream, new MetadataBook());
  }

  /** The book if it is in memory. */
  peek(chainId: number, address: Address): MetadataBook | undefined {
    return this.#hot.get(metadataStream(chainId, address));
  }

  /** The book at the log's current version, which a writer needs as expected version. */
  async current(chainId: number, address: Address): Promise<MetadataBook> {
    const stream = metadataStream(chainId, address);
    for (;;) {
      const book = await this.get(chainId, address);
      const { version } = await this.#log.head(stream);
      if (book.version >= version) return book;
      await this.#catchUp(stream, book);
    }
  }

  /** Reads on to the end of the stream, with one reader per stream. Drops the book after an error. */
  #catchUp(stream: StreamName, book: MetadataBook): Promise<MetadataBook> {
    const before = this.#reading.get(stream);
    // The running read may have passed the end already, so start another one after it.
    const reading = (before ?? Promise.resolve(book))
      // A hot book has little to read, so it needs no slot and doesn't wait for hydrations.
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
      // Let requests run between two pages.
      await yieldToEventLoop();
    }
    // Keep the book of an empty stream, too: a wake-up needs a book to update. It is small and evicted first.
    // Delete it first, because the cache keeps the old size if the same value is set again.
    this.#hot.delete(stream);
    this.#hot.set(stream, book);
    return book;
  }

  close(): void {
    this.#unsubscribe();
    this.#hot.clear();
  }
}
