/**
 * The metadata streams, read and appended. `MetadataBooks` keeps their projections in memory and calls listeners once
 * per page of events. A stream has several writers (the worker, the follower, requests on other replicas). A writer
 * that loses the race appends again, because no event here depends on the events before it. An `Outbox` gathers results
 * for a moment, so that hundreds of them become one append.
 */
import type { Clock } from "../../core/clock.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { Logger } from "../../core/logger.ts";
import type { TokenRef, TransferKind } from "../../events/columns.ts";
import { decodeTokens, encodeTokens, NO_HASH, type TokenHash } from "../../events/token-columns.ts";
import {
  type MetadataEvent,
  type MetadataReason,
  metadataStream,
  type Recorded,
  type StreamName,
} from "../../events/types.ts";
import { appendWithRetry, type EventLog, type Headline } from "../../log/event-log.ts";
import { HotStreams } from "../../log/hot-streams.ts";
import { idToBigInt, loadId } from "../ledger/token-slots.ts";
import { MetadataBook } from "./book.ts";

/** Attempts of an append against other writers. */
const ATTEMPTS = 20;
/** Results that an outbox writes at once. */
const OUTBOX_BATCH = 256;
/** Longest time that an outbox gathers results. */
const GATHER_MS = 200;

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

  /** The book with everything up to `version`, and all that was announced here. Reads the log only if that lacks it. */
  async upTo(chainId: number, address: Address, version: number): Promise<MetadataBook> {
    const stream = metadataStream(chainId, address);
    await this.#hot.catchUpOf(stream);
    const book = await this.#hot.get(stream);
    return book.version >= version ? book : this.#hot.newest(stream);
  }

  /** The book at the log's current version. */
  current(chainId: number, address: Address): Promise<MetadataBook> {
    return this.#hot.newest(metadataStream(chainId, address));
  }

  /** Resolves once the catch-ups that are running now have ended. */
  caughtUp(): Promise<void> {
    return this.#hot.caughtUp();
  }

  close(): void {
    this.#hot.close();
  }
}

export interface TokenOutcome {
  readonly token: TokenRef;
  readonly reason: MetadataReason | undefined;
  /** Hash of the outcome's document; undefined if there is none. */
  readonly hash: Hash | undefined;
  /** Bytes stored for it, at most. */
  readonly bytes: number;
  /** The stream's version when the token's URI was read. */
  readonly since: number;
}

/** Appends to the end of a collection's metadata stream. @throws ConcurrencyError if other writers win every attempt */
export async function appendMetadata(
  { log, books }: { log: EventLog; books: MetadataBooks },
  { chainId, address }: { chainId: number; address: Address },
  events: readonly MetadataEvent[],
  headline?: Headline,
): Promise<void> {
  const stream = metadataStream(chainId, address);
  const end = await appendWithRetry(log, ATTEMPTS, async (attempt) => {
    // The book is rarely behind. If it is, the log refuses the append.
    const { version } = await (attempt === 1 ? books.upTo(chainId, address, 0) : books.current(chainId, address));
    // `at` is the version of the headline. It is valid only while the stream ends there.
    const summary = headline === undefined ? {} : { headline: { ...headline, at: version + events.length } };
    return { stream, events, expectedVersion: version, ...summary };
  });
  // Fold the events now, so that the caller reads its own writes.
  if (end !== undefined) await books.upTo(chainId, address, end);
}

/** Groups outcomes into events: one for all resolved tokens, and one per failure reason. */
export function outcomeEvents(outcomes: readonly TokenOutcome[]): MetadataEvent[] {
  const groups = Map.groupBy(outcomes, ({ reason }) => reason);
  return [...groups].map(([reason, group]) => {
    const tokens = encodeTokens(group.map(({ token, hash }): TokenHash => ({ ...token, hash: hash ?? NO_HASH })));
    const since = Math.min(...group.map((outcome) => outcome.since));
    const bytes = group.reduce((sum, outcome) => sum + outcome.bytes, 0);
    const common = { since, count: group.length, bytes, tokens };
    return reason === undefined
      ? { type: "MetadataResolved", ...common }
      : { type: "MetadataFailed", reason, ...common };
  });
}

/** The tokens of an event's columns. */
export function tokensOf(bytes: Uint8Array): TokenRef[] {
  const { count, kinds, words, ids } = decodeTokens(bytes);
  const id = new Uint32Array(8);
  return Array.from({ length: count }, (_, i) => {
    loadId({ words, values: ids }, i, id);
    return { kind: kinds[i] as TransferKind, id: idToBigInt(id) };
  });
}

interface OutboxOptions<T> {
  readonly clock: Clock;
  readonly write: (items: readonly T[]) => Promise<void>;
  /** Gets the items that could not be written. The caller must retry them later. */
  readonly onFailure: (items: readonly T[], error: unknown) => void;
}

/** Gathers items and writes them together. Each item is either written or passed to `onFailure`. */
export class Outbox<T> {
  readonly #options: OutboxOptions<T>;
  #items: T[] = [];
  #cancel: (() => void) | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(options: OutboxOptions<T>) {
    this.#options = options;
  }

  add(item: T): void {
    this.#items.push(item);
    if (this.#items.length >= OUTBOX_BATCH) this.#write();
    else this.#cancel ??= this.#options.clock.after(GATHER_MS, () => this.#write());
  }

  #write(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    const items = this.#items;
    if (items.length === 0) return;
    this.#items = [];
    const { write, onFailure } = this.#options;
    this.#writing = this.#writing.then(() => write(items)).catch((error: unknown) => onFailure(items, error));
  }

  /** Resolves once each added item is written or passed to `onFailure`. */
  async flush(): Promise<void> {
    this.#write();
    await this.#writing;
  }
}
