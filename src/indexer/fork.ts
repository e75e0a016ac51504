/**
 * Where the followed branch and the node's part, and when a fork is deeper than finality allows. Looks at headers only;
 * what follows from it is the follower's to do.
 */
import type { Clock } from "../core/clock.ts";
import { AppError } from "../core/errors.ts";
import type { BlockRef, HeaderRef } from "../events/types.ts";
import type { ChainReader } from "../rpc/port.ts";
import type { ChainState } from "./chain-state.ts";
import { numbersBetween, presentHeaders } from "./present-headers.ts";

/** Headers asked for at first; twice as many at each further step down. */
const FIRST_STEP = 8;
/** How often, and over how many least waits, the final block must be missed before the chain is taken to be halted. */
const VIOLATION_LOOKS = 3;
const VIOLATION_POLLS = 30;

/** A fork reaches below the finalised block: the chain's rule was broken, and following would guess. */
export class FinalityViolation extends AppError {
  readonly finalized: BlockRef;
  readonly found: BlockRef;

  constructor(chain: string, finalized: BlockRef, found: BlockRef) {
    super(
      `${chain}: the finalised block ${finalized.number} is not on the node's chain. Nothing is followed until it is: ask ` +
        "another node; if the chain itself was rolled back, stop the service and run scripts/forget-chain.ts",
      { code: "finality_violation", meta: { chain, block: finalized.number, hash: finalized.hash, found: found.hash } },
    );
    this.finalized = finalized;
    this.found = found;
  }
}

/** Either the newest block that both have, or what the node has in the place of the final one. */
export type Parting = { readonly ancestor: HeaderRef } | { readonly found: BlockRef };

/** Searches from `from`, a number that both have, down to the final block. @throws RpcError `transient` */
export async function findParting(reader: ChainReader, state: ChainState, from: number): Promise<Parting> {
  const finalized = state.finalized as BlockRef;
  for (let high = from, step = FIRST_STEP; ; step *= 2) {
    const low = Math.max(finalized.number, high - step + 1);
    const theirs = await presentHeaders(reader, numbersBetween(high, low));
    for (const { number, hash } of theirs) {
      const held = state.headers.get(number);
      if (held !== undefined && held.hash === hash) return { ancestor: held };
    }
    if (low <= finalized.number) {
      return { found: { number: finalized.number, hash: (theirs.at(-1) as BlockRef).hash } };
    }
    high = low - 1;
  }
}

/** The blocks of the followed branch above `ancestor`, the lowest first. */
export function orphanedAbove(state: ChainState, ancestor: number): BlockRef[] {
  const orphaned: BlockRef[] = [];
  for (let number = ancestor + 1; number <= (state.head?.number ?? -1); number++) {
    const header = state.headers.get(number);
    if (header !== undefined) orphaned.push({ number, hash: header.hash });
  }
  return orphaned;
}

/**
 * Looks at a chain without its final block. A node that has another one there is mostly one that is behind, on a branch
 * that lost: that the chain broke its rule is believed when nobody has the block, at each of several looks over a while.
 */
export class ViolationWatch {
  readonly #reader: ChainReader;
  readonly #clock: Clock;
  /** Looks in a row at which nobody had the final block, and when the first was, on the monotonic clock. */
  #seen: { readonly since: number; readonly looks: number } | undefined;

  constructor(reader: ChainReader, clock: Clock) {
    this.#reader = reader;
    this.#clock = clock;
  }

  /** One more look, at least `leastWaitMs` apart from others: whether it is believed now. */
  async isSure(finalized: BlockRef, leastWaitMs: number): Promise<boolean> {
    const isHeld = await this.#reader.anyHolds(finalized);
    const now = this.#clock.monotonic();
    const before = isHeld ? undefined : this.#seen;
    const seen = { since: before?.since ?? now, looks: (before?.looks ?? 0) + 1 };
    this.#seen = isHeld ? undefined : seen;
    return !isHeld && seen.looks >= VIOLATION_LOOKS && now - seen.since >= leastWaitMs * VIOLATION_POLLS;
  }

  /** The final block was seen. */
  clear(): void {
    this.#seen = undefined;
  }
}
