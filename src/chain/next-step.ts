/**
 * Decides the follower's next step from the recorded chain and the node's newest and final blocks. Pure: reading
 * headers and writing events is the follower's work.
 */
import type { BlockRef } from "../events/types.ts";
import type { Verify } from "../rpc/port.ts";
import { isUnforked } from "./branch.ts";
import type { FollowedChain } from "./consumer.ts";

/** The newest blocks of a gap, always checked by their headers: an hour and a half of Ethereum. */
const ALWAYS_CHECKED = 512;
/**
 * Most blocks followed in one step after a long gap: their logs stay in memory until they are written. Also the most whose
 * headers are read in a step without logs. A node whose final block is far behind its head doesn't lengthen it.
 */
const MAX_STEP = 2_000;

/** The newest block that the node shows, and the newest final one that is known. */
interface Shown {
  readonly head: BlockRef;
  readonly finalized: BlockRef;
}

/** The block that one step may reach. */
export interface Goal {
  readonly number: number;
  /** True if the block lies below the node's head, so that another step follows. */
  readonly isBounded: boolean;
  /** The newest final block. It never moves back, even if the node's tag does. */
  readonly final: BlockRef;
}

type FollowStep =
  | { readonly type: "begin" }
  | { readonly type: "wait" }
  /** The fork lies at or below block `from`. */
  | { readonly type: "rewind"; readonly from: number }
  /** Headers are read from block `readFrom` on. */
  | { readonly type: "advance"; readonly readFrom: number };

/** Returns how far the next step may go. @param hasLogs false if no contract is followed, so that a step reads no logs */
export function goalOf(
  { head, finalized: known }: FollowedChain,
  { head: nodeHead, finalized }: Shown,
  hasLogs = true,
): Goal {
  if (head === undefined || known === undefined) return { number: nodeHead.number, isBounded: false, final: finalized };
  const final = finalized.number > known.number ? finalized : known;
  const bound = hasLogs ? head.number + MAX_STEP : Number.POSITIVE_INFINITY;
  return { number: Math.min(nodeHead.number, bound), isBounded: nodeHead.number > bound, final };
}

/**
 * Returns the next step towards the goal. `target` is the node's block at the goal's number.
 * 1. Nothing is followed yet: begin.
 * 2. The target is at or below the followed head, and no other block is followed in its place: wait. The node has no
 *    news or is behind.
 * 3. The target is at or below the followed head, and another block is followed in its place: rewind.
 * 4. The target is above the followed head: advance. If the headers then read don't link to the head: rewind.
 */
export function nextStep(chain: FollowedChain, goal: Goal, target: BlockRef, verify: Verify): FollowStep {
  const { head, headers } = chain;
  if (head === undefined || chain.finalized === undefined) return { type: "begin" };
  if (target.number > head.number) return { type: "advance", readFrom: firstRead(head.number + 1, goal, verify) };
  return isUnforked(target, (number) => headers.get(number))
    ? { type: "wait" }
    : { type: "rewind", from: target.number };
}

/** Returns the first block above the head whose header is read. Skips final blocks, unless all are checked. */
function firstRead(next: number, { number, isBounded, final }: Goal, verify: Verify): number {
  // Without contracts a step may be of any length. No log of it needs a header.
  const least = Math.max(next, number - MAX_STEP + 1);
  if (verify !== "sample") return least;
  if (isBounded && number <= final.number) return number;
  return Math.max(least, Math.min(final.number, number - ALWAYS_CHECKED + 1));
}

/**
 * The blocks whose headers are read when following begins, in rising order: the final one, the newest ones, and between
 * them one at each doubling of the distance from the head, to which a deep reorganisation can go back.
 */
export function firstRecorded({ head, finalized }: Shown): { readonly apart: number[]; readonly newest: number } {
  const newest = Math.max(finalized.number, head.number - ALWAYS_CHECKED + 1);
  const apart: number[] = [];
  for (let distance = 2 * ALWAYS_CHECKED; head.number - distance > finalized.number; distance *= 2) {
    apart.unshift(head.number - distance);
  }
  if (finalized.number < newest) apart.unshift(finalized.number);
  return { apart, newest };
}
