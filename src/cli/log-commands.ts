/** `backup`, `restore` and `verify`: the log as a whole. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { evolveChain, initialChainState } from "../chain/view.ts";
import type { Config } from "../config.ts";
import { systemClock } from "../core/clock.ts";
import { AppError, messageOf } from "../core/errors.ts";
import { sqlitePath } from "../core/files.ts";
import { bytesText } from "../core/format.ts";
import { bytesToHex, type Hash } from "../core/hex.ts";
import { silentLogger } from "../core/logger.ts";
import { encodeEvent } from "../events/codec.ts";
import { decodeTokens, NO_HASH, TransferKind } from "../events/columns.ts";
import type { ChainEvent, MetadataEvent, NftEvent, PriceEvent, Recorded, StreamName } from "../events/types.ts";
import { backUpSqlite, restoreSqlite } from "../log/backup.ts";
import type { EventLog, StreamHead } from "../log/event-log.ts";
import { fileFaults, openLog, STREAM_KINDS, strays } from "../log/open.ts";
import { type Collection, evolve, initialState } from "../nft/collections/collection.ts";
import { fromHeadline, type IndexState } from "../nft/collections/headline.ts";
import type { Entry } from "../nft/ledger/entries.ts";
import type { Ledger } from "../nft/ledger/ledger.ts";
import { readSlice } from "../nft/ledger/listing.ts";
import { type Position, rangeOfCode, START } from "../nft/ledger/rows.ts";
import type { Slot } from "../nft/ledger/tables.ts";
import { MetadataBook } from "../nft/metadata/book.ts";
import type { MediaDocument } from "../nft/metadata/media/media.ts";
import { hashOf, type OutcomeDocument } from "../nft/metadata/outcome-documents.ts";
import { blobsOf } from "../nft/metadata/token-texts.ts";
import { evolvePrice, initialPriceState } from "../prices/search/price-streams.ts";
import { CommandError, FAILED, missingLog, openCommandLog, UNAVAILABLE, USAGE } from "./access.ts";
import type { Command, CommandRun } from "./command.ts";

export const backupCommand: Command = {
  name: "backup",
  usage: "backup <file>",
  summary: "Writes a SQLite log to a new file, consistent while a service writes. Includes keys and secrets",
  maxWords: 1,
  run: async (run) => {
    const { file, path } = filesOf(run, "backup", "pg_dump --format=custom --file=<file> <url>");
    if (!existsSync(path)) throw new CommandError(`there is no event log at ${path}`, UNAVAILABLE);
    const bytes = backUpSqlite(path, file);
    const text = `${file}  ${bytesText(bytes)}; it holds keys and secrets: keep it as safe as the log`;
    run.print(run.values["json"] === true ? JSON.stringify({ file, bytes }) : text);
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
      lost.push(...(await faultsOf(copy)));
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

/** The faults of a log: damaged records, missing blobs, parts of the file that can't be read. */
async function faultsOf(path: string): Promise<string[]> {
  const faults: string[] = [];
  const note = (line: string) => void (/WRONG|^file: /.test(line) && faults.push(line));
  try {
    const { wrong } = await verifyLog(`sqlite://${path}`, note);
    return wrong === 0 ? [] : faults;
  } catch (error) {
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
    const { eventLogUrl } = config();
    const missing = missingLog(config());
    if (missing !== undefined)
      throw new CommandError(`EVENT_LOG_URL: there is no event log at ${missing}`, UNAVAILABLE);
    try {
      const report = await verifyLog(eventLogUrl, isJson ? (line) => lines.push(line) : print);
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

// `verify` checks every checksum, version, fold and invariant, the headlines of collections, and the blobs that metadata
// names. A line per stream has a hash of all its records, to compare two copies of a log, and a hash of each listing, to
// compare two services that indexed apart. Damage in one stream does not hide faults of the rest.

/** Heads, records or entries per read. An id range that is longer is hashed as a range. */
const PAGE = 1_000;

type Print = (line: string) => void;

interface VerifyReport {
  readonly streams: number;
  /** Streams, rows and parts of the file with a fault. */
  readonly wrong: number;
}

/** Asserts that the stream ends at the version of its row. A service may be appending meanwhile. */
async function assertEnd(log: EventLog, stream: StreamName, read: number): Promise<void> {
  const behind = await log.read(stream, { from: read + 1, limit: 1 });
  const last = behind.at(-1)?.version ?? read;
  const { version } = await log.head(stream);
  if (last > version) throw new Error(`it goes on to version ${last} or beyond, its row says ${version}`);
}

/** Events from before a collection was indexed anew needn't be readable. Damage among them is told, and is no fault. */
async function verifyStream(log: EventLog, head: StreamHead): Promise<string> {
  const base = head.stream.startsWith("nft/") ? fromHeadline(head.headline).base : 0;
  try {
    return await verifyFrom(log, head, 0);
  } catch (error) {
    if (base === 0) throw error;
    const line = await verifyFrom(log, head, base);
    return `${line} damaged before version ${base}, where it was indexed anew: ${messageOf(error)}`;
  }
}

/** @param base first version to verify; 0 for all */
async function verifyFrom(log: EventLog, head: StreamHead, base: number): Promise<string> {
  const { stream, version } = head;
  const { fold, end } = folding(log, head, base);
  const hasher = new Bun.CryptoHasher("sha256");
  let at = Math.max(0, base - 1);
  while (at < version) {
    const page = await log.read(stream, { from: at + 1, limit: PAGE });
    if (page.length === 0) throw new Error(`it ends at version ${at}, its row says ${version}`);
    for (const recorded of page) {
      await fold(recorded);
      hasher.update(`${recorded.version} ${recorded.time} ${recorded.event.type} `).update(encodeEvent(recorded.event));
    }
    at = page.at(-1)!.version;
  }
  await assertEnd(log, stream, at);
  return `v${version} ${hasher.digest("hex")}${end()}`;
}

/** A stream's head, or its fault. */
type Found = StreamHead | { readonly stream: StreamName; readonly fault: unknown };

/** The streams of a kind. A stream whose row can't be read is returned with its fault, and the rest follows. */
async function* streamsOf(log: EventLog, kind: string): AsyncGenerator<Found> {
  let limit = PAGE;
  for (let after = ""; ; ) {
    try {
      const heads = await log.streams(`${kind}/`, { after, limit });
      const last = heads.at(-1);
      if (last === undefined) return;
      yield* heads;
      after = last.stream;
    } catch (error) {
      const stream = (error as { meta?: { stream?: unknown } }).meta?.stream;
      if (typeof stream !== "string") throw error;
      if (limit === 1) {
        yield { stream: stream as StreamName, fault: error };
        after = stream;
      }
      // One by one up to the one that cannot be read, page by page behind it.
      limit = limit === 1 ? PAGE : 1;
    }
  }
}

async function verifyStreams(log: EventLog, print: Print): Promise<{ streams: number; wrong: number }> {
  let [streams, wrong] = [0, 0];
  for (const kind of STREAM_KINDS) {
    for await (const found of streamsOf(log, kind)) {
      streams++;
      try {
        if ("fault" in found) throw found.fault;
        print(`${found.stream} ${await verifyStream(log, found)}`);
      } catch (error) {
        wrong++;
        const { meta } = error as { meta?: { version?: unknown } };
        const where = meta?.version === undefined ? "" : ` (version ${String(meta.version)})`;
        print(`${found.stream} WRONG: ${messageOf(error)}${where}`);
      }
    }
  }
  return { streams, wrong };
}

/**
 * Verifies a log. A service may append to it meanwhile.
 * @param print takes a line per stream, and the faults
 * @throws AppError if the log can't be opened
 */
export async function verifyLog(url: string, print: Print): Promise<VerifyReport> {
  const faults = fileFaults(url);
  for (const fault of faults) print(`file: ${fault}`);
  if (faults.some((fault) => fault.startsWith("there is no file"))) return { streams: 0, wrong: faults.length };
  const log = await openLog(url, systemClock, silentLogger);
  try {
    const { streams, wrong } = await verifyStreams(log, print);
    const strayed = await strays(url);
    for (const stray of strayed) print(`WRONG: ${stray}`);
    const all = faults.length + wrong + strayed.length;
    print(`${streams} streams, ${all} wrong`);
    return { streams, wrong: all };
  } finally {
    // Its threads would keep this process from ending.
    await log.close();
  }
}

// The folds of `verify`: those of the service, with the checks that a start leaves out.

/** Folds a stream like the service does, and throws at a violated invariant. */
interface Folding {
  fold(recorded: Recorded): unknown;
  /** A summary of the whole stream. */
  end(): string;
}

function folding(log: EventLog, { stream, headline }: StreamHead, base: number): Folding {
  const kind = stream.slice(0, stream.indexOf("/"));
  if (kind === "nft") {
    const state = initialState(base);
    return {
      fold: ({ event, version, time }) => evolve(state, event as NftEvent, version, time),
      end: () => {
        if (headline !== undefined) assertHeadline(state, fromHeadline(headline));
        return ` ${state.status} end=${state.end?.number ?? "none"} listing=${listingHash(state)}`;
      },
    };
  }
  if (kind === "chain") {
    const state = initialChainState();
    return {
      fold: ({ event, version }) => evolveChain(state, event as ChainEvent, version),
      end: () => ` head=${state.head?.number ?? "none"} finalized=${state.finalized?.number ?? "none"}`,
    };
  }
  if (kind === "metadata") {
    const book = new MetadataBook();
    let blobs = 0;
    return {
      fold: async ({ event, version, time }) => {
        book.evolve(event as MetadataEvent, version, time);
        blobs += await verifyBlobs(log, event as MetadataEvent);
      },
      end: () => ` resolved=${book.resolved} failed=${book.failed} blobs=${blobs}`,
    };
  }
  if (kind === "keys" || kind === "usage") return { fold: () => undefined, end: () => "" };
  let state = initialPriceState;
  return {
    fold: ({ event }) => {
      state = evolvePrice(state, event as PriceEvent);
    },
    end: () => "",
  };
}

/** Asserts that a headline agrees with the events. A start relies on headlines. @throws Error naming the field */
function assertHeadline(
  { status, end, identified, possibleSpam, verifiedCollection }: Collection,
  said: IndexState,
): void {
  const expected: Partial<IndexState> = {
    end: end?.number ?? -1,
    endHash: end?.hash ?? "",
    startBlock: identified?.startBlock ?? 0,
    forms: identified?.forms ?? [],
    spam: possibleSpam,
    verified: verifiedCollection,
    // Headlines of older releases lack the name.
    ...(said.name === null || identified === undefined ? {} : { name: identified.name, symbol: identified.symbol }),
    ...(said.status === "following" ? { status: status === "synced" ? "following" : "joining" } : {}),
    // A repeated request leaves the result in the events until the new identification.
    ...((status === "not_nft" || status === "not_a_contract") && said.status !== "requested" ? { status } : {}),
  };
  for (const [name, value] of Object.entries(expected)) {
    const other = said[name as keyof IndexState];
    if (String(other) !== String(value)) throw new Error(`its headline says ${name}=${other}, its events ${value}`);
  }
}

/** Checks the blobs that an event names, and those that these name, and returns their number. */
async function verifyBlobs(log: EventLog, event: MetadataEvent): Promise<number> {
  if (!("tokens" in event)) return 0;
  const documents = namesOf(event.tokens);
  const named: Hash[] = [];
  await eachBlob(log, documents, (bytes) => {
    const { body, previews = [] } = JSON.parse(Buffer.from(bytes).toString()) as Partial<
      OutcomeDocument & MediaDocument
    >;
    named.push(...(body === undefined ? [] : [body]), ...previews.map(({ hash }) => hash));
  });
  await eachBlob(log, [...new Set(named)], () => undefined);
  return documents.length + named.length;
}

function namesOf(tokens: Uint8Array): Hash[] {
  const { count, hashes } = decodeTokens(tokens);
  const names = Array.from({ length: count }, (_, i) => bytesToHex(hashes.subarray(i * 32, i * 32 + 32)) as Hash);
  return [...new Set(names)].filter((name) => name !== NO_HASH);
}

async function eachBlob(log: EventLog, hashes: readonly Hash[], visit: (bytes: Uint8Array) => void): Promise<void> {
  for await (const [hash, bytes] of blobsOf(log, hashes)) {
    if (bytes === undefined) throw new Error(`blob ${hash} is missing`);
    if (hashOf(bytes) !== hash) throw new Error(`blob ${hash} is not what its name says`);
    visit(bytes);
  }
}

/** Hashes the listings of all lives at their ends. */
function listingHash({ earlier, ledger, end }: Collection): string {
  if (end === undefined) return "none";
  const hasher = new Bun.CryptoHasher("sha256");
  for (const life of [...earlier, { ledger, until: end.number }]) hashListing(hasher, life.ledger, life.until);
  return hasher.digest("hex").slice(0, 16);
}

/**
 * Hashes every (id, owner) with its amount and blocks, in the listing's order. An id range longer than a page is hashed
 * as a range, with the ids that moved: one event may stand for more ids than a walk can visit.
 */
function hashListing(hasher: Bun.CryptoHasher, ledger: Ledger, at: number): void {
  for (const holders of [false, true]) {
    for (let from: Position | undefined = START; from !== undefined; ) {
      const slice: ReturnType<typeof readSlice> = readSlice(ledger, { block: at, holders, from, limit: PAGE });
      const ranges = slice.entries.map((entry) => longRangeOf(ledger, entry, holders));
      const inRange = ranges.findIndex((range) => range >= 0);
      for (const { kind, id, owner, amount, block, blockMinted } of slice.entries.slice(
        0,
        inRange < 0 ? PAGE : inRange,
      )) {
        const holder = owner < 0 ? "" : ledger.addresses.hex(owner);
        hasher.update(`${kind} ${id} ${holder} ${amount} ${block} ${blockMinted}\n`);
      }
      from = inRange < 0 ? slice.next : behind(ledger, ranges[inRange]!, slice.starts[inRange]!);
    }
  }
  for (const line of longRanges(ledger)) hasher.update(`${line}\n`);
}

const isLong = (range: { readonly count: number } | undefined): boolean => range !== undefined && range.count > PAGE;

/**
 * The long range that an entry belongs to, or -1. With holders, only the entry of the range's first owner belongs to
 * it.
 */
function longRangeOf({ rows }: Ledger, { kind, id, owner }: Entry, holders: boolean): number {
  const range = kind === TransferKind.erc721 ? rows.rangeOf(BigInt(id)) : -1;
  return isLong(rows.ranges[range]) && (!holders || rows.ranges[range]?.to === owner) ? range : -1;
}

/** The position after a range. */
function behind({ rows }: Ledger, range: number, at: number | Position): Position {
  if (typeof at !== "number") return [at[0], range + 1, 0, at[3]];
  const { firstRow, count } = rows.ranges[range]!;
  return [firstRow + count, 0, 0, 0];
}

function* longRanges({ rows, tokens, links, owners, addresses }: Ledger): Generator<string> {
  for (const { id, count, to, block } of rows.ranges.filter(isLong)) {
    yield `range ${id} ${count} ${addresses.hex(to)} ${block}`;
  }
  for (let slot = 0 as Slot; rows.ranges.length > 0 && slot < tokens.count; slot++) {
    const [first, tail] = [links.first(slot), links.tail(slot)];
    if (first >= -1 || !isLong(rows.ranges[rangeOfCode(first)])) continue;
    yield `moved ${tokens.id(slot)} ${addresses.hex(links.owner(slot))} ${owners.block(tail)}`;
  }
}
