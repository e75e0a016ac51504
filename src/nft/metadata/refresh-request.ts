/**
 * An operator's request to fetch metadata again. It goes through the log, so it reaches the metadata worker in any
 * process.
 */

import type { Clock } from "../../core/clock.ts";
import { countedCache } from "../../core/counted-cache.ts";
import type { Address } from "../../core/hex.ts";
import { type MetadataOutdated, metadataStream } from "../../events/types.ts";
import { appendWithRetry, type EventLog } from "../../log/event-log.ts";
import { MAX_ID } from "./book.ts";
import { MIN_REFRESH_MS } from "./retry-times.ts";

const ATTEMPTS = 16;

/**
 * Marks metadata as outdated, so that the metadata worker fetches it again, whichever process it runs in.
 * @param ids tokens; undefined for all tokens of the collection
 * @param block newest block that is known of the chain
 * @returns false if no metadata of the collection was fetched yet
 */
export async function requestRefresh(
  log: EventLog,
  { chainId, address }: { readonly chainId: number; readonly address: Address },
  { ids, block }: { readonly ids: readonly bigint[] | undefined; readonly block: number },
): Promise<boolean> {
  const stream = metadataStream(chainId, address);
  const ranges = ids?.map((id) => [id, id] as const) ?? [[0n, MAX_ID] as const];
  const events = ranges.map(([from, to]): MetadataOutdated => {
    return { type: "MetadataOutdated", fromId: String(from), toId: String(to), cause: "requested", block };
  });
  const version = await appendWithRetry(log, ATTEMPTS, async () => {
    const { version: expectedVersion } = await log.head(stream);
    return expectedVersion === 0 ? undefined : { stream, events, expectedVersion };
  });
  return version !== undefined;
}

interface ResyncOptions {
  readonly log: EventLog;
  readonly clock: Pick<Clock, "now" | "monotonic">;
  /** The newest block that is known of a chain. */
  readonly headOf: (chainId: number) => number;
}

/** Tokens whose request is remembered. */
const MAX_REMEMBERED = 20_000;

/**
 * Has single tokens fetched again for clients, each at most once in ten minutes: a client may ask for any number of them,
 * and each request is an event.
 * @returns a function that resolves to the time of the request that counts, in ms since the epoch; undefined if no metadata
 *   of the collection was fetched yet
 */
export function resyncs({ log, clock, headOf }: ResyncOptions) {
  const asked = countedCache<string, { readonly at: number; readonly until: number }>(MAX_REMEMBERED);
  return async (chainId: number, address: Address, id: bigint): Promise<number | undefined> => {
    const key = `${chainId}/${address}/${id}`;
    const known = asked.get(key);
    if (known !== undefined && clock.monotonic() < known.until) return known.at;
    const at = clock.now();
    asked.set(key, { at, until: clock.monotonic() + MIN_REFRESH_MS });
    const isKnown = await requestRefresh(log, { chainId, address }, { ids: [id], block: headOf(chainId) });
    if (!isKnown) asked.delete(key);
    return isKnown ? at : undefined;
  };
}
