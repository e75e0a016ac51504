/** Whether what a node gave lies on the branch that is followed. */
import type { BlockRef, HeaderRef } from "../events/types.ts";
import type { ChainLog } from "../rpc/port.ts";

/** The followed header of a number, as far as it is still known. */
export type HeaderOf = (number: number) => HeaderRef | undefined;

/** Logs of unfinalised blocks must lie on the branch that is followed. @throws ForkedLogsError through the caller's retry */
export function assertOnChain(logs: readonly ChainLog[], headerOf: HeaderOf): void {
  for (const { blockNumber, blockHash } of logs) assertHeld({ number: blockNumber, hash: blockHash }, headerOf);
}

/** Asserts that a block is not another than the one that is followed. @throws ForkedLogsError */
export function assertHeld(block: BlockRef, headerOf: HeaderOf): void {
  if (!isHeld(block, headerOf)) throw new ForkedLogsError(block.number);
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

/** The node answered from another branch than the headers it gave: it forked in between. Ask again. */
export class ForkedLogsError extends Error {
  constructor(block: number) {
    super(`logs of block ${block} lie on another branch than its header`);
    this.name = "ForkedLogsError";
  }
}
