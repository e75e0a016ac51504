/** Whether what a node gave lies on the branch that is followed. */
import type { BlockRef, HeaderRef } from "../events/types.ts";
import type { ChainLog } from "../rpc/port.ts";

/** The followed header of a number, as far as it is still known. */
export type HeaderOf = (number: number) => HeaderRef | undefined;

/** Logs of unfinalised blocks must lie on the branch that is followed. @throws ForkedAnswersError through the caller's retry */
export function assertOnChain(logs: readonly ChainLog[], headerOf: HeaderOf): void {
  for (const { blockNumber, blockHash } of logs) assertHeld({ number: blockNumber, hash: blockHash }, headerOf);
}

/** Asserts that a block is not another than the one that is followed. @throws ForkedAnswersError */
export function assertHeld(block: BlockRef, headerOf: HeaderOf): void {
  if (!isHeld(block, headerOf)) throw new ForkedAnswersError(block.number);
}

/** Whether no other block is followed in its place. */
export function isHeld({ number, hash }: BlockRef, headerOf: HeaderOf): boolean {
  const held = headerOf(number);
  return held === undefined || held.hash === hash;
}

/** The first of some headers, in rising order, that is not the child of the one before it. */
export function firstUnlinked(headers: readonly HeaderRef[]): HeaderRef | undefined {
  return headers.find((header, i) => i > 0 && header.parentHash !== headers[i - 1]?.hash);
}

/** What nodes gave does not lie on one branch: one forked in between, or they are of two minds. Ask again. */
export class ForkedAnswersError extends Error {
  constructor(block: number) {
    super(`what the chain's nodes say of block ${block} lies on more than one branch`);
    this.name = "ForkedAnswersError";
  }
}
