/**
 * Tries small trades with pools of Uniswap v4 whose hooks may give other amounts than the curve, so that their state alone
 * tells no price: both ways, through the hooks, at the block of the read. One `eth_call` without a target tries many pools, by
 * `hook-trades.sol`.
 */
import type { Chain } from "../../chains/chains.ts";
import { isLaunchHook } from "../../chains/launchpads.ts";
import type { Hash } from "../../core/hex.ts";
import { addressWord, wordOf } from "../../rpc/calls.ts";
import type { CallResult } from "../../rpc/port.ts";
import type { HookTrade, Pool, PoolId } from "../market/pools.ts";
import { type Rational, rational, ZERO } from "../market/rational.ts";
import { abiWords, type CallPlan } from "./abi.ts";
// The creation code by solc 0.8.37 over its IR with 200 runs, for the EVM of Paris, without metadata. A test compiles it anew.
import HOOK_TRADES from "./hook-trades.txt";
import { MILLION } from "./trade.ts";
import { mayChangeAmounts } from "./v4.ts";

/** Pools in a call. Each takes at most 6 million of gas, of the 50 million that nodes give. */
const POOLS_PER_CALL = 7;
/** Words that are returned for a pool: whether it is known, the root of its price, and two trades. */
const [WORDS, WORDS_OF_TRADE] = [10, 4];
const Q192 = 1n << 192n;

/** True for a pool that has a price only if trades with it agree: its hooks may change amounts, or are a launchpad's. */
export const needsTrade = (chain: Chain, { key }: Pick<Pool, "key">): boolean =>
  key !== undefined && (mayChangeAmounts(key.hooks) || isLaunchHook(chain, key.hooks));

/**
 * Tries those of the pools that need it. Each of them has an answer.
 * @param at the hash of the block, if it is known: hooks can't foresee the trader's address and the hash of its code then
 */
export function planHookTrades(
  chain: Chain,
  pools: readonly Pool[],
  at: Hash | undefined,
): CallPlan<ReadonlyMap<PoolId, HookTrade>> {
  const able = pools.filter((pool) => needsTrade(chain, pool));
  const calls = Array.from({ length: Math.ceil(able.length / POOLS_PER_CALL) }, (_, index) =>
    able.slice(index * POOLS_PER_CALL, (index + 1) * POOLS_PER_CALL),
  );
  return {
    calls: calls.map((some) => ({ to: undefined, data: codeFor(some, at) })),
    read: (results) => new Map(calls.flatMap((some, index) => tradesIn(results[index], some))),
  };
}

function codeFor(pools: readonly Pool[], at: Hash | undefined): `0x${string}` {
  const wanted = pools.flatMap(({ factory, key, token1 }) => [
    ...[factory, key!.currency0, token1].map(addressWord),
    ...[wordOf(key!.fee), wordOf(key!.spacing), addressWord(key!.hooks)],
  ]);
  return `0x${HOOK_TRADES}${[wordOf(64), at?.slice(2) ?? wordOf(0), wordOf(pools.length), ...wanted].join("")}`;
}

function tradesIn(result: CallResult | undefined, pools: readonly Pool[]): [PoolId, HookTrade][] {
  // The offset of the list, and its length.
  const words = (result?.ok && abiWords(result.data, 2 + WORDS * pools.length)) || undefined;
  return pools.map(({ id }, at) => {
    const own = words?.slice(2 + at * WORDS, 2 + (at + 1) * WORDS) ?? [];
    return [id, tradeIn(own)];
  });
}

function tradeIn([isKnown, root = 0n, ...trades]: readonly bigint[]): HookTrade {
  if (isKnown !== 1n || root === 0n) return { kind: "unknown" };
  const [first, second] = [trades.slice(0, WORDS_OF_TRADE), trades.slice(WORDS_OF_TRADE)];
  // A pool that refuses one of the two is no market.
  if (first[0] !== 1n || second[0] !== 1n) return { kind: "refused" };
  const price = rational(root ** 2n, Q192);
  const parts = [partOf(first, price), partOf(second, rational(price.d, price.n))].filter((part) => part !== undefined);
  return { kind: "made", parts };
}

/** What a trade got of the price, the pool's fee aside; undefined if nothing was there to trade. */
function partOf([, paid = 0n, got = 0n, fee = 0n]: readonly bigint[], price: Rational): Rational | undefined {
  if (paid === 0n) return undefined;
  if (fee >= MILLION) return ZERO;
  return rational(got * price.d * MILLION, paid * price.n * (MILLION - fee));
}
