/**
 * The routes of the API's two operations and of previews: parameters in, a response out. A request for an unknown
 * contract requests its indexing. The listing reads no chain data itself.
 */
import type { Chain } from "../chains/chains.ts";
import { currentCollection, type HotCollections, type ShownChain } from "../collections/hot-collections.ts";
import type { ContractNames } from "../collections/operator-lists.ts";
import { LIMITS } from "../config.ts";
import { type Clock, withTimeout } from "../core/clock.ts";
import { ApiError } from "../core/errors.ts";
import type { Requester } from "../core/fair-slots.ts";
import type { Address, Hash } from "../core/hex.ts";
import { type BlockRef, type HeaderRef, nftStream } from "../events/types.ts";
import type { Demand } from "../indexing/demand.ts";
import type { Entry } from "../ledger/entries.ts";
import type { TokenName } from "../ledger/history.ts";
import { currentPlan, finishPage } from "../listings/pages.ts";
import { openCursor, type Walk } from "../listings/walk.ts";
import type { Outcome } from "../metadata/book.ts";
import type { MetadataHealth } from "../metadata/metadata.ts";
import type { KnownFacts, PageFactsOptions } from "../metadata/page.ts";
import { parsePriceQuery } from "../prices/price-record.ts";
import type { Prices } from "../prices/price-service.ts";
import { cachedResponse, jsonHeaders, matchesEtag, type RouteResponse } from "./answers.ts";
import { addressOf, chainOf, invalidCursor, nftQuery, notEnabled, parseQueryString } from "./requests.ts";

/** The parts of an enabled chain that the listing needs. */
export interface NftChain {
  readonly view: ShownChain;
  /**
   * Returns the header of a block that is not in memory; undefined when the node does not answer soon enough.
   * @param above a known block that it must be linked to
   */
  headerOf(block: number, above?: BlockRef): Promise<HeaderRef | undefined>;
  /** Returns the known metadata of the entries, or of the first ones if all would be too much for a page. */
  factsOf(address: Address, entries: readonly Entry[], options: PageFactsOptions): Promise<KnownFacts>;
  /** Returns up to `limit` attempts to fetch a token's metadata, newest first. */
  outcomesOf(address: Address, token: TokenName, limit: number): Promise<readonly Outcome[]>;
  /** Counts the tokens with metadata, and those without by the reason. */
  healthOf(address: Address): Promise<MetadataHealth>;
  /** Changes with any token's metadata; undefined while none is in memory. */
  metadataVersion(address: Address): number | undefined;
  /** True if a reorg deeper than finality stopped the follower. */
  isHalted(): boolean;
}

/** A page of an empty listing. */
const NO_FACTS: KnownFacts = { facts: [], isSettled: true };
/**
 * Longest use of a cached page. Each cache hit checks the versions that the page was made of. The bound exists because
 * building a page also triggers the refresh of stale tokens, which a cache hit does not.
 */
const KEPT_MS = 30_000;
const UNSETTLED_MS = 1_000;

export interface NftRouteDeps {
  readonly projections: HotCollections;
  readonly clock: Clock;
  readonly cursorSecret: string;
  readonly maxPageSize: number;
  readonly wireTypes: "seed" | "native";
  nftChain(chain: Chain): NftChain | undefined;
  /** Returns the names for a contract that returns none itself; the same object until they change. */
  namesOf(chainId: number, address: Address): ContractNames | undefined;
  /** What clients want of collections. */
  readonly demand: Pick<Demand, "request">;
  /** True while this process is behind the event log or cut off from it. */
  isStale(): boolean;
}

/** The block that a response is valid for. */
export interface AsOf {
  readonly block: number;
  /** "" when unknown. */
  readonly hash: Hash | "";
  /** Unix seconds; undefined when the header is unknown. */
  readonly time?: number | undefined;
  readonly finalized: boolean;
}

/** Returns the headers of the two operations' responses: caching, and the block that the response is valid for. */
export function responseHeaders(
  asOf: AsOf | undefined,
  { isHalted, isStale }: { readonly isHalted: boolean; readonly isStale: boolean },
): Record<string, string> {
  const headers: Record<string, string> = { "cache-control": "private, no-cache" };
  // Not part of the API's contract: the chain reorganised finalised blocks, and the data is from before that.
  if (isHalted) headers["x-chain-status"] = "halted";
  if (asOf === undefined) return headers;
  headers["x-as-of-block"] = String(asOf.block);
  if (asOf.hash !== "") headers["x-as-of-hash"] = asOf.hash;
  if (asOf.time !== undefined) headers["x-as-of-time"] = new Date(asOf.time * 1_000).toISOString();
  headers["x-finality"] = asOf.finalized ? "finalized" : isStale ? "stale" : "latest";
  return headers;
}

/** Returns the block of a page with hash and time. Asks the node only if the hash is unknown, not for a time alone. */
export async function asOfBlock(
  { walk, finalized }: { readonly walk: Walk; readonly finalized: boolean },
  { view, headerOf }: Pick<NftChain, "view" | "headerOf">,
): Promise<AsOf | undefined> {
  const { block, hash, above, time } = walk;
  if (block === undefined) return undefined;
  const header = hash === "" ? await headerOf(block, above) : view.header(block);
  const isSame = header !== undefined && (hash === "" || header.hash === hash);
  const sameTime = isSame ? header.timestamp : undefined;
  return { block, hash: hash || (header?.hash ?? ""), time: time ?? sameTime, finalized };
}

/** Opens a cursor. @throws ApiError 400 unless this server made it for this collection */
function walkOf(cursor: string, secret: string, of: { readonly chainId: number; readonly address: Address }) {
  const walk = openCursor(cursor, secret);
  if (walk?.chainId !== of.chainId || walk.address !== of.address) throw invalidCursor();
  return walk;
}

/** Answers a request for an operation: its query string, the address in its path, and its key. */
type Operation = (search: string, address: string, requester: Requester) => Promise<RouteResponse>;

export function createNftRoute(deps: NftRouteDeps): Operation {
  const { projections, clock, cursorSecret } = deps;
  return async (search, addressText, requester) => {
    const query = parseQueryString(search);
    const address = addressOf(addressText);
    const chain = chainOf(query);
    const { chainId } = chain;
    const { from: asked, facts } = nftQuery(query, deps.maxPageSize);
    const from = "cursor" in asked ? { cursor: walkOf(asked.cursor, cursorSecret, { chainId, address }) } : asked;
    const runtime = deps.nftChain(chain);
    if (runtime === undefined) throw notEnabled(chain);

    const source = { projections, chain: runtime.view };
    const collection = await currentCollection(
      source,
      { chainId, address },
      "cursor" in from ? from.cursor : undefined,
    );
    const verdict = await deps.demand.request({ chainId, address }, collection, requester);
    if (collection.status === "not_a_contract" || verdict === "not_a_contract") {
      throw new ApiError(404, "not_a_contract", `address: there is no contract at ${address} on ${chain.name}`);
    }
    const plan = await currentPlan({ ...source, chainId, address }, collection, from);
    const metadataVersion = runtime.metadataVersion(address);
    const known = plan.entries.length === 0 ? NO_FACTS : await runtime.factsOf(address, plan.entries, facts);
    const asOf = await asOfBlock(plan, runtime);
    const state = { isHalted: runtime.isHalted(), isStale: deps.isStale() };
    const native = deps.wireTypes === "native";
    // No await from here to the copy of the page's bytes, which it shares with the next page.
    const names = deps.namesOf(chainId, address);
    const page = finishPage(plan, known.facts, { native, cursorSecret, names, time: asOf?.time });
    const answer = cachedResponse(page.body, 200, jsonHeaders(responseHeaders(asOf, state)));
    if (asOf === undefined || asOf.hash === "") return { answer };
    const stream = nftStream(chainId, address);
    const until = clock.monotonic() + (known.isSettled ? KEPT_MS : UNSETTLED_MS);
    const isCurrent = (): boolean =>
      projections.peek(stream)?.version === plan.snapshot.version &&
      runtime.view.version === plan.snapshot.chainVersion &&
      runtime.metadataVersion(address) === metadataVersion &&
      deps.namesOf(chainId, address) === names &&
      deps.isStale() === state.isStale &&
      clock.monotonic() < until;
    return { answer, isCurrent };
  };
}

export interface PriceRouteDeps {
  pricesOf(chain: Chain): Prices | undefined;
  isHalted(chain: Chain): boolean;
  isStale(): boolean;
  readonly clock: Clock;
}

export function createPriceRoute(deps: PriceRouteDeps): Operation {
  return async (search, addressText, requester) => {
    const query = parseQueryString(search);
    const address = addressOf(addressText);
    const chain = chainOf(query);
    const parameters = parsePriceQuery(query);
    const prices = deps.pricesOf(chain);
    if (prices === undefined) throw notEnabled(chain);
    const { body, asOf, finality } = await inTime(
      prices.answer({ address, ...parameters }, requester),
      chain,
      deps.clock,
    );
    const facts = { block: asOf.number, hash: asOf.hash, time: asOf.timestamp, finalized: finality === "finalized" };
    const [isHalted, isStale] = [deps.isHalted(chain), deps.isStale()];
    const answer = cachedResponse(body, 200, jsonHeaders(responseHeaders(facts, { isHalted, isStale })));
    const still = prices.stillCurrent({ address, ...parameters }, asOf);
    const isCurrent = still && (() => deps.isHalted(chain) === isHalted && deps.isStale() === isStale && still());
    return { answer, isCurrent };
  };
}

/**
 * Waits for an answer until the timeout. The computation continues after it, and a retry shares it.
 * @throws ApiError 503 after the timeout
 */
export async function inTime<T>(answering: Promise<T>, { name }: Chain, clock: Clock): Promise<T> {
  const answered = await withTimeout(clock, LIMITS.answerMs, answering);
  if (answered !== undefined) return answered.value;
  const message = `${name} did not answer within ${LIMITS.answerMs / 1_000} seconds; try again later`;
  throw new ApiError(503, "chain_unavailable", message, { headers: { "retry-after": "5" } });
}

export interface MediaRouteDeps {
  /** Returns a stored preview's bytes; undefined when the hash names no preview of that size. */
  preview(hash: Hash, size: number): Promise<Uint8Array | undefined>;
}

const HASH = /^[0-9a-f]{64}$/;
const SIZES: ReadonlySet<string> = new Set(["100", "250", "500"]);

/** Serves previews without a key. No other blob is served: the hash must name a preview in that size. */
export function createMediaRoute(
  deps: MediaRouteDeps,
): (request: Request, hash: string, size: string) => Promise<Response> {
  return async (request, hash, size) => {
    const known = HASH.test(hash) && SIZES.has(size);
    const bytes = known ? await deps.preview(`0x${hash}` as Hash, Number(size)) : undefined;
    if (bytes === undefined) throw new ApiError(404, "not_found", "there is no such preview");
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
  };
}
