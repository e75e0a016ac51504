/**
 * Runs of consecutive ids. Most collections mint 1, 2, 3 and so on, so a token's slot is its id minus a constant and
 * needs no hash index. A run begins with a collection's first id, or after `MIN_STREAK` consecutive ids. Ids have
 * two signed words here, and no run crosses a change of sign of the low word.
 */
import type { StateCodec } from "./state-codec.ts";
import type { Slot } from "./tables.ts";

export interface IdRun {
  readonly kind: number;
  readonly low: number;
  readonly high: number;
  readonly firstSlot: Slot;
  count: number;
}

/** Consecutive ids before a run begins: a run that is seldom hit costs more than it saves. */
const MIN_STREAK = 64;
const MAX_RUNS = 1_024;

export class IdRuns {
  /** In order of slots. */
  #runs: IdRun[] = [];
  /** In order of kind and id; runs never overlap. */
  #byId: IdRun[] = [];
  /** The id after the newest one, and the number of consecutive ids up to it. */
  #next = { kind: -1, low: 0, high: 0 };
  #streak = 0;

  get bytes(): number {
    return this.#runs.length * 96;
  }

  get count(): number {
    return this.#runs.length;
  }

  /** The newest run, which may still grow. */
  get last(): IdRun | undefined {
    return this.#runs.at(-1);
  }

  /** Saves all runs through the codec, or restores them. */
  code(codec: StateCodec): void {
    const { runs, next, streak } = codec.facts({ runs: this.#runs, next: this.#next, streak: this.#streak });
    this.#runs = runs;
    this.#byId = [...runs].sort(inOrderOfId);
    this.#next = next;
    this.#streak = streak;
  }

  /** The slot of an id, or -1 if no run contains it. */
  find(kind: number, low: number, high: number): Slot {
    let least = 0;
    let most = this.#byId.length;
    while (least < most) {
      const middle = (least + most) >>> 1;
      if (isAfter(this.#byId[middle] as IdRun, kind, low, high)) most = middle;
      else least = middle + 1;
    }
    const run = this.#byId[least - 1];
    if (run === undefined || run.kind !== kind || run.high !== high || low - run.low >= run.count) return -1 as Slot;
    return (run.firstSlot + low - run.low) as Slot;
  }

  /** Adds the id of a new slot if it continues a run or begins one. Returns true if it does. */
  add(kind: number, low: number, high: number, slot: Slot): boolean {
    const last = this.#runs.at(-1);
    if (last !== undefined && goesOn(last, kind, low, high, slot)) {
      last.count++;
      return true;
    }
    const next = this.#next;
    const isNext = kind === next.kind && low === next.low && high === next.high;
    this.#streak = isNext ? this.#streak + 1 : 1;
    this.#next = { kind, low: low + 1, high };
    if ((slot > 0 && this.#streak <= MIN_STREAK) || this.#runs.length === MAX_RUNS) return false;
    const run = { kind, low, high, firstSlot: slot, count: 1 };
    this.#runs.push(run);
    this.#byId = [...this.#byId, run].sort(inOrderOfId);
    return true;
  }

  /** Removes the newest slot. Returns true if a run contained it. */
  remove(slot: Slot): boolean {
    const last = this.#runs.at(-1);
    if (last === undefined || last.firstSlot + last.count - 1 !== slot) return false;
    last.count--;
    if (last.count > 0) return true;
    this.#runs.pop();
    this.#byId = this.#byId.filter((run) => run !== last);
    return true;
  }
}

const inOrderOfId = (a: IdRun, b: IdRun): number => (isAfter(a, b.kind, b.low, b.high) ? 1 : -1);

function goesOn(run: IdRun, kind: number, low: number, high: number, slot: Slot): boolean {
  return run.low + run.count === low && run.high === high && run.kind === kind && run.firstSlot + run.count === slot;
}

/** True if the run begins after the id. */
function isAfter(run: IdRun, kind: number, low: number, high: number): boolean {
  if (run.kind !== kind) return run.kind > kind;
  return run.high === high ? run.low > low : run.high > high;
}
