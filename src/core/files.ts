/** Files and folders that their owner alone may read, whatever the umask: logs, backups and snapshots hold secrets. */
import {
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { Clock } from "./clock.ts";
import { AppError, messageOf } from "./errors.ts";
import type { Logger } from "./logger.ts";

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

// How many files and connections the system lets this process have open, and how many are. A process without room for
// one more answers nobody, its health checks included. On Linux only: elsewhere no limit is known.

/** Files for the log (up to 100 connections), endpoints, workers and health checks. */
const RESERVE = 160;
/** Part of the other files that WebSockets may take. With 1,024 files, 216 are left for connections of HTTP clients. */
const FOR_SOCKETS = 3 / 4;
/** Below this room, connections of HTTP clients are closed after each answer: an eighth of the files, within bounds. */
const scarceBelow = (limit: number): number => Math.min(1_000, Math.max(48, Math.floor(limit / 8)));
/** With room for fewer sockets, the start says so. */
const FEW_SOCKETS = 2_000;
const POLL_MS = 1_000;

export const WAY_TO_MORE_FILES = "raise the limit of open files: LimitNOFILE= of systemd, `ulimit -n` of a shell";

/** The limit of the system; undefined if it is not known. Bun raises the soft limit to the hard one when it starts. */
export function openFileLimit(): number | undefined {
  try {
    // Name, soft and hard limit (proc_pid_limits(5)).
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1")) ?? [];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}

/** Sockets of clients that a limit of open files has room for. */
export const socketsWithin = (limit: number | undefined): number =>
  limit === undefined
    ? Number.POSITIVE_INFINITY
    : Math.max(Math.floor(limit / 4), Math.floor((limit - RESERVE) * FOR_SOCKETS));

/** True if the limit is so low that an operator should know. */
export const isLowFileLimit = (limit: number | undefined): boolean => socketsWithin(limit) < FEW_SOCKETS;

export class OpenFiles {
  readonly limit = openFileLimit();
  /** Open files as of the last look; undefined if that is not known. */
  count: number | undefined;
  /** Answers since the last look. */
  #answers = 0;

  constructor() {
    this.#count();
  }

  /** True if there is little room left for connections. */
  get isScarce(): boolean {
    return this.limit !== undefined && this.count !== undefined && this.limit - this.count < scarceBelow(this.limit);
  }

  /**
   * Returns true if a connection must end with its answer. Looks again after as many answers as there may be new connections
   * before files are scarce: within a second, clients can open a thousand. Must be called for each answer and each upgrade.
   */
  isScarceAfterAnswer(): boolean {
    const { limit, count } = this;
    if (limit === undefined || count === undefined) return false;
    const scarce = scarceBelow(limit);
    if (++this.#answers >= Math.max(limit - count - scarce, Math.floor(scarce / 3))) this.#count();
    return this.isScarce;
  }

  #count(): void {
    this.#answers = 0;
    try {
      this.count = readdirSync("/proc/self/fd").length;
    } catch {
      // Another system, or no file left to look with: then the last count stands.
    }
  }

  /** Looks once a second, and logs when files become scarce. */
  async watch(clock: Clock, logger: Logger, signal: AbortSignal): Promise<void> {
    let wasScarce = false;
    while (!signal.aborted) {
      this.#count();
      if (this.isScarce && !wasScarce) {
        const facts = { open: this.count, limit: this.limit };
        logger.warn(facts, `open files are nearly used up, and connections are closed; ${WAY_TO_MORE_FILES}`);
      }
      wasScarce = this.isScarce;
      await clock.sleep(POLL_MS, signal).catch(() => undefined);
    }
  }
}

// A file that an operator names may be anything: a pipe or a terminal, whose reader waits for ever, a device without an
// end, or a file of gigabytes. All of them are refused before they are read.

/** @throws Error in words that follow the name of the setting */
function assertBounded(found: Stats, maxBytes: number): void {
  const allowed = `it must be a regular file of at most ${maxBytes} bytes`;
  if (!found.isFile()) throw new Error(`${allowed}, and is ${kindOf(found)}`);
  if (found.size > maxBytes) throw new Error(`${allowed}, and has ${found.size}`);
}

function kindOf(found: Stats): string {
  if (found.isDirectory()) return "a folder";
  if (found.isFIFO()) return "a pipe";
  if (found.isSocket()) return "a socket";
  return "a device";
}

/** @throws AppError if the path leads to something that is no regular file. A missing file is a matter of its opener. */
export function assertRegularFile(path: string): void {
  let found: Stats | undefined;
  try {
    found = statSync(path, { throwIfNoEntry: false });
  } catch {
    // A part of the path is no folder, or may not be read. The program that opens the file says so.
  }
  if (found === undefined || found.isFile()) return;
  throw new AppError(`${path}: it must be a regular file, and is ${kindOf(found)}`, { code: "log_unavailable" });
}

/** The reason why a file can't be read by `readOperatorFile`, without reading it; undefined if there is none. */
export function faultOfFile(path: string, maxBytes: number): string | undefined {
  try {
    closeSync(openBounded(path, maxBytes));
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/** Looks before it opens, because to open a device can have effects, and afterwards, because the path may have changed. */
function openBounded(path: string, maxBytes: number): number {
  assertBounded(statSync(path), maxBytes);
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    assertBounded(fstatSync(file), maxBytes);
    return file;
  } catch (error) {
    closeSync(file);
    throw error;
  }
}

const READ_BYTES = 1024 * 1024;

/** The text of a file that an operator names, with no more than `maxBytes` bytes. @throws Error that says what is allowed */
export function readOperatorFile(path: string, maxBytes: number): string {
  const file = openBounded(path, maxBytes);
  try {
    const chunks: Uint8Array[] = [];
    let length = 0;
    for (;;) {
      // The size tells nothing of files of the system, which may be endless.
      const chunk = new Uint8Array(Math.min(READ_BYTES, maxBytes + 1 - length));
      const count = readSync(file, chunk);
      if (count === 0) break;
      length += count;
      if (length > maxBytes) throw new Error(`it must be a regular file of at most ${maxBytes} bytes, and has more`);
      chunks.push(chunk.subarray(0, count));
    }
    return new TextDecoder("utf-8", { fatal: true }).decode(Buffer.concat(chunks));
  } finally {
    closeSync(file);
  }
}

/** Levels of lists and objects in an operator's JSON. The formats have at most five. */
const MAX_LEVELS = 32;

/** Parses an operator's JSON. Code that walks a deeper value would overflow the stack. @throws Error */
export function parseOperatorJson(text: string): unknown {
  let level = 0;
  // A string counts as one piece, with the brackets in it.
  for (const [piece] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/gs)) {
    if (piece === "[" || piece === "{") level++;
    else if (piece === "]" || piece === "}") level--;
    if (level > MAX_LEVELS) throw new Error(`it has lists and objects in each other, more than ${MAX_LEVELS} deep`);
  }
  return JSON.parse(text);
}

// A file that an operator keeps, and what was read from it. It is read again when it changes. While the file can't be
// used, the previous content stays in force.

/** A list's path, undefined for no list, and the setting that names it. */
export interface ListPlace {
  readonly key: string;
  readonly path: string | undefined;
}

/** A parsed list. `problems` has a sentence for each fault; if there are any, the list must not be used. */
export interface ParsedList<L> {
  readonly list: L;
  readonly problems: readonly string[];
}

interface ListFileOptions<L> extends ListPlace {
  readonly parse: (text: string) => ParsedList<L> | Promise<ParsedList<L>>;
  /** The content until the file was read. */
  readonly empty: L;
  readonly maxBytes: number;
}

/** One file, and the list that it held when it was last usable. */
export class ListFile<L> {
  readonly key: string;
  readonly path: string | undefined;
  list: L;
  readonly #parse: ListFileOptions<L>["parse"];
  readonly #maxBytes: number;
  /** Fingerprint of the file at the last read, or the reason why it could not be read. */
  #seen = "";

  constructor({ key, path, parse, empty, maxBytes }: ListFileOptions<L>) {
    this.key = key;
    this.path = path;
    this.list = empty;
    this.#parse = parse;
    this.#maxBytes = maxBytes;
  }

  /** Reads the file if it changed; undefined if not. Problems leave the list unchanged. */
  async refresh(): Promise<{ problems: string[] } | undefined> {
    if (this.path === undefined) return undefined;
    let text: string;
    try {
      // The fingerprint is taken before the read, so that a write in between counts as a change.
      const { mtimeMs, ctimeMs, size, ino } = statSync(this.path);
      const look = `${mtimeMs} ${ctimeMs} ${size} ${ino}`;
      if (look === this.#seen) return undefined;
      this.#seen = look;
      text = readOperatorFile(this.path, this.#maxBytes);
    } catch (error) {
      const problem = `${this.key}: the file cannot be read: ${messageOf(error)}`;
      if (this.#seen === problem) return undefined;
      this.#seen = problem;
      return { problems: [problem] };
    }
    const { list, problems } = await this.#parse(text);
    if (problems.length === 0) this.list = list;
    return { problems: problems.map((problem) => `${this.key}: ${problem}`) };
  }
}

// Files inside the program, if `scripts/compile.ts` made it one file. It carries what the sources read from their own
// folders: assets of pages, and the hash of the sources. Empty when the service runs from its sources.

/** True in the program that `scripts/compile.ts` makes. The runtime shows its files in a folder of this name. */
export const IS_COMPILED = Bun.main.startsWith("/$bunfs/");

/** The argument with which that program starts itself as the preview process: it has no other file to start. */
export const PREVIEW_COMMAND = "preview-process";

/** The path of a file inside the program. It can be read like any other file. */
export const embeddedPath = (name: string): string => join(dirname(Bun.main), name);
