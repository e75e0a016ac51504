/**
 * Solidly's pairs, each volatile or stable: version 1 (github.com/solidlyexchange/solidly) and Velodrome's version 2
 * with Aerodrome (github.com/aerodrome-finance/contracts). Fees stay outside the reserves. `Sync` has wider numbers
 * than Uniswap's, so it is another event.
 */
import type { Address } from "../../core/hex.ts";
import { addressWord, wordOf } from "../../rpc/calls.ts";
import type { Pool } from "../market/pools.ts";
import { answer, both, call, topicOf } from "./abi.ts";
import { findByCalls, ofState, poolContract, readContract, type Style, type Venue } from "./style.ts";
import { reservesAnswer, reservesIn } from "./v2.ts";

const events: Style["events"] = { [topicOf("Sync(uint256,uint256)")]: ({ data }) => ofState(reservesIn(data)) };

const findBoth = (venue: Venue, pair: readonly [Address, Address], signature: string) =>
  findByCalls(
    venue,
    pair,
    [false, true].map((stableCurve) => ({
      ...{ signature, stableCurve, words: [wordOf(stableCurve ? 1 : 0)] },
      fee: venue.fees[0] ?? 0,
    })),
  );

const readReserves = (pool: Pool) =>
  readContract(pool, ["getReserves()"], ([reserves]) => ({ reading: reservesAnswer(reserves) }));

const NO_PAIR = [wordOf(0), wordOf(0), wordOf(0)];

export const SOLIDLY_V1: Style = {
  created: { topic: topicOf("PairCreated(address,address,bool,address,uint256)"), tokensAt: 1 },
  events,
  probe: { signature: "getPair(address,address,bool)", words: NO_PAIR },
  find: (venue, a, b) => findBoth(venue, [a, b], "getPair(address,address,bool)"),
  state: readReserves,
};

/** The factory's fee denominator is 10,000; this service's is a million. */
const FEE_TO_HUNDREDTHS = 100n;

export const SOLIDLY_V2: Style = {
  created: { topic: topicOf("PoolCreated(address,address,bool,address,uint256)"), tokensAt: 1 },
  events,
  probe: { signature: "getPool(address,address,bool)", words: NO_PAIR },
  find: (venue, a, b) => findBoth(venue, [a, b], "getPool(address,address,bool)"),
  state(pool) {
    const words = [addressWord(poolContract(pool)), wordOf(pool.stableCurve ? 1 : 0)];
    const fee = {
      calls: [call(pool.factory, "getFee(address,bool)", ...words)],
      read: ([result]: Parameters<ReturnType<typeof readReserves>["read"]>[0]) => answer(result),
    };
    const plan = both(readReserves(pool), fee);
    return {
      calls: plan.calls,
      read(results) {
        const [read, said] = plan.read(results);
        return said === undefined ? read : { ...read, pool: { ...pool, fee: Number(said * FEE_TO_HUNDREDTHS) } };
      },
    };
  },
};
