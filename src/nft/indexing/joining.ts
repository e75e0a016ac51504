/**
 * The collections of one chain whose history is read. Reads each one's missing blocks up to the followed head, declares
 * it complete there, and passes it on to be followed.
 */
import {
  assertNoFork,
  assertOnChain,
  ForkedAnswersError,
  firstUnlinked,
  type HeaderOf,
  needsOnlyAPoll,
  numbersBetween,
} from "../../chain/branch.ts";
import { Budget } from "../../core/budget.ts";
import type { Clock } from "../../core/clock.ts";
import { AppError, ConcurrencyError, isRetryable } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import { Semaphore } from "../../core/semaphore.ts";
import type { HeaderRef, NftEvent } from "../../events/types.ts";
import type { StreamHead } from "../../log/event-log.ts";
import { NFT_TOPICS } from "../../rpc/decode/transfers.ts";
import type { BlockHeader, ChainLog, ChainReader, CompleteLogsOptions, Verify } from "../../rpc/port.ts";
import { failureOf, msUntilRetry } from "../collections/failures.ts";
import { awaitsProof, type IndexState, nextBlock } from "../collections/headline.ts";
import type { FollowedCollection, FollowedStreams } from "./collection-streams.ts";

/**
 * Keeps the newest headers of the follower, with their blooms. A joining collection is checked against them, and
 * requests only the headers that are missing here.
 */
class SeenHeaders {
  readonly #byNumber = new Map<number, BlockHeader>();
  readonly #most: number;

  /** @param most how many blocks below the newest header are kept */
  constructor(most: number) {
    this.#most = most;
  }

  /** Adds headers in rising order. A later header replaces an earlier one of the same number. */
  add(headers: readonly BlockHeader[]): void {
    const newest = headers.at(-1);
    if (newest === undefined) return;
    const least = newest.number - this.#most;
    for (const header of headers) if (header.number > least) this.#byNumber.set(header.number, header);
    for (const number of this.#byNumber.keys()) {
      if (number <= least || number > newest.number) this.#byNumber.delete(number);
    }
  }

  /** Returns the full header of this block, if it was seen. */
  find({ number, hash }: Pick<HeaderRef, "number" | "hash">): BlockHeader | undefined {
    const header = this.#byNumber.get(number);
    return header?.hash === hash ? header : undefined;
  }
}

interface Joining extends FollowedCollection {
  /** The append that makes the collection ready to join, while it is pending. */
  appended?: Promise<StreamHead> | undefined;
  /** True if logs must come from receipts, because an endpoint omitted some before. */
  byReceipts?: boolean;
  /** Failed attempts in a row. */
  failures?: number;
}

/** The followed branch: its head, the number of its final block, and its known headers. */
interface FollowedBranch {
  readonly head: HeaderRef;
  readonly final: number;
  readonly headerOf: HeaderOf;
}

/** The branch in one turn, which is over when the chain's next poll should not wait any longer. */
interface JoiningTurn extends FollowedBranch {
  readonly isOver: () => boolean;
}

/** The logs of a part, and its last block. */
interface PartRead {
  readonly logs: ChainLog[];
  readonly end: BlockHeader;
}

interface JoiningOptions {
  readonly clock: Clock;
  readonly reader: ChainReader;
  readonly streams: FollowedStreams;
  readonly verify: Verify;
  /** Takes over a collection that has joined. */
  readonly onJoined: (followed: FollowedCollection) => void;
  /** Takes over a collection that is too far behind. */
  readonly onHandedBack: (head: StreamHead) => void;
  /** Called for a collection whose stream another writer moved on. */
  readonly onMovedOn: (address: Address) => Promise<void>;
  /** Called if a collection has read a part of its missing blocks, and the next part can be read at once. */
  readonly onPartRead: (head: HeaderRef) => void;
  /** Most blocks of a part. */
  readonly part?: number | undefined;
  /** Called for a collection that could not be read, with the wait in ms before the next attempt. */
  readonly onFailed: (followed: FollowedCollection, error: unknown, waitMs: number) => void;
}

/** Newest blocks whose logs are checked against headers at a join. */
export const MAX_CHECKED = 512;
/** After this many temporary failures in a row, a collection waits alone: each failure delays the chain's next poll. */
const MAX_MISSES = 3;
/** Collections that are read at the same time. The logs of each stay in memory until they are written. */
const PARALLEL = 12;
/**
 * Most blocks that a collection reads at once. If more are final, it goes back to the backfill, which decodes off this
 * thread. The node's final block may also be far below its head: then the blocks between are read and written in parts.
 */
export const MAX_PART = 10_000;
/** Most blocks of a part of which all headers are read. */
const MAX_HEADERS = 2_000;
/** The chain's next poll waits at most this long for parts, and for one more part. */
const PARTS_MS = 5_000;

export class JoiningCollections {
  readonly #options: JoiningOptions;
  readonly #waiting = new Map<Address, Joining>();
  readonly #seen = new SeenHeaders(MAX_CHECKED);
  readonly #slots = new Semaphore(PARALLEL);

  constructor(options: JoiningOptions) {
    this.#options = options;
  }

  add(followed: FollowedCollection & { readonly byReceipts?: boolean }): void {
    this.#waiting.set(followed.address, followed);
  }

  /** Adds a collection as its stream's head shows it, unless it waits in that state already: its entry knows more. */
  offer(followed: FollowedCollection): void {
    const known = this.#waiting.get(followed.address);
    if (known !== undefined && known.version >= followed.version) return;
    this.add(known?.byReceipts === true ? { ...followed, byReceipts: true } : followed);
  }

  clear(): void {
    this.#waiting.clear();
  }

  /** The collections that wait, each at the version of its stream: one that a job passes on, once its append has ended. */
  async settled(): Promise<FollowedCollection[]> {
    const waiting = [...this.#waiting.values()];
    const isThere = await Promise.all(waiting.map(awaitAppend));
    return waiting.filter((_, at) => isThere[at]);
  }

  /** True if any collection waits to join. */
  get isWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  /** Adds a collection that becomes ready with a pending append. Its missing blocks are read meanwhile. */
  expect(address: Address, state: IndexState, appended: Promise<StreamHead>): void {
    const joining: Joining = { address, version: 0, state, appended };
    this.#waiting.set(address, joining);
    // The job that appends goes on from the log's state.
    appended.catch(() => this.#remove(joining));
  }

  /** Removes a collection. Returns false if it was removed or replaced meanwhile. */
  #remove(joining: Joining): boolean {
    return this.#waiting.get(joining.address) === joining && this.#waiting.delete(joining.address);
  }

  /** Records the reason for the delay in the streams of the collections that wait. */
  async stalled(reason: string): Promise<void> {
    for (const joining of [...this.#waiting.values()]) {
      if (joining.appended !== undefined) continue;
      await this.#options.streams.append({ followed: joining, events: [{ type: "IndexingStalled", reason }] });
    }
  }

  /** Remembers headers that the follower has read and follows. */
  addHeaders(headers: readonly BlockHeader[]): void {
    this.#seen.add(headers);
  }

  /**
   * Completes the collections that wait: reads from their end to the followed head and appends `IndexingCompleted`.
   * Their logs must agree with the unfinalised headers of `headerOf`. Returns false if one of them needs a newer head.
   */
  async join({ head, final, headerOf }: FollowedBranch): Promise<boolean> {
    const { clock } = this.#options;
    const due = [...this.#waiting.values()].filter(({ state }) => msUntilRetry(state, clock) <= 0);
    // If the follower was stopped for a while, its head may be below the final blocks of a collection.
    const ready = due.filter(({ state }) => nextBlock(state) <= head.number + 1);
    const began = clock.monotonic();
    const branch = { head, final, headerOf, isOver: () => clock.monotonic() - began >= PARTS_MS };
    const join = (joining: Joining) => this.#slots.run(() => this.#join(joining, branch));
    const outcomes = await Promise.allSettled(ready.map(join));
    const failures = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason as unknown] : []));
    // A failure that only needs another poll must not hide an append whose outcome is unknown.
    if (failures.length > 0) throw failures.find((reason) => !needsOnlyAPoll(reason)) ?? failures[0];
    return ready.length === due.length;
  }

  /** @throws any error that is not about this collection's own stream; it then waits for the next poll */
  async #join(joining: Joining, branch: JoiningTurn): Promise<void> {
    const { streams, onMovedOn } = this.#options;
    try {
      const isOver = await this.#joinOne(joining, branch);
      // Deletes a newer entry as well: it comes from the wake-up of the same append and is out of date.
      if (isOver) this.#waiting.delete(joining.address);
    } catch (error) {
      const isOwn = error instanceof ConcurrencyError && error.stream !== streams.chainStream;
      if (!isOwn) throw error;
      // Another worker moved the stream on. Reload its state from the log.
      this.#remove(joining);
      await onMovedOn(joining.address);
    }
  }

  /** Joins one collection. Returns false if it is not joined yet: its blocks could not be read, or not all of them. */
  async #joinOne(joining: Joining, turn: JoiningTurn): Promise<boolean> {
    const { head, final, headerOf, isOver } = turn;
    const { streams, onJoined, onHandedBack, onPartRead } = this.#options;
    const { state } = joining;
    // The follower itself may be on an orphaned branch without knowing it yet.
    if (state.endHash !== "") assertNoFork({ number: state.end, hash: state.endHash }, headerOf);
    if (final - nextBlock(state) > this.#part) {
      if (!(await awaitAppend(joining))) return false;
      onHandedBack(await streams.restate(joining, { ...state, status: "backfilling" }));
      return true;
    }
    for (let to = this.#partEnd(joining, turn); to !== undefined; to = this.#partEnd(joining, turn)) {
      if (isOver()) {
        onPartRead(head);
        return false;
      }
      if (!(await this.#joinPart(joining, turn, to))) return false;
    }
    const read = await this.#read(joining, () => this.#readMissing(joining, head, headerOf));
    if (read === undefined || !(await awaitAppend(joining))) return false;
    const { state: before } = joining;
    const from = nextBlock(before);
    const events: NftEvent[] = from <= head.number ? [streams.committed(before, read.value, from, head)] : [];
    const isUnproven = awaitsProof(before);
    const done = { type: "IndexingCompleted", block: head.number, hash: head.hash } as const;
    events.push(isUnproven ? { ...done, isUnproven } : done);
    await streams.append({ followed: joining, events, work: { calls: read.calls } });
    onJoined(joining);
    return true;
  }

  /** Reads the next part of a collection far below the head, and writes it. Returns false if it could not be read. */
  async #joinPart(joining: Joining, branch: FollowedBranch, toBlock: number): Promise<boolean> {
    const { streams } = this.#options;
    const { state } = joining;
    const from = nextBlock(state);
    const read = await this.#read(joining, () => this.#readPart(joining, branch, toBlock));
    if (read === undefined || !(await awaitAppend(joining))) return false;
    const { logs, end } = read.value;
    const events: NftEvent[] = [streams.committed(state, logs, from, end)];
    await streams.append({ followed: joining, events, work: { calls: read.calls } });
    return true;
  }

  /** Reads for a collection. A failure of its own is recorded, and the result is then undefined. */
  async #read<T>(joining: Joining, work: () => Promise<T>): Promise<{ value: T; calls: number | null } | undefined> {
    const spending = new Budget();
    try {
      const value = await spending.run(work);
      const { calls } = joining.state;
      return { value, calls: calls === null ? null : calls + spending.total };
    } catch (error) {
      if (error instanceof ForkedAnswersError) throw error;
      joining.failures = (joining.failures ?? 0) + 1;
      if (isRetryable(error) && joining.failures < MAX_MISSES) throw error;
      joining.failures = 0;
      await this.#failed(joining, error);
      return undefined;
    }
  }

  /** The most blocks that a collection reads at once. */
  get #part(): number {
    return this.#options.part ?? MAX_PART;
  }

  /** True if the headers of all blocks of a collection are read. */
  #readsHeaders({ byReceipts = false }: Joining): boolean {
    return byReceipts || this.#options.verify !== "sample";
  }

  /**
   * The last block of the next part of a collection; undefined if the rest can be read with the head. Its blocks are
   * then final, or their headers are checked.
   */
  #partEnd(joining: Joining, { head, final }: FollowedBranch): number | undefined {
    const next = nextBlock(joining.state);
    const checked = this.#readsHeaders(joining) ? next : this.#firstChecked(head);
    const isUnchecked = next < checked && final < checked - 1;
    if (head.number - next <= this.#part && !isUnchecked) return undefined;
    const most = this.#readsHeaders(joining) ? Math.min(MAX_HEADERS, this.#part) : this.#part;
    const end = next + most - 1;
    return isUnchecked ? Math.min(end, checked - 1) : end;
  }

  /**
   * Reads the logs of a part of the missing blocks, far below the head, and the part's last block, which an endpoint has
   * beside the followed head. Only blocks between two that an endpoint has while it answers are on one branch with both.
   */
  async #readPart(joining: Joining, { head, headerOf }: FollowedBranch, toBlock: number): Promise<PartRead> {
    const { reader } = this.#options;
    const { state } = joining;
    const from = nextBlock(state);
    const [end, top] = (await reader.presentHeaders([toBlock, head.number])) as [BlockHeader, BlockHeader];
    if (top.hash !== head.hash) throw new ForkedAnswersError(head.number);
    assertNoFork(end, headerOf);
    if (this.#readsHeaders(joining)) return { end, logs: await this.#readChecked(joining, end, headerOf) };
    // Block 0 has no logs.
    const [below] = (await reader.presentHeaders([Math.max(0, from - 1)])) as [BlockHeader];
    if (state.end >= 0) assertEndsOn(state, below.hash);
    const filter = { addresses: [joining.address], topics: NFT_TOPICS };
    const logs = await reader.logsOfStretch({ ...filter, stretch: { below, head: end } });
    if (logs === undefined) throw new ForkedAnswersError(end.number);
    assertOnChain(logs, (number) => (number === end.number ? end : headerOf(number)));
    return { logs, end };
  }

  /** Reads the logs up to a block, and the headers of all blocks, whose links prove the branch. */
  async #readChecked(joining: Joining, end: BlockHeader, headerOf: HeaderOf): Promise<ChainLog[]> {
    const { reader, verify } = this.#options;
    const { address, state, byReceipts = false } = joining;
    const from = nextBlock(state);
    const before = from < end.number ? await reader.presentHeaders(numbersBetween(from, end.number - 1)) : [];
    const headers = [...before, end];
    if (firstUnlinked(headers) !== undefined) throw new ForkedAnswersError(end.number);
    if (state.end >= 0) assertEndsOn(state, headers[0]?.parentHash);
    for (const header of headers) assertNoFork(header, headerOf);
    const filter = { addresses: [address], topics: NFT_TOPICS, fromBlock: from, toBlock: end.number };
    const logs = await reader.completeLogs(filter, headers, { strict: byReceipts || verify === "receipts" });
    const linked = new Map(headers.map((header) => [header.number, header]));
    assertOnChain(logs, (number) => linked.get(number));
    return logs;
  }

  /** Reads the logs of the blocks that a collection lacks, and checks that they lie on the followed branch. */
  async #readMissing(
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
    const options: CompleteLogsOptions = {
      strict: byReceipts || verify === "receipts",
      isByBlock: verify === "headers",
      requiredBlock: isCovered ? undefined : head,
    };
    const [logs, known, before] = await Promise.all([
      reader.completeLogs(filter, headers, options),
      headers,
      isCovered || state.end < 0 ? undefined : reader.presentHeaders([state.end]),
    ]);
    assertEndsOn(state, before?.[0]?.hash ?? (isCovered ? known[0]?.parentHash : undefined));
    const linked = new Map(known.map((header) => [header.number, header]));
    assertOnChain(logs, (number) => linked.get(number) ?? headerOf(number));
    return logs;
  }

  /**
   * Records a failure that is final or repeated as this collection's own, with a later attempt. The chain's other
   * collections don't wait for it.
   */
  async #failed(joining: Joining, error: unknown): Promise<void> {
    const { streams, clock, onFailed } = this.#options;
    if (!(await awaitAppend(joining))) return;
    const { event, waitMs } = failureOf(error, joining.state, clock);
    await streams.append({ followed: joining, events: [event] });
    onFailed(joining, error, waitMs);
  }

  #firstChecked(head: HeaderRef): number {
    return head.number - (this.#options.verify === "sample" ? MAX_CHECKED : this.#part + 1) + 1;
  }

  /**
   * Returns the headers of the newest missing blocks, in order and linked to the head, to check logs against. Always
   * requests the head: a node that is behind or on another branch lacks its hash.
   * @throws ForkedAnswersError
   */
  async #newestHeaders(from: number, head: HeaderRef, headerOf: HeaderOf): Promise<BlockHeader[]> {
    const { reader } = this.#options;
    const headers: BlockHeader[] = [];
    const unknown: number[] = [];
    for (let number = from; number <= head.number; number++) {
      const held = headerOf(number);
      const seen = held === undefined || number === head.number ? undefined : this.#seen.find(held);
      if (seen === undefined) unknown.push(number);
      else headers.push(seen);
    }
    const read = await reader.presentHeaders(unknown);
    for (const header of read) assertNoFork(header, headerOf);
    headers.push(...read);
    headers.sort((a, b) => a.number - b.number);
    // `headerOf` has no final blocks. Only the link to the head proves their branch.
    if (firstUnlinked(headers) !== undefined) throw new ForkedAnswersError(head.number);
    this.#seen.add(read);
    return headers;
  }
}

/**
 * Never append blocks of a chain that lacks the last block of the stored history.
 * @param found the hash of the node's block at that number, if it is known @throws AppError `not_canonical`
 */
function assertEndsOn({ end, endHash }: IndexState, found: string | undefined): void {
  if (endHash === "" || found === undefined || found === endHash) return;
  throw new AppError(`the stored history ends on block ${end}, which is not on the followed chain`, {
    code: "not_canonical",
    meta: { block: end, hash: endHash, found },
  });
}

/** Waits for the pending append and takes over its version. Returns false if the append failed. */
async function awaitAppend(joining: Joining): Promise<boolean> {
  if (joining.appended === undefined) return true;
  try {
    joining.version = (await joining.appended).version;
    joining.appended = undefined;
    return true;
  } catch {
    return false;
  }
}
