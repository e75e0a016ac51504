/**
 * The projection of a collection's metadata: a pure fold over its metadata stream into columns. A token costs its slot
 * and 40 bytes per outcome. Texts and pictures stay in the blob table; the book has their hashes. The outcomes of a
 * token are linked, newest first, so that the state at any past time can be read.
 */
import { InvariantError, invariant } from "../core/errors.ts";
import { bytesToHex, type Hash } from "../core/hex.ts";
import { decodeTokens, NO_HASH, type TransferKind } from "../events/columns.ts";
import type { MetadataEvent, MetadataFailed, MetadataReason, MetadataResolved } from "../events/types.ts";
import type { Slot } from "../ledger/tables.ts";
import { loadId, TokenTable } from "../ledger/token-slots.ts";

const FIRST_CAPACITY = 64;

/** The new capacity of a column that is full. It grows by half, so that slack stays below a third. */
function capacityFor(needed: number, current: number): number {
  return Math.max(needed, FIRST_CAPACITY, Math.ceil(current * 1.5));
}

/** Returns the column with room for `index`: the same one, or a larger copy. */
function roomU32(column: Uint32Array<ArrayBuffer>, index: number): Uint32Array<ArrayBuffer> {
  if (index < column.length) return column;
  const grown = new Uint32Array(capacityFor(index + 1, column.length));
  grown.set(column);
  return grown;
}

function roomI32(column: Int32Array<ArrayBuffer>, index: number): Int32Array<ArrayBuffer> {
  if (index < column.length) return column;
  const grown = new Int32Array(capacityFor(index + 1, column.length));
  grown.set(column);
  return grown;
}

function roomU8(column: Uint8Array<ArrayBuffer>, index: number): Uint8Array<ArrayBuffer> {
  if (index < column.length) return column;
  const grown = new Uint8Array(capacityFor(index + 1, column.length));
  grown.set(column);
  return grown;
}

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

/** Most ranges in memory. One more, and all of them merge into the smallest range that contains them. */
const MAX_RANGES = 32;
const HASH_BYTES = 32;

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

  // One row per slot.
  #newest = new Int32Array(64);
  #good = new Int32Array(64);
  /** The oldest outcome of the newest run with the same hash. */
  #runs = new Int32Array(64);
  #failures = new Uint8Array(64);
  #media = new Int32Array(64);

  // One row per outcome.
  #count = 0;
  #prev = new Int32Array(64);
  #batch = new Uint32Array(64);
  #hashes = new Uint8Array(64 * HASH_BYTES);

  // One row per event with outcomes.
  readonly #times: number[] = [];
  readonly #since: number[] = [];
  readonly #reasons: (MetadataReason | undefined)[] = [];

  #mediaCount = 0;
  #mediaHashes = new Uint8Array(0);
  #ranges: OutdatedRange[] = [];
  readonly #id = new Uint32Array(8);

  get bytes(): number {
    return (
      1_024 +
      this.tokens.bytes +
      this.#newest.byteLength * 4 +
      this.#failures.byteLength +
      this.#prev.byteLength * 2 +
      this.#hashes.byteLength +
      this.#mediaHashes.byteLength +
      this.#times.length * 32
    );
  }

  /** Folds one event in place. @throws InvariantError on a gap in versions */
  evolve(event: MetadataEvent, version: number, time: number): void {
    if (version <= this.version) return;
    invariant(version === this.version + 1, "an event is missing", { version, after: this.version });
    this.version = version;
    switch (event.type) {
      case "MetadataResolved":
        this.#outcomes(event, time, undefined);
        return;
      case "MetadataFailed":
        this.#outcomes(event, time, event.reason);
        return;
      case "MetadataOutdated":
        this.outdatedBlock = event.block;
        this.#outdate({ from: BigInt(event.fromId), to: BigInt(event.toId), version });
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
    this.#newest = roomI32(this.#newest, slot);
    this.#good = roomI32(this.#good, slot);
    this.#runs = roomI32(this.#runs, slot);
    this.#failures = roomU8(this.#failures, slot);
    this.#media = roomI32(this.#media, slot);
    this.#newest[slot] = -1;
    this.#good[slot] = -1;
    this.#media[slot] = -1;
    return slot;
  }

  #outcomes(
    { tokens, since, bytes }: MetadataResolved | MetadataFailed,
    time: number,
    reason: MetadataReason | undefined,
  ): void {
    const { count, kinds, words, ids, hashes } = decodeTokens(tokens);
    this.storedBytes += bytes;
    const batch = this.#times.push(time) - 1;
    this.#since.push(since);
    this.#reasons.push(reason);
    for (let i = 0; i < count; i++) {
      loadId({ words, values: ids }, i, this.#id);
      const slot = this.#slot(kinds[i] as TransferKind);
      const row = this.#count++;
      this.#prev = roomI32(this.#prev, row);
      this.#batch = roomU32(this.#batch, row);
      this.#hashes = roomU8(this.#hashes, (row + 1) * HASH_BYTES - 1);
      const before = this.#newest[slot] as number;
      this.#prev[row] = before;
      this.#batch[row] = batch;
      this.#hashes.set(hashes.subarray(i * HASH_BYTES, (i + 1) * HASH_BYTES), row * HASH_BYTES);
      if (before < 0 || !this.#isSameHash(before, row)) this.#runs[slot] = row;
      this.#advance(slot, row, reason === undefined);
    }
  }

  /** Updates the counts and makes `row` the slot's newest outcome. */
  #advance(slot: number, row: number, isGood: boolean): void {
    const wasGood = (this.#good[slot] as number) >= 0;
    const wasFailed = !wasGood && (this.#newest[slot] as number) >= 0;
    this.#newest[slot] = row;
    if (isGood) {
      if (!wasGood) this.resolved++;
      if (wasFailed) this.failed--;
      this.#good[slot] = row;
      this.#failures[slot] = 0;
      return;
    }
    if (!wasGood && !wasFailed) this.failed++;
    this.#failures[slot] = Math.min(255, (this.#failures[slot] as number) + 1);
  }

  #examined(bytes: Uint8Array): void {
    const { count, kinds, words, ids, hashes } = decodeTokens(bytes);
    for (let i = 0; i < count; i++) {
      loadId({ words, values: ids }, i, this.#id);
      const slot = this.#slot(kinds[i] as TransferKind);
      // Overwrite the previous result: only metadata has a history.
      const known = this.#media[slot] as number;
      const row = known >= 0 ? known : this.#mediaCount++;
      this.#mediaHashes = roomU8(this.#mediaHashes, (row + 1) * HASH_BYTES - 1);
      this.#mediaHashes.set(hashes.subarray(i * HASH_BYTES, (i + 1) * HASH_BYTES), row * HASH_BYTES);
      this.#media[slot] = row;
    }
  }

  #outdate(range: OutdatedRange): void {
    this.outdatedVersion = range.version;
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

  /** The slot of a token, or -1 if the book has nothing about it. */
  find(kind: TransferKind, id: number | bigint): number {
    return this.tokens.findId(kind, id);
  }

  #outcome(row: number): Outcome {
    const batch = this.#batch[row] as number;
    const hash = bytesToHex(this.#hashes.subarray(row * HASH_BYTES, (row + 1) * HASH_BYTES)) as Hash;
    return {
      time: this.#times[batch] as number,
      reason: this.#reasons[batch],
      hash: hash === NO_HASH ? undefined : hash,
    };
  }

  #rowAt(slot: number, time: number): number {
    let row = this.#newest[slot] as number;
    while (row >= 0 && (this.#times[this.#batch[row] as number] as number) > time) row = this.#prev[row] as number;
    return row;
  }

  /** The slot's newest outcome, at or before `time` if that is given. */
  newest(slot: number, time = Number.POSITIVE_INFINITY): Outcome | undefined {
    const row = this.#rowAt(slot, time);
    return row < 0 ? undefined : this.#outcome(row);
  }

  /** The slot's newest success, at or before `time` if that is given. */
  good(slot: number, time?: number): Outcome | undefined {
    let row = time === undefined ? (this.#good[slot] as number) : this.#rowAt(slot, time);
    while (row >= 0 && this.#reasons[this.#batch[row] as number] !== undefined) row = this.#prev[row] as number;
    return row < 0 ? undefined : this.#outcome(row);
  }

  #isSameHash(row: number, other: number): boolean {
    for (let i = 0; i < HASH_BYTES; i++) {
      if (this.#hashes[row * HASH_BYTES + i] !== this.#hashes[other * HASH_BYTES + i]) return false;
    }
    return true;
  }

  /** Time since which the content is unchanged. Stored, because the walk through a token's outcomes is unbounded. */
  unchangedSince(slot: number): number {
    if ((this.#newest[slot] as number) < 0) return 0;
    return this.#times[this.#batch[this.#runs[slot] as number] as number] as number;
  }

  /** Number of consecutive failures. */
  failures(slot: number): number {
    return this.#failures[slot] as number;
  }

  /** Hash of the document of the slot's picture; undefined if it was not examined yet. */
  media(slot: number): Hash | undefined {
    const row = this.#media[slot] as number;
    if (row < 0) return undefined;
    return bytesToHex(this.#mediaHashes.subarray(row * HASH_BYTES, (row + 1) * HASH_BYTES)) as Hash;
  }

  /** True if an event newer than the slot's newest outcome made it outdated. */
  isOutdated(slot: number): boolean {
    if (this.#ranges.length === 0) return false;
    const newest = this.#newest[slot] as number;
    const since = newest < 0 ? 0 : (this.#since[this.#batch[newest] as number] as number);
    if (since >= this.outdatedVersion) return false;
    const id = this.tokens.id(slot as Slot);
    return this.#ranges.some(({ from, to, version }) => version > since && id >= from && id <= to);
  }
}
