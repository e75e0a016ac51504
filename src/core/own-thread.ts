/** Keeps background work from delaying requests: lowers the priority of threads, and yields this thread's turns. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setPriority } from "node:os";

/** Nice value of background threads. Even with one per core, the thread that serves requests gets a core at once. */
const BACKGROUND = 10;
/** Prefix of the engine's compiler threads. A backfill keeps them busy when it begins. */
const COMPILERS = "JITWorker";

/** Lowers the calling thread's priority on Linux, where threads have ids. Has no effect on other systems. */
export function yieldToRequests(): void {
  try {
    // The link is `<pid>/task/<tid>`. Linux accepts a thread id where `setPriority` expects a process id.
    lower(Number(readlinkSync("/proc/thread-self").split("/").at(-1)));
  } catch {
    // Another system, or a sandbox without /proc: the priorities stay equal.
  }
}

/** Like `yieldToRequests`, for the engine's compilers. Call it before work that keeps them busy. */
export function haveCompilersYield(): void {
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

const turns: (() => void)[] = [];

/**
 * Resolves after the other work of the event loop, above all requests. Resumes one caller per turn: a hundred slices of
 * a millisecond in one turn would delay all requests by a tenth of a second.
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
