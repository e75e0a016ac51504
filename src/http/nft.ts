/** GET /api/v2/nft/:address: parameters to a page, from memory. Asking for an unknown contract requests its indexing. */
import type { Chain } from "../chains/chains.ts";
import { LIMITS } from "../config.ts";
import type { Clock } from "../core/clock.ts";
import { ApiError } from "../core/errors.ts";
import type { Address, Hash } from "../core/hex.ts";
import { type HeaderRef, nftStream } from "../events/types.ts";
import type { KnownFacts, PageFactsOptions } from "../metadata/page.ts";
import { isToBeIdentifiedAnew } from "../nfts/again.ts";
import { currentCollection, type ShownChain } from "../nfts/current.ts";
import { openCursor } from "../nfts/cursor.ts";
import type { Entry } from "../nfts/listing.ts";
import type { ContractNames } from "../nfts/name-list.ts";
import { finishPage, type Walk } from "../nfts/pages.ts";
import { currentPlan } from "../nfts/plan.ts";
import type { CollectionProjections } from "../nfts/projections.ts";
import { addressOf, chainOf, invalidCursor, nftQuery, parseQueryString } from "./query.ts";
import { type RouteAnswer, readyAnswer } from "./ready.ts";
import { jsonHeaders } from "./respond.ts";

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
export interface AsOf {
  readonly block: number;
  /** "" where it is not known. */
  readonly hash: Hash | "";
  /** Seconds since the epoch; undefined where the header is not known. */
  readonly time?: number | undefined;
  readonly finalized: boolean;
}

/** Headers of every answer of the two operations: caching, and what the answer is true of. */
export function answerHeaders(asOf: AsOf | undefined, isHalted: boolean): Record<string, string> {
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
export function notEnabled(chain: Chain): ApiError {
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
    if (isToBeIdentifiedAnew(collection, clock.now(), LIMITS.reidentifyMs)) {
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
