/**
 * A PostgreSQL log that goes back: records that a process has seen are gone, or other records are in their places. The
 * process finds out by its next statement about such a stream, by its next connection, or by its poll, whichever is
 * first. From then on it refuses everything.
 */
import { expect, test } from "bun:test";
import { SQL } from "bun";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import type { StreamName } from "../../src/events/types.ts";
import type { EventLog } from "../../src/log/event-log.ts";
import { openLog } from "../../src/log/open.ts";
import { backUp } from "../support/backup.ts";
import { committed, freshStream } from "../support/log-contract.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { eventually } from "../support/service.ts";

interface Watched {
  readonly log: EventLog;
  readonly losses: () => number;
}

async function open(url: string): Promise<Watched> {
  let losses = 0;
  const onWentBack = () => void losses++;
  return { log: await openLog(url, systemClock, silentLogger, { onWentBack }), losses: () => losses };
}

const database = async () => (await sharedPostgres()).createDatabase();

/** Appends an event per block. */
const append = (log: EventLog, stream: StreamName, from: number, to: number, count = 0) =>
  log.append({
    stream,
    events: Array.from({ length: to - from + 1 }, (_, i) => committed(from + i, from + i + count)),
    expectedVersion: from,
  });

/** Takes records off a stream's end, as if the connections of the log survived a change of servers behind a pooler. */
async function cut(url: string, stream: StreamName, version: number): Promise<void> {
  const sql = new SQL(url, { max: 1 });
  await sql`DELETE FROM events WHERE version > ${version}
    AND stream_id = (SELECT id FROM streams WHERE name = ${stream})`;
  await sql`UPDATE streams SET version = ${version} WHERE name = ${stream}`;
  await sql.close();
}

const REFUSED = { code: "log_unavailable", retryable: true, message: "the event log went back" };

test.each<[string, (log: EventLog, stream: StreamName) => Promise<unknown>]>([
  ["a head", (log, stream) => log.head(stream)],
  ["a list of streams", (log, stream) => log.streams(stream, { limit: 9 })],
  ["a read of the end", (log, stream) => log.read(stream, { from: 3 })],
  ["a read of what is left", (log, stream) => log.read(stream)],
  ["a read of the newest", (log, stream) => log.readBackwards(stream, { limit: 1 })],
  ["an append", (log, stream) => append(log, stream, 3, 3)],
])("is found by %s", async (_what, call) => {
  const url = await database();
  const { log, losses } = await open(url);
  const stream = freshStream();
  await append(log, stream, 0, 2);
  await cut(url, stream, 2);
  await expect(call(log, stream)).rejects.toMatchObject(REFUSED);
  expect([losses(), log.isAnswering]).toEqual([1, false]);
  await expect(log.head(freshStream())).rejects.toMatchObject(REFUSED);
  await expect(log.setting("a", () => "b")).rejects.toMatchObject(REFUSED);
  expect(losses()).toBe(1);
  await log.close();
});

test.each<[string, (log: EventLog, stream: StreamName) => Promise<unknown>]>([
  ["a head", (log, stream) => log.head(stream)],
  ["a read of the newest", (log, stream) => log.readBackwards(stream, { limit: 1 })],
  ["an append", (log, stream) => append(log, stream, 3, 3)],
  ["a read of newer records", (log, stream) => log.read(stream, { from: 4 })],
  ["an append guarded by it", (log, stream) => guarded(log, { stream, version: 3 })],
])("is found by %s if another process has written other records in the place of the lost ones", async (_what, call) => {
  const url = await database();
  const { log, losses } = await open(url);
  const stream = freshStream();
  await append(log, stream, 0, 2);
  await cut(url, stream, 2);
  const other = await open(url);
  await append(other.log, stream, 2, 2, 1);
  if (_what.includes("newer")) await append(other.log, stream, 3, 3);
  await expect(call(log, stream)).rejects.toMatchObject(REFUSED);
  expect([losses(), other.losses()]).toEqual([1, 0]);
  expect(await other.log.read(stream, { from: 3, limit: 1 })).toMatchObject([{ event: { toBlock: 3 } }]);
  await Promise.all([log.close(), other.log.close()]);
});

const guarded = (log: EventLog, guard: { stream: StreamName; version: number }) =>
  log.append({ stream: freshStream(), events: [committed(0, 0)], expectedVersion: 0, guard });

test("is found by the next connection, without a statement about the stream", async () => {
  const url = await database();
  const { log, losses } = await open(url);
  const restore = await backUp(url);
  await eventually("the log answers", () => log.head(freshStream()).catch(() => undefined));
  const stream = freshStream();
  await append(log, stream, 0, 0);
  await restore();
  await eventually("the loss is found", async () => {
    await log.head(freshStream()).catch(() => undefined);
    return losses() === 1 ? true : undefined;
  });
  await log.close();
  // A process that opens the log now has lost nothing.
  const again = await open(url);
  expect(await again.log.head(stream)).toMatchObject({ version: 0 });
  await append(again.log, stream, 0, 0);
  expect(again.losses()).toBe(0);
  await again.log.close();
});

test("is found by the poll, without a new connection and without a statement", async () => {
  const url = await database();
  const { log, losses } = await open(url);
  const stream = freshStream();
  await append(log, stream, 0, 2);
  await cut(url, stream, 2);
  await eventually("the loss is found", async () => (losses() === 1 ? true : undefined));
  await log.close();
});

test("is no matter if the records that it lost are none that the process has seen", async () => {
  const url = await database();
  const [{ log, losses }, other] = [await open(url), await open(url)];
  const stream = freshStream();
  await append(log, stream, 0, 2);
  const restore = await backUp(url);
  await eventually("the log answers", () => other.log.head(stream).catch(() => undefined));
  await append(other.log, stream, 3, 3);
  await other.log.close();
  await restore();
  await eventually("the log answers", () => log.head(stream).catch(() => undefined));
  await append(log, stream, 3, 3, 5);
  expect(await log.read(stream)).toHaveLength(4);
  expect(losses()).toBe(0);
  await log.close();
});

test("is no false alarm while many appends, reads and new connections overlap", async () => {
  const url = await database();
  const { log, losses } = await open(url);
  const sql = new SQL(url, { max: 1 });
  const streams = Array.from({ length: 5 }, freshStream);
  const ignore = () => undefined;
  const writers = streams.map(async (stream) => {
    for (let version = 0; version < 60; ) {
      const next = await append(log, stream, version, version).catch(ignore);
      version = next ?? (await log.head(stream).catch(ignore))?.version ?? version;
    }
  });
  const readers = streams.map(async (stream) => {
    for (let i = 0; i < 100; i++) {
      await Promise.all([log.read(stream).catch(ignore), log.heads(streams).catch(ignore)]);
      await log.readBackwards(stream, { limit: 2 }).catch(ignore);
    }
  });
  const killer = (async () => {
    for (let i = 0; i < 10; i++) {
      await sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()`;
      await log.head(streams[0] as StreamName).catch(ignore);
    }
  })();
  await Promise.all([...writers, ...readers, killer]);
  expect(losses()).toBe(0);
  await Promise.all([log.close(), sql.close()]);
});
