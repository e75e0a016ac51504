/**
 * All styles, by name; and the fold of their events into pool states, which gives a past state from logs alone.
 */
import type { Chain } from "../../chains/chains.ts";
import type { PoolStyle } from "../../chains/exchanges.ts";
import { type Address, type Hash, ZERO_ADDRESS } from "../../core/hex.ts";
import type { ChainLog } from "../../rpc/port.ts";
import type { Observation, Pool, PoolId } from "../market/pools.ts";
import { addressAt } from "./abi.ts";
import { SOLIDLY_V1, SOLIDLY_V2 } from "./solidly.ts";
import type { PoolChange, Style } from "./style.ts";
import { CAMELOT, V2 } from "./v2.ts";
import { ALGEBRA, ALGEBRA_INTEGRAL, SLIPSTREAM, V3 } from "./v3.ts";
import { V4, V4_EVENTS } from "./v4.ts";

export const STYLES: Readonly<Record<PoolStyle, Style>> = {
  v2: V2,
  "v2-camelot": CAMELOT,
  v3: V3,
  slipstream: SLIPSTREAM,
  "algebra-v1": ALGEBRA,
  "algebra-integral": ALGEBRA_INTEGRAL,
  "solidly-v1": SOLIDLY_V1,
  "solidly-v2": SOLIDLY_V2,
  v4: V4,
};

/** Styles whose factories answer a call of their own, in the order of trial: the first that answers counts. */
export const PROBED_STYLES = ["slipstream", "v3", "solidly-v2", "algebra-integral", "solidly-v1", "v2"] as const;

/** Events by which factories announce pools. */
export const CREATION_TOPICS: readonly Hash[] = [...new Set(Object.values(STYLES).map(({ created }) => created.topic))];

/** Events by which factories announce that they make a further kind of pools. */
export const TIER_TOPICS: readonly Hash[] = [
  ...new Set(Object.values(STYLES).flatMap(({ tiers }) => tiers?.added ?? [])),
];

/**
 * Returns the tokens of a pool that a factory of this style announces. `isFound`: `find` finds the pool. `mayBeFound`:
 * another read of state may find it.
 */
export function announced(
  { created: { topic, tokensAt, isFound, mayBeFound } }: Style,
  log: ChainLog,
  chain: Chain,
): PoolAnnouncement | undefined {
  if (log.topics[0] !== topic) return undefined;
  const [first, second] = [tokensAt, tokensAt + 1].map((at) => addressAt(log.topics[at] ?? "0x", 0));
  if (first === undefined || second === undefined) return undefined;
  const tokens = [first === ZERO_ADDRESS ? chain.wrappedNative.address : first, second] as const;
  return {
    tokens,
    isFound: isFound?.(log) !== false,
    ...(mayBeFound?.(log, chain) === true ? { mayBeFound: true } : {}),
  };
}

interface PoolAnnouncement {
  readonly tokens: readonly [Address, Address];
  readonly isFound: boolean;
  readonly mayBeFound?: boolean;
}

const EVENTS: Style["events"] = Object.assign({}, ...Object.values(STYLES).map(({ events }) => events));
const KEYED_TOPICS = Object.keys(V4_EVENTS) as Hash[];

/** First topics of the events that move a pool: of a contract, or of a pool inside one. */
export const STATE_TOPICS = {
  ofContracts: (Object.keys(EVENTS) as Hash[]).filter((topic) => !KEYED_TOPICS.includes(topic)),
  ofKeyed: KEYED_TOPICS,
} as const;

/** The contract whose logs tell a pool's state. */
export const emitterOf = ({ id, key, factory }: Pick<Pool, "id" | "key" | "factory">): Address =>
  key === undefined ? (id as Address) : factory;

/** The addresses and topics of a pool's logs of these events. */
export const logsOf = (pool: Pick<Pool, "id" | "key" | "factory">, topics: readonly Hash[]) => ({
  ...{ addresses: [emitterOf(pool)], topics },
  ...(pool.key === undefined ? {} : { moreTopics: [[pool.id as Hash]] }),
});

/** The pool that a log moves. */
export const poolIdOf = ({ address, topics: [first, second] }: ChainLog): PoolId =>
  first !== undefined && second !== undefined && KEYED_TOPICS.includes(first) ? second : address;

const decode = (log: ChainLog) => EVENTS[log.topics[0] as Hash]?.(log);

/** The change of a position by a log; undefined for another log. */
export function positionChangeIn(log: ChainLog): (PoolChange & { readonly kind: "liquidity" }) | undefined {
  const change = decode(log);
  return change?.kind === "liquidity" ? change : undefined;
}

const BEGINNINGS: ReadonlySet<string> = new Set(Object.values(STYLES).flatMap(({ begins }) => begins ?? []));

/** True if the pool had no state before the log. */
export const beginsPool = ({ topics }: ChainLog): boolean => BEGINNINGS.has(topics[0] ?? "");

/** True if the log alone sets the pool's price, independent of earlier logs. */
export const setsPrice = (log: ChainLog): boolean => decode(log)?.kind === "state";

/**
 * Returns the state after a log, without balances, which no log contains. Returns `before` when the log changes nothing,
 * or only values that are not known yet. `timestamp`: the time of the log's block, in Unix seconds.
 */
export function applyLog(before: Observation | undefined, log: ChainLog, timestamp: number): Observation | undefined {
  const change = decode(log);
  if (change === undefined) return before;
  const { blockNumber: block, blockHash, transactionHash, logIndex } = log;
  const at = { block, blockHash, timestamp, transactionHash, logIndex };
  if (change.kind === "state") return { ...at, reading: change.reading };
  if (before?.reading.style !== "v3") return before;
  const { reading } = before;
  const isInRange = change.tickLower <= reading.tick && reading.tick < change.tickUpper;
  return isInRange ? { ...at, reading: { ...reading, liquidity: reading.liquidity + change.delta } } : before;
}
