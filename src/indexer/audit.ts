/**
 * The self-audit: slowly, for ever, holdings that are served are asked of the contracts themselves at the same block.
 * What differs is drift, which is published and should be 0; contracts that lie about their owners in events cause some
 * of their own, so it says where. It also looks for tokens that a contract gives an owner to and no log tells of.
 */
import { Interface } from "ethers";
import { LRUCache } from "lru-cache";
import type { Clock } from "../core/clock.ts";
import { AppError } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import { TransferKind } from "../events/columns.ts";
import type { BlockRef } from "../events/types.ts";
import type { Call, CallResult, ChainReader } from "../rpc/port.ts";
import { findUnexplained, type KnownTokens, ownerCall } from "./unexplained.ts";

/** One round a minute of at most 50 calls in six requests: nothing to an endpoint. */
const ROUND_MS = 60_000;
/** The audit remembers so many collections that it has warned of. */
const MAX_WARNED = 10_000;

const ABI = new Interface(["function balanceOf(address, uint256) view returns (uint256)"]);

/** A holding as it is served. */
export interface AuditedHolding {
  readonly kind: TransferKind;
  readonly id: bigint;
  readonly owner: Address;
  readonly amount: bigint;
}

/** Holdings of one collection, all true at one block. */
export interface AuditSample {
  readonly address: Address;
  readonly block: BlockRef;
  readonly holdings: readonly AuditedHolding[];
  /** Tokens with one owner that the log tells of; undefined where the log tells of ERC-1155 tokens only. */
  readonly known: KnownTokens | undefined;
  /** Says if the collection is still as it was drawn, so that a comparison is not with another block. */
  readonly isAsDrawn: () => boolean;
}

export interface AuditOutcome {
  readonly checked: number;
  readonly drifted: number;
  /** Tokens found whose holder no log explains. */
  readonly unexplained: number;
}

export interface AuditOptions {
  readonly chain: string;
  readonly reader: ChainReader;
  readonly clock: Clock;
  readonly logger: Logger;
  /** What is served now of some collection in memory; undefined when there is none. */
  readonly sample: () => AuditSample | undefined;
  readonly onChecked: (outcome: AuditOutcome) => void;
  /** Between rounds, in ms. */
  readonly roundMs?: number;
}

/** Audits until stopped. */
export async function runAudit(options: AuditOptions, signal: AbortSignal): Promise<void> {
  const { clock, logger, chain, roundMs = ROUND_MS } = options;
  const warned = new LRUCache<Address, true>({ max: MAX_WARNED });
  while (!signal.aborted) {
    await clock.sleep(roundMs, signal).catch(() => undefined);
    if (signal.aborted) return;
    try {
      await auditOnce(options, warned);
    } catch (error) {
      // Not every node has the state, and not at every moment: then there is nothing to say this time.
      if (!(error instanceof AppError)) throw error;
      logger.debug({ err: error, chain }, "a round of the self-audit was left out");
    }
  }
}

/** One round. */
async function auditOnce(options: AuditOptions, warned: LRUCache<Address, true>): Promise<void> {
  const { reader, chain, clock, logger, onChecked } = options;
  const drawn = options.sample();
  if (drawn === undefined) return;
  const { address, block, holdings, known } = drawn;
  const held = await reader.calls(
    holdings.map((holding) => callOf(address, holding)),
    block.number,
  );
  const random = () => clock.random();
  const asked = { reader, address, block: block.number, random };
  const found = known === undefined ? undefined : await findUnexplained(asked, known);
  // The answers are of that very block only if it was not replaced meanwhile.
  const header = await reader.header(block.number);
  if (header?.hash !== block.hash) return;
  const { checked, drifted } = compare(options, drawn, held);
  const unexplained = found !== undefined && drawn.isAsDrawn() ? found.tokens : [];
  onChecked({ checked, drifted, unexplained: unexplained.length });
  const [first] = unexplained;
  if (first === undefined || warned.has(address)) return;
  warned.set(address, true);
  const said = { tokenId: first.id.toString(), owner: first.owner, totalSupply: found?.totalSupply?.toString() };
  logger.warn(
    { chain, address, block: block.number, ...said, listed: known?.listed },
    "a contract has holders that its logs do not explain: its listing lacks tokens",
  );
}

/** Counts holdings that the contract answered about, and those it answered otherwise. */
function compare(
  { logger, chain }: AuditOptions,
  { address, block, holdings }: AuditSample,
  results: readonly CallResult[],
): { checked: number; drifted: number } {
  let [checked, drifted] = [0, 0];
  for (const [index, holding] of holdings.entries()) {
    const held = heldBy(holding, results[index]);
    if (held === undefined) continue;
    checked++;
    if (held === holding.amount) continue;
    drifted++;
    const { id, owner, amount } = holding;
    const served = { tokenId: id.toString(), owner, amount: amount.toString(), onChain: held.toString() };
    logger.error({ chain, address, block: block.number, ...served }, "the self-audit found drift");
  }
  return { checked, drifted };
}

function callOf(to: Address, { kind, id, owner }: AuditedHolding): Call {
  if (kind === TransferKind.erc1155) return { to, data: ABI.encodeFunctionData("balanceOf", [owner, id]) };
  return ownerCall(to, kind, id);
}

/** What the chain says the owner holds of the token; undefined when the contract does not say. */
function heldBy({ kind, owner }: AuditedHolding, result: CallResult | undefined): bigint | undefined {
  if (result?.ok !== true || result.data.length !== 66) return undefined;
  if (kind === TransferKind.erc1155) return BigInt(result.data);
  return `0x${result.data.slice(26)}` === owner ? 1n : 0n;
}
