/** Requests the indexing of a contract, by an event in its stream. The indexing jobs do the work. */
import { ConcurrencyError } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import { nftStream } from "../events/types.ts";
import type { EventLog } from "../log/port.ts";
import { fromHeadline, type IndexState, toHeadline } from "./headline.ts";

/** Requests the indexing of a contract. Does nothing if its stream exists already. */
export async function requestIndexing(log: EventLog, chainId: number, address: Address): Promise<void> {
  const stream = nftStream(chainId, address);
  try {
    await log.append({ stream, events: [{ type: "IndexingRequested" }], expectedVersion: 0 });
  } catch (error) {
    if (!(error instanceof ConcurrencyError)) throw error;
  }
}

/**
 * Requests a new identification of a contract that was no NFT: it may have been deployed since.
 * @param version the stream's version with that result. Does nothing if the stream has moved on.
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
