/**
 * The listing of a collection, and its preview pictures. A request for an unknown contract requests its indexing. The
 * listing reads no chain data itself.
 */
import { type Static, Type } from "@sinclair/typebox";
import { LIMITS } from "../../config.ts";
import type { Clock } from "../../core/clock.ts";
import { invalidParameter, Refusal } from "../../core/errors.ts";
import type { Address, Hash } from "../../core/hex.ts";
import {
  address,
  digits,
  eitherForm,
  int32,
  int64,
  named,
  nullable,
  nullableText,
  nullableTime,
  oneOf,
  text,
  type WireTypes,
} from "../../core/schema-parts.ts";
import type { Requester } from "../../core/work.ts";
import { nftStream } from "../../events/types.ts";
import type { HotCollections } from "../../nft/collections/hot-collections.ts";
import { type ContractNames } from "../../nft/collections/name-list.ts";
import { type Demand } from "../../nft/indexing/demand.ts";
import { ruleOfWords } from "../../nft/indexing/word-rules.ts";
import { finishPage } from "../../nft/listings/pages.ts";
import type { MediaStatus } from "../../nft/metadata/media/media.ts";
import type { KnownFacts } from "../../nft/metadata/page.ts";
import { type FirstPage, openCursor } from "../../nft/walks/cursor.ts";
import { currentPlan } from "../../nft/walks/sliced-plan.ts";
import { currentCollection } from "../../nft/walks/snapshot.ts";
import { glossaryOf, LISTING_WORDS, MEDIA_WORDS, wireValues } from "../../status-words.ts";
import {
  asOfBlock,
  assertReachable,
  type ChainDeps,
  enabledChain,
  type NftChain,
  responseHeaders,
} from "../wire/answered-block.ts";
import { cachedResponse, jsonHeaders, matchesEtag, type RouteResponse } from "../wire/answers.ts";
import { errorExample } from "../wire/errors.ts";
import { NFT_ADDRESS } from "../wire/examples.ts";
import { type Operation, operationsFor } from "../wire/operation.ts";
import {
  addressPart,
  anyText,
  chainOrDefault,
  choice,
  fixedByCursor,
  flag,
  metadataTime,
  type ParsedValues,
  textPart,
  wholeNumber,
} from "../wire/parameters.ts";
import { API_PREFIX } from "../wire/paths.ts";

// ── Schemas ──

/** The object, or "" unless a parameter requests it: the seed API leaves a field out in this way. */
const orEmpty = <T extends ReturnType<typeof named>>(schema: T, description: string) =>
  Type.Unsafe<"" | Static<T>>({ description, oneOf: [{ type: "string", enum: [""] }, schema] });

const Attribute = Type.Object({
  trait_type: nullableText("Name of the trait"),
  value: Type.Unknown({ description: "Any JSON value, in the type that the metadata gives it" }),
  display_type: nullableText("How to show the value, such as number or date"),
  max_value: Type.Unknown({ description: "Largest value of the trait; mostly null" }),
  trait_count: Type.Number({ format: "double", description: "From the metadata, else 0" }),
  order: Type.Unknown({ description: "Position among the traits; mostly null" }),
});

const NormalizedMetadata = Type.Object({
  name: nullableText("Name of the token"),
  description: nullableText("Description of the token"),
  image: nullableText("URI of the image"),
  external_link: nullableText("Link to the token's page"),
  external_url: nullableText("Link to the token's page"),
  animation_url: nullableText("URI of a video, sound or page"),
  attributes: Type.Array(named("Attribute", Attribute)),
});

const preview = named(
  "Preview",
  Type.Object({
    height: int32("Pixels"),
    width: int32("Pixels"),
    url: text("Absolute URL under the server's public URL", { format: "uri" }),
  }),
);

const MEDIA_STATUSES = wireValues(MEDIA_WORDS) satisfies readonly MediaStatus[];

export const Media = named(
  "Media",
  Type.Object({
    status: oneOf(MEDIA_STATUSES, glossaryOf(MEDIA_WORDS)),
    mimetype: nullableText("Media type of the original, detected from its content"),
    category: nullableText("image, video, audio and the like"),
    original_media_url: nullableText("URL from the metadata; null when it has none"),
    parent_hash: nullableText("SHA-256 of the original"),
    updatedAt: nullableTime("Time at which the image was examined"),
    media_collection: nullable(
      Type.Object(
        { low: preview, medium: preview, high: preview },
        { description: "Previews of 100, 250 and 500 pixels" },
      ),
    ),
  }),
);

/** A whole number: a string of digits, or a number with `native`. */
const count = (description: string) => eitherForm(digits(description), int64(description));
const flagText = (description: string) =>
  eitherForm(oneOf(["true", "false"], description), Type.Boolean({ description }));

export const NftRecord = named(
  "NftRecord",
  Type.Object({
    token_address: address("Address of the contract, lower case"),
    token_id: text("Decimal, or 0x… with format=hex", { pattern: "^([0-9]+|0x[0-9a-f]+)$" }),
    owner_of: text('Owner; "" for an ERC-1155 or ERC-6909 token with several holders'),
    token_hash: text("md5 of the lower-case contract address followed by the decimal token id", {
      pattern: "^[0-9a-f]{32}$",
    }),
    block_number: digits("Block of the last transfer"),
    block_number_minted: digits("Block of the first mint"),
    contract_type: text("ERC721, ERC1155, ERC6909, or the family of a contract older than them: CRYPTOPUNKS, MOONCATS"),
    token_uri: nullableText("Token URI as the contract returned it"),
    metadata: nullableText("The raw JSON as one string"),
    normalized_metadata: orEmpty(named("NormalizedMetadata", NormalizedMetadata), '"" unless normalizeMetadata=true'),
    media: orEmpty(Media, '"" unless media_items=true'),
    minter_address: text(
      "Receiver of the first mint; a fixed sentence for ERC-1155 and ERC-6909, where a token can have several",
    ),
    amount: digits("1, or the circulating amount of an ERC-1155 or ERC-6909 token"),
    name: text("Name of the collection"),
    symbol: text("Symbol of the collection"),
    possible_spam: flagText("true if the contract looks like spam"),
    verified_collection: flagText("true if the operator lists the contract as genuine"),
    last_token_uri_sync: nullableTime("Time of the last read of the URI"),
    last_metadata_sync: nullableTime("Time of the last read of the metadata"),
  }),
);

const TOTAL = "Count with disable_total=false, else null";
const NftPage = named(
  "NftPage",
  Type.Object({
    status: oneOf(wireValues(LISTING_WORDS), glossaryOf(LISTING_WORDS)),
    total: eitherForm(nullable(digits(TOTAL)), nullable(int64(TOTAL))),
    page: count("Number of the page along the cursor, from 0"),
    page_size: count("The page size in effect"),
    cursor: nullableText("Cursor of the next page; null on the last page"),
    result: Type.Array(NftRecord),
  }),
);

// ── Examples ──

const PICTURE = "ipfs://QmeSjSinHpPnmXmspMjwiXyN6zS4E9zccariGR3jxcaWtq/1234";
const PREVIEW = "c0ffee0000000000000000000000000000000000000000000000000000000001";
const CURSOR = "eyJ2IjoxfQ.3q2-7w";

const sized = (size: 100 | 250 | 500) => ({
  height: size,
  width: size,
  url: `http://127.0.0.1:3000/media/${PREVIEW}/${size}`,
});
export const MEDIA_EXAMPLE: Static<typeof Media> = {
  status: "success",
  mimetype: "image/png",
  category: "image",
  original_media_url: PICTURE,
  parent_hash: "0x00000000000000000000000000000000000000000000000000000000000000aa",
  updatedAt: "2026-01-31T12:00:00.000Z",
  media_collection: { low: sized(100), medium: sized(250), high: sized(500) },
};

const exampleOfForm = (isNative: boolean) => ({
  count: (value: number) => (isNative ? value : String(value)),
  flag: (value: boolean) => (isNative ? value : value ? ("true" as const) : ("false" as const)),
});

/** An example of a record with the given wire types. */
export function recordExample(wire: WireTypes): Static<typeof NftRecord> {
  const form = exampleOfForm(wire === "native");
  return {
    token_address: NFT_ADDRESS,
    token_id: "1234",
    owner_of: "0x8f7a5e2d3c4b1a09f8e7d6c5b4a3928170605040",
    token_hash: "ab96a59f7d41a8648adee2f63d1386ce",
    block_number: "20912345",
    block_number_minted: "12344138",
    contract_type: "ERC721",
    token_uri: "ipfs://QmeSjSinHpPnmXmspMjwiXyN6zS4E9zccariGR3jxcaWtq/1234",
    metadata: `{"image":"${PICTURE}","attributes":[{"trait_type":"Fur","value":"Brown"}]}`,
    normalized_metadata: {
      name: null,
      description: null,
      image: PICTURE,
      external_link: null,
      external_url: null,
      animation_url: null,
      attributes: [
        { trait_type: "Fur", value: "Brown", display_type: null, max_value: null, trait_count: 0, order: null },
      ],
    },
    media: MEDIA_EXAMPLE,
    minter_address: "0x46efbaedc92067e6d60e84ed6395099723252496",
    amount: "1",
    name: "BoredApeYachtClub",
    symbol: "BAYC",
    possible_spam: form.flag(false),
    verified_collection: form.flag(true),
    last_token_uri_sync: "2026-01-31T12:00:00.000Z",
    last_metadata_sync: "2026-01-31T12:00:00.000Z",
  };
}

function pageExample(wire: WireTypes): Static<typeof NftPage> {
  const { count: number } = exampleOfForm(wire === "native");
  return {
    status: "SYNCED",
    total: number(9_998),
    page: number(0),
    page_size: number(1),
    cursor: CURSOR,
    result: [recordExample(wire)],
  };
}

// ── Parameters ──

const DEFAULT_LIMIT = 100;

const listingQuery = (maxPageSize: number) => {
  const first = fixedByCursor({
    format: choice(
      ["decimal", "hex"],
      { allowed: "must be decimal or hex", default: "decimal" },
      { description: "Format of the token id", example: "decimal" },
    ),
    limit: wholeNumber(
      { min: 1, max: maxPageSize, default: Math.min(DEFAULT_LIMIT, maxPageSize) },
      { description: "Desired page size", example: Math.min(DEFAULT_LIMIT, maxPageSize) },
    ),
    totalRanges: wholeNumber(
      { min: 1, max: LIMITS.maxTotalRanges },
      { description: "Number of subranges to split into", example: 4 },
    ),
    range: wholeNumber(
      { min: 0, max: LIMITS.maxTotalRanges - 1 },
      { description: "Subrange to query, from 0; needs totalRanges", example: 0 },
    ),
    disable_total: flag(true, { description: "false counts the total", example: false, deprecated: true }),
    as_of_block: wholeNumber(
      { min: 0 },
      { description: "The listing as it was at the end of that block", example: 21_000_000 },
    ),
    holders: flag(false, { description: "One record per token id and owner", example: false }),
  });
  const { format, limit, totalRanges, range, disable_total, as_of_block, holders } = first;
  return {
    ...{ chain: chainOrDefault, format, limit, totalRanges, range, disable_total },
    cursor: anyText({ description: "Cursor of the previous page; empty is the same as absent", example: CURSOR }),
    normalizeMetadata: flag(false, { description: "Adds normalised metadata", example: true }),
    media_items: flag(false, { description: "Adds preview media", example: true }),
    as_of_block,
    metadata_as_of: metadataTime("2026-01-31T12:00:00Z"),
    holders,
  };
};

type ListingQuery = ParsedValues<ReturnType<typeof listingQuery>>;

/** The parameters of a first page. @throws Refusal 400 */
function firstPage(query: ListingQuery): FirstPage {
  const { totalRanges, range } = query;
  if (range !== undefined) {
    if (totalRanges === undefined) throw invalidParameter("range", "needs totalRanges, the number of ranges, as well");
    if (range >= totalRanges) {
      throw invalidParameter("range", `must be below totalRanges, so from 0 to ${totalRanges - 1}`);
    }
  }
  return {
    limit: query.limit,
    hex: query.format === "hex",
    holders: query.holders,
    withTotal: !query.disable_total,
    asOfBlock: query.as_of_block,
    part: totalRanges === undefined ? undefined : { range: range ?? 0, totalRanges },
  };
}

/** Opens a cursor. @throws Refusal 400 unless this server made it for this collection */
export function walkOf(cursor: string, secret: string, of: { readonly chainId: number; readonly address: Address }) {
  const walk = cursor.length > LIMITS.maxCursorLength ? undefined : openCursor(cursor, secret);
  if (walk?.chainId === of.chainId && walk.address === of.address) return walk;
  throw invalidParameter("cursor", "must be a cursor of this server, unchanged, for the same address and chain");
}

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

// ── Operations ──

export interface ListingDeps extends ChainDeps {
  readonly projections: HotCollections;
  readonly clock: Clock;
  readonly cursorSecret: string;
  readonly maxPageSize: number;
  readonly wireTypes: WireTypes;
  /** Returns the names for a contract that returns none itself; the same object until they change. */
  namesOf(chainId: number, address: Address): ContractNames | undefined;
  /** What clients want of collections. */
  readonly demand: Pick<Demand, "request">;
  /** True while this process is behind the event log or cut off from it. */
  isStale(): boolean;
  /** Returns a stored preview's bytes; undefined when the hash names no preview of that size. */
  preview(hash: Hash, size: number): Promise<Uint8Array | undefined>;
}

/** A page of an empty listing. */
const NO_FACTS: KnownFacts = { facts: [], isSettled: true };
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
    example: pageExample,
    hasBlock: true,
    errors: [400, 404, 409, 410],
    errorExamples: {
      404: errorExample("not_a_contract", `address: there is no contract at ${NFT_ADDRESS} on eth`),
    },
    handle: async ({ path, query, requester }, deps) => listed(path.address, query, requester, deps),
  });

async function listed(
  address: Address,
  query: ListingQuery,
  requester: Requester,
  deps: ListingDeps,
): Promise<RouteResponse> {
  const { projections, clock, cursorSecret } = deps;
  const { chain } = query;
  const { chainId } = chain;
  const from =
    // An empty cursor is the same as none. A cursor fixes the parameters of its first page.
    query.cursor ? { cursor: walkOf(query.cursor, cursorSecret, { chainId, address }) } : { first: firstPage(query) };
  const runtime = enabledChain(chain, deps);
  const source = { projections, chain: runtime.view, chainId, address };
  const collection = await currentCollection(source, "cursor" in from ? from.cursor : undefined);
  const verdict = await deps.demand.request({ chainId, address }, collection, requester);
  if (collection.status === "not_a_contract" || verdict === "not_a_contract") {
    throw new Refusal("not_a_contract", `address: there is no contract at ${address} on ${chain.name}`);
  }
  // Nothing is known, and nothing can be learned: an answer would say SYNCING without end.
  if (collection.status === "syncing" && collection.end === undefined) assertReachable(chain, runtime.trouble());
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
    hash: textPart({ description: "SHA-256 of the preview", example: PREVIEW }, { pattern: HASH.source }),
    size: textPart(
      { description: "Pixels of its longer side", example: 100 },
      { type: "integer", format: "int32", enum: [...SIZES] },
    ),
  },
  content: { "image/webp": { schema: { type: "string", format: "binary" } } },
  errors: [404],
  handle: async ({ path: { hash, size }, request }, deps) => {
    const known = HASH.test(hash) && SIZES.map(String).includes(size);
    const bytes = known ? await deps.preview(`0x${hash}` as Hash, Number(size)) : undefined;
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
