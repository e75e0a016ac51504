/**
 * The followed collections of one chain, as a consumer of the follower: takes over those whose history is read, writes
 * the transfers of new blocks to their streams, reverts them at a reorg. Only streams a block touched are written.
 */
import { AppError, ConcurrencyError } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import {
  type BlockRef,
  chainStream,
  type HeaderRef,
  type NftEvent,
  nftStream,
  parseStream,
  type StreamName,
  type TransfersCommitted,
} from "../events/types.ts";
import type { Append, EventLog, StreamHead } from "../log/port.ts";
import { RULES_VERSION } from "../nfts/flags.ts";
import { decodeTransferLogs } from "../rpc/decode.ts";
import { RpcError } from "../rpc/errors.ts";
import type { BlockHeader, ChainLog, ChainReader } from "../rpc/port.ts";
import { NFT_TOPICS } from "../rpc/topics.ts";
import type { Verify } from "./backfill-task.ts";
import type { BlockConsumer, FollowBatch } from "./consumer.ts";
import type { CollectionFlags } from "./flags.ts";
import { fromHeadline, type IndexState, nextBlock, toHeadline } from "./headline.ts";
import type { IndexingObserver } from "./observer.ts";
import { SeenHeaders } from "./seen-headers.ts";

/** A collection as the follower holds it: what it takes to write the next range. */
interface Followed {
  readonly address: Address;
  version: number;
  state: IndexState;
}

interface Joining extends Followed {
  /** Of the append that leaves it ready to join, while that is under way. */
  readonly appended?: Promise<StreamHead>;
}

export interface CollectionsOptions {
  readonly chainId: number;
  readonly log: EventLog;
  readonly reader: ChainReader;
  readonly logger: Logger;
  readonly observer: IndexingObserver;
  readonly verify: Verify;
  readonly flags: CollectionFlags;
}

const PAGE = 1_000;
/** Blocks whose logs are checked against their headers when a collection joins: more than any chain leaves unfinalised. */
const MAX_CHECKED = 512;
/** Headers asked for in one batch. */
const HEADER_BATCH = 100;
/** Collections of an older release whose words are judged anew in one poll. */
const MAX_REJUDGED = 200;
/** A collection further behind than this goes back to the backfill, which decodes off this thread. */
const MAX_JOIN_GAP = 10_000;

export class FollowedCollections implements BlockConsumer {
  readonly name = "collections";
  readonly topics = NFT_TOPICS;
  readonly #options: CollectionsOptions;
  /** Version of the chain's stream that what is written next goes by. */
  chainVersion = 0;
  readonly #followed = new Map<Address, Followed>();
  readonly #joining = new Map<Address, Joining>();
  readonly #seen = new SeenHeaders(MAX_CHECKED);

  constructor(options: CollectionsOptions) {
    this.#options = options;
  }

  get #chainStream(): StreamName {
    return chainStream(this.#options.chainId);
  }

  /** Only who follows the chain may write: one that was paused meanwhile is behind its stream. */
  get #guard(): NonNullable<Append["guard"]> {
    return { stream: this.#chainStream, version: this.chainVersion };
  }

  get size(): number {
    return this.#followed.size;
  }

  addresses(): readonly Address[] {
    return [...this.#followed.keys()];
  }

  /** Reads which collections are followed or wait to be, from the streams' headlines. */
  async load(): Promise<void> {
    this.#followed.clear();
    this.#joining.clear();
    const { log, chainId } = this.#options;
    for (let after = ""; ; ) {
      const page = await log.streams(`nft/${chainId}/`, { after, limit: PAGE });
      for (const head of page) this.offer(head);
      const last = page.at(-1);
      if (last === undefined || page.length < PAGE) return;
      after = last.stream;
    }
  }

  /** Takes note of a stream whose headline says that it is followed or ready to be. */
  offer(head: StreamHead): void {
    const parsed = parseStream(head.stream);
    if (parsed.kind !== "nft") return;
    const state = fromHeadline(head.headline);
    const followed = { address: parsed.address, version: head.version, state };
    if (state.status === "joining" && !this.#followed.has(parsed.address)) this.#joining.set(parsed.address, followed);
    else if (state.status === "following" && !this.#followed.has(parsed.address)) {
      this.#followed.set(parsed.address, followed);
    }
  }

  /** As `offer`, of a collection that will be ready with an append that is under way: what it misses is read meanwhile. */
  expect(address: Address, state: IndexState, appended: Promise<StreamHead>): void {
    if (this.#followed.has(address)) return;
    const joining: Joining = { address, version: 0, state, appended };
    this.#joining.set(address, joining);
    appended.catch(() => {
      // Who appends it goes on from what the log says.
      if (this.#joining.get(address) === joining) this.#joining.delete(address);
    });
  }

  /**
   * Completes those that wait: reads from their end to the followed head and appends `IndexingCompleted`. `headers` are
   * the unfinalised ones that the logs must agree with.
   */
  async join(head: HeaderRef, headerOf: (number: number) => HeaderRef | undefined): Promise<void> {
    for (const followed of [...this.#joining.values()]) {
      try {
        const isOver = await this.#joinOne(followed, head, headerOf);
        if (isOver) this.#joining.delete(followed.address);
      } catch (error) {
        const isOwn = error instanceof ConcurrencyError && error.stream !== this.#chainStream;
        if (!isOwn) throw error;
        // Another worker moved it on: what the log says now decides.
        this.#joining.delete(followed.address);
        this.offer(await this.#options.log.head(nftStream(this.#options.chainId, followed.address)));
      }
    }
  }

  /** Whether it is done with: false while the follower is behind it, and when it was not ready after all. */
  async #joinOne(
    followed: Joining,
    head: HeaderRef,
    headerOf: (number: number) => HeaderRef | undefined,
  ): Promise<boolean> {
    const { reader, observer, chainId, verify } = this.#options;
    const { address } = followed;
    const from = nextBlock(followed.state);
    if (from > head.number + 1) {
      // Its final blocks are ahead of a follower that could not follow for a while.
      return false;
    }
    const { end, endHash } = followed.state;
    // The follower itself may be on a branch that lost, and not know it yet.
    if (endHash !== "") assertHeld({ number: end, hash: endHash }, headerOf);
    if (head.number - from > MAX_JOIN_GAP) {
      if (!(await isIn(followed))) return false;
      await this.#append(followed, [], { ...followed.state, status: "backfilling" });
      return true;
    }
    const filter = { addresses: [address], topics: NFT_TOPICS, fromBlock: from, toBlock: head.number };
    const headers = this.#newestHeaders(from, head, headerOf);
    const logs = await reader.completeLogs(filter, headers, verify === "receipts");
    assertOnChain(logs, headerOf);
    if (!(await isIn(followed))) return false;
    const events: NftEvent[] = [];
    if (from <= head.number) events.push(this.#committed(followed.state, logs, from, head));
    events.push({ type: "IndexingCompleted", block: head.number, hash: head.hash });
    const state: IndexState = {
      ...followed.state,
      status: "following",
      end: head.number,
      endHash: head.hash,
      attempt: 0,
    };
    try {
      await this.#append(followed, events, state);
    } catch (error) {
      if (error instanceof ConcurrencyError) throw error;
      // Perhaps it was written and only the answer got lost: what the log says must be read before anything is reverted.
      throw new AppError("a collection's joining was interrupted", { code: "write_interrupted", cause: error });
    }
    this.#followed.set(address, followed);
    this.#options.flags.joined(address);
    observer.completed(chainId, address);
    return true;
  }

  /** Writes the flags that the rules and lists of now give, where they are not what the stream says. */
  async flag(): Promise<void> {
    const { flags } = this.#options;
    let rejudged = 0;
    for (const followed of this.#followed.values()) {
      const { address, state } = followed;
      const isOld = state.rulesVersion !== RULES_VERSION;
      if (isOld && ++rejudged > MAX_REJUDGED) continue;
      const change = isOld ? await flags.rejudged(address, state) : flags.due(address, state);
      const isSettled = !isOld && change.state.shapeRule === state.shapeRule;
      if (change.events.length > 0) await this.#append(followed, change.events, { ...state, ...change.state });
      else if (!isSettled) followed.state = { ...state, ...change.state };
    }
  }

  /** The follower was given these, and follows them. */
  saw(headers: readonly BlockHeader[]): void {
    this.#seen.add(headers);
  }

  /**
   * Headers of the newest blocks that a collection still has to read, to check its logs by: the head is asked for in any
   * case, for a node that is behind or on another branch has none of that hash. @throws ForkedLogsError
   */
  async #newestHeaders(
    from: number,
    head: HeaderRef,
    headerOf: (number: number) => HeaderRef | undefined,
  ): Promise<BlockHeader[]> {
    const most = this.#options.verify === "sample" ? MAX_CHECKED : MAX_JOIN_GAP + 1;
    const first = Math.max(from, head.number - most + 1);
    const known: BlockHeader[] = [];
    const numbers: number[] = [];
    for (let number = first; number <= head.number; number++) {
      const held = headerOf(number);
      const seen = held === undefined || number === head.number ? undefined : this.#seen.of(held);
      if (seen === undefined) numbers.push(number);
      else known.push(seen);
    }
    const asked: BlockHeader[] = [];
    for (let at = 0; at < numbers.length; at += HEADER_BATCH) {
      for (const header of await this.#options.reader.headers(numbers.slice(at, at + HEADER_BATCH))) {
        // A node that lags: what it does not have it cannot be checked by.
        if (header === undefined) throw new RpcError("transient", "the node lacks a block below its head");
        assertHeld(header, headerOf);
        asked.push(header);
      }
    }
    this.#seen.add(asked);
    return [...known, ...asked];
  }

  #committed(state: IndexState, logs: readonly ChainLog[], fromBlock: number, to: BlockRef): TransfersCommitted {
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

  async #append(followed: Followed, events: readonly NftEvent[], state: IndexState): Promise<void> {
    const { log, chainId } = this.#options;
    const stream = nftStream(chainId, followed.address);
    // A change of status alone rides on the one event that says nothing new.
    const written = events.length > 0 ? events : [{ type: "IndexingRequested" } as const];
    followed.version = await log.append({
      stream,
      events: written,
      expectedVersion: followed.version,
      headline: toHeadline(state),
      guard: this.#guard,
    });
    followed.state = state;
  }

  async apply(batch: FollowBatch): Promise<void> {
    const byAddress = new Map<Address, ChainLog[]>();
    for (const log of batch.logs) {
      const list = byAddress.get(log.address);
      if (list === undefined) byAddress.set(log.address, [log]);
      else list.push(log);
    }
    const touched: { followed: Followed; append: Append; state: IndexState }[] = [];
    for (const [address, logs] of byAddress) {
      const followed = this.#followed.get(address);
      // After a crash the batch is seen again by streams that had it: what they have is passed over.
      if (followed === undefined || followed.state.end >= batch.to.number) continue;
      const fresh = logs.filter((log) => log.blockNumber > followed.state.end);
      if (fresh.length === 0) continue;
      const event = this.#committed(followed.state, fresh, nextBlock(followed.state), batch.to);
      const state = { ...followed.state, end: batch.to.number, endHash: batch.to.hash };
      touched.push({ followed, state, append: this.#appendOf(followed, [event], state) });
    }
    await this.#appendAll(touched);
  }

  #appendOf(followed: Followed, events: readonly NftEvent[], state: IndexState): Append {
    return {
      stream: nftStream(this.#options.chainId, followed.address),
      events,
      expectedVersion: followed.version,
      headline: toHeadline(state),
      guard: this.#guard,
    };
  }

  async #appendAll(
    touched: readonly { followed: Followed; append: Append; state: IndexState }[],
    attempt = 1,
  ): Promise<void> {
    const { log } = this.#options;
    const outcomes = await log.appendAll(touched.map(({ append }) => append));
    const again: { followed: Followed; append: Append; state: IndexState }[] = [];
    for (const [index, outcome] of outcomes.entries()) {
      const item = touched[index];
      if (item === undefined) continue;
      const { followed, append, state } = item;
      if ("version" in outcome) {
        followed.version = outcome.version;
        followed.state = state;
        this.#options.flags.moved(followed.address, countOf(append));
        continue;
      }
      const isOwn = outcome.error instanceof ConcurrencyError && outcome.error.stream === append.stream;
      if (!isOwn || attempt > 5) throw outcome.error;
      // A fact of another kind (flags, say) may have come between. When the end moved, somebody else is following.
      const head = await log.head(append.stream);
      if (fromHeadline(head.headline).end !== followed.state.end) throw outcome.error;
      followed.version = head.version;
      again.push({ followed, state, append: { ...append, expectedVersion: head.version } });
    }
    if (again.length > 0) await this.#appendAll(again, attempt + 1);
  }

  /** Those that wait to join hold final blocks only, perhaps of after the fork: there is nothing to take back. */
  async revert(ancestor: BlockRef): Promise<void> {
    const above = [...this.#followed.values()].filter(({ state }) => state.end > ancestor.number);
    await this.#revertEach(above, ancestor);
  }

  async #revertEach(list: readonly Followed[], ancestor: BlockRef, rejoins = false): Promise<void> {
    const { chainVersion } = this;
    const event: NftEvent = { type: "BlocksReverted", ancestor, chainVersion, ...(rejoins ? { rejoins } : {}) };
    const change: Partial<IndexState> = rejoins ? { status: "joining" } : {};
    const touched = list.map((followed) => {
      const state = { ...followed.state, end: ancestor.number, endHash: ancestor.hash, ...change };
      return { followed, state, append: this.#appendOf(followed, [event], state) };
    });
    await this.#appendAll(touched);
  }

  /**
   * Makes up for a crash in mid-poll. A stream that got ahead of the chain's head is reverted to it. One that ends on a
   * block that was orphaned is reverted to the finalised block, which all branches share, and joins again from there.
   */
  async reconcile(head: BlockRef, finalized: BlockRef, isCanonical: (block: BlockRef) => boolean): Promise<void> {
    const astray: Followed[] = [];
    const ahead: Followed[] = [];
    for (const followed of this.#followed.values()) {
      const { end, endHash } = followed.state;
      if (end <= finalized.number || endHash === "") continue;
      if (!isCanonical({ number: end, hash: endHash })) astray.push(followed);
      else if (end > head.number) ahead.push(followed);
    }
    await this.#revertEach(ahead, head);
    await this.#revertEach(astray, finalized, true);
    for (const followed of astray) {
      this.#followed.delete(followed.address);
      this.#joining.set(followed.address, followed);
    }
  }
}

/** Resolves once it is ready to join as the log has it; false when the append failed that was to make it so. */
async function isIn(joining: Joining): Promise<boolean> {
  if (joining.appended === undefined) return true;
  try {
    joining.version = (await joining.appended).version;
    return true;
  } catch {
    return false;
  }
}

/** Transfers in an append. */
function countOf({ events }: Append): number {
  return events.reduce((sum, event) => sum + (event.type === "TransfersCommitted" ? event.count : 0), 0);
}

/** Logs of unfinalised blocks must lie on the branch that is followed. @throws ForkedLogsError through the caller's retry */
export function assertOnChain(logs: readonly ChainLog[], headerOf: (number: number) => HeaderRef | undefined): void {
  for (const { blockNumber, blockHash } of logs) assertHeld({ number: blockNumber, hash: blockHash }, headerOf);
}

/** Asserts that a block is not another than the one that is followed. @throws ForkedLogsError */
function assertHeld({ number, hash }: BlockRef, headerOf: (number: number) => HeaderRef | undefined): void {
  const held = headerOf(number);
  if (held !== undefined && held.hash !== hash) throw new ForkedLogsError(number);
}

/** The node answered from another branch than the headers it gave: it forked in between. Ask again. */
export class ForkedLogsError extends Error {
  constructor(block: number) {
    super(`logs of block ${block} lie on another branch than its header`);
    this.name = "ForkedLogsError";
  }
}
