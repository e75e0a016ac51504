/**
 * `verify` checks every checksum, version, fold and invariant, the headlines of collections, and the blobs that metadata
 * names. A line per stream has a hash of all its records, to compare two copies of a log, and a hash of each listing, to
 * compare two services that indexed apart. Damage in one stream does not hide faults of the rest.
 */
import type { Chains } from "../chains/chains.ts";
import { systemClock } from "../core/clock.ts";
import { BlobsUnavailable, messageOf } from "../core/errors.ts";
import { silentLogger } from "../core/logger.ts";
import type { S3Place } from "../core/s3-place.ts";
import { encodeEvent } from "../events/codec.ts";
import type { StreamName } from "../events/types.ts";
import type { EventLog, StreamHead } from "../log/event-log.ts";
import { fileFaults, STREAM_KINDS, strays } from "../log/faults.ts";
import { openLog } from "../log/open.ts";
import { fromHeadline } from "../nft/collections/headline.ts";
import { folding } from "./verify-folds.ts";

/** Heads or records per read. */
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
async function verifyStream(log: EventLog, head: StreamHead, chains: Chains): Promise<string> {
  const base = head.stream.startsWith("nft/") ? fromHeadline(head.headline).base : 0;
  try {
    return await verifyFrom(log, head, 0, chains);
  } catch (error) {
    if (base === 0) throw error;
    const line = await verifyFrom(log, head, base, chains);
    return `${line} damaged before version ${base}, where it was indexed anew: ${messageOf(error)}`;
  }
}

/** @param base first version to verify; 0 for all */
async function verifyFrom(log: EventLog, head: StreamHead, base: number, chains: Chains): Promise<string> {
  const { stream, version } = head;
  const { fold, end } = folding(log, head, base, chains);
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
  return `v${version} ${hasher.digest("hex")}${await end()}`;
}

/** A stream's head, or its fault. */
type FoundStream = StreamHead | { readonly stream: StreamName; readonly fault: unknown };

/** The streams of a kind. A stream whose row can't be read is returned with its fault, and the rest follows. */
async function* streamsOf(log: EventLog, kind: string): AsyncGenerator<FoundStream> {
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

async function verifyStreams(log: EventLog, print: Print, chains: Chains): Promise<{ streams: number; wrong: number }> {
  let [streams, wrong] = [0, 0];
  for (const kind of STREAM_KINDS) {
    for await (const found of streamsOf(log, kind)) {
      streams++;
      try {
        if ("fault" in found) throw found.fault;
        print(`${found.stream} ${await verifyStream(log, found, chains)}`);
      } catch (error) {
        // No fault of the log: it can be verified once its store answers.
        if (error instanceof BlobsUnavailable && error.retryable) throw error;
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
 * @param blobs the store of the log's blobs, if they are not in its own table
 * @param chains those whose prices can be recomputed
 * @throws AppError if the log can't be opened, or the store of its blobs can't be reached
 */
export async function verifyLog(
  url: string,
  print: Print,
  { blobs, chains }: { readonly blobs?: S3Place | undefined; readonly chains: Chains },
): Promise<VerifyReport> {
  const faults = fileFaults(url);
  for (const fault of faults) print(`file: ${fault}`);
  if (faults.some((fault) => fault.startsWith("there is no file"))) return { streams: 0, wrong: faults.length };
  const log = await openLog(url, systemClock, silentLogger, { blobs });
  try {
    const { streams, wrong } = await verifyStreams(log, print, chains);
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
