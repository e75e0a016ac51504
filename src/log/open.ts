/** Opens the event log of `EVENT_LOG_URL` with the engine that its scheme names, and tries what a start does to it. */
import { Database } from "bun:sqlite";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { SQL } from "bun";
import type { Clock } from "../core/clock.ts";
import { AppError, InvariantError, messageOf } from "../core/errors.ts";
import { assertRegularFile, sqlitePath } from "../core/files.ts";
import type { Logger } from "../core/logger.ts";
import { Secrets, secretsOfPassword } from "../core/secrets.ts";
import { type EventLog, type LogStatus, serverOf } from "./event-log.ts";
import { checkPostgresLog, openPostgresLog } from "./postgres.ts";
import { UNFINISHED_COPY } from "./raw-log.ts";
import { openSqliteLog } from "./sqlite.ts";
import { migrateSqlite } from "./sqlite-schema.ts";

/** They apply to PostgreSQL only. */
interface ServerOptions {
  /** Connections of this process. */
  readonly connections?: number | undefined;
  /** Called once if the log went back. The caller must close it, drop everything derived from it, and open it again. */
  readonly onWentBack?: (() => void) | undefined;
}

/**
 * @param url `sqlite://<path>` or `postgres://…`
 * @throws AppError `log_unavailable` or `configuration`
 */
export async function openLog(
  url: string,
  clock: Clock,
  logger: Logger,
  options: ServerOptions = {},
): Promise<EventLog> {
  const common = { clock, logger };
  const path = sqlitePath(url);
  if (path !== undefined) return openSqliteLog({ path, ...common }).catch((error: unknown) => refuse(path, error));
  if (/^postgres(ql)?:\/\//.test(url)) {
    return openPostgresLog({ url, ...options, ...common }).catch((error: unknown) => refuseServer(url, error));
  }
  throw new AppError("EVENT_LOG_URL must start with sqlite:// or postgres://", { code: "configuration" });
}

/** @throws AppError if a copy into the log was begun and has not ended: streams, or their ends, are missing */
export async function assertWhole(log: EventLog): Promise<void> {
  if ((await log.findSetting(UNFINISHED_COPY)) === undefined) return;
  throw new AppError("EVENT_LOG_URL: a copy into this log has not ended; run the same `copy` again", {
    code: "configuration",
  });
}

/** @param place path, or host and port: where to look. @throws AppError that names it, and the variable */
function refuse(place: string, error: unknown, secrets?: Secrets): never {
  if (error instanceof InvariantError) throw error;
  const { code, retryable, meta } =
    error instanceof AppError ? error : { code: "log_unavailable", retryable: false, meta: {} };
  const message = messageOf(error, secrets);
  const text = message.includes(place) ? message : `${place}: ${message}`;
  const isNamed = message.includes("EVENT_LOG_URL");
  throw new AppError(isNamed ? message : `EVENT_LOG_URL: ${text}`, { code, retryable, meta, cause: error });
}

const refuseServer = (url: string, error: unknown): never =>
  refuse(serverOf(url), error, new Secrets(secretsOfPassword(url)));

// Tries what a start does to the log of `EVENT_LOG_URL`, and keeps nothing: no file, no table and no migration. The work
// is the start's own, on a log beside the place of a new one, or in a transaction that is rolled back. Also finds the
// faults of a log that no walk over its streams comes by.

interface LogCheck {
  /** True if the start makes the log, or brings it up to date. Then it can't be opened without keeping something. */
  readonly isChanged: boolean;
  /** Of the place of a new SQLite log. */
  readonly status?: LogStatus;
}

interface CheckOptions {
  readonly clock: Clock;
  readonly logger: Logger;
}

/** @throws AppError with the words of a start */
export async function checkLog(url: string, options: CheckOptions): Promise<LogCheck> {
  const path = sqlitePath(url);
  if (path !== undefined && !existsSync(path)) return checkNew(path, options);
  try {
    const isChanged =
      path === undefined ? await checkPostgresLog({ url, ...options }) : tryMigration(path, options.clock.now());
    return { isChanged };
  } catch (error) {
    return path === undefined ? refuseServer(url, error) : refuse(path, error);
  }
}

/** Makes a whole log beside the place of the new one, in a folder that is removed. */
async function checkNew(path: string, { clock, logger }: CheckOptions): Promise<LogCheck> {
  let above = dirname(path);
  while (!existsSync(above)) above = dirname(above);
  let folder: string | undefined;
  try {
    // Only an attempt tells: a mount may be read-only, and some file systems take no files.
    folder = mkdtempSync(join(above, ".check-"));
    const log = await openLog(`sqlite://${join(folder, "events.db")}`, clock, logger);
    try {
      return { isChanged: true, status: await log.status() };
    } finally {
      await log.close();
    }
  } catch (error) {
    const text = `${path}: there is no log, and ${above} takes none: ${messageOf(error)}`;
    throw new AppError(text, { code: "log_unavailable", cause: error });
  } finally {
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns true if a migration is missing. */
function tryMigration(path: string, now: number): boolean {
  assertRegularFile(path);
  const db = new Database(path, { readwrite: true, strict: true });
  try {
    db.run("PRAGMA busy_timeout = 10000");
    db.run("BEGIN IMMEDIATE");
    try {
      return migrateSqlite(db, now) > 0;
    } finally {
      db.run("ROLLBACK");
    }
  } finally {
    db.close();
  }
}

/** First parts of the names of streams. */
export const STREAM_KINDS = ["chain", "keys", "metadata", "nft", "price", "usage"] as const;
/** Rows that are listed at most. */
const MOST = 1_000;

/** The faults that SQLite finds in the file. */
export function fileFaults(url: string): string[] {
  const path = sqlitePath(url);
  if (path === undefined) return [];
  if (!existsSync(path)) return [`there is no file ${path}`];
  try {
    assertRegularFile(path);
    const database = new Database(path, { readonly: true });
    const rows = database.query<{ integrity_check: string }, []>("PRAGMA integrity_check").all();
    database.close();
    return rows.map((row) => row.integrity_check).filter((text) => text !== "ok");
  } catch (error) {
    return [messageOf(error)];
  }
}

/** Where events or streams may be that no walk over the streams comes by. */
const STRAYS = {
  events: `SELECT stream_id AS name, count(*) AS count FROM events
           WHERE stream_id NOT IN (SELECT id FROM streams) GROUP BY stream_id LIMIT ${MOST}`,
  streams: `SELECT name, version AS count FROM streams
            WHERE ${STREAM_KINDS.map((kind) => `substr(name, 1, ${kind.length + 1}) <> '${kind}/'`).join(" AND ")} LIMIT ${MOST}`,
};

interface Stray {
  readonly name: string | number;
  readonly count: number;
}

async function straysOf(url: string): Promise<{ events: Stray[]; streams: Stray[] }> {
  const path = sqlitePath(url);
  if (path !== undefined) {
    const database = new Database(path, { readonly: true });
    try {
      const ask = (query: string) => database.query<Stray, []>(query).all();
      return { events: ask(STRAYS.events), streams: ask(STRAYS.streams) };
    } finally {
      database.close();
    }
  }
  const sql = new SQL(url, { max: 1 });
  try {
    const ask = (query: string) => sql.unsafe<Stray[]>(query);
    return { events: await ask(STRAYS.events), streams: await ask(STRAYS.streams) };
  } finally {
    await sql.close();
  }
}

export async function strays(url: string): Promise<string[]> {
  const { events, streams } = await straysOf(url);
  return [
    ...events.map(({ name, count }) => `${count} events are of stream number ${name}, which has no row`),
    ...streams.map(({ name, count }) => `${name} with ${count} events is of no kind there is`),
  ];
}
