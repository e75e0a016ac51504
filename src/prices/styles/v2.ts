/**
 * Pairs of reserves: Uniswap v2 and its forks, and Camelot's, whose pairs set their own curve and fees
 * (github.com/CamelotLabs/core).
 */
import type { CallResult } from "../../rpc/port.ts";
import type { Reading } from "../market/pools.ts";
import { abiWords, answer, topicOf } from "./abi.ts";
import { findByCalls, ofState, readContract, type Style } from "./style.ts";

/** The reading of `getReserves()`. */
export function reservesAnswer(result: CallResult | undefined): Reading | undefined {
  const [reserve0, reserve1] = [answer(result, 0), answer(result, 1)];
  return reserve0 === undefined || reserve1 === undefined ? undefined : { style: "v2", reserve0, reserve1 };
}

/** The reading in the data of a `Sync` event. */
export function reservesIn(data: string): Reading | undefined {
  const [reserve0, reserve1] = abiWords(data, 2) ?? [];
  return reserve0 === undefined || reserve1 === undefined ? undefined : { style: "v2", reserve0, reserve1 };
}

export const V2: Style = {
  created: { topic: topicOf("PairCreated(address,address,address,uint256)"), tokensAt: 1 },
  events: { [topicOf("Sync(uint112,uint112)")]: ({ data }) => ofState(reservesIn(data)) },
  probe: { signature: "allPairsLength()", words: [] },
  find: (venue, a, b) =>
    findByCalls(venue, [a, b], [{ signature: "getPair(address,address)", fee: venue.fees[0] ?? 0 }]),
  state: (pool) => readContract(pool, ["getReserves()"], ([reserves]) => ({ reading: reservesAnswer(reserves) })),
};

/** Camelot's fee denominator is 100,000; this service's is a million. */
const CAMELOT_TO_HUNDREDTHS = 10n;

export const CAMELOT: Style = {
  created: V2.created,
  events: V2.events,
  find: V2.find,
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
