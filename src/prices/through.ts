/**
 * Which tokens of the log another one goes through. By what the linking pools hold, and never by who was asked about first
 * or has the lower address: pools cost nothing to make, and whoever fills places with worthless ones takes nobody's price
 * away. Pure.
 */
import type { Address } from "../core/hex.ts";
import { dollarOf } from "./dollar.ts";
import type { Market } from "./market.ts";
import { depth, type Observation, otherToken, type Pool } from "./pools.ts";
import { floorOf } from "./quote.ts";
import { connectedRoutes } from "./ranking.ts";
import { compare, type Rational, ZERO } from "./rational.ts";

/** Tokens that one answer of the factories may add to those a token goes through: the deepest, counting those it has. */
const MAX_VIA = 4;
/**
 * Tokens one is followed through, beside the reference tokens. Pairs of two followed tokens join as they are created,
 * before anybody can fill them; whoever fills these places with empty ones has paid for each, and a way beyond them is
 * found by asking the factories when there is no price.
 */
export const MAX_LINKS = 64;

/** Raw amounts: within one token they compare as they are. */
const RAW = { decimals0: 0, decimals1: 0 };

/** A token that another one has a pool with. */
export interface Linked {
  readonly address: Address;
  /** What the deepest pool of the two holds of the one that is priced, in smallest units. */
  readonly own: Rational;
}

/**
 * The tokens these pools lead to, the deepest first, then by address. Measured by the side of the token itself: the other
 * side may be of a coin that somebody mints at will, this one costs what it is worth.
 */
export function linked(
  token: Address,
  pools: readonly Pool[],
  stateOf: (pool: Address) => Observation | undefined,
): Linked[] {
  const found = new Map<Address, Rational>();
  for (const pool of pools) {
    const other = otherToken(pool, token);
    const own = ownSide(pool, token, stateOf(pool.address));
    const before = found.get(other);
    if (before === undefined || compare(own, before) > 0) found.set(other, own);
  }
  const links = [...found].map(([address, own]) => ({ address, own }));
  return links.sort((a, b) => compare(b.own, a.own) || (a.address < b.address ? -1 : 1));
}

function ownSide(pool: Pool, token: Address, state: Observation | undefined): Rational {
  const sides = state === undefined ? undefined : depth(state, RAW);
  if (sides === undefined) return ZERO;
  return pool.token0 === token ? sides.side0 : sides.side1;
}

/**
 * The tokens worth going through in a market: those of the deepest routes in dollars, then those that are not worth
 * anything yet. None by an empty pool. What carries the price is the first of them, as it is in the ranking.
 */
export function worthwhile(market: Market, token: Address, links: readonly Linked[]): Set<Address> {
  const filled = links.filter(({ own }) => compare(own, ZERO) > 0).map(({ address }) => address);
  const options = { token, floor: ZERO, accepts: () => true, connectors: filled };
  const routes = connectedRoutes(market, dollarOf(market, floorOf(market)), options, []);
  const deepest = routes.map((route) => route.legs[0]!.quote);
  return new Set([...new Set([...deepest, ...filled])].slice(0, MAX_VIA));
}
