/**
 * The service in a process of its own that also watches its event loop on demand. In: the service's environment, and
 * "watch" or "look" over the channel to the parent. Out: the URL, and the longest turn since "watch", in ms of the thread's CPU:
 * the time between two turns has that of other programs, too.
 */
import { openSync, readSync } from "node:fs";
import { readConfig } from "../../../src/config.ts";
import { createLogger } from "../../../src/core/logger.ts";
import { startService } from "../../../src/service.ts";

/** What the longest turn took in ms of the thread's CPU, since the loop is watched. */
export interface Turns {
  readonly longestMs: number;
}

// The main thread has the id of its process. The first number is ns on a core.
const schedule = openSync(`/proc/self/task/${process.pid}/schedstat`, "r");
const read = Buffer.alloc(64);

function cpuMs(): number {
  readSync(schedule, read, 0, read.length, 0);
  return Number(read.toString("latin1", 0, read.indexOf(" "))) / 1e6;
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
