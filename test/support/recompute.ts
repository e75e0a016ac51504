/** Computes a price from its provenance, as any client could. It shares no code with the service. */
import type { PriceRecord, RouteLeg } from "../../src/prices/models.ts";

export interface Fraction {
  readonly n: bigint;
  readonly d: bigint;
}

const times = (a: Fraction, b: Fraction): Fraction => ({ n: a.n * b.n, d: a.d * b.d });
const over = (a: Fraction, b: Fraction): Fraction => ({ n: a.n * b.d, d: a.d * b.n });
const less = (a: Fraction, b: Fraction): Fraction => (a.n * b.d < b.n * a.d ? a : b);
const ONE: Fraction = { n: 1n, d: 1n };

/** Returns the double nearest to a fraction. Writes enough digits and lets the language parse them exactly. */
export function nearest({ n, d }: Fraction): number {
  const places = 60 + d.toString().length;
  return Number(`${(n * 10n ** BigInt(places)) / d}e-${places}`);
}

/** Returns the other token of the pool, and its whole tokens for one whole `base`. */
function through(leg: RouteLeg, base: string): { price: Fraction; other: string } {
  const unit0 = 10n ** BigInt(leg.decimals0);
  const unit1 = 10n ** BigInt(leg.decimals1);
  const raw =
    leg.sqrtPriceX96 === undefined
      ? { n: BigInt(leg.reserve1!), d: BigInt(leg.reserve0!) }
      : { n: BigInt(leg.sqrtPriceX96) ** 2n, d: 1n << 192n };
  const price0 = { n: raw.n * unit0, d: raw.d * unit1 };
  return leg.token0 === base ? { price: price0, other: leg.token1 } : { price: over(ONE, price0), other: leg.token0 };
}

/** Returns dollars and whole native coins for one whole token. */
export function recompute(record: Required<PriceRecord>): { usd: Fraction; native: Fraction } {
  const { route, nativeRoute } = record.provenance;
  const coin = record.nativePrice!.address;
  let base: string = record.tokenAddress;
  let usd = ONE;
  let native = base === coin ? ONE : undefined;
  for (const leg of route) {
    const { price, other } = through(leg, base);
    usd = times(usd, price);
    base = other;
    if (base === coin) native = usd;
  }
  return { usd, native: native ?? over(usd, through(nativeRoute![0]!, coin).price) };
}

/** Takes the smaller side of each pool on the route. Returns the least, in dollars. */
export function depthUsd(record: Required<PriceRecord>): Fraction {
  let base: string = record.tokenAddress;
  const legs = record.provenance.route.map((leg) => {
    const from = base;
    const { price, other } = through(leg, from);
    base = other;
    return { leg, from, price };
  });
  let least: Fraction | undefined;
  for (const [index, { leg, from, price }] of legs.entries()) {
    const rest = legs.slice(index + 1).reduce((sum, { price: next }) => times(sum, next), ONE);
    const [own, quote] = leg.token0 === from ? [side(leg, 0), side(leg, 1)] : [side(leg, 1), side(leg, 0)];
    const depth = times(less(times(own, price), quote), rest);
    least = least === undefined ? depth : less(least, depth);
  }
  return least!;
}

/** Whole tokens on one side: the reserve or virtual reserve, capped by the pool's balance. */
function side(leg: RouteLeg, index: 0 | 1): Fraction {
  const unit = 10n ** BigInt(index === 0 ? leg.decimals0 : leg.decimals1);
  const root = BigInt(leg.sqrtPriceX96 ?? 1);
  const liquidity = BigInt(leg.liquidity ?? 0);
  const reserve = BigInt((index === 0 ? leg.reserve0 : leg.reserve1) ?? 0);
  const virtual = index === 0 ? { n: liquidity << 96n, d: root } : { n: liquidity * root, d: 1n << 96n };
  const amount = leg.sqrtPriceX96 === undefined ? { n: reserve, d: 1n } : virtual;
  const balance = index === 0 ? leg.balance0 : leg.balance1;
  const capped = balance === undefined ? amount : less(amount, { n: BigInt(balance), d: 1n });
  return { n: capped.n, d: capped.d * unit };
}
