/**
 * Keeps the hot pools true from the chain's one follower: a batch's logs become states without asking the node, new
 * pools of hot tokens are noticed by their factory's event, reverted blocks are taken back. What changed goes to the
 * log first, then to memory.
 */
import { exchangesOf } from "../chains/exchanges.ts";
import { isReference } from "../chains/tokens.ts";
import { AppError } from "../core/errors.ts";
import type { Address, Hash } from "../core/hex.ts";
import type { BlockRef, PriceEvent, StreamName } from "../events/types.ts";
import type { BlockConsumer, FollowBatch } from "../indexer/consumer.ts";
import type { ChainLog } from "../rpc/port.ts";
import { addressAt, BALANCE_TOPICS, STATE_TOPICS, TOPIC } from "./abi.ts";
import { type Books, extend, type HotPool, hotPool, rebase, type TokenBook } from "./book.ts";
import type { PricesContext } from "./context.ts";
import { applyLog } from "./decode.ts";
import { planState, together, venueOf } from "./discovery.ts";
import { discoveredEvent, observedEvent } from "./facts.ts";
import { byAddress, observed } from "./history.ts";
import type { Observation, Pool } from "./pools.ts";

export function createFollower(context: PricesContext): BlockConsumer {
  return new PriceFollower(context);
}

/** Headers fetched to date states of blocks that a long gap left out of a batch. */
const MAX_UNDATED = 64;

class PriceFollower implements BlockConsumer {
  readonly name = "prices";
  readonly topics: readonly Hash[] = [...STATE_TOPICS, ...BALANCE_TOPICS, TOPIC.pairCreated, TOPIC.poolCreated];
  readonly #context: PricesContext;
  readonly #books: Books;
  readonly #factories: readonly Address[];
  /** The pools whose logs the poll in flight was asked for. */
  #asked = new Set<Address>();

  constructor(context: PricesContext) {
    this.#context = context;
    this.#books = context.books;
    this.#factories = exchangesOf(context.chain).map((deployment) => deployment.factory);
  }

  addresses(): readonly Address[] {
    this.#books.prune();
    this.#asked = new Set();
    if (this.#books.idle) return [];
    for (const book of this.#books.all()) for (const address of book.pools.keys()) this.#asked.add(address);
    return [...this.#factories, ...this.#asked];
  }

  async apply(batch: FollowBatch): Promise<void> {
    const { fromBlock, to } = batch;
    const followed = this.#asked;
    const { followedTo } = this.#context;
    if (followedTo !== undefined && fromBlock > followedTo + 1) this.#forgetCoverage();
    if (this.#books.idle) {
      this.#forgetCoverage();
      this.#context.followedTo = to.number;
      return;
    }
    const groups = byAddress(batch.logs);
    const timestamps = await this.#timestamps(batch);
    const changes: { hot: HotPool; states: Observation[] }[] = [];
    const bases = new Map<HotPool, BlockRef | undefined>();
    const events = new Map<StreamName, PriceEvent[]>();
    for (const book of this.#books.all()) {
      for (const [address, hot] of book.pools) {
        if (!followed.has(address)) continue;
        this.#distrust(hot, batch);
        bases.set(hot, hot.base);
        const logs = groups.get(address);
        if (logs === undefined || hot.base === undefined) continue;
        const states = replay(hot, logs, (block) => timestamps.get(block));
        if (states.length === 0) continue;
        changes.push({ hot, states });
        const own = events.get(book.stream) ?? [];
        own.push(...states.map((state) => observedEvent(address, state)));
        events.set(book.stream, own);
      }
    }
    await Promise.all([...events].map(([stream, own]) => this.#context.journal.append(stream, own)));
    for (const { hot, states } of changes) if (bases.get(hot) === hot.base) extend(hot, states, to.timestamp);
    for (const [hot, base] of bases) {
      // A pool read anew meanwhile has not seen this batch: it counts as covered from the next.
      hot.coveredFrom = hot.base === base ? (hot.coveredFrom ?? fromBlock) : to.number + 1;
      hot.appliedTo = Math.max(hot.appliedTo, to.number);
    }
    this.#context.factoriesCoveredFrom ??= fromBlock;
    this.#context.followedTo = to.number;
    await this.#addCreated(batch);
  }

  async revert(ancestor: BlockRef): Promise<void> {
    const streams: StreamName[] = [];
    for (const book of this.#books.all()) {
      let touched = false;
      for (const hot of book.pools.values()) touched = revertPool(hot, ancestor) || touched;
      if (book.discoveredAt !== undefined && book.discoveredAt.number > ancestor.number) book.discoveredAt = undefined;
      if (touched) streams.push(book.stream);
    }
    this.#context.followedTo = ancestor.number;
    await Promise.all(
      streams.map((stream) => this.#context.journal.append(stream, [{ type: "BlocksReverted", ancestor }])),
    );
  }

  /** Blocks went by unseen: everything must be read again before it is trusted. */
  #forgetCoverage(): void {
    for (const book of this.#books.all()) {
      book.discoveredAt = undefined;
      for (const hot of book.pools.values()) {
        hot.base = undefined;
        hot.coveredFrom = undefined;
      }
    }
    this.#context.factoriesCoveredFrom = undefined;
  }

  /** A pool read at a block that the followed chain does not have is read again. */
  #distrust(hot: HotPool, batch: FollowBatch): void {
    const { base } = hot;
    if (base === undefined) return;
    const header = batch.headers.find((entry) => entry.number === base.number);
    if (header !== undefined && header.hash !== base.hash) hot.base = undefined;
  }

  async #timestamps(batch: FollowBatch): Promise<Map<number, number>> {
    const known = new Map(batch.headers.map((header) => [header.number, header.timestamp]));
    const missing = [...new Set(batch.logs.map((log) => log.blockNumber))].filter((number) => !known.has(number));
    const wanted = missing.slice(-MAX_UNDATED);
    if (wanted.length > 0) {
      for (const header of await this.#context.reader.headers(wanted)) {
        if (header !== undefined) known.set(header.number, header.timestamp);
      }
    }
    return known;
  }

  /** Pools that the batch created between a hot token and a quote: read where the batch ends, then followed. */
  async #addCreated(batch: FollowBatch): Promise<void> {
    const found = batch.logs.flatMap((log) => this.#created(log));
    if (found.length === 0) return;
    const plan = together(found.map(({ pool }) => planState(pool)));
    let reads: ReturnType<typeof plan.read>;
    try {
      reads = plan.read(await this.#context.reader.calls(plan.calls, batch.to.number));
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      // The next question about the token asks its factories and reads the pool.
      for (const { book } of found) book.discoveredAt = undefined;
      return;
    }
    for (const [index, { book, pool }] of found.entries()) {
      const read = reads[index]!;
      const state = observed(read, { ...batch.to, logsBloom: "0x" });
      const events: PriceEvent[] = [discoveredEvent(read.pool, batch.to.number)];
      if (state !== undefined) events.push(observedEvent(pool.address, state));
      await this.#context.journal.append(book.stream, events);
      const hot = hotPool(read.pool);
      rebase(hot, read.pool, state, batch.to);
      hot.appliedTo = batch.to.number;
      book.pools.set(pool.address, hot);
    }
  }

  #created(log: ChainLog): { book: TokenBook; pool: Pool }[] {
    const kind = log.topics[0];
    if (kind !== TOPIC.pairCreated && kind !== TOPIC.poolCreated) return [];
    const deployment = exchangesOf(this.#context.chain).find((entry) => entry.factory === log.address);
    const token0 = addressAt(log.topics[1] ?? "0x", 0);
    const token1 = addressAt(log.topics[2] ?? "0x", 0);
    const address = addressAt(log.data, kind === TOPIC.pairCreated ? 0 : 1);
    if (deployment === undefined || token0 === undefined || token1 === undefined || address === undefined) return [];
    const book = this.#bookOf(token0, token1);
    if (book === undefined || book.pools.has(address)) return [];
    const venue = venueOf(deployment);
    const fee = kind === TOPIC.poolCreated ? Number(BigInt(log.topics[3] ?? "0x0")) : (venue.fees[0] ?? 0);
    const { name: exchange, rank, style, factory } = venue;
    return [{ book, pool: { address, factory, style, fee, token0, token1, exchange, rank, stableCurve: false } }];
  }

  #bookOf(token0: Address, token1: Address): TokenBook | undefined {
    const { chain } = this.#context;
    const known0 = isReference(chain, token0);
    const known1 = isReference(chain, token1);
    if (known0 && known1) return this.#books.reference;
    if (known0) return this.#books.get(token1);
    if (known1) return this.#books.get(token0);
    return undefined;
  }
}

/** A pool's states at the ends of the batch's blocks, from its last state and its logs. */
function replay(
  hot: HotPool,
  logs: readonly ChainLog[],
  timestampOf: (block: number) => number | undefined,
): Observation[] {
  const states: Observation[] = [];
  let last = hot.timeline.at(-1);
  for (const log of logs) {
    if (log.blockNumber <= hot.appliedTo) continue;
    const timestamp = timestampOf(log.blockNumber);
    const next = applyLog(last, log, timestamp ?? last?.timestamp ?? 0);
    if (next === undefined || next === last) continue;
    if (states.at(-1)?.block === next.block) states.pop();
    // Without a date a state only leads to the next one; the last of the batch always has a date.
    if (timestamp !== undefined) states.push(next);
    last = next;
  }
  return states;
}

/** Takes back what a pool learnt above the ancestor; true when there was something. */
function revertPool(hot: HotPool, ancestor: BlockRef): boolean {
  const before = hot.timeline.length;
  hot.timeline = hot.timeline.filter((observation) => observation.block <= ancestor.number);
  hot.appliedTo = Math.min(hot.appliedTo, ancestor.number);
  if (hot.base !== undefined && hot.base.number > ancestor.number) hot.base = undefined;
  return hot.timeline.length < before;
}
