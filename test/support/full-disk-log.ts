/**
 * A separate process that appends to a SQLite log whose file size its parent has limited. For each line on standard
 * input it appends an event of 64 KB, and prints the outcome and the log's status. The log's lines go to standard error.
 */
import { createInterface } from "node:readline";
import { systemClock } from "../../src/core/clock.ts";
import { createLogger } from "../../src/core/logger.ts";
import type { StreamName } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { committed } from "./histories.ts";

const log = await openLog(`sqlite://${process.argv[2]}`, systemClock, createLogger("info"));
const stream = `nft/1/0x${"ab".repeat(20)}` as StreamName;
const events = Array.from({ length: 500 }, (_, index) => committed(index));

for await (const _line of createInterface({ input: process.stdin })) {
  const { version } = await log.head(stream);
  const outcome = await log.append({ stream, events, expectedVersion: version }).then(
    () => "stored",
    (error: { code?: string }) => error.code,
  );
  const { isWritable } = await log.status();
  process.stdout.write(`${JSON.stringify({ outcome, isWritable })}\n`);
}
await log.close();
