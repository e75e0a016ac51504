/**
 * The collections of one chain whose history is read: each reads what it misses up to the followed head, is declared
 * complete there, and is followed from then on.
 */
import type { Clock } from "../core/clock.ts";
import { AppError, ConcurrencyError, isRetryable } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { HeaderRef, NftEvent } from "../events/types.ts";
import type { StreamHead } from "../log/port.ts";
import type { BlockHeader, ChainLog, ChainReader } from "../rpc/port.ts";
import { NFT_TOPICS } from "../rpc/topics.ts";
import type { Verify } from "./backfill-task.ts";
import { assertHeld, assertOnChain, ForkedAnswersError, firstUnlinked, type HeaderOf } from "./branch.ts";
import { failureOf } from "./failure.ts";
import type { Followed, FollowedStreams } from "./followed.ts";
import { type IndexState, nextBlock } from "./headline.ts";
import { presentHeaders } from "./present-headers.ts";
import { SeenHeaders } from "./seen-headers.ts";

interface Joining extends Followed {
  /** Of the append that leaves it ready to join, until that is known to be in. */
  appended?: Promise<StreamHead> | undefined;
  /** Its logs are taken from receipts: an endpoint has left some out before. */
  byReceipts?: boolean;
  /** Looks in a row at which it could not be read for now. */
  misses?: number;
}

export interface JoiningOptions {
  readonly clock: Clock;
  readonly reader: ChainReader;
  readonly streams: FollowedStreams;
  readonly verify: Verify;
  /** Takes over one that has joined. */
  readonly onJoined: (followed: Followed) => void;
  /** Takes note of one that somebody else moved on. */
  readonly onMovedOn: (address: Address) => Promise<void>;
  /** Hears of one that cannot be read as things are, and for how many ms it is left alone. */
  readonly onFailed: (followed: Followed, error: unknown, waitMs: number) => void;
}

/** Blocks whose logs are checked against their headers when a collection joins: more than any chain leaves unfinalised. */
const MAX_CHECKED = 512;
/** What may pass is waited for at so many looks; each that fails makes the chain's next one come later. */
const MAX_MISSES = 3;
/** A collection further behind than this goes back to the backfill, which decodes off this thread. */
const MAX_JOIN_GAP = 10_000;

export class JoiningCollections {
  readonly #options: JoiningOptions;
  readonly #waiting = new Map<Address, Joining>();
  readonly #seen = new SeenHeaders(MAX_CHECKED);

  constructor(options: JoiningOptions) {
    this.#options = options;
  }

  add(followed: Followed & { readonly byReceipts?: boolean }): void {
    this.#waiting.set(followed.address, followed);
  }

  clear(): void {
    this.#waiting.clear();
  }

  /** One that will be ready with an append that is under way: what it misses is read meanwhile. */
  expect(address: Address, state: IndexState, appended: Promise<StreamHead>): void {
    const joining: Joining = { address, version: 0, state, appended };
    this.#waiting.set(address, joining);
    // Who appends it goes on from what the log says.
    appended.catch(() => this.#remove(joining));
  }

  /** Whether it still waited: it may have been given up meanwhile, or stand there anew. */
  #remove(joining: Joining): boolean {
    return this.#waiting.get(joining.address) === joining && this.#waiting.delete(joining.address);
  }

  /** Writes to the streams of those that wait why they wait so long. */
  async stalled(reason: string): Promise<void> {
    for (const joining of [...this.#waiting.values()]) {
      if (joining.appended !== undefined) continue;
      const { state } = joining;
      await this.#options.streams.append({ followed: joining, events: [{ type: "IndexingStalled", reason }], state });
    }
  }

  /** The follower was given these, and follows them. */
  saw(headers: readonly BlockHeader[]): void {
    this.#seen.add(headers);
  }

  /**
   * Completes those that wait: reads from their end to the followed head and appends `IndexingCompleted`. `headerOf` gives
   * the unfinalised headers, which the logs must agree with. False where that head is not enough for all of them.
   */
  async join(head: HeaderRef, headerOf: HeaderOf): Promise<boolean> {
    const { streams, onMovedOn, clock } = this.#options;
    let isEnough = true;
    for (const joining of [...this.#waiting.values()]) {
      if (joining.state.retryAt > clock.now()) continue;
      // Its final blocks are ahead of a follower that could not follow for a while.
      if (nextBlock(joining.state) > head.number + 1) {
        isEnough = false;
        continue;
      }
      try {
        const isOver = await this.#joinOne(joining, head, headerOf);
        // Whatever stands there meanwhile is of before: the append that left it ready has told of it, too.
        if (isOver) this.#waiting.delete(joining.address);
      } catch (error) {
        const isOwn = error instanceof ConcurrencyError && error.stream !== streams.chainStream;
        if (!isOwn) {
          // The others first, the next time: it may be this one alone that cannot be read.
          if (this.#remove(joining)) this.#waiting.set(joining.address, joining);
          throw error;
        }
        // Another worker moved it on: what the log says now decides.
        this.#remove(joining);
        await onMovedOn(joining.address);
      }
    }
    return isEnough;
  }

  /** Whether it is done with: false when it could not be read, or was not ready after all. */
  async #joinOne(joining: Joining, head: HeaderRef, headerOf: HeaderOf): Promise<boolean> {
    const { streams, onJoined } = this.#options;
    const { state } = joining;
    const from = nextBlock(state);
    // The follower itself may be on a branch that lost, and not know it yet.
    if (state.endHash !== "") assertHeld({ number: state.end, hash: state.endHash }, headerOf);
    if (head.number - from > MAX_JOIN_GAP) {
      if (!(await isIn(joining))) return false;
      await streams.append({ followed: joining, events: [], state: { ...state, status: "backfilling" } });
      return true;
    }
    let logs: ChainLog[];
    try {
      logs = await this.#missed(joining, head, headerOf);
    } catch (error) {
      if (error instanceof ForkedAnswersError) throw error;
      joining.misses = (joining.misses ?? 0) + 1;
      if (isRetryable(error) && joining.misses < MAX_MISSES) throw error;
      joining.misses = 0;
      await this.#failed(joining, error);
      return false;
    }
    if (!(await isIn(joining))) return false;
    const events: NftEvent[] = from <= head.number ? [streams.committed(state, logs, from, head)] : [];
    events.push({ type: "IndexingCompleted", block: head.number, hash: head.hash });
    const { number: end, hash: endHash } = head;
    const complete: IndexState = { ...state, status: "following", end, endHash, attempt: 0, retryAt: 0 };
    try {
      await streams.append({ followed: joining, events, state: complete });
    } catch (error) {
      if (error instanceof ConcurrencyError) throw error;
      // Perhaps it was written and only the answer got lost: what the log says must be read before anything is reverted.
      throw new AppError("a collection's joining was interrupted", { code: "write_interrupted", cause: error });
    }
    onJoined(joining);
    return true;
  }

  /** The logs of the blocks that a collection still has to read, which are on the followed branch. */
  async #missed(
    { address, state, byReceipts = false }: Joining,
    head: HeaderRef,
    headerOf: HeaderOf,
  ): Promise<ChainLog[]> {
    const { reader, verify } = this.#options;
    const from = nextBlock(state);
    const firstChecked = byReceipts ? from : this.#firstChecked(head);
    const filter = { addresses: [address], topics: NFT_TOPICS, fromBlock: from, toBlock: head.number };
    const headers = this.#newestHeaders(Math.max(from, firstChecked), head, headerOf);
    const isCovered = from >= firstChecked;
    const options = { strict: byReceipts || verify === "receipts", reaching: isCovered ? undefined : head };
    const [logs, known, before] = await Promise.all([
      reader.completeLogs(filter, headers, options),
      headers,
      isCovered || state.end < 0 ? undefined : presentHeaders(reader, [state.end]),
    ]);
    // What is in was final to who read it; on a chain of which it is no part nothing is put behind it.
    const endHash = before?.[0]?.hash ?? (isCovered ? known[0]?.parentHash : undefined);
    if (state.endHash !== "" && endHash !== undefined && endHash !== state.endHash) {
      throw new AppError(`the history ends on a block ${state.end} that is not on the chain that is followed`, {
        code: "not_canonical",
        meta: { block: state.end, hash: state.endHash, found: endHash },
      });
    }
    const linked = new Map(known.map((header) => [header.number, header]));
    assertOnChain(logs, (number) => linked.get(number) ?? headerOf(number));
    return logs;
  }

  /**
   * What nothing but other endpoints or settings would help, or does not pass, is this collection's own: the others do not
   * wait for it.
   */
  async #failed(joining: Joining, error: unknown): Promise<void> {
    const { streams, clock, onFailed } = this.#options;
    if (!(await isIn(joining))) return;
    const { event, change, waitMs } = failureOf(error, joining.state, clock);
    await streams.append({ followed: joining, events: [event], state: { ...joining.state, ...change } });
    onFailed(joining, error, waitMs);
  }

  #firstChecked(head: HeaderRef): number {
    return head.number - (this.#options.verify === "sample" ? MAX_CHECKED : MAX_JOIN_GAP + 1) + 1;
  }

  /**
   * Headers of the newest blocks that a collection still has to read, in order and linked to the head, to check its logs
   * by: the head is asked for in any case, for a node that is behind or on another branch has none of that hash.
   * @throws ForkedAnswersError
   */
  async #newestHeaders(from: number, head: HeaderRef, headerOf: HeaderOf): Promise<BlockHeader[]> {
    const { reader } = this.#options;
    const headers: BlockHeader[] = [];
    const unknown: number[] = [];
    for (let number = from; number <= head.number; number++) {
      const held = headerOf(number);
      const seen = held === undefined || number === head.number ? undefined : this.#seen.of(held);
      if (seen === undefined) unknown.push(number);
      else headers.push(seen);
    }
    const asked = await presentHeaders(reader, unknown);
    for (const header of asked) assertHeld(header, headerOf);
    headers.push(...asked);
    headers.sort((a, b) => a.number - b.number);
    // Final blocks are held by nobody here: that they lead to the head is what tells whose they are.
    if (firstUnlinked(headers) !== undefined) throw new ForkedAnswersError(head.number);
    this.#seen.add(asked);
    return headers;
  }
}

/** Resolves once it is ready to join as the log has it; false when the append failed that was to make it so. */
async function isIn(joining: Joining): Promise<boolean> {
  if (joining.appended === undefined) return true;
  try {
    joining.version = (await joining.appended).version;
    joining.appended = undefined;
    return true;
  } catch {
    return false;
  }
}
