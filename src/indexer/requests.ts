/** How the indexing of a contract begins: with an event that says that somebody wants it. */
import { ConcurrencyError } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import { nftStream } from "../events/types.ts";
import type { EventLog } from "../log/port.ts";
import { fromHeadline, type IndexState, toHeadline } from "./headline.ts";

/** Requests the indexing of a contract nobody asked for before; does nothing when somebody did. */
export async function requestIndexing(log: EventLog, chainId: number, address: Address): Promise<void> {
  const stream = nftStream(chainId, address);
  try {
    await log.append({ stream, events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
  } catch (error) {
    if (!(error instanceof ConcurrencyError)) throw error;
  }
}

/**
 * Has a contract identified anew that was found to be no NFT: it may have been deployed since.
 * @param version the stream's version at which it was found so
 */
export async function requestIdentification(
  log: EventLog,
  chainId: number,
  address: Address,
  version: number,
): Promise<void> {
  const stream = nftStream(chainId, address);
  const { headline } = await log.head(stream);
  const state: IndexState = { ...fromHeadline(headline), status: "requested", attempt: 0, retryAt: 0 };
  try {
    await log.append({
      stream,
      events: [{ type: "IndexingRequested" }],
      expectedVersion: version,
      headline: toHeadline(state),
    });
  } catch (error) {
    if (!(error instanceof ConcurrencyError)) throw error;
  }
}
