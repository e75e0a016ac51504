/**
 * Snapshots of large collections: the folded state in a file, so that a hydration need not replay a long history. The
 * files are a cache of this machine and may be deleted at any time. The log stays the truth: a snapshot that is
 * damaged, or comes from another log or other code, is ignored.
 *
 * A file is the JSON of all facts, then the arrays, then the JSON of a header in the last `HEAD_BYTES`. Each part is
 * padded to eight bytes, so that arrays are used in place.
 */
import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { embeddedPath, IS_COMPILED } from "../../core/embedded-files.ts";
import { makePrivate, makePrivateFolder, PRIVATE_FILE } from "../../core/files.ts";
import type { Logger } from "../../core/logger.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import type { StreamName } from "../../events/types.ts";
import type { EventLog } from "../../log/event-log.ts";
import { Ledger } from "../ledger/ledger.ts";
import { StateReader, StateWriter } from "../ledger/state-codec.ts";
import { type Collection, type EarlierLife, initialState, ledgersOf } from "./collection.ts";

const HEAD_BYTES = 512;
const SUFFIX = ".snapshot";
/** A temporary file older than this belongs to a process that is gone. */
const ABANDONED_MS = 3_600_000;
/** Bytes hashed or written per slice. */
const SLICE_BYTES = 4 * 1024 * 1024;

interface SnapshotHeader {
  /** Hash of the code that wrote the file. */
  readonly code: string;
  readonly stream: StreamName;
  readonly version: number;
  /** Checksum of the event with that version. */
  readonly event: number;
  /** Bytes of the facts, without padding. */
  readonly factsBytes: number;
  /** xxHash3 of facts and arrays, each seeded with the hash before. */
  readonly hash: string;
}

/** The parts of a snapshot that are not arrays. */
interface SnapshotFacts {
  readonly collection: Omit<Collection, "ledger" | "earlier">;
  readonly lives: readonly Omit<EarlierLife, "ledger">[];
  /** Words of each array. */
  readonly lengths: readonly number[];
  readonly values: readonly unknown[];
}

interface SnapshotOptions {
  /** Created with the first snapshot. */
  readonly folder: string;
  /** Bytes of all files together; the oldest files are deleted first. */
  readonly maxBytes: number;
  readonly log: EventLog;
  readonly logger: Logger;
}

export class Snapshots {
  readonly #options: SnapshotOptions;
  #codeHash: string | undefined;

  constructor(options: SnapshotOptions) {
    this.#options = options;
    // Older releases made files that others may read.
    for (const { path } of this.#files()) makePrivate(path);
  }

  /**
   * Writes a collection to its file, in slices. Returns false, and writes nothing, if the collection changed meanwhile.
   * @param isOver returns true to abandon the write
   */
  async save(stream: StreamName, collection: Collection, isOver: () => boolean): Promise<boolean> {
    const { version, ledger } = collection;
    const { changes } = ledger;
    const isSame = (): boolean => collection.version === version && ledger.changes === changes && !isOver();
    const event = await this.#options.log.checksum(stream, version);
    if (event === undefined || !isSame()) return false;
    const { ledger: _, earlier, ...rest } = collection;
    const writer = new StateWriter();
    for (const part of ledgersOf(collection)) {
      for (const _slice of part.coding(writer)) {
        await yieldToEventLoop();
        // Stop at a change: the parts collected so far are of another state.
        if (!isSame()) return false;
      }
    }
    const lives = earlier.map(({ until, chainVersion }) => ({ until, chainVersion }));
    const { values, arrays } = writer;
    const facts: SnapshotFacts = { collection: rest, lives, lengths: arrays.map(({ length }) => length), values };
    const json = encoder.encode(JSON.stringify(facts)) as Uint8Array<ArrayBuffer>;
    makePrivateFolder(this.#options.folder);
    const path = this.#pathOf(stream);
    // Process ids are no unique names: in containers that share a folder, every process may be number 1.
    const temporary = `${path}.${randomUUID()}`;
    try {
      const head = (hash: string) =>
        headOf({ code: this.#code, stream, version, event, factsBytes: json.length, hash });
      if (!(await writeParts(temporary, [json, ...arrays.map(viewOf)], isSame, head))) return false;
      // Rename and delete files asynchronously: freeing the blocks of a large file takes long.
      await rename(temporary, path);
    } finally {
      await rm(temporary, { force: true });
    }
    await this.#prune(path);
    return true;
  }

  /** Reads a collection from its snapshot; undefined if there is none, or none that is valid. */
  async load(stream: StreamName): Promise<Collection | undefined> {
    try {
      const file = Bun.file(this.#pathOf(stream));
      if (!(await file.exists())) return undefined;
      const end = file.size - HEAD_BYTES;
      const header = JSON.parse(await file.slice(Math.max(0, end)).text()) as SnapshotHeader;
      if (header.code !== this.#code || header.stream !== stream) return undefined;
      if (header.event !== (await this.#options.log.checksum(stream, header.version))) return undefined;
      return await restore(await file.slice(0, end).arrayBuffer(), header);
    } catch (error) {
      this.#options.logger.warn(
        { err: error, stream },
        "a snapshot is damaged; the collection is replayed from the log",
      );
      return undefined;
    }
  }

  /** Computed at the first use, because a start doesn't need it. */
  get #code(): string {
    this.#codeHash ??= codeHash();
    return this.#codeHash;
  }

  #pathOf(stream: StreamName): string {
    return join(this.#options.folder, `${stream.replaceAll("/", "-")}${SUFFIX}`);
  }

  #files(): { path: string; size: number; ms: number }[] {
    const { folder } = this.#options;
    if (!existsSync(folder)) return [];
    return readdirSync(folder).flatMap((name) => {
      const path = join(folder, name);
      // Another process may delete the file first.
      const stat = name.includes(SUFFIX) ? statSync(path, { throwIfNoEntry: false }) : undefined;
      return stat === undefined ? [] : [{ path, size: stat.size, ms: stat.mtimeMs }];
    });
  }

  /** Deletes the oldest files above the bound, except the one just written, and temporary files that a crash left. */
  async #prune(written: string): Promise<void> {
    const { maxBytes } = this.#options;
    const files = this.#files();
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

function viewOf({ buffer, byteOffset, byteLength }: Int32Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function headOf(header: SnapshotHeader): Uint8Array {
  return encoder.encode(JSON.stringify(header).padEnd(HEAD_BYTES));
}

/** Writes all parts, and a header made from their hash. Returns false if `isSame` became false. */
async function writeParts(
  path: string,
  parts: readonly Uint8Array<ArrayBuffer>[],
  isSame: () => boolean,
  head: (hash: string) => Uint8Array,
): Promise<boolean> {
  // Not Bun's own file writer: an error there, like a full disk, rejects no promise and ends the process.
  const file = await open(path, "w", PRIVATE_FILE);
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
        await yieldToEventLoop();
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

/** Restores the collection from the bytes of a file. @throws Error if they are not as written */
async function restore(bytes: ArrayBuffer, { factsBytes, hash }: SnapshotHeader): Promise<Collection> {
  const json = new Uint8Array(bytes, 0, factsBytes);
  const facts = JSON.parse(decoder.decode(json)) as SnapshotFacts;
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
    take(viewOf(array));
    pending += length * 4;
    if (pending < SLICE_BYTES) continue;
    pending = 0;
    await yieldToEventLoop();
  }
  if (String(found) !== hash || at !== bytes.byteLength) throw new Error("the snapshot's hash does not match");
  const reader = new StateReader(arrays, facts.values);
  const earlier = facts.lives.map((life) => ({ ...life, ledger: new Ledger() }));
  const collection: Collection = { ...initialState(), ...facts.collection, earlier };
  for (const ledger of ledgersOf(collection)) {
    for (const _ of ledger.coding(reader)) await yieldToEventLoop();
  }
  if (!reader.isDone) throw new Error("the snapshot has more parts than a collection");
  return collection;
}

/** Hash of the sources that a snapshot depends on, so that a change of them makes old snapshots invalid. */
export function codeHash(): string {
  if (IS_COMPILED) return readFileSync(embeddedPath("code-hash.txt"), "utf8");
  // The core folder has the hash function of the indexes.
  const folders = ["", "../ledger", "../../events", "../../core"].map((folder) => join(import.meta.dir, folder));
  let hash = 0n;
  for (const folder of folders) {
    for (const name of readdirSync(folder).sort()) hash = Bun.hash.xxHash3(readFileSync(join(folder, name)), hash);
  }
  return String(hash);
}
