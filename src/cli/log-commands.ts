/** `backup`, `restore` and `verify`: the log as a whole. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Config } from "../config.ts";
import { systemClock } from "../core/clock.ts";
import { AppError, messageOf } from "../core/errors.ts";
import { sqlitePath } from "../core/files.ts";
import { bytesText } from "../core/format.ts";
import { blobUrlOf } from "../core/s3-place.ts";
import { backUpSqlite, restoreSqlite } from "../log/backup.ts";
import { CommandError, FAILED, missingLog, openCommandLog, UNAVAILABLE, USAGE } from "./access.ts";
import type { Command, CommandRun } from "./command.ts";
import { verifyLog } from "./verify-log.ts";

export const backupCommand: Command = {
  name: "backup",
  usage: "backup <file>",
  summary: "Writes a SQLite log to a new file, consistent while a service writes. Includes keys and secrets",
  maxWords: 1,
  run: async (run) => {
    const { blobs } = run.config();
    const { file, path } = filesOf(run, "backup", "pg_dump --format=custom --file=<file> <url>");
    if (!existsSync(path)) throw new CommandError(`there is no event log at ${path}`, UNAVAILABLE);
    const bytes = backUpSqlite(path, file);
    const text = `${file}  ${bytesText(bytes)}; it holds keys and secrets: keep it as safe as the log`;
    const store = blobs && blobUrlOf(blobs);
    run.print(run.values["json"] === true ? JSON.stringify({ file, bytes, blobs: store }) : text);
    // The store only grows, so the backup finds its blobs there as long as the bucket is kept.
    if (store !== undefined)
      run.say(`metadata and pictures are not in it: they stay in ${store}, which is to be kept, too`);
    return 0;
  },
};

export const restoreCommand: Command = {
  name: "restore",
  usage: "restore <file> [--force]",
  summary: "Puts a backup in place of the SQLite log, and keeps the former one beside it. Refused while a service runs",
  maxWords: 1,
  options: { force: { type: "boolean" } },
  help: { "--force": "Restores a damaged backup, and says what is lost" },
  run: async (run) => {
    const { file, path } = filesOf(run, "restore", "pg_restore --clean --dbname=<url> <file>");
    const isForced = run.values["force"] === true;
    if (existsSync(path)) await assertNoLease(run.config());
    const lost: string[] = [];
    const verify = async (copy: string) => {
      const found = faultsOf(copy, run.config());
      lost.push(...(await (isForced ? found.catch((error: unknown) => [messageOf(error)]) : found)));
      if (lost.length === 0 || isForced) return;
      const text = `${file} is damaged, and the log is as it was: ${lost.slice(0, MAX_FAULTS).join("; ")}; take another backup, or restore what is left of this one with --force`;
      throw new AppError(text, { code: "conflict" });
    };
    const former = await restoreSqlite({ file, path, now: systemClock.now(), isForced, verify });
    const kept = former === undefined ? "" : `; the former log is ${former}`;
    for (const line of lost) run.say(`lost: ${line}`);
    const report = { log: path, former: former ?? null, ...(isForced ? { lost } : {}) };
    run.print(run.values["json"] === true ? JSON.stringify(report) : `${path} restored${kept}`);
    return 0;
  },
};

/** Faults that a refusal names. */
const MAX_FAULTS = 5;

/**
 * The faults of a log: damaged records, missing blobs, parts of the file that can't be read.
 * @throws AppError if the store of its blobs is not the right one, or can't be reached: that is no fault of the log
 */
async function faultsOf(path: string, { blobs, knownChains: chains }: Config): Promise<string[]> {
  const faults: string[] = [];
  const note = (line: string) => void (/WRONG|^file: /.test(line) && faults.push(line));
  try {
    const { wrong } = await verifyLog(`sqlite://${path}`, note, { blobs, chains });
    return wrong === 0 ? [] : faults;
  } catch (error) {
    if (error instanceof AppError && error.message.startsWith("BLOB_URL:")) throw error;
    return [...faults, messageOf(error)];
  }
}

export const verifyCommand: Command = {
  name: "verify",
  usage: "verify",
  summary: "Reads the whole log: each checksum, version, fold, headline and blob. May run beside a service",
  maxWords: 0,
  run: async ({ values, config, print }) => {
    const lines: string[] = [];
    const isJson = values["json"] === true;
    const { eventLogUrl, blobs, knownChains: chains } = config();
    const missing = missingLog(config());
    if (missing !== undefined)
      throw new CommandError(`EVENT_LOG_URL: there is no event log at ${missing}`, UNAVAILABLE);
    try {
      const report = await verifyLog(eventLogUrl, isJson ? (line) => lines.push(line) : print, { blobs, chains });
      if (isJson) print(JSON.stringify({ ...report, lines }));
      return report.wrong === 0 ? 0 : FAILED;
    } catch (error) {
      throw new CommandError(`the log can't be opened or read: ${messageOf(error)}`, UNAVAILABLE);
    }
  },
};

/** The file that the words name, and the log's. @throws CommandError that names the way on PostgreSQL */
function filesOf({ words, config }: CommandRun, name: string, otherWay: string) {
  const [file] = words;
  if (file === undefined) throw new CommandError(`${name} needs the path of one file`, USAGE);
  const path = sqlitePath(config().eventLogUrl);
  if (path !== undefined) return { file: resolve(file), path: resolve(path) };
  const text = `the log is PostgreSQL, which has its own tools: ${otherWay}. To move it to SQLite: copy <from-url> <to-url>`;
  throw new CommandError(text, FAILED);
}

/** @throws CommandError while a lease is alive. A damaged log has none that counts */
async function assertNoLease(config: Config): Promise<void> {
  const log = await openCommandLog(config).catch(() => undefined);
  const leases = (await log?.leases()) ?? [];
  await log?.close();
  if (leases.length === 0) return;
  const names = leases.map(({ name }) => name).join(", ");
  throw new CommandError(`a service is running on this log (${names}): stop it, and try again`, FAILED);
}
