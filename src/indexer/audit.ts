/**
 * The self-audit: slowly, for ever, holdings that are served are asked of the contracts themselves at the same block.
 * What differs is drift, which is published and should be 0; contracts that lie about their owners in events cause some
 * of their own, so it says where.
 */
import { Interface } from "ethers";
import type { Clock } from "../core/clock.ts";
import { AppError } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import { TransferKind } from "../events/columns.ts";
import type { BlockRef } from "../events/types.ts";
import type { Call, CallResult, ChainReader } from "../rpc/port.ts";

/** One round a minute of 20 calls in one request: 30 requests an hour and chain, nothing to an endpoint. */
const ROUND_MS = 60_000;

const ABI = new Interface([
  "function ownerOf(uint256) view returns (address)",
  "function balanceOf(address, uint256) view returns (uint256)",
  "function punkIndexToAddress(uint256) view returns (address)",
]);

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
}

export interface AuditOptions {
  readonly chain: string;
  readonly reader: ChainReader;
  readonly clock: Clock;
  readonly logger: Logger;
  /** What is served now of some collection in memory; undefined when there is none. */
  readonly sample: () => AuditSample | undefined;
  readonly onChecked: (outcome: { readonly checked: number; readonly drifted: number }) => void;
  /** Between rounds, in ms. */
  readonly roundMs?: number;
}

/** Audits until stopped. */
export async function runAudit(options: AuditOptions, signal: AbortSignal): Promise<void> {
  const { clock, logger, chain, roundMs = ROUND_MS } = options;
  while (!signal.aborted) {
    await clock.sleep(roundMs, signal).catch(() => undefined);
    if (signal.aborted) return;
    try {
      await auditOnce(options);
    } catch (error) {
      // Not every node has the state, and not at every moment: then there is nothing to say this time.
      if (!(error instanceof AppError)) throw error;
      logger.debug({ err: error, chain }, "a round of the self-audit was left out");
    }
  }
}

/** One round. */
export async function auditOnce({ reader, logger, chain, sample, onChecked }: AuditOptions): Promise<void> {
  const drawn = sample();
  if (drawn === undefined || drawn.holdings.length === 0) return;
  const { address, block, holdings } = drawn;
  const results = await reader.calls(
    holdings.map((holding) => callOf(address, holding)),
    block.number,
  );
  // The answers are of that very block only if it was not replaced meanwhile.
  const header = await reader.header(block.number);
  if (header?.hash !== block.hash) return;
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
  onChecked({ checked, drifted });
}

function callOf(to: Address, { kind, id, owner }: AuditedHolding): Call {
  if (kind === TransferKind.erc1155) return { to, data: ABI.encodeFunctionData("balanceOf", [owner, id]) };
  const method = kind === TransferKind.cryptopunks ? "punkIndexToAddress" : "ownerOf";
  return { to, data: ABI.encodeFunctionData(method, [id]) };
}

/** What the chain says the owner holds of the token; undefined when the contract does not say. */
function heldBy({ kind, owner }: AuditedHolding, result: CallResult | undefined): bigint | undefined {
  if (result?.ok !== true || result.data.length !== 66) return undefined;
  if (kind === TransferKind.erc1155) return BigInt(result.data);
  return `0x${result.data.slice(26)}` === owner ? 1n : 0n;
}
