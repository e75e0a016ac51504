/**
 * Writes to the metadata streams: outcomes gathered for a moment and grouped into few events, hundreds of tokens each.
 * A stream has several writers (the worker, the follower, other processes' requests), so a lost race is simply run again:
 * no event here depends on what came between.
 */
import type { Clock } from "../core/clock.ts";
import { ConcurrencyError } from "../core/errors.ts";
import type { Address, Hash } from "../core/hex.ts";
import { encodeTokens, NO_HASH, type TokenHash } from "../events/tokens.ts";
import { type MetadataEvent, type MetadataReason, metadataStream } from "../events/types.ts";
import type { EventLog, Headline } from "../log/port.ts";
import type { MetadataBooks } from "./books.ts";
import type { Token } from "./work.ts";

const ATTEMPTS = 20;
/** Outcomes gathered before they are written, and for how long they may wait. */
const BATCH = 256;
const GATHER_MS = 200;

export interface TokenOutcome {
  readonly token: Token;
  readonly reason: MetadataReason | undefined;
  /** Of the outcome's document; undefined where there is none. */
  readonly hash: Hash | undefined;
  /** What storing it took, at most. */
  readonly bytes: number;
  /** The stream's version when the contract was asked. */
  readonly since: number;
}

/** Appends to one collection's metadata stream wherever it ends by now. @throws ConcurrencyError when never first */
export async function appendMetadata(
  { log, books }: { log: EventLog; books: MetadataBooks },
  { chainId, address }: { chainId: number; address: Address },
  events: readonly MetadataEvent[],
  headline?: Headline,
): Promise<void> {
  const stream = metadataStream(chainId, address);
  for (let attempt = 1; ; attempt++) {
    const { version } = await books.current(chainId, address);
    try {
      // The headline says where it was written: once the stream has moved on, it holds no more.
      const summary = headline === undefined ? {} : { headline: { ...headline, at: version + events.length } };
      await log.append({ stream, events, expectedVersion: version, ...summary });
      break;
    } catch (error) {
      if (!(error instanceof ConcurrencyError) || attempt >= ATTEMPTS) throw error;
    }
  }
  // Whoever wrote it reads it from here on.
  await books.current(chainId, address);
}

/** Outcomes as events: one of the resolved, one for each reason of the failed. */
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

export interface OutboxOptions<T> {
  readonly clock: Clock;
  readonly write: (items: readonly T[]) => Promise<void>;
  /** What could not be written is the caller's again: to be worked on later, not at once. */
  readonly onFailure: (items: readonly T[], error: unknown) => void;
}

/** Gathers what is to be written together. Each item is written or handed back, whoever may be waiting for it. */
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

  /** Resolves once all that was added is in the log or was handed back. */
  async flush(): Promise<void> {
    this.#write();
    await this.#writing;
  }
}
