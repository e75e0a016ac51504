/**
 * The folds of `verify`: those of the service, with the checks that a start leaves out. In: the events of a stream, one by
 * one. Out: an exception that names the fault, or the hash of the listing.
 */

import { evolveChain, initialChainState } from "../chain/view.ts";
import type { Chains } from "../chains/chains.ts";
import { bytesToHex, type Hash } from "../core/hex.ts";
import { decodeTokens, NO_HASH } from "../events/token-columns.ts";
import type { ChainEvent, MetadataEvent, NftEvent, ProofEvent } from "../events/types.ts";
import type { EventLog, StreamHead } from "../log/event-log.ts";
import { type Collection, evolve, initialState } from "../nft/collections/collection.ts";
import { fromHeadline, type IndexState } from "../nft/collections/headline.ts";
import { MetadataBook } from "../nft/metadata/book.ts";
import type { MediaDocument } from "../nft/metadata/media/media.ts";
import { hashOf, type OutcomeDocument } from "../nft/metadata/outcome-documents.ts";
import { blobsOf } from "../nft/metadata/token-texts.ts";
import type { Folding } from "./folding.ts";
import { listingHash } from "./listing-hash.ts";
import { bookFolding, priceFolding } from "./verify-prices.ts";

/** @param base first version to fold */
export function folding(log: EventLog, { stream, headline }: StreamHead, base: number, chains: Chains): Folding {
  const kind = stream.slice(0, stream.indexOf("/"));
  if (kind === "nft") {
    const state = initialState(base);
    return {
      fold: ({ event, version, time }) => evolve(state, event as NftEvent, version, time),
      end: () => {
        if (headline !== undefined) assertHeadline(state, fromHeadline(headline));
        return ` ${state.status} end=${state.end?.number ?? "none"} listing=${listingHash(state)}`;
      },
    };
  }
  if (kind === "chain") {
    const state = initialChainState();
    return {
      fold: ({ event, version }) => evolveChain(state, event as ChainEvent, version),
      end: () => ` head=${state.head?.number ?? "none"} finalized=${state.finalized?.number ?? "none"}`,
    };
  }
  if (kind === "metadata") {
    const book = new MetadataBook();
    let blobs = 0;
    return {
      fold: async ({ event, version, time }) => {
        book.evolve(event as MetadataEvent, version, time);
        blobs += await verifyBlobs(log, event as MetadataEvent);
      },
      end: () => ` resolved=${book.resolved} failed=${book.failed} blobs=${blobs}`,
    };
  }
  if (kind === "prices") return bookFolding();
  if (kind === "proofs") {
    let documents = 0;
    return {
      fold: async ({ event }) => {
        const blobs = (event as ProofEvent).documents.map(({ blob }) => blob);
        await eachBlob(log, blobs, () => undefined);
        documents += blobs.length;
      },
      end: () => ` documents=${documents}`,
    };
  }
  if (kind === "keys" || kind === "usage") return { fold: () => undefined, end: () => "" };
  return priceFolding(log, stream, chains);
}

/** Asserts that a headline agrees with the events. A start relies on headlines. @throws Error naming the field */
function assertHeadline(
  { status, end, identified, possibleSpam, verifiedCollection }: Collection,
  said: IndexState,
): void {
  const expected: Partial<IndexState> = {
    end: end?.number ?? -1,
    endHash: end?.hash ?? "",
    startBlock: identified?.startBlock ?? 0,
    forms: identified?.forms ?? [],
    spam: possibleSpam,
    verified: verifiedCollection,
    // Headlines of older releases lack the name.
    ...(said.name === null || identified === undefined ? {} : { name: identified.name, symbol: identified.symbol }),
    ...(said.status === "following" ? { status: status === "synced" ? "following" : "joining" } : {}),
    // A repeated request leaves the result in the events until the new identification.
    ...((status === "not_nft" || status === "not_a_contract") && said.status !== "requested" ? { status } : {}),
  };
  for (const [name, value] of Object.entries(expected)) {
    const other = said[name as keyof IndexState];
    if (String(other) !== String(value)) throw new Error(`its headline says ${name}=${other}, its events ${value}`);
  }
}

/** Checks the blobs that an event names, and those that these name, and returns their number. */
async function verifyBlobs(log: EventLog, event: MetadataEvent): Promise<number> {
  if (!("tokens" in event)) return 0;
  const documents = namesOf(event.tokens);
  const named: Hash[] = [];
  await eachBlob(log, documents, (bytes) => {
    const { body, previews = [] } = JSON.parse(Buffer.from(bytes).toString()) as Partial<
      OutcomeDocument & MediaDocument
    >;
    named.push(...(body === undefined ? [] : [body]), ...previews.map(({ hash }) => hash));
  });
  await eachBlob(log, [...new Set(named)], () => undefined);
  return documents.length + named.length;
}

function namesOf(tokens: Uint8Array): Hash[] {
  const { count, hashes } = decodeTokens(tokens);
  const names = Array.from({ length: count }, (_, i) => bytesToHex(hashes.subarray(i * 32, i * 32 + 32)) as Hash);
  return [...new Set(names)].filter((name) => name !== NO_HASH);
}

async function eachBlob(log: EventLog, hashes: readonly Hash[], visit: (bytes: Uint8Array) => void): Promise<void> {
  for await (const [hash, bytes] of blobsOf(log, hashes)) {
    if (bytes === undefined) throw new Error(`blob ${hash} is missing`);
    if (hashOf(bytes) !== hash) throw new Error(`blob ${hash} is not what its name says`);
    visit(bytes);
  }
}
