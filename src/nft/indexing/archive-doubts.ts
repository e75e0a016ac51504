/** What an archive was wrong about, as a collection's headline keeps it for the new index. Pure. */
import type { BlockRange } from "../../events/types.ts";
import type { IndexState } from "../collections/headline.ts";

/** Blocks around a wrong one that only the node may tell. */
const AROUND = 500;
/** Ranges that are left to the node before the archive as a whole is not believed. */
const MAX_RANGES = 3;

export const wordsIn = (text: string): string[] => text.split(",").filter(Boolean);

/** Reads ranges `from-to`, in rising order. */
export const rangesIn = (text: string): BlockRange[] =>
  wordsIn(text)
    .map((range) => range.split("-").map(Number) as [number, number])
    .map(([fromBlock, toBlock]) => ({ fromBlock, toBlock }))
    .sort((a, b) => a.fromBlock - b.fromBlock);

/**
 * What the next index of a collection must not believe. An archive that is on another branch, or wrong for the fourth
 * time, is not asked for it again; before that, the node reads the blocks around the wrong one.
 */
export function doubtsAfter(
  { distrusted, nodeRanges }: Pick<IndexState, "distrusted" | "nodeRanges">,
  { archive, wrongAt, isOfLogs }: { readonly archive: string; readonly wrongAt: number; readonly isOfLogs: boolean },
): Pick<IndexState, "distrusted" | "nodeRanges"> {
  const ranges = wordsIn(nodeRanges);
  if (!isOfLogs || ranges.length >= MAX_RANGES) {
    return { distrusted: [...new Set([...wordsIn(distrusted), ...wordsIn(archive)])].join(","), nodeRanges };
  }
  const range = `${Math.max(0, wrongAt - AROUND)}-${wrongAt + AROUND}`;
  return { distrusted, nodeRanges: [...ranges, range].join(",") };
}
