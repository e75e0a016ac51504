/**
 * Writes the streams of a chain's collections, for the follower and for jobs. Each append expects the stream's version.
 * The follower's appends are also guarded by the chain stream's version: they fail once another process has taken over.
 */
import type { ChainWork, FollowedChain } from "../../chain/consumer.ts";
import type { Budget } from "../../core/budget.ts";
import type { Clock } from "../../core/clock.ts";
import { AppError, ConcurrencyError } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import {
  type BlockRef,
  chainStream,
  type NftEvent,
  nftStream,
  type StreamName,
  type TransfersCommitted,
} from "../../events/types.ts";
import { type Append, type EventLog, type Headline, isConflict, type StreamHead } from "../../log/event-log.ts";
import { decodeTransferLogs } from "../../rpc/decode/transfers.ts";
import type { ChainLog } from "../../rpc/port.ts";
import { foldHeadline, fromHeadline, type IndexState, toHeadline } from "../collections/headline.ts";
import { describedIn } from "./descriptions.ts";

/** A collection as the follower holds it: the data needed to write the next range. */
export interface FollowedCollection {
  readonly address: Address;
  version: number;
  state: IndexState;
}

/** Events for one collection's stream. */
export interface StreamChange {
  readonly followed: FollowedCollection;
  readonly events: readonly NftEvent[];
  /** What is known of the work on the collection, and is in no event. */
  readonly work?: Partial<IndexState>;
}

/** Attempts of an append when events of other writers come in between. */
const ATTEMPTS = 6;

export class FollowedStreams {
  readonly #options: Pick<ChainWork, "chain" | "log" | "clock" | "observer">;
  readonly chainStream: StreamName;
  /** The chain as its follower has recorded it; undefined until this process follows. */
  chain: Pick<FollowedChain, "version" | "headers"> | undefined;

  constructor(options: Pick<ChainWork, "chain" | "log" | "clock" | "observer">) {
    this.#options = options;
    this.chainStream = chainStream(options.chain.chainId);
  }

  /** Version of the chain's stream that guards the next writes. */
  get chainVersion(): number {
    return this.chain?.version ?? 0;
  }

  /** Only the chain's current follower may write. One that was paused meanwhile has an old version. */
  get #guard(): NonNullable<Append["guard"]> {
    return { stream: this.chainStream, version: this.chainVersion };
  }

  nameOf(address: Address): StreamName {
    return nftStream(this.#options.chain.chainId, address);
  }

  /** Returns the event for the transfers of the blocks from `fromBlock` to `to`. */
  committed(state: IndexState, logs: readonly ChainLog[], fromBlock: number, to: BlockRef): TransfersCommitted {
    const { transfers, count, malformed } = decodeTransferLogs(logs, state.forms);
    if (malformed > 0) this.#options.observer.malformed(malformed);
    const { chainVersion } = this;
    return {
      type: "TransfersCommitted",
      fromBlock,
      toBlock: to.number,
      toHash: to.hash,
      chainVersion,
      count,
      transfers,
    };
  }

  #appendOf({ followed, events, work }: StreamChange): { readonly append: Append; readonly state: IndexState } {
    const state = { ...foldHeadline(followed.state, events, this.#options.clock.now()), ...work };
    const [stream, headline] = [this.nameOf(followed.address), toHeadline(state)];
    return { append: { stream, events, expectedVersion: followed.version, headline, guard: this.#guard }, state };
  }

  /**
   * Writes one collection's stream.
   * @throws ConcurrencyError if another writer moved it, or the chain's stream; AppError `write_interrupted`
   */
  async append(change: StreamChange): Promise<void> {
    const { append, state } = this.#appendOf(change);
    change.followed.version = await this.#options.log.append(append).catch(throwInterrupted);
    change.followed.state = state;
  }

  /**
   * Changes the state of the work on a collection, without an event: nothing happened to the collection itself.
   * @throws like `append`
   */
  async restate({ address, version }: FollowedCollection, state: IndexState): Promise<StreamHead> {
    const [stream, headline, guard] = [this.nameOf(address), toHeadline(state), this.#guard];
    const { log } = this.#options;
    if (await log.replaceHeadline({ stream, version, headline, guard }).catch(throwInterrupted)) {
      return { stream, version, headline };
    }
    const { version: now } = await log.head(guard.stream);
    if (now !== guard.version) throw new ConcurrencyError(guard.stream, guard.version, now);
    throw new ConcurrencyError(stream, version, (await log.head(stream)).version);
  }

  /**
   * Writes the streams of several collections. Retries after events of other writers that did not move the end.
   * @throws ConcurrencyError if another writer moved the end; AppError `write_interrupted`
   */
  async appendAll(changes: readonly StreamChange[]): Promise<void> {
    await this.#appendAll(changes).catch(throwInterrupted);
  }

  async #appendAll(changes: readonly StreamChange[]): Promise<void> {
    const { log } = this.#options;
    let left = changes;
    for (let attempt = 1; left.length > 0; attempt++) {
      const made = left.map((change) => this.#appendOf(change));
      const outcomes = await log.appendAll(made.map(({ append }) => append));
      const again: StreamChange[] = [];
      for (const [index, outcome] of outcomes.entries()) {
        const change = left[index]!;
        const { followed } = change;
        if ("version" in outcome) {
          followed.version = outcome.version;
          followed.state = made[index]!.state;
          continue;
        }
        const stream = this.nameOf(followed.address);
        if (!isConflict(outcome.error, stream) || attempt === ATTEMPTS) throw outcome.error;
        // Another writer added flags, for example. If the end moved, another follower is active.
        const head = await log.head(stream);
        const now = fromHeadline(head.headline);
        if (now.end !== followed.state.end || !isSameWork(now, followed.state)) throw outcome.error;
        followed.version = head.version;
        followed.state = { ...followed.state, ...describedIn(now) };
        again.push(change);
      }
      left = again;
    }
  }
}

/** False once a collection was indexed anew, also if that has come to the same end by now. */
const isSameWork = (now: IndexState, before: IndexState): boolean =>
  now.base === before.base && now.status === before.status;

/**
 * An append may have succeeded although its answer was lost. The follower must reload from the log before it goes on.
 */
function throwInterrupted(error: unknown): never {
  if (error instanceof ConcurrencyError) throw error;
  throw new AppError("writing a collection was interrupted", { code: "write_interrupted", cause: error });
}

/**
 * The stream of a collection, as its job writes it: one append at a time, in the background, while the job reads on.
 */
export class JobStream {
  readonly #log: EventLog;
  readonly #clock: Clock;
  readonly #spending: Budget;
  /** Calls of earlier attempts. */
  readonly #callsBefore: number | null;
  readonly #stream: StreamName;
  #version: number;
  #state: IndexState;
  #appended: Promise<StreamHead>;
  /** True if no append is running and the last one succeeded. An append after a failed one would hide its error. */
  isIdle = true;

  /** @param spending the account of the job's calls */
  constructor(
    log: EventLog,
    { clock, spending }: { readonly clock: Clock; readonly spending: Budget },
    head: StreamHead,
  ) {
    this.#log = log;
    this.#clock = clock;
    this.#spending = spending;
    this.#stream = head.stream;
    this.#version = head.version;
    this.#state = fromHeadline(head.headline);
    this.#callsBefore = this.#state.calls;
    this.#appended = Promise.resolve(head);
  }

  /** The state after the running append. If the append fails, the state before it. */
  get state(): IndexState {
    return this.#state;
  }

  /**
   * Begins an append. Without events it only records what is known of the work. The previous append must have settled.
   * @param work what is known of the work on the collection, and is in no event
   */
  append(events: readonly NftEvent[], work: Partial<IndexState> = {}): void {
    const before = this.#state;
    const calls = this.#callsBefore === null ? null : this.#callsBefore + this.#spending.total;
    this.#state = { ...foldHeadline(before, events, this.#clock.now()), calls, ...work };
    this.isIdle = false;
    this.#appended = this.#write(events, before).then((head) => {
      this.isIdle = true;
      return head;
    });
    // `settled` reports the error. Without this handler it would be unhandled until then.
    this.#appended.catch(() => undefined);
  }

  async #write(events: readonly NftEvent[], before: IndexState): Promise<StreamHead> {
    const stream = this.#stream;
    const headline = toHeadline(this.#state);
    try {
      if (events.length === 0) await this.#replaceHeadline(headline);
      else this.#version = await this.#log.append({ stream, events, expectedVersion: this.#version, headline });
    } catch (error) {
      this.#state = before;
      throw error;
    }
    return { stream, version: this.#version, headline };
  }

  async #replaceHeadline(headline: Headline): Promise<void> {
    const [stream, version] = [this.#stream, this.#version];
    if (await this.#log.replaceHeadline({ stream, version, headline })) return;
    throw new ConcurrencyError(stream, version, (await this.#log.head(stream)).version);
  }

  /** Resolves with the stream's head after the running append. @throws the append's error */
  settled(): Promise<StreamHead> {
    return this.#appended;
  }
}
