/**
 * The projection of a collection's metadata: a pure fold over its metadata stream into columns. A token costs its slot
 * and 40 bytes per outcome. Texts and pictures stay in the blob table; the book has their hashes. The outcomes of a
 * token are linked, newest first, so that the state at any past time can be read.
 */
import { InvariantError, invariant } from "../../core/errors.ts";
import { bytesToHex, type Hash } from "../../core/hex.ts";
import { decodeTokens, NO_HASH, TransferKind } from "../../events/columns.ts";
import type { MetadataEvent, MetadataFailed, MetadataReason, MetadataResolved } from "../../events/types.ts";
import type { EventLog } from "../../log/event-log.ts";
import { CHUNK_BITS, CHUNK_MASK, type Slot, WordTable } from "../ledger/tables.ts";
import { loadId, TokenTable } from "../ledger/token-slots.ts";
import { isPermanent } from "./resolve/failure.ts";

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
interface Batch {
  readonly time: number;
  /** Version of the stream when the URIs were read. */
  readonly since: number;
  readonly reason: MetadataReason | undefined;
}

/** Most ranges in memory. One more, and all of them merge into the smallest range that contains them. */
const MAX_RANGES = 32;
const HASH_BYTES = 32;
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
  readonly #batches: Batch[] = [];
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

  #batchOf(row: number): Batch {
    return this.#batches[this.#outcomes.get(row, BATCH)] as Batch;
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

// The documents of outcomes in the blob table, and when a token is fetched again.

/** The blob that an outcome's hash names. */
export interface OutcomeDocument {
  /** The URI as the contract returned it; null if it returned none. With `inline`, only the part before the body. */
  readonly uri: string | null;
  /** Hash of the blob with the JSON text, if the URI led to JSON. */
  readonly body?: Hash;
  /** How the body follows `uri`: as text or in base64. So a drawing of a megabyte inside the URI is stored once. */
  readonly inline?: "text" | "base64";
  /** URI of the picture, if the token's URI led to a picture instead of JSON. */
  readonly image?: string;
}

/** The document of a URI that led to JSON. Other encodings are not unique, so such a URI is stored whole. */
function documentOf(uri: string, text: string, body: Hash): OutcomeDocument {
  const before = (end: string): string => uri.slice(0, uri.length - end.length);
  if (uri.endsWith(text)) return { uri: before(text), body, inline: "text" };
  const base64 = Buffer.from(text).toString("base64");
  return uri.endsWith(base64) ? { uri: before(base64), body, inline: "base64" } : { uri, body };
}

/** The URI as the contract returned it. */
export function wholeUri({ uri, inline }: OutcomeDocument, body: Uint8Array | undefined): string | null {
  if (uri === null || inline === undefined) return uri;
  // Return no URI rather than a truncated one.
  if (body === undefined) return null;
  return uri + (inline === "text" ? decoder.decode(body) : Buffer.from(body).toString("base64"));
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The hash of a blob in the blob table. */
export const hashOf = (blob: Uint8Array): Hash =>
  `0x${new Bun.CryptoHasher("sha256").update(blob).digest("hex")}` as Hash;

export const toBlob = (document: object): Uint8Array => encoder.encode(JSON.stringify(document));
export const fromBlob = <T>(bytes: Uint8Array): T => JSON.parse(decoder.decode(bytes)) as T;

/** A stored document, and the bytes stored for it: none if it is one of the token's current documents. */
interface Stored {
  readonly hash: Hash;
  readonly bytes: number;
}

/** Stores a document. @param known hashes of the token's current documents */
export async function storeDocument(
  log: EventLog,
  document: OutcomeDocument,
  known: readonly Hash[],
  bodyBytes = 0,
): Promise<Stored> {
  const blob = toBlob(document);
  const hash = await log.putBlob(blob);
  return { hash, bytes: known.includes(hash) ? 0 : blob.length + bodyBytes };
}

/** Stores the JSON text that a URI led to, and its document. */
export async function storeText(
  log: EventLog,
  { uri, text }: { uri: string; text: string },
  known: readonly Hash[],
): Promise<Stored> {
  const bytes = encoder.encode(text);
  const body = await log.putBlob(bytes);
  const document = documentOf(uri, text, body);
  if (document.inline !== undefined && known.length > 0) {
    // Older logs store the URI whole. Keep such a document, so that its token does not count as changed.
    const whole = hashOf(toBlob({ uri, body } satisfies OutcomeDocument));
    if (known.includes(whole)) return { hash: whole, bytes: 0 };
  }
  return storeDocument(log, document, known, bytes.length);
}

const FIRST_RETRY_MS = 2_000;
/** First backoff after a failure caused by the URI itself, which does not pass in seconds. */
const FIRST_STUBBORN_RETRY_MS = 3_600_000;
const MAX_RETRY_MS = 3 * 86_400_000;
/** Least time between two refreshes of a token that clients read. */
export const MIN_REFRESH_MS = 600_000;
/** A token that clients read is refreshed after this time at the latest. */
const MAX_REFRESH_MS = 7 * 86_400_000;

/** Backoff in ms after so many consecutive failures: from seconds to days. */
export function retryMs(failures: number, stubborn: boolean): number {
  const first = stubborn ? FIRST_STUBBORN_RETRY_MS : FIRST_RETRY_MS;
  return Math.min(MAX_RETRY_MS, first * 2 ** Math.min(40, Math.max(0, failures - 1)));
}

/** When a failed slot is due again, in ms since the epoch; undefined if its last attempt did not fail. */
export function retryAt(book: MetadataBook, slot: number): number | undefined {
  const failures = book.failures(slot);
  if (failures === 0) return undefined;
  const newest = book.newest(slot);
  if (newest?.reason === undefined) return undefined;
  // Jitter of up to a quarter, so that slots that failed at the same time are not due at the same time.
  const spread = 1 + (slot % 16) / 64;
  return newest.time + retryMs(failures, isPermanent(newest.reason)) * spread;
}

/** True if the slot should be fetched again when a client reads it: less often the longer its content is unchanged. */
export function isRefreshDue(book: MetadataBook, slot: number, now: number): boolean {
  const newest = book.newest(slot);
  if (newest === undefined) return true;
  const quiet = newest.reason === undefined ? newest.time - book.unchangedSince(slot) : 0;
  return now - newest.time >= Math.min(MAX_REFRESH_MS, Math.max(MIN_REFRESH_MS, quiet));
}
