/**
 * Uniswap v4 (github.com/Uniswap/v4-core): one contract holds all pools, and a pool is the hash of its key. Found are
 * pools without hooks at the usual fees and spacings, and the usual ones of launchpads. The contract's balance is all pools'
 * together, so a pool's depth is what its positions hold by tick.
 */
import type { Chain } from "../../chains/chains.ts";
import { isLaunchHook } from "../../chains/launchpads.ts";
import { type Address, type Hash, ZERO_ADDRESS } from "../../core/hex.ts";
import { keccakOf, topicOf } from "../../core/keccak.ts";
import { addressWord, wordOf } from "../../rpc/calls.ts";
import type { Call, CallResult, ChainLog } from "../../rpc/port.ts";
import type { Pool, PoolId, PoolKey, Reading } from "../market/pools.ts";
import { abiWord, abiWords, addressAt, answer, both, type CallPlan, call, signedWord, tickIn } from "./abi.ts";
import {
  inAddressOrder,
  ofState,
  type PoolChange,
  type PoolRead,
  poolOf,
  type Style,
  type SwapFees,
  type TickedRead,
  type Venue,
} from "./style.ts";
import { MILLION } from "./trade.ts";
import { rangeSwapped, swapped } from "./v3.ts";

/** Fees with their tick spacings, as Uniswap's interface makes pools. Any other is possible. */
const TIERS = [
  [100, 1],
  [500, 10],
  [3000, 60],
  [10_000, 200],
] as const;

/** Slot of the mapping of pools in the manager's storage (v4-core, StateLibrary). */
const POOLS_SLOT = wordOf(6);

const hashOf = (...words: string[]): Hash => keccakOf(`0x${words.join("")}`);

/** A pool's id: the hash of its key's five words. */
const idOf = ({ currency0, fee, spacing, hooks }: PoolKey, currency1: Address): Hash =>
  hashOf(addressWord(currency0), addressWord(currency1), wordOf(fee), wordOf(spacing), addressWord(hooks));

/** A pool by its key and its second currency. */
export const keyedPool = (venue: Venue, key: PoolKey, currency1: Address): Pool =>
  poolAt(venue, idOf(key, currency1), key, currency1);

/** The same pool, if its id is known. */
const poolAt = (venue: Venue, id: Hash, key: PoolKey, token1: Address): Pool => {
  const token0 = key.currency0 === ZERO_ADDRESS ? venue.wrapped : key.currency0;
  return poolOf(venue, { id, fee: key.fee, token0, token1, key, stableCurve: false });
};

/** The first slot of a pool's state. */
const slotOf = (id: PoolId): string => hashOf(id.slice(2), POOLS_SLOT).slice(2);

/** Places in a pool's state (v4-core, Pool.State). The last two are mappings by a signed number. */
const STATE_AT = { slot0: 0n, ticks: 4n, bitmap: 5n } as const;

/** Reads one slot of a pool's state: its slot 0, the net and gross liquidity of a tick, or a word of the bitmap. */
function slotAt({ id, factory }: Pool, name: keyof typeof STATE_AT, index = 0): Call {
  const base = signedWord(BigInt(`0x${slotOf(id)}`) + STATE_AT[name]);
  const slot = name === "slot0" ? base : hashOf(signedWord(BigInt(index)), base).slice(2);
  return call(factory, "extsload(bytes32)", slot);
}

/** The reading of a pool's slot 0 and its liquidity. */
function readingOf(slot0: bigint | undefined, liquidity: bigint | undefined): Reading | undefined {
  const sqrtPriceX96 = slot0 === undefined ? 0n : BigInt.asUintN(160, slot0);
  if (slot0 === undefined || sqrtPriceX96 === 0n || liquidity === undefined) return undefined;
  return { style: "v3", sqrtPriceX96, liquidity: BigInt.asUintN(128, liquidity), tick: tickIn(slot0 >> 160n) };
}

function initialized({ data }: ChainLog): PoolChange | undefined {
  const [, , , sqrtPriceX96, tick] = abiWords(data, 5) ?? [];
  if (sqrtPriceX96 === undefined || tick === undefined) return undefined;
  return ofState({ style: "v3", sqrtPriceX96, liquidity: 0n, tick: tickIn(tick) });
}

function liquidityModified({ data }: ChainLog): PoolChange | undefined {
  const [lower, upper, delta] = abiWords(data, 3) ?? [];
  if (lower === undefined || upper === undefined || delta === undefined) return undefined;
  return { kind: "liquidity", delta: BigInt.asIntN(256, delta), tickLower: tickIn(lower), tickUpper: tickIn(upper) };
}

const INITIALIZE = topicOf("Initialize(bytes32,address,address,uint24,int24,address,uint160,int24)");

const MODIFY_LIQUIDITY = topicOf("ModifyLiquidity(bytes32,address,int24,int24,int256,bytes32)");

const SWAP = topicOf("Swap(bytes32,address,int128,int128,uint160,uint128,int24,uint24)");

export const V4_EVENTS: Style["events"] = {
  [INITIALIZE]: initialized,
  [SWAP]: swapped,
  [MODIFY_LIQUIDITY]: liquidityModified,
};

/** Tells what the protocol takes from now on. A pool begins without (v4-core, ProtocolFees). */
const PROTOCOL_FEE_UPDATED = topicOf("ProtocolFeeUpdated(bytes32,uint24)");

/** True for an announced pool that `find` finds. */
function isFound({ data }: ChainLog): boolean {
  const [fee, spacing] = abiWords(data, 2) ?? [];
  return addressAt(data, 2) === ZERO_ADDRESS && TIERS.some(([a, b]) => BigInt(a) === fee && BigInt(b) === spacing);
}

/** True for an announced pool of a launchpad, whose getters may name it. */
const mayBeFound = ({ data }: ChainLog, chain: Chain): boolean =>
  isLaunchHook(chain, addressAt(data, 2) ?? ZERO_ADDRESS);

/** Place of the fee for positions in slot 0 (v4-core, Slot0). */
const LP_FEE_AT = 208n;
/** Place of the protocol's two fees before it. */
const PROTOCOL_FEE_AT = 184n;
/** The fee of a key whose pool has one that hooks set. */
const DYNAMIC_FEE = 0x800000;
/** Flags in a hook's address (v4-core, Hooks): it may give other amounts than the curve; it acts before a swap. */
const RETURNS_DELTA = 0b1100n;
const ACTS_BEFORE_SWAP = 1n << 7n;

/** Flags of hooks that run before or after a swap. */
const ACTS_ON_SWAPS = 0b1100_0000n;

/** True if hooks at this address run with a swap, and so may refuse it or change it. */
export const actsOnSwaps = (hooks: Address): boolean => (BigInt(hooks) & (ACTS_ON_SWAPS | RETURNS_DELTA)) !== 0n;

/** True if hooks at this address may give other amounts than the pool's curve. */
export const mayChangeAmounts = (hooks: Address): boolean => (BigInt(hooks) & RETURNS_DELTA) !== 0n;

/** True if hooks at this address act before a swap, and may set its fee. */
const actsBeforeSwap = (hooks: Address): boolean => (BigInt(hooks) & ACTS_BEFORE_SWAP) !== 0n;

function state(pool: Pool): CallPlan<PoolRead> {
  return {
    // Slot 0, two sums of fees, and the liquidity in range.
    calls: [call(pool.factory, "extsload(bytes32,uint256)", slotOf(pool.id), wordOf(4))],
    read([result]) {
      const slot0 = answer(result, 2);
      const fee = slot0 === undefined ? pool.fee : Number(BigInt.asUintN(24, slot0 >> LP_FEE_AT));
      const balance = { balance0: undefined, balance1: undefined };
      return { pool: { ...pool, fee }, reading: readingOf(slot0, answer(result, 5)), ...balance };
    },
  };
}

/** The protocol's fee for each direction comes first, that of the positions of the rest (v4-core, ProtocolFeeLibrary). */
function swapFees(protocolFee: bigint, own: bigint): SwapFees {
  const whole = (fee: bigint): bigint => fee + own - (fee * own) / MILLION;
  return [whole(BigInt.asUintN(12, protocolFee)), whole(protocolFee >> 12n)];
}

function readTicks(pool: Pool): CallPlan<TickedRead> {
  const slot0 = { calls: [slotAt(pool, "slot0")], read: ([said]: readonly CallResult[]) => answer(said) };
  const plan = both(state(pool), slot0);
  return {
    calls: plan.calls,
    read(results) {
      const [seen, said = 0n] = plan.read(results);
      const protocolFee = BigInt.asUintN(24, said >> PROTOCOL_FEE_AT);
      const ticks: TickedRead["ticks"] = {
        ...{ spacing: pool.key!.spacing, fees: swapFees(protocolFee, BigInt(seen.pool.fee)) },
        word: (index) => slotAt(pool, "bitmap", index),
        tick: (tick) => slotAt(pool, "ticks", tick),
        netIn(result) {
          const info = answer(result);
          return info === undefined ? undefined : BigInt.asIntN(128, info >> 128n);
        },
      };
      return { ...seen, ticks };
    },
  };
}

/** The protocol's fee is the one that its last log tells. Hooks set a dynamic fee without a log. */
function pastFees({ key }: Pool, logs: readonly ChainLog[]): SwapFees | undefined {
  if (key === undefined || key.fee === DYNAMIC_FEE) return undefined;
  const last = logs.findLast(({ topics: [first] }) => first === PROTOCOL_FEE_UPDATED);
  return swapFees((last && abiWord(last.data, 0)) ?? 0n, BigInt(key.fee));
}

/** The pools that launchpads usually make of a token with the wrapped coin. */
function launched(venue: Venue, token: Address): Pool[] {
  const [currency0, currency1] = inAddressOrder(venue.wrapped, token);
  return (venue.launchpads ?? []).flatMap(({ hooks, fee, spacing }) =>
    fee === undefined || spacing === undefined
      ? []
      : hooks.map((one) => keyedPool(venue, { currency0, fee, spacing, hooks: one }, currency1)),
  );
}

export const V4: Style = {
  created: { topic: INITIALIZE, tokensAt: 2, isFound, mayBeFound },
  begins: INITIALIZE,
  events: V4_EVENTS,
  find(venue, tokenA, tokenB) {
    const { wrapped, factory } = venue;
    // The coin itself is currency zero. Its wrapped form stands for it in routes.
    const other = tokenA === wrapped ? tokenB : tokenB === wrapped ? tokenA : undefined;
    const pairs = [inAddressOrder(tokenA, tokenB), ...(other === undefined ? [] : [[ZERO_ADDRESS, other] as const])];
    const usual = pairs.flatMap(([currency0, currency1]) =>
      TIERS.map(([fee, spacing]) => keyedPool(venue, { currency0, fee, spacing, hooks: ZERO_ADDRESS }, currency1)),
    );
    const pools = [...usual, ...(other === undefined ? [] : launched(venue, other))];
    return {
      calls: pools.map(({ id }) => call(factory, "extsload(bytes32)", slotOf(id))),
      read: (results) => pools.filter((_, index) => readingOf(answer(results[index]), 0n) !== undefined),
    };
  },
  state,
  sale: "manager",
  meter: { kind: "keyed" },
  exact: {
    kind: "ranges",
    refusal: ({ key }) =>
      key && (actsBeforeSwap(key.hooks) || mayChangeAmounts(key.hooks))
        ? "hooks of a pool act on its swaps"
        : undefined,
    read: readTicks,
    past: { topics: [MODIFY_LIQUIDITY, PROTOCOL_FEE_UPDATED], fees: pastFees },
    swaps: { [SWAP]: rangeSwapped },
  },
};

/** First and third or fourth topic of the announcements of all pools of some currencies. */
export const announcementsOf = (currencies: readonly Address[]) => {
  const words = currencies.map((currency) => `0x${addressWord(currency)}` as Hash);
  return [[undefined, words] as const, [undefined, undefined, words] as const];
};

/** The pool that an announcement names; undefined for malformed data. */
export function announcedPool(venue: Venue, { topics: [, id, first, second], data }: ChainLog): Pool | undefined {
  const [currency0, token1, hooks] = [addressAt(first ?? "0x", 0), addressAt(second ?? "0x", 0), addressAt(data, 2)];
  const [fee, spacing] = abiWords(data, 2) ?? [];
  if (id === undefined || currency0 === undefined || token1 === undefined || hooks === undefined) return undefined;
  if (fee === undefined || spacing === undefined) return undefined;
  return poolAt(venue, id, { currency0, fee: Number(fee), spacing: tickIn(spacing), hooks }, token1);
}
