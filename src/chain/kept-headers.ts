/**
 * What is kept of a chain whose newest blocks may be reverted, so that memory is bounded however far finality lags: headers,
 * thinned out below the newest ones, and which blocks reorganisations took back. Pure.
 */
import type { HeaderRef, RevertedRange } from "../events/types.ts";

/** Most reorganisations that are kept. The oldest two are then taken for one, which is as deep as the deeper one. */
const MAX_REVERTS = 512;

/** How many headers above the final block are kept, however many blocks there are. */
export interface HeaderBounds {
  /** With more, they are thinned out. Older releases held up to 8,192 for a moment, and their logs replay unchanged. */
  readonly most: number;
  /** All headers of so many newest blocks stay. */
  readonly newest: number;
  /** Below, so many stay of each range of blocks that is as long as its distance from the head. */
  readonly perDoubling: number;
}

/** At 2^32 blocks behind the head 1,024 + 22 × 128 = 3,840 headers are left. A revert goes at most 1 % too deep. */
export const HEADER_BOUNDS: HeaderBounds = { most: 8_448, newest: 1_024, perDoubling: 128 };

/** Keeps a reorganisation, in place of earlier ones that went no deeper. */
export function keepRevert(before: readonly RevertedRange[], revert: RevertedRange): RevertedRange[] {
  const kept = before.filter(({ ancestor }) => ancestor < revert.ancestor);
  const top = Math.max(revert.top, ...before.map((earlier) => (kept.includes(earlier) ? -1 : earlier.top)));
  const [oldest, next, ...later] = [...kept, { ...revert, top }];
  if (later.length + 2 <= MAX_REVERTS || oldest === undefined || next === undefined)
    return [...kept, { ...revert, top }];
  return [{ version: next.version, ancestor: oldest.ancestor, top: Math.max(oldest.top, next.top) }, ...later];
}

/**
 * The headers that are left of many: the newest ones, the lowest one, and of the others the highest one of each bucket.
 * Buckets are as wide as a fixed share of their distance from the head.
 */
export function thinnedOut(headers: readonly HeaderRef[], { newest, perDoubling }: HeaderBounds): HeaderRef[] {
  const falling = [...headers].sort((a, b) => b.number - a.number);
  const head = falling[0]?.number ?? 0;
  let bucket = "";
  return falling
    .filter(({ number }, at) => {
      const distance = head - number;
      if (distance < newest || at === falling.length - 1) return true;
      let range = newest;
      while (range * 2 <= distance) range *= 2;
      const width = Math.max(1, range / perDoubling);
      const own = `${width}/${Math.floor(number / width)}`;
      const isFirst = own !== bucket;
      bucket = own;
      return isFirst;
    })
    .reverse();
}
