/**
 * Copies a log to another one, of either engine, row by row: versions, times, checksums, headlines and blobs. The same
 * call goes on after a kill: each stream of the target must be a beginning of the source's. At the end all streams
 * are read from both and their hashes compared.
 */
import { systemClock } from "../core/clock.ts";
import { AppError } from "../core/errors.ts";
import { silentLogger } from "../core/logger.ts";
import type { S3Place } from "../core/s3-place.ts";
import { checksum } from "../events/codec.ts";
import { assertStore, BLOB_STORE, bindStore, missingStore } from "../log/blob-binding.ts";
import type { EventLog } from "../log/event-log.ts";
import { openLog } from "../log/open.ts";
import { type RawBlobs, type RawReader, type RawStream, type RawWriter, UNFINISHED_COPY } from "../log/raw-log.ts";
import { openRawPostgres, openRawPostgresWriter } from "../log/raw-postgres.ts";
import { openRawSqlite, openRawSqliteWriter } from "../log/raw-sqlite.ts";
import { RawStore } from "../log/raw-store.ts";
import type { StoredEvent } from "../log/records.ts";
import { S3Store } from "../log/s3-store.ts";
import { fromHeadline } from "../nft/collections/headline.ts";

interface CopyOptions {
  readonly from: string;
  readonly to: string;
  /** The stores of the blobs of both logs; undefined for a log that has them in its own table. */
  readonly fromBlobs: S3Place | undefined;
  readonly toBlobs: S3Place | undefined;
  /** True to copy API keys and the secret that signs cursors, too. */
  readonly withSecrets: boolean;
  readonly onProgress: (progress: CopyProgress) => void;
  /** Ends the copy. The same call goes on later. */
  readonly signal: AbortSignal;
}

interface CopyProgress {
  readonly step: "blobs" | "events" | "comparing";
  /** Events or blobs so far. */
  readonly done: number;
  /** Events in all; undefined for blobs, which are not counted. */
  readonly of: number | undefined;
}

/** A record or a blob that is not what its checksum or its name says. */
interface Damage {
  /** Name of a stream, or hash of a blob. */
  readonly where: string;
  readonly version?: number;
  readonly text: string;
  /** True for a record from before its collection was indexed anew: no process reads it any more. */
  readonly isPast: boolean;
}

export interface CopyReport {
  readonly streams: number;
  readonly events: number;
  readonly blobs: number;
  /** Events and blobs that this call has copied; the others were there. */
  readonly copiedEvents: number;
  readonly copiedBlobs: number;
  readonly damaged: readonly Damage[];
  /** SHA-256 over the hashes of all streams, equal in both logs. */
  readonly hash: string;
}

/** Opens the rows of a log for reading. @throws AppError */
const openRaw = async (url: string): Promise<RawReader> =>
  url.startsWith("sqlite://") ? openRawSqlite(url.slice("sqlite://".length)) : openRawPostgres(url);

const openRawWriter = async (url: string): Promise<RawWriter> =>
  url.startsWith("sqlite://") ? openRawSqliteWriter(url.slice("sqlite://".length)) : openRawPostgresWriter(url);

/** The lease of a running copy, so that two copies don't write to one log. */
const LEASE = "copy";
const LEASE_MS = 5_000;
const TURN_MS = 20;
const PAGE = 500;
/** Settings about the place of one log. */
const OWN_SETTINGS: readonly string[] = [UNFINISHED_COPY, BLOB_STORE];

/** @throws AppError if the target is in use, or holds other events, or the hashes differ at the end */
export async function copyLog(options: CopyOptions): Promise<CopyReport> {
  const source = await openRaw(options.from);
  let log: EventLog | undefined;
  let target: RawWriter | undefined;
  const holder = crypto.randomUUID();
  try {
    const from = await sourceStore(source, options.fromBlobs);
    log = await openLog(options.to, systemClock, silentLogger, { blobs: options.toBlobs });
    await assertUnused(log, holder);
    target = await openRawWriter(options.to);
    const to = options.toBlobs && new S3Store(options.toBlobs, systemClock);
    const stores = { sourceBlobs: [source, ...(from === undefined ? [] : [new RawStore(from)])] };
    const targetBlobs = to === undefined ? target : new RawStore(to);
    const copy = new Copy({ ...options, ...stores, source, target, targetBlobs, log, holder });
    const report = await copy.run();
    if (to !== undefined) await bindStore(log, to);
    await target.dropSetting(UNFINISHED_COPY);
    return report;
  } finally {
    await log?.releaseLease(LEASE, holder).catch(() => undefined);
    await target?.close();
    await log?.close();
    await source.close();
  }
}

/** The store of the source's blobs. @throws AppError if the source has another one, or one that was not named */
async function sourceStore(source: RawReader, place: S3Place | undefined): Promise<S3Store | undefined> {
  const settings = await source.settings();
  const bound = settings.find(({ name }) => name === BLOB_STORE)?.value;
  if (bound !== undefined && place === undefined) throw missingStore("--from-blobs");
  const store = place && new S3Store(place, systemClock);
  if (store !== undefined) await assertStore({ findSetting: async () => bound }, store, throwIt);
  return store;
}

/** A copy can't do without the store. */
function throwIt(error: unknown): never {
  throw error;
}

/** Takes the lease of a copy. @throws AppError while a lease of another process is alive */
async function assertUnused(log: EventLog, holder: string): Promise<void> {
  const others = (await log.leases()).filter((lease) => lease.holder !== holder);
  const isTaken = others.length > 0 || !(await log.acquireLease(LEASE, holder, LEASE_MS));
  if (!isTaken) return;
  const names = others.map(({ name }) => name).join(", ");
  throw new AppError(`the target is in use (${names}): stop the service or the copy that uses it, and try again`, {
    code: "conflict",
  });
}

interface CopyParts extends CopyOptions {
  readonly source: RawReader;
  readonly target: RawWriter;
  /** Where the source has blobs: in its table, and in a store. */
  readonly sourceBlobs: readonly Pick<RawBlobs, "hashes" | "blobs">[];
  readonly targetBlobs: RawBlobs;
  readonly log: EventLog;
  readonly holder: string;
}

class Copy {
  readonly #parts: CopyParts;
  readonly #damaged: Damage[] = [];
  #events = 0;
  #blobs = 0;
  #copiedEvents = 0;
  #copiedBlobs = 0;
  #renewedMs = Number.NEGATIVE_INFINITY;
  #turnedMs = Number.NEGATIVE_INFINITY;
  #total = 0;

  constructor(parts: CopyParts) {
    this.#parts = parts;
  }

  async run(): Promise<CopyReport> {
    const { source, target, withSecrets } = this.#parts;
    this.#total = await source.countEvents();
    await this.#assertBeginning();
    await target.putSetting(UNFINISHED_COPY, new Date(systemClock.now()).toISOString());
    // Blobs first: an event that names one must find it, wherever a copy was killed.
    for (const blobs of this.#parts.sourceBlobs) await this.#copyBlobs(blobs);
    let streams = 0;
    for await (const stream of this.#streams(source)) {
      await this.#copyStream(stream);
      streams++;
    }
    const secrets = withSecrets ? await source.settings() : [];
    for (const { name, value } of secrets) if (!OWN_SETTINGS.includes(name)) await target.putSetting(name, value);
    const hash = await this.#compare();
    return {
      ...{ streams, hash, events: this.#events, blobs: this.#blobs, damaged: this.#damaged },
      ...{ copiedEvents: this.#copiedEvents, copiedBlobs: this.#copiedBlobs },
    };
  }

  /** The streams that are copied. */
  async *#streams(of: RawReader): AsyncGenerator<RawStream> {
    for (let after = ""; ; ) {
      const page = await of.streams(after, PAGE);
      for (const stream of page) if (this.#parts.withSecrets || !stream.name.startsWith("keys/")) yield stream;
      const last = page.at(-1);
      if (last === undefined) return;
      after = last.name;
    }
  }

  /** Asserts that each stream of the target is a beginning of the source's. @throws AppError */
  async #assertBeginning(): Promise<void> {
    const { source, target } = this.#parts;
    for await (const { name, version } of this.#streams(target)) {
      const [own] = await target.events({ stream: name, from: version, to: version });
      const [other] = await source.events({ stream: name, from: version, to: version });
      if (
        own?.crc === other?.crc &&
        own?.time === other?.time &&
        ((await source.stream(name))?.version ?? 0) >= version
      )
        continue;
      const text = `the target holds other events: ${name} is no beginning of the source's; copy into an empty log`;
      throw new AppError(text, { code: "conflict", meta: { stream: name } });
    }
  }

  /** Renews the lease each second. @throws AppError if a service has begun to use the target */
  async #goOn(progress: CopyProgress): Promise<void> {
    const { log, holder, onProgress, signal } = this.#parts;
    const now = systemClock.monotonic();
    if (now - this.#turnedMs >= TURN_MS) {
      this.#turnedMs = now;
      // SQLite answers within one turn of the event loop, in which no signal arrives.
      await systemClock.sleep(0);
      signal.throwIfAborted();
    }
    if (now - this.#renewedMs < 1_000) return;
    this.#renewedMs = now;
    await assertUnused(log, holder);
    onProgress(progress);
  }

  async #copyBlobs(source: Pick<RawBlobs, "hashes" | "blobs">): Promise<void> {
    const { targetBlobs: target } = this.#parts;
    for (let after: Uint8Array = new Uint8Array(0); ; ) {
      const page = await source.hashes(after, PAGE);
      const last = page.at(-1);
      if (last === undefined) return;
      const known = new Set((await target.hashes(after, PAGE)).map(nameOf));
      const missing = page.filter((hash) => !known.has(nameOf(hash)));
      // Sixteen at a time: a blob may have some megabytes.
      for (let at = 0; at < missing.length; at += 16) {
        const blobs = await source.blobs(missing.slice(at, at + 16));
        for (const { hash, bytes } of blobs) {
          if (nameOf(Bun.SHA256.hash(bytes) as Uint8Array) === nameOf(hash)) continue;
          const text = "the blob is not what its name says; it is copied as it is";
          this.#damaged.push({ where: nameOf(hash), text, isPast: false });
        }
        await target.putBlobs(blobs);
        this.#copiedBlobs += blobs.length;
        await this.#goOn({ step: "blobs", done: this.#blobs + at, of: undefined });
      }
      this.#blobs += page.length;
      after = last;
    }
  }

  async #copyStream({ name, version, headline }: RawStream): Promise<void> {
    const { source, target } = this.#parts;
    const before = await target.stream(name);
    const there = before?.version ?? 0;
    this.#events += there;
    for (let at = there; at < version; ) {
      const events = await source.events({ stream: name, from: at + 1, to: version });
      // Missing records at the end of the stream: its row is moved all the same.
      const to = events.at(-1)?.version ?? version;
      // A headline sums up the whole stream, so it comes with the last records.
      await target.write({ name, version: to, headline: to === version ? headline : null }, events);
      this.#copiedEvents += events.length;
      this.#events += events.length;
      at = to;
      await this.#goOn({ step: "events", done: this.#events, of: this.#total });
    }
    if (there === version && before?.headline !== headline) await target.write({ name, version, headline }, []);
  }

  /** Reads all streams from both logs. Returns the hash of all. @throws AppError if a stream differs */
  async #compare(): Promise<string> {
    const { source, target } = this.#parts;
    const all = new Bun.CryptoHasher("sha256");
    let done = 0;
    for await (const stream of this.#streams(source)) {
      const look = (event: StoredEvent | undefined, at: number) => this.#examine(stream, event, at);
      const [own, other] = [await streamHash(source, stream, look), await streamHash(target, stream)];
      if (own !== other || (await target.stream(stream.name))?.headline !== stream.headline) {
        throw new AppError(`${stream.name} differs in the target after the copy; delete the target and copy again`, {
          code: "internal",
        });
      }
      all.update(`${stream.name} ${own}\n`);
      done += stream.version;
      await this.#goOn({ step: "comparing", done, of: this.#total });
    }
    return all.digest("hex");
  }

  /** Reports a missing or damaged record. Those before a collection was indexed anew are past. */
  #examine({ name, headline }: RawStream, event: StoredEvent | undefined, version: number): void {
    const isWhole = event !== undefined && event.crc === checksum(name, version, event.type, event.time, event.data);
    if (isWhole) return;
    const what = event === undefined ? "the record is missing" : "the record's checksum does not match";
    const text = `${what}; it is copied as it is`;
    this.#damaged.push({ where: name, version, text, isPast: version < baseOf(name, headline) });
  }
}

const nameOf = (hash: Uint8Array): string => Buffer.from(hash).toString("hex");

/** The version at which a collection was indexed anew; 0 for other streams. */
function baseOf(name: string, headline: string | null): number {
  if (!name.startsWith("nft/") || headline === null) return 0;
  try {
    return fromHeadline(JSON.parse(headline)).base;
  } catch {
    return 0;
  }
}

/** SHA-256 over versions, times, types, checksums and bytes. @param look called with each record, or a missing one */
async function streamHash(
  raw: RawReader,
  { name, version }: RawStream,
  look: (event: StoredEvent | undefined, version: number) => void = () => undefined,
): Promise<string> {
  const hasher = new Bun.CryptoHasher("sha256").update(`${version}\n`);
  let next = 1;
  while (next <= version) {
    const events = await raw.events({ stream: name, from: next, to: version });
    for (const event of events) {
      for (; next < event.version; next++) look(undefined, next);
      look(event, next++);
      hasher
        .update(`${event.version} ${event.time} ${event.type} ${event.crc} ${event.data.length} `)
        .update(event.data);
    }
    if (events.length > 0) continue;
    for (; next <= version; next++) look(undefined, next);
  }
  return hasher.digest("hex");
}
