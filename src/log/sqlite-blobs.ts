/** The blobs in the table of a SQLite log. Writes go through the writer worker, reads through a connection of the caller. */
import type { Database } from "bun:sqlite";
import { bytesToHex, type Hash, hexToBytes } from "../core/hex.ts";
import { yieldToEventLoop } from "../core/turns.ts";
import type { BlobPage, Blobs } from "./event-log.ts";
import { READ_MAX_BYTES } from "./records.ts";
import type { WriterClient } from "./sqlite-writer-client.ts";

/** Blobs that are read without a pause. In an old log, SQLite compares a key with whole blobs, which takes up to a millisecond. */
const LOOKUPS = 16;

export class SqliteBlobs implements Blobs {
  readonly #writer: WriterClient;
  readonly #reader: Database;

  constructor(writer: WriterClient, reader: Database) {
    this.#writer = writer;
    this.#reader = reader;
  }

  async putBlob(bytes: Uint8Array): Promise<Hash> {
    const hash = new Uint8Array(Bun.CryptoHasher.hash("sha256", bytes));
    await this.#writer.call({ op: "blob", hash, bytes });
    return bytesToHex(hash) as Hash;
  }

  async getBlob(hash: Hash): Promise<Uint8Array | undefined> {
    const row = this.#reader
      .query<{ bytes: Uint8Array }, [Uint8Array]>("SELECT bytes FROM blobs WHERE hash = ?")
      .get(hexToBytes(hash));
    return row?.bytes;
  }

  async getBlobs(hashes: readonly Hash[], maxBytes = READ_MAX_BYTES): Promise<BlobPage> {
    const query = this.#reader.query<{ bytes: Uint8Array }, [Uint8Array]>("SELECT bytes FROM blobs WHERE hash = ?");
    const blobs = new Map<Hash, Uint8Array>();
    let [read, bytes] = [0, 0];
    for (const hash of hashes) {
      if (read > 0 && read % LOOKUPS === 0) await yieldToEventLoop();
      const row = query.get(hexToBytes(hash));
      read++;
      if (row === null) continue;
      blobs.set(hash, row.bytes);
      bytes += row.bytes.length;
      if (bytes > maxBytes) break;
    }
    return { blobs, read };
  }
}
