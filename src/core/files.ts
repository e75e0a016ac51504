/** Files and folders that their owner alone may read, whatever the umask: logs, backups and snapshots hold secrets. */
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";

export const PRIVATE_FILE = 0o600;
const PRIVATE_FOLDER = 0o700;
/** Rights of the group and of all others. */
const OTHERS = 0o077;

/** Makes a folder and those above it, if they are missing. A folder that is there may be shared, and stays as it is. */
export function makePrivateFolder(path: string): void {
  const made = mkdirSync(path, { recursive: true, mode: PRIVATE_FOLDER });
  if (made !== undefined) chmodSync(path, PRIVATE_FOLDER);
}

/** Takes the rights of others away from a file that is there. Returns false if this process may not: it is another user's. */
export function makePrivate(path: string): boolean {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode;
  if (mode === undefined || (mode & OTHERS) === 0) return true;
  try {
    chmodSync(path, mode & ~OTHERS & 0o7777);
    return true;
  } catch {
    return false;
  }
}

/** Makes an empty file if there is none, before another program writes to it. Returns false as `makePrivate` does. */
export function makePrivateFile(path: string): boolean {
  try {
    closeSync(openSync(path, "a", PRIVATE_FILE));
  } catch (error) {
    // The program that opens a file which may not be written says so in its own words.
    if (!existsSync(path)) throw error;
  }
  return makePrivate(path);
}

const SQLITE = "sqlite://";

/** The path in the URL of a SQLite log; undefined for the URL of another engine. */
export const sqlitePath = (url: string): string | undefined =>
  url.startsWith(SQLITE) ? url.slice(SQLITE.length) : undefined;

const TRIAL = new Uint8Array(64 * 1024);

/**
 * Writes a file in a folder, or above it if it is missing, and removes it. Only an attempt tells: a mount may be
 * read-only, and a disk may be full. @throws the system's error
 */
export function tryFolder(path: string): void {
  let above = path;
  while (!existsSync(above)) above = dirname(above);
  const folder = mkdtempSync(join(above, ".check-"));
  try {
    writeFileSync(join(folder, "file"), TRIAL);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
