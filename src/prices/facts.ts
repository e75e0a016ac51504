/** Prices' own shapes as the events of the log, and nothing else. */
import type { Address } from "../core/hex.ts";
import type { PoolDiscovered, PriceObserved, TokenIdentified } from "../events/types.ts";
import type { TokenFacts } from "./discovery.ts";
import { fromPoolState, type Observation, type Pool, toPoolState } from "./pools.ts";

export const identifiedEvent = (facts: TokenFacts, block: number): TokenIdentified => ({
  type: "TokenIdentified",
  name: facts.name,
  symbol: facts.symbol,
  ...(facts.decimals === undefined ? {} : { decimals: facts.decimals }),
  isContract: facts.kind !== "not_a_token",
  block,
});

export const discoveredEvent = (pool: Pool, block: number): PoolDiscovered => ({
  type: "PoolDiscovered",
  pool: pool.address,
  factory: pool.factory,
  style: pool.style,
  fee: pool.fee,
  token0: pool.token0,
  token1: pool.token1,
  ...(pool.stableCurve ? { stableCurve: true } : {}),
  block,
});

export const observedEvent = (pool: Address, observation: Observation): PriceObserved => ({
  type: "PriceObserved",
  pool,
  state: toPoolState(observation.reading),
  ...(observation.balance0 === undefined ? {} : { balance0: observation.balance0.toString() }),
  ...(observation.balance1 === undefined ? {} : { balance1: observation.balance1.toString() }),
  block: observation.block,
  blockHash: observation.blockHash,
  timestamp: observation.timestamp,
  ...(observation.transactionHash === undefined ? {} : { transactionHash: observation.transactionHash }),
  ...(observation.logIndex === undefined ? {} : { logIndex: observation.logIndex }),
});

/** The inverse of `observedEvent`. */
export const observationOf = (event: PriceObserved): Observation => ({
  reading: fromPoolState(event.state),
  ...(event.balance0 === undefined ? {} : { balance0: BigInt(event.balance0) }),
  ...(event.balance1 === undefined ? {} : { balance1: BigInt(event.balance1) }),
  block: event.block,
  blockHash: event.blockHash,
  timestamp: event.timestamp,
  ...(event.transactionHash === undefined ? {} : { transactionHash: event.transactionHash }),
  ...(event.logIndex === undefined ? {} : { logIndex: event.logIndex }),
});
