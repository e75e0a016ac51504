/**
 * Backup and restore of a SQLite log. A backup is one transaction's state, taken while a service writes. A restore puts
 * a file in place of the log, and keeps the former one beside it.
 */
import { Database } from "bun:sqlite";
import { closeSync, copyFileSync, existsSync, fsyncSync, openSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { AppError, messageOf } from "../core/errors.ts";
import { makePrivate, makePrivateFile, makePrivateFolder } from "../core/private-files.ts";
import { MIGRATIONS } from "./sqlite-schema.ts";

const conflict = (text: string) => new AppError(text, { code: "conflict" });
const unavailable = (text: string) => new AppError(text, { code: "log_unavailable" });

/** Writes the log at `path` to a new file. Returns its bytes. @throws AppError if the file exists */
export function backUpSqlite(path: string, file: string): number {
  if (existsSync(file)) throw conflict(`${file} exists; a backup replaces no file`);
  const part = `${file}.part`;
  rmSync(part, { force: true });
  makePrivateFile(part);
  const db = new Database(path, { readonly: true, strict: true });
  try {
    db.run("PRAGMA busy_timeout = 10000");
    // A read transaction of one state. It leaves free pages out, and needs no WAL beside the file.
    db.run("VACUUM INTO ?", [part]);
    syncFile(part);
    renameSync(part, file);
    return statSync(file).size;
  } catch (error) {
    rmSync(part, { force: true });
    throw unavailable(`the backup failed: ${messageOf(error)}`);
  } finally {
    db.close();
  }
}

/**
 * Puts a backup in place of the log at `path`. Returns where the former log is, if there was one.
 * @param now ms since the epoch, for the former log's name
 * @throws AppError if the file is no whole log of this release, or a process uses the log
 */
export function restoreSqlite(file: string, path: string, now: number): string | undefined {
  assertWholeLog(file);
  makePrivateFolder(dirname(path));
  const fresh = `${path}.restoring`;
  rmSync(fresh, { force: true });
  makePrivateFile(fresh);
  copyFileSync(file, fresh);
  makePrivate(fresh);
  dropLeases(fresh);
  syncFile(fresh);
  const former = existsSync(path) ? `${path}.before-${new Date(now).toISOString().replaceAll(":", "-")}` : undefined;
  if (former !== undefined) {
    try {
      takeOver(path);
    } catch (error) {
      rmSync(fresh, { force: true });
      throw error;
    }
    renameSync(path, former);
    makePrivate(former);
  }
  renameSync(fresh, path);
  syncFile(dirname(path));
  return former;
}

/** @throws AppError */
function assertWholeLog(file: string): void {
  if (!existsSync(file)) throw unavailable(`there is no file ${file}`);
  let fault: string;
  try {
    const db = new Database(file, { readonly: true, strict: true });
    const schema = db.query<{ id: number }, []>("SELECT max(id) AS id FROM migrations").get()?.id ?? 0;
    const [check] = db.query<{ integrity_check: string }, []>("PRAGMA integrity_check(1)").all();
    db.close();
    const isNewer = schema > MIGRATIONS.length;
    fault = isNewer ? `a newer release wrote it (schema ${schema})` : (check?.integrity_check ?? "");
  } catch (error) {
    fault = messageOf(error);
  }
  if (fault !== "ok") throw unavailable(`${file} can't be restored: ${fault}`);
}

/** The backup has the leases of the processes of its time. They are over. */
function dropLeases(path: string): void {
  const db = new Database(path, { readwrite: true, strict: true });
  db.run("DELETE FROM leases");
  db.run("PRAGMA journal_mode = DELETE");
  db.close();
}

/**
 * Asserts that no process has the log open, and moves its WAL into the file. A service that follows nothing holds no
 * lease, but would go on writing to a file that was renamed. Only the last connection can leave the WAL mode.
 * @throws AppError
 */
function takeOver(path: string): void {
  const inUse = conflict(`a process has ${path} open: stop the service, and try again`);
  const db = new Database(path, { readwrite: true, strict: true });
  try {
    const row = db.query<{ journal_mode: string }, []>("PRAGMA journal_mode = DELETE").get();
    if (row?.journal_mode !== "delete") throw inUse;
  } catch (error) {
    const isLocked = (error as { code?: unknown }).code === "SQLITE_BUSY";
    // A damaged log must be replaceable, above all.
    if (isLocked || error === inUse) throw inUse;
  } finally {
    db.close();
  }
}

function syncFile(path: string): void {
  const handle = openSync(path, "r");
  fsyncSync(handle);
  closeSync(handle);
}
