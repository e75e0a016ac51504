/**
 * The remaining work of one collection, in its order: tokens that clients read, new tokens (by first appearance),
 * outdated tokens, failed tokens with a finished backoff. Walks the columns in slices and remembers its places. These
 * follow from the log, so losing them costs time only.
 */

import type { Collection } from "../collections/collection.ts";
import type { Address } from "../core/hex.ts";
import type { TransferKind } from "../events/columns.ts";
import { readSlice } from "../ledger/listing.ts";
import { type Position, START } from "../ledger/rows.ts";
import type { Slot } from "../ledger/tables.ts";
import type { MetadataBook } from "./book.ts";
import { retryAt } from "./outcome.ts";

export interface Token {
  readonly kind: TransferKind;
  readonly id: bigint;
}

/** Rows of a collection that are fetched without a request. Tokens beyond are fetched when a client reads them. */
const MAX_PREFETCHED_ROWS = 1_000_000;
/** Rows or slots per slice: a millisecond. */
const SLICE = 1_000;
const MAX_URGENT = 10_000;
/** Rows before the end that are checked again after the collection changed. */
const LOOK_BACK = 200;
/**
 * Window of the limit on outdated tokens. In each window, the worker fetches at most all tokens once plus
 * `OUTDATED_MORE`. So a contract that announces changes in each block is not fetched in each block.
 */
const OUTDATED_WINDOW_MS = 600_000;
/** Extra tokens per window, for small collections: most announcements are about one token. */
const OUTDATED_MORE = 1_000;

export const keyOf = ({ kind, id }: Token): string => `${kind}:${id}`;

export class CollectionWork {
  readonly address: Address;
  /** Keys of the tokens in flight. */
  readonly inFlight = new Set<string>();
  /** When there may be work, in ms since the epoch. */
  dueAt = 0;
  /** Consecutive failed visits. */
  interruptions = 0;
  sampleAt: number;
  sampleWait = 0;
  /** True if the metadata exceeds its byte limit. Then only tokens that clients read are fetched. */
  isFull = false;
  /** True if outcomes were written since the last `MetadataSettled` event. */
  isUnsettled = false;
  #wake: (() => void) | undefined;
  readonly #urgent = new Map<string, Token>();
  /** Tokens that became outdated while they were in flight, so their new outcome may be outdated as well. */
  readonly #outdatedInFlight = new Map<string, Token>();
  #position: Position | undefined = START;
  #rows = 0;
  #seen = -1;
  #outdatedSeen = 0;
  /** Slots that the walk over outdated tokens has not checked yet. */
  #outdatedLeft = 0;
  /** Outdated tokens picked in the current window. */
  #outdatedAsked = 0;
  /** End of the current window, in ms since the epoch. */
  #outdatedWindowEnds = 0;
  /** True if outdated tokens wait for the next window. */
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

  /** Moves tokens to the front. */
  want(tokens: readonly Token[]): void {
    for (const token of tokens) {
      if (this.#urgent.size >= MAX_URGENT) break;
      const key = keyOf(token);
      if (!this.inFlight.has(key)) this.#urgent.set(key, token);
    }
    this.#wake?.();
  }

  /**
   * Queues a token again after its fetch was interrupted by a failure of the chain or the log. No walk would find it.
   */
  requeue(token: Token): void {
    const key = keyOf(token);
    this.inFlight.delete(key);
    this.#urgent.set(key, token);
    this.#wake?.();
  }

  /** Handles a token with a new outcome in the book. */
  written(token: Token, book: MetadataBook): void {
    const key = keyOf(token);
    this.inFlight.delete(key);
    const slot = book.find(token.kind, token.id);
    if (slot < 0 || !book.isOutdated(slot)) return;
    // The walk may have passed the token already, so remember it. If there are too many, repeat the walk.
    if (this.#outdatedInFlight.size < MAX_URGENT) this.#outdatedInFlight.set(key, token);
    else this.#outdatedSeen = 0;
    this.#wake?.();
  }

  /** Resolves when a token is queued at the front. */
  urgentQueued(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  /** Picks up to `max` tokens to fetch now. `more` is true if further tokens may be due. */
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
    const isOutdated =
      this.#outdatedInFlight.size > 0 || this.#outdatedLeft > 0 || book.outdatedVersion > this.#outdatedSeen;
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
      // A reorg may have changed the tokens of the newest rows.
      this.#position = [Math.max(0, Math.min(this.#rows, rows.count) - LOOK_BACK), 0, 0, 0];
    }
    if (this.#position === undefined || end === undefined) return;
    const limit = Math.min(SLICE, max);
    const { entries, next } = readSlice(ledger, { block: end.number, holders: false, from: this.#position, limit });
    for (const { kind, id } of entries) {
      const slot = book.find(kind, id);
      if (slot < 0 || book.newest(slot) === undefined) take({ kind, id: BigInt(id) });
    }
    this.#position = next !== undefined && next[0] < MAX_PREFETCHED_ROWS ? next : undefined;
    if (this.#position !== undefined) return;
    // Count rows up to the end only: a fold in progress may have added rows of later blocks.
    this.#rows = ledger.rowsAt(end.number);
    this.#seen = version;
  }

  #pickOutdated(book: MetadataBook, now: number, max: number, take: (token: Token) => void): void {
    // Finish a running walk before starting the next one. Otherwise frequent events would keep it from the last tokens.
    if (this.#outdatedLeft === 0 && book.outdatedVersion > this.#outdatedSeen) {
      this.#outdatedSeen = book.outdatedVersion;
      this.#outdatedLeft = book.tokens.count;
    }
    if (now >= this.#outdatedWindowEnds) {
      this.#outdatedWindowEnds = now + OUTDATED_WINDOW_MS;
      this.#outdatedAsked = 0;
    }
    let left = Math.min(max, this.#outdatedRoom(book));
    for (const [key, token] of this.#outdatedInFlight) {
      if (left === 0) return;
      this.#outdatedInFlight.delete(key);
      take(token);
      left--;
      this.#outdatedAsked++;
    }
    for (let i = 0; i < SLICE && left > 0 && this.#outdatedLeft > 0; i++) {
      const slot = --this.#outdatedLeft;
      if (slot >= book.tokens.count || !book.isOutdated(slot)) continue;
      take({ kind: book.tokens.kind(slot as Slot), id: book.tokens.id(slot as Slot) });
      left--;
      this.#outdatedAsked++;
    }
  }

  /** Number of outdated tokens that may still be picked in the window. */
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
      take({ kind: book.tokens.kind(slot as Slot), id: book.tokens.id(slot as Slot) });
      left--;
    }
    if (this.#retryLeft === 0) this.#nextRetry = this.#foundRetry;
  }

  /** Schedules the walk over failed tokens after a failure that is due again at `at`. */
  failed(at: number): void {
    this.#nextRetry = Math.min(this.#nextRetry, at);
    this.#foundRetry = Math.min(this.#foundRetry, at);
  }

  /** The collection's version up to which all rows were checked; -1 if a walk is not finished. */
  get seen(): number {
    return this.#position === undefined ? this.#seen : -1;
  }

  /** When outdated tokens that are left can be picked, in ms since the epoch. */
  get nextOutdated(): number {
    if (this.isFull) return Number.POSITIVE_INFINITY;
    if (this.#isOutdatedWaiting) return this.#outdatedWindowEnds;
    return this.#outdatedInFlight.size > 0 ? 0 : Number.POSITIVE_INFINITY;
  }

  /** When the next walk over failed tokens is due, in ms since the epoch. */
  get nextRetry(): number {
    return this.isFull ? Number.POSITIVE_INFINITY : this.#nextRetry;
  }
}
