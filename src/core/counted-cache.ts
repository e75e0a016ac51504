/** A cache of so many entries at most, which takes memory as they come. */
import { LRUCache } from "lru-cache";

/**
 * By lru-cache's own `max`, a cache takes room for all of its entries when it is made. For 36 chains that was 115 MB of
 * 205, and a quarter of a second of a start. A bound by size takes room when it is needed.
 *
 * @param most entries; with one more, the least recently used one leaves
 * @param limits how long an entry counts, and by which clock. Default: for ever
 */
export function countedCache<K extends {}, V extends {}>(
  most: number,
  limits: Pick<LRUCache.Options<K, V, unknown>, "ttl" | "perf" | "ttlResolution"> = {},
): LRUCache<K, V> {
  return new LRUCache({ ...limits, maxSize: most, sizeCalculation: () => 1 });
}
