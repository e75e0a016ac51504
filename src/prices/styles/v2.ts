/**
 * Pairs of reserves: Uniswap v2 and its forks, and Camelot's, whose pairs set their own curve and fees
 * (github.com/CamelotLabs/core).
 */

import { isAmongTwelve } from "../../chains/exchanges.ts";
import { topicOf } from "../../core/keccak.ts";
import type { CallResult, ChainLog } from "../../rpc/port.ts";
import type { Reading } from "../market/pools.ts";
import { abiWords, answer } from "./abi.ts";
import {
  type BothSides,
  findByCalls,
  ofState,
  type PairSale,
  type PoolRead,
  readContract,
  type Style,
} from "./style.ts";
import { MILLION, magnitude, TOO_MUCH, UnknownTrade } from "./trade.ts";

/** The reading of `getReserves()`. */
export function reservesAnswer(result: CallResult | undefined): Reading | undefined {
  const [reserve0, reserve1] = [answer(result, 0), answer(result, 1)];
  return reserve0 === undefined || reserve1 === undefined ? undefined : { style: "v2", reserve0, reserve1 };
}

/** A pair's reserves, and the time of their last change, which the third word of `getReserves()` tells. */
export function pairAnswer(result: CallResult | undefined): Pick<PoolRead, "reading" | "changedAt"> {
  const reading = reservesAnswer(result);
  const changedAt = answer(result, 2);
  return reading === undefined || changedAt === undefined ? { reading } : { reading, changedAt: Number(changedAt) };
}

/** The reading in the data of a `Sync` event. */
export function reservesIn(data: string): Reading | undefined {
  const [reserve0, reserve1] = abiWords(data, 2) ?? [];
  return reserve0 === undefined || reserve1 === undefined ? undefined : { style: "v2", reserve0, reserve1 };
}

/** The amounts of a pair's `Swap`, which tells what came in of each token and what went out. */
export function pairSwapped({ data }: ChainLog): readonly [bigint, bigint] | undefined {
  const [in0, in1, out0, out1] = abiWords(data, 4) ?? [];
  if (in0 === undefined || in1 === undefined || out0 === undefined || out1 === undefined) return undefined;
  return [magnitude(in0 - out0), magnitude(in1 - out1)];
}

/** The largest reserve of a pair. */
const MAX_RESERVE = (1n << 112n) - 1n;

/** A sale to a pair, which keeps the fee in its reserves (v2-periphery, UniswapV2Library). */
function sale({ own, other }: BothSides, paid: bigint, fee: bigint): PairSale {
  if (own + paid > MAX_RESERVE) throw new UnknownTrade(TOO_MUCH);
  const afterFee = paid * (MILLION - fee);
  return { kept: paid, given: (afterFee * other) / (own * MILLION + afterFee) };
}

export const V2: Style = {
  created: { topic: topicOf("PairCreated(address,address,address,uint256)"), tokensAt: 1 },
  events: { [topicOf("Sync(uint112,uint112)")]: ({ data }) => ofState(reservesIn(data)) },
  probe: { signature: "allPairsLength()", words: [] },
  find: (venue, a, b) =>
    findByCalls(venue, [a, b], [{ signature: "getPair(address,address)", fee: venue.fees[0] ?? 0 }]),
  state: (pool) => readContract(pool, ["getReserves()"], ([reserves]) => pairAnswer(reserves)),
  sale: "reserves",
  exact: {
    kind: "reserves",
    sale,
    // The fee is a constant in a pair's code. That of other exchanges' pairs is only what their interfaces say.
    hasConstantFee: true,
    refusal: (pool) => (isAmongTwelve(pool) ? undefined : `the fee of pairs of ${pool.exchange} is not verified`),
    swaps: { [topicOf("Swap(address,uint256,uint256,uint256,uint256,address)")]: pairSwapped },
  },
};

/** Camelot's fee denominator is 100,000; this service's is a million. */
const CAMELOT_TO_HUNDREDTHS = 10n;

export const CAMELOT: Style = {
  created: V2.created,
  events: V2.events,
  find: V2.find,
  sale: "quoted",
  state: (pool) =>
    readContract(
      pool,
      ["getReserves()", "stableSwap()", "token0FeePercent()", "token1FeePercent()"],
      ([reserves, stableSwap, ...fees]) => {
        const fee = Math.max(...fees.map((one) => Number((answer(one) ?? 0n) * CAMELOT_TO_HUNDREDTHS)));
        return { reading: reservesAnswer(reserves), pool: { ...pool, stableCurve: answer(stableSwap) === 1n, fee } };
      },
    ),
};
