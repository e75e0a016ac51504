/**
 * Appends to the metadata streams. Gathers outcomes for a moment and groups them into few events of hundreds of tokens.
 * A stream has several writers (the worker, the follower, requests on other replicas). A writer that loses the race
 * appends again, because no event here depends on the events before it.
 */
import type { Clock } from "../core/clock.ts";
import type { Address, Hash } from "../core/hex.ts";
import { encodeTokens, NO_HASH, type TokenHash } from "../events/columns.ts";
import { type MetadataEvent, type MetadataReason, metadataStream } from "../events/types.ts";
import type { EventLog, Headline } from "../log/event-log.ts";
import { appendWithRetry } from "../log/stream-writer.ts";
import type { MetadataBooks } from "./books.ts";
import type { Token } from "./work.ts";

const ATTEMPTS = 20;
/** Outcomes that are written at once. */
const BATCH = 256;
/** Longest time until an outcome is written. */
const GATHER_MS = 200;

export interface TokenOutcome {
  readonly token: Token;
  readonly reason: MetadataReason | undefined;
  /** Hash of the outcome's document; undefined if there is none. */
  readonly hash: Hash | undefined;
  /** Bytes stored for it, at most. */
  readonly bytes: number;
  /** The stream's version when the contract was asked. */
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
  await appendWithRetry(log, ATTEMPTS, async () => {
    const { version } = await books.current(chainId, address);
    // `at` is the version of the headline. It is valid only while the stream ends there.
    const summary = headline === undefined ? {} : { headline: { ...headline, at: version + events.length } };
    return { stream, events, expectedVersion: version, ...summary };
  });
  // Fold the events now, so that the caller reads its own writes.
  await books.current(chainId, address);
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
    if (this.#items.length >= BATCH) this.#write();
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
