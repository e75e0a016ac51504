/**
 * Long work on the request thread in slices: what was written for the sake of a page may be megabytes a token, and
 * whoever wrote it is a stranger.
 */
import type { Hash } from "../core/hex.ts";
import type { EventLog } from "../log/port.ts";

/** Bytes worked on in one go: a millisecond, or eight of what was made to take long. */
const SLICE_BYTES = 64 * 1024;
/** Bytes of one read, which nobody can make longer. */
const READ_BYTES = 256 * 1024;

/** Counts what is worked on, a slice at a time. */
export class Slices {
  #bytes = 0;

  /** Whether others are to have their turn (`otherWork`) after so many bytes more. */
  isOver(bytes: number): boolean {
    this.#bytes += bytes;
    if (this.#bytes < SLICE_BYTES) return false;
    this.#bytes = 0;
    return true;
  }
}

/** The blobs of the hashes in their order, read as they are taken; undefined for one that is not stored. */
export async function* blobsOf(
  log: EventLog,
  hashes: readonly Hash[],
): AsyncGenerator<readonly [Hash, Uint8Array | undefined]> {
  for (let from = 0; from < hashes.length; ) {
    const { blobs, read } = await log.getBlobs(hashes.slice(from), READ_BYTES);
    for (const hash of hashes.slice(from, from + read)) yield [hash, blobs.get(hash)];
    from += read;
  }
}
