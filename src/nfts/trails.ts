/**
 * Ways back through long histories. Entries lead to the one before only, so what a token was long ago is a walk over all
 * that happened since: for one that moved a million times, tens of milliseconds of the request thread. Such a walk leaves a
 * mark every so many entries, by which the next one jumps; and it is made in parts, between which others may have their
 * turn. Lists that are walked to their ends in a moment have no marks and cost nothing.
 *
 * Marks are left by readers, so no fold pays for them, and no snapshot has them.
 */

/** Steps of a walk that needs no marks. */
export const NEAR = 512;
/** Entries from one mark to the next: 8 bytes for so many. */
const STRIDE = 256;
/** Steps of a walk in one go: half a millisecond. */
export const FAR = 16_384;
/** In an entry's place: the walk is not at its end, to be asked for again. No id range has this code. */
export const PAUSED = -(2 ** 31);
/** Of a map's entry and a list, in JavaScriptCore. */
const TRAIL_BYTES = 160;

/** How far was walked in all: what slices are measured by. */
export interface Steps {
  count: number;
}

export interface Lists {
  block(entry: number): number;
  /** The entry before, which has a lower index; below 0 at the list's end. */
  before(entry: number): number;
}

export class Trails {
  readonly #lists: Lists;
  readonly #steps: Steps;
  /** By list: marks from its newest entries to its oldest, as far as was walked, none further from the next than a stride. */
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
   * The newest entry at or before `block` of the list that ends with `tail`; what stands below 0 at its end where there is
   * none; `PAUSED` when that takes longer than a walk may in one go.
   */
  find(list: number, tail: number, block: number): number {
    const marks = this.#from(list, tail);
    // The last mark above the block: none is when the first entry from the tail on may be it.
    let low = 0;
    let high = marks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#lists.block(marks[middle] as number) > block) low = middle + 1;
      else high = middle;
    }
    const start = low === 0 ? tail : (marks[low - 1] as number);
    return this.#walk(start, block, low === marks.length ? marks : undefined);
  }

  /** Walks back from `start`; `marks` are to be gone on with, since nobody walked there before. */
  #walk(start: number, block: number, marks: number[] | undefined): number {
    const lists = this.#lists;
    let entry = start;
    let steps = 0;
    while (entry >= 0 && lists.block(entry) > block) {
      if (steps === FAR) {
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

  /** The marks of a list, from its tail on. */
  #from(list: number, tail: number): number[] {
    const lists = this.#lists;
    const marks = this.#marks.get(list);
    const newest = marks?.[0] ?? Number.POSITIVE_INFINITY;
    const fresh: number[] = [];
    let entry = tail;
    let steps = 0;
    while (entry > newest && steps < FAR) {
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
    // Nobody looked for long, or ever: it is walked anew, from here.
    const anew = [tail];
    this.#marks.set(list, anew);
    this.#count += 1 - (marks?.length ?? 0);
    return anew;
  }

  /** Entries from `count` on are no more: their indexes will be those of others. */
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
