/** Trades with a pool in whole numbers, as its contract rounds them. Amounts are in the tokens' smallest units. Pure. */
import { type Rational, rational } from "../market/rational.ts";

/** More than a pair's reserve may be. */
export const TOO_MUCH = "the pair can't hold so much of the token";

/** The trade can't be computed exactly; the message is the reason, for clients. */
export class UnknownTrade extends Error {}

/** The trade runs beyond what was read of the pool. A wider read may tell it. */
export class BeyondRead extends UnknownTrade {}

export interface Trade {
  /** What the pool takes, its fee included. */
  readonly paid: bigint;
  readonly given: bigint;
}

/** A pool at one block. Each method sells token0 or token1. @throws UnknownTrade */
export interface Tradable {
  /** What the pool gives for an exact amount. */
  sell(paid: bigint, isToken0: boolean): bigint;
  /** The least sale, but for the rounding of a fee, after which the sold token's price is at most this part of its price before. */
  sellDownTo(part: Rational, isToken0: boolean): Trade;
}

export const magnitude = (value: bigint): bigint => (value < 0n ? -value : value);

/** Fees are in hundredths of a basis point. */
export const MILLION = 1_000_000n;

/** The part at which a price is 2 % lower, or the other token's 2 % higher. */
export const DOWN: Rational = rational(98n, 100n);
export const UP: Rational = rational(100n, 102n);
