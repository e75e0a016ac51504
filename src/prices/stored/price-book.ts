/**
 * The heads of a chain at which prices were read, folded from the stream `prices/<chainId>`: each with the coin's pool, and
 * for each token the runs of heads at which a reader read it. A token of a run that has no price of its own at a head kept
 * the state of its last one. So one record a head tells of all tokens.
 */
import type { Address, Hash } from "../../core/hex.ts";
import {
  decodeHead,
  encodeHead,
  HEAD_FLAGS,
  type StoredHead,
  storedBlock,
  storedHash,
} from "../../events/price-columns.ts";
import type { HeadPriced, PoolDiscovered, PriceBookEvent, PricesThinned } from "../../events/types.ts";
import { ByteRows } from "./byte-rows.ts";

/** Heads at which a reader read a token, from its first one on. */
export interface HeadRun {
  readonly from: { readonly block: number; readonly hash: Hash };
  /** The last block that may be of the run. */
  to: number;
}

/** A head with the coin's state at it. */
export interface BookHead extends StoredHead, Pick<HeadPriced, "disputed"> {
  readonly isWhole: boolean;
}

type BookPool = Omit<PoolDiscovered, "type" | "block">;

/** Most heads in memory: some 35 MB. At 12 s a block they are five weeks, at 2 s six days. */
export const MAX_HEADS = 250_000;
/** They are dropped so many at once. */
const HEADS_AT_ONCE = 25_000;

export class PriceBook {
  version = 0;
  /** Heads since a fold could begin. */
  sinceBegin = 0;
  /** Id of the process that reads ahead. */
  reader: string | undefined;
  readonly pools: BookPool[] = [];
  readonly #numbers = new Map<string, number>();
  #rows = new ByteRows();
  /** The row with the coin's own state, for each row. */
  #coinRows: number[] = [];
  /** Disputes of the dollar, by the block's hash. */
  readonly #disputed = new Map<Hash, HeadPriced["disputed"]>();
  readonly #runs = new Map<Address, HeadRun[]>();
  /** The tokens that the reader reads, with their open runs. */
  readonly #open = new Map<Address, HeadRun>();

  get size(): number {
    return this.#rows.size;
  }

  get bytes(): number {
    return this.#rows.bytes + this.#coinRows.length * 8 + this.#runs.size * 256;
  }

  /** The tokens that the reader read at its last head. */
  get members(): ReadonlyMap<Address, HeadRun> {
    return this.#open;
  }

  numberOf(pool: string): number | undefined {
    return this.#numbers.get(pool);
  }

  /** Folds one event in place. */
  evolve(event: PriceBookEvent, version: number): void {
    this.version = version;
    switch (event.type) {
      case "HeadPriced":
        this.#addHead(event);
        return;
      case "PricesThinned":
        this.#thin(event);
        return;
      case "PricesWanted":
        return;
      default:
        event satisfies never;
    }
  }

  #addHead({ head, reader, joined = [], left = [], pool, pools, disputed }: HeadPriced): void {
    if (pools !== undefined) this.#takePools(pools);
    this.sinceBegin = pools === undefined ? this.sinceBegin + 1 : 0;
    if (pool !== undefined && !this.#numbers.has(pool.pool)) {
      this.#numbers.set(pool.pool, this.pools.push(pool) - 1);
    }
    const block = storedBlock(head);
    const hash = storedHash(head);
    this.#cut(block, hash);
    if (disputed !== undefined) this.#disputed.set(hash, disputed);
    const flags = head[1]!;
    const row = this.#rows.size;
    const isSame = (flags & HEAD_FLAGS.isSameCoin) !== 0 && row > 0;
    this.#rows.push(block, head);
    this.#coinRows.push(isSame ? this.#coinRows[row - 1]! : row);
    if (this.size >= MAX_HEADS + HEADS_AT_ONCE) this.#keepOnly((one) => one >= HEADS_AT_ONCE);
    if ((flags & HEAD_FLAGS.isWhole) === 0) return;
    if (reader !== undefined) {
      this.reader = reader;
      for (const token of [...this.#open.keys()]) this.#close(token, block - 1);
    }
    for (const token of left) this.#close(token, block - 1);
    for (const token of joined) {
      const run = { from: { block, hash }, to: Number.POSITIVE_INFINITY };
      const runs = this.#runs.get(token);
      if (runs === undefined) this.#runs.set(token, [run]);
      else runs.push(run);
      this.#open.set(token, run);
    }
  }

  #takePools(pools: readonly BookPool[]): void {
    this.pools.splice(0, this.pools.length, ...pools);
    this.#numbers.clear();
    for (const [number, { pool }] of pools.entries()) this.#numbers.set(pool, number);
  }

  #close(token: Address, to: number): void {
    const run = this.#open.get(token);
    if (run !== undefined) run.to = to;
    this.#open.delete(token);
  }

  /** Drops the heads from a block on. The one that comes is of another branch, or tells more of the same head. */
  #cut(block: number, hash: Hash): void {
    const { lastHead } = this;
    if (lastHead === undefined || block > lastHead.block) return;
    const kept = this.#rows.lastAt(block - 1) + 1;
    const isSame = lastHead.block === block && lastHead.hash === hash;
    this.#rows.truncate(kept);
    this.#coinRows.length = kept;
    if (isSame) return;
    for (const [token, runs] of this.#runs) {
      const left = runs.filter(({ from }) => from.block < block);
      for (const run of left) run.to = Math.min(run.to, block - 1);
      if (left.length === 0) this.#runs.delete(token);
      else if (left.length < runs.length) this.#runs.set(token, left);
      this.#open.delete(token);
    }
  }

  #thin({ before, seconds }: PricesThinned): void {
    const ends = new Set<number>();
    for (const runs of this.#runs.values()) {
      for (const { to } of runs) if (to < before) ends.add(this.#rows.lastAt(to));
    }
    const spanOf = (row: number) => Math.floor(decodeHead(this.#rows.at(row)).timestamp / seconds);
    this.#keepOnly((row) => {
      const isLast = row + 1 === this.#rows.size || spanOf(row) !== spanOf(row + 1);
      const isWhole = (this.#rows.at(row)[1]! & HEAD_FLAGS.isWhole) !== 0;
      return this.#rows.block(row) >= before || !isWhole || isLast || ends.has(row);
    });
  }

  /** Drops all other heads, and the runs and disputes that none is left of. */
  #keepOnly(isKept: (row: number) => boolean): void {
    const [rows, coins, moved] = [new ByteRows(), [] as number[], new Map<number, number>()];
    const disputed = new Map(this.#disputed);
    this.#disputed.clear();
    for (let row = 0; row < this.#rows.size; row++) {
      if (!isKept(row)) continue;
      const bytes = this.#rows.at(row);
      const coin = this.#coinRows[row]!;
      const hash = storedHash(bytes);
      if (disputed.has(hash)) this.#disputed.set(hash, disputed.get(hash));
      // The row that had the coin's state may be gone: this one takes its state over.
      const at = moved.get(coin);
      if (at === undefined) moved.set(coin, rows.size);
      coins.push(at ?? rows.size);
      rows.push(this.#rows.block(row), at === undefined ? withCoinOf(bytes, this.#rows.at(coin)) : bytes);
    }
    this.#rows = rows;
    this.#coinRows = coins;
    const first = this.first ?? 0;
    for (const [token, runs] of this.#runs) {
      const left = runs.filter(({ to }) => to >= first);
      if (left.length === 0) this.#runs.delete(token);
      else this.#runs.set(token, left);
    }
  }

  /** Number of the last block at which prices were read. */
  get last(): number | undefined {
    return this.#rows.size === 0 ? undefined : this.#rows.block(this.#rows.size - 1);
  }

  get first(): number | undefined {
    return this.#rows.size === 0 ? undefined : this.#rows.block(0);
  }

  get lastHead(): BookHead | undefined {
    return this.#rows.size === 0 ? undefined : this.#headAt(this.#rows.size - 1);
  }

  /** The head of a block at which prices were read. */
  headAt(block: number): BookHead | undefined {
    const row = this.#rows.lastAt(block);
    return row < 0 || this.#rows.block(row) !== block ? undefined : this.#headAt(row);
  }

  /** The last whole head at or before a block, not below another one. */
  lastWholeAt(block: number, least: number): BookHead | undefined {
    for (let row = this.#rows.lastAt(block); row >= 0 && this.#rows.block(row) >= least; row--) {
      if ((this.#rows.at(row)[1]! & HEAD_FLAGS.isWhole) !== 0) return this.#headAt(row);
    }
    return undefined;
  }

  /** The last head at or before a block. */
  lastHeadAt(block: number): BookHead | undefined {
    const row = this.#rows.lastAt(block);
    return row < 0 ? undefined : this.#headAt(row);
  }

  /** The number of the last block at or before a moment in Unix seconds at which prices were read. */
  lastBefore(timestamp: number): number | undefined {
    const row = this.#rowBefore(timestamp);
    return row < 0 ? undefined : this.#rows.block(row);
  }

  #rowBefore(timestamp: number): number {
    let [low, high] = [-1, this.#rows.size - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.#headAt(middle).timestamp <= timestamp) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** The last head at or before a moment in Unix seconds, if the block after it was read, too, and is later. */
  lastBlockAt(timestamp: number): BookHead | undefined {
    const low = this.#rowBefore(timestamp);
    if (low < 0 || low + 1 >= this.#rows.size) return undefined;
    return this.#rows.block(low + 1) === this.#rows.block(low) + 1 ? this.#headAt(low) : undefined;
  }

  #headAt(row: number): BookHead {
    const head = decodeHead(this.#rows.at(row));
    const coinRow = this.#coinRows[row]!;
    const coin = coinRow === row ? head.coin : decodeHead(this.#rows.at(coinRow)).coin;
    const disputed = this.#disputed.get(head.hash);
    return { ...head, coin, isWhole: (head.flags & HEAD_FLAGS.isWhole) !== 0, ...(disputed && { disputed }) };
  }

  /** The run in which a token was read at a whole head. */
  runAt(token: Address, block: number): HeadRun | undefined {
    return this.#runs.get(token)?.findLast(({ from, to }) => from.block <= block && block <= to);
  }

  runsOf(token: Address): readonly HeadRun[] {
    return this.#runs.get(token) ?? [];
  }
}

/** A head with the coin's state of another one. */
function withCoinOf(head: Uint8Array, coinHead: Uint8Array): Uint8Array {
  const { coin } = decodeHead(coinHead);
  const own = decodeHead(head);
  return coin === undefined ? head : encodeHead({ ...own, flags: own.flags & ~HEAD_FLAGS.isSameCoin, coin });
}
