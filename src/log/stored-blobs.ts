/**
 * The blobs of a log in an S3-compatible store: content-addressed, written before the event that names them, and read through a
 * bounded cache. Blobs that the log's own table has from before are still read there.
 */
import { LRUCache } from "lru-cache";
import type { Clock } from "../core/clock.ts";
import { countedCache } from "../core/counted-cache.ts";
import { BlobsUnavailable } from "../core/errors.ts";
import { bytesToHex, type Hash } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import { blobName } from "./blob-names.ts";
import type { BlobPage, Blobs } from "./event-log.ts";
import { READ_MAX_BYTES } from "./records.ts";
import type { S3Store } from "./s3-store.ts";

/** Objects that are read at once for one page. */
const AT_ONCE = 32;
/** Memory for blobs that were read ahead, and of pictures that many clients ask for. */
const CACHE_BYTES = 32 * 1024 * 1024;
/** Hashes that are known to be stored. Ten thousand unrevealed tokens share one document, which is sent once. */
const KNOWN = 20_000;
/** How long reads and writes fail at once after the store has failed, so that pages don't wait for it. */
const REST_MS = 1_000;

/** One request to the store has ended. */
export type BlobOutcome = "stored" | "read" | "missing" | "failed";

interface StoredBlobsOptions {
  readonly store: S3Store;
  /** The log's own table. */
  readonly table: Blobs;
  /** Has the log name its store, before the first blob is put there. */
  readonly bind: () => Promise<void>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onOutcome: (outcome: BlobOutcome) => void;
}

export class StoredBlobs implements Blobs {
  readonly #options: StoredBlobsOptions;
  readonly #cache = new LRUCache<Hash, Uint8Array>({
    maxSize: CACHE_BYTES,
    sizeCalculation: (bytes) => 200 + bytes.length,
  });
  readonly #known = countedCache<Hash, true>(KNOWN);
  #binding: Promise<void> | undefined;
  /** The last failure; undefined while the store answers. */
  #failure: BlobsUnavailable | undefined;
  /** No request is sent before this time on the monotonic clock, and then one at a time until one succeeds. */
  #restUntil = 0;
  #isTrying = false;

  constructor(options: StoredBlobsOptions) {
    this.#options = options;
  }

  async putBlob(bytes: Uint8Array): Promise<Hash> {
    const { store, bind } = this.#options;
    const hash = bytesToHex(new Uint8Array(Bun.CryptoHasher.hash("sha256", bytes))) as Hash;
    if (this.#known.has(hash)) return hash;
    this.#binding ??= this.#tried(bind).catch((error: unknown) => {
      this.#binding = undefined;
      throw error;
    });
    await this.#binding;
    await this.#tried(() => store.put(blobName(hash), bytes));
    this.#options.onOutcome("stored");
    this.#known.set(hash, true);
    return hash;
  }

  async getBlob(hash: Hash): Promise<Uint8Array | undefined> {
    const cached = this.#cache.get(hash);
    if (cached !== undefined) return cached;
    const bytes = await this.#tried(() => this.#options.store.get(blobName(hash)));
    this.#options.onOutcome(bytes === undefined ? "missing" : "read");
    if (bytes === undefined) return this.#options.table.getBlob(hash);
    if (bytesToHex(new Uint8Array(Bun.CryptoHasher.hash("sha256", bytes))) !== hash) {
      // Thrown beside the store's own failures: it answers, and the other blobs can be read.
      throw new BlobsUnavailable(`BLOB_URL: blob ${hash} is not what its name says: put it back`, false);
    }
    this.#cache.set(hash, bytes);
    return bytes;
  }

  /** Reads ahead of the bytes that were asked for. What is not returned stays in the cache for the next call. */
  async getBlobs(hashes: readonly Hash[], maxBytes = READ_MAX_BYTES): Promise<BlobPage> {
    const blobs = new Map<Hash, Uint8Array>();
    let [read, size] = [0, 0];
    while (read < hashes.length) {
      const batch = hashes.slice(read, read + AT_ONCE);
      const found = await Promise.all(batch.map((hash) => this.getBlob(hash)));
      for (const [index, bytes] of found.entries()) {
        read++;
        if (bytes === undefined) continue;
        blobs.set(batch[index] as Hash, bytes);
        size += bytes.length;
        if (size > maxBytes) return { blobs, read };
      }
    }
    return { blobs, read };
  }

  /** Asks the store, unless it has just failed. @throws BlobsUnavailable */
  async #tried<T>(ask: () => Promise<T>): Promise<T> {
    const { clock, logger, onOutcome } = this.#options;
    const failed = this.#failure;
    if (failed !== undefined) {
      if (this.#isTrying || clock.monotonic() < this.#restUntil) throw failed;
      this.#isTrying = true;
    }
    try {
      const answer = await ask();
      if (this.#failure !== undefined) logger.info({}, "the store of blobs answers again");
      this.#failure = undefined;
      return answer;
    } catch (error) {
      if (error instanceof BlobsUnavailable) {
        if (this.#failure === undefined) logger.warn({ err: error }, "the store of blobs fails; events are stored on");
        this.#failure = error;
        this.#restUntil = clock.monotonic() + REST_MS;
        onOutcome("failed");
      }
      throw error;
    } finally {
      if (failed !== undefined) this.#isTrying = false;
    }
  }
}
