/** What handlers need of a chain; the block that an answer is valid for, its headers, and the wait for a chain. */

import type { Chain } from "../../chains/chains.ts";
import { type ChainTrouble, troubleText } from "../../chains/trouble.ts";
import { LIMITS } from "../../config.ts";
import { isoTime } from "../../core/block-time.ts";
import { type Clock, withTimeout } from "../../core/clock.ts";
import { BlobsUnavailable, Refusal } from "../../core/errors.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { TokenRef } from "../../events/columns.ts";
import type { BlockRef, HeaderRef } from "../../events/types.ts";
import type { TokenTraits } from "../../nft/listings/token-traits.ts";
import type { Outcome } from "../../nft/metadata/book.ts";
import type { ContractDocument } from "../../nft/metadata/contract-document.ts";
import type { MetadataHealth } from "../../nft/metadata/metadata.ts";
import type { KnownFacts, PageFactsOptions, ShownToken } from "../../nft/metadata/page.ts";
import type { Walk } from "../../nft/walks/cursor.ts";
import type { ShownChain } from "../../nft/walks/snapshot.ts";
import type { TokenProofs } from "../../proof/token-proofs.ts";
import { asRefusal } from "./answers.ts";
import type { KnownChains } from "./parameters.ts";
import { notEnabled } from "./parameters.ts";

/** Facts of a log that memory doesn't keep. */
export interface LogFacts {
  /** Time of its block, in seconds since the epoch; undefined if the node does not tell it soon enough. */
  readonly time: number | undefined;
  readonly transaction: Hash | undefined;
  /** Undefined if the node doesn't tell it, or two transactions have a log of this index. */
  readonly origin:
    | {
        readonly blockHash: Hash;
        readonly transaction: Hash;
        readonly transactionIndex: number;
        /** True if the log moves several tokens. */
        readonly isBatch: boolean;
        /** The address that an ERC-1155 log names as the operator. */
        readonly operator: Address | undefined;
      }
    | undefined;
  /** True if the logs of its block were read, so that what is not known won't be known later. */
  readonly isRead: boolean;
}

/** The parts of an enabled chain that the listing needs. */
export interface NftChain {
  readonly view: ShownChain;
  /**
   * Returns the header of a block that is not in memory; undefined when the node does not answer soon enough.
   * @param above a known block that it must be linked to
   */
  headerOf(block: number, above?: BlockRef): Promise<HeaderRef | undefined>;
  /** Times of blocks and transactions of logs. */
  readonly blockFacts: {
    timeOf(block: number): number | undefined;
    /** Calls of the node that the facts of a contract's logs in a block take: none for those in memory. */
    callsFor(
      address: Address,
      block: number,
      wanted: { readonly times: boolean; readonly transactions: boolean },
    ): { readonly headers: number; readonly logs: number };
    /** Reads facts of logs from the node. `at` is a known block whose branch they are on; undefined for final ones. */
    read(
      address: Address,
      logs: readonly { readonly block: number; readonly logIndex: number }[],
      wanted: { readonly at: BlockRef | undefined; readonly times: boolean; readonly transactions: boolean },
    ): Promise<readonly LogFacts[]>;
  };
  /** Returns the known metadata of the entries, or of the first ones if all would be too much for a page. */
  factsOf(address: Address, entries: readonly ShownToken[], options: PageFactsOptions): Promise<KnownFacts>;
  /** Returns the traits of the first entries, of at least one. @throws BlobsUnavailable if the store of blobs fails */
  traitsOf(address: Address, entries: readonly ShownToken[]): Promise<TokenTraits>;
  /** Returns up to `limit` attempts to fetch a token's metadata, newest first. */
  outcomesOf(address: Address, token: TokenRef, limit: number): Promise<readonly Outcome[]>;
  /** Returns the known document about the collection. @param media also the state of its picture */
  documentOf(address: Address, media: boolean): Promise<ContractDocument>;
  readonly proofs: Pick<TokenProofs, "prove" | "proveTransfer" | "compared">;
  /** Whether an ERC-721 token is locked at a block; null if its contract doesn't tell, or no endpoint does. */
  lockedAt(address: Address, id: bigint, block: BlockRef): Promise<boolean | null>;
  /** Counts the tokens with metadata, and those without by the reason. */
  healthOf(address: Address): Promise<MetadataHealth>;
  /** Changes with any token's metadata; undefined while none is in memory. */
  metadataVersion(address: Address): number | undefined;
  trouble(): ChainTrouble | undefined;
}

/**
 * The metadata of entries for what must not lack any: a file.
 * @throws BlobsUnavailable if the store of blobs fails
 */
export async function wholeFactsOf(
  { factsOf }: Pick<NftChain, "factsOf">,
  address: Address,
  entries: readonly ShownToken[],
  options: PageFactsOptions,
): Promise<KnownFacts["facts"]> {
  const { facts, isWhole } = await factsOf(address, entries, options);
  if (!isWhole) throw new BlobsUnavailable("BLOB_URL: the store fails, and what is made would lack some metadata");
  return facts;
}

export interface ChainDeps extends KnownChains {
  /** The parts of a chain; undefined unless it is enabled. */
  nftChain(chain: Chain): NftChain | undefined;
}

/** @param name of the parameter, for the error. @throws Refusal `chain_not_enabled` */
export function enabledChain(chain: Chain, deps: ChainDeps, name?: string): NftChain {
  const found = deps.nftChain(chain);
  if (found === undefined) throw notEnabled(chain, deps, name);
  return found;
}

/** Seconds after which a client may ask a chain without a usable endpoint again. */
const TROUBLED_RETRY = 30;

/** @throws Refusal `chain_unavailable` if nothing can be learned of the chain for now */
export function assertReachable({ name }: Chain, trouble: ChainTrouble | undefined): void {
  if (trouble !== "wrong_chain" && trouble !== "unreachable") return;
  throw new Refusal("chain_unavailable", `${troubleText(name, trouble)}; the operator sees which in /api/status`, {
    details: { state: trouble },
    retryAfter: TROUBLED_RETRY,
  });
}

/** The block that a response is valid for. */
interface AnsweredBlock {
  readonly block: number;
  /** "" when unknown. */
  readonly hash: Hash | "";
  /** Unix seconds; undefined when the header is unknown. */
  readonly time?: number | undefined;
  readonly finalized: boolean;
}

/** Returns the headers of a response about a block: caching, the state of the chain, the block and its finality. */
export function responseHeaders(
  asOf: AnsweredBlock | undefined,
  { trouble, isStale }: { readonly trouble: ChainTrouble | undefined; readonly isStale: boolean },
): Record<string, string> {
  const headers: Record<string, string> = { "cache-control": "private, no-cache" };
  if (trouble !== undefined) headers["x-chain-status"] = trouble;
  if (asOf === undefined) return headers;
  headers["x-as-of-block"] = String(asOf.block);
  if (asOf.hash !== "") headers["x-as-of-hash"] = asOf.hash;
  const time = asOf.time === undefined ? undefined : isoTime(asOf.time);
  if (time !== undefined) headers["x-as-of-time"] = time;
  headers["x-finality"] = asOf.finalized ? "finalized" : isStale ? "stale" : "latest";
  return headers;
}

/** Returns the block of a page with hash and time. Asks the node only if the hash is unknown, not for a time alone. */
export async function asOfBlock(
  { walk, finalized }: { readonly walk: Walk; readonly finalized: boolean },
  { view, headerOf }: Pick<NftChain, "view" | "headerOf">,
): Promise<AnsweredBlock | undefined> {
  const { block, hash, above, time } = walk;
  if (block === undefined) return undefined;
  const header = hash === "" ? await headerOf(block, above) : view.header(block);
  const isSame = header !== undefined && (hash === "" || header.hash === hash);
  const sameTime = isSame ? header.timestamp : undefined;
  return { block, hash: hash || (header?.hash ?? ""), time: time ?? sameTime, finalized };
}

interface InTimeDeps {
  readonly clock: Clock;
  troubleOf(chain: Chain): ChainTrouble | undefined;
}

/**
 * Waits for an answer until the timeout. The computation continues after it, and a retry shares it.
 * @throws Refusal 503 after the timeout. A refusal because no endpoint answers has the chain's trouble in its details
 */
export async function inTime<T>(answering: Promise<T>, chain: Chain, { clock, troubleOf }: InTimeDeps): Promise<T> {
  const ms = troubleOf(chain) === "unreachable" ? LIMITS.unreachableAnswerMs : LIMITS.answerMs;
  try {
    const answered = await withTimeout(clock, ms, answering);
    if (answered !== undefined) return answered.value;
    const message = `${chain.name} did not answer within ${ms / 1_000} seconds; try again later`;
    throw new Refusal("chain_unavailable", message, { retryAfter: 5 });
  } catch (error) {
    const refusal = asRefusal(error);
    const state = troubleOf(chain);
    if (refusal.code !== "chain_unavailable" || state === undefined) throw error;
    const { message, details, retryAfter = TROUBLED_RETRY } = refusal;
    throw new Refusal("chain_unavailable", message, { details: { state, ...details }, retryAfter });
  }
}
