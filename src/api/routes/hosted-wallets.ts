/** The hosted service's routes of a wallet: its tokens and its collections, of those of a chain that are indexed here. */

import type { Static } from "@sinclair/typebox";
import type { Chain } from "../../chains/chains.ts";
import { LIMITS } from "../../config.ts";
import { invalidParameter } from "../../core/errors.ts";
import { NFT_ADDRESS, OWNER_EXAMPLE } from "../../core/examples.ts";
import type { Address } from "../../core/hex.ts";
import type { Requester } from "../../core/work.ts";
import { nftStream, parseStream } from "../../events/types.ts";
import type { Collection } from "../../nft/collections/collection.ts";
import type { WalletIndex } from "../../nft/collections/wallet-index.ts";
import { countOwned, type WalletPage, type WalletPart, walletPage } from "../../nft/explore/wallets.ts";
import { looksLikeSpam } from "../../nft/listings/record.ts";
import { openCursor, signCursor, type Walk } from "../../nft/walks/cursor.ts";
import { currentCollection } from "../../nft/walks/snapshot.ts";
import { asOfBlock, enabledChain, responseHeaders } from "../wire/answered-block.ts";
import { jsonHeaders } from "../wire/answers.ts";
import { type Operation, operationsFor } from "../wire/operation.ts";
import { addressList, addressPart, flag, type ParsedValues } from "../wire/parameters.ts";
import { API_PREFIX } from "../wire/paths.ts";
import { cachedResponse, type RouteResponse } from "../wire/response-cache.ts";
import { type RecordModel, recordsFor } from "./explore-answers.ts";
import { WalletCollectionPage } from "./hosted-models.ts";
import type { HostedNftDeps } from "./hosted-nfts.ts";
import { namesFor, wantedCollection } from "./listing.ts";
import { listingQuery } from "./listing-parameters.ts";
import { NftPage, wireForm } from "./nft-models.ts";

interface WalletDeps extends HostedNftDeps {
  readonly walletIndex: WalletIndex;
}

const { cached } = operationsFor<WalletDeps>();

/** Most contracts that one request may name. */
const MAX_CONTRACTS = 100;

const walletQuery = (maxPageSize: number) => {
  const { chain, format, limit, cursor, normalizeMetadata, media_items, as_of_block } = listingQuery(maxPageSize);
  return {
    ...{ chain, format, limit, cursor, normalizeMetadata, media_items, as_of_block },
    exclude_spam: flag(false, { description: "Leaves out collections that look like spam", example: true }),
    token_addresses: addressList(
      { max: MAX_CONTRACTS },
      { description: "Only these contracts; unknown ones are indexed, each as a new collection of the key" },
      NFT_ADDRESS,
    ),
  };
};
type WalletParameters = Pick<
  ParsedValues<ReturnType<typeof walletQuery>>,
  "chain" | "format" | "limit" | "cursor" | "as_of_block" | "exclude_spam" | "token_addresses"
>;

const PARTS = { address: addressPart(OWNER_EXAMPLE, "The wallet") };

/** A wallet, and what a request asks of it. */
interface Wallet {
  readonly owner: Address;
  readonly query: WalletParameters;
  readonly requester: Requester;
  /** What its cursors are signed with. */
  readonly secret: string;
  readonly cursor: (Walk & { readonly block: number }) | undefined;
  /** True to read one token of each collection, which shows that the wallet holds some. */
  readonly isOneEach: boolean;
}

/** @throws Refusal for a cursor of another wallet, chain or filter, or of the other route */
function walletOf(
  kind: "nfts" | "collections",
  { owner, query, requester }: Pick<Wallet, "owner" | "query" | "requester">,
  { cursorSecret }: Pick<WalletDeps, "cursorSecret">,
): Wallet {
  const { chain, exclude_spam, token_addresses } = query;
  const secret = `${cursorSecret}/${JSON.stringify(["wallet", kind, owner, exclude_spam, token_addresses])}`;
  const given = query.cursor;
  const isLong = (given?.length ?? 0) > LIMITS.maxCursorLength;
  const cursor = given && !isLong ? openCursor(given, secret) : undefined;
  if (given && cursor?.chainId !== chain.chainId) {
    throw invalidParameter(
      "cursor",
      "must be a cursor of this server, unchanged, for the same wallet, chain and filters",
    );
  }
  return { owner, query, requester, secret, cursor, isOneEach: kind === "collections" };
}

/** Reads a page of a wallet once the key has its turn. */
async function readPage(wallet: Wallet, deps: WalletDeps) {
  const { owner, query, requester, cursor, isOneEach } = wallet;
  const { chain, token_addresses: asked, exclude_spam } = query;
  const { chainId } = chain;
  const runtime = enabledChain(chain, deps);
  const of = { projections: deps.projections, chain: runtime.view, chainId };
  const isSyncing = await requestContracts(chain, asked, requester, deps);
  const limit = cursor?.limit ?? query.limit;
  // Taken before the reading, so that a change during it makes the answer old.
  const versions = { collections: deps.walletIndex.versionOf(chainId), chain: runtime.view.version };
  return deps.explorer.memory.run(requester, async () => {
    const followed = await deps.catalogue.followed(chainId);
    const wanted = new Set<string>(asked.map((address) => nftStream(chainId, address)));
    const collections = asked.length === 0 ? followed : followed.filter((stream) => wanted.has(stream));
    const streams = await deps.walletIndex.candidates(collections, owner);
    const addresses = streams.flatMap((stream) => {
      const parsed = parseStream(stream);
      return parsed.kind === "nft" ? parsed.address : [];
    });
    const judged: [Address, number | undefined][] = [];
    const accepts = async (address: Address, collection: Collection) => {
      if (!exclude_spam) return true;
      // Its document may stop to lure.
      judged.push([address, runtime.metadataVersion(address)]);
      const name = collection.identified?.name ?? null;
      return !looksLikeSpam(collection, await namesFor(deps, runtime, { chainId, address, name }));
    };
    const reading = { owner, addresses, cursor, asOfBlock: query.as_of_block, limit, accepts, isOneEach };
    const page = await walletPage(of, reading);
    const shown = page.parts.map(({ source: { address } }) => [address, runtime.metadataVersion(address)] as const);
    const metadata = [...judged, ...shown];
    const state = { trouble: runtime.trouble(), isStale: deps.isStale() };
    const covered = collections.length - page.skipped;
    return { page, limit, runtime, isSyncing, versions: { ...versions, metadata }, state, covered };
  });
}

/** Has the contracts of a request indexed. Returns true if one of them is not indexed yet. */
async function requestContracts(
  chain: Chain,
  addresses: readonly Address[],
  requester: Requester,
  deps: WalletDeps,
): Promise<boolean> {
  let isSyncing = false;
  for (const address of addresses) {
    const { collection } = await wantedCollection({ chain, address, walk: undefined }, requester, deps);
    isSyncing ||= collection.status === "syncing";
  }
  return isSyncing;
}

/** Longest use of a cached answer. Each use checks the versions that it was made of; lists of names have none. */
const KEPT_MS = 30_000;

/** An answer for the cache, until any collection of the chain, its head or the shown metadata changes. */
function cachedAnswer(
  body: Static<typeof NftPage> | Static<typeof WalletCollectionPage>,
  headers: Record<string, string>,
  { wallet, read }: { readonly wallet: Wallet; readonly read: WalletPageRead },
  deps: WalletDeps,
): RouteResponse {
  const answer = cachedResponse(JSON.stringify(body), 200, jsonHeaders(headers));
  if (read.isSyncing || headers["x-as-of-hash"] === undefined) return { answer };
  const { runtime, versions, state } = read;
  const { chainId } = wallet.query.chain;
  const until = deps.clock.monotonic() + KEPT_MS;
  const isCurrent = (): boolean =>
    deps.walletIndex.versionOf(chainId) === versions.collections &&
    runtime.view.version === versions.chain &&
    versions.metadata.every(([address, version]) => runtime.metadataVersion(address) === version) &&
    deps.isStale() === state.isStale &&
    runtime.trouble() === state.trouble &&
    deps.clock.monotonic() < until;
  return { answer, isCurrent };
}

type WalletPageRead = Awaited<ReturnType<typeof readPage>>;

/** The envelope of a page, and its headers. */
async function enveloped(
  wallet: Wallet,
  { page, limit, runtime, isSyncing, state, covered }: WalletPageRead,
  deps: WalletDeps,
) {
  const { secret, cursor, query } = wallet;
  const { count } = wireForm(deps.wireTypes === "native");
  const { block } = page;
  const finalized = block !== undefined && block.block <= (runtime.view.finalized()?.number ?? -1);
  const asOf = block && (await asOfBlock({ walk: block, finalized }, runtime));
  const headers = responseHeaders(asOf, state);
  const hex = cursor?.hex ?? query.format === "hex";
  const number = cursor?.page ?? 0;
  const cursorOf = (next: WalletPage["next"]): string | null =>
    next === undefined ? null : signCursor({ ...next, page: number + 1, limit, hex }, secret);
  const status: "SYNCING" | "SYNCED" = isSyncing ? "SYNCING" : "SYNCED";
  return {
    envelope: { status, total: null, page: count(number), page_size: count(limit) },
    headers: { ...headers, "x-covered": `${covered} ${covered === 1 ? "collection" : "collections"}` },
    ...{ hex, cursorOf },
  };
}

const getWalletNfts = (maxPageSize: number) =>
  cached({
    method: "GET",
    path: `${API_PREFIX}/:address/nft`,
    scope: "read",
    id: "getWalletNFTs",
    summary: "Get the NFTs of a wallet, of the collections that are indexed here",
    description: "The header x-covered says of how many collections. By contract, then in the order of the listing.",
    tag: "NFT",
    parts: PARTS,
    query: walletQuery(maxPageSize),
    answer: NftPage,
    hasBlock: true,
    isOfCovered: true,
    errors: [400, 404, 409, 410],
    handle: async ({ path: { address: owner }, query, requester }, deps) => {
      const wallet = walletOf("nfts", { owner, query, requester }, deps);
      const read = await readPage(wallet, deps);
      const { envelope, headers, hex, cursorOf } = await enveloped(wallet, read, deps);
      const wanted = { normalizeMetadata: query.normalizeMetadata, mediaItems: query.media_items, asOf: undefined };
      const result: RecordModel[] = [];
      let { next } = read.page;
      for (const part of read.page.parts) {
        const { facts } = await read.runtime.factsOf(part.source.address, part.entries, wanted);
        const of = { source: part.source, runtime: read.runtime };
        result.push(...(await recordsFor({ ...part, facts }, of, deps, hex)));
        // The metadata of all entries would be too much for one page, so it ends with the last that was read.
        const place = part.places[facts.length];
        if (facts.length < part.entries.length && place !== undefined) {
          next = { ...part.start.walk, position: place };
          break;
        }
      }
      return cachedAnswer({ ...envelope, cursor: cursorOf(next), result }, headers, { wallet, read }, deps);
    },
  });

const getWalletCollections = (maxPageSize: number) => {
  const { chain, limit, cursor, format, as_of_block, exclude_spam, token_addresses } = walletQuery(maxPageSize);
  return cached({
    method: "GET",
    path: `${API_PREFIX}/:address/nft/collections`,
    scope: "read",
    id: "getWalletNFTCollections",
    summary: "Get the collections that a wallet holds tokens of, of those that are indexed here",
    description: "The header x-covered says of how many collections.",
    tag: "NFT",
    parts: PARTS,
    query: {
      ...{ chain, format, limit, cursor, as_of_block, exclude_spam, token_addresses },
      token_counts: flag(false, { description: "Adds the number of token ids that the wallet holds", example: true }),
    },
    answer: WalletCollectionPage,
    hasBlock: true,
    isOfCovered: true,
    errors: [400, 404, 409, 410],
    handle: async ({ path: { address: owner }, query, requester }, deps) => {
      const wallet = walletOf("collections", { owner, query, requester }, deps);
      const read = await readPage(wallet, deps);
      const { envelope, headers, cursorOf } = await enveloped(wallet, read, deps);
      const result: Static<typeof WalletCollectionPage>["result"] = [];
      for (const part of read.page.parts) {
        const count = query.token_counts
          ? await deps.explorer.memory.run(requester, () => countOwned(part, owner))
          : undefined;
        result.push({ ...(await collectionOf(part, read, deps)), ...(count === undefined ? {} : { count }) });
      }
      const { total: _, ...own } = envelope;
      return cachedAnswer({ ...own, cursor: cursorOf(read.page.next), result }, headers, { wallet, read }, deps);
    },
  });
};

/** The record of a collection that the wallet holds tokens of. */
async function collectionOf({ source, start }: WalletPart, { runtime }: WalletPageRead, deps: WalletDeps) {
  const { chainId, address } = source;
  const collection = await currentCollection(source, start.walk);
  const { identified } = collection;
  const [names, described] = await Promise.all([
    namesFor(deps, runtime, { chainId, address, name: identified?.name ?? null }),
    deps.catalogue.describe(chainId, address),
  ]);
  const { flag: shown } = wireForm(deps.wireTypes === "native");
  return {
    ...{ token_address: address, contract_type: described?.entry.type ?? null },
    name: identified?.name || (names?.name ?? ""),
    symbol: identified?.symbol || (names?.symbol ?? ""),
    possible_spam: shown(looksLikeSpam(collection, names)),
    verified_collection: shown(collection.verifiedCollection),
    ...{ collection_logo: null, collection_banner_image: null },
  };
}

/** @param maxPageSize the operator's bound on a page */
export const hostedWalletOperations = (maxPageSize: number): readonly Operation<WalletDeps>[] => [
  getWalletNfts(maxPageSize),
  getWalletCollections(maxPageSize),
];
