/** The blobs in the table of a PostgreSQL log. */
import { bytesToHex, type Hash, hexToBytes } from "../core/hex.ts";
import type { BlobPage, Blobs } from "./event-log.ts";
import { READ_MAX_BYTES } from "./records.ts";

/** The log's own ways to its server: a read is repeated if its connection dies, a write is not. */
interface LogQueries {
  query<T>(text: string, parameters: unknown[]): Promise<T[]>;
  read<T>(text: string, parameters: unknown[]): Promise<T[]>;
}

export class PostgresBlobs implements Blobs {
  readonly #server: LogQueries;

  constructor(server: LogQueries) {
    this.#server = server;
  }

  async putBlob(bytes: Uint8Array): Promise<Hash> {
    const hash = new Uint8Array(Bun.CryptoHasher.hash("sha256", bytes));
    await this.#server.query("INSERT INTO blobs (hash, bytes) VALUES ($1, $2) ON CONFLICT DO NOTHING", [hash, bytes]);
    return bytesToHex(hash) as Hash;
  }

  async getBlob(hash: Hash): Promise<Uint8Array | undefined> {
    const [row] = await this.#server.read<{ bytes: Uint8Array }>("SELECT bytes FROM blobs WHERE hash = $1", [
      hexToBytes(hash),
    ]);
    return row === undefined ? undefined : new Uint8Array(row.bytes);
  }

  async getBlobs(hashes: readonly Hash[], maxBytes = READ_MAX_BYTES): Promise<BlobPage> {
    if (hashes.length === 0) return { blobs: new Map(), read: 0 };
    // As for events, the server stops at a running sum of sizes.
    const rows = await this.#server.read<{ place: string; hash: Uint8Array; bytes: Uint8Array; upTo: string }>(
      `SELECT place, hash, bytes, up_to AS "upTo" FROM (
         SELECT asked.place, blobs.hash, blobs.bytes, octet_length(blobs.bytes) AS size,
                sum(octet_length(blobs.bytes)) OVER (ORDER BY asked.place) AS up_to
         FROM jsonb_array_elements_text($1::text::jsonb) WITH ORDINALITY AS asked (name, place)
         JOIN blobs ON blobs.hash = decode(asked.name, 'hex')
       ) AS sized WHERE up_to - size <= $2 ORDER BY place`,
      [JSON.stringify(hashes.map((hash) => hash.slice(2))), maxBytes],
    );
    const last = rows.at(-1);
    const isCut = last !== undefined && Number(last.upTo) > maxBytes;
    return {
      blobs: new Map(rows.map((row) => [bytesToHex(row.hash) as Hash, new Uint8Array(row.bytes)])),
      read: isCut ? Number(last.place) : hashes.length,
    };
  }
}
