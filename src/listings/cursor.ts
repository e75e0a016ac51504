/**
 * Pagination cursors: the snapshot and the position of a walk, signed with HMAC. Clients treat them as opaque. Any
 * replica with the same secret accepts them; a change of a single bit makes them invalid.
 */
import { timingSafeEqual } from "node:crypto";
import type { Address, Hash } from "../core/hex.ts";
import type { Position } from "../ledger/rows.ts";
import type { Walk } from "./walk.ts";

const FORMAT = 2;
/** 128 bits of HMAC-SHA-256: far beyond guessing, and half the length. */
const TAG_BYTES = 16;

function tag(secret: string, payload: Uint8Array): Buffer {
  return new Bun.CryptoHasher("sha256", secret).update(payload).digest().subarray(0, TAG_BYTES);
}

/** Encodes a walk as text: base64url of tag and payload. */
export function signCursor(walk: Walk, secret: string): string {
  const { chainId, address, block, hash, time, chainVersion, position, page, limit, hex, holders, total, left } = walk;
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

/** Decodes the walk in `text`. Returns undefined unless this service signed exactly this text. */
export function openCursor(text: string, secret: string): (Walk & { readonly block: number }) | undefined {
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
