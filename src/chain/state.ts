/**
 * The fold of a chain's stream: unfinalised headers, the final block, orphaned blocks. Every process folds it; only the
 * process that holds the lease writes the stream.
 */
import { InvariantError, invariant } from "../core/errors.ts";
import type { Hash } from "../core/hex.ts";
import type { BlockRef, ChainEvent, HeaderRef } from "../events/types.ts";
import type { FollowedChain } from "./consumer.ts";

/** Most orphaned blocks that are kept. A cursor on an older one has long been answered. */
const MAX_ORPHANED = 4_096;

export interface ChainState {
  version: number;
  head: HeaderRef | undefined;
  finalized: BlockRef | undefined;
  /** Headers of the final block and all blocks above it, by number. */
  readonly headers: Map<number, HeaderRef>;
  /** Orphaned block hashes with their numbers, oldest first. */
  readonly orphaned: Map<Hash, number>;
  /** The final block that the node's chain lacks. Undefined in normal operation. */
  halted: BlockRef | undefined;
  /** The holder that follows, if an event since the last checkpoint says so. */
  follower: string | undefined;
  /** Events since the last checkpoint. */
  sinceCheckpoint: number;
}

export function initialChainState(): ChainState {
  return {
    version: 0,
    head: undefined,
    finalized: undefined,
    headers: new Map(),
    orphaned: new Map(),
    halted: undefined,
    follower: undefined,
    sinceCheckpoint: 0,
  };
}

function orphan(state: ChainState, blocks: readonly BlockRef[]): void {
  for (const { hash, number } of blocks) state.orphaned.set(hash, number);
  for (const hash of state.orphaned.keys()) {
    if (state.orphaned.size <= MAX_ORPHANED) break;
    state.orphaned.delete(hash);
  }
}

function addHeaders(state: ChainState, headers: readonly HeaderRef[]): void {
  for (const header of headers) {
    const before = state.headers.get(header.number - 1);
    invariant(before === undefined || before.hash === header.parentHash, "headers are not linked", {
      block: header.number,
    });
    state.headers.set(header.number, header);
    state.head = header;
  }
}

/** Folds one event in place. Only a checkpoint may follow a gap: a reader starts there in mid-stream. */
export function evolveChain(state: ChainState, event: ChainEvent, version: number): void {
  if (version <= state.version) return;
  const checkpoint = event.type === "ChainCheckpointed";
  invariant(version === state.version + 1 || (checkpoint && state.version === 0), "an event is missing", { version });
  state.version = version;
  state.sinceCheckpoint = checkpoint ? 0 : state.sinceCheckpoint + 1;
  switch (event.type) {
    case "HeadAdvanced":
      invariant(event.headers.length > 0, "a head without headers", { version });
      addHeaders(state, event.headers);
      state.halted = undefined;
      return;
    case "FollowingBegan":
      state.follower = event.holder;
      return;
    case "ChainHalted":
      state.halted = event.finalized;
      return;
    case "ChainReverted": {
      invariant(event.ancestor.number >= (state.finalized?.number ?? 0), "a revert below the finalised block", {
        ancestor: event.ancestor.number,
      });
      for (const { number } of event.orphaned) state.headers.delete(number);
      orphan(state, event.orphaned);
      state.head = state.headers.get(event.ancestor.number);
      invariant(state.head?.hash === event.ancestor.hash, "a revert to a block that is not held", { version });
      return;
    }
    case "ChainFinalized":
      state.finalized = event.block;
      for (const number of state.headers.keys()) if (number < event.block.number) state.headers.delete(number);
      return;
    case "ChainCheckpointed":
      state.headers.clear();
      state.orphaned.clear();
      addHeaders(state, event.headers);
      orphan(state, event.orphaned);
      state.finalized = event.finalized;
      return;
    default:
      throw new InvariantError(`not an event of a chain stream: ${(event as { type: string }).type}`);
  }
}

/** Returns the checkpoint of a state. Undefined for a halted chain, which a checkpoint cannot express. */
export function checkpointOf(state: ChainState): ChainEvent | undefined {
  if (state.finalized === undefined || state.head === undefined || state.halted !== undefined) return undefined;
  return {
    type: "ChainCheckpointed",
    headers: [...state.headers.values()].sort((a, b) => a.number - b.number),
    finalized: state.finalized,
    orphaned: [...state.orphaned].map(([hash, number]) => ({ hash, number })),
  };
}

/** True if the block is on the canonical chain, as far as the state knows. */
export function isCanonical(state: Pick<FollowedChain, "headers" | "orphaned">, block: BlockRef): boolean {
  const held = state.headers.get(block.number);
  if (held !== undefined) return held.hash === block.hash;
  return !state.orphaned.has(block.hash);
}
