/**
 * Concentrated liquidity with pools of their own: Uniswap v3 and its forks PancakeSwap v3 and SushiSwap v3; Slipstream
 * (github.com/aerodrome-finance/slipstream), which names pools by tick spacing and moves their fees; and Algebra, with
 * one pool of moving fees for each pair (github.com/cryptoalgebra).
 */

import { wordOf } from "../../rpc/calls.ts";
import type { CallResult, ChainLog } from "../../rpc/port.ts";
import type { Reading } from "../market/pools.ts";
import { abiWords, answer, tickIn, topicOf } from "./abi.ts";
import { findByCalls, ofState, type PoolChange, readContract, type Style } from "./style.ts";

/** The reading of a getter whose first two words are the root of the price and the tick, and of `liquidity()`. */
function concentrated(slot: CallResult | undefined, inRange: CallResult | undefined): Reading | undefined {
  const [sqrtPriceX96, tick, liquidity] = [answer(slot, 0), answer(slot, 1), answer(inRange)];
  const isKnown = sqrtPriceX96 !== undefined && sqrtPriceX96 !== 0n && tick !== undefined && liquidity !== undefined;
  return isKnown ? { style: "v3", sqrtPriceX96, liquidity, tick: tickIn(tick) } : undefined;
}

/** No liquidity is in range before the first mint. */
function initialized({ data }: ChainLog): PoolChange | undefined {
  const [sqrtPriceX96, tick] = abiWords(data, 2) ?? [];
  if (sqrtPriceX96 === undefined || tick === undefined) return undefined;
  return ofState({ style: "v3", sqrtPriceX96, liquidity: 0n, tick: tickIn(tick) });
}

/** Every `Swap` has the new state in words 2 to 4, whatever follows. */
export function swapped({ data }: ChainLog): PoolChange | undefined {
  const [, , sqrtPriceX96, liquidity, tick] = abiWords(data, 5) ?? [];
  if (sqrtPriceX96 === undefined || liquidity === undefined || tick === undefined) return undefined;
  return ofState({ style: "v3", sqrtPriceX96, liquidity, tick: tickIn(tick) });
}

const positionChanged =
  (sign: 1n | -1n, amountAt: number) =>
  ({ data, topics }: ChainLog): PoolChange | undefined => {
    const [, , lower, upper] = topics;
    const amount = abiWords(data, amountAt + 3)?.[amountAt];
    if (amount === undefined || lower === undefined || upper === undefined) return undefined;
    const [tickLower, tickUpper] = [tickIn(BigInt(lower)), tickIn(BigInt(upper))];
    return { kind: "liquidity", delta: sign * amount, tickLower, tickUpper };
  };

const swap = (more = "") => topicOf(`Swap(address,address,int256,int256,uint160,uint128,int24${more})`);

const MINT = topicOf("Mint(address,address,int24,int24,uint128,uint256,uint256)");
const BURN = topicOf("Burn(address,int24,int24,uint128,uint256,uint256)");
/** Integral 1.2.1 to 1.2.5 add two fees to `Swap`, and one to `Burn`. */
const BURN_WITH_FEE = topicOf("Burn(address,int24,int24,uint128,uint256,uint256,uint24)");

/** The events that all these pools have. */
const EVENTS: Style["events"] = {
  [topicOf("Initialize(uint160,int24)")]: initialized,
  [swap()]: swapped,
  [MINT]: positionChanged(1n, 1),
  [BURN]: positionChanged(-1n, 0),
};

export const V3: Style = {
  created: { topic: topicOf("PoolCreated(address,address,uint24,int24,address)"), tokensAt: 1 },
  // PancakeSwap v3's `Swap` is followed by two protocol fees.
  events: { ...EVENTS, [swap(",uint128,uint128")]: swapped },
  positions: [MINT, BURN],
  // A tier that every known factory enables in its constructor.
  probe: { signature: "feeAmountTickSpacing(uint24)", words: [wordOf(500)] },
  find: (venue, a, b) =>
    findByCalls(
      venue,
      [a, b],
      venue.fees.map((fee) => ({ signature: "getPool(address,address,uint24)", words: [wordOf(fee)], fee })),
    ),
  state: (pool) =>
    readContract(pool, ["slot0()", "liquidity()"], ([slot0, inRange]) => ({ reading: concentrated(slot0, inRange) })),
};

export const SLIPSTREAM: Style = {
  created: { topic: topicOf("PoolCreated(address,address,int24,address)"), tokensAt: 1 },
  events: EVENTS,
  positions: [MINT, BURN],
  probe: { signature: "tickSpacings()", words: [] },
  find: (venue, a, b) =>
    findByCalls(
      venue,
      [a, b],
      venue.spacings.map((spacing) => ({ signature: "getPool(address,address,int24)", words: [wordOf(spacing)] })),
    ),
  state: (pool) =>
    readContract(pool, ["slot0()", "liquidity()", "fee()"], ([slot0, inRange, fee]) => ({
      reading: concentrated(slot0, inRange),
      pool: { ...pool, fee: Number(answer(fee) ?? 0n) },
    })),
};

/** Words of `globalState()` in Camelot's build, which has a fee for each direction. */
const WORDS_WITH_TWO_FEES = 8;

/** All versions of Algebra, 1.0 to Integral 1.2: root, tick and fee are the first words of each one's state. */
export const ALGEBRA: Style = {
  created: { topic: topicOf("Pool(address,address,address)"), tokensAt: 1 },
  events: {
    ...EVENTS,
    [swap(",uint24,uint24")]: swapped,
    [BURN_WITH_FEE]: positionChanged(-1n, 0),
  },
  positions: [MINT, BURN, BURN_WITH_FEE],
  probe: { signature: "poolDeployer()", words: [] },
  find: (venue, a, b) => findByCalls(venue, [a, b], [{ signature: "poolByPair(address,address)" }]),
  state: (pool) =>
    readContract(pool, ["globalState()", "liquidity()"], ([state, inRange]) => {
      const hasTwoFees = answer(state, WORDS_WITH_TWO_FEES - 1) !== undefined;
      const fees = [answer(state, 2), hasTwoFees ? answer(state, 3) : undefined].map((fee) => Number(fee ?? 0n));
      return { reading: concentrated(state, inRange), pool: { ...pool, fee: Math.max(...fees) } };
    }),
};
