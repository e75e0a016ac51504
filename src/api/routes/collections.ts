/** The operations on collections: their list, their progress and cost, and what operators have done with them. */

import { type Static, Type } from "@sinclair/typebox";
import { Refusal } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import { named } from "../../core/schema-parts.ts";
import type { StreamName } from "../../events/types.ts";
import type { HotCollections } from "../../nft/collections/hot-collections.ts";
import type { Explorer } from "../../nft/explore/readings.ts";
import type { Estimate } from "../../nft/indexing/models.ts";
import type { DescribedCollection } from "../../operators/catalogue.ts";
import {
  COLLECTION_STATUSES,
  type CollectionStatus,
  type ListedCollection,
  type NamedCollection,
} from "../../operators/models.ts";
import { enabledChain } from "../wire/answered-block.ts";
import { type Operation, operationsFor } from "../wire/operation.ts";
import type { KnownChains } from "../wire/parameters.ts";
import {
  addressOf,
  anyChain,
  anyText,
  chainNamed,
  choice,
  notEnabled,
  pageLimit,
  parsedText,
  tokenId,
} from "../wire/parameters.ts";
import {
  CollectionDetails,
  CollectionEstimate,
  CollectionList,
  IndexAnswerItem,
  IndexRequest,
  RefreshRequest,
} from "./collection-models.ts";
import {
  COLLECTION_PARTS,
  type CollectionDeps,
  neverRequested,
  ONE_COLLECTION,
  requestedCollection,
} from "./collection-path.ts";
import { type ListingDeps, namesFor } from "./listing.ts";
import type { Media } from "./nft-models.ts";

interface CollectionsDeps extends KnownChains, CollectionDeps, Pick<ListingDeps, "demand" | "namesOf"> {
  readonly projections: HotCollections;
  readonly explorer: Explorer;
  /** Says what indexing a contract will cost; undefined if the chain is not enabled. */
  estimate(chainId: number, address: Address): Promise<Estimate> | undefined;
  /** Has a collection indexed anew, or removed. Returns the status before; undefined if it was never requested. */
  beginAnew(chainId: number, address: Address, type: "ReindexRequested" | "CollectionRemoved"): Promise<unknown>;
  /** Has metadata fetched again. Returns false if none was fetched yet. */
  refreshMetadata(chainId: number, address: Address, ids: readonly bigint[] | undefined): Promise<boolean>;
}

const { json } = operationsFor<CollectionsDeps>();

const listCollections = json({
  method: "GET",
  path: "/api/collections",
  scope: "operate",
  id: "listCollections",
  summary: "All collections with their progress, by chain and address. With fields=names also for keys of scope read",
  hasNamesForRead: true,
  tag: "Operators",
  query: {
    fields: choice(
      ["names"],
      { allowed: "must be names" },
      { description: "names: chain, address, name, symbol, type and status only", example: "names" },
    ),
    chain: anyChain,
    status: choice(
      COLLECTION_STATUSES,
      { allowed: `must be one of ${COLLECTION_STATUSES.join(", ")}` },
      { description: "Only this status", example: "indexing" },
    ),
    text: anyText(
      { description: "Part of the address, the name or the symbol, in any case", example: "ape" },
      { maxLength: 100 },
    ),
    limit: pageLimit(),
    cursor: parsedText(
      streamOfCursor,
      { allowed: "must be the cursor of an earlier answer, unchanged" },
      {
        description: "Cursor of the previous page",
        example: "bmZ0LzEvMHhiYzRjYTBlZGE3NjQ3YThhYjdjMjA2MWMyZTExOGExOGE5MzZmMTNk",
      },
    ),
  },
  answer: CollectionList,
  errors: [400],
  handle: async ({ query }, { catalogue }) => {
    const { chain, status, limit, cursor } = query;
    const text = query.text?.trim().toLowerCase().slice(0, 100) || undefined;
    const { entries, next } = await catalogue.page({ chain, status, text }, { after: cursor || undefined, limit });
    const result = query.fields === "names" ? entries.map(namesOf) : entries;
    return { body: { cursor: next === undefined ? null : Buffer.from(next).toString("base64url"), result } };
  },
});

const namesOf = ({ chain, address, name, symbol, type, status }: ListedCollection): NamedCollection => ({
  ...{ chain, address, name, symbol, type, status },
});

/** The stream that a page of the list begins after; "" for an empty cursor, which is the same as none. */
function streamOfCursor(cursor: string): StreamName | "" | undefined {
  const stream = Buffer.from(cursor, "base64url").toString() as StreamName;
  return cursor === "" || /^nft\/\d{1,16}\/0x[0-9a-f]{40}$/.test(stream) ? stream : undefined;
}

/** Statuses in which a request for a collection may have work to do. */
const OVER: readonly CollectionStatus[] = ["removed", "not_nft", "not_a_contract"];

const requestCollections = json({
  method: "POST",
  path: "/api/collections",
  scope: "operate",
  id: "requestCollections",
  summary: "Requests the indexing of up to 500 contracts",
  tag: "Operators",
  body: IndexRequest,
  answer: named("IndexAnswer", Type.Object({ items: Type.Array(IndexAnswerItem) })),
  errors: [400],
  handle: async ({ body, requester }, deps) => {
    const contracts = body.items.map(({ chain: name = "eth", address: given }, index) => {
      const chain = chainNamed(name, `items.${index}.chain`, deps.chains);
      enabledChain(chain, deps, `items.${index}.chain`);
      return { chain, address: addressOf(given, `items.${index}.address`) };
    });
    const items = [];
    for (const { chain, address: contract } of contracts) {
      const of = { chainId: chain.chainId, address: contract };
      const before = await deps.catalogue.find(chain.chainId, contract);
      if (before === undefined || OVER.includes(before.status)) {
        const collection = await deps.projections.newest(chain.chainId, contract);
        await deps.demand.request(of, collection, requester);
      }
      items.push({ chain: chain.name, address: contract, before: before?.status ?? null });
    }
    return { body: { items } };
  },
});

/** The flags of a collection that is shown with a name that matches a rule of spam. */
function flagsWith(flags: DescribedCollection["flags"], nameRule = ""): DescribedCollection["flags"] {
  if (nameRule === "" || flags.verifiedCollection) return flags;
  return { ...flags, possibleSpam: true, rule: [flags.rule, nameRule].filter(Boolean).join(",") };
}

const getCollection = json({
  method: "GET",
  path: ONE_COLLECTION,
  scope: "read",
  id: "getCollection",
  summary: "A collection's progress, its flags with the rules behind them, and how far its metadata is",
  tag: "NFT",
  parts: COLLECTION_PARTS,
  answer: CollectionDetails,
  errors: [400, 404],
  handle: async ({ path, requester }, deps) => {
    const { chain, address: contract } = path;
    const runtime = enabledChain(chain, deps);
    const described = await deps.catalogue.describe(chain.chainId, contract);
    if (described === undefined) throw neverRequested(chain, contract);
    const { entry, flags } = described;
    // The metadata of a collection that is not in memory is read whole.
    const [health, document] = await deps.explorer.memory.run(requester, () =>
      Promise.all([runtime.healthOf(contract), runtime.documentOf(contract, true)]),
    );
    const { name } = entry;
    const names = await namesFor(deps, runtime, { chainId: chain.chainId, address: contract, name });
    const { resolved, failed, ...why } = health;
    const left = entry.nfts === null ? null : Math.max(0, entry.nfts - resolved - failed);
    const { media, description, image, externalLink, uri: contractUri, failure: contractUriFailure } = document;
    return {
      body: {
        ...entry,
        name: name || (names?.name ?? name),
        flags: flagsWith(flags, names?.rule),
        metadata: { resolved, failed, left, ...why },
        ...{ description, image, media: JSON.parse(media) as Static<typeof Media>, externalLink },
        ...{ contractUri, contractUriFailure },
      },
    };
  },
});

/** Has a collection indexed anew, or removed. */
const beginAnew = (
  facts: { readonly method: "POST" | "DELETE"; readonly path: string; readonly id: string; readonly summary: string },
  type: "ReindexRequested" | "CollectionRemoved",
) =>
  json({
    ...facts,
    scope: "operate",
    tag: "Operators",
    parts: COLLECTION_PARTS,
    answer: IndexAnswerItem,
    errors: [400, 404],
    handle: async ({ path }, deps) => {
      const { chain, address: contract, before } = await requestedCollection(path, deps);
      await deps.beginAnew(chain.chainId, contract, type);
      return { body: { chain: chain.name, address: contract, before } };
    },
  });

const refreshMetadata = json({
  method: "POST",
  path: `${ONE_COLLECTION}/refresh`,
  scope: "operate",
  id: "refreshMetadata",
  summary: "Fetches the metadata of all tokens, or of some, again",
  tag: "Operators",
  parts: COLLECTION_PARTS,
  body: RefreshRequest,
  answer: IndexAnswerItem,
  errors: [400, 404, 409],
  handle: async ({ path, body }, deps) => {
    const { chain, address: contract, before } = await requestedCollection(path, deps);
    const ids = body.tokenIds?.map((given, index) => tokenId(given, `tokenIds.${index}`));
    if (await deps.refreshMetadata(chain.chainId, contract, ids)) {
      return { body: { chain: chain.name, address: contract, before } };
    }
    const message = "no metadata of this collection was fetched yet; it is fetched as soon as it can be";
    throw new Refusal("conflict", message);
  },
});

const estimateCollection = json({
  method: "GET",
  path: `${ONE_COLLECTION}/estimate`,
  scope: "operate",
  id: "estimateCollection",
  summary: "What indexing a contract would cost, without metadata: blocks, calls, units, seconds",
  tag: "Operators",
  parts: COLLECTION_PARTS,
  answer: CollectionEstimate,
  errors: [400, 404],
  handle: async ({ path }, deps) => {
    const { chain, address: contract } = path;
    const estimating = deps.estimate(chain.chainId, contract);
    if (estimating === undefined) throw notEnabled(chain, deps);
    const { time: ms, ...costs } = await estimating;
    const status = (await deps.catalogue.find(chain.chainId, contract))?.status ?? null;
    return { body: { chain: chain.name, address: contract, status, ...costs, time: new Date(ms).toISOString() } };
  },
});

export const COLLECTION_OPERATIONS: readonly Operation<CollectionsDeps>[] = [
  listCollections,
  requestCollections,
  beginAnew(
    {
      method: "POST",
      path: `${ONE_COLLECTION}/reindex`,
      id: "reindexCollection",
      summary: "Indexes a collection anew. Its versions go on counting; cursors from before are 410",
    },
    "ReindexRequested",
  ),
  refreshMetadata,
  beginAnew(
    {
      method: "DELETE",
      path: ONE_COLLECTION,
      id: "removeCollection",
      summary: "Stops following a collection and frees its memory. A later request indexes it again",
    },
    "CollectionRemoved",
  ),
  getCollection,
  estimateCollection,
];
