/** Priorities of threads: background threads and the engine's compilers leave the cores to the thread that serves requests. */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { setPriority } from "node:os";

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
