/**
 * Shortcuts through long histories. An entry links only to the one before, so an old state is a walk over all entries
 * since: tens of milliseconds of the request thread for a token that moved a million times. Such a walk runs in slices
 * and leaves a mark every `STRIDE` entries; the next walk jumps by them. Short lists have no marks and cost nothing.
 * Readers leave the marks, so a fold pays nothing for them, and a snapshot doesn't contain them.
 */
import { firstAbove } from "./tables.ts";

/** Steps of a walk that needs no marks. */
export const STEPS_WITHOUT_MARKS = 512;
/** Entries from one mark to the next, which costs 8 bytes. */
const STRIDE = 256;
/** Steps of a walk per slice: half a millisecond. */
export const STEPS_PER_SLICE = 16_384;
/** In place of an entry: the walk is not finished, call again. No id range has this code. */
export const PAUSED = -(2 ** 31);
/** Memory of a map entry and its list, in JavaScriptCore. */
const TRAIL_BYTES = 160;

/** Steps walked in total. Callers measure their slices by it. */
export interface Steps {
  count: number;
}

interface Lists {
  block(entry: number): number;
  /** The previous entry of the list, which has a lower index; below 0 at the list's end. */
  before(entry: number): number;
}

export class Trails {
  readonly #lists: Lists;
  readonly #steps: Steps;
  /** By list: marks from the newest to the oldest entry walked, at most `STRIDE` entries apart. */
  readonly #marks = new Map<number, number[]>();
  #count = 0;

  constructor(lists: Lists, steps: Steps) {
    this.#lists = lists;
    this.#steps = steps;
  }

  get bytes(): number {
    return this.#marks.size * TRAIL_BYTES + this.#count * 8;
  }

  /**
   * The newest entry at or before `block` of the list that ends with `tail`, or `PAUSED` after one slice of steps. If
   * there is none, the value below 0 at the list's end.
   */
  find(list: number, tail: number, block: number): number {
    const marks = this.#from(list, tail);
    // The last mark above the block. With none, the walk starts at the tail.
    const after = firstAbove(marks.length, (at) => this.#lists.block(marks[at] as number) <= block);
    const start = after === 0 ? tail : (marks[after - 1] as number);
    return this.#walk(start, block, after === marks.length ? marks : undefined);
  }

  /** Walks back from `start`. Adds to `marks`, if given: no earlier walk went past the last of them. */
  #walk(start: number, block: number, marks: number[] | undefined): number {
    const lists = this.#lists;
    let entry = start;
    let steps = 0;
    while (entry >= 0 && lists.block(entry) > block) {
      if (steps === STEPS_PER_SLICE) {
        entry = PAUSED;
        break;
      }
      entry = lists.before(entry);
      if (++steps % STRIDE === 0 && marks !== undefined && entry >= 0) {
        marks.push(entry);
        this.#count++;
      }
    }
    this.#steps.count += steps;
    return entry;
  }

  /** The marks of a list, extended to its tail. */
  #from(list: number, tail: number): number[] {
    const lists = this.#lists;
    const marks = this.#marks.get(list);
    const newest = marks?.[0] ?? Number.POSITIVE_INFINITY;
    const fresh: number[] = [];
    let entry = tail;
    let steps = 0;
    while (entry > newest && steps < STEPS_PER_SLICE) {
      entry = lists.before(entry);
      if (++steps % STRIDE === 0 && entry > newest) fresh.push(entry);
    }
    this.#steps.count += steps;
    if (marks !== undefined && entry === newest) {
      if (fresh.length > 0) {
        marks.unshift(...fresh);
        this.#count += fresh.length;
      }
      return marks;
    }
    // The list has no marks, or grew too much since the last walk: start anew at the tail.
    const anew = [tail];
    this.#marks.set(list, anew);
    this.#count += 1 - (marks?.length ?? 0);
    return anew;
  }

  /** Drops marks from entry `count` on: new entries will reuse their indexes. */
  cut(count: number): void {
    for (const [list, marks] of this.#marks) {
      const left = marks.findIndex((entry) => entry < count);
      const gone = left < 0 ? marks.length : left;
      if (gone === marks.length) this.#marks.delete(list);
      else if (gone > 0) marks.splice(0, gone);
      this.#count -= gone;
    }
  }
}
