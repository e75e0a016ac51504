/** The blobs of a store as rows, for the copy between logs. */
import { type Hash, hexToBytes } from "../core/hex.ts";
import { BLOB_FOLDER, blobName, hashOfName } from "./blob-names.ts";
import type { RawBlob, RawBlobs } from "./raw-log.ts";
import type { S3Store } from "./s3-store.ts";

/** Objects of one list. */
const MOST_LISTED = 1_000;
const hashOf = (bytes: Uint8Array): Hash => `0x${Buffer.from(bytes).toString("hex")}` as Hash;

export class RawStore implements RawBlobs {
  readonly #store: S3Store;

  constructor(store: S3Store) {
    this.#store = store;
  }

  async hashes(after: Uint8Array, limit: number): Promise<Uint8Array[]> {
    const from = after.length === 0 ? "" : blobName(hashOf(after));
    const found: Uint8Array[] = [];
    for (let last = from; found.length < limit; ) {
      const most = Math.min(MOST_LISTED, limit - found.length);
      const names = await this.#store.list(BLOB_FOLDER, { after: last, limit: most });
      for (const name of names) {
        const hash = hashOfName(name);
        if (hash !== undefined) found.push(hexToBytes(hash));
      }
      if (names.length < most) break;
      last = names.at(-1) as string;
    }
    return found;
  }

  async blobs(hashes: readonly Uint8Array[]): Promise<RawBlob[]> {
    const read = async (hash: Uint8Array) => ({ hash, bytes: await this.#store.get(blobName(hashOf(hash))) });
    const found = await Promise.all(hashes.map(read));
    return found.flatMap(({ hash, bytes }) => (bytes === undefined ? [] : [{ hash, bytes }]));
  }

  async putBlobs(blobs: readonly RawBlob[]): Promise<void> {
    await Promise.all(blobs.map(({ hash, bytes }) => this.#store.put(blobName(hashOf(hash)), bytes)));
  }
}
