/**
 * The service in a process of its own that also watches its event loop on demand. In: the service's environment, and
 * "watch" or "look" over the channel to the parent. Out: the URL, and the longest turn since "watch", in ms of the thread's CPU:
 * the time between two turns has that of other programs, too.
 */
import { dlopen, FFIType, ptr } from "bun:ffi";
import { readConfig } from "../../../src/config.ts";
import { createLogger } from "../../../src/core/logger.ts";
import { startService } from "../../../src/service.ts";

/** What the longest turn took in ms of the thread's CPU, since the loop is watched. */
export interface Turns {
  readonly longestMs: number;
}

const libc = dlopen("libc.so.6", {
  clock_gettime: { args: [FFIType.i32, FFIType.ptr], returns: FFIType.i32 },
});
/** `CLOCK_THREAD_CPUTIME_ID` of Linux. What /proc shows moves by ticks of four milliseconds. */
const THREAD_CPU_TIME = 3;
/** Seconds and nanoseconds. */
const time = new BigInt64Array(2);
const place = ptr(time);

function cpuMs(): number {
  libc.symbols.clock_gettime(THREAD_CPU_TIME, place);
  return Number(time[0]) * 1e3 + Number(time[1]) / 1e6;
}

let isWatching = false;
let longestMs = 0;
let last = 0;

function turn(): void {
  const now = cpuMs();
  longestMs = Math.max(longestMs, now - last);
  last = now;
  if (isWatching) setImmediate(turn);
}

process.on("message", (message) => {
  if (message === "watch") {
    [isWatching, longestMs, last] = [true, 0, cpuMs()];
    setImmediate(turn);
  } else {
    isWatching = false;
    process.send?.({ longestMs } satisfies Turns);
  }
});

const service = await startService({ config: readConfig(process.env), logger: createLogger("error") });
process.send?.({ url: `http://127.0.0.1:${service.port}` });
