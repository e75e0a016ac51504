/**
 * A separate process that saves a snapshot without enough disk space, which its parent has limited. It prints the
 * outcome as one line, after all late errors have had time to occur.
 */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { yieldToEventLoop } from "../../src/core/turns.ts";
import { nftStream } from "../../src/events/types.ts";
import { evolve, initialState } from "../../src/nft/collections/collection.ts";
import { Snapshots } from "../../src/nft/collections/snapshots.ts";
import { committed, identified } from "./histories.ts";
import { MemoryLog } from "./memory-log.ts";

const folder = mkdtempSync(join(tmpdir(), "full-"));
const log = new MemoryLog();
const stream = nftStream(1, `0x${"ab".repeat(20)}` as Address);
const events = [
  { type: "IndexingRequested" } as const,
  identified,
  ...Array.from({ length: 4_000 }, (_, i) => committed(i)),
];
await log.append({ stream, events, expectedVersion: 0 });
const collection = initialState();
for (const [index, event] of events.entries()) evolve(collection, event, index + 1, 0);
const snapshots = new Snapshots({ folder, maxBytes: 2 ** 30, log, logger: silentLogger });
const went = await snapshots
  .save(stream, collection, () => false)
  .then(String, (error: { code?: string }) => error.code);
for (let turn = 0; turn < 100; turn++) await yieldToEventLoop();
process.stdout.write(`${went} ${readdirSync(folder).length}\n`);
rmSync(folder, { recursive: true });
