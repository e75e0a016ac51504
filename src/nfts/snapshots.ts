/**
 * Snapshots of large collections: what was folded of a long history, kept in a file so that it need not be folded again.
 * Files of this machine, which anybody may delete at any time: the log is the truth, and a snapshot that is damaged, of
 * another log or of other code is passed over. In: a collection. Out: the same one, in the time it takes to read a file.
 *
 * A file is the JSON of all facts, the arrays, and at its end the JSON of a header in `HEAD_BYTES`. Each of them is padded
 * to eight bytes, so that arrays are used where they lie.
 */
import { randomUUID } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Logger } from "../core/logger.ts";
import { otherWork } from "../core/own-thread.ts";
import { checksum, encodeEvent } from "../events/codec.ts";
import type { StreamName } from "../events/types.ts";
import type { EventLog } from "../log/port.ts";
import { type Collection, initialState } from "./collection.ts";
import { Reader, Writer } from "./keep.ts";

const HEAD_BYTES = 512;
const SUFFIX = ".snapshot";
/** What was begun and not touched for so long was left by a process that is gone. */
const ABANDONED_MS = 3_600_000;
/** Bytes hashed, or handed to the file, in one go. */
const SLICE_BYTES = 4 * 1024 * 1024;

interface Header {
  /** Of the code that wrote it. */
  readonly code: string;
  readonly stream: StreamName;
  readonly version: number;
  /** Of the event of that version, its place and time. */
  readonly event: number;
  /** Of the facts, without what they are padded with. */
  readonly factsBytes: number;
  /** xxHash3 of facts and arrays, each seeded with the one before. */
  readonly hash: string;
}

/** What is said beside the arrays. */
interface Facts {
  readonly collection: Omit<Collection, "ledger">;
  /** Words of each array. */
  readonly lengths: readonly number[];
  readonly said: readonly unknown[];
}

export interface SnapshotOptions {
  /** Made when the first snapshot is written. */
  readonly folder: string;
  /** Of all files together; the oldest go first. */
  readonly maxBytes: number;
  readonly log: EventLog;
  readonly logger: Logger;
}

export class Snapshots {
  readonly #options: SnapshotOptions;
  #codeHash: string | undefined;

  constructor(options: SnapshotOptions) {
    this.#options = options;
  }

  /**
   * Writes a collection down, slice by slice: what it is made of is put into arrays, those into a file. False when it changed
   * meanwhile, and nothing was written.
   * @param isOver whether to leave it half-way
   */
  async save(stream: StreamName, collection: Collection, isOver: () => boolean): Promise<boolean> {
    const { version, ledger } = collection;
    const { changes } = ledger;
    const isSame = (): boolean => collection.version === version && ledger.changes === changes && !isOver();
    const event = await this.#markOf(stream, version);
    if (event === undefined || !isSame()) return false;
    const { ledger: _, ...rest } = collection;
    const writer = new Writer();
    for (const _slice of ledger.keeping(writer)) {
      await otherWork();
      // Nothing more is handed on once it has changed: what was before would be of another state.
      if (!isSame()) return false;
    }
    const { said, arrays } = writer;
    const facts: Facts = { collection: rest, lengths: arrays.map(({ length }) => length), said };
    const json = encoder.encode(JSON.stringify(facts)) as Uint8Array<ArrayBuffer>;
    mkdirSync(this.#options.folder, { recursive: true });
    const path = this.#pathOf(stream);
    // Containers that share a folder may all be process 1.
    const temporary = `${path}.${randomUUID()}`;
    try {
      const head = (hash: string) =>
        headOf({ code: this.#code, stream, version, event, factsBytes: json.length, hash });
      if (!(await writeParts(temporary, [json, ...arrays.map(bytesOf)], isSame, head))) return false;
      // Not on this thread, nor is any other file deleted there: to free the blocks of a large one takes its time.
      await rename(temporary, path);
    } finally {
      await rm(temporary, { force: true });
    }
    await this.#prune(path);
    return true;
  }

  /** The collection as a snapshot has it; undefined where there is none that can be believed. */
  async load(stream: StreamName): Promise<Collection | undefined> {
    try {
      const file = Bun.file(this.#pathOf(stream));
      if (!(await file.exists())) return undefined;
      const end = file.size - HEAD_BYTES;
      const header = JSON.parse(await file.slice(Math.max(0, end)).text()) as Header;
      if (header.code !== this.#code || header.stream !== stream) return undefined;
      if (header.event !== (await this.#markOf(stream, header.version))) return undefined;
      return await restore(await file.slice(0, end).arrayBuffer(), header);
    } catch (error) {
      this.#options.logger.warn({ err: error, stream }, "a snapshot is damaged: the collection is read from the log");
      return undefined;
    }
  }

  /** Read when a snapshot is first asked for: a start has no need of it. */
  get #code(): string {
    this.#codeHash ??= codeHash();
    return this.#codeHash;
  }

  #pathOf(stream: StreamName): string {
    return join(this.#options.folder, `${stream.replaceAll("/", "-")}${SUFFIX}`);
  }

  /** Tells the event of a version from any other that could stand there; undefined where there is none. */
  async #markOf(stream: StreamName, version: number): Promise<number | undefined> {
    if (version === 0) return undefined;
    const [recorded] = await this.#options.log.read(stream, { from: version, limit: 1 });
    if (recorded === undefined) return undefined;
    const { event, time } = recorded;
    return checksum(stream, version, event.type, time, encodeEvent(event));
  }

  /** Deletes the oldest files beyond the bound, never the one just written, and what a crash left half-written. */
  async #prune(written: string): Promise<void> {
    const { folder, maxBytes } = this.#options;
    const files = readdirSync(folder).flatMap((name) => {
      const path = join(folder, name);
      // Another process may be deleting, too.
      const stat = name.includes(SUFFIX) ? statSync(path, { throwIfNoEntry: false }) : undefined;
      return stat === undefined ? [] : [{ path, size: stat.size, ms: stat.mtimeMs }];
    });
    files.sort((a, b) => b.ms - a.ms);
    const now = files.find(({ path }) => path === written)?.ms ?? 0;
    let total = 0;
    for (const { path, size, ms } of files) {
      const isWhole = path.endsWith(SUFFIX);
      if (isWhole) total += size;
      const isOver = isWhole ? total > maxBytes && path !== written : now - ms > ABANDONED_MS;
      if (isOver) await rm(path, { force: true });
    }
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const padded = (bytes: number): number => Math.ceil(bytes / 8) * 8;

function bytesOf({ buffer, byteOffset, byteLength }: Int32Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function headOf(header: Header): Uint8Array {
  return encoder.encode(JSON.stringify(header).padEnd(HEAD_BYTES));
}

/** Writes all parts and what is made of their hash; false when that was left. */
async function writeParts(
  path: string,
  parts: readonly Uint8Array<ArrayBuffer>[],
  isSame: () => boolean,
  head: (hash: string) => Uint8Array,
): Promise<boolean> {
  // Not the runtime's own writer of files: what goes wrong there, a full disk, is told to nobody and ends the process.
  const file = await open(path, "w");
  try {
    let hash = 0n;
    let pending = 0;
    for (const part of parts) {
      await writeAll(file, part);
      hash = Bun.hash.xxHash3(part, hash);
      if (part.length % 8 > 0) {
        const padding = new Uint8Array(8 - (part.length % 8));
        await writeAll(file, padding);
        hash = Bun.hash.xxHash3(padding, hash);
      }
      pending += part.length;
      if (pending >= SLICE_BYTES) {
        pending = 0;
        await otherWork();
      }
      if (!isSame()) return false;
    }
    await writeAll(file, head(String(hash)));
    return true;
  } finally {
    await file.close();
  }
}

async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length; ) at += (await file.write(bytes, at)).bytesWritten;
}

/** The collection in the bytes of a file. @throws Error when they are not what was written */
async function restore(bytes: ArrayBuffer, { factsBytes, hash }: Header): Promise<Collection> {
  const json = new Uint8Array(bytes, 0, factsBytes);
  const facts = JSON.parse(decoder.decode(json)) as Facts;
  let found = 0n;
  let at = 0;
  const take = (part: Uint8Array<ArrayBuffer>): void => {
    found = Bun.hash.xxHash3(part, found);
    const end = at + part.length;
    at = padded(end);
    if (at > end) found = Bun.hash.xxHash3(new Uint8Array(bytes, end, at - end), found);
  };
  take(json);
  let pending = 0;
  const arrays: Int32Array<ArrayBuffer>[] = [];
  for (const length of facts.lengths) {
    const array = new Int32Array(bytes, at, length);
    arrays.push(array);
    take(bytesOf(array));
    pending += length * 4;
    if (pending < SLICE_BYTES) continue;
    pending = 0;
    await otherWork();
  }
  if (String(found) !== hash || at !== bytes.byteLength) throw new Error("its hash is another");
  const reader = new Reader(arrays, facts.said);
  const collection: Collection = { ...initialState(), ...facts.collection };
  for (const _ of collection.ledger.keeping(reader)) await otherWork();
  if (!reader.isDone) throw new Error("it has more than a collection is made of");
  return collection;
}

/** Of the sources that a snapshot depends on: whoever changes them makes snapshots of his own. */
function codeHash(): string {
  // The places of an index are by a hash from core.
  const folders = [import.meta.dir, join(import.meta.dir, "../events"), join(import.meta.dir, "../core")];
  let hash = 0n;
  for (const folder of folders) {
    for (const name of readdirSync(folder).sort()) hash = Bun.hash.xxHash3(readFileSync(join(folder, name)), hash);
  }
  return String(hash);
}
