/**
 * The projection of a collection's metadata: a pure fold over its metadata stream into columns. A token costs its slot
 * and 40 bytes per outcome. Texts and pictures stay in the blob table; the book has their hashes. The outcomes of a
 * token are linked, newest first, so that the state at any past time can be read.
 */
import { InvariantError, invariant } from "../../core/errors.ts";
import { bytesToHex, type Hash } from "../../core/hex.ts";
import { TransferKind } from "../../events/columns.ts";
import { decodeTokens, NO_HASH } from "../../events/token-columns.ts";
import type { MetadataEvent, MetadataFailed, MetadataReason, MetadataResolved } from "../../events/types.ts";
import { CHUNK_BITS, CHUNK_MASK, type Slot, WordTable } from "../ledger/tables.ts";
import { loadId, TokenTable } from "../ledger/token-slots.ts";
import { HASH_BYTES } from "./outcome-documents.ts";

/** One attempt to fetch a token's metadata. */
export interface Outcome {
  /** When it was recorded, in ms since the epoch. */
  readonly time: number;
  /** Undefined if it succeeded. */
  readonly reason: MetadataReason | undefined;
  /** Hash of the outcome's document; undefined if there is none. */
  readonly hash: Hash | undefined;
}

interface OutdatedRange {
  readonly from: bigint;
  readonly to: bigint;
  /** Version of the event with the range. */
  readonly version: number;
}

/** An event with outcomes. */
interface OutcomeBatch {
  readonly time: number;
  /** Version of the stream when the URIs were read. */
  readonly since: number;
  readonly reason: MetadataReason | undefined;
}

/** Most ranges in memory. One more, and all of them merge into the smallest range that contains them. */
const MAX_RANGES = 32;
/** The largest token id. */
export const MAX_ID = (1n << 256n) - 1n;

/**
 * Words of a slot: its newest outcome, its newest success, the oldest outcome of the newest run with the same hash, its
 * picture (each -1 if there is none), and the number of consecutive failures.
 */
const [NEWEST, GOOD, RUN, MEDIA, FAILURES] = [0, 1, 2, 3, 4] as const;
const NEW_SLOT = [-1, -1, -1, -1, 0] as const;
/** Words of an outcome: the token's outcome before it, its batch, and its hash in eight words. */
const [PREVIOUS, BATCH, HASH] = [0, 1, 2] as const;

/** The bytes of the hash that begins at a word of a row, in the table's own memory. */
function hashIn(table: WordTable, row: number, word: number): Uint8Array {
  const chunk = table.chunks[row >>> CHUNK_BITS] as Int32Array;
  const at = chunk.byteOffset + ((row & CHUNK_MASK) * table.width + word) * 4;
  return new Uint8Array(chunk.buffer, at, HASH_BYTES);
}

export class MetadataBook {
  version = 0;
  readonly tokens = new TokenTable();
  /** Tokens with metadata. */
  resolved = 0;
  /** Tokens with failures only. */
  failed = 0;
  /** Bytes of the outcomes in the blob table, at most: tokens may share them. */
  storedBytes = 0;
  /** Version of the newest event that made tokens outdated. */
  outdatedVersion = 0;
  /** Block of that event. */
  outdatedBlock = 0;
  /** Version of the newest event that made the document about the collection outdated. */
  #contractOutdated = 0;

  readonly #slots = new WordTable(NEW_SLOT.length);
  readonly #outcomes = new WordTable(2 + HASH_BYTES / 4);
  readonly #batches: OutcomeBatch[] = [];
  /** The hash of each picture's document. */
  readonly #pictures = new WordTable(HASH_BYTES / 4);
  #ranges: OutdatedRange[] = [];
  readonly #id = new Uint32Array(8);

  get bytes(): number {
    const tables = this.tokens.bytes + this.#slots.bytes + this.#outcomes.bytes + this.#pictures.bytes;
    return 1_024 + tables + this.#batches.length * 64;
  }

  /** Folds one event in place. @throws InvariantError on a gap in versions */
  evolve(event: MetadataEvent, version: number, time: number): void {
    if (version <= this.version) return;
    invariant(version === this.version + 1, "an event is missing", { version, after: this.version });
    this.version = version;
    switch (event.type) {
      case "MetadataResolved":
      case "MetadataFailed":
        this.#fold(event, time);
        return;
      case "MetadataOutdated":
        this.outdatedBlock = event.block;
        this.outdatedVersion = version;
        if (event.contract === true) this.#contractOutdated = version;
        else this.#outdate({ from: BigInt(event.fromId), to: BigInt(event.toId), version });
        return;
      case "MetadataRequested":
      case "MetadataSettled":
        return;
      case "MediaExamined":
        this.#examined(event.tokens);
        return;
      default:
        throw new InvariantError(`not an event of a metadata stream: ${(event as { type: string }).type}`);
    }
  }

  #slot(kind: TransferKind): number {
    const found = this.tokens.find(kind, this.#id);
    if (found >= 0) return found;
    const slot = this.tokens.add(kind, this.#id);
    this.#slots.add();
    for (const [word, value] of NEW_SLOT.entries()) this.#slots.set(slot, word, value);
    return slot;
  }

  #fold(event: MetadataResolved | MetadataFailed, time: number): void {
    const { count, kinds, words, ids, hashes } = decodeTokens(event.tokens);
    const reason = event.type === "MetadataFailed" ? event.reason : undefined;
    const batch = this.#batches.push({ time, since: event.since, reason }) - 1;
    this.storedBytes += event.bytes;
    for (let i = 0; i < count; i++) {
      loadId({ words, values: ids }, i, this.#id);
      const slot = this.#slot(kinds[i] as TransferKind);
      const before = this.#slots.get(slot, NEWEST);
      const row = this.#outcomes.add();
      this.#outcomes.set(row, PREVIOUS, before);
      this.#outcomes.set(row, BATCH, batch);
      const hash = hashes.subarray(i * HASH_BYTES, (i + 1) * HASH_BYTES);
      hashIn(this.#outcomes, row, HASH).set(hash);
      const isSame = before >= 0 && Buffer.compare(hashIn(this.#outcomes, before, HASH), hash) === 0;
      if (!isSame) this.#slots.set(slot, RUN, row);
      this.#advance(slot, row, reason === undefined);
    }
  }

  /** Updates the counts and makes `row` the slot's newest outcome. */
  #advance(slot: number, row: number, isGood: boolean): void {
    const wasGood = this.#slots.get(slot, GOOD) >= 0;
    const wasFailed = !wasGood && this.#slots.get(slot, NEWEST) >= 0;
    this.#slots.set(slot, NEWEST, row);
    this.#slots.set(slot, FAILURES, isGood ? 0 : this.failures(slot) + 1);
    if (isGood) this.#slots.set(slot, GOOD, row);
    if (this.isContract(slot)) return;
    if (isGood && !wasGood) this.resolved++;
    if (isGood && wasFailed) this.failed--;
    if (!isGood && !wasGood && !wasFailed) this.failed++;
  }

  #examined(bytes: Uint8Array): void {
    const { count, kinds, words, ids, hashes } = decodeTokens(bytes);
    for (let i = 0; i < count; i++) {
      loadId({ words, values: ids }, i, this.#id);
      const slot = this.#slot(kinds[i] as TransferKind);
      // Overwrite the previous result: only metadata has a history.
      const known = this.#slots.get(slot, MEDIA);
      const row = known >= 0 ? known : this.#pictures.add();
      hashIn(this.#pictures, row, 0).set(hashes.subarray(i * HASH_BYTES, (i + 1) * HASH_BYTES));
      this.#slots.set(slot, MEDIA, row);
    }
  }

  #outdate(range: OutdatedRange): void {
    if (range.from === 0n && range.to === MAX_ID) this.#contractOutdated = range.version;
    // Drop older ranges inside the new one.
    const kept = this.#ranges.filter(({ from, to }) => from < range.from || to > range.to);
    kept.push(range);
    if (kept.length <= MAX_RANGES) {
      this.#ranges = kept;
      return;
    }
    let { from, to } = range;
    for (const older of kept) {
      if (older.from < from) from = older.from;
      if (older.to > to) to = older.to;
    }
    this.#ranges = [{ from, to, version: range.version }];
  }

  /** True for the slot of the document about the collection. It counts as no token. */
  isContract(slot: number): boolean {
    return this.tokens.kind(slot as Slot) === TransferKind.contract;
  }

  /** The slot of a token, or -1 if the book has nothing about it. */
  find(kind: TransferKind, id: number | bigint): number {
    return this.tokens.findId(kind, id);
  }

  #batchOf(row: number): OutcomeBatch {
    return this.#batches[this.#outcomes.get(row, BATCH)] as OutcomeBatch;
  }

  #outcome(row: number): Outcome | undefined {
    if (row < 0) return undefined;
    const { time, reason } = this.#batchOf(row);
    const hash = bytesToHex(hashIn(this.#outcomes, row, HASH)) as Hash;
    return { time, reason, hash: hash === NO_HASH ? undefined : hash };
  }

  #rowAt(slot: number, time: number): number {
    let row = this.#slots.get(slot, NEWEST);
    while (row >= 0 && this.#batchOf(row).time > time) row = this.#outcomes.get(row, PREVIOUS);
    return row;
  }

  /** The slot's newest outcome, at or before `time` if that is given. */
  newest(slot: number, time = Number.POSITIVE_INFINITY): Outcome | undefined {
    return this.#outcome(this.#rowAt(slot, time));
  }

  /** The slot's newest success, at or before `time` if that is given. */
  good(slot: number, time?: number): Outcome | undefined {
    let row = time === undefined ? this.#slots.get(slot, GOOD) : this.#rowAt(slot, time);
    while (row >= 0 && this.#batchOf(row).reason !== undefined) row = this.#outcomes.get(row, PREVIOUS);
    return this.#outcome(row);
  }

  /** True if the slot has failures only, and the newest one, at or before `time` if that is given, has no document. */
  isBare(slot: number, time = Number.POSITIVE_INFINITY): boolean {
    if (this.#slots.get(slot, GOOD) >= 0) return false;
    const row = this.#rowAt(slot, time);
    for (let word = HASH; row >= 0 && word < this.#outcomes.width; word++) {
      if (this.#outcomes.get(row, word) !== 0) return false;
    }
    return true;
  }

  /** Copies the words of the hash of the slot's newest success to a place. Returns false if there is none. */
  copyGoodHash(slot: number, into: Int32Array, at: number): boolean {
    const row = this.#slots.get(slot, GOOD);
    if (row < 0) return false;
    const { chunks, width } = this.#outcomes;
    const chunk = chunks[row >>> CHUNK_BITS] as Int32Array;
    const from = (row & CHUNK_MASK) * width + HASH;
    for (let word = 0; word < HASH_BYTES / 4; word++) into[at + word] = chunk[from + word] as number;
    return true;
  }

  /** Returns up to `limit` outcomes of a slot, newest first. */
  outcomes(slot: number, limit: number): Outcome[] {
    const outcomes: Outcome[] = [];
    for (let row = this.#slots.get(slot, NEWEST); row >= 0 && outcomes.length < limit; ) {
      outcomes.push(this.#outcome(row) as Outcome);
      row = this.#outcomes.get(row, PREVIOUS);
    }
    return outcomes;
  }

  /** The reason of the newest failure of a token without metadata; undefined for any other token. */
  failureOf(slot: number): MetadataReason | undefined {
    const newest = this.#slots.get(slot, NEWEST);
    return newest < 0 || this.#slots.get(slot, GOOD) >= 0 ? undefined : this.#batchOf(newest).reason;
  }

  /** Time since which the content is unchanged. Stored, because the walk through a token's outcomes is unbounded. */
  unchangedSince(slot: number): number {
    const hasOutcome = this.#slots.get(slot, NEWEST) >= 0;
    return hasOutcome ? this.#batchOf(this.#slots.get(slot, RUN)).time : 0;
  }

  /** Number of consecutive failures. */
  failures(slot: number): number {
    return this.#slots.get(slot, FAILURES);
  }

  /** Hash of the document of the slot's picture; undefined if it was not examined yet. */
  media(slot: number): Hash | undefined {
    const row = this.#slots.get(slot, MEDIA);
    return row < 0 ? undefined : (bytesToHex(hashIn(this.#pictures, row, 0)) as Hash);
  }

  /** True if an event newer than the slot's newest outcome made it outdated. */
  isOutdated(slot: number): boolean {
    const newest = this.#slots.get(slot, NEWEST);
    const since = newest < 0 ? 0 : this.#batchOf(newest).since;
    if (since >= this.outdatedVersion) return false;
    if (this.isContract(slot)) return this.#contractOutdated > since;
    const id = this.tokens.id(slot as Slot);
    return this.#ranges.some(({ from, to, version }) => version > since && id >= from && id <= to);
  }
}
