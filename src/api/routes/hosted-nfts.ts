/**
 * The hosted service's neighbours of the listing, over the same collections: a contract, one of its tokens, owners, many
 * tokens at once, and requests to read a contract or its metadata again.
 */

import { type Static, Type } from "@sinclair/typebox";
import type { Chain } from "../../chains/chains.ts";
import { Refusal } from "../../core/errors.ts";
import { NFT_ADDRESS } from "../../core/examples.ts";
import type { Address } from "../../core/hex.ts";
import { boolean, givenAddress, named, nullable, STRICT, text } from "../../core/schema-parts.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import type { Requester } from "../../core/work.ts";
import { TransferKind } from "../../events/columns.ts";
import type { Collection } from "../../nft/collections/collection.ts";
import { holdersPage } from "../../nft/explore/walks.ts";
import { entryOfToken, kindsOf } from "../../nft/ledger/history.ts";
import { looksLikeSpam } from "../../nft/listings/record.ts";
import { signCursor } from "../../nft/walks/cursor.ts";
import { currentBlock, currentCollection, ledgerOf, type WalkSource } from "../../nft/walks/snapshot.ts";
import { startWalk } from "../../nft/walks/walk.ts";
import { responseHeaders } from "../wire/answered-block.ts";
import { errorExample } from "../wire/errors.ts";
import { type Operation, operationsFor } from "../wire/operation.ts";
import {
  addressOf,
  addressPart,
  anyTokenId,
  anyTokenIdPart,
  chainOrDefault,
  choice,
  type ParsedValues,
} from "../wire/parameters.ts";
import { API_PREFIX } from "../wire/paths.ts";
import { type ExploreDeps, type RecordModel, recordsFor, respond } from "./explore-answers.ts";
import { ContractMetadata, ResyncAnswer, SyncAnswer } from "./hosted-models.ts";
import { type ListingDeps, listed, namesFor, wantedCollection } from "./listing.ts";
import { listingQuery, walkOf } from "./listing-parameters.ts";
import { NftPage, NftRecord, wireForm } from "./nft-models.ts";

export interface HostedNftDeps extends ExploreDeps, Pick<ListingDeps, "demand" | "preview" | "maxPageSize"> {
  /**
   * Has the metadata of a token fetched again, at most once in a while.
   * @returns the time since when an attempt answers the request, in ms since the epoch; undefined if none was fetched yet
   */
  resyncToken(chainId: number, address: Address, id: bigint): Promise<number | undefined>;
}

const { json, cached } = operationsFor<HostedNftDeps>();

export const CONTRACT_PART = {
  address: addressPart(NFT_ADDRESS, "20-byte hex; a mixed-case address must have a valid EIP-55 checksum"),
};
const TOKEN_PARTS = { ...CONTRACT_PART, token_id: anyTokenIdPart };

/** What all of them answer wrongly. */
const ERRORS = [400, 404, 409, 410] as const;

/** The parameters of a page of records. */
const recordQuery = (maxPageSize: number) => {
  const { chain, format, limit, cursor, normalizeMetadata, media_items, as_of_block } = listingQuery(maxPageSize);
  return { chain, format, limit, cursor, normalizeMetadata, media_items, as_of_block };
};
const tokenQuery = (maxPageSize: number) => {
  const { chain, format, normalizeMetadata, media_items, as_of_block } = recordQuery(maxPageSize);
  return { chain, format, normalizeMetadata, media_items, as_of_block };
};

/** What a listing shows of a collection that is being read. */
export const listingStatus = ({ status, isUnproven }: Collection): "SYNCING" | "SYNCED" =>
  status === "syncing" || isUnproven ? "SYNCING" : "SYNCED";

/** True while there is nothing to walk through: nothing is indexed yet, or the contract is no NFT. */
export const isWalkless = (collection: Collection, source: WalkSource): boolean =>
  collection.status === "not_nft" || currentBlock(collection, source.chain) === undefined;

const getContractMetadata = json({
  method: "GET",
  path: `${API_PREFIX}/nft/:address/metadata`,
  scope: "read",
  id: "getNFTContractMetadata",
  summary: "Get the name, the symbol and the document of an NFT contract",
  description: "404 until the contract is identified; the first request for a contract starts its indexing.",
  tag: "NFT",
  parts: CONTRACT_PART,
  query: { chain: chainOrDefault },
  answer: ContractMetadata,
  errors: ERRORS,
  handle: async ({ path: { address }, query: { chain }, requester }, deps) => {
    const { runtime, collection } = await wantedCollection({ chain, address, walk: undefined }, requester, deps);
    const described = await deps.catalogue.describe(chain.chainId, address);
    const { identified, verifiedCollection } = collection;
    if (described === undefined || identified === undefined || collection.status === "not_nft") {
      const why = collection.status === "not_nft" ? "it is no NFT contract" : "its indexing has begun; ask again later";
      throw new Refusal("not_found", `address: nothing is known of ${address} on ${chain.name}: ${why}`);
    }
    const { entry } = described;
    const document = await deps.explorer.memory.run(requester, () => runtime.documentOf(address, false));
    const names = await namesFor(deps, runtime, { chainId: chain.chainId, address, name: identified.name ?? null });
    const isSpam = looksLikeSpam(collection, names);
    const { flag } = wireForm(deps.wireTypes === "native");
    return {
      body: {
        token_address: address,
        name: identified.name || (names?.name ?? ""),
        symbol: identified.symbol || (names?.symbol ?? ""),
        ...{ contract_type: entry.type, synced_at: entry.finishedAt, possible_spam: flag(isSpam) },
        ...{ verified_collection: flag(verifiedCollection), collection_logo: document.image },
        ...{ collection_banner_image: null, collection_category: null, project_url: document.externalLink },
        ...{ wiki_url: null, discord_url: null, telegram_url: null, twitter_username: null, instagram_username: null },
      },
    };
  },
});

interface TokenWanted {
  readonly chain: Chain;
  readonly address: Address;
  readonly id: bigint;
  readonly hex: boolean;
  readonly normalizeMetadata: boolean;
  readonly mediaItems: boolean;
  readonly asOfBlock: number | undefined;
}

/** The record of one token; undefined if it does not exist, or is not indexed yet. */
async function tokenRecord(wanted: TokenWanted, requester: Requester, deps: HostedNftDeps) {
  const { chain, address, id, asOfBlock, hex, ...parts } = wanted;
  const { source, runtime, collection } = await wantedCollection({ chain, address, walk: undefined }, requester, deps);
  if (isWalkless(collection, source)) return undefined;
  const asked = { source, runtime, requester, cursor: undefined, asOf: asOfBlock };
  const { body: record, headers } = await respond(asked, deps, false, async (start) => {
    const now = await currentCollection(source, start.walk);
    const ledger = ledgerOf(now, start.walk);
    const entries = kindsOf(ledger, id).flatMap((kind) => entryOfToken(ledger, { kind, id }, start.walk.block) ?? []);
    const found = entries.slice(0, 1);
    const at = Object.create(now, { ledger: { value: ledger } }) as Collection;
    const { facts } = await runtime.factsOf(address, found, { ...parts, asOf: undefined });
    const [record] = await recordsFor({ collection: at, entries: found, facts }, { source, runtime }, deps, hex);
    return record;
  });
  return record && { record, headers };
}

const noSuchToken = (id: bigint, address: Address, chain: Chain): Refusal =>
  new Refusal("not_found", `token_id: ${address} on ${chain.name} has no token ${id}, or it is not indexed yet`);

const getTokenMetadata = (maxPageSize: number) =>
  json({
    method: "GET",
    path: `${API_PREFIX}/nft/:address/:token_id`,
    scope: "read",
    id: "getNFTMetadata",
    summary: "Get one NFT by its contract and token id",
    tag: "NFT",
    parts: TOKEN_PARTS,
    query: tokenQuery(maxPageSize),
    answer: NftRecord,
    hasBlock: true,
    errors: ERRORS,
    errorExamples: { 404: errorExample("not_found", `token_id: ${NFT_ADDRESS} on eth has no token 10001`) },
    handle: async ({ path: { address, token_id: id }, query, requester }, deps) => {
      const { chain, normalizeMetadata, media_items: mediaItems, as_of_block: asOfBlock } = query;
      const common = { chain, address, id, hex: query.format === "hex", normalizeMetadata, mediaItems, asOfBlock };
      const found = await tokenRecord(common, requester, deps);
      if (found === undefined) throw noSuchToken(id, address, chain);
      return { body: found.record, headers: found.headers };
    },
  });

const getOwners = (maxPageSize: number) =>
  cached({
    method: "GET",
    path: `${API_PREFIX}/nft/:address/owners`,
    scope: "read",
    id: "getNFTOwners",
    summary: "Get the owners of the NFTs of a contract",
    description: "One record per token id and owner, as the listing has them with holders=true.",
    tag: "NFT",
    parts: CONTRACT_PART,
    query: recordQuery(maxPageSize),
    answer: NftPage,
    hasBlock: true,
    errors: ERRORS,
    handle: async ({ path, query, requester }, deps) => {
      const all = { disable_total: true, totalRanges: undefined, range: undefined, metadata_as_of: undefined };
      // The cursors are of this operation: a page of the listing without owners would have records without one.
      const own = { ...deps, cursorSecret: `${deps.cursorSecret}/owners` };
      return listed(path.address, { ...query, ...all, holders: true }, requester, own);
    },
  });

const getTokenOwners = (maxPageSize: number) =>
  json({
    method: "GET",
    path: `${API_PREFIX}/nft/:address/:token_id/owners`,
    scope: "read",
    id: "getNFTTokenIdOwners",
    summary: "Get the owners of one NFT, those who came last first",
    tag: "NFT",
    parts: TOKEN_PARTS,
    query: recordQuery(maxPageSize),
    answer: NftPage,
    hasBlock: true,
    errors: ERRORS,
    handle: async ({ path, query, requester }, deps) => tokenOwners(path, query, requester, deps),
  });

async function tokenOwners(
  { address, token_id: id }: ParsedValues<typeof TOKEN_PARTS>,
  query: ParsedValues<ReturnType<typeof recordQuery>>,
  requester: Requester,
  deps: HostedNftDeps,
) {
  const { chain, normalizeMetadata, media_items: mediaItems } = query;
  const secret = `${deps.cursorSecret}/owners of ${id}`;
  const cursor = query.cursor ? walkOf(query.cursor, secret, { chainId: chain.chainId, address }) : undefined;
  const { source, runtime, collection } = await wantedCollection({ chain, address, walk: cursor }, requester, deps);
  const { count } = wireForm(deps.wireTypes === "native");
  const limit = cursor?.limit ?? query.limit;
  const hex = cursor?.hex ?? query.format === "hex";
  const envelope = { status: listingStatus(collection), total: null, page_size: count(limit) };
  if (isWalkless(collection, source)) {
    const headers = responseHeaders(undefined, { trouble: runtime.trouble(), isStale: deps.isStale() });
    return { body: { ...envelope, page: count(0), cursor: null, result: [] }, headers };
  }
  const asked = { source, runtime, requester, cursor, asOf: cursor === undefined ? query.as_of_block : undefined };
  const { body, headers } = await respond(asked, deps, true, async (start) => {
    const page = await holdersPage(source, start, id, { isFirst: cursor === undefined, limit });
    const { facts } = await runtime.factsOf(address, page.entries, { normalizeMetadata, mediaItems, asOf: undefined });
    const result = await recordsFor({ ...page, facts }, { source, runtime }, deps, hex);
    const walk = { ...start.walk, page: start.walk.page + 1, limit, hex };
    const next = page.next === undefined ? null : signCursor({ ...walk, position: page.next }, secret);
    return { ...envelope, page: count(start.walk.page), cursor: next, result };
  });
  return { body, headers };
}

/** Most tokens of one request. */
const MAX_TOKENS = 100;

const NftsToGet = named(
  "NftsToGet",
  Type.Object(
    {
      tokens: Type.Array(
        Type.Object(
          {
            token_address: givenAddress(
              "0x and 40 hex digits, in one case or with a valid EIP-55 checksum",
              NFT_ADDRESS,
            ),
            token_id: text("the token id, decimal or as 0x…", "1234", {
              pattern: "^(?:[0-9]{1,78}|0x[0-9a-fA-F]{1,64})$",
            }),
          },
          STRICT,
        ),
        { maxItems: MAX_TOKENS, description: "The tokens, in the order of the answer" },
      ),
      normalizeMetadata: Type.Optional(boolean("Adds normalised metadata", true)),
      media_items: Type.Optional(boolean("Adds preview media", true)),
    },
    STRICT,
  ),
);

const NoRecord = named(
  "NoRecord",
  nullable(Type.Object({}, { ...STRICT, description: "Null for a token that does not exist or is not indexed yet" })),
);

const getMultipleNfts = json({
  method: "POST",
  path: `${API_PREFIX}/nft/getMultipleNFTs`,
  scope: "read",
  id: "getMultipleNFTs",
  summary: "Get up to 100 NFTs by their contracts and token ids",
  description:
    "Records in the order of the tokens; null for one that does not exist or is not indexed yet. Where several hold a token, owner_of is the one who came last. Each token counts as a request.",
  tag: "NFT",
  query: { chain: chainOrDefault },
  body: NftsToGet,
  answer: named("NftRecords", Type.Array(Type.Union([NftRecord, NoRecord]))),
  errors: [400, 409],
  handle: async ({ query: { chain }, body, requester, question }, deps) => {
    const tokens = body.tokens.map(({ token_address, token_id }, at) => ({
      address: addressOf(token_address, `tokens.${at}.token_address`),
      id: anyTokenId(token_id, `tokens.${at}.token_id`),
    }));
    question.asksFor(tokens.length);
    const { normalizeMetadata = false, media_items: mediaItems = false } = body as Static<typeof NftsToGet>;
    const common = { chain, hex: false, normalizeMetadata, mediaItems, asOfBlock: undefined };
    const records: (RecordModel | null)[] = [];
    const spent: Refusal[] = [];
    for (const token of tokens) {
      // A record may have a hundred kilobytes in two forms.
      if (records.length > 0) await yieldToEventLoop();
      const found = await recordOrNull({ ...common, ...token }, requester, deps, spent);
      records.push(
        found === undefined ? null : await withOwner(found.record, { ...common, ...token }, requester, deps),
      );
    }
    if (spent.length > 0 && records.every((record) => record === null)) throw spent[0];
    return { body: records };
  },
});

/**
 * Returns undefined where a refusal concerns this token alone: an address without a contract has none, and a new contract
 * beyond the key's share is not indexed yet. That second refusal goes to `spent`.
 */
async function recordOrNull(
  ...[wanted, requester, deps, spent]: [...Parameters<typeof tokenRecord>, spent: Refusal[]]
): ReturnType<typeof tokenRecord> {
  try {
    return await tokenRecord(wanted, requester, deps);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    if (error.code === "rate_limited") spent.push(error);
    else if (error.code !== "not_a_contract") throw error;
    return undefined;
  }
}

/** Names an owner of a token that several hold: clients of the hosted service fail on a record without one. */
async function withOwner(
  record: RecordModel,
  { chain, address, id }: TokenWanted,
  requester: Requester,
  deps: HostedNftDeps,
): Promise<RecordModel> {
  if (record.owner_of !== "") return record;
  const { source } = await wantedCollection({ chain, address, walk: undefined }, requester, deps);
  return deps.explorer.memory.run(requester, async () => {
    const start = await startWalk(source, { asOfBlock: undefined, byPair: true });
    const { collection, entries } = await holdersPage(source, start, id, { isFirst: true, limit: 1 });
    const owner = entries[0]?.owner ?? -1;
    return owner < 0 ? record : { ...record, owner_of: collection.ledger.addresses.hex(owner) };
  });
}

const SYNC = {
  path: `${API_PREFIX}/nft/:address/sync`,
  scope: "read",
  tag: "NFT",
  parts: CONTRACT_PART,
  query: { chain: chainOrDefault },
  answer: SyncAnswer,
  errors: ERRORS,
} as const;

const syncContract = (method: "GET" | "PUT", id: string) =>
  json({
    ...{ ...SYNC, method, id },
    summary: "Have a contract indexed. A new one counts in the key's share of new collections",
    handle: async ({ path: { address }, query: { chain }, requester }, deps) => {
      const { collection } = await wantedCollection({ chain, address, walk: undefined }, requester, deps);
      return { body: { message: "Request initiated", status: listingStatus(collection) } };
    },
  });

/** Longest wait of a resync in sync mode, and between two looks at its outcome, in ms. */
const [RESYNC_WAIT_MS, RESYNC_LOOK_MS] = [10_000, 100];

const resyncMetadata = json({
  method: "GET",
  path: `${API_PREFIX}/nft/:address/:token_id/metadata/resync`,
  scope: "read",
  id: "reSyncMetadata",
  summary: "Have the metadata of one NFT fetched again, at most once in ten minutes",
  tag: "NFT",
  parts: TOKEN_PARTS,
  query: {
    chain: chainOrDefault,
    flag: choice(
      ["uri", "metadata"],
      { allowed: "must be uri or metadata", default: "uri" },
      { description: "Both read the URI and what it names", example: "uri" },
    ),
    mode: choice(
      ["async", "sync"],
      { allowed: "must be async or sync", default: "async" },
      { description: "sync waits up to ten seconds for the outcome", example: "sync" },
    ),
  },
  answer: ResyncAnswer,
  errors: ERRORS,
  handle: async ({ path: { address, token_id: id }, query: { chain, mode }, requester, request }, deps) => {
    const asked = { chain, address, id, hex: false, normalizeMetadata: false, mediaItems: false };
    if ((await tokenRecord({ ...asked, asOfBlock: undefined }, requester, deps)) === undefined) {
      throw noSuchToken(id, address, chain);
    }
    const { runtime, collection } = await wantedCollection({ chain, address, walk: undefined }, requester, deps);
    const since = await deps.resyncToken(chain.chainId, address, id);
    const kind = kindsOf(collection.ledger, id)[0] ?? TransferKind.erc721;
    const end = deps.clock.monotonic() + (mode === "sync" ? RESYNC_WAIT_MS : 0);
    while (since !== undefined && deps.clock.monotonic() < end) {
      const [newest] = await runtime.outcomesOf(address, { kind, id }, 1);
      if (newest !== undefined && newest.time >= since) {
        if (newest.reason === undefined) return { body: { status: "completed" as const } };
        throw new Refusal("not_found", `token_id: the metadata could not be fetched: ${newest.reason}`);
      }
      await deps.clock.sleep(RESYNC_LOOK_MS, request.signal);
    }
    return { body: { status: "submitted" as const } };
  },
});

/** @param maxPageSize the operator's bound on a page */
export const hostedNftOperations = (maxPageSize: number): readonly Operation<HostedNftDeps>[] => [
  getContractMetadata,
  getOwners(maxPageSize),
  getMultipleNfts,
  syncContract("PUT", "syncNFTContract"),
  syncContract("GET", "syncNFTContractByGet"),
  getTokenMetadata(maxPageSize),
  getTokenOwners(maxPageSize),
  resyncMetadata,
];
