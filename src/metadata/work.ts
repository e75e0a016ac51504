/**
 * What is left to do for one collection, and in which order: tokens somebody looks at, tokens never asked for (in order
 * of first appearance), outdated ones, failed ones whose wait is over. Walks the columns in slices and remembers where
 * it stands; what it remembers follows from the log and may be lost.
 */
import type { Address } from "../core/hex.ts";
import type { TransferKind } from "../events/columns.ts";
import type { Collection } from "../nfts/collection.ts";
import { type Position, readSlice, START } from "../nfts/listing.ts";
import type { MetadataBook } from "./book.ts";
import { retryAt } from "./schedule.ts";

export interface Token {
  readonly kind: TransferKind;
  readonly id: bigint;
}

/** Tokens of one collection that are asked for unbidden; all others when they are looked at. */
const MAX_EAGER_ROWS = 1_000_000;
/** Rows or slots looked at in one go: a millisecond. */
const SLICE = 1_000;
const MAX_URGENT = 10_000;
/** Rows before the end that are looked at again when the collection has moved. */
const LOOK_BACK = 200;
/**
 * What a contract says of its tokens has them asked for again: so often all of them, and some more, since most speak of one
 * token at a time. A contract that speaks in each block is not asked in each block.
 */
const OUTDATED_WINDOW_MS = 600_000;
const OUTDATED_MORE = 1_000;

export const keyOf = ({ kind, id }: Token): string => `${kind}:${id}`;

export class CollectionWork {
  readonly address: Address;
  /** Tokens being worked on. */
  readonly inFlight = new Set<string>();
  /** When there may be something to do, ms since the epoch. */
  dueAt = 0;
  /** Failures to ask the chain, in a row. */
  interruptions = 0;
  sampleAt: number;
  sampleWait = 0;
  /** Its metadata takes so many bytes that only what somebody looks at is still asked for. */
  isFull = false;
  /** Something was done since the log was last told that all is. */
  isUnsettled = false;
  #wake: (() => void) | undefined;
  readonly #urgent = new Map<string, Token>();
  /** Tokens that were spoken of while they were worked on: what they came to is of before. */
  readonly #doubted = new Map<string, Token>();
  #position: Position | undefined = START;
  #rows = 0;
  #seen = -1;
  #outdatedSeen = 0;
  /** Slots of the walks still to be looked at. */
  #outdatedLeft = 0;
  /** Outdated tokens asked for in the window under way, when it ends, and whether others wait for that. */
  #outdatedAsked = 0;
  #outdatedWindowEnds = 0;
  #isOutdatedWaiting = false;
  #retryLeft = 0;
  #nextRetry = 0;
  #foundRetry = Number.POSITIVE_INFINITY;

  constructor(address: Address, sampleAt: number) {
    this.address = address;
    this.sampleAt = sampleAt;
  }

  get urgent(): number {
    return this.#urgent.size;
  }

  /** Puts tokens first. */
  want(tokens: readonly Token[]): void {
    for (const token of tokens) {
      if (this.#urgent.size >= MAX_URGENT) break;
      const key = keyOf(token);
      if (!this.inFlight.has(key)) this.#urgent.set(key, token);
    }
    this.#wake?.();
  }

  /** A token that was picked came to nothing, since the chain or the log could not be asked: no walk meets it again. */
  giveBack(token: Token): void {
    const key = keyOf(token);
    this.inFlight.delete(key);
    this.#urgent.set(key, token);
    this.#wake?.();
  }

  /** What a token came to is in the book. */
  written(token: Token, book: MetadataBook): void {
    const key = keyOf(token);
    this.inFlight.delete(key);
    const slot = book.find(token.kind, token.id);
    if (slot < 0 || !book.isOutdated(slot)) return;
    // No walk has met it, or one has passed it over. Of too many, another one will.
    if (this.#doubted.size < MAX_URGENT) this.#doubted.set(key, token);
    else this.#outdatedSeen = 0;
    this.#wake?.();
  }

  /** Resolves when something is wanted. */
  wanted(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  /** Up to `max` tokens to ask for now; `more`: there may be others left. */
  pick(
    collection: Collection,
    book: MetadataBook,
    options: { max: number; now: number },
  ): { tokens: Token[]; more: boolean } {
    const tokens: Token[] = [];
    const take = (token: Token) => {
      if (!this.inFlight.has(keyOf(token))) tokens.push(token);
    };
    for (const [key, token] of this.#urgent) {
      if (tokens.length >= options.max) break;
      this.#urgent.delete(key);
      take(token);
    }
    if (this.isFull) return { tokens, more: this.#urgent.size > 0 };
    const { max, now } = options;
    if (tokens.length < max && collection.status === "synced")
      this.#pickNew(collection, book, max - tokens.length, take);
    if (tokens.length < max) this.#pickOutdated(book, now, max - tokens.length, take);
    if (tokens.length < max) this.#pickFailed(book, now, max - tokens.length, take);
    const isOutdated = this.#doubted.size > 0 || this.#outdatedLeft > 0 || book.outdatedVersion > this.#outdatedSeen;
    this.#isOutdatedWaiting = isOutdated && this.#outdatedRoom(book) === 0;
    const hasOutdated = isOutdated && !this.#isOutdatedWaiting;
    const more = this.#urgent.size > 0 || this.#hasRows(collection) || hasOutdated || this.#retryLeft > 0;
    return { tokens, more };
  }

  #hasRows({ status, version }: Collection): boolean {
    return status === "synced" && (this.#position !== undefined || this.#seen !== version);
  }

  #pickNew({ ledger, end, version }: Collection, book: MetadataBook, max: number, take: (token: Token) => void): void {
    const { rows } = ledger;
    if (this.#position === undefined && this.#seen !== version) {
      // A reorg may have put other tokens in the newest rows.
      this.#position = [Math.max(0, Math.min(this.#rows, rows.count) - LOOK_BACK), 0, 0, 0];
    }
    if (this.#position === undefined || end === undefined) return;
    const limit = Math.min(SLICE, max);
    const { entries, next } = readSlice(ledger, { block: end.number, holders: false, from: this.#position, limit });
    for (const { kind, id } of entries) {
      const slot = book.find(kind, id);
      if (slot < 0 || book.newest(slot) === undefined) take({ kind, id: BigInt(id) });
    }
    this.#position = next !== undefined && next[0] < MAX_EAGER_ROWS ? next : undefined;
    if (this.#position !== undefined) return;
    // Not all that are in memory: those of blocks above the end may be on their way in.
    this.#rows = ledger.rowsAt(end.number);
    this.#seen = version;
  }

  #pickOutdated(book: MetadataBook, now: number, max: number, take: (token: Token) => void): void {
    // A walk under way is not begun anew: else tokens at its end would never be met by one.
    if (this.#outdatedLeft === 0 && book.outdatedVersion > this.#outdatedSeen) {
      this.#outdatedSeen = book.outdatedVersion;
      this.#outdatedLeft = book.tokens.count;
    }
    if (now >= this.#outdatedWindowEnds) {
      this.#outdatedWindowEnds = now + OUTDATED_WINDOW_MS;
      this.#outdatedAsked = 0;
    }
    let left = Math.min(max, this.#outdatedRoom(book));
    for (const [key, token] of this.#doubted) {
      if (left === 0) return;
      this.#doubted.delete(key);
      take(token);
      left--;
      this.#outdatedAsked++;
    }
    for (let i = 0; i < SLICE && left > 0 && this.#outdatedLeft > 0; i++) {
      const slot = --this.#outdatedLeft;
      if (slot >= book.tokens.count || !book.isOutdated(slot)) continue;
      take({ kind: book.tokens.kind(slot), id: book.tokens.id(slot) });
      left--;
      this.#outdatedAsked++;
    }
  }

  /** Outdated tokens that may still be asked for in the window. */
  #outdatedRoom({ tokens }: MetadataBook): number {
    return Math.max(0, tokens.count + OUTDATED_MORE - this.#outdatedAsked);
  }

  #pickFailed(book: MetadataBook, now: number, max: number, take: (token: Token) => void): void {
    if (this.#retryLeft === 0) {
      if (now < this.#nextRetry) return;
      this.#retryLeft = book.tokens.count;
      this.#foundRetry = Number.POSITIVE_INFINITY;
    }
    let left = max;
    for (let i = 0; i < SLICE && left > 0 && this.#retryLeft > 0; i++) {
      const slot = --this.#retryLeft;
      const at = slot < book.tokens.count ? retryAt(book, slot) : undefined;
      if (at === undefined) continue;
      if (at > now) {
        this.#foundRetry = Math.min(this.#foundRetry, at);
        continue;
      }
      take({ kind: book.tokens.kind(slot), id: book.tokens.id(slot) });
      left--;
    }
    if (this.#retryLeft === 0) this.#nextRetry = this.#foundRetry;
  }

  /** A token failed: the walk over failed ones is due when its wait is over. */
  failed(at: number): void {
    this.#nextRetry = Math.min(this.#nextRetry, at);
    this.#foundRetry = Math.min(this.#foundRetry, at);
  }

  /** The collection's version up to which every row was looked at; -1 before the first time. */
  get seen(): number {
    return this.#position === undefined ? this.#seen : -1;
  }

  /** When outdated tokens are to be asked for that no visit has asked for, or had room for. */
  get nextOutdated(): number {
    if (this.isFull) return Number.POSITIVE_INFINITY;
    if (this.#isOutdatedWaiting) return this.#outdatedWindowEnds;
    return this.#doubted.size > 0 ? 0 : Number.POSITIVE_INFINITY;
  }

  /** When the next walk over failed ones is due. */
  get nextRetry(): number {
    return this.isFull ? Number.POSITIVE_INFINITY : this.#nextRetry;
  }
}
