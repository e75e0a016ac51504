/** Rankings of holders, kept for a while: the pages of one walk need the same one, and making it reads all pairs. */
import { LRUCache } from "lru-cache";
import { currentCollection } from "../collections/hot-collections.ts";
import { type HolderRanking, rankHolders } from "../exports/holders.ts";
import type { ExportSource, ExportStart } from "../exports/walk.ts";

/** Memory for rankings, and about what one holder takes. */
const MAX_BYTES = 64 << 20;
const HOLDER_BYTES = 160;
export class Rankings {
  readonly #kept = new LRUCache<string, HolderRanking>({
    maxSize: MAX_BYTES,
    sizeCalculation: ({ count }) => 1 + count * HOLDER_BYTES,
  });
  /** Rankings that are being made. */
  readonly #making = new Map<string, Promise<HolderRanking>>();

  /** Returns the ranking at the block of a walk. @throws ApiError 410 if the block is lost meanwhile */
  async of(source: ExportSource, start: ExportStart): Promise<HolderRanking> {
    const { block, hash, above, base, chainVersion } = start.walk;
    const { rewrittenAt } = await currentCollection(source, source, start.walk);
    const point = hash || above?.hash || (start.finalized ? "final" : chainVersion);
    const key = `${source.chainId}/${source.address}/${base}/${rewrittenAt}/${block}/${point}`;
    const known = this.#kept.get(key) ?? this.#making.get(key);
    if (known !== undefined) return known;
    const making = rankHolders(source, start);
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
