/**
 * Cursors: a walk's snapshot and place, signed. Opaque to clients, good on any replica that has the same secret, and
 * worthless once a single bit is changed.
 */
import { timingSafeEqual } from "node:crypto";
import type { Address, Hash } from "../core/hex.ts";
import type { Position } from "./listing.ts";

/** All that a walk fixes. */
export interface Cursor {
  readonly chainId: number;
  readonly address: Address;
  /** The snapshot. */
  readonly block: number;
  /** Of the snapshot's block; "" where it was final and nobody had its hash. */
  readonly hash: Hash | "";
  /** Of the snapshot's block, seconds since the epoch; undefined where its header was not known. */
  readonly time: number | undefined;
  /** Version of the chain's stream by which the snapshot was made: who goes on must not know less. */
  readonly chainVersion: number;
  readonly position: Position;
  /** Number of the page this cursor asks for; the first page is 0. */
  readonly page: number;
  readonly limit: number;
  readonly hex: boolean;
  readonly holders: boolean;
  /** Total to repeat, or undefined when it was not asked for. */
  readonly total: number | undefined;
  /** Entries left in the range, or undefined when the walk is of the whole listing. */
  readonly left: number | undefined;
}

const FORMAT = 2;
/** 128 bits of HMAC-SHA-256: far beyond guessing, and half the length. */
const TAG_BYTES = 16;

function tag(secret: string, payload: Uint8Array): Buffer {
  return new Bun.CryptoHasher("sha256", secret).update(payload).digest().subarray(0, TAG_BYTES);
}

/** The cursor as text: base64url of tag and payload. */
export function signCursor(cursor: Cursor, secret: string): string {
  const { chainId, address, block, hash, time, chainVersion, position, page, limit, hex, holders, total, left } =
    cursor;
  const fields = [
    FORMAT,
    chainId,
    address.slice(2),
    block,
    hash.slice(2),
    chainVersion,
    position,
    page,
    limit,
    (hex ? 1 : 0) + (holders ? 2 : 0),
    total ?? null,
    left ?? null,
    time ?? null,
  ];
  const payload = Buffer.from(JSON.stringify(fields), "utf8");
  return Buffer.concat([tag(secret, payload), payload]).toString("base64url");
}

/** The cursor in `text`, or undefined when it is not one of ours, to the bit. */
export function openCursor(text: string, secret: string): Cursor | undefined {
  if (!/^[A-Za-z0-9_-]+$/.test(text)) return undefined;
  const bytes = Buffer.from(text, "base64url");
  // Several texts can decode to the same bytes; only the one we gave out counts.
  if (bytes.length <= TAG_BYTES || bytes.toString("base64url") !== text) return undefined;
  const payload = bytes.subarray(TAG_BYTES);
  if (!timingSafeEqual(bytes.subarray(0, TAG_BYTES), tag(secret, payload))) return undefined;
  const fields = JSON.parse(payload.toString("utf8")) as [
    number,
    number,
    string,
    number,
    string,
    number,
    Position,
    number,
    number,
    number,
    number | null,
    number | null,
    number | null | undefined,
  ];
  const [format, chainId, address, block, hash, chainVersion, position, page, limit, flags, total, left, time] = fields;
  if (format !== FORMAT) return undefined;
  return {
    chainId,
    address: `0x${address}` as Address,
    block,
    hash: hash === "" ? "" : (`0x${hash}` as Hash),
    chainVersion,
    position,
    page,
    limit,
    hex: (flags & 1) !== 0,
    holders: (flags & 2) !== 0,
    total: total ?? undefined,
    left: left ?? undefined,
    // Cursors of a release before have none.
    time: time ?? undefined,
  };
}
