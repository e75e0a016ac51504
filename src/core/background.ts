/** Keeps background work from delaying requests: thread priorities, yielding to the event loop, and a semaphore. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setPriority } from "node:os";
import { Budget } from "./budget.ts";
import { FairQueue, NO_KEY, type Requester } from "./work.ts";

/** Nice value of background threads. Even with one per core, the thread that serves requests gets a core at once. */
const BACKGROUND = 10;
/** Prefix of the engine's compiler threads. A backfill keeps them busy when it begins. */
const COMPILERS = "JITWorker";

/** Lowers the calling thread's priority on Linux, where threads have ids. Has no effect on other systems. */
export function lowerThreadPriority(): void {
  try {
    // The link is `<pid>/task/<tid>`. Linux accepts a thread id where `setPriority` expects a process id.
    lower(Number(readlinkSync("/proc/thread-self").split("/").at(-1)));
  } catch {
    // Another system, or a sandbox without /proc: the priorities stay equal.
  }
}

/** Like `lowerThreadPriority`, for the engine's compilers. Call it before work that keeps them busy. */
export function lowerCompilerPriority(): void {
  try {
    for (const thread of readdirSync("/proc/self/task")) {
      if (readFileSync(`/proc/self/task/${thread}/comm`, "latin1").startsWith(COMPILERS)) lower(Number(thread));
    }
  } catch {
    // Another system, as above, or a thread that has just ended.
  }
}

function lower(thread: number): void {
  if (Number.isSafeInteger(thread) && thread !== process.pid) setPriority(thread, BACKGROUND);
}

/** Items whose work starts without a pause for the event loop. Some take half a millisecond each. */
const STARTED_AT_ONCE = 8;

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

const turns = new FairQueue<() => void>();

/**
 * Resolves after the other work of the event loop, above all requests. Resumes one caller per turn: a hundred slices of
 * a millisecond in one turn would delay all requests by a tenth of a second. Keys take turns, so that the slices of one don't
 * delay those of another.
 * @param requester the key that the next slice is for. Default: that of the running question
 */
export function yieldToEventLoop(requester: Requester = Budget.current?.owner ?? NO_KEY): Promise<void> {
  return new Promise((resolve) => {
    turns.add(resolve, requester);
    if (turns.size === 1) setImmediate(nextTurn);
  });
}

function nextTurn(): void {
  turns.take()?.item();
  if (turns.size > 0) setImmediate(nextTurn);
}

/** Questions that start in one turn of the event loop without waiting: some milliseconds. */
const STARTS_PER_TURN = 4;
let starts = 0;

/**
 * Resolves when a question may start; undefined if at once. Those that come at the same time start in turns by key, so that
 * a thousand of one key delay another key's by one of them.
 */
export function turnToStart(): Promise<void> | undefined {
  if (starts === 0) {
    setImmediate(() => {
      starts = 0;
    });
  }
  return ++starts <= STARTS_PER_TURN && turns.size === 0 ? undefined : yieldToEventLoop();
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

/** Limits the work that runs at once. When all slots are taken, further work waits in order of arrival. */
export class Semaphore {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(count: number) {
    this.#free = count;
  }

  /** @throws any error of `work`, and the signal's reason if it aborts before the turn */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    if (this.#free > 0) this.#free--;
    else await this.#turn(signal);
    try {
      return await work();
    } finally {
      const [next] = this.#waiting;
      if (next !== undefined) next();
      else this.#free++;
    }
  }

  /** Waits until another run passes its slot on. */
  #turn(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (end: () => void) => {
        this.#waiting.delete(go);
        signal?.removeEventListener("abort", leave);
        end();
      };
      const go = () => settle(resolve);
      const leave = () => settle(() => reject(signal?.reason));
      this.#waiting.add(go);
      signal?.addEventListener("abort", leave, { once: true });
    });
  }
}
