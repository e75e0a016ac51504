/**
 * Tokens and the hashes of their documents in columns, for events that name thousands of tokens.
 *
 * Layout, little endian: u8 format (1) · u32 count · kinds (u8 each) · u8 width of an id (4, 8, 32) · ids · 32-byte hashes.
 */
import { InvariantError } from "../core/errors.ts";
import type { Hash } from "../core/hex.ts";
import type { TransferKind } from "./columns.ts";

/** A token of a collection and the hash of a document about it. The zero hash stands for no document. */
export interface TokenHash {
  readonly kind: TransferKind;
  readonly id: bigint;
  readonly hash: Hash;
}

interface TokenColumns {
  readonly count: number;
  readonly kinds: Uint8Array;
  /** u32 words of an id, lowest first. */
  readonly words: 1 | 2 | 8;
  readonly ids: Uint32Array;
  /** 32 bytes each. */
  readonly hashes: Uint8Array;
}

export const NO_HASH = `0x${"0".repeat(64)}` as Hash;
const TOKENS_FORMAT = 1;
const HEAD_BYTES = 5;

/** Encodes the columns. */
export function encodeTokens(tokens: readonly TokenHash[]): Uint8Array {
  const count = tokens.length;
  let largest = 0n;
  for (const { id } of tokens) if (id > largest) largest = id;
  const width = largest < 1n << 32n ? 4 : largest < 1n << 64n ? 8 : 32;
  const bytes = new Uint8Array(HEAD_BYTES + count + 1 + count * (width + 32));
  const view = new DataView(bytes.buffer);
  bytes[0] = TOKENS_FORMAT;
  view.setUint32(1, count, true);
  const idsAt = HEAD_BYTES + count + 1;
  bytes[idsAt - 1] = width;
  tokens.forEach(({ kind, id, hash }, index) => {
    bytes[HEAD_BYTES + index] = kind;
    let rest = id;
    for (let w = 0; w < width; w += 4) {
      view.setUint32(idsAt + index * width + w, Number(rest & 0xffff_ffffn), true);
      rest >>= 32n;
    }
    bytes.set(Buffer.from(hash.slice(2), "hex"), idsAt + count * width + index * 32);
  });
  return bytes;
}

/** Decodes columns. @throws InvariantError if they are cut off, too long or of an unknown format */
export function decodeTokens(bytes: Uint8Array): TokenColumns {
  if (bytes.length < HEAD_BYTES || bytes[0] !== TOKENS_FORMAT)
    throw new InvariantError("token columns of unknown format");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const count = view.getUint32(1, true);
  const idsAt = HEAD_BYTES + count + 1;
  const width = bytes[idsAt - 1] ?? 0;
  if (width !== 4 && width !== 8 && width !== 32) throw new InvariantError("token columns are cut off");
  const hashesAt = idsAt + count * width;
  if (bytes.length !== hashesAt + count * 32) throw new InvariantError("token columns have the wrong length");
  // Copy, because typed arrays must be aligned.
  const ids = new Uint32Array(bytes.slice(idsAt, hashesAt).buffer);
  const words = (width / 4) as 1 | 2 | 8;
  return { count, kinds: bytes.subarray(HEAD_BYTES, idsAt - 1), words, ids, hashes: bytes.subarray(hashesAt) };
}
