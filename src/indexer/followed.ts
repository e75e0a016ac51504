/**
 * How the streams of a chain's collections are written by its follower: each from the version and the headline it stands
 * at, and only while nobody else has taken the chain over.
 */
import { ConcurrencyError } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import {
  type BlockRef,
  chainStream,
  type NftEvent,
  nftStream,
  type StreamName,
  type TransfersCommitted,
} from "../events/types.ts";
import type { Append, EventLog } from "../log/port.ts";
import { decodeTransferLogs } from "../rpc/decode.ts";
import type { ChainLog } from "../rpc/port.ts";
import { fromHeadline, type IndexState, toHeadline } from "./headline.ts";
import type { IndexingObserver } from "./observer.ts";

/** A collection as the follower holds it: what it takes to write the next range. */
export interface Followed {
  readonly address: Address;
  version: number;
  state: IndexState;
}

/** What one collection's stream is to be written, and how it stands then. */
export interface Change {
  readonly followed: Followed;
  readonly events: readonly NftEvent[];
  readonly state: IndexState;
}

/** An append is tried so often when facts of another kind come between. */
const ATTEMPTS = 6;

export interface FollowedStreamsOptions {
  readonly chainId: number;
  readonly log: EventLog;
  readonly observer: IndexingObserver;
}

export class FollowedStreams {
  readonly #options: FollowedStreamsOptions;
  readonly chainStream: StreamName;
  /** Version of the chain's stream that what is written next goes by. */
  chainVersion = 0;

  constructor(options: FollowedStreamsOptions) {
    this.#options = options;
    this.chainStream = chainStream(options.chainId);
  }

  /** Only who follows the chain may write: one that was paused meanwhile is behind its stream. */
  get #guard(): NonNullable<Append["guard"]> {
    return { stream: this.chainStream, version: this.chainVersion };
  }

  nameOf(address: Address): StreamName {
    return nftStream(this.#options.chainId, address);
  }

  /** The transfers of the blocks from `fromBlock` to `to` as an event. */
  committed(state: IndexState, logs: readonly ChainLog[], fromBlock: number, to: BlockRef): TransfersCommitted {
    const { transfers, count, malformed } = decodeTransferLogs(logs, state.forms);
    if (malformed > 0) this.#options.observer.malformed(this.#options.chainId, malformed);
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

  #appendOf({ followed, events, state }: Change): Append {
    // A change of status alone rides on the one event that says nothing new.
    const written = events.length > 0 ? events : [{ type: "IndexingRequested" } as const];
    return {
      stream: this.nameOf(followed.address),
      events: written,
      expectedVersion: followed.version,
      headline: toHeadline(state),
      guard: this.#guard,
    };
  }

  /** Writes one collection's stream. @throws ConcurrencyError when it, or the chain, was moved on by somebody else */
  async append(change: Change): Promise<void> {
    const { followed, state } = change;
    followed.version = await this.#options.log.append(this.#appendOf(change));
    followed.state = state;
  }

  /**
   * Writes the streams of several. A fact of another kind that came between is passed over.
   * @throws ConcurrencyError when an end moved that is not ours to move
   */
  async appendAll(changes: readonly Change[]): Promise<void> {
    const { log } = this.#options;
    let left = changes;
    for (let attempt = 1; left.length > 0; attempt++) {
      const outcomes = await log.appendAll(left.map((change) => this.#appendOf(change)));
      const again: Change[] = [];
      for (const [index, outcome] of outcomes.entries()) {
        const change = left[index] as Change;
        const { followed, state } = change;
        if ("version" in outcome) {
          followed.version = outcome.version;
          followed.state = state;
          continue;
        }
        const stream = this.nameOf(followed.address);
        const isOwn = outcome.error instanceof ConcurrencyError && outcome.error.stream === stream;
        if (!isOwn || attempt === ATTEMPTS) throw outcome.error;
        // Flags, say. When the end moved, somebody else is following.
        const head = await log.head(stream);
        if (fromHeadline(head.headline).end !== followed.state.end) throw outcome.error;
        followed.version = head.version;
        again.push(change);
      }
      left = again;
    }
  }
}
