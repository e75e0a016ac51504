/**
 * The order of a listing: rows in order of first appearance. A segment is a run of token slots, or an ERC-2309 id
 * range, which costs one object however long it is. A token of a range that moved has a slot but keeps its row in the
 * range.
 */
import { GAP_CHUNK_ROWS } from "./row-gaps.ts";
import { type StateCodec, VALUES_PER_SLICE } from "./state-codec.ts";
import { firstAbove, type Row, type Slot, WordTable } from "./tables.ts";
import { bigIntToId, type IdWords, idToBigInt } from "./token-slots.ts";

/** Words of a saved range: its id, and the fields that its segment lacks. */
const ID_WORDS = 8;
const RANGE_WORDS = ID_WORDS + 4;

/** `count` ids from `id` on, minted to `to` by one event. */
export interface IdRange {
  readonly id: bigint;
  readonly count: number;
  readonly block: number;
  readonly logIndex: number;
  /** Receiver, as an index of the address table. */
  readonly to: number;
  /** Number of owner-history entries when the range appeared: its place among them. */
  readonly entryAt: number;
  readonly firstRow: Row;
}

type Segment =
  | { readonly kind: "slots"; readonly firstRow: Row; readonly firstSlot: Slot; count: number }
  | { readonly kind: "range"; readonly firstRow: Row; readonly range: number; readonly count: number };

/** The code that a token's history has for "still as range r minted it". */
export const rangeCode = (range: number): number => -(2 + range);
export const rangeOfCode = (code: number): number => -code - 2;

export class RowOrder {
  ranges: IdRange[] = [];
  #segments: Segment[] = [];
  /** The segments of slots, in order of both slots and rows. */
  #runs: Extract<Segment, { kind: "slots" }>[] = [];
  /** Ranges by first id, for look-ups; ranges never overlap. */
  #byId: number[] = [];
  count = 0;

  get bytes(): number {
    return (this.#segments.length + this.ranges.length) * 96;
  }

  /** Saves all rows through the codec, or restores them. */
  *coding(codec: StateCodec): Generator<void> {
    const ranges = new WordTable(RANGE_WORDS);
    // By segment: its first slot, or ~range; its number of rows, in two words.
    const segments = new WordTable(3);
    const byId = new WordTable(1);
    if (!codec.isReading) yield* this.#putInto(ranges, segments, byId);
    for (const table of [ranges, segments, byId]) table.code(codec);
    if (codec.isReading) yield* this.#takeFrom(ranges, segments, byId);
  }

  *#putInto(ranges: WordTable, segments: WordTable, byId: WordTable): Generator<void> {
    const words: IdWords = new Uint32Array(ID_WORDS);
    for (const { id, block, to, entryAt, logIndex } of this.ranges) {
      bigIntToId(id, words);
      ranges.push(...words, block, to, entryAt, logIndex);
      if (ranges.count % VALUES_PER_SLICE === 0) yield;
    }
    for (const segment of this.#segments) {
      const first = segment.kind === "range" ? ~segment.range : segment.firstSlot;
      segments.push(first, segment.count % 2 ** 32, segment.count / 2 ** 32);
      if (segments.count % VALUES_PER_SLICE === 0) yield;
    }
    for (const index of this.#byId) {
      byId.push(index);
      if (byId.count % VALUES_PER_SLICE === 0) yield;
    }
  }

  *#takeFrom(ranges: WordTable, segments: WordTable, byId: WordTable): Generator<void> {
    const words: IdWords = new Uint32Array(ID_WORDS);
    const word = (row: Row, at: number): number => ranges.get(row, ID_WORDS + at);
    for (let row = 0; row < segments.count; row++) {
      const first = segments.get(row, 0);
      const count = (segments.get(row, 1) >>> 0) + segments.get(row, 2) * 2 ** 32;
      const firstRow = this.count;
      if (first >= 0) this.addSlots(first as Slot, count);
      else {
        const range = ~first;
        for (let at = 0; at < ID_WORDS; at++) words[at] = ranges.get(range, at);
        const [block, to, entryAt] = [word(range as Row, 0) >>> 0, word(range as Row, 1), word(range as Row, 2)];
        const logIndex = word(range as Row, 3) >>> 0;
        this.ranges.push({ id: idToBigInt(words), count, block, logIndex, to, entryAt, firstRow: firstRow as Row });
        this.#segments.push({ kind: "range", firstRow: firstRow as Row, range, count });
        this.count += count;
      }
      if (row % VALUES_PER_SLICE === 0) yield;
    }
    for (let row = 0; row < byId.count; row++) {
      this.#byId.push(byId.get(row, 0));
      if (row % VALUES_PER_SLICE === 0) yield;
    }
  }

  /** Adds rows for `count` slots from `slot` on. */
  addSlots(slot: Slot, count: number): void {
    const last = this.#segments.at(-1);
    if (last?.kind === "slots" && last.firstSlot + last.count === slot) last.count += count;
    else {
      const run = { kind: "slots" as const, firstRow: this.count as Row, firstSlot: slot, count };
      this.#segments.push(run);
      this.#runs.push(run);
    }
    this.count += count;
  }

  /** The row of a slot that was added by `addSlots`. */
  rowOf(slot: Slot): Row {
    const runs = this.#runs;
    const run = runs[firstAbove(runs.length, (index) => (runs[index] as { firstSlot: Slot }).firstSlot > slot) - 1];
    return run === undefined ? (-1 as Row) : ((run.firstRow + slot - run.firstSlot) as Row);
  }

  /** Number of rows that had appeared by the end of `block`; rows are in chain order. */
  countAt(block: number, firstBlockOf: (slot: Slot) => number): number {
    const blockOf = (segment: Segment) =>
      segment.kind === "range" ? (this.ranges[segment.range] as IdRange).block : firstBlockOf(segment.firstSlot);
    const after = firstAbove(this.#segments.length, (index) => blockOf(this.#segments[index] as Segment) > block);
    const last = this.#segments[after - 1];
    if (last === undefined) return 0;
    if (last.kind === "range") return last.firstRow + last.count;
    return last.firstRow + firstAbove(last.count, (offset) => firstBlockOf((last.firstSlot + offset) as Slot) > block);
  }

  addRange(range: Omit<IdRange, "firstRow">): number {
    const index = this.ranges.push({ ...range, firstRow: this.count as Row }) - 1;
    this.#segments.push({ kind: "range", firstRow: this.count as Row, range: index, count: range.count });
    this.count += range.count;
    this.#byId.splice(this.#position(range.id), 0, index);
    return index;
  }

  /** Number of ranges that start at or below `id`. */
  #position(id: bigint): number {
    return firstAbove(this.#byId.length, (at) => (this.ranges[this.#byId[at] as number] as IdRange).id > id);
  }

  /** The range that contains `id`, or -1. */
  rangeOf(id: bigint): number {
    if (this.ranges.length === 0) return -1;
    const index = this.#byId[this.#position(id) - 1];
    if (index === undefined) return -1;
    const range = this.ranges[index] as IdRange;
    return id < range.id + BigInt(range.count) ? index : -1;
  }

  /** True if any id of [first, first + count) lies in a range. */
  overlaps(first: bigint, count: number): boolean {
    if (this.rangeOf(first) >= 0) return true;
    const next = this.#byId[this.#position(first)];
    return next !== undefined && (this.ranges[next] as IdRange).id < first + BigInt(count);
  }

  /** Index of the segment that contains `row`. */
  #segmentOf(row: Row): number {
    return firstAbove(this.#segments.length, (index) => (this.#segments[index] as Segment).firstRow > row) - 1;
  }

  /** The slot in `row`, and the number of rows from there to the end of its segment. In an id range: -1 and 0. */
  slotsAt(row: Row): { slot: Slot; count: number } {
    const segment = this.#segments[this.#segmentOf(row)];
    if (segment?.kind !== "slots") return { slot: -1 as Slot, count: 0 };
    const offset = row - segment.firstRow;
    return { slot: (segment.firstSlot + offset) as Slot, count: Math.max(0, segment.count - offset) };
  }

  /**
   * Visits rows from `from` on until `visit` returns false. `visit` gets (slot, -1) or (-1, range, offset), so that a
   * row needs no object. `pass` is called at each row that starts a chunk, and returns the row at which to continue.
   */
  scan(
    from: number,
    visit: (row: Row, slot: Slot, range: number, offset: number) => boolean,
    pass: (row: Row) => number,
  ): void {
    let row = from;
    for (let s = this.#segmentOf(from as Row); s >= 0 && s < this.#segments.length; s++) {
      const segment = this.#segments[s] as Segment;
      const end = segment.firstRow + segment.count;
      for (; row < end; row++) {
        if (row % GAP_CHUNK_ROWS === 0) row = pass(row as Row);
        if (row >= end) break;
        const offset = row - segment.firstRow;
        const going =
          segment.kind === "slots"
            ? visit(row as Row, (segment.firstSlot + offset) as Slot, -1, 0)
            : visit(row as Row, -1 as Slot, segment.range, offset);
        if (!going) return;
      }
    }
  }

  /** Removes ranges above `block` and slots from `slots` on, after a reorg. */
  truncate(block: number, slots: number): void {
    const ranges = this.ranges.length;
    for (let last = this.#segments.at(-1); last !== undefined; last = this.#segments.at(-1)) {
      if (last.kind === "range") {
        if ((this.ranges[last.range] as IdRange).block <= block) break;
        this.ranges.pop();
        this.#segments.pop();
        this.count -= last.count;
        continue;
      }
      const kept = Math.max(0, Math.min(last.count, slots - last.firstSlot));
      this.count -= last.count - kept;
      last.count = kept;
      if (kept > 0) break;
      this.#segments.pop();
      this.#runs.pop();
    }
    // One filter for all removed ranges: a block may have ten thousand.
    if (this.ranges.length < ranges) this.#byId = this.#byId.filter((index) => index < this.ranges.length);
  }
}

/** The place of a walk. Only this file reads its parts. All zeros is the start. */
export type Position = readonly [number, number, number, number];

export const START: Position = [0, 0, 0, 0];
