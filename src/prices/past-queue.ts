/** The bounded queue for work at past blocks. Knows nothing of prices. */
import type { Chain } from "../chains/chains.ts";
import { FairSlots, type Shares } from "../core/work.ts";

/** Concurrent requests: a public node bears about this many concurrent log searches. */
const SHARES: Shares = { places: 24, perKey: 16, forOperators: 2 };
/** Most waiting requests of a key: at 1.5 s each, the last one starts before its client gets a timeout and must retry. */
const MAX_WAITING = 256;

/** Runs work when a slot is free. */
export type RunInSlot = <T>(work: () => Promise<T>) => Promise<T>;

/** Bounds work at past blocks. Without archive state such work searches logs, which can take many requests. */
export function pastQueue({ name }: Chain): FairSlots {
  const work = `requests about past blocks of ${name}`;
  return new FairSlots({ ...SHARES, maxWaiting: MAX_WAITING, retryAfter: 5, work });
}
