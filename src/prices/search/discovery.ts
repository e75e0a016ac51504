/**
 * The node calls about a token and the decoders of their results: factories for pools, tokens for facts, pools for
 * states. Each request is a `Plan`, so that any number of plans share one round trip. Makes no requests itself.
 */
import type { Chain } from "../../chains/chains.ts";
import type { Deployment, PoolStyle } from "../../chains/exchanges.ts";
import { isReferencePair } from "../../chains/tokens.ts";
import type { Address } from "../../core/hex.ts";
import { addressWord, wordOf } from "../../rpc/calls.ts";
import type { Call, CallResult } from "../../rpc/port.ts";
import type { TokenFacts } from "../market/market.ts";
import type { Pool, Reading } from "../market/pools.ts";
import { addressAnswer, answer, call, textAnswer } from "./exchange-events.ts";

/** Calls, and the decoder of their results. */
interface Plan<T> {
  readonly calls: readonly Call[];
  read(results: readonly CallResult[]): T;
}

/** Joins several plans; the results are in the same order. */
export function together<T>(plans: readonly Plan<T>[]): Plan<T[]> {
  return {
    calls: plans.flatMap((plan) => plan.calls),
    read(results) {
      let at = 0;
      return plans.map((plan) => {
        const own = results.slice(at, at + plan.calls.length);
        at += plan.calls.length;
        return plan.read(own);
      });
    },
  };
}

/** Joins two plans with different results. */
export function both<A, B>(first: Plan<A>, second: Plan<B>): Plan<readonly [A, B]> {
  return {
    calls: [...first.calls, ...second.calls],
    read: (results) => [
      first.read(results.slice(0, first.calls.length)),
      second.read(results.slice(first.calls.length)),
    ],
  };
}

/** A factory and how to find pools through it. */
export interface Venue {
  readonly name: string;
  readonly rank: number;
  readonly style: PoolStyle;
  readonly factory: Address;
  /** v3: the fee tiers to ask for. v2: the swap fee; empty when every pair has its own. */
  readonly fees: readonly number[];
}

/** Unlisted factories rank after every listed one. */
const UNLISTED_RANK = 1_000;

/** Fee tiers requested from an unlisted v3 factory: Uniswap's, PancakeSwap's 2500 and tiers that forks enabled. */
const PROBED_TIERS = [50, 100, 200, 250, 300, 400, 500, 1000, 2500, 3000, 5000, 10_000];

/** A tier that every known v3-style factory enables in its constructor. */
const COMMON_TIER = 500;

export const venueOf = (deployment: Deployment): Venue => ({
  name: deployment.exchange.displayName,
  rank: deployment.exchange.rank,
  style: deployment.style,
  factory: deployment.factory,
  fees: deployment.fees,
});

/** Asks an unlisted factory which style it answers like; undefined for neither. */
export function planProbe(factory: Address): Plan<PoolStyle | undefined> {
  return {
    calls: [call(factory, "allPairsLength"), call(factory, "feeAmountTickSpacing", wordOf(COMMON_TIER))],
    read([length, spacing]) {
      if (answer(spacing) !== undefined) return "v3";
      return answer(length) === undefined ? undefined : "v2";
    },
  };
}

/** Both styles of an unlisted factory, so that its pools can be requested together with the probe. */
export const unlistedVenues = (factory: Address): Venue[] => [
  { name: factory, rank: UNLISTED_RANK, style: "v3", factory, fees: PROBED_TIERS },
  { name: factory, rank: UNLISTED_RANK, style: "v2", factory, fees: [] },
];

/** A pool of a venue. A pair on the stable curve is known only once the pair itself was read. */
export const poolOf = (venue: Venue, found: Pick<Pool, "address" | "fee" | "token0" | "token1">): Pool => {
  const { name: exchange, rank, style, factory } = venue;
  return { ...found, factory, style, exchange, rank, stableCurve: false };
};

/** Reads the existing pools of two tokens at a venue. */
function planPools(venue: Venue, tokenA: Address, tokenB: Address): Plan<Pool[]> {
  const [token0, token1] = tokenA < tokenB ? [tokenA, tokenB] : [tokenB, tokenA];
  const pair = [addressWord(token0), addressWord(token1)];
  const tiers = venue.style === "v3" ? venue.fees : [venue.fees[0] ?? 0];
  const calls =
    venue.style === "v3"
      ? tiers.map((fee) => call(venue.factory, "getPool", ...pair, wordOf(fee)))
      : [call(venue.factory, "getPair", ...pair)];
  return {
    calls,
    read: (results) =>
      tiers.flatMap((fee, index) => {
        const address = addressAnswer(results[index]);
        if (address === undefined || BigInt(address) === 0n) return [];
        return [poolOf(venue, { address, fee, token0, token1 })];
      }),
  };
}

/** Reads the existing pools of many pairs at many venues. */
export function planPairs(venues: readonly Venue[], pairs: readonly (readonly [Address, Address])[]): Plan<Pool[]> {
  const plan = together(venues.flatMap((venue) => pairs.map(([a, b]) => planPools(venue, a, b))));
  return { calls: plan.calls, read: (results) => plan.read(results).flat() };
}

/** More would overflow a double at any price. Real tokens have at most 36. */
const MAX_DECIMALS = 77n;
const ERC721 = "80ac58cd".padEnd(64, "0");
const ERC1155 = "d9b67a26".padEnd(64, "0");

const decimalsIn = (result: CallResult | undefined): number | undefined => {
  const places = answer(result);
  return places === undefined || places > MAX_DECIMALS ? undefined : Number(places);
};

function planToken(token: Address): Plan<TokenFacts> {
  return {
    calls: [
      call(token, "name"),
      call(token, "symbol"),
      call(token, "decimals"),
      call(token, "totalSupply"),
      call(token, "supportsInterface", ERC721),
      call(token, "supportsInterface", ERC1155),
    ],
    read([name, symbol, digits, supply, erc721, erc1155]) {
      const decimals = decimalsIn(digits);
      const isNft = answer(erc721) === 1n || answer(erc1155) === 1n;
      // A price feed also has decimals, but only a token has a supply.
      const isToken = !isNft && answer(supply) !== undefined;
      return {
        name: textAnswer(name) ?? "",
        symbol: textAnswer(symbol) ?? "",
        decimals,
        kind: !isToken ? "not_a_token" : decimals === undefined ? "no_decimals" : "erc20",
      };
    },
  };
}

/** A pool as a node returned it: its settings, its state and its token balances. */
export interface PoolRead {
  readonly pool: Pool;
  /** Undefined when the pool does not answer like a pool of its style, or was never initialised. */
  readonly reading: Reading | undefined;
  readonly balance0: bigint | undefined;
  readonly balance1: bigint | undefined;
}

/** Camelot's fee denominator is 100,000; this service's is a million. */
const CAMELOT_TO_HUNDREDTHS = 10n;
const CAMELOT_SETTINGS = ["stableSwap", "token0FeePercent", "token1FeePercent"] as const;

/** Reads a pool's state and balances, and its curve and fees if the style has them. */
function planState(pool: Pool): Plan<PoolRead> {
  const balances = [
    call(pool.token0, "balanceOf", addressWord(pool.address)),
    call(pool.token1, "balanceOf", addressWord(pool.address)),
  ];
  if (pool.style === "v3") {
    return {
      calls: [...balances, call(pool.address, "slot0"), call(pool.address, "liquidity")],
      read([held0, held1, slot0, liquidity]) {
        const sqrtPriceX96 = answer(slot0, 0);
        const tick = answer(slot0, 1);
        const inRange = answer(liquidity);
        const known = sqrtPriceX96 !== undefined && sqrtPriceX96 !== 0n && tick !== undefined && inRange !== undefined;
        const reading: Reading | undefined = known
          ? { style: "v3", sqrtPriceX96, liquidity: inRange, tick: Number(BigInt.asIntN(24, tick)) }
          : undefined;
        return { pool, reading, balance0: answer(held0), balance1: answer(held1) };
      },
    };
  }
  const isCamelot = pool.style === "v2-camelot";
  const settings = isCamelot ? CAMELOT_SETTINGS.map((method) => call(pool.address, method)) : [];
  return {
    calls: [...balances, call(pool.address, "getReserves"), ...settings],
    read([held0, held1, reserves, stableSwap, ...fees]) {
      const reserve0 = answer(reserves, 0);
      const reserve1 = answer(reserves, 1);
      const feeOf = (fee: CallResult): number => Number((answer(fee) ?? 0n) * CAMELOT_TO_HUNDREDTHS);
      const settled = isCamelot
        ? { ...pool, stableCurve: answer(stableSwap) === 1n, fee: Math.max(...fees.map(feeOf)) }
        : pool;
      const reading: Reading | undefined =
        reserve0 === undefined || reserve1 === undefined ? undefined : { style: "v2", reserve0, reserve1 };
      return { pool: settled, reading, balance0: answer(held0), balance1: answer(held1) };
    },
  };
}

/**
 * Reads a pool's state; undefined if the pool holds other tokens than its factory said. A pool that names no tokens has no
 * state. A listed factory's word is trusted.
 */
function planHonestState(pool: Pool): Plan<PoolRead | undefined> {
  if (pool.rank !== UNLISTED_RANK) return planState(pool);
  const held: Plan<readonly (Address | undefined)[]> = {
    calls: [call(pool.address, "token0"), call(pool.address, "token1")],
    read: (results) => results.map(addressAnswer),
  };
  const plan = both(planState(pool), held);
  return {
    calls: plan.calls,
    read(results) {
      const [read, [token0, token1]] = plan.read(results);
      if (token0 === undefined || token1 === undefined) return { ...read, reading: undefined };
      return token0 === pool.token0 && token1 === pool.token1 ? read : undefined;
    },
  };
}

export interface FactsRead {
  /** Of the requested tokens. */
  readonly facts: ReadonlyMap<Address, TokenFacts>;
  /** Of the requested tokens and the others; a token that doesn't return them is missing. */
  readonly decimals: ReadonlyMap<Address, number>;
}

/** Reads the facts of tokens, and only the decimals of others. */
export function planFacts(tokens: readonly Address[], others: readonly Address[]): Plan<FactsRead> {
  const places = others.map((token) => ({
    calls: [call(token, "decimals")],
    read: ([result]: readonly CallResult[]) => decimalsIn(result),
  }));
  const plan = both(together(tokens.map(planToken)), together(places));
  return {
    calls: plan.calls,
    read(results) {
      const [said, digits] = plan.read(results);
      const facts = new Map(tokens.map((token, at) => [token, said[at]!]));
      const own = tokens.map((token, at) => [token, said[at]!.decimals] as const);
      const all = [...own, ...others.map((token, at) => [token, digits[at]] as const)];
      return {
        facts,
        decimals: new Map(all.flatMap(([token, value]) => (value === undefined ? [] : [[token, value]]))),
      };
    },
  };
}

/** All that prices depend on at one block, as a node returned it. */
export interface MarketRead extends FactsRead {
  readonly reads: readonly PoolRead[];
}

/** Reads the facts of tokens, the pools' states, and the decimals of every token in the pools. */
export function planMarket(tokens: readonly Address[], pools: readonly Pool[]): Plan<MarketRead> {
  const held = new Set(pools.flatMap(({ token0, token1 }) => [token0, token1]));
  const others = [...held.difference(new Set(tokens))];
  const plan = both(planFacts(tokens, others), together(pools.map(planHonestState)));
  return {
    calls: plan.calls,
    read(results) {
      const [facts, states] = plan.read(results);
      return { ...facts, reads: states.filter((read) => read !== undefined) };
    },
  };
}

/** Returns the pairs that any price may depend on: each reference token with the native coin and the stablecoins. */
export function pairsAmong(chain: Chain, references: readonly Address[]): (readonly [Address, Address])[] {
  return references.flatMap((a, index) =>
    references
      .slice(index + 1)
      .filter((b) => isReferencePair(chain, a, b))
      .map((b) => [a, b] as const),
  );
}
