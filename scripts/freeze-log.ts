/**
 * Freezes an event log into a fixture: every record with its checksum, and the result of replaying them. Leaves out
 * metadata, which is useless without its blobs. A fixture is made once per released format and never again:
 * `bun scripts/freeze-log.ts <log url> <file>`.
 */
import { systemClock } from "../src/core/clock.ts";
import { silentLogger } from "../src/core/logger.ts";
import { checksum, encodeEvent } from "../src/events/codec.ts";
import { openLog } from "../src/log/open.ts";
import { type FrozenRecord, replayFrozen } from "../test/support/frozen.ts";

const [url, file] = process.argv.slice(2);
if (url === undefined || file === undefined) throw new Error("usage: bun scripts/freeze-log.ts <log url> <file>");
const log = await openLog(url, systemClock, silentLogger);
const records: FrozenRecord[] = [];
const MOST = 1_000;
for (const kind of ["chain/", "nft/", "price/"]) {
  const streams = await log.streams(kind, { limit: MOST });
  if (streams.length === MOST) throw new Error(`too many streams for a fixture: ${kind}`);
  for (const { stream } of streams) {
    for (const { version, time, event } of await log.read(stream, {
      limit: 100_000,
      maxBytes: Number.MAX_SAFE_INTEGER,
    })) {
      const data = encodeEvent(event);
      const crc = checksum(stream, version, event.type, time, data);
      records.push({ stream, version, type: event.type, time, crc, data: Buffer.from(data).toString("base64") });
    }
  }
}
await log.close();
await Bun.write(file, `${JSON.stringify({ records, replay: replayFrozen(records) })}\n`);
process.stdout.write(`${records.length} records frozen into ${file}\n`);
