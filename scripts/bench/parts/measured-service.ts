/**
 * The service in a process of its own that also watches its event loop on demand. In: the service's environment, and
 * "watch" or "look" over the channel to the parent. Out: the URL, and the longest time in ms between two turns since "watch".
 */
import { readConfig } from "../../../src/config.ts";
import { createLogger } from "../../../src/core/logger.ts";
import { startService } from "../../../src/service.ts";

/** Gaps between two turns in ms, since the loop is watched. */
export interface Turns {
  readonly longestMs: number;
}

let isWatching = false;
let longestMs = 0;
let last = 0;

function turn(): void {
  const now = performance.now();
  longestMs = Math.max(longestMs, now - last);
  last = now;
  if (isWatching) setImmediate(turn);
}

process.on("message", (message) => {
  if (message === "watch") {
    [isWatching, longestMs, last] = [true, 0, performance.now()];
    setImmediate(turn);
  } else {
    isWatching = false;
    process.send?.({ longestMs } satisfies Turns);
  }
});

const service = await startService({ config: readConfig(process.env), logger: createLogger("error") });
process.send?.({ url: `http://127.0.0.1:${service.port}` });
