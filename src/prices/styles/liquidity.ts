/**
 * Measures pools of concentrated liquidity at a block: what their positions hold on each side of the price, and what the
 * pools give while the price moves by 2 %. One `eth_call` without a target measures many pools, by `liquidity-meter.sol`.
 */
import { addressWord, wordOf } from "../../rpc/calls.ts";
import type { CallResult } from "../../rpc/port.ts";
import { MOVED, type Pool, type PoolId, squareRoot } from "../market/pools.ts";
import { abiWords, type CallPlan } from "./abi.ts";
// The creation code by solc 0.8.37 over its IR with 200 runs, for the EVM of Paris, without metadata. A test compiles it anew.
import LIQUIDITY_METER from "./liquidity-meter.txt";
import { poolContract, type Style } from "./style.ts";
import { STYLES } from "./styles.ts";

/** In the tokens' smallest units. */
export interface MeasuredPool {
  /** What positions hold of token0 above the price and of token1 below it, up to a factor of a hundred. */
  readonly held: readonly [bigint, bigint];
  /** What the pool gives of token0 while its price rises by 2 %, and of token1 while it falls as much. */
  readonly given: readonly [bigint, bigint];
}

type Meter = NonNullable<Style["meter"]>;

/** The order of the meter's `Kind`. */
const KINDS: readonly Meter["kind"][] = ["keyed", "contract", "algebra", "algebra-integral"];

/** Ticks on each side up to which the positions of keyed pools count, whose contract holds all pools' tokens: a factor of 100. */
const REACH_OF_HELD = 46_055;
/** Ticks in 2 %, which are 199, and the one that the price is in. */
const REACH_OF_GIVEN = 200;
/** Ticks in use that are read on each side. Liquidity beyond them counts for nothing. */
const MAX_TICKS = 128;
/** Nodes give a call 50 million. */
const GAS_PER_CALL = 26_000_000;
const GAS_PER_TICK = 16_000;
const GAS_PER_POOL = 100_000;
/** Keyed pools in a call: the search for far positions reads up to 360 words of the bitmap. */
const KEYED_PER_CALL = 6;
/** Words that the meter returns for a pool. */
const WORDS = 5;

/** The root of the part by which the price moves, times 2^64. */
const ROOT_OF_MOVE = squareRoot((MOVED.n << 128n) / MOVED.d);

/** An upper estimate of the gas that a pool outside a manager takes. */
function gasOf(pool: Pool, { leastSpacing }: Meter): number {
  const spacing = Math.max(1, leastSpacing?.(pool) ?? 1);
  return GAS_PER_POOL + GAS_PER_TICK * 2 * Math.min(MAX_TICKS, Math.floor(REACH_OF_GIVEN / spacing) + 1);
}

interface Measurable {
  readonly pool: Pool;
  readonly meter: Meter;
}

/** Divides pools into calls that take no more gas than nodes give. */
function packed(pools: readonly Measurable[]): Measurable[][] {
  const calls: Measurable[][] = [];
  let left = 0;
  for (const one of pools) {
    const gas = one.pool.key === undefined ? gasOf(one.pool, one.meter) : GAS_PER_CALL / KEYED_PER_CALL;
    if (gas > left) {
      calls.push([]);
      left = GAS_PER_CALL;
    }
    calls.at(-1)!.push(one);
    left -= gas;
  }
  return calls;
}

/**
 * Measures those pools that have concentrated liquidity. A pool is missing if it does not answer like one of its style, or
 * if the node doesn't run such calls.
 */
export function planLiquidity(pools: readonly Pool[]): CallPlan<ReadonlyMap<PoolId, MeasuredPool>> {
  const able = pools.flatMap((pool): Measurable[] => {
    const { meter } = STYLES[pool.style];
    return meter === undefined ? [] : [{ pool, meter }];
  });
  const keyed = packed(able.filter(({ pool }) => pool.key !== undefined));
  const own = packed(able.filter(({ pool }) => pool.key === undefined));
  return {
    calls: [
      ...keyed.map((some) => ({ to: undefined, data: codeFor(some, REACH_OF_HELD) })),
      ...own.map((some) => ({ to: undefined, data: codeFor(some, REACH_OF_GIVEN) })),
    ],
    read: (results) => new Map([...keyed, ...own].flatMap((some, at) => [...measuredIn(results[at], some)])),
  };
}

/** The meter's code with its arguments. */
function codeFor(pools: readonly Measurable[], reach: number): `0x${string}` {
  const move = ROOT_OF_MOVE.toString(16).padStart(64, "0");
  const head = [wordOf(4 * 32), wordOf(reach), wordOf(MAX_TICKS), move, wordOf(pools.length)];
  const wanted = pools.flatMap(({ pool, meter }) => {
    const { key, factory, id } = pool;
    const kind = wordOf(KINDS.indexOf(meter.kind));
    if (key === undefined) return [kind, addressWord(poolContract(pool)), wordOf(0), wordOf(0)];
    return [kind, addressWord(factory), id.slice(2), wordOf(key.spacing)];
  });
  return `0x${LIQUIDITY_METER}${[...head, ...wanted].join("")}`;
}

function* measuredIn(result: CallResult | undefined, pools: readonly Measurable[]): Generator<[PoolId, MeasuredPool]> {
  // The offset of the list, and its length.
  const words = (result?.ok && abiWords(result.data, 2 + WORDS * pools.length)) || [];
  for (const [at, { pool }] of pools.entries()) {
    const [isKnown, held0, held1, given0, given1] = words.slice(2 + at * WORDS, 2 + (at + 1) * WORDS);
    if (isKnown === 1n) yield [pool.id, { held: [held0!, held1!], given: [given0!, given1!] }];
  }
}
