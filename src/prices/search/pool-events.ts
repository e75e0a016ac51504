/**
 * Decodes pool events and folds them into pool states. `applyLog` keeps a state current from logs alone, for v2 and v3
 * pools. It also updates the balances, where they are known, by the amounts in each event.
 */
import type { AdvancedBlocks, ChainView } from "../../chain/consumer.ts";
import type { ChainLog } from "../../rpc/port.ts";
import type { Observation, Reading } from "../market/pools.ts";
import { type HotPool, stateAt } from "../memory/token-book.ts";
import { abiWord, signedWord, TOPIC } from "./exchange-abi.ts";

/** The change of a pool's price, depth or balances by one log. */
type PoolChange =
  | { readonly kind: "state"; readonly reading: Reading; readonly in0: bigint; readonly in1: bigint }
  | {
      readonly kind: "liquidity";
      readonly delta: bigint;
      readonly tickLower: number;
      readonly tickUpper: number;
      readonly in0: bigint;
      readonly in1: bigint;
    }
  | { readonly kind: "balances"; readonly in0: bigint; readonly in1: bigint };

/** Liquidity after `Initialize`: none is in range before the first mint. */
const NO_LIQUIDITY = 0n;

const tickOf = (topic: string | undefined): number | undefined =>
  topic === undefined ? undefined : Number(BigInt.asIntN(24, BigInt(topic)));

function words(data: string, count: number): bigint[] | undefined {
  if (data.length < 2 + count * 64) return undefined;
  return Array.from({ length: count }, (_, index) => abiWord(data, index) ?? 0n);
}

function swapOf(data: string): PoolChange | undefined {
  const values = words(data, 5);
  if (values === undefined) return undefined;
  const [, , sqrtPriceX96 = 0n, liquidity = 0n] = values;
  const tick = Number(BigInt.asIntN(24, values[4] ?? 0n));
  return {
    kind: "state",
    reading: { style: "v3", sqrtPriceX96, liquidity, tick },
    in0: signedWord(data, 0) ?? 0n,
    in1: signedWord(data, 1) ?? 0n,
  };
}

function liquidityOf(log: ChainLog, sign: 1n | -1n, amountAt: number): PoolChange | undefined {
  const tickLower = tickOf(log.topics[2]);
  const tickUpper = tickOf(log.topics[3]);
  const values = words(log.data, amountAt + 3);
  if (values === undefined || tickLower === undefined || tickUpper === undefined) return undefined;
  const [amount = 0n, amount0 = 0n, amount1 = 0n] = values.slice(amountAt);
  // `Burn` only credits the owed amount; the tokens leave the pool with `Collect`.
  const moved = sign === 1n ? { in0: amount0, in1: amount1 } : { in0: 0n, in1: 0n };
  return { kind: "liquidity", delta: sign * amount, tickLower, tickUpper, ...moved };
}

/** Decodes one log of a pool; undefined for other events and malformed data. */
function decodeLog(log: ChainLog): PoolChange | undefined {
  switch (log.topics[0]) {
    case TOPIC.sync: {
      const values = words(log.data, 2);
      if (values === undefined) return undefined;
      const [reserve0 = 0n, reserve1 = 0n] = values;
      return { kind: "state", reading: { style: "v2", reserve0, reserve1 }, in0: 0n, in1: 0n };
    }
    case TOPIC.initialize: {
      const values = words(log.data, 2);
      if (values === undefined) return undefined;
      const [sqrtPriceX96 = 0n, tick = 0n] = values;
      const reading = {
        style: "v3",
        sqrtPriceX96,
        liquidity: NO_LIQUIDITY,
        tick: Number(BigInt.asIntN(24, tick)),
      } as const;
      return { kind: "state", reading, in0: 0n, in1: 0n };
    }
    case TOPIC.swap:
    case TOPIC.swapWithProtocolFees:
      return swapOf(log.data);
    case TOPIC.mint:
      return liquidityOf(log, 1n, 1);
    case TOPIC.burn:
      return liquidityOf(log, -1n, 0);
    case TOPIC.collect: {
      const values = words(log.data, 3);
      return values && { kind: "balances", in0: -(values[1] ?? 0n), in1: -(values[2] ?? 0n) };
    }
    case TOPIC.collectProtocol: {
      const values = words(log.data, 2);
      return values && { kind: "balances", in0: -(values[0] ?? 0n), in1: -(values[1] ?? 0n) };
    }
    case TOPIC.flash: {
      const values = words(log.data, 4);
      return values && { kind: "balances", in0: values[2] ?? 0n, in1: values[3] ?? 0n };
    }
    default:
      return undefined;
  }
}

/** True if the log alone sets the pool's price, independent of earlier logs. */
export const setsPrice = (log: ChainLog): boolean => decodeLog(log)?.kind === "state";

/**
 * Returns the state after a log. Returns `before` when the log changes nothing, or only values that are not known yet.
 * `timestamp`: the time of the log's block, in Unix seconds.
 */
export function applyLog(before: Observation | undefined, log: ChainLog, timestamp: number): Observation | undefined {
  const change = decodeLog(log);
  if (change === undefined) return before;
  const at = {
    block: log.blockNumber,
    blockHash: log.blockHash,
    timestamp,
    transactionHash: log.transactionHash,
    logIndex: log.logIndex,
  };
  if (change.kind === "state") return { ...at, reading: change.reading, ...balancesAfter(before, change) };
  if (before === undefined) return undefined;
  const balances = balancesAfter(before, change);
  const { reading } = before;
  if (reading.style !== "v3") return before;
  const inRange = change.kind === "liquidity" && change.tickLower <= reading.tick && reading.tick < change.tickUpper;
  if (!inRange) {
    if (balances.balance0 === before.balance0 && balances.balance1 === before.balance1) return before;
    // Only the balances change. In the same block the state still names the event that set the price.
    if (before.block === log.blockNumber) return { ...before, ...balances };
    const { blockNumber: block, blockHash } = log;
    return { reading, ...balances, block, blockHash, timestamp };
  }
  return { ...at, reading: { ...reading, liquidity: reading.liquidity + change.delta }, ...balances };
}

function balancesAfter(before: Observation | undefined, change: PoolChange): { balance0?: bigint; balance1?: bigint } {
  // A v2 pair reads its balances and emits them as `Sync`, so at that moment they equal the reserves.
  if (change.kind === "state" && change.reading.style === "v2") {
    return { balance0: change.reading.reserve0, balance1: change.reading.reserve1 };
  }
  const { balance0, balance1 } = before ?? {};
  const floor = (value: bigint): bigint => (value < 0n ? 0n : value);
  return {
    ...(balance0 === undefined ? {} : { balance0: floor(balance0 + change.in0) }),
    ...(balance1 === undefined ? {} : { balance1: floor(balance1 + change.in1) }),
  };
}

// Computes a pool's states at the ends of blocks from its known state and its logs. Pure.

/**
 * Returns the states that a batch's logs lead to. Up to the block before the batch, or to the pool's base if that is
 * later, the pool's timeline is authoritative. Later entries in it were read by another process and are ignored.
 * `timestamps`: Unix seconds by block. A state in a block without one is only an intermediate step; the batch's last
 * block always has one.
 */
export function replay(
  hot: HotPool,
  { fromBlock }: AdvancedBlocks,
  logs: readonly ChainLog[],
  timestamps: ReadonlyMap<number, number>,
  view: ChainView,
): Observation[] {
  const known = Math.max(fromBlock - 1, hot.base?.number ?? -1);
  const states: Observation[] = [];
  let last = stateAt(hot, known, view);
  for (const log of logs) {
    if (log.blockNumber <= known) continue;
    const timestamp = timestamps.get(log.blockNumber);
    const next = applyLog(last, log, timestamp ?? last?.timestamp ?? 0);
    if (next === undefined || next === last) continue;
    if (states.at(-1)?.block === next.block) states.pop();
    if (timestamp !== undefined) states.push(next);
    last = next;
  }
  return states;
}
