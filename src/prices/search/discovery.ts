/**
 * The node calls about a token and the decoders of their results: factories for pools, tokens for facts, pools for
 * states. Each request is a `Plan`, so that any number of plans share one round trip. Makes no requests itself.
 */
import type { Chain } from "../../chains/chains.ts";
import { type Deployment, exchangesOf, type PoolStyle } from "../../chains/exchanges.ts";
import { launchpadsOf } from "../../chains/launchpads.ts";
import { isReferencePair } from "../../chains/tokens.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { CallResult } from "../../rpc/port.ts";
import type { TokenFacts } from "../market/market.ts";
import type { HookTrade, Pool } from "../market/pools.ts";
import { addressAnswer, answer, both, type CallPlan, call, textAnswer, together } from "../styles/abi.ts";
import { planHookTrades } from "../styles/hook-trades.ts";
import { planLaunches } from "../styles/launches.ts";
import { type MeasuredPool, planLiquidity } from "../styles/liquidity.ts";
import { type PoolRead, poolContract, type Venue } from "../styles/style.ts";
import { PROBED_STYLES, STYLES } from "../styles/styles.ts";
import { askedVenue, otherPools, planTiers } from "./venue-tiers.ts";

/** Unlisted factories rank after every listed one. */
const UNLISTED_RANK = 1_000;

/** A deployment on a chain as a venue. */
export const venueOf = (chain: Chain, { exchange, style, factory, fees, spacings = [] }: Deployment): Venue => ({
  ...{ name: exchange.displayName, rank: exchange.rank, style, factory, fees, spacings },
  wrapped: chain.wrappedNative.address,
  ...(style === "v4" ? { launchpads: launchpadsOf(chain) } : {}),
});

/** The deployment of a factory that does not rank here, although it is known. */
const knownAt = (chain: Chain, factory: Address): Deployment | undefined =>
  exchangesOf(chain).find((deployment) => deployment.factory === factory);

/** Asks an unlisted factory which style it answers like; undefined for none. */
export function planProbe(chain: Chain, factory: Address): CallPlan<PoolStyle | undefined> {
  const known = knownAt(chain, factory);
  if (known !== undefined) return { calls: [], read: () => known.style };
  const probes = PROBED_STYLES.map((style) => STYLES[style].probe!);
  return {
    calls: probes.map(({ signature, words }) => ({ ...call(factory, signature, ...words), apart: factory })),
    read: (results) => PROBED_STYLES.find((_, index) => answer(results[index]) !== undefined),
  };
}

/** Reads the pools of pairs at a factory that doesn't rank, whatever their tiers. */
export function planUnlisted(
  chain: Chain,
  { factory, style }: { readonly factory: Address; readonly style: PoolStyle },
  pairs: readonly (readonly [Address, Address])[],
): CallPlan<Pool[]> {
  const known = knownAt(chain, factory);
  const unknown = { ...{ name: factory, rank: UNLISTED_RANK, style, factory }, fees: [], spacings: [] };
  const bare = known === undefined ? { ...unknown, wrapped: chain.wrappedNative.address } : venueOf(chain, known);
  const venue = askedVenue(bare, undefined);
  const plan = both(planPairs([venue], pairs), apart(planTiers([venue], pairs), factory));
  return {
    calls: plan.calls,
    read(results) {
      const [found, tiers] = plan.read(results);
      return [...found, ...otherPools([venue], tiers)];
    },
  };
}

/** Reads the pools that launchpads name for tokens. */
export function planLaunched(venues: readonly Venue[], tokens: readonly Address[]): CallPlan<Pool[]> {
  const plan = together(venues.map((venue) => planLaunches(venue, tokens)));
  return { calls: plan.calls, read: (results) => plan.read(results).flat() };
}

/** Reads the existing pools of many pairs at many venues. */
export function planPairs(venues: readonly Venue[], pairs: readonly (readonly [Address, Address])[]): CallPlan<Pool[]> {
  const plans = venues.flatMap((venue) =>
    pairs.map(([a, b]) => {
      const plan = STYLES[venue.style].find(venue, a, b);
      return venue.rank === UNLISTED_RANK ? apart(plan, venue.factory) : plan;
    }),
  );
  const plan = together(plans);
  return { calls: plan.calls, read: (results) => plan.read(results).flat() };
}

/** Nobody vouches for an unlisted factory and its pools: their calls run apart from all others. */
const apart = <T>({ calls, read }: CallPlan<T>, factory: Address): CallPlan<T> => ({
  calls: calls.map((one) => ({ ...one, apart: factory })),
  read,
});

/** More would overflow a double at any price. Real tokens have at most 36. */
const MAX_DECIMALS = 77n;
const ERC721 = "80ac58cd".padEnd(64, "0");
const ERC1155 = "d9b67a26".padEnd(64, "0");

const decimalsIn = (result: CallResult | undefined): number | undefined => {
  const places = answer(result);
  return places === undefined || places > MAX_DECIMALS ? undefined : Number(places);
};

function planToken(token: Address): CallPlan<TokenFacts> {
  return {
    calls: [
      call(token, "name()"),
      call(token, "symbol()"),
      call(token, "decimals()"),
      call(token, "totalSupply()"),
      call(token, "supportsInterface(bytes4)", ERC721),
      call(token, "supportsInterface(bytes4)", ERC1155),
    ],
    read([name, symbol, digits, supply, erc721, erc1155]) {
      const decimals = decimalsIn(digits);
      const standard = answer(erc721) === 1n ? "ERC-721" : answer(erc1155) === 1n ? "ERC-1155" : undefined;
      // A price feed also has decimals, but only a token has a supply. An NFT contract with both may be a token as well
      // (ERC-404): its pools tell.
      const isToken = answer(supply) !== undefined && (standard === undefined || decimals !== undefined);
      return {
        name: textAnswer(name) ?? "",
        symbol: textAnswer(symbol) ?? "",
        decimals,
        kind: !isToken ? "not_a_token" : decimals === undefined ? "no_decimals" : "erc20",
        ...(standard === undefined ? {} : { standard }),
      };
    },
  };
}

/**
 * Reads a pool's state; undefined if the pool holds other tokens than its factory said. A pool that names no tokens has no
 * state. A listed factory's word is trusted.
 */
function planHonestState(pool: Pool): CallPlan<PoolRead | undefined> {
  const state = STYLES[pool.style].state(pool);
  if (pool.rank !== UNLISTED_RANK) return state;
  const held: CallPlan<readonly (Address | undefined)[]> = {
    calls: [call(poolContract(pool), "token0()"), call(poolContract(pool), "token1()")],
    read: (results) => results.map(addressAnswer),
  };
  const plan = apart(both(state, held), pool.factory);
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
export function planFacts(tokens: readonly Address[], others: readonly Address[]): CallPlan<FactsRead> {
  const places = others.map((token) => ({
    calls: [call(token, "decimals()")],
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

/**
 * Reads the facts of tokens, the pools' states and liquidity, and the decimals of every token in the pools.
 * @param at the hash of the block that is read, if it is known
 */
export function planMarket(
  chain: Chain,
  tokens: readonly Address[],
  pools: readonly Pool[],
  at?: Hash,
): CallPlan<MarketRead> {
  const held = new Set(pools.flatMap(({ token0, token1 }) => [token0, token1]));
  const others = [...held.difference(new Set(tokens))];
  // Any account can make an unlisted factory, and pools that take all the gas of a call.
  const listed = pools.filter(({ rank }) => rank !== UNLISTED_RANK);
  const told = both(planFacts(tokens, others), together(pools.map(planHonestState)));
  const plan = both(told, both(planLiquidity(listed), planHookTrades(chain, pools, at)));
  return {
    calls: plan.calls,
    read(results) {
      const [[facts, states], [measured, trades]] = plan.read(results);
      const reads = states.filter((read) => read !== undefined);
      const measuredReads = reads.map((read) => withMeasured(read, measured.get(read.pool.id)));
      return { ...facts, reads: measuredReads.map((read) => withTrade(read, trades.get(read.pool.id))) };
    },
  };
}

const withTrade = (read: PoolRead, traded: HookTrade | undefined): PoolRead =>
  traded === undefined ? read : { ...read, traded };

/** Without its positions a pool inside another contract has a price, but no depth: it counts as unread. */
function withMeasured(read: PoolRead, measured: MeasuredPool | undefined): PoolRead {
  if (read.reading === undefined) return read;
  const isKeyed = read.pool.key !== undefined;
  if (measured === undefined) return isKeyed ? { ...read, reading: undefined } : read;
  const { given, held } = measured;
  return { ...read, given, ...(isKeyed ? { balance0: held[0], balance1: held[1] } : {}) };
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
