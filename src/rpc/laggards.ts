/** Which of several nodes is furthest along a chain, by the newest block that each shows. */
import type { BlockRef, HeaderRef } from "../events/types.ts";

/**
 * Those with a block that another one's is beyond: higher, or younger where they are as high, as a block is that took
 * another one's place. Of two that are alike in this the known one counts, so that nobody goes back and forth.
 */
export function laggards<T extends { readonly head: HeaderRef }>(shown: readonly T[], known: BlockRef): T[] {
  const rank = ({ head }: T) => [head.number, head.timestamp, head.hash === known.hash ? 1 : 0] as const;
  const compare = (one: T, other: T) => {
    const [a, b] = [rank(one), rank(other)];
    return a[0] - b[0] || a[1] - b[1] || a[2] - b[2];
  };
  return shown.filter((one) => shown.some((other) => compare(one, other) < 0));
}
