/**
 * Pool events into pool states: `applyLog` is the fold by which a state read once stays true from logs alone. v2 and
 * v3 pools both; balances are carried along where they were known, by what each event says moved.
 */
import type { AdvancedBlocks, ChainView } from "../../chain/consumer.ts";
import type { ChainLog } from "../../rpc/port.ts";
import type { Observation, Reading } from "../market/pools.ts";
import { type HotPool, stateAt } from "../memory/token-book.ts";
import { abiWord, signedWord, TOPIC } from "./exchange-abi.ts";

/** What happened to a pool's price or depth, from one log; undefined for other logs and malformed data. */
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

/** Liquidity of a state set by `Initialize`: none is in range before the first mint. */
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
  // A burn only books what is owed; the tokens leave with `Collect`.
  const moved = sign === 1n ? { in0: amount0, in1: amount1 } : { in0: 0n, in1: 0n };
  return { kind: "liquidity", delta: sign * amount, tickLower, tickUpper, ...moved };
}

/** Reads one log of a pool. */
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

/** Whether the log alone fixes the pool's price, whatever came before. */
export const setsPrice = (log: ChainLog): boolean => decodeLog(log)?.kind === "state";

/**
 * The state after a log; `before` when the log changes nothing, or changes only what is not known yet.
 * `timestamp` is the log's block's, in Unix seconds.
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
    // Only the cap moves: the state as of this block, and the event that set the price where it is the same block's.
    if (before.block === log.blockNumber) return { ...before, ...balances };
    const { blockNumber: block, blockHash } = log;
    return { reading, ...balances, block, blockHash, timestamp };
  }
  return { ...at, reading: { ...reading, liquidity: reading.liquidity + change.delta }, ...balances };
}

function balancesAfter(before: Observation | undefined, change: PoolChange): { balance0?: bigint; balance1?: bigint } {
  // A v2 pair emits Sync with the balances it has just read, so they are the reserves at that moment.
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

// A pool's states at the ends of blocks, from what is known of it and its logs. Pure.

/**
 * The states that a batch's logs lead to. Up to the block before it, or to the pool's base when that is later, the
 * pool's own timeline is the truth; later entries in it are of this very stretch, seen by somebody else.
 * `timestamps`: Unix seconds by block; a state without one only leads to the next, the batch's last always has one.
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
