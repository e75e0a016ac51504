/** Rankings of holders, kept for a while: the pages of one walk need the same one, and making it reads all pairs. */
import { LRUCache } from "lru-cache";
import { type HolderRanking, rankHolders } from "../exports/holders.ts";
import { batchesOf, type ExportSource, type ExportStart } from "../exports/walk.ts";

/** Memory for rankings, and about what one holder takes. */
const MAX_BYTES = 64 << 20;
const HOLDER_BYTES = 160;
/** Largest ranking that is kept, as a part of the memory for all. */
const MAX_SHARE = 1;

export class Rankings {
  readonly #kept = new LRUCache<string, HolderRanking>({
    maxSize: MAX_BYTES,
    maxEntrySize: MAX_BYTES * MAX_SHARE,
    sizeCalculation: ({ count }) => 1 + count * HOLDER_BYTES,
  });
  /** Rankings that are being made. */
  readonly #making = new Map<string, Promise<HolderRanking>>();

  /** Returns the ranking at the block of a walk. @throws ApiError 410 if the block is lost meanwhile */
  async of(source: ExportSource, start: ExportStart): Promise<HolderRanking> {
    const { block, hash, above, base, chainVersion } = start.walk;
    const point = hash || above?.hash || (start.finalized ? "final" : chainVersion);
    const key = `${source.chainId}/${source.address}/${base}/${block}/${point}`;
    const known = this.#kept.get(key) ?? this.#making.get(key);
    if (known !== undefined) return known;
    const making = rankHolders(batchesOf(source, start));
    this.#making.set(key, making);
    try {
      const ranking = await making;
      this.#kept.set(key, ranking);
      return ranking;
    } finally {
      this.#making.delete(key);
    }
  }
}
