/** Who works in the background must not keep requests waiting: for a core, or for their turn on this thread. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setPriority } from "node:os";

/** Nice value of background threads: with as many of them as cores, the request thread still gets its own at once. */
const BACKGROUND = 10;
/** The engine's compilers, by the names they give their threads: a backfill that has just begun keeps them busy. */
const COMPILERS = "JITWorker";

/** Lowers the calling thread's priority where the system knows threads by number (Linux); elsewhere nothing changes. */
export function yieldToRequests(): void {
  try {
    // `<pid>/task/<tid>`: to Linux a thread is what `setPriority` calls a process.
    lower(Number(readlinkSync("/proc/thread-self").split("/").at(-1)));
  } catch {
    // Another system, or a sandbox without /proc: the threads stay equals.
  }
}

/** As `yieldToRequests`, for the engine's compilers: to be called before work that they will be busy with. */
export function haveCompilersYield(): void {
  try {
    for (const thread of readdirSync("/proc/self/task")) {
      if (readFileSync(`/proc/self/task/${thread}/comm`, "latin1").startsWith(COMPILERS)) lower(Number(thread));
    }
  } catch {
    // As above; or one of them has just ended.
  }
}

function lower(thread: number): void {
  if (Number.isSafeInteger(thread) && thread !== process.pid) setPriority(thread, BACKGROUND);
}

const turns: (() => void)[] = [];

/**
 * Resolves after what else the event loop has to do: requests, above all. One of all that wait goes on at a time: a
 * hundred slices of a millisecond in one go are a tenth of a second for everybody else.
 */
export function otherWork(): Promise<void> {
  return new Promise((resolve) => {
    if (turns.push(resolve) === 1) setImmediate(nextTurn);
  });
}

function nextTurn(): void {
  turns.shift()?.();
  if (turns.length > 0) setImmediate(nextTurn);
}
