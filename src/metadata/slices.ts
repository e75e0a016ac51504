/**
 * Splits long work on the request thread into slices. The metadata of a page may be megabytes per token, and its author
 * may have made it slow on purpose.
 */
import type { Hash } from "../core/hex.ts";
import type { EventLog } from "../log/port.ts";

/** Bytes per slice: 1 ms, or 8 ms for content that is made to be slow. */
const SLICE_BYTES = 64 * 1024;
/** Bytes per read of the log. The content's author can't exceed it. */
const READ_BYTES = 256 * 1024;

/** Counts the bytes of a slice. */
export class Slices {
  #bytes = 0;

  /** Adds `bytes`. Returns true if the slice is full, and the caller should await `otherWork`. */
  isOver(bytes: number): boolean {
    this.#bytes += bytes;
    if (this.#bytes < SLICE_BYTES) return false;
    this.#bytes = 0;
    return true;
  }
}

/** Reads the blobs in the order of their hashes, as the caller takes them; undefined for one that is not stored. */
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
