/**
 * A market at a past block. If the node still has that block's state, it is read with the token's facts and the pools'
 * balances. Otherwise the facts are the newest ones, and the states come from logs alone. Both ways give the same reading.
 */
import { AppError } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import type { Market, PricedBlock } from "../market/market.ts";
import type { Observation, PoolId } from "../market/pools.ts";
import type { PoolRead } from "../styles/style.ts";
import { unlessDisproved } from "./archive-words.ts";
import { type MarketRead, planMarket } from "./discovery.ts";
import { statesFromLogs } from "./log-search.ts";
import { chainMoved, type HeadRead, type PastReader, type PastSource, type Sought } from "./past-source.ts";

/** A token's market without its block: `pools` are those that exist, with the settings that no log contains. */
export type SeenMarket = Pick<Market, "pools" | "states" | "facts" | "decimals" | "factsOf" | "archive">;

/** Returns a pool read as an observation; undefined when the pool had no state. */
export function observed(
  { reading, balance0, balance1, given, traded }: PoolRead,
  header: PricedBlock,
): Observation | undefined {
  if (reading === undefined) return undefined;
  return {
    reading,
    ...(balance0 === undefined ? {} : { balance0 }),
    ...(balance1 === undefined ? {} : { balance1 }),
    ...(given === undefined ? {} : { given }),
    ...(traded === undefined ? {} : { traded }),
    block: header.number,
    blockHash: header.hash,
    timestamp: header.timestamp,
  };
}

/** Returns what a read shows of one token. `header`: the block that was read. */
export function seenIn(read: MarketRead, token: Address, header: PricedBlock): SeenMarket {
  const states = new Map<PoolId, Observation>();
  for (const one of read.reads) {
    const state = observed(one, header);
    if (state !== undefined) states.set(one.pool.id, state);
  }
  const pools = read.reads.map(({ pool }) => pool);
  return { states, pools, facts: read.facts.get(token)!, decimals: read.decimals, factsOf: "block" };
}

/**
 * Returns a token's market at the end of `block`. The newest facts stand in for those of the block if the node lacks that
 * state, or if the contract was no token then.
 * @throws AppError `chain_moved` (retryable) when the block or a log's block is no longer canonical, `too_many_logs`
 */
export async function seenAt(source: PastSource, { token, pools }: Sought, block: PricedBlock): Promise<SeenMarket> {
  const { chain, reader } = source;
  const plan = planMarket(chain, [token], pools, block.hash);
  const then = await archived(reader, token, plan, block);
  if (then?.facts.kind === "erc20") return then;
  const { header, results } = await reader.callsAtHead(plan.calls);
  const newest: HeadRead = { header, ...plan.read(results) };
  const now: SeenMarket = { ...seenIn(newest, token, header), factsOf: "newest" };
  if (then !== undefined) return { ...now, states: then.states };
  const { states, archive } = await unlessDisproved(() => statesFromLogs(source, block, newest));
  return { ...now, states: tradedNow(states, newest), ...(archive === undefined ? {} : { archive }) };
}

/** Trades with hooks need the block's state. Without it those of today stand in: their pools' confidence is limited anyway. */
function tradedNow(states: SeenMarket["states"], { reads }: MarketRead): SeenMarket["states"] {
  const trades = new Map(
    reads.flatMap(({ pool, traded }) => (traded === undefined ? [] : [[pool.id, traded] as const])),
  );
  return new Map(
    [...states].map(([id, state]) => {
      const traded = trades.get(id);
      return [id, traded === undefined ? state : { ...state, traded }];
    }),
  );
}

/** True for a pair that never had liquidity. Logs give no state for it either. */
const isUnused = ({ reading }: Observation): boolean =>
  reading.style === "v2" && reading.reserve0 === 0n && reading.reserve1 === 0n;

/** Returns the market as the block's own state shows it. Undefined if the endpoints lack that state. */
async function archived(
  reader: PastReader,
  token: Address,
  plan: ReturnType<typeof planMarket>,
  block: PricedBlock,
): Promise<SeenMarket | undefined> {
  try {
    const seen = seenIn(plan.read(await reader.calls(plan.calls, block.number)), token, block);
    const now = await reader.header(block.number);
    if (now?.hash !== block.hash) throw chainMoved(block.number);
    return { ...seen, states: new Map([...seen.states].filter(([, state]) => !isUnused(state))) };
  } catch (error) {
    if (error instanceof AppError && error.code === "state_unavailable") return undefined;
    throw error;
  }
}
