/**
 * What a price stream's headline says of its being followed, so that a process that only reads the log knows which of
 * its pools are kept true by another. A session is one unbroken stretch of following by one process; the reference
 * stream's headline names the one under way, and any other stream's words count only while its session is that one. Its
 * name begins with a fingerprint of the factories and reference tokens that its process goes by.
 */
import type { Headline } from "../log/port.ts";

export interface Coverage {
  readonly session: string | undefined;
  /**
   * Every change of the stream's pools at or after this block is in the stream before a head beyond it is shown, and so
   * is what they were at the block before it. Undefined: not followed.
   */
  readonly from: number | undefined;
  /** Pools the stream had when this was written: one added since, by somebody else, is not followed yet. */
  readonly pools: number;
}

export const UNCOVERED: Coverage = { session: undefined, from: undefined, pools: 0 };

export const headlineOf = ({ session, from, pools }: Coverage): Headline => ({
  session: session ?? null,
  from: from ?? null,
  pools,
});

export function coverageOf(headline: Headline | undefined): Coverage {
  const { session, from, pools } = headline ?? {};
  return {
    session: typeof session === "string" ? session : undefined,
    from: typeof from === "number" ? from : undefined,
    pools: typeof pools === "number" ? pools : 0,
  };
}

export const sameCoverage = (a: Coverage, b: Coverage): boolean =>
  a.session === b.session && a.from === b.from && a.pools === b.pools;
