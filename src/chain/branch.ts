/**
 * Checks that blocks, logs and headers from a node lie on the followed branch, and finds the common ancestor of a fork.
 * Reads headers only; the follower decides the consequences.
 */
import type { Clock } from "../core/clock.ts";
import { AppError, InvariantError, isRetryable } from "../core/errors.ts";
import type { BlockRef, HeaderRef } from "../events/types.ts";
import type { ChainLog, ChainReader } from "../rpc/port.ts";
import { RpcError } from "../rpc/rpc-errors.ts";
import type { ChainState } from "./view.ts";

/** Returns the followed header of a number, if it is still known. */
export type HeaderOf = (number: number) => HeaderRef | undefined;

/** Asserts that logs of unfinalised blocks lie on the followed branch. @throws ForkedAnswersError */
export function assertOnChain(logs: readonly ChainLog[], headerOf: HeaderOf): void {
  for (const { blockNumber, blockHash } of logs) assertNoFork({ number: blockNumber, hash: blockHash }, headerOf);
}

/** Asserts that no other block is followed in the place of this one. @throws ForkedAnswersError */
export function assertNoFork(block: BlockRef, headerOf: HeaderOf): void {
  if (!isUnforked(block, headerOf)) throw new ForkedAnswersError(block.number);
}

/** True if no other block is followed in the place of this one. */
export function isUnforked({ number, hash }: BlockRef, headerOf: HeaderOf): boolean {
  const held = headerOf(number);
  return held === undefined || held.hash === hash;
}

/** Returns the first header, in rising order, that is not the child of the previous one. */
export function firstUnlinked(headers: readonly HeaderRef[]): HeaderRef | undefined {
  return headers.find((header, i) => i > 0 && header.parentHash !== headers[i - 1]?.hash);
}

/** Answers of the nodes lie on more than one branch: a fork happened in between, or the nodes disagree. Retry. */
export class ForkedAnswersError extends Error {
  constructor(block: number) {
    super(`the nodes' answers about block ${block} lie on more than one branch`);
    this.name = "ForkedAnswersError";
  }
}

/** True if the next poll may succeed and this process need not read its state from the log again. */
export const needsOnlyAPoll = (error: unknown): boolean =>
  error instanceof ForkedAnswersError || error instanceof RpcError || isRetryable(error);

/** Returns the numbers from one block to another, both included. Descends if `to` is lower. */
export function numbersBetween(from: number, to: number): number[] {
  const step = to < from ? -1 : 1;
  return Array.from({ length: Math.abs(to - from) + 1 }, (_, i) => from + i * step);
}

/** Headers in the first request. Each further request asks for twice as many. */
const FIRST_STEP = 8;
/** The chain halts after so many looks without the final block, spread over so many minimum poll intervals. */
const VIOLATION_LOOKS = 3;
const VIOLATION_POLLS = 30;

/** A fork reaches below the final block. The chain broke its finality, and any further block would be a guess. */
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

/** Either the newest common block, or the node's block in the place of the final one. */
type ForkPoint = { readonly ancestor: HeaderRef } | { readonly found: BlockRef };

/**
 * Searches from `from`, a number that both branches have, down to the final block. Compares only the headers that the
 * follower keeps. So the ancestor may lie below the block at which the branches part, and blocks that are still canonical are
 * reverted, too.
 * @throws RpcError `transient`
 */
export async function findCommonAncestor(reader: ChainReader, state: ChainState, from: number): Promise<ForkPoint> {
  const finalized = state.finalized as BlockRef;
  const held = [...state.headers.values()].filter(({ number }) => number <= from).sort((a, b) => b.number - a.number);
  for (let at = 0, step = FIRST_STEP; at < held.length; at += step, step *= 2) {
    // If a fork is deeper than the first step, the node may be on another chain. Its block in place of the final one tells.
    if (at === FIRST_STEP) {
      const [theirs] = await reader.presentHeaders([finalized.number]);
      if (theirs?.hash !== finalized.hash)
        return { found: { number: finalized.number, hash: (theirs as BlockRef).hash } };
    }
    const ours = held.slice(at, at + step);
    const theirs = await reader.presentHeaders(ours.map(({ number }) => number));
    const ancestor = ours.find(({ hash }, i) => hash === theirs[i]?.hash);
    if (ancestor !== undefined) return { ancestor };
    if (at + step >= held.length)
      return { found: { number: finalized.number, hash: (theirs.at(-1) as BlockRef).hash } };
  }
  throw new InvariantError("no followed header is known");
}

/** Returns the known blocks of the followed branch above `ancestor`, lowest first. */
export function orphanedAbove(state: ChainState, ancestor: number): BlockRef[] {
  const above = [...state.headers.values()].filter(({ number }) => number > ancestor);
  return above.sort((a, b) => a.number - b.number).map(({ number, hash }) => ({ number, hash }));
}

/**
 * Confirms a finality violation. A node with another block in place of the final one is usually only behind, on an
 * orphaned branch. So the violation counts only if no endpoint has the final block, in several looks over a while.
 */
export class ViolationWatch {
  readonly #reader: ChainReader;
  readonly #clock: Clock;
  /** Looks in a row in which no endpoint had the final block; monotonic times of the first and of the last one. */
  #seen: { readonly since: number; readonly looks: number; readonly askedMs: number } | undefined;

  constructor(reader: ChainReader, clock: Clock) {
    this.#reader = reader;
    this.#clock = clock;
  }

  /** True if no endpoint had the final block at the last look. */
  get isSuspected(): boolean {
    return this.#seen !== undefined;
  }

  /**
   * Looks for the final block again, unless the last look was recent. Returns true if the violation is certain.
   * @param leastWaitMs the minimum poll interval
   */
  async confirm(finalized: BlockRef, leastWaitMs: number): Promise<boolean> {
    const apartMs = (leastWaitMs * VIOLATION_POLLS) / VIOLATION_LOOKS;
    // A poll shortly after a look would get the same answers.
    if (this.#seen !== undefined && this.#clock.monotonic() < this.#seen.askedMs + apartMs) return false;
    const isHeld = await this.#reader.anyHolds(finalized);
    const now = this.#clock.monotonic();
    const before = isHeld ? undefined : this.#seen;
    const seen = { since: before?.since ?? now, looks: (before?.looks ?? 0) + 1, askedMs: now };
    this.#seen = isHeld ? undefined : seen;
    return !isHeld && seen.looks >= VIOLATION_LOOKS && now - seen.since >= leastWaitMs * VIOLATION_POLLS;
  }

  /** Resets the count: the final block was seen. */
  clear(): void {
    this.#seen = undefined;
  }
}
