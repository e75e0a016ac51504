/** Names of the objects in a store of blobs. Their order is that of the hashes, so that a list of names can be compared. */
import type { Hash } from "../core/hex.ts";

/** The folder of all blobs. */
export const BLOB_FOLDER = "blobs/";

/** Two levels of folders, for stores that keep objects as files: a billion blobs are 15,000 files in each. */
export function blobName(hash: Hash): string {
  const digits = hash.slice(2);
  return `${BLOB_FOLDER}${digits.slice(0, 2)}/${digits.slice(2, 4)}/${digits}`;
}

/** The hash of a blob's object; undefined for another object. */
export function hashOfName(name: string): Hash | undefined {
  const [, digits] = /^blobs\/[0-9a-f]{2}\/[0-9a-f]{2}\/([0-9a-f]{64})$/.exec(name) ?? [];
  return digits === undefined ? undefined : (`0x${digits}` as Hash);
}
