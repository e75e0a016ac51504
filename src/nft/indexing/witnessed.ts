/**
 * Compares the stored history of a collection with what a second archive tells of it, block by block. The same question goes
 * to both, and hashes are compared, so that neither history is kept in memory. An archive that left a mint out is found so
 * where no contract counts, and no node has old state.
 */

import type { Address, Hash } from "../../core/hex.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import { decodeTransfers, sliceColumns, type TransferColumns } from "../../events/columns.ts";
import { type BlockRange, nftStream, type TransferForm } from "../../events/types.ts";
import type { EventLog } from "../../log/event-log.ts";
import type { Archives } from "../../rpc/archive/archives.ts";
import { ArchiveError, type HistorySource } from "../../rpc/archive/port.ts";
import { ToldBlocks } from "../../rpc/archive/witness.ts";
import { linesByBlock, textOfLines, transfersBack } from "./omissions.ts";

/** Transfers whose lines are written and hashed in a slice: some milliseconds. */
const SLICE = 2_000;
/** Streams keep no hashes of blocks. Both sides are hashed without. */
const NO_HASH = "0x" as Hash;

interface WitnessOptions {
  readonly archives: Archives;
  readonly log: EventLog;
  readonly chainId: number;
  readonly address: Address;
  readonly forms: readonly TransferForm[];
  /** Labels of archives that told the history, or were wrong about it. */
  readonly others: readonly string[];
  readonly signal: AbortSignal;
}

export interface Witnessed {
  readonly witness: HistorySource;
  /** The first block of which it tells other transfers than are stored; undefined if there is none. */
  readonly differsAt: number | undefined;
  /** False if its newest block is below the range's last one. */
  readonly isWhole: boolean;
}

/** Asks another archive for the history of these blocks, as far as it has them. Undefined if there is none. */
export async function askWitness(options: WitnessOptions, range: BlockRange): Promise<Witnessed | undefined> {
  const { archives, log, chainId, address, forms, others, signal } = options;
  const found = await archives.find(range, others, signal);
  if (found === undefined) return undefined;
  const { source: witness, toBlock } = found;
  const asked = { address, forms, fromBlock: range.fromBlock, toBlock };
  const told = new ToldBlocks();
  try {
    for await (const { decoded } of archives.advancing(witness, witness.transfers(asked, signal), asked)) {
      if (decoded.count > 0) await add(told, decodeTransfers(decoded.transfers), asked);
    }
  } catch (error) {
    if (signal.aborted || !(error instanceof ArchiveError)) throw error;
    archives.rest(witness, error);
    return undefined;
  }
  const stored = new ToldBlocks();
  for await (const columns of transfersBack(log, nftStream(chainId, address), range.fromBlock)) {
    await add(stored, columns, asked);
  }
  return { witness, differsAt: stored.firstDifference(told), isWhole: toBlock === range.toBlock };
}

/** Adds the blocks of a range, in slices that end with a block. */
async function add(told: ToldBlocks, columns: TransferColumns, { fromBlock, toBlock }: BlockRange): Promise<void> {
  const { blocks, count } = columns;
  for (let from = 0; from < count; await yieldToEventLoop()) {
    let to = Math.min(count, from + SLICE);
    while (to < count && blocks[to] === blocks[to - 1]) to++;
    for (const [number, lines] of linesByBlock(sliceColumns(columns, from, to))) {
      if (number >= fromBlock && number <= toBlock) told.add({ number, hash: NO_HASH }, textOfLines(lines));
    }
    from = to;
  }
}
