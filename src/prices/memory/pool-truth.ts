/**
 * What memory knows of one pool: its states back to the start of the average's window, and whether they are current.
 * Each transition is one function here. Makes no requests.
 */
import type { AdvancedBlocks, ChainView } from "../../chain/consumer.ts";
import type { Hash } from "../../core/hex.ts";
import type { HeaderRef } from "../../events/types.ts";
import type { ChainLog } from "../../rpc/port.ts";
import { isBlind, type Observation, type Pool } from "../market/pools.ts";
import { TWAP_WINDOW } from "../market/quote.ts";
import { applyLog } from "../search/exchange-events.ts";
import { insertByBlock } from "./projection.ts";

/** States that are older than the window by this margin are dropped, in seconds. */
const KEEP_SECONDS = TWAP_WINDOW + 300;
/** States of one pool in memory: half an hour of half-second blocks is 3,600. */
const MAX_TIMELINE = 4_096;

/** A block; the pool's state at its end is known. */
interface Base {
  readonly number: number;
  /** Undefined when only the log gives the number. The stream's own revert events then invalidate it. */
  readonly hash: Hash | undefined;
  /** Unix seconds; infinite when only the number is known. */
  readonly timestamp: number;
}

/**
 * - `unknown`: nothing that a price may use. The pool must be read.
 * - `known`: the state at the end of `base`. Later events may be missing. `base.hash ≠ undefined`.
 * - `followed`: the state at `base` and all events since `from`, up to the newest followed block, with
 *   `from ≤ base.number + 1`. They came through this process's follower, or through the log of the process that follows.
 */
type PoolTruth =
  | { readonly kind: "unknown" }
  | { readonly kind: "known"; readonly base: Base }
  | { readonly kind: "followed"; readonly base: Base; readonly from: number };

const UNKNOWN = { kind: "unknown" } as const;

export interface HotPool {
  pool: Pool;
  /** Ascending by block, one per block. Complete from the end of the base on, as far as `truth` says. */
  timeline: Observation[];
  truth: PoolTruth;
}

export const hotPool = (pool: Pool): HotPool => ({ pool, timeline: [], truth: UNKNOWN });

/** True if the pool's state at `head` is certain, and its depth is capped by a known balance. */
export function isCurrent(hot: HotPool, head: Pick<HeaderRef, "number">, view: ChainView): boolean {
  const { truth } = hot;
  if (truth.kind !== "followed" || truth.base.number > head.number || !isStanding(truth.base, view)) return false;
  const state = stateAt(hot, head.number, view);
  // Logs of earlier releases can hold blind states.
  return state === undefined || !isBlind(state);
}

/** True if the base's block is still on the chain. */
const isStanding = ({ number, hash }: Base, view: ChainView): boolean => hash === undefined || isOn(view, number, hash);

/** False if the followed chain has another block at that number. */
function isOn(view: ChainView, number: number, hash: Hash): boolean {
  const header = view.header(number);
  return header === undefined ? view.isCanonical({ number, hash }) : header.hash === hash;
}

/** Returns the pool's state at the end of a block. */
export const stateAt = (hot: HotPool, block: number, view: ChainView): Observation | undefined =>
  hot.timeline.findLast((state) => state.block <= block && isOn(view, state.block, state.blockHash));

/** Returns the pool's states up to the end of a block. */
export const statesUpTo = (hot: HotPool, block: number, view: ChainView): Observation[] =>
  hot.timeline.filter((state) => state.block <= block && isOn(view, state.block, state.blockHash));

/** True if the pool's states are complete from a moment (Unix seconds) on. */
export const reachesBack = ({ truth }: HotPool, timestamp: number): boolean =>
  truth.kind === "followed" && truth.base.timestamp <= timestamp;

/** Number of the block at whose end the pool's state is known; -1 when it is not. */
export const baseNumber = ({ truth }: HotPool): number => (truth.kind === "unknown" ? -1 : truth.base.number);

/** Number of the newest block whose hash memory has for this pool; -1 without any. */
export function newestHeld(hot: HotPool): number {
  return Math.max(baseNumber(hot), hot.timeline.at(-1)?.block ?? -1);
}

/** → unknown. */
export function forget(hot: HotPool): void {
  hot.truth = UNKNOWN;
}

/** Takes a node's read of the pool at the end of a block. A followed pool stays followed; any other one → known. */
export function learn(hot: HotPool, { pool, state }: PoolAt, block: HeaderRef, view: ChainView): void {
  hot.pool = pool;
  const { truth } = hot;
  if (truth.kind !== "followed" || !isStanding(truth.base, view)) {
    hot.truth = { kind: "known", base: baseAt(block) };
    hot.timeline = state === undefined ? [] : [state];
    return;
  }
  // Memory knows no states before the base. After it the read is still true for its block. If it reached the log first,
  // the journal will not append it again.
  const isHeld = hot.timeline.some((kept) => kept.blockHash === block.hash && !isBlind(kept));
  if (truth.base.number <= block.number && state !== undefined && !isHeld) extend(hot, [state], block.timestamp);
}

/** → followed from the next block on, by the follower's read of the pool at the end of its batch. */
export function followFromRead(hot: HotPool, { pool, state }: PoolAt, to: HeaderRef): void {
  hot.pool = pool;
  hot.truth = readAt(to);
  hot.timeline = state === undefined ? [] : [state];
}

/** The truth about a pool that the follower has read at the end of its batch. */
export const readAt = (to: HeaderRef): PoolTruth => ({ kind: "followed", base: baseAt(to), from: to.number + 1 });

/**
 * → followed from `from` on, because the stream's headline says so. A state that is older than the log's becomes the
 * log's; → unknown if the log has none. `logged`: the stream's states of the pool.
 */
export function followByLog(hot: HotPool, from: number, logged: () => LoggedStates): void {
  const { truth } = hot;
  if (truth.kind === "followed" && truth.base.number >= from - 1) {
    if (truth.from !== from) hot.truth = { ...truth, from };
    return;
  }
  const { timeline, knownFrom } = logged();
  const number = Math.max(from - 1, knownFrom);
  const isInLog = Number.isFinite(number);
  if (truth.kind === "known" && truth.base.number >= (isInLog ? number : from - 1)) {
    const { base } = truth;
    hot.truth = { kind: "followed", base, from };
    // The log may have reached memory before the read did.
    extend(
      hot,
      timeline.filter(({ block }) => block > base.number),
      base.timestamp,
    );
    return;
  }
  hot.timeline = timeline;
  const base = { number, hash: undefined, timestamp: Number.POSITIVE_INFINITY };
  hot.truth = isInLog ? { kind: "followed", base, from } : UNKNOWN;
}

/**
 * Prepares a pool for a batch of the follower. `isAsked`: all its logs since the last batch are in this one.
 *
 * 1. unknown, or the base is orphaned → unknown.
 * 2. asked and known up to the block before the batch, or later → followed.
 * 3. asked and followed → followed.
 * 4. not asked, but known at the end of the batch or later → known, so that the next batch can continue from there.
 * 5. a gap after the base → unknown.
 */
export function beginBatch(hot: HotPool, { fromBlock, to }: AdvancedBlocks, isAsked: boolean, view: ChainView): void {
  const { truth } = hot;
  if (truth.kind === "unknown") return;
  const { base } = truth;
  if (!isStanding(base, view)) forget(hot);
  else if (isAsked) {
    if (truth.kind === "followed") return;
    if (base.number >= fromBlock - 1) hot.truth = { kind: "followed", base, from: base.number + 1 };
    else forget(hot);
  } else if (base.number >= to.number) unfollowPool(hot);
  else forget(hot);
}

/** Adds states and drops those that are too old for any average. `now`: Unix seconds. */
export function extend(hot: HotPool, observations: readonly Observation[], now: number): void {
  for (const observation of observations) {
    const isNewest = observation.block > (hot.timeline.at(-1)?.block ?? -1);
    if (isNewest) hot.timeline.push(observation);
    else hot.timeline = insertByBlock(hot.timeline, observation);
  }
  const { timeline, truth } = hot;
  let drop = Math.max(0, timeline.length - MAX_TIMELINE);
  while (drop + 1 < timeline.length && timeline[drop + 1]!.timestamp < now - KEEP_SECONDS) drop++;
  if (drop === 0) return;
  timeline.splice(0, drop);
  const { block: number, blockHash: hash, timestamp } = timeline[0]!;
  if (truth.kind === "unknown" || number <= truth.base.number) return;
  hot.truth = { ...truth, base: { number, hash, timestamp } };
}

/** → unknown, if the base is above the block `ancestor`. Drops all states above it. */
export function revertPool(hot: HotPool, ancestor: number): void {
  hot.timeline = hot.timeline.filter((observation) => observation.block <= ancestor);
  if (baseNumber(hot) > ancestor) forget(hot);
}

/** followed → known, or unknown if only the log gave the base. */
export function unfollowPool(hot: HotPool): void {
  const { truth } = hot;
  if (truth.kind === "followed")
    hot.truth = truth.base.hash === undefined ? UNKNOWN : { kind: "known", base: truth.base };
}

/** A pool and its state, as a node returned them. */
interface PoolAt {
  readonly pool: Pool;
  readonly state: Observation | undefined;
}

/** A pool's states in its stream, complete from the block `knownFrom` on. */
interface LoggedStates {
  readonly timeline: Observation[];
  readonly knownFrom: number;
}

const baseAt = ({ number, hash, timestamp }: HeaderRef): Base => ({ number, hash, timestamp });

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
  const known = Math.max(fromBlock - 1, baseNumber(hot));
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
