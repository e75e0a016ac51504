/**
 * Concentrated liquidity with pools of their own: Uniswap v3 and its forks PancakeSwap v3 and SushiSwap v3; Slipstream
 * (github.com/aerodrome-finance/slipstream), which names pools by tick spacing and moves their fees; and Algebra, with
 * one pool of moving fees for each pair (github.com/cryptoalgebra).
 */
import { topicOf } from "../../core/keccak.ts";
import { wordOf } from "../../rpc/calls.ts";
import type { CallResult, ChainLog } from "../../rpc/port.ts";
import type { Pool, Reading } from "../market/pools.ts";
import { abiWords, answer, both, type CallPlan, call, signedWord, tickIn } from "./abi.ts";
import {
  findByCalls,
  ofState,
  type PoolChange,
  poolContract,
  readContract,
  type Style,
  type TickedRead,
} from "./style.ts";
import { feesReader, readSpacings } from "./tiers.ts";
import { magnitude } from "./trade.ts";

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

/** The amounts of every `Swap`, which are signed. */
export function rangeSwapped({ data }: ChainLog): readonly [bigint, bigint] | undefined {
  const [first, second] = abiWords(data, 2) ?? [];
  if (first === undefined || second === undefined) return undefined;
  return [magnitude(BigInt.asIntN(256, first)), magnitude(BigInt.asIntN(256, second))];
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

const INITIALIZE = topicOf("Initialize(uint160,int24)");

/** The events that all these pools have. */
const EVENTS: Style["events"] = {
  [INITIALIZE]: initialized,
  [swap()]: swapped,
  [MINT]: positionChanged(1n, 1),
  [BURN]: positionChanged(-1n, 0),
};

/** Reads a pool's ticks by its getters. */
const readTicks =
  (state: Style["state"]) =>
  (pool: Pool): CallPlan<TickedRead> => {
    const contract = poolContract(pool);
    const spacing = { calls: [call(contract, "tickSpacing()")], read: ([said]: readonly CallResult[]) => answer(said) };
    const plan = both(state(pool), spacing);
    return {
      calls: plan.calls,
      read(results) {
        const [seen, said] = plan.read(results);
        const fee = BigInt(seen.pool.fee);
        const ticks: TickedRead["ticks"] = {
          ...{ spacing: Number(said ?? 0n), fees: [fee, fee] },
          word: (index) => call(contract, "tickBitmap(int16)", signedWord(BigInt(index))),
          tick: (tick) => call(contract, "ticks(int24)", signedWord(BigInt(tick))),
          netIn(result) {
            const net = answer(result, 1);
            return net === undefined ? undefined : BigInt.asIntN(128, net);
          },
        };
        return { ...seen, ticks };
      },
    };
  };

const v3State: Style["state"] = (pool) =>
  readContract(pool, ["slot0()", "liquidity()"], ([slot0, inRange]) => ({ reading: concentrated(slot0, inRange) }));

/** Uniswap's, PancakeSwap's 2500 and tiers that forks enabled. */
const USUAL_FEES = [50, 100, 200, 250, 300, 400, 500, 1000, 2500, 3000, 5000, 10_000];

export const V3: Style = {
  created: { topic: topicOf("PoolCreated(address,address,uint24,int24,address)"), tokensAt: 1 },
  begins: INITIALIZE,
  // PancakeSwap v3's `Swap` is followed by two protocol fees.
  events: { ...EVENTS, [swap(",uint128,uint128")]: swapped },
  // A tier that every known factory enables in its constructor.
  probe: { signature: "feeAmountTickSpacing(uint24)", words: [wordOf(500)] },
  tiers: {
    by: "fees",
    usual: USUAL_FEES,
    read: feesReader(USUAL_FEES),
    added: topicOf("FeeAmountEnabled(uint24,int24)"),
  },
  find: (venue, a, b) =>
    findByCalls(
      venue,
      [a, b],
      venue.fees.map((fee) => ({ signature: "getPool(address,address,uint24)", words: [wordOf(fee)], fee })),
    ),
  state: v3State,
  sale: "callback",
  meter: { kind: "contract", leastSpacing: ({ fee }) => Math.floor(fee / 100) },
  exact: {
    kind: "ranges",
    read: readTicks(v3State),
    // The fee is constant. The protocol takes a part of it.
    past: { topics: [MINT, BURN], fees: ({ fee }) => [BigInt(fee), BigInt(fee)] },
    swaps: { [swap()]: rangeSwapped, [swap(",uint128,uint128")]: rangeSwapped },
  },
};

const slipstreamState: Style["state"] = (pool) =>
  readContract(pool, ["slot0()", "liquidity()", "fee()"], ([slot0, inRange, fee]) => ({
    reading: concentrated(slot0, inRange),
    pool: { ...pool, fee: Number(answer(fee) ?? 0n) },
  }));

export const SLIPSTREAM: Style = {
  created: { topic: topicOf("PoolCreated(address,address,int24,address)"), tokensAt: 1 },
  begins: INITIALIZE,
  events: EVENTS,
  probe: { signature: "tickSpacings()", words: [] },
  tiers: {
    by: "spacings",
    usual: [1, 10, 50, 100, 200, 500, 2000],
    read: readSpacings,
    added: topicOf("TickSpacingEnabled(int24,uint24)"),
  },
  find: (venue, a, b) =>
    findByCalls(
      venue,
      [a, b],
      venue.spacings.map((spacing) => ({ signature: "getPool(address,address,int24)", words: [wordOf(spacing)] })),
    ),
  state: slipstreamState,
  sale: "callback",
  meter: { kind: "contract" },
  exact: { kind: "ranges", read: readTicks(slipstreamState), swaps: { [swap()]: rangeSwapped } },
};

/** Words of `globalState()` in Camelot's build, which has a fee for each direction. */
const WORDS_WITH_TWO_FEES = 8;

/** Algebra 1. Root, tick and fee are the first words of the state of each version, up to Integral 1.2. */
export const ALGEBRA: Style = {
  created: { topic: topicOf("Pool(address,address,address)"), tokensAt: 1 },
  begins: INITIALIZE,
  events: {
    ...EVENTS,
    [swap(",uint24,uint24")]: swapped,
    [BURN_WITH_FEE]: positionChanged(-1n, 0),
  },
  probe: { signature: "poolDeployer()", words: [] },
  find: (venue, a, b) => findByCalls(venue, [a, b], [{ signature: "poolByPair(address,address)" }]),
  state: (pool) =>
    readContract(pool, ["globalState()", "liquidity()"], ([state, inRange]) => {
      const hasTwoFees = answer(state, WORDS_WITH_TWO_FEES - 1) !== undefined;
      const fees = [answer(state, 2), hasTwoFees ? answer(state, 3) : undefined].map((fee) => Number(fee ?? 0n));
      return { reading: concentrated(state, inRange), pool: { ...pool, fee: Math.max(...fees) } };
    }),
  sale: "callback",
  meter: { kind: "algebra" },
};

export const ALGEBRA_INTEGRAL: Style = { ...ALGEBRA, meter: { kind: "algebra-integral" } };
