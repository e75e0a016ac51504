/**
 * An operator's request to fetch metadata again. It goes through the log, so it reaches the metadata worker in any
 * process.
 */
import type { Address } from "../../core/hex.ts";
import { type MetadataOutdated, metadataStream } from "../../events/types.ts";
import { appendWithRetry, type EventLog } from "../../log/event-log.ts";
import { MAX_ID } from "./book.ts";

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
