/**
 * The queue of one collection: the tokens that are due for a fetch. Its sources, in the order in which they are picked:
 * 1. requests: a client read the token, or its fetch was interrupted;
 * 2. the document about a complete collection, until it has an outcome;
 * 3. new tokens: rows of the collection without an outcome, by first appearance;
 * 4. outdated tokens: announced, reverted or sampled changes;
 * 5. failed tokens with a finished backoff.
 * Sources 3 to 5 walk over columns that follow from the log, in slices. So losing the queue costs time only.
 */

import { FairQueue, type Requester } from "../../core/work.ts";
import { type TokenRef, TransferKind } from "../../events/columns.ts";
import { type Collection, isComplete } from "../collections/collection.ts";
import { readSlice } from "../ledger/listing.ts";
import { type Position, START } from "../ledger/rows.ts";
import type { Slot } from "../ledger/tables.ts";
import type { MetadataBook } from "./book.ts";
import { retryAt } from "./retry-times.ts";

/** The collection itself, whose document ERC-7572 defines. It is fetched like a token's. */
export const CONTRACT = { kind: TransferKind.contract, id: 0n } as const satisfies TokenRef;

export const keyOf = ({ kind, id }: TokenRef): string => `${kind}:${id}`;

/** Most requested tokens that wait. */
const MAX_REQUESTS = 10_000;
/** Rows of a collection that are fetched without a request. Tokens beyond are fetched when a client reads them. */
const MAX_PREFETCHED_ROWS = 1_000_000;
/** Rows before the end that are checked again after the collection changed. */
const LOOK_BACK = 200;
/** Slots per slice of a walk: a millisecond. */
const SLICE = 1_000;
/**
 * Window of the limit on outdated tokens. In each window, the worker fetches at most all tokens once plus
 * `OUTDATED_MORE`. So a contract that announces changes in each block is not fetched in each block.
 */
const OUTDATED_WINDOW_MS = 600_000;
/** Extra tokens per window, for small collections: most announcements are about one token. */
const OUTDATED_MORE = 1_000;

const NOW = 0;
const NEVER = Number.POSITIVE_INFINITY;

/** Part of the waiting items that one group may have, if there are several. */
const MAX_OF_GROUP = 0.25;

/** Items that wait, in turns by group, and items in flight, by key. No item is both. */
export class RequestQueue<T> {
  readonly #keyOf: (item: T) => string;
  readonly #groupOf: ((item: T) => string) | undefined;
  readonly #max: number;
  readonly #waiting = new Map<string, T>();
  readonly #turns = new FairQueue<string>();
  readonly #inFlight = new Set<string>();
  #wake: (() => void) | undefined;

  /**
   * @param max most waiting items
   * @param groupOf items of one group delay those of another by no more than one; by default there is one group
   */
  constructor(keyOf: (item: T) => string, max: number, groupOf?: (item: T) => string) {
    this.#keyOf = keyOf;
    this.#groupOf = groupOf;
    this.#max = max;
  }

  #group(item: T): Requester {
    return { key: this.#groupOf?.(item) ?? "", isOperator: false };
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  get inFlight(): number {
    return this.#inFlight.size;
  }

  /** Queues items that are not in flight, up to the limit. */
  add(items: readonly T[]): void {
    const most = this.#groupOf === undefined ? this.#max : this.#max * MAX_OF_GROUP;
    for (const item of items) {
      const group = this.#group(item);
      if (this.#waiting.size >= this.#max || this.#turns.count(group) >= most) break;
      const key = this.#keyOf(item);
      if (this.#inFlight.has(key)) continue;
      this.#waiting.set(key, item);
      this.#turns.add(key, group);
    }
    this.wake();
  }

  /** Takes up to `max` items, the oldest of each group in turns. They are in flight until `end` or `putBack`. */
  take(max: number): T[] {
    const items: T[] = [];
    while (items.length < max) {
      const key = this.#turns.take()?.item;
      if (key === undefined) break;
      items.push(this.#waiting.get(key) as T);
      this.#waiting.delete(key);
      this.#inFlight.add(key);
    }
    return items;
  }

  /** Marks an item of another source as in flight. Returns false if it is in flight already. */
  begin(item: T): boolean {
    const key = this.#keyOf(item);
    if (this.#inFlight.has(key)) return false;
    this.#waiting.delete(key);
    this.#turns.delete(key);
    this.#inFlight.add(key);
    return true;
  }

  end(item: T): void {
    this.#inFlight.delete(this.#keyOf(item));
  }

  /** Queues an item again after its work was interrupted. Ignores the limit, because no walk would find the item. */
  putBack(item: T): void {
    this.end(item);
    const key = this.#keyOf(item);
    this.#waiting.set(key, item);
    this.#turns.add(key, this.#group(item));
    this.wake();
  }

  clear(): void {
    this.#waiting.clear();
    this.#turns.clear();
  }

  wake(): void {
    this.#wake?.();
  }

  /** Resolves at the next `wake`, which each new item causes. */
  woken(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}

interface PickFrom {
  readonly collection: Collection;
  readonly book: MetadataBook;
  /** In ms since the epoch. */
  readonly now: number;
}

/** Takes a due token. Returns false if it is in flight already. */
type Take = (token: TokenRef) => boolean;

interface DueSource {
  /** When it may have a due token, in ms since the epoch, as the last `pick` left it. */
  readonly dueAt: number;
  /** Takes up to `max` due tokens. */
  pick(from: PickFrom, max: number, take: Take): void;
}

/** A walk over the slots of a book, newest first. */
class SlotWalk {
  #left = 0;

  get isOver(): boolean {
    return this.#left === 0;
  }

  start({ tokens }: MetadataBook): void {
    this.#left = tokens.count;
  }

  /** Walks one slice and takes up to `max` due slots. Returns how many. */
  step({ tokens }: MetadataBook, max: number, isDue: (slot: number) => boolean, take: Take): number {
    let taken = 0;
    for (let i = 0; i < SLICE && taken < max && this.#left > 0; i++) {
      const slot = --this.#left;
      // The book may have been loaded again, with fewer tokens so far.
      if (slot >= tokens.count || !isDue(slot)) continue;
      if (take({ kind: tokens.kind(slot as Slot), id: tokens.id(slot as Slot) })) taken++;
    }
    return taken;
  }
}

/** The document about the collection. A collection becomes complete by a new version, which starts a visit. */
const OWN_DOCUMENT: DueSource = {
  dueAt: NEVER,
  pick({ collection, book }, _max, take) {
    if (isComplete(collection) && book.find(CONTRACT.kind, CONTRACT.id) < 0) take(CONTRACT);
  },
};

/** Walks over the rows of a collection, and after each change over the new ones. */
class NewTokens implements DueSource {
  dueAt = NOW;
  /** Where the walk continues; undefined if it has ended. */
  #position: Position | undefined = START;
  /** Rows that the last walk has checked. */
  #rows = 0;
  /** Version of the collection that the last walk has checked. */
  #version = -1;

  get checkedVersion(): number {
    return this.#position === undefined ? this.#version : -1;
  }

  pick({ collection, book }: PickFrom, max: number, take: Take): void {
    const { ledger, end, version } = collection;
    this.dueAt = NEVER;
    if (!isComplete(collection) || end === undefined) return;
    if (this.#position === undefined && this.#version !== version) {
      // A reorg may have changed the tokens of the newest rows.
      this.#position = [Math.max(0, Math.min(this.#rows, ledger.rows.count) - LOOK_BACK), 0, 0, 0];
    }
    if (this.#position === undefined) return;
    const from = this.#position;
    const { entries, next } = readSlice(ledger, { block: end.number, holders: false, from, limit: max });
    for (const { kind, id } of entries) {
      const slot = book.find(kind, id);
      if (slot < 0 || book.newest(slot) === undefined) take({ kind, id: BigInt(id) });
    }
    this.#position = next !== undefined && next[0] < MAX_PREFETCHED_ROWS ? next : undefined;
    if (this.#position !== undefined) this.dueAt = NOW;
    else {
      // Count rows up to the end only: a fold in progress may have added rows of later blocks.
      this.#rows = ledger.rowsAt(end.number);
      this.#version = version;
    }
  }
}

/** Walks over the book after each event that made tokens outdated, within the limit per window. */
class OutdatedTokens implements DueSource {
  dueAt = NEVER;
  readonly #walk = new SlotWalk();
  /** The book's `outdatedVersion` at the start of the last walk; 0 if another walk is needed. */
  #version = 0;
  /** Tokens picked in the current window. */
  #picked = 0;
  #windowEnds = 0;

  /** Repeats the walk, which may have passed a token that became outdated in flight. */
  repeat(): void {
    this.#version = 0;
    this.dueAt = NOW;
  }

  pick({ book, now }: PickFrom, max: number, take: Take): void {
    // Finish a running walk before starting the next one. Otherwise frequent events would keep it from the last tokens.
    if (this.#walk.isOver && book.outdatedVersion > this.#version) {
      this.#version = book.outdatedVersion;
      this.#walk.start(book);
    }
    if (now >= this.#windowEnds) {
      this.#windowEnds = now + OUTDATED_WINDOW_MS;
      this.#picked = 0;
    }
    const limit = book.resolved + book.failed + OUTDATED_MORE;
    this.#picked += this.#walk.step(book, Math.min(max, limit - this.#picked), (slot) => book.isOutdated(slot), take);
    const isOver = this.#walk.isOver && book.outdatedVersion <= this.#version;
    this.dueAt = isOver ? NEVER : this.#picked < limit ? NOW : this.#windowEnds;
  }
}

/** Walks over the book whenever a backoff has finished. */
class FailedTokens implements DueSource {
  readonly #walk = new SlotWalk();
  /** When the next walk is due. The first one is due at once. */
  #nextAt = NOW;
  /** Earliest later retry that the running walk has found. */
  #foundAt = NEVER;

  get dueAt(): number {
    return this.#walk.isOver ? this.#nextAt : NOW;
  }

  failed(at: number): void {
    this.#nextAt = Math.min(this.#nextAt, at);
    this.#foundAt = Math.min(this.#foundAt, at);
  }

  pick({ book, now }: PickFrom, max: number, take: Take): void {
    if (this.#walk.isOver) {
      if (now < this.#nextAt) return;
      this.#walk.start(book);
      this.#foundAt = NEVER;
    }
    this.#walk.step(book, max, (slot) => this.#isDue(book, slot, now), take);
    if (this.#walk.isOver) this.#nextAt = this.#foundAt;
  }

  #isDue(book: MetadataBook, slot: number, now: number): boolean {
    const at = retryAt(book, slot) ?? NEVER;
    if (at > now) this.#foundAt = Math.min(this.#foundAt, at);
    return at <= now;
  }
}

export class DueTokens {
  readonly requests = new RequestQueue<TokenRef>(keyOf, MAX_REQUESTS);
  /** True if the metadata exceeds its byte limit. Then only requested tokens are picked. */
  isFull = false;
  readonly #new = new NewTokens();
  readonly #outdated = new OutdatedTokens();
  readonly #failed = new FailedTokens();
  readonly #walks: readonly DueSource[] = [OWN_DOCUMENT, this.#new, this.#outdated, this.#failed];

  /** Picks up to `max` tokens. Each is in flight until `written`, or until `requests.putBack` after an interruption. */
  pick(from: PickFrom, max: number): TokenRef[] {
    const tokens = this.requests.take(max);
    if (this.isFull) return tokens;
    const take: Take = (token) => {
      const isTaken = this.requests.begin(token);
      if (isTaken) tokens.push(token);
      return isTaken;
    };
    for (const source of this.#walks) {
      if (tokens.length >= max) break;
      source.pick(from, max - tokens.length, take);
    }
    return tokens;
  }

  /** When a token may be due, in ms since the epoch. Valid after a `pick` that returned none. */
  get dueAt(): number {
    if (this.requests.waiting > 0) return NOW;
    return this.isFull ? NEVER : Math.min(...this.#walks.map((source) => source.dueAt));
  }

  /** The collection's version up to which all rows were checked; -1 if a walk is not finished. */
  get checkedVersion(): number {
    return this.#new.checkedVersion;
  }

  /** Handles a failure that is due again at `at`, in ms since the epoch. */
  failed(at: number): void {
    this.#failed.failed(at);
  }

  /** Handles a token with a new outcome in the book. */
  written(token: TokenRef, book: MetadataBook): void {
    this.requests.end(token);
    const slot = book.find(token.kind, token.id);
    if (slot < 0 || !book.isOutdated(slot)) return;
    this.#outdated.repeat();
    this.requests.wake();
  }
}
