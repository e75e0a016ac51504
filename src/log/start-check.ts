/**
 * Tries what a start does to the log of `EVENT_LOG_URL`, and keeps nothing: no file, no table and no migration. The work
 * is the start's own, on a log beside the place of a new one, or in a transaction that is rolled back.
 */
import { Database } from "bun:sqlite";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { assertRegularFile } from "../core/bounded-files.ts";
import type { Clock } from "../core/clock.ts";
import { AppError, messageOf } from "../core/errors.ts";
import { sqlitePath } from "../core/files.ts";
import type { Logger } from "../core/logger.ts";
import type { LogStatus } from "./event-log.ts";
import { openLog, refuse, refuseServer } from "./open.ts";
import { checkPostgresLog } from "./postgres.ts";
import { migrateSqlite } from "./sqlite-schema.ts";

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
