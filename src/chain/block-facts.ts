/**
 * Facts of blocks that memory doesn't keep: headers of old blocks, and the transactions of logs. The node is asked for
 * them when an answer needs them. Facts of final blocks are kept for a while.
 */
import { Budget } from "../core/budget.ts";
import { type Clock, withTimeout } from "../core/clock.ts";
import { type Address, type Hash, toAddress } from "../core/hex.ts";
import { OwnedCache } from "../core/owned-cache.ts";
import type { BlockRef, HeaderRef } from "../events/types.ts";
import { TRANSFER_BATCH, TRANSFER_SINGLE } from "../rpc/decode/transfer-topics.ts";
import { NFT_TOPICS } from "../rpc/decode/transfers.ts";
import type { ChainLog, ChainReader } from "../rpc/port.ts";
import { firstUnlinked, numbersBetween } from "./branch.ts";
import type { PublishedChain } from "./view.ts";

/** Longest wait for the header of an old block. After it the answer goes out without the block's time. */
const HEADER_WAIT_MS = 500;
/** Longest wait for the facts of a page. After it the page goes out without those that are missing. */
const PAGE_WAIT_MS = 10_000;
/** Headers, or logs of blocks, requested at once: a batch that nearly every node takes. */
const AT_ONCE = 50;
/** Most logs of a contract in one block: no block of 100 million gas has more. */
const MAX_LOGS = 100_000;
/** Headers that are kept. */
const MAX_HEADERS = 10_000;
/** Memory for transactions, and about what a block and a log of it take. */
const MAX_BYTES = 8 << 20;
const BLOCK_BYTES = 200;
const LOG_BYTES = 400;

/** Where a log is. */
interface LogRef {
  readonly block: number;
  readonly logIndex: number;
}

/** What is asked of the node about logs, and of which branch. */
interface WantedFacts {
  readonly at: BlockRef | undefined;
  readonly times: boolean;
  readonly transactions: boolean;
}

/** What the node tells of a log beside its transfer. */
interface LogOrigin {
  readonly blockHash: Hash;
  readonly transaction: Hash;
  /** Index of the transaction in its block. */
  readonly transactionIndex: number;
  /** True if the log moves several tokens. */
  readonly isBatch: boolean;
  /** The address that an ERC-1155 log names as the operator. */
  readonly operator: Address | undefined;
}

interface FactsOfLog {
  /** Seconds since the epoch. */
  readonly time: number | undefined;
  readonly transaction: Hash | undefined;
  /** Undefined if the node doesn't tell it, or two transactions have a log of this index. */
  readonly origin: LogOrigin | undefined;
  /** True if the logs of its block were read, so that what is not known won't be known later. */
  readonly isRead: boolean;
}

/** By log index. Undefined if two transactions have a log of this index, as a bridge's may. */
type Transactions = ReadonlyMap<number, LogOrigin | undefined>;

interface BlockFactsOptions {
  readonly reader: Pick<ChainReader, "header" | "headers" | "presentHeaders" | "logs">;
  readonly view: Pick<PublishedChain, "header" | "finalized">;
  readonly clock: Clock;
}

export class BlockFacts {
  readonly #options: BlockFactsOptions;
  readonly #headers = new OwnedCache<number, HeaderRef>(MAX_HEADERS);
  readonly #transactions = new OwnedCache<string, Transactions>(
    MAX_BYTES,
    ({ size }) => BLOCK_BYTES + size * LOG_BYTES,
  );

  constructor(options: BlockFactsOptions) {
    this.#options = options;
  }

  /**
   * Returns the header of a block that is not in memory; undefined when the node does not answer soon enough.
   * @param above a known block that it must be linked to
   */
  async headerOf(block: number, above?: BlockRef): Promise<HeaderRef | undefined> {
    const known = this.#headers.get(block);
    if (known !== undefined) return known;
    const { reader, clock } = this.#options;
    const asked = above === undefined ? reader.header(block) : this.#headerBelow(block, above);
    const answer = await withTimeout(
      clock,
      HEADER_WAIT_MS,
      asked.catch(() => undefined),
    );
    return answer?.value && this.#keep(answer.value);
  }

  /** Returns a block's header if it is linked to the known block above it, which may still be reverted. */
  async #headerBelow(block: number, above: BlockRef): Promise<HeaderRef | undefined> {
    const headers = await this.#options.reader.presentHeaders(numbersBetween(block, above.number));
    return headers.at(-1)?.hash === above.hash && firstUnlinked(headers) === undefined ? headers[0] : undefined;
  }

  #keep({ number, hash, parentHash, timestamp }: HeaderRef): HeaderRef {
    const header = { number, hash, parentHash, timestamp };
    if (this.#isFinal(number)) this.#headers.set(number, header, Budget.payerName);
    return header;
  }

  #isFinal(block: number): boolean {
    return block <= (this.#options.view.finalized()?.number ?? -1);
  }

  /** The time of a block, in seconds since the epoch, if it is in memory. */
  timeOf(block: number): number | undefined {
    return (this.#options.view.header(block) ?? this.#headers.get(block))?.timestamp;
  }

  /**
   * Reads facts of a contract's logs: the times of their blocks, in seconds since the epoch, and their transactions, with
   * one request per block. Undefined where the node does not tell one soon enough.
   * @param at a known block, not below the logs, whose branch they are on. Undefined if they are final
   */
  async read(
    address: Address,
    logs: readonly LogRef[],
    { at, times, transactions }: WantedFacts,
  ): Promise<readonly FactsOfLog[]> {
    const headers = new Map<number, HeaderRef>();
    const found = new Map<number, Transactions>();
    const blocks = [...new Set(logs.map(({ block }) => block))];
    const reading = async () => {
      // A block that may be reverted needs its header for both.
      const asked = times ? blocks : blocks.filter((block) => !this.#isFinal(block));
      await this.#readHeaders(asked, at, headers);
      if (transactions) await this.#readTransactions(address, blocks, headers, found);
    };
    await withTimeout(this.#options.clock, PAGE_WAIT_MS, reading());
    return logs.map(({ block, logIndex }) => ({
      time: headers.get(block)?.timestamp,
      transaction: found.get(block)?.get(logIndex)?.transaction,
      origin: found.get(block)?.get(logIndex),
      isRead: found.has(block),
    }));
  }

  /** Calls of the node that the facts of a contract's logs in a block take: none for those in memory. */
  callsFor(
    address: Address,
    block: number,
    { times, transactions }: Omit<WantedFacts, "at">,
  ): { readonly headers: number; readonly logs: number } {
    const header = this.#options.view.header(block) ?? this.#headers.get(block);
    const isFinal = this.#isFinal(block);
    const headers = header === undefined && (times || (transactions && !isFinal)) ? 1 : 0;
    const key = keyOfLogs(address, block, isFinal ? undefined : header?.hash);
    return { headers, logs: transactions && this.#transactions.peek(key) === undefined ? 1 : 0 };
  }

  /** Adds the headers of the blocks to `found`, as they come. */
  async #readHeaders(
    blocks: readonly number[],
    at: BlockRef | undefined,
    found: Map<number, HeaderRef>,
  ): Promise<void> {
    const { reader, view } = this.#options;
    const missing: number[] = [];
    for (const block of new Set(blocks)) {
      const known = view.header(block) ?? this.#headers.get(block);
      if (known === undefined) missing.push(block);
      else found.set(block, known);
    }
    for (let from = 0; from < missing.length; from += AT_ONCE) {
      const some = missing.slice(from, from + AT_ONCE);
      // The endpoint must have the walk's block before and after it tells blocks that may be reverted.
      const ends = at === undefined || some.every((block) => this.#isFinal(block)) ? [] : [at.number];
      const headers = await reader.headers([...ends, ...some, ...ends]).catch(() => []);
      const isSame = ends.length > 0 && headers[0]?.hash === at?.hash && headers.at(-1)?.hash === at?.hash;
      for (const header of headers) {
        if (header !== undefined && (isSame || this.#isFinal(header.number))) {
          found.set(header.number, this.#keep(header));
        }
      }
    }
  }

  /** Adds the transactions of the blocks to `found`, as they come. @param headers those of blocks that may be reverted */
  async #readTransactions(
    address: Address,
    blocks: readonly number[],
    headers: ReadonlyMap<number, HeaderRef>,
    found: Map<number, Transactions>,
  ): Promise<void> {
    for (let from = 0; from < blocks.length; from += AT_ONCE) {
      const some = blocks.slice(from, from + AT_ONCE);
      await Promise.all(
        some.map(async (block) => {
          const isFinal = this.#isFinal(block);
          const hash = isFinal ? undefined : headers.get(block)?.hash;
          if (hash === undefined && !isFinal) return;
          const transactions = await this.#transactionsOf(address, block, hash).catch(() => undefined);
          if (transactions !== undefined) found.set(block, transactions);
        }),
      );
    }
  }

  /** @param hash of a block that may be reverted */
  async #transactionsOf(address: Address, block: number, hash: Hash | undefined): Promise<Transactions | undefined> {
    const key = keyOfLogs(address, block, hash);
    const known = this.#transactions.get(key);
    if (known !== undefined) return known;
    const range = { fromBlock: block, toBlock: block };
    const { reader } = this.#options;
    const logs = await reader.logs({ ...range, addresses: [address], topics: NFT_TOPICS, maxLogs: MAX_LOGS });
    if (hash !== undefined && logs.some(({ blockHash }) => blockHash !== hash)) return undefined;
    const transactions = new Map<number, LogOrigin | undefined>();
    for (const log of logs) {
      const { logIndex, transactionHash } = log;
      const isShared = (transactions.get(logIndex)?.transaction ?? transactionHash) !== transactionHash;
      transactions.set(logIndex, isShared ? undefined : originOf(log));
    }
    this.#transactions.set(key, transactions, Budget.payerName);
    return transactions;
  }
}

const keyOfLogs = (address: Address, block: number, hash: Hash | undefined): string => `${address}/${block}/${hash}`;

function originOf({ blockHash, transactionHash, transactionIndex, topics: [topic, operator] }: ChainLog): LogOrigin {
  const isOfAmounts = topic === TRANSFER_SINGLE || topic === TRANSFER_BATCH;
  return {
    ...{ blockHash, transaction: transactionHash, transactionIndex, isBatch: topic === TRANSFER_BATCH },
    operator: isOfAmounts && operator !== undefined ? toAddress(`0x${operator.slice(26)}`) : undefined,
  };
}
