/** Checks that blocks, logs and headers from a node lie on the followed branch. Pure. */
import type { BlockRef, HeaderRef } from "../events/types.ts";
import type { ChainLog } from "../rpc/port.ts";

/** Returns the followed header of a number, if it is still known. */
export type HeaderOf = (number: number) => HeaderRef | undefined;

/** Asserts that logs of unfinalised blocks lie on the followed branch. @throws ForkedAnswersError */
export function assertOnChain(logs: readonly ChainLog[], headerOf: HeaderOf): void {
  for (const { blockNumber, blockHash } of logs) assertHeld({ number: blockNumber, hash: blockHash }, headerOf);
}

/** Asserts that no other block is followed in the place of this one. @throws ForkedAnswersError */
export function assertHeld(block: BlockRef, headerOf: HeaderOf): void {
  if (!isHeld(block, headerOf)) throw new ForkedAnswersError(block.number);
}

/** True if no other block is followed in the place of this one. */
export function isHeld({ number, hash }: BlockRef, headerOf: HeaderOf): boolean {
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
