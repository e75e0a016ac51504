/**
 * Backup and restore of a SQLite log. A backup is one transaction's state, taken while a service writes. A restore puts
 * a file in place of the log, and keeps the former one beside it.
 */
import { Database } from "bun:sqlite";
import {
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { assertRegularFile } from "../core/bounded-files.ts";
import { AppError, messageOf } from "../core/errors.ts";
import { makePrivate, makePrivateFile, makePrivateFolder } from "../core/files.ts";
import { MIGRATIONS } from "./sqlite-schema.ts";

const conflict = (text: string) => new AppError(text, { code: "conflict" });
const unavailable = (text: string) => new AppError(text, { code: "log_unavailable" });

/** Writes the log at `path` to a new file. Returns its bytes. @throws AppError if the file exists */
export function backUpSqlite(path: string, file: string): number {
  if (existsSync(file)) throw conflict(`${file} exists; a backup replaces no file`);
  assertRegularFile(path);
  const part = `${file}.part`;
  rmSync(part, { force: true });
  makePrivateFile(part);
  const db = new Database(path, { readonly: true, strict: true });
  try {
    db.run("PRAGMA busy_timeout = 10000");
    // A read transaction of one state. It leaves free pages out, and needs no WAL beside the file.
    db.run("VACUUM INTO ?", [part]);
    seal(part);
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

interface RestoreOptions {
  /** The backup. */
  readonly file: string;
  /** The log that it replaces. */
  readonly path: string;
  /** ms since the epoch, for the former log's name. */
  readonly now: number;
  /** Restores a file that was changed, as long as SQLite can read it. */
  readonly isForced?: boolean;
  /** Called with the path of a copy, before anything is replaced. What it throws ends the restore. */
  readonly verify: (copy: string) => Promise<void>;
}

/**
 * Puts a backup in place of a log. Resolves with the place of the former log, if there was one.
 * @throws AppError if the file is no whole log of this release, or a process uses the log; what `verify` throws
 */
export async function restoreSqlite(options: RestoreOptions): Promise<string | undefined> {
  const { file, path, now, isForced = false, verify } = options;
  assertWholeLog(file, isForced);
  makePrivateFolder(dirname(path));
  const fresh = `${path}.restoring`;
  const drop = () => ["", "-wal", "-shm"].forEach((ending) => void rmSync(`${fresh}${ending}`, { force: true }));
  drop();
  try {
    makePrivateFile(fresh);
    copyFileSync(file, fresh);
    makePrivate(fresh);
    await verify(fresh);
    dropLeases(fresh);
    syncFile(fresh);
    if (existsSync(path)) takeOver(path);
  } catch (error) {
    drop();
    throw error;
  }
  const former = existsSync(path) ? `${path}.before-${new Date(now).toISOString().replaceAll(":", "-")}` : undefined;
  if (former !== undefined) {
    renameSync(path, former);
    makePrivate(former);
  }
  renameSync(fresh, path);
  syncFile(dirname(path));
  return former;
}

/** @throws AppError */
function assertWholeLog(file: string, isForced: boolean): void {
  if (!existsSync(file)) throw unavailable(`there is no file ${file}`);
  assertRegularFile(file);
  let fault: string | undefined;
  try {
    fault = isForced || hasSeal(file) ? undefined : "its checksum doesn't match: bytes were changed or lost";
    const db = new Database(file, { readonly: true, strict: true });
    const schema = db.query<{ id: number }, []>("SELECT max(id) AS id FROM migrations").get()?.id ?? 0;
    const [check] = isForced ? [] : db.query<{ integrity_check: string }, []>("PRAGMA integrity_check(1)").all();
    db.close();
    if (check !== undefined && check.integrity_check !== "ok") fault ??= check.integrity_check;
    if (schema > MIGRATIONS.length) fault = `a newer release wrote it (schema ${schema})`;
  } catch (error) {
    fault ??= messageOf(error);
  }
  if (fault === undefined) return;
  const way = isForced ? "" : "; take another backup, or restore what is left of this one with --force";
  throw unavailable(`${file} can't be restored: ${fault}${way}`);
}

/**
 * Places of `user_version` and `application_id` in the header of SQLite's files. A backup has 64 bits of the hash of all
 * its other bytes there. SQLite itself and the service use neither, and a backup that is opened as a log loses them.
 */
const SEAL_AT = [60, 68] as const;
const SEAL_BYTES = 4;
const HEADER_BYTES = 100;
const CHUNK_BYTES = 4 * 1024 * 1024;

/** Hash of the file's bytes without the seal. */
function hashOfFile(handle: number): Buffer {
  const hasher = new Bun.CryptoHasher("sha256");
  const chunk = Buffer.alloc(CHUNK_BYTES);
  for (let at = 0; ; ) {
    const read = readSync(handle, chunk, 0, chunk.length, at);
    if (read === 0) break;
    if (at === 0) for (const place of SEAL_AT) chunk.fill(0, place, place + SEAL_BYTES);
    hasher.update(chunk.subarray(0, read));
    at += read;
  }
  return hasher.digest();
}

function seal(path: string): void {
  const handle = openSync(path, "r+");
  try {
    const hash = hashOfFile(handle);
    // A seal of zeros would say that there is none.
    hash[0] = (hash[0] as number) | 1;
    for (const [index, place] of SEAL_AT.entries()) writeSync(handle, hash, index * SEAL_BYTES, SEAL_BYTES, place);
  } finally {
    closeSync(handle);
  }
}

/** False if bytes were changed or lost since the backup. True without a seal: an older release made the file. */
function hasSeal(path: string): boolean {
  const handle = openSync(path, "r");
  try {
    const header = Buffer.alloc(HEADER_BYTES);
    readSync(handle, header, 0, HEADER_BYTES, 0);
    const found = Buffer.concat(SEAL_AT.map((place) => header.subarray(place, place + SEAL_BYTES)));
    if (found.every((byte) => byte === 0)) return true;
    const hash = hashOfFile(handle);
    hash[0] = (hash[0] as number) | 1;
    return found.equals(hash.subarray(0, found.length));
  } finally {
    closeSync(handle);
  }
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
