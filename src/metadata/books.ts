/** The metadata books in memory: a cache of projections. Listeners are called once per page of events. */
import type { Address } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import { type MetadataEvent, metadataStream, type Recorded, type StreamName } from "../events/types.ts";
import type { EventLog } from "../log/event-log.ts";
import { HotStreams } from "../log/hot-streams.ts";
import { MetadataBook } from "./book.ts";

/** Called after events were folded. */
type BookListener = (stream: StreamName, book: MetadataBook, events: readonly Recorded<MetadataEvent>[]) => void;

interface BooksOptions {
  readonly log: EventLog;
  readonly logger: Logger;
  readonly maxBytes: number;
}

export class MetadataBooks {
  readonly #hot: HotStreams<MetadataBook, MetadataEvent>;
  readonly #listeners = new Set<BookListener>();

  constructor(options: BooksOptions) {
    this.#hot = new HotStreams({
      ...options,
      kind: "metadata",
      // A wake-up needs a book to update. An empty one is small and evicted first.
      keepsEmpty: true,
      projection: {
        load: () => new MetadataBook(),
        evolve: (_stream, book, { event, version, time }) => {
          book.evolve(event, version, time);
          return [];
        },
        weight: () => 1,
        attachedBytes: (event) => ("tokens" in event ? event.tokens.length : 0),
        bytes: (book) => book.bytes,
      },
      onPage: (stream, book, page) => {
        for (const listener of this.#listeners) listener(stream, book, page);
      },
    });
  }

  get bytes(): number {
    return this.#hot.bytes;
  }

  subscribe(listener: BookListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The book, as current as the last wake-up. */
  get(chainId: number, address: Address): Promise<MetadataBook> {
    return this.#hot.get(metadataStream(chainId, address));
  }

  /** The book if it is in memory. */
  peek(chainId: number, address: Address): MetadataBook | undefined {
    return this.#hot.peek(metadataStream(chainId, address));
  }

  /** The book at the log's current version, which a writer needs as expected version. */
  current(chainId: number, address: Address): Promise<MetadataBook> {
    return this.#hot.newest(metadataStream(chainId, address));
  }

  close(): void {
    this.#hot.close();
  }
}
