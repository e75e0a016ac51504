/**
 * The self-audit: compares served holdings with the contracts themselves at the same block, slowly and for ever. A
 * difference is drift; it is published and should be 0. Contracts whose events contradict their own state also cause
 * drift, so the log line names the contract. One holding of a round is compared with a proof of the state, where the
 * endpoints give one. Also searches for tokens that have an owner but no log.
 */
import { Interface } from "ethers/abi";
import type { LRUCache } from "lru-cache";
import type { ChainWork } from "../../chain/consumer.ts";
import type { PublishedChain } from "../../chain/view.ts";
import { countedCache } from "../../core/counted-cache.ts";
import { AppError } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import { hasAmounts, TransferKind } from "../../events/columns.ts";
import { type BlockRef, parseStream, type StreamName } from "../../events/types.ts";
import type { Call, CallResult } from "../../rpc/port.ts";
import type { Collection } from "../collections/collection.ts";
import type { HotCollections } from "../collections/hot-collections.ts";
import type { Entry } from "../ledger/entries.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { countEntries, positionAfter, readSlice } from "../ledger/listing.ts";
import { isContract } from "./lives.ts";
import { findUnexplained, type KnownTokens, ownerCall } from "./omissions.ts";

/** A holding as the API serves it. */
export interface Holding {
  readonly kind: TransferKind;
  readonly id: bigint;
  readonly owner: Address;
  readonly amount: bigint;
}

/** Owners that a contract denies: as of a block, and in words. */
export interface AuditFinding {
  readonly block: number;
  readonly reason: string;
}

/** Transfers tried per draw, to find a receiver that still holds something. */
const MAX_TRIES = 8;

/**
 * At most `count` holdings after `block`, drawn independently.
 * @param random returns a number in [0, 1)
 */
export function sampleHoldings(
  { ledger }: Collection,
  block: number,
  { count, random }: { count: number; random: () => number },
): Holding[] {
  const tokens = countEntries(ledger, block, false);
  const holdings: Holding[] = [];
  for (let left = Math.min(count, tokens + ledger.balances.countAt(block)); left > 0; left--) {
    const from = positionAfter(ledger, block, false, Math.floor(random() * tokens));
    if (from === undefined) continue;
    const [entry] = readSlice(ledger, { block, holders: false, from, limit: 1 }).entries;
    const drawn = entry === undefined || entry.owner >= 0 ? entry : drawAmount(ledger, block, random);
    if (drawn === undefined) continue;
    const { kind, id, owner, amount } = drawn;
    holdings.push({ kind, id: BigInt(id), owner: ledger.addresses.hex(owner) as Address, amount: BigInt(amount) });
  }
  return holdings;
}

/**
 * The single-owner tokens that the log has, with the listing as of `block`. Undefined if all are tokens with amounts.
 * @param holdings a sample of the listing
 */
export function knownTokens(
  { ledger, identified }: Collection,
  block: number,
  holdings: readonly Holding[],
): KnownTokens | undefined {
  const { tokens, rows, owners } = ledger;
  if (rows.count > 0 && owners.count === 0 && rows.ranges.length === 0) return undefined;
  const kinds = Object.values(TransferKind);
  const family = (["cryptopunks", "mooncats"] as const).find((form) => identified?.forms.includes(form));
  return {
    kind: TransferKind[family ?? "erc721"],
    ids: holdings.flatMap(({ kind, id }) => (hasAmounts(kind) ? [] : [id])),
    listed: countEntries(ledger, block, false),
    logged: rows.count,
    isLogged: (id) => rows.rangeOf(id) >= 0 || kinds.some((kind) => tokens.findId(kind, id) >= 0),
  };
}

/** A random holding of any token with amounts. Holders of one token have no numbers, so draw a transfer instead. */
function drawAmount(
  { tokens, balances }: Ledger,
  block: number,
  random: () => number,
): Pick<Entry, "kind" | "id" | "owner" | "amount"> | undefined {
  const transfers = balances.countAt(block);
  for (let left = MAX_TRIES; left > 0; left--) {
    const holding = balances.receiverOf(Math.floor(random() * transfers));
    if (holding < 0) continue;
    const amount = balances.heldAfter(balances.entryAt(holding, block));
    if (amount === 0) continue;
    const slot = balances.holdingSlot(holding);
    return { kind: tokens.kind(slot), id: tokens.idAmount(slot), owner: balances.holdingOwner(holding), amount };
  }
  return undefined;
}

/** One round per minute, of at most 80 calls in twelve requests: no load for an endpoint. */
const ROUND_MS = 60_000;
/** A collection that does not change is drawn again after two rounds, then four, and so on, up to this many. */
const MAX_REST_ROUNDS = 16;
/** Most collections whose rest is remembered. */
const MAX_RESTING = 10_000;
/** Holdings checked in one round. */
const AUDITED_AT_ONCE = 20;
/** Most collections remembered after a warning. */
const MAX_WARNED = 10_000;

const ABI = new Interface(["function balanceOf(address, uint256) view returns (uint256)"]);

/** Rounds without a proof after the endpoints could make none. */
const UNPROVEN_ROUNDS = 60;

/** Holdings of one collection, all valid at one block. */
interface AuditSample {
  readonly address: Address;
  readonly block: BlockRef;
  readonly holdings: readonly Holding[];
  /** Tokens with one owner that the log knows. Undefined if the log has tokens with amounts only. */
  readonly known: KnownTokens | undefined;
  /** True if the collection has not changed since the sample, so that the comparison is with the same block. */
  readonly isAsDrawn: () => boolean;
}

interface AuditOutcome {
  readonly checked: number;
  readonly drifted: number;
  /** Tokens with a holder that no log explains. */
  readonly unexplained: number;
}

export interface AuditOptions extends Pick<ChainWork, "chain" | "reader" | "clock" | "logger"> {
  readonly view: Pick<PublishedChain, "head">;
  readonly projections: HotCollections;
  readonly onChecked: (outcome: AuditOutcome) => void;
  /** Called for a contract that names other owners than its logs. */
  readonly onFinding: (address: Address, finding: AuditFinding) => void;
  /** Called with a block, and whether the contract had code after it. */
  readonly onCode: (address: Address, block: number, hasCode: boolean) => void;
  /** Reads again what a contract says of itself. */
  readonly readAgain: (address: Address) => Promise<void>;
  /**
   * The amount that an owner holds, by a proof of the state of the block; undefined if the endpoints can't make one. A node
   * can answer a call as it likes, but not give a proof of it.
   */
  readonly proven: (address: Address, holding: Holding, block: BlockRef) => Promise<bigint | undefined>;
  /** Wait between rounds, in ms. */
  readonly roundMs: number | undefined;
}

/** Rests of collections that were audited and have not changed since: each audit costs calls. */
class Rests {
  /** The round before which no proof is asked for. */
  #provenFrom = 0;
  readonly #rests = countedCache<StreamName, { readonly version: number; readonly rounds: number; until: number }>(
    MAX_RESTING,
  );
  #round = 0;

  begin(): void {
    this.#round++;
  }

  get mayProve(): boolean {
    return this.#round >= this.#provenFrom;
  }

  /** No proof could be made. */
  unproven(): void {
    this.#provenFrom = this.#round + UNPROVEN_ROUNDS;
  }

  /** True for a collection that was audited. */
  has(stream: StreamName): boolean {
    return this.#rests.has(stream);
  }

  isOver(stream: StreamName, version: number): boolean {
    const rest = this.#rests.get(stream);
    return rest === undefined || rest.version !== version || this.#round >= rest.until;
  }

  audited(stream: StreamName, version: number): void {
    const rest = this.#rests.get(stream);
    const rounds = rest?.version === version ? Math.min(MAX_REST_ROUNDS, rest.rounds * 2) : 1;
    this.#rests.set(stream, { version, rounds, until: this.#round + rounds });
  }
}

/**
 * Draws holdings that a collection in memory serves. Takes collections that were not audited yet first, then those whose rest
 * is over. Undefined if there is none.
 */
function drawSample({ chain, view, projections, clock }: AuditOptions, rests: Rests): AuditSample | undefined {
  const random = () => clock.random();
  const due = projections.hotOf(chain.chainId).filter((stream) => {
    const known = projections.peek(stream);
    return known?.status === "synced" && rests.isOver(stream, known.version);
  });
  // A node that leaves out logs does so while it is asked for the history: what was just read is doubted first.
  const unaudited = due.filter((stream) => !rests.has(stream));
  const streams = unaudited.length > 0 ? unaudited : due;
  const stream = streams[Math.floor(random() * streams.length)];
  const collection = stream === undefined ? undefined : projections.peek(stream);
  const head = view.head();
  if (stream === undefined || collection === undefined || head === undefined) return undefined;
  const parsed = parseStream(stream);
  if (parsed.kind !== "nft") return undefined;
  const holdings = sampleHoldings(collection, head.number, { count: AUDITED_AT_ONCE, random });
  const { version } = collection;
  rests.audited(stream, version);
  return {
    address: parsed.address,
    block: { number: head.number, hash: head.hash },
    holdings,
    known: knownTokens(collection, head.number, holdings),
    isAsDrawn: () => collection.version === version && projections.peek(stream) === collection,
  };
}

/** Audits until the signal aborts. */
export async function runAudit(options: AuditOptions, signal: AbortSignal): Promise<void> {
  const { clock, logger, chain, roundMs = ROUND_MS } = options;
  const warned = countedCache<Address, true>(MAX_WARNED);
  const rests = new Rests();
  while (!signal.aborted) {
    await clock.sleep(roundMs, signal).catch(() => undefined);
    if (signal.aborted) return;
    try {
      rests.begin();
      await auditOnce(options, { warned, rests });
    } catch (error) {
      // Not every node has the state at every moment. Then this round has no result.
      if (!(error instanceof AppError)) throw error;
      logger.debug({ err: error, chain: chain.name }, "the self-audit skipped a round");
    }
  }
}

/** Runs one round. */
async function auditOnce(
  options: AuditOptions,
  { warned, rests }: { readonly warned: LRUCache<Address, true>; readonly rests: Rests },
): Promise<void> {
  const { reader, chain, clock, logger, onChecked, onCode, readAgain } = options;
  const drawn = drawSample(options, rests);
  if (drawn === undefined) return;
  const { address, block, holdings, known } = drawn;
  const held = await reader.calls(
    holdings.map((holding) => callOf(address, holding)),
    block.number,
  );
  const [sample] = holdings;
  const proven = rests.mayProve && sample !== undefined ? await options.proven(address, sample, block) : undefined;
  if (sample !== undefined && proven === undefined) rests.unproven();
  const code = await reader.code(address, block.number);
  const random = () => clock.random();
  const asked = { reader, address, block: block.number, random };
  const found = known === undefined ? undefined : await findUnexplained(asked, known);
  // If the block was replaced meanwhile, the answers may be of its successor.
  const header = await reader.header(block.number);
  if (header?.hash !== block.hash) return;
  // A contract that answers is there, whatever the endpoint says of its code.
  onCode(address, block.number, isContract(code) || held.some(({ ok, data }) => ok && data !== "0x"));
  const { checked, drifted, first: drift } = compare(options, drawn, held, proven);
  const unexplained = found !== undefined && drawn.isAsDrawn() ? found.tokens : [];
  onChecked({ checked, drifted, unexplained: unexplained.length });
  const [first] = unexplained;
  const finding = drift ?? (first && `token ${first.id} has an owner, ${first.owner}, and no log`);
  if (finding !== undefined && drawn.isAsDrawn()) options.onFinding(address, { block: block.number, reason: finding });
  if (first !== undefined && !warned.has(address)) {
    warned.set(address, true);
    const said = { tokenId: first.id.toString(), owner: first.owner, totalSupply: found?.totalSupply?.toString() };
    logger.warn(
      { chain: chain.name, address, block: block.number, ...said, listed: known?.listed },
      "a contract has holders that its logs do not explain: its listing lacks tokens",
    );
  }
  await readAgain(address);
}

/**
 * Counts the holdings that the contract answered about, and those that differ.
 * @param proven what is held of the first one by a proof, which counts in place of its answer
 */
function compare(
  { logger, chain }: AuditOptions,
  { address, block, holdings }: AuditSample,
  results: readonly CallResult[],
  proven: bigint | undefined,
): { checked: number; drifted: number; first: string | undefined } {
  let [checked, drifted] = [0, 0];
  let first: string | undefined;
  for (const [index, holding] of holdings.entries()) {
    const held = (index === 0 ? proven : undefined) ?? heldBy(holding, results[index]);
    if (held === undefined) continue;
    checked++;
    if (held === holding.amount) continue;
    drifted++;
    const { id, owner, amount } = holding;
    first ??= `token ${id}: the logs give ${amount} to ${owner}, and the contract ${held}`;
    const served = { tokenId: id.toString(), owner, amount: amount.toString(), onChain: held.toString() };
    logger.error({ chain: chain.name, address, block: block.number, ...served }, "the self-audit found drift");
  }
  return { checked, drifted, first };
}

export function callOf(to: Address, { kind, id, owner }: Holding): Call {
  if (hasAmounts(kind)) return { to, data: ABI.encodeFunctionData("balanceOf", [owner, id]) };
  return ownerCall(to, kind, id);
}

/** Returns the amount that the owner holds on chain. Undefined if the contract does not answer. */
function heldBy({ kind, owner }: Holding, result: CallResult | undefined): bigint | undefined {
  if (result?.ok !== true || result.data.length !== 66) return undefined;
  if (hasAmounts(kind)) return BigInt(result.data);
  return `0x${result.data.slice(26)}` === owner ? 1n : 0n;
}
