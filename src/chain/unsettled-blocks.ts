/**
 * Keeps the logs of followed blocks until a header has their bloom, on a chain whose headers settle older blocks
 * (`settledHeight`). Then finds the contracts of which these logs lack one, or hold a false one.
 */
import type { Address } from "../core/hex.ts";
import type { BlockRange } from "../events/types.ts";
import type { BlockHeader, ChainLog, Verify, Watched } from "../rpc/port.ts";
import { namedIn, settledThrough } from "../rpc/reading/bloomed-blocks.ts";
import type { RpcChainReader } from "../rpc/reading/reader.ts";
import { numbersBetween } from "./branch.ts";

/** Most blocks that are kept: minutes of any chain. Blocks below are never checked. */
const MAX_KEPT = 1_024;

/** A contract of which a log of these blocks was left out, or was false. */
export interface Suspicion {
  readonly contract: Address;
  readonly blocks: BlockRange;
}

export class UnsettledBlocks {
  readonly #reader: Pick<RpcChainReader, "settledLogs" | "presentHeaders">;
  readonly #verify: Verify;
  /** The logs of followed blocks, by number. */
  readonly #logs = new Map<number, ChainLog[]>();
  /** The newest header that was read. */
  #last: BlockHeader | undefined;

  constructor(reader: Pick<RpcChainReader, "settledLogs" | "presentHeaders">, verify: Verify) {
    this.#reader = reader;
    this.#verify = verify;
  }

  /** Keeps the logs of blocks that are about to be followed. @param headers the known ones among them, up to the last */
  keep(fromBlock: number, headers: readonly BlockHeader[], logs: readonly ChainLog[]): void {
    const head = headers.at(-1);
    if (head?.settledHeight === undefined) {
      this.#logs.clear();
      return;
    }
    for (const number of numbersBetween(Math.max(fromBlock, head.number - MAX_KEPT + 1), head.number)) {
      this.#logs.set(number, []);
    }
    for (const log of logs) this.#logs.get(log.blockNumber)?.push(log);
    for (const number of this.#logs.keys()) {
      if (number <= head.number - MAX_KEPT || number > head.number) this.#logs.delete(number);
    }
  }

  /**
   * Compares the blocks that new headers settle with their bloom, after `keep`. Groups of which no block was followed
   * here are left out, and groups that were read in one step: they were compared when they were read.
   * @param headers linked, in rising order
   * @param fromBlock the first block of the step
   * @throws AppError if the chain doesn't answer. Then the same blocks are compared at the next call
   */
  async settle(headers: readonly BlockHeader[], watched: Watched, fromBlock: number): Promise<Suspicion[]> {
    const before = this.#last?.hash === headers[0]?.parentHash ? this.#last : undefined;
    const found: Suspicion[] = [];
    for (const [at, settler] of headers.entries()) {
      const parent = headers[at - 1] ?? before;
      if (settler.settledHeight === undefined || parent === undefined) continue;
      const range = { fromBlock: settledThrough(parent) + 1, toBlock: settler.settledHeight };
      const isOfEarlierStep = range.fromBlock <= range.toBlock && range.fromBlock < fromBlock;
      if (isOfEarlierStep) found.push(...(await this.#compare(settler, range, watched)));
    }
    this.#last = headers.at(-1);
    const settled = this.#last === undefined ? -1 : settledThrough(this.#last);
    for (const number of this.#logs.keys()) if (number <= settled) this.#logs.delete(number);
    return found;
  }

  async #compare(settler: BlockHeader, blocks: BlockRange, watched: Watched): Promise<Suspicion[]> {
    const numbers = numbersBetween(blocks.fromBlock, blocks.toBlock);
    const kept = numbers.map((number) => this.#logs.get(number));
    if (kept.every((logs) => logs === undefined)) return [];
    const told = kept.flatMap((logs) => logs ?? []);
    const { logsBloom, receiptsRoot } = settler;
    const seen = new Set(told.map(({ address }) => address));
    const bloom = { blocks: [settler], logsBloom, receiptsRoot };
    const named = namedIn(bloom, watched);
    const isExplained = this.#verify === "sample" && named.every((address) => seen.has(address));
    if (named.length === 0 || isExplained) return [];
    if (kept.includes(undefined)) {
      // Following began amid these blocks. The consumer compares what it stored of them with their receipts.
      return named.filter((address) => !seen.has(address)).map((contract) => ({ contract, blocks }));
    }
    const group = { ...bloom, blocks: await this.#reader.presentHeaders(numbers) };
    const options = { strict: this.#verify === "receipts", isByBlock: this.#verify === "headers" };
    const right = await this.#reader.settledLogs(group, { ...watched, ...blocks }, told, options);
    const wrong = new Set([...without(right, told), ...without(told, right)].map(({ address }) => address));
    return [...wrong].map((contract) => ({ contract, blocks }));
  }
}

/** Receipts may number logs otherwise than logs, so that the index is no part of it. */
const placeOf = ({ blockNumber, transactionHash, address, topics, data }: ChainLog): string =>
  [blockNumber, transactionHash, address, data, ...topics].join(" ");

/** The logs of one list that the other one lacks. */
function without(logs: readonly ChainLog[], others: readonly ChainLog[]): ChainLog[] {
  const there = new Set(others.map(placeOf));
  return logs.filter((log) => !there.has(placeOf(log)));
}
