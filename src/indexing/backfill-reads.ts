/**
 * Reads for the backfill: a range of blocks in pieces, several in parallel and returned in order; and stricter reads
 * that check history against headers, receipts and a second endpoint. Never returns an answer in doubt.
 */
import { firstUnlinked, numbersBetween } from "../chain/branch.ts";
import type { Clock } from "../core/clock.ts";
import type { Address, Hash } from "../core/hex.ts";
import { decodeTransfers } from "../events/columns.ts";
import type { BlockRef, TransferForm } from "../events/types.ts";
import { decodeTransferLogs, NFT_TOPICS } from "../rpc/decode/transfers.ts";
import type { BlockHeader, ChainLog, DecodedRange, Endpoint, LogFilter, TransferFilter, Verify } from "../rpc/port.ts";
import type { RpcChainReader } from "../rpc/reading/reader.ts";
import { RpcError } from "../rpc/rpc-errors.ts";

/** Input of a backfill: the contract, the range of blocks, the reader, and how strictly answers are checked. */
export interface BackfillTask {
  readonly reader: RpcChainReader;
  readonly clock: Clock;
  readonly verify: Verify;
  readonly address: Address;
  readonly forms: readonly TransferForm[];
  readonly fromBlock: number;
  /** The last block to read. It is final, so that no block of the history can be reverted. */
  readonly final: BlockRef;
  /** The endpoint that has already shown that block. */
  readonly shownBy?: Endpoint | undefined;
  readonly signal: AbortSignal;
  readonly onMalformed: (count: number) => void;
}

/**
 * Reads logs of final blocks and checks each block against its header.
 * @param linkedTo a later block; headers are read up to it and must link to it
 * @throws RpcError if headers and logs contradict each other
 */
export async function readChecked(
  reader: RpcChainReader,
  filter: LogFilter,
  { strict, linkedTo }: { strict: boolean; linkedTo: BlockRef | undefined },
): Promise<{ logs: ChainLog[]; toHash: Hash }> {
  const { fromBlock, toBlock } = filter;
  const last = linkedTo?.number ?? toBlock;
  const all = await reader.presentHeaders(numbersBetween(fromBlock, last));
  const headers = all.slice(0, toBlock - fromBlock + 1);
  if (linkedTo !== undefined && all.at(-1)?.hash !== linkedTo.hash) {
    throw new RpcError("transient", "the endpoint is on another branch", { meta: { block: linkedTo.number } });
  }
  const unlinked = firstUnlinked(all);
  if (unlinked !== undefined) {
    throw new RpcError("transient", "the endpoint's headers are not linked", { meta: { block: unlinked.number } });
  }
  const logs = await reader.completeLogs(filter, headers, { strict });
  for (const { blockNumber, blockHash } of logs) {
    if (headers[blockNumber - fromBlock]?.hash !== blockHash) {
      throw new RpcError("transient", "the block hash of a log differs from the header's", {
        meta: { block: blockNumber },
      });
    }
  }
  return { logs, toHash: (headers.at(-1) as BlockHeader).hash };
}

/**
 * Compares a decoded answer with a second endpoint's answer for the same range. If they differ, the receipts of the
 * affected blocks decide, and the endpoint that they contradict is benched.
 * @throws RpcError `transient` if the receipts contradict both
 */
export async function compareWithSecond(
  task: BackfillTask,
  filter: TransferFilter,
  first: { decoded: DecodedRange; endpoint: Endpoint },
): Promise<DecodedRange> {
  const { reader, forms, signal } = task;
  const { fromBlock, toBlock } = filter;
  const second = await secondOpinion(task, filter, first.endpoint, signal);
  if (second === undefined || sameBytes(first.decoded.transfers, second.decoded.transfers)) return first.decoded;
  const blocks = blocksThatDiffer(first.decoded.transfers, second.decoded.transfers);
  const asked = { addresses: [filter.address], topics: NFT_TOPICS, fromBlock, toBlock };
  const logs = await reader.completeLogs(asked, await reader.presentHeaders(blocks), { strict: true });
  const { transfers } = decodeTransferLogs(logs, forms);
  const [right, wrong] = sameBytes(transfers, first.decoded.transfers) ? [first, second] : [second, first];
  const fault = `its logs of blocks ${fromBlock} to ${toBlock} differ from the receipts`;
  reader.benchLiar(wrong.endpoint, fault);
  if (!sameBytes(transfers, right.decoded.transfers)) {
    reader.benchLiar(right.endpoint, fault);
    throw new RpcError("transient", "two endpoints disagree, and the receipts contradict both", {
      meta: { fromBlock, toBlock },
    });
  }
  return right.decoded;
}

/** Returns a second endpoint's decoded answer. Undefined if there is no second endpoint, or it refuses. */
async function secondOpinion(
  task: BackfillTask,
  filter: TransferFilter,
  than: Endpoint,
  signal: AbortSignal,
): Promise<{ decoded: DecodedRange; endpoint: Endpoint } | undefined> {
  try {
    return await task.reader.secondTransfers(filter, than, signal);
  } catch (error) {
    // A missing sample must not stop the backfill: the second endpoint may refuse ranges that the first one takes.
    if (error instanceof RpcError) return undefined;
    throw error;
  }
}

function blocksThatDiffer(a: Uint8Array, b: Uint8Array): number[] {
  const [counts, others] = [countsByBlock(a), countsByBlock(b)];
  const blocks = new Set([...counts.keys(), ...others.keys()]);
  const differing = [...blocks].filter((block) => counts.get(block) !== others.get(block));
  // Equal counts in each block but different bytes: any block may be wrong.
  return (differing.length > 0 ? differing : [...blocks]).sort((x, y) => x - y);
}

function countsByBlock(transfers: Uint8Array): Map<number, number> {
  const { blocks, count } = decodeTransfers(transfers);
  const counts = new Map<number, number>();
  for (let i = 0; i < count; i++) counts.set(blocks[i]!, (counts.get(blocks[i]!) ?? 0) + 1);
  return counts;
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && Buffer.compare(a, b) === 0;
}

// Reads a range of blocks in pieces, several in parallel, and returns them in order. The size of a piece is set when it
// begins; blocks that it could not read become a new piece. The number of places limits the pieces that run or wait, so
// a slow consumer slows the reading (back-pressure), however long the history is.

interface Gap {
  fromBlock: number;
  readonly toBlock: number;
}

interface Piece<T> {
  readonly reading: Promise<void>;
  outcome: { readonly value: T } | { readonly error: unknown } | undefined;
}

interface ReadAheadOptions<T> {
  readonly fromBlock: number;
  readonly toBlock: number;
  /** Returns the number of blocks of the next piece. */
  readonly span: () => number;
  /** Reads the first blocks of a piece, up to the result's `toBlock`. */
  readonly read: (fromBlock: number, toBlock: number) => Promise<T>;
}

export class ReadAhead<T extends { readonly toBlock: number }> {
  readonly #options: ReadAheadOptions<T>;
  /** Pieces and unread gaps that the consumer has not taken yet, in order. */
  readonly #queue: (Piece<T> | Gap)[];
  #places: number;

  /** @param places initial number of places */
  constructor(options: ReadAheadOptions<T>, places: number) {
    const { fromBlock, toBlock } = options;
    this.#options = options;
    this.#places = places;
    this.#queue = fromBlock <= toBlock ? [{ fromBlock, toBlock }] : [];
  }

  /** Sets how many pieces may run or wait to be taken. */
  set places(count: number) {
    this.#places = count;
  }

  get isOver(): boolean {
    return this.#queue.length === 0;
  }

  /** Waits for the first piece and returns all finished pieces before the first unfinished one. @throws its error */
  async take(): Promise<T[]> {
    this.#fill();
    const [first] = this.#queue;
    if (first === undefined || !("reading" in first)) return [];
    await first.reading;
    const taken: T[] = [];
    for (let head = this.#queue[0]; head !== undefined && "reading" in head; head = this.#queue[0]) {
      const { outcome } = head;
      if (outcome === undefined) break;
      if ("error" in outcome) {
        // Return the pieces before the failed one first.
        if (taken.length > 0) break;
        throw outcome.error;
      }
      taken.push(outcome.value);
      this.#queue.shift();
    }
    return taken;
  }

  /**
   * Begins pieces in the first places. New pieces for unread blocks push finished ones beyond the places; those are
   * limited to the same number again.
   */
  #fill(): void {
    const queue = this.#queue;
    let begun = queue.filter((one) => "reading" in one).length;
    for (let at = 0; at < queue.length && at < this.#places; at++) {
      const gap = queue[at];
      if (gap === undefined || "reading" in gap) continue;
      // Always begin the first piece: all later ones wait for it.
      if (begun++ >= this.#places * 2 && at > 0) return;
      const { fromBlock, toBlock } = gap;
      const end = Math.min(toBlock, fromBlock + this.#options.span() - 1);
      gap.fromBlock = end + 1;
      queue.splice(at, end === toBlock ? 1 : 0, this.#begin(fromBlock, end));
    }
  }

  #begin(fromBlock: number, toBlock: number): Piece<T> {
    const read = async (): Promise<void> => {
      try {
        const value = await this.#options.read(fromBlock, toBlock);
        piece.outcome = { value };
        if (value.toBlock < toBlock) this.#giveBack(piece, { fromBlock: value.toBlock + 1, toBlock });
      } catch (error) {
        piece.outcome = { error };
      }
    };
    const piece: Piece<T> = { reading: Promise.resolve().then(read), outcome: undefined };
    return piece;
  }

  /** Puts the unread blocks of a piece behind it, as a gap for the next free place. */
  #giveBack(piece: Piece<T>, rest: Gap): void {
    const behind = this.#queue.indexOf(piece) + 1;
    const next = this.#queue[behind];
    if (next !== undefined && !("reading" in next)) next.fromBlock = rest.fromBlock;
    else this.#queue.splice(behind, 0, rest);
    this.#fill();
  }
}
