/**
 * Turns of the thread that serves requests. Long work yields between its slices, and questions start in turns: one slice
 * per turn of the event loop, by turns between the keys. While several keys ask, a key rests after each of its slices for
 * as long as the slice took. So the others find the thread free about half of the time.
 */
import { Budget } from "./budget.ts";
import { systemClock } from "./clock.ts";
import { FairQueue, NO_KEY, type Requester } from "./work.ts";

/** Items whose work starts without a pause for the event loop. Some take half a millisecond each. */
const STARTED_AT_ONCE = 8;
/** Questions that start in one turn of the event loop without waiting: some milliseconds. */
const STARTS_PER_TURN = 4;
/** A key counts as active for so many ms after its last request. */
const ACTIVE_MS = 1_000;
/** A key rests for at most so many ms at once, also after a slice that the machine's other programs held up. */
const LONGEST_REST_MS = 50;

/** Gives the waiting slices their turns. */
class Turns {
  readonly #waiting = new FairQueue<() => void>();
  /** Times in ms until which keys rest, by name. Forgotten when they are over. */
  readonly #rests = new Map<string, number>();
  /** The key of the newest request, and the newest one of any other key. */
  #newest = { key: "", ms: Number.NEGATIVE_INFINITY };
  #other = this.#newest;
  #isScheduled = false;
  #endOfRest: (() => void) | undefined;
  /** Questions that started in this turn of the event loop, by their keys. */
  #started: Requester[] = [];

  get isIdle(): boolean {
    return this.#waiting.size === 0;
  }

  /** Notes a request of a key. Operators' requests make no other key rest. */
  note({ key, isOperator }: Requester): void {
    if (isOperator) return;
    if (key !== this.#newest.key) this.#other = this.#newest;
    this.#newest = { key, ms: performance.now() };
  }

  add(resume: () => void, requester: Requester): void {
    this.#waiting.add(resume, requester);
    this.#schedule();
  }

  /** Starts a question. Returns false if it must wait for a turn. */
  start(requester: Requester): boolean {
    if (this.#started.length >= STARTS_PER_TURN || !this.isIdle || this.#isResting(requester)) return false;
    if (this.#started.push(requester) > 1) return true;
    const began = performance.now();
    setImmediate(() => {
      const each = (performance.now() - began) / this.#started.length;
      for (const one of this.#started.splice(0)) this.#rest(one, each);
    });
    return true;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => this.#next());
  }

  #next(): void {
    this.#isScheduled = false;
    const next = this.#waiting.take((requester) => !this.#isResting(requester));
    if (next === undefined) {
      this.#waitForRests();
      return;
    }
    const began = performance.now();
    next.item();
    this.#isScheduled = true;
    // By then, the slice has run to its next await.
    setImmediate(() => {
      this.#rest(next.requester, performance.now() - began);
      this.#isScheduled = false;
      if (!this.isIdle) this.#next();
    });
  }

  /** True for a key of scope `read` while another one was active lately. */
  mustShare({ key, isOperator }: Requester): boolean {
    if (key === NO_KEY.key || isOperator) return false;
    const other = this.#newest.key === key ? this.#other : this.#newest;
    return performance.now() - other.ms <= ACTIVE_MS;
  }

  /** Has a key rest after a slice if it must share. */
  #rest(requester: Requester, tookMs: number): void {
    if (!this.mustShare(requester)) return;
    this.#rests.set(requester.key, performance.now() + Math.min(tookMs, LONGEST_REST_MS));
  }

  #isResting({ key, isOperator }: Requester): boolean {
    const until = isOperator ? undefined : this.#rests.get(key);
    if (until === undefined) return false;
    if (performance.now() < until) return true;
    this.#rests.delete(key);
    return false;
  }

  /** All slices that wait are of keys that rest: goes on when the first of them may. */
  #waitForRests(): void {
    if (this.isIdle || this.#endOfRest !== undefined) return;
    const now = performance.now();
    for (const [key, until] of this.#rests) if (until <= now) this.#rests.delete(key);
    const ms = this.#rests.size === 0 ? 0 : Math.min(...this.#rests.values()) - now;
    this.#endOfRest = systemClock.after(ms, () => {
      this.#endOfRest = undefined;
      this.#schedule();
    });
  }
}

const turns = new Turns();

/** Notes a request of a key, so that other keys rest between their slices for a while. */
export const noteRequest = (key: Requester): void => turns.note(key);

/** True for a key of scope `read` while another key asks, too. */
export const mustShare = (key: Requester): boolean => turns.mustShare(key);

/**
 * Resolves after the other work of the event loop, above all requests. Resumes one caller per turn: a hundred slices of
 * a millisecond in one turn would delay all requests by a tenth of a second. Keys take turns, so that the slices of one don't
 * delay those of another.
 * @param requester the key that the next slice is for. Default: that of the running question
 */
export function yieldToEventLoop(requester: Requester = Budget.current?.owner ?? NO_KEY): Promise<void> {
  return new Promise((resolve) => turns.add(resolve, requester));
}

/**
 * Resolves when the running question may start; undefined if at once. Questions that come at the same time start in turns by
 * key, so that a thousand of one key delay another key's by one of them.
 * @param requester the key that asks. Default: that of the running question
 */
export function turnToStart(requester: Requester = Budget.current?.owner ?? NO_KEY): Promise<void> | undefined {
  return turns.start(requester) ? undefined : yieldToEventLoop(requester);
}

/** Starts the work of all items in their order, with pauses for the event loop between some. Resolves like `Promise.all`. */
export async function startInTurns<T, R>(items: readonly T[], work: (item: T, at: number) => Promise<R>): Promise<R[]> {
  const results: Promise<R>[] = [];
  for (const [at, item] of items.entries()) {
    if (at > 0 && at % STARTED_AT_ONCE === 0) await yieldToEventLoop();
    const result = work(item, at);
    // It may fail before all have started.
    result.catch(() => undefined);
    results.push(result);
  }
  return Promise.all(results);
}

/**
 * Runs work that yields between its slices, one slice per turn of the event loop, on the budget of the caller.
 * @throws the reason of the abort once the caller's client is gone; errors of `work`
 */
export async function runInSlices<T>(work: Generator<void, T>): Promise<T> {
  for (;;) {
    assertWanted();
    const { done, value } = Budget.timed(() => work.next());
    if (done === true) return value;
    await yieldToEventLoop();
  }
}

/** @throws the reason of the abort once the client is gone that the running work is for */
export const assertWanted = (): void => Budget.current?.signal?.throwIfAborted();
