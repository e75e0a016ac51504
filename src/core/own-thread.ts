/** The priority of the thread that calls: what works in the background must not keep requests waiting for a core. */
import { readlinkSync } from "node:fs";
import { setPriority } from "node:os";

/** Nice value of background threads: with as many of them as cores, the request thread still gets its own at once. */
const BACKGROUND = 10;

/** Lowers the calling thread's priority where the system knows threads by number (Linux); elsewhere nothing changes. */
export function yieldToRequests(): void {
  try {
    // `<pid>/task/<tid>`: to Linux a thread is what `setPriority` calls a process.
    const thread = Number(readlinkSync("/proc/thread-self").split("/").at(-1));
    if (Number.isSafeInteger(thread) && thread !== process.pid) setPriority(thread, BACKGROUND);
  } catch {
    // Another system, or a sandbox without /proc: the threads stay equals.
  }
}
