/** Finds the nodes that are behind, by the newest block that each node shows. Pure. */
import type { BlockRef, HeaderRef } from "../events/types.ts";

/**
 * Returns the nodes whose head is behind that of another node: lower, or equally high with an older timestamp (a block
 * that replaced another is younger). On a tie `known` wins, so that the reader does not flip between two branches.
 */
export function laggards<T extends { readonly head: HeaderRef }>(shown: readonly T[], known: BlockRef): T[] {
  const rank = ({ head }: T) => [head.number, head.timestamp, head.hash === known.hash ? 1 : 0] as const;
  const compare = (one: T, other: T) => {
    const [a, b] = [rank(one), rank(other)];
    return a[0] - b[0] || a[1] - b[1] || a[2] - b[2];
  };
  return shown.filter((one) => shown.some((other) => compare(one, other) < 0));
}
