/**
 * Solidly's pairs, each volatile or stable: version 1 (github.com/solidlyexchange/solidly) and Velodrome's version 2
 * with Aerodrome (github.com/aerodrome-finance/contracts). Fees stay outside the reserves. `Sync` has wider numbers
 * than Uniswap's, so it is another event.
 */
import type { Address } from "../../core/hex.ts";
import { topicOf } from "../../core/keccak.ts";
import { addressWord, wordOf } from "../../rpc/calls.ts";
import type { Pool } from "../market/pools.ts";
import { answer, both, call, signedWord } from "./abi.ts";
import {
  type BothSides,
  findByCalls,
  ofState,
  type PairSale,
  poolContract,
  readContract,
  type StableSide,
  type Style,
  type Venue,
} from "./style.ts";
import { TOO_MUCH, UnknownTrade } from "./trade.ts";
import { pairAnswer, pairSwapped, reservesIn } from "./v2.ts";

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

const readReserves = (pool: Pool) => readContract(pool, ["getReserves()"], ([reserves]) => pairAnswer(reserves));

const NO_PAIR = [wordOf(0), wordOf(0), wordOf(0)];

const MAX_WORD = (1n << 256n) - 1n;
const E18 = 10n ** 18n;

/** x³y + y³x with 18 places, rounded as the contract does. */
const curve = (x: bigint, y: bigint): bigint => (((x * y) / E18) * ((x * x) / E18 + (y * y) / E18)) / E18;
const slope = (x: bigint, y: bigint): bigint => (3n * x * ((y * y) / E18)) / E18 + (((x * x) / E18) * x) / E18;

const MOST_STEPS = 255;
const UNSOLVED = "the pair's own solver finds no amount";

/**
 * The y of the curve through `wanted` at x, by the contract's own steps from `y`. Where the contract compares the curve at
 * y + 1 it takes both amounts for unscaled ones.
 */
function solved(x: bigint, wanted: bigint, from: bigint, unscaled: (x: bigint, y: bigint) => bigint): bigint {
  let y = from;
  for (let step = 0; step < MOST_STEPS; step++) {
    const [now, rise] = [curve(x, y), slope(x, y)];
    if (rise === 0n) break;
    const isBelow = now < wanted;
    const by = ((isBelow ? wanted - now : now - wanted) * E18) / rise;
    if (by === 0n && isBelow && unscaled(x, y + 1n) > wanted) return y + 1n;
    if (by === 0n && !isBelow && (now === wanted || curve(x, y - 1n) < wanted)) return y;
    y += (by === 0n ? 1n : by) * (isBelow ? 1n : -1n);
    if (y < 0n) break;
  }
  throw new UnknownTrade(UNSOLVED);
}

function stableSale({ own, other }: BothSides, kept: bigint, { units, isToken0 }: StableSide): bigint {
  const scale = (amount: bigint, unit: bigint) => (amount * E18) / unit;
  const [x, y] = [scale(own, units.own), scale(other, units.other)];
  const [unit0, unit1] = isToken0 ? [units.own, units.other] : [units.other, units.own];
  const unscaled = (a: bigint, b: bigint) => curve(scale(a, unit0), scale(b, unit1));
  const after = scale(kept, units.own) + x;
  if (after ** 3n / E18 > MAX_WORD) throw new UnknownTrade(TOO_MUCH);
  const left = solved(after, curve(x, y), y, unscaled);
  if (left > y) throw new UnknownTrade(UNSOLVED);
  return ((y - left) * units.other) / E18;
}

/** The fee of the factories is in hundredths of a per cent. */
const WHOLE = 10_000n;
const FEE_TO_HUNDREDTHS = 100n;

/** A sale to a pair, which keeps the fee outside its reserves (contracts/Pool.sol of Aerodrome). */
function sale(reserves: BothSides, paid: bigint, fee: bigint, stable: StableSide | undefined): PairSale {
  const kept = paid - (paid * (fee / FEE_TO_HUNDREDTHS)) / WHOLE;
  if (stable !== undefined) return { kept, given: stableSale(reserves, kept, stable) };
  return { kept, given: (kept * reserves.other) / (reserves.own + kept) };
}

const SWAPS = { [topicOf("Swap(address,address,uint256,uint256,uint256,uint256)")]: pairSwapped };

/** Version 1 has a fee in its code or in its factory, by fork. */
export const SOLIDLY_V1: Style = {
  created: { topic: topicOf("PairCreated(address,address,bool,address,uint256)"), tokensAt: 1 },
  events,
  probe: { signature: "getPair(address,address,bool)", words: NO_PAIR },
  find: (venue, a, b) => findBoth(venue, [a, b], "getPair(address,address,bool)"),
  state: readReserves,
  sale: "quoted",
  exact: {
    kind: "reserves",
    sale,
    hasConstantFee: false,
    quote: (pool, paid, isToken0) =>
      call(
        poolContract(pool),
        "getAmountOut(uint256,address)",
        ...[signedWord(paid), addressWord(isToken0 ? pool.token0 : pool.token1)],
      ),
    swaps: SWAPS,
  },
};

export const SOLIDLY_V2: Style = {
  created: { topic: topicOf("PoolCreated(address,address,bool,address,uint256)"), tokensAt: 1 },
  events,
  probe: { signature: "getPool(address,address,bool)", words: NO_PAIR },
  find: (venue, a, b) => findBoth(venue, [a, b], "getPool(address,address,bool)"),
  sale: "quoted",
  exact: {
    kind: "reserves",
    sale,
    hasConstantFee: false,
    swaps: SWAPS,
  },
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
