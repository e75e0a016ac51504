/**
 * The listing of a collection, and its preview pictures. A request for an unknown contract requests its indexing. The
 * listing reads no chain data itself.
 */

import type { Chain } from "../../chains/chains.ts";
import type { Clock } from "../../core/clock.ts";
import { Refusal } from "../../core/errors.ts";
import { NFT_ADDRESS } from "../../core/examples.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { WireTypes } from "../../core/schema-parts.ts";
import type { Requester } from "../../core/work.ts";
import { nftStream } from "../../events/types.ts";
import type { HotCollections } from "../../nft/collections/hot-collections.ts";
import type { ContractNames } from "../../nft/collections/name-list.ts";
import type { Demand } from "../../nft/indexing/demand.ts";
import { ruleOfWords } from "../../nft/indexing/word-rules.ts";
import { finishPage } from "../../nft/listings/pages.ts";
import type { KnownFacts } from "../../nft/metadata/page.ts";
import type { Walk } from "../../nft/walks/cursor.ts";
import { currentPlan } from "../../nft/walks/sliced-plan.ts";
import { currentCollection } from "../../nft/walks/snapshot.ts";
import {
  asOfBlock,
  assertReachable,
  type ChainDeps,
  enabledChain,
  type NftChain,
  responseHeaders,
} from "../wire/answered-block.ts";
import { jsonHeaders, matchesEtag } from "../wire/answers.ts";
import { errorExample } from "../wire/errors.ts";
import { type Operation, operationsFor } from "../wire/operation.ts";
import { addressPart, textPart } from "../wire/parameters.ts";
import { API_PREFIX } from "../wire/paths.ts";
import { cachedResponse, type RouteResponse } from "../wire/response-cache.ts";
import { firstPage, type ListingQuery, listingQuery, walkOf } from "./listing-parameters.ts";
import { NftPage, PREVIEW_EXAMPLE } from "./nft-models.ts";

/**
 * The names for a contract that returns none itself: those of the lists, else the name in ERC-7572's document. That one
 * is judged where it is shown, by the rules for the names that contracts return.
 * @param name the contract's own; null if it is not known
 */
export async function namesFor(
  deps: Pick<ListingDeps, "namesOf">,
  runtime: NftChain,
  { chainId, address, name }: { readonly chainId: number; readonly address: Address; readonly name: string | null },
): Promise<ContractNames | undefined> {
  const listed = deps.namesOf(chainId, address);
  if (listed !== undefined || name !== "") return listed;
  const own = await runtime.documentOf(address, false);
  if (own.name === null) return undefined;
  return { name: own.name, symbol: "", rule: ruleOfWords({ name: own.name, symbol: "" }) };
}

export interface ListingDeps extends ChainDeps {
  readonly projections: HotCollections;
  readonly clock: Clock;
  readonly cursorSecret: string;
  readonly maxPageSize: number;
  readonly wireTypes: WireTypes;
  /** Returns the names for a contract that returns none itself; the same object until they change. */
  namesOf(chainId: number, address: Address): ContractNames | undefined;
  /** Takes the requests of clients for collections. */
  readonly demand: Pick<Demand, "request">;
  /** True while this process is behind the event log or cut off from it. */
  isStale(): boolean;
  /** Returns a stored preview's bytes; undefined when the hash names no preview of that size. Waits while many are read. */
  preview(hash: Hash, size: number, client: AbortSignal | undefined): Promise<Uint8Array | undefined>;
}

/** A page of an empty listing. */
const NO_FACTS: KnownFacts = { facts: [], isSettled: true, isWhole: true };
/**
 * Longest use of a cached page. Each cache hit checks the versions that the page was made of. The bound exists because
 * building a page also triggers the refresh of stale tokens, which a cache hit does not.
 */
const KEPT_MS = 30_000;
const UNSETTLED_MS = 1_000;

const { cached, file } = operationsFor<ListingDeps>();

const getContractNfts = (maxPageSize: number): Operation<ListingDeps> =>
  cached({
    method: "GET",
    path: `${API_PREFIX}/nft/:address`,
    scope: "read",
    id: "getContractNFTs",
    summary: "Get NFTs by contract",
    description: "A page of the NFTs of one contract. The first request for a contract starts its indexing.",
    tag: "NFT",
    parts: {
      address: addressPart(NFT_ADDRESS, "20-byte hex; a mixed-case address must have a valid EIP-55 checksum"),
    },
    query: listingQuery(maxPageSize),
    answer: NftPage,
    hasBlock: true,
    errors: [400, 404, 409, 410],
    errorExamples: {
      404: errorExample("not_a_contract", `address: there is no contract at ${NFT_ADDRESS} on eth`),
    },
    handle: async ({ path, query, requester }, deps) => listed(path.address, query, requester, deps),
  });

interface WantedContract {
  readonly chain: Chain;
  readonly address: Address;
  /** The walk of a cursor. */
  readonly walk: (Walk & { readonly block: number }) | undefined;
}

/**
 * The collection of a contract that a client asks about. If it is not indexed, its indexing is requested.
 * @throws Refusal 404 `not_a_contract`, 429 beyond the key's share of new collections, 503
 */
export async function wantedCollection(
  { chain, address, walk }: WantedContract,
  requester: Requester,
  deps: Pick<ListingDeps, "projections" | "demand" | "nftChain" | "chains">,
) {
  const { chainId } = chain;
  const runtime = enabledChain(chain, deps);
  const source = { projections: deps.projections, chain: runtime.view, chainId, address };
  const collection = await currentCollection(source, walk);
  const verdict = await deps.demand.request({ chainId, address }, collection, requester);
  if (collection.status === "not_a_contract" || verdict === "not_a_contract") {
    throw new Refusal("not_a_contract", `address: there is no contract at ${address} on ${chain.name}`);
  }
  // Nothing is known, and nothing can be learned: an answer would say SYNCING without end.
  if (collection.status === "syncing" && collection.end === undefined) assertReachable(chain, runtime.trouble());
  return { source, runtime, collection };
}

/** A page of a listing, as bytes that are made once. */
export async function listed(
  address: Address,
  query: ListingQuery,
  requester: Requester,
  deps: ListingDeps,
): Promise<RouteResponse> {
  const { projections, clock, cursorSecret } = deps;
  const { chain } = query;
  const { chainId } = chain;
  // An empty cursor is the same as none. A cursor fixes the parameters of its first page.
  const walk = query.cursor ? walkOf(query.cursor, cursorSecret, { chainId, address }) : undefined;
  const from = walk === undefined ? { first: firstPage(query) } : { cursor: walk };
  const { source, runtime, collection } = await wantedCollection({ chain, address, walk }, requester, deps);
  const plan = await currentPlan(source, collection, from);
  const metadataVersion = runtime.metadataVersion(address);
  const facts = {
    normalizeMetadata: query.normalizeMetadata,
    mediaItems: query.media_items,
    asOf: query.metadata_as_of,
  };
  const known = plan.entries.length === 0 ? NO_FACTS : await runtime.factsOf(address, plan.entries, facts);
  const asOf = await asOfBlock(plan, runtime);
  const listedNames = deps.namesOf(chainId, address);
  const names = await namesFor(deps, runtime, { chainId, address, name: plan.collection.identified?.name ?? null });
  const state = { trouble: runtime.trouble(), isStale: deps.isStale() };
  const native = deps.wireTypes === "native";
  // No await from here to the copy of the page's bytes, which it shares with the next page.
  const page = finishPage(plan, known.facts, { native, cursorSecret, names, time: asOf?.time });
  const answer = cachedResponse(page.body, 200, jsonHeaders(responseHeaders(asOf, state)));
  if (asOf === undefined || asOf.hash === "") return { answer };
  const stream = nftStream(chainId, address);
  const until = clock.monotonic() + (known.isSettled ? KEPT_MS : UNSETTLED_MS);
  const isCurrent = (): boolean =>
    projections.peek(stream)?.version === plan.snapshot.version &&
    runtime.view.version === plan.snapshot.chainVersion &&
    runtime.metadataVersion(address) === metadataVersion &&
    deps.namesOf(chainId, address) === listedNames &&
    deps.isStale() === state.isStale &&
    runtime.trouble() === state.trouble &&
    clock.monotonic() < until;
  return { answer, isCurrent };
}

const HASH = /^[0-9a-f]{64}$/;
const SIZES: readonly number[] = [100, 250, 500];

/** Serves previews without a key. No other blob is served: the hash must name a preview in that size. */
const getMediaPreview = file({
  method: "GET",
  path: "/media/:hash/:size",
  scope: undefined,
  id: "getMediaPreview",
  summary: "Get a preview picture",
  description: "A preview from a record's media. The URL contains its SHA-256, so its content never changes.",
  tag: "NFT",
  parts: {
    hash: textPart({ description: "SHA-256 of the preview", example: PREVIEW_EXAMPLE }, { pattern: HASH.source }),
    size: textPart(
      { description: "Pixels of its longer side", example: 100 },
      { type: "integer", format: "int32", enum: [...SIZES] },
    ),
  },
  content: { "image/webp": { schema: { type: "string", format: "binary" } } },
  errors: [404],
  handle: async ({ path: { hash, size }, request, client }, deps) => {
    const known = HASH.test(hash) && SIZES.map(String).includes(size);
    const bytes = known ? await deps.preview(`0x${hash}` as Hash, Number(size), client) : undefined;
    if (bytes === undefined) throw new Refusal("not_found", "there is no such preview");
    const headers = {
      "content-type": "image/webp",
      // The URL contains the hash of the content, so the content never changes.
      "cache-control": "public, max-age=31536000, immutable",
      etag: `"${hash}"`,
      "x-content-type-options": "nosniff",
      "content-security-policy": "default-src 'none'; sandbox",
      "cross-origin-resource-policy": "cross-origin",
    };
    const isKnown = matchesEtag(headers.etag, request.headers.get("if-none-match"));
    return isKnown ? new Response(null, { status: 304, headers }) : new Response(new Uint8Array(bytes), { headers });
  },
});

/** The operations on listings. @param maxPageSize the operator's bound on a page */
export const listingOperations = (maxPageSize: number): readonly Operation<ListingDeps>[] => [
  getContractNfts(maxPageSize),
  { ...getMediaPreview, isCached: true },
];
