/**
 * The order of a listing: rows in order of first appearance. A segment is a run of token slots, or an ERC-2309 id range
 * that costs one object however long it is; tokens of a range that moved have a slot but keep the range's row.
 */

/** `count` ids from `id` on, minted to `to` by one event. */
export interface IdRange {
  readonly id: bigint;
  readonly count: number;
  readonly block: number;
  /** Receiver, as an index of the address table. */
  readonly to: number;
  /** Number of owner-history entries when it appeared: its place among them. */
  readonly entryAt: number;
  readonly firstRow: number;
}

type Segment =
  | { readonly kind: "slots"; readonly firstRow: number; readonly firstSlot: number; count: number }
  | { readonly kind: "range"; readonly firstRow: number; readonly range: number; readonly count: number };

/** What a row is: a slot, or the id at `offset` of a range. */
export type Row = { readonly slot: number } | { readonly range: number; readonly offset: number };

/** The code by which a token's history says "as range r left it". */
export const rangeCode = (range: number): number => -(2 + range);
export const rangeOfCode = (code: number): number => -code - 2;

export class RowOrder {
  readonly ranges: IdRange[] = [];
  readonly #segments: Segment[] = [];
  /** Ranges by first id, for look-ups; ranges never overlap. */
  #byId: number[] = [];
  count = 0;

  get bytes(): number {
    return (this.#segments.length + this.ranges.length) * 96;
  }

  addSlot(slot: number): void {
    const last = this.#segments.at(-1);
    if (last?.kind === "slots" && last.firstSlot + last.count === slot) last.count++;
    else this.#segments.push({ kind: "slots", firstRow: this.count, firstSlot: slot, count: 1 });
    this.count++;
  }

  addRange(range: Omit<IdRange, "firstRow">): number {
    const index = this.ranges.push({ ...range, firstRow: this.count }) - 1;
    this.#segments.push({ kind: "range", firstRow: this.count, range: index, count: range.count });
    this.count += range.count;
    this.#byId.splice(this.#position(range.id), 0, index);
    return index;
  }

  /** How many ranges start at or below `id`. */
  #position(id: bigint): number {
    let low = 0;
    let high = this.#byId.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.ranges[this.#byId[middle] as number] as IdRange).id <= id) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** The range that holds `id`, or -1. */
  rangeOf(id: bigint): number {
    if (this.ranges.length === 0) return -1;
    const index = this.#byId[this.#position(id) - 1];
    if (index === undefined) return -1;
    const range = this.ranges[index] as IdRange;
    return id < range.id + BigInt(range.count) ? index : -1;
  }

  /** Whether any id of [first, first + count) lies in a range. */
  overlaps(first: bigint, count: number): boolean {
    if (this.rangeOf(first) >= 0) return true;
    const next = this.#byId[this.#position(first)];
    return next !== undefined && (this.ranges[next] as IdRange).id < first + BigInt(count);
  }

  /** Index of the segment that holds `row`. */
  #segmentOf(row: number): number {
    let low = 0;
    let high = this.#segments.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#segments[middle] as Segment).firstRow <= row) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  /**
   * Visits rows from `from` on until `visit` returns false. `visit` gets slot and -1, or -1, range and offset: no object
   * a row. `jump`, asked at the start of a range, says how many of its rows to pass over unseen.
   */
  scan(
    from: number,
    visit: (row: number, slot: number, range: number, offset: number) => boolean,
    jump?: (range: number) => number,
  ): void {
    let row = from;
    for (let s = this.#segmentOf(from); s >= 0 && s < this.#segments.length; s++) {
      const segment = this.#segments[s] as Segment;
      const end = segment.firstRow + segment.count;
      if (segment.kind === "range" && row === segment.firstRow && jump !== undefined) row += jump(segment.range);
      for (; row < end; row++) {
        const offset = row - segment.firstRow;
        const going =
          segment.kind === "slots"
            ? visit(row, segment.firstSlot + offset, -1, 0)
            : visit(row, -1, segment.range, offset);
        if (!going) return;
      }
    }
  }

  /** Forgets ranges above `block` and slots from `slots` on: a reorg. */
  truncate(block: number, slots: number): void {
    for (let last = this.#segments.at(-1); last !== undefined; last = this.#segments.at(-1)) {
      if (last.kind === "range") {
        if ((this.ranges[last.range] as IdRange).block <= block) break;
        this.#byId = this.#byId.filter((index) => index !== last.range);
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
    }
  }
}
