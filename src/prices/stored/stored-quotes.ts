/**
 * Quotes to and from what is stored of them. A stored price has the states of the pools on its route up to the coin; the
 * coin's own pool is told once a head, for all tokens. A quote that is made from both is the one that was answered, and
 * everything after it is the same code. Pure.
 */
import type { Chain } from "../../chains/chains.ts";
import { exchangesOf } from "../../chains/exchanges.ts";
import type { Address } from "../../core/hex.ts";
import { encodeState, PRICE_FLAGS, type StoredPrice, type StoredState } from "../../events/price-columns.ts";
import type { PoolDiscovered } from "../../events/types.ts";
import { decimalsOf, type Market, type Side, sideOf } from "../market/market.ts";
import type { Observation, Pool, PoolId } from "../market/pools.ts";
import { confidence, type Quote } from "../market/quote.ts";
import { alone, type Route, through } from "../market/ranking.ts";
import {
  divide,
  invert,
  multiply,
  ONE,
  powerOfTen,
  type Rational,
  rational,
  toDouble,
  truncate,
} from "../market/rational.ts";
import type { BookHead } from "./price-book.ts";

/** A pool as the log has it. */
export type StoredPool = Omit<PoolDiscovered, "type" | "block">;

export const toStoredPool = (pool: Pool): StoredPool => ({
  ...{ pool: pool.id, factory: pool.factory, style: pool.style, fee: pool.fee },
  ...{ token0: pool.token0, token1: pool.token1 },
  ...(pool.stableCurve ? { stableCurve: true } : {}),
  ...(pool.key === undefined ? {} : { key: pool.key }),
});

/** Exchanges of a chain by their factories. Undefined factories rank after all. */
function toPool(chain: Chain, stored: StoredPool): Pool | undefined {
  const deployment = exchangesOf(chain).find(({ factory }) => factory === stored.factory);
  if (deployment === undefined) return undefined;
  return {
    ...{ id: stored.pool, factory: stored.factory, style: deployment.style, fee: stored.fee },
    ...{ token0: stored.token0, token1: stored.token1, stableCurve: stored.stableCurve === true },
    ...{ exchange: deployment.exchange.displayName, rank: deployment.exchange.rank },
    ...(stored.key === undefined ? {} : { key: stored.key }),
  };
}

/** @param numberOf the number of a pool in the stream */
function stateOf({ pool, observation }: Side, market: Market, numberOf: (pool: PoolId) => number): StoredState {
  const { reading, balance0, balance1, given, traded } = observation;
  // A side exists only if the decimals of both tokens are known.
  const { decimals0, decimals1 } = decimalsOf(market, pool)!;
  const parts = traded?.kind === "made" ? traded.parts : undefined;
  return { pool: numberOf(pool.id), decimals0, decimals1, state: reading, balance0, balance1, given, parts };
}

/** The coin's pool as the book has it. */
export const coinStateOf = (coin: Side, market: Market, number: number): StoredState =>
  stateOf(coin, market, () => number);

/** The price in the coin's smallest unit, as answers have it. */
export const nativeUnits = ({ native, market }: Pick<Quote, "native" | "market">): bigint | undefined =>
  native && truncate(multiply(native, powerOfTen(market.chain.native.decimals)));

/** The coin's pool and its state as the book has them at a head. */
export interface CoinState {
  readonly pool: PoolId;
  readonly state: StoredState;
}

/** The sides of a quote that are stored with it. */
export interface OwnSides {
  readonly legs: readonly Side[];
  readonly nativeSide: Side | undefined;
  /** `PRICE_FLAGS`: how it goes on over the coin's pool. */
  readonly flags: number;
}

/** Returns the sides of which a quote consists, without those that the head tells for all tokens. */
export function ownSides({ market, route, nativeSide }: Quote, coin: CoinState | undefined): OwnSides {
  const native = market.chain.wrappedNative.address;
  const isCoin = (side: Side | undefined): boolean => {
    if (side === undefined || coin === undefined || side.pool.id !== coin.pool || side.base !== native) return false;
    const state = stateOf(side, market, () => coin.state.pool);
    return Buffer.compare(encodeState(state), encodeState(coin.state)) === 0;
  };
  const legs = route?.legs ?? [];
  const endsInCoin = isCoin(legs.at(-1));
  const nativeIsCoin = isCoin(nativeSide);
  const own = nativeIsCoin ? undefined : nativeSide;
  const flags =
    (endsInCoin ? PRICE_FLAGS.endsInCoin : 0) |
    (nativeIsCoin ? PRICE_FLAGS.nativeIsCoin : 0) |
    (own === undefined ? 0 : PRICE_FLAGS.hasNative);
  return { legs: endsInCoin ? legs.slice(0, -1) : legs, nativeSide: own, flags };
}

/** @param numberOf the number of a pool in the token's stream */
export function toStoredPrice(
  quote: Quote,
  { legs, nativeSide, flags }: OwnSides,
  { rules, numberOf }: { readonly rules: number; readonly numberOf: (pool: PoolId) => number },
): StoredPrice {
  const { market, usd } = quote;
  return {
    ...{ block: market.block.number, hash: market.block.hash, rules, flags },
    ...{ usd: toDouble(usd), confidence: toDouble(confidence(quote)), native: nativeUnits(quote) },
    legs: legs.map((leg) => stateOf(leg, market, numberOf)),
    nativePool: nativeSide && stateOf(nativeSide, market, numberOf),
  };
}

interface QuotedAt {
  readonly chain: Chain;
  readonly token: Address;
  readonly facts: { readonly name: string; readonly symbol: string; readonly decimals?: number };
  readonly pools: readonly StoredPool[];
  readonly head: BookHead;
  /** The pools of the book. */
  readonly coinPools: readonly StoredPool[];
}

/** The market of the pools that a stored price and its head name, and no others. */
class StoredMarket {
  readonly #at: QuotedAt;
  readonly #pools = new Map<PoolId, Pool>();
  readonly #states = new Map<PoolId, Observation>();
  readonly #decimals = new Map<Address, number>();

  constructor(at: QuotedAt) {
    this.#at = at;
  }

  get #block(): Market["block"] {
    const { block: number, hash, timestamp } = this.#at.head;
    return { number, hash, timestamp };
  }

  /** Undefined if the exchange is not known. */
  add(state: StoredState | undefined, among: readonly StoredPool[]): Pool | undefined {
    const stored = state && among[state.pool];
    const pool = stored && toPool(this.#at.chain, stored);
    if (state === undefined || pool === undefined) return undefined;
    this.#pools.set(pool.id, pool);
    this.#states.set(pool.id, observationOf(state, this.#block));
    this.#decimals.set(pool.token0, state.decimals0);
    this.#decimals.set(pool.token1, state.decimals1);
    return pool;
  }

  get market(): Market {
    const { chain, facts } = this.#at;
    const { name, symbol, decimals } = facts;
    return {
      ...{ chain, block: this.#block, pools: [...this.#pools.values()], states: this.#states },
      ...{ decimals: this.#decimals, factsOf: "block", isPast: false },
      facts: { name, symbol, decimals, kind: "erc20" },
    };
  }
}

/** The sides of pools from a token on, each from the quote of the one before. Undefined if one has no price. */
function sidesAlong(market: Market, token: Address, pools: readonly (Pool | undefined)[]): Side[] | undefined {
  const sides: Side[] = [];
  for (const pool of pools) {
    const side = pool && sideOf(market, pool, sides.at(-1)?.quote ?? token);
    if (side === undefined) return undefined;
    sides.push(side);
  }
  return sides;
}

/**
 * Makes the quote of a token at a head from what is stored: the same as was answered there, but for the routes that lost.
 * Undefined if an exchange on the way is not known any more.
 */
export function storedQuote(price: StoredPrice, at: QuotedAt): Quote | undefined {
  const { chain, token, head } = at;
  const native = chain.wrappedNative.address;
  const told = new StoredMarket(at);
  const legs = price.legs.map((leg) => told.add(leg, at.pools));
  const coinPool = told.add(head.coin, at.coinPools);
  const nativePool = told.add(price.nativePool, at.pools);
  const { market } = told;
  const has = (flag: number) => (price.flags & flag) !== 0;
  const sides = sidesAlong(market, token, has(PRICE_FLAGS.endsInCoin) ? [...legs, coinPool] : legs);
  if (sides === undefined) return undefined;
  const coin = coinPool && sideOf(market, coinPool, native);
  const nativeSide = has(PRICE_FLAGS.nativeIsCoin) ? coin : nativePool && sideOf(market, nativePool, native);
  const common = { market, token, usable: [], disputed: disputedAt(head, chain), coin, nativeSide } as const;
  const route = routeOf(sides);
  // A stablecoin without any measure counts as one dollar; its pool with the coin needs none.
  if (route === undefined) return { ...common, usd: ONE, route, native: nativeSide && invert(nativeSide.price) };
  return { ...common, usd: route.usd, route, native: nativeOf(route, token, native, nativeSide) };
}

const disputedAt = ({ disputed = [] }: BookHead, { stablecoins }: Chain): Quote["disputed"] =>
  disputed.flatMap(({ coin: address, usd: [n, d] }) => {
    const coin = stablecoins.find((one) => one.address === address);
    return coin === undefined ? [] : { coin, usd: rational(BigInt(n), BigInt(d)) };
  });

/** As `quote` does: by the coin's pool on the way, else by the one beside it. */
function nativeOf(route: Route, token: Address, native: Address, beside: Side | undefined): Rational | undefined {
  if (token === native) return ONE;
  const onTheWay = route.legs.find((leg) => leg.base === native) ?? beside;
  return onTheWay && divide(route.usd, onTheWay.price);
}

function routeOf(sides: readonly Side[]): Route | undefined {
  const last = sides.at(-1);
  return last && sides.slice(0, -1).reduceRight((onward, side) => through(side, onward), alone(last));
}

function observationOf(
  { state, balance0, balance1, given, parts }: StoredState,
  { number, hash, timestamp }: Market["block"],
): Observation {
  return {
    reading: state,
    ...(balance0 === undefined ? {} : { balance0 }),
    ...(balance1 === undefined ? {} : { balance1 }),
    ...(given === undefined ? {} : { given }),
    ...(parts === undefined ? {} : { traded: { kind: "made", parts } as const }),
    ...{ block: number, blockHash: hash, timestamp },
  };
}
