/** GET /api/v2/nft/:address: parameters to a page, from memory. Asking for an unknown contract requests its indexing. */
import type { Chain } from "../chains/chains.ts";
import { currentCollection, type ShownChain } from "../collections/current.ts";
import { isReidentificationDue } from "../collections/headline.ts";
import type { CollectionProjections } from "../collections/hot-collections.ts";
import type { ContractNames } from "../collections/operator-lists.ts";
import { LIMITS } from "../config.ts";
import type { Clock } from "../core/clock.ts";
import { ApiError } from "../core/errors.ts";
import type { Address, Hash } from "../core/hex.ts";
import { withTimeout } from "../core/retry.ts";
import { type HeaderRef, nftStream } from "../events/types.ts";
import type { Entry } from "../ledger/listing.ts";
import { openCursor } from "../listings/cursor.ts";
import { finishPage, type Walk } from "../listings/pages.ts";
import { currentPlan } from "../listings/plan.ts";
import type { KnownFacts, PageFactsOptions } from "../metadata/page.ts";
import { parsePriceQuery } from "../prices/price-query.ts";
import type { Prices } from "../prices/price-service.ts";
import { isNamed, jsonHeaders, type RouteAnswer, readyAnswer } from "./answers.ts";
import { addressOf, chainOf, invalidCursor, nftQuery, parseQueryString } from "./query.ts";

/** An enabled chain, as the listing needs it. */
export interface NftChain {
  readonly view: ShownChain;
  /** The header of a block that is not in memory; undefined when the node does not answer soon enough. */
  headerOf(block: number): Promise<HeaderRef | undefined>;
  /** What is known of the entries' metadata: of the first of them, where all would be too much for a page. */
  factsOf(address: Address, entries: readonly Entry[], options: PageFactsOptions): Promise<KnownFacts>;
  /** Changes when what is known of any token's metadata does; undefined while nothing is in memory. */
  metadataVersion(address: Address): number | undefined;
  /** Whether a fork deeper than finality keeps the chain from being followed. */
  isHalted(): boolean;
}

/** A page of an empty listing. */
const NO_FACTS: KnownFacts = { facts: [], isSettled: true };
/**
 * How long a page is given again unread. What it says is held against the versions it was made of at each hit; only what
 * reading it sets off, looking at tokens whose time has come, is put off by so much.
 */
const KEPT_MS = 30_000;
const UNSETTLED_MS = 1_000;

export interface NftRouteDeps {
  readonly projections: CollectionProjections;
  readonly clock: Clock;
  readonly cursorSecret: string;
  readonly maxPageSize: number;
  readonly wireTypes: "seed" | "native";
  nftChain(chain: Chain): NftChain | undefined;
  /** What a contract that says nothing is called; the same object for as long as that holds. */
  namesOf(chainId: number, address: Address): ContractNames | undefined;
  requestIndexing(chainId: number, address: Address): Promise<void>;
  /** Has a contract that was found to be no NFT at `version` identified anew. */
  requestIdentification(chainId: number, address: Address, version: number): void;
}

/** The block that an answer is true of. */
interface AsOf {
  readonly block: number;
  /** "" where it is not known. */
  readonly hash: Hash | "";
  /** Seconds since the epoch; undefined where the header is not known. */
  readonly time?: number | undefined;
  readonly finalized: boolean;
}

/** Headers of every answer of the two operations: caching, and what the answer is true of. */
function answerHeaders(asOf: AsOf | undefined, isHalted: boolean): Record<string, string> {
  return {
    "cache-control": "private, no-cache",
    // Not in the contract: what is served is what was known when the chain went back on its finality.
    ...(isHalted ? { "x-chain-status": "halted" } : {}),
    ...(asOf === undefined
      ? {}
      : {
          "x-as-of-block": String(asOf.block),
          ...(asOf.hash === "" ? {} : { "x-as-of-hash": asOf.hash }),
          ...(asOf.time === undefined ? {} : { "x-as-of-time": new Date(asOf.time * 1_000).toISOString() }),
          "x-finality": asOf.finalized ? "finalized" : "latest",
        }),
  };
}

/** @throws ApiError 400 when the chain is known but not enabled */
function notEnabled(chain: Chain): ApiError {
  return new ApiError(400, "chain_not_enabled", `chain ${chain.name} is not enabled on this server`, {
    details: { parameter: "chain" },
  });
}

/** Hash and time of a walk's block. The node is asked only for a block without a hash; no page waits for a time alone. */
async function blockOf({ block, hash, time }: Walk, { view, headerOf }: NftChain): Promise<Omit<AsOf, "finalized">> {
  const header = hash === "" ? await headerOf(block) : view.header(block);
  const isSame = header !== undefined && (hash === "" || header.hash === hash);
  return {
    block,
    hash: hash === "" ? (header?.hash ?? "") : hash,
    time: time ?? (isSame ? header.timestamp : undefined),
  };
}

export function createNftRoute(deps: NftRouteDeps): (search: string, address: string) => Promise<RouteAnswer> {
  const { projections, clock, cursorSecret } = deps;
  return async (search, addressText) => {
    const query = parseQueryString(search);
    const address = addressOf(addressText);
    const chain = chainOf(query);
    const {
      cursor: cursorText,
      first,
      normalizeMetadata,
      mediaItems,
      metadataAsOf,
    } = nftQuery(query, deps.maxPageSize);
    const cursor = cursorText === undefined ? undefined : openCursor(cursorText, cursorSecret);
    if (cursorText !== undefined && cursor === undefined) throw invalidCursor();
    const { chainId } = chain;
    if (cursor !== undefined && (cursor.chainId !== chainId || cursor.address !== address)) throw invalidCursor();
    const runtime = deps.nftChain(chain);
    if (runtime === undefined) throw notEnabled(chain);

    const source = { projections, chain: runtime.view };
    const collection = await currentCollection(source, { chainId, address }, cursor);
    if (collection.version === 0) await deps.requestIndexing(chainId, address);
    if (isReidentificationDue(collection, clock.now(), LIMITS.reidentifyMs)) {
      deps.requestIdentification(chainId, address, collection.version);
    }
    if (collection.status === "not_a_contract") {
      throw new ApiError(404, "not_a_contract", `address: there is no contract at ${address} on ${chain.name}`);
    }
    const plan = await currentPlan(
      { ...source, chainId, address },
      collection,
      cursor === undefined ? { first } : { cursor },
    );
    const wanted = { normalizeMetadata, mediaItems, asOf: metadataAsOf };
    const metadataVersion = runtime.metadataVersion(address);
    const known = plan.entries.length === 0 ? NO_FACTS : await runtime.factsOf(address, plan.entries, wanted);
    const { walk, finalized } = plan;
    const asOf = walk === undefined ? undefined : { ...(await blockOf(walk, runtime)), finalized };
    const native = deps.wireTypes === "native";
    // Nothing is awaited between a page and the copy of its bytes.
    const names = deps.namesOf(chainId, address);
    const page = finishPage(plan, known.facts, { chainId, address, native, cursorSecret, names, time: asOf?.time });
    const answer = readyAnswer(page.body, 200, jsonHeaders(answerHeaders(asOf, runtime.isHalted())));
    if (asOf === undefined || asOf.hash === "") return { answer };
    const stream = nftStream(chainId, address);
    const until = clock.monotonic() + (known.isSettled ? KEPT_MS : UNSETTLED_MS);
    const isCurrent = (): boolean =>
      projections.peek(stream)?.version === plan.version &&
      runtime.view.version === plan.chainVersion &&
      runtime.metadataVersion(address) === metadataVersion &&
      deps.namesOf(chainId, address) === names &&
      clock.monotonic() < until;
    return { answer, isCurrent };
  };
}

// GET /api/v2/erc20/:address/price: parameters to the price service of the chain.

export interface PriceRouteDeps {
  pricesOf(chain: Chain): Prices | undefined;
  isHalted(chain: Chain): boolean;
  readonly clock: Clock;
}

export function createPriceRoute(deps: PriceRouteDeps): (search: string, address: string) => Promise<RouteAnswer> {
  return async (search, addressText) => {
    const query = parseQueryString(search);
    const address = addressOf(addressText);
    const chain = chainOf(query);
    const parameters = parsePriceQuery(query);
    const prices = deps.pricesOf(chain);
    if (prices === undefined) throw notEnabled(chain);
    const { body, asOf, finality } = await inTime(prices.answer({ address, ...parameters }), chain, deps.clock);
    const facts = { block: asOf.number, hash: asOf.hash, time: asOf.timestamp, finalized: finality === "finalized" };
    const isHalted = deps.isHalted(chain);
    const answer = readyAnswer(body, 200, jsonHeaders(answerHeaders(facts, isHalted)));
    const still = prices.stillCurrent({ address, ...parameters }, asOf);
    return { answer, isCurrent: still && (() => deps.isHalted(chain) === isHalted && still()) };
  };
}

/** What comes while the client can still be told. What does not is worked on: who asks again shares it. @throws ApiError 503 */
async function inTime<T>(answering: Promise<T>, { name }: Chain, clock: Clock): Promise<T> {
  const answered = await withTimeout(clock, LIMITS.answerMs, answering);
  if (answered !== undefined) return answered.value;
  const message = `${name} did not answer within ${LIMITS.answerMs / 1_000} seconds; try again later`;
  throw new ApiError(503, "chain_unavailable", message, { headers: { "retry-after": "5" } });
}

// GET /media/:hash/:size: previews by their own SHA-256, without a key. Nothing else of the blob table is served: the
// bytes must be a picture of ours of that size, whatever the hash names.

export interface MediaRouteDeps {
  /** A stored preview's bytes; undefined when the hash names none of that size. */
  preview(hash: Hash, size: number): Promise<Uint8Array | undefined>;
}

const HASH = /^[0-9a-f]{64}$/;
const SIZES: ReadonlySet<string> = new Set(["100", "250", "500"]);

export function createMediaRoute(
  deps: MediaRouteDeps,
): (request: Request, hash: string, size: string) => Promise<Response> {
  return async (request, hash, size) => {
    const known = HASH.test(hash) && SIZES.has(size);
    const bytes = known ? await deps.preview(`0x${hash}` as Hash, Number(size)) : undefined;
    if (bytes === undefined) throw new ApiError(404, "not_found", "there is no such preview");
    const headers = {
      "content-type": "image/webp",
      // It is named by its content.
      "cache-control": "public, max-age=31536000, immutable",
      etag: `"${hash}"`,
      "x-content-type-options": "nosniff",
      "content-security-policy": "default-src 'none'; sandbox",
      "cross-origin-resource-policy": "cross-origin",
    };
    const isKnown = isNamed(headers.etag, request.headers.get("if-none-match"));
    return isKnown ? new Response(null, { status: 304, headers }) : new Response(new Uint8Array(bytes), { headers });
  };
}
