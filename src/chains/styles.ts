/** The styles of exchanges: how a factory's pools are found, read and priced. */
export const POOL_STYLES = [
  "v2",
  "v2-camelot",
  "v3",
  "slipstream",
  "algebra-v1",
  "algebra-integral",
  "solidly-v1",
  "solidly-v2",
  "v4",
] as const;

export type PoolStyle = (typeof POOL_STYLES)[number];
