/**
 * Pagination cursors: the snapshot and the position of a walk, signed with HMAC. Clients treat them as opaque. Any
 * replica with the same secret accepts them; a change of a single bit makes them invalid.
 */
import { timingSafeEqual } from "node:crypto";
import type { Address, Hash } from "../core/hex.ts";
import type { Position } from "../ledger/rows.ts";

/** All facts that a walk fixes. */
export interface Cursor {
  readonly chainId: number;
  readonly address: Address;
  /** Block of the snapshot. */
  readonly block: number;
  /** Hash of the snapshot's block; "" if the block was final and its hash was not known. */
  readonly hash: Hash | "";
  /** Time of the snapshot's block, in seconds since the epoch; undefined if its header was not known. */
  readonly time: number | undefined;
  /** Version of the chain's stream at the snapshot. A replica that continues the walk must know at least that much. */
  readonly chainVersion: number;
  readonly position: Position;
  /** Number of the page that this cursor requests; the first page is 0. */
  readonly page: number;
  readonly limit: number;
  readonly hex: boolean;
  readonly holders: boolean;
  /** Total that each page repeats, or undefined if the client did not ask for it. */
  readonly total: number | undefined;
  /** Entries left in the range, or undefined if the walk covers the whole listing. */
  readonly left: number | undefined;
}

const FORMAT = 2;
/** 128 bits of HMAC-SHA-256: far beyond guessing, and half the length. */
const TAG_BYTES = 16;

function tag(secret: string, payload: Uint8Array): Buffer {
  return new Bun.CryptoHasher("sha256", secret).update(payload).digest().subarray(0, TAG_BYTES);
}

/** Encodes the cursor as text: base64url of tag and payload. */
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

/** Decodes the cursor in `text`. Returns undefined unless this service signed exactly this text. */
export function openCursor(text: string, secret: string): Cursor | undefined {
  if (!/^[A-Za-z0-9_-]+$/.test(text)) return undefined;
  const bytes = Buffer.from(text, "base64url");
  // Several texts can decode to the same bytes. Accept only the canonical one.
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
    // Cursors of older releases have no time.
    time: time ?? undefined,
  };
}
