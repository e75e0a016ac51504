/**
 * Reads the new blocks above the followed head: their logs for all consumers, and as many headers as are needed to know
 * that they lie on one branch with it.
 */
import type { BlockRef, HeaderRef } from "../events/types.ts";
import type { BlockHeader, ChainLog, CompleteLogsOptions, LogFilter, LogsInDoubt } from "../rpc/port.ts";
import { ForkedAnswersError, firstUnlinked, numbersBetween } from "./branch.ts";
import type { AdvancedBlocks, ChainConsumer, ChainWork } from "./consumer.ts";
import type { ShownTips } from "./head.ts";
import type { HeaderReads } from "./header-reads.ts";
import type { Goal } from "./next-step.ts";
import { UnsettledBlocks } from "./unsettled-blocks.ts";
import type { ChainState } from "./view.ts";

/** Share of followed blocks whose logs are compared with receipts, if the endpoint has them. */
const RECEIPTS_SAMPLE = 0.05;

interface NewBlocksOptions extends Pick<ChainWork, "reader" | "clock" | "verify"> {
  readonly consumers: readonly ChainConsumer[];
  readonly reads: HeaderReads;
}

/** New blocks with their logs. */
export type ReadBlocks = Pick<AdvancedBlocks, "headers" | "logs" | "doubts">;

/** The blocks that a step may reach, the first one whose header it reads, and the node's block at the goal. */
interface ReadStep {
  readonly goal: Goal;
  readonly readFrom: number;
  readonly target: BlockHeader;
}

/** The blocks whose logs are read. */
interface LogsRead extends Required<Pick<CompleteLogsOptions, "onDoubt">> {
  readonly fromBlock: number;
  readonly to: BlockHeader;
}

export class NewBlocks {
  readonly #options: NewBlocksOptions;
  readonly #unsettled: UnsettledBlocks;

  constructor(options: NewBlocksOptions) {
    this.#options = options;
    this.#unsettled = new UnsettledBlocks(options.reader, options.verify);
  }

  /** True if any consumer has contracts to read logs of. */
  get hasContracts(): boolean {
    return this.#filter().addresses.length > 0;
  }

  /** Returns the blocks above the followed head. Undefined if the head is not on the node's branch. @throws RpcError */
  async read(
    state: ChainState,
    tips: ShownTips,
    { goal, readFrom, target }: ReadStep,
  ): Promise<ReadBlocks | undefined> {
    const fromBlock = (state.head as HeaderRef).number + 1;
    const read = (await this.#readStretch(state, tips, goal)) ?? (await this.#readAll(state, readFrom, target));
    if (read === undefined) return undefined;
    this.#unsettled.keep(fromBlock, read.headers, read.logs);
    await this.#settle(read.headers, fromBlock);
    return read;
  }

  /** Has the contracts examined of which a block that the headers settle was not complete. */
  async #settle(headers: readonly BlockHeader[], fromBlock: number): Promise<void> {
    const { consumers, reads } = this.#options;
    for (const { contract, blocks } of await this.#unsettled.settle(headers, this.#filter(), fromBlock)) {
      reads.mismatched();
      for (const consumer of consumers) consumer.suspected?.(contract, blocks);
    }
  }

  /** Returns the header of a block that the node has shown. @throws RpcError */
  async headerAt(number: number): Promise<BlockHeader> {
    const [header] = await this.#options.reader.presentHeaders([number]);
    return header as BlockHeader;
  }

  /** Returns the headers of some blocks below one, from an endpoint that has that one. @throws ForkedAnswersError */
  async headersBelow(numbers: readonly number[], block: BlockRef): Promise<BlockHeader[]> {
    if (numbers.length === 0) return [];
    const headers = await this.#options.reader.presentHeaders([...numbers, block.number]);
    if (headers.pop()?.hash !== block.hash) throw new ForkedAnswersError(block.number);
    return headers;
  }

  /** Returns the headers from `from` up to a known one. */
  async headersUpTo(from: number, to: BlockHeader): Promise<BlockHeader[]> {
    const before = from < to.number ? numbersBetween(from, to.number - 1) : [];
    return [...(await this.#options.reader.presentHeaders(before)), to];
  }

  /**
   * Returns the headers from `from` to the target, linked to each other and to the followed head. Undefined if they do
   * not link: a fork. After a long gap `from` is above head + 1; then the followed head itself is checked again.
   */
  async #linkedHeaders(state: ChainState, from: number, target: BlockHeader): Promise<BlockHeader[] | undefined> {
    const tip = state.head as HeaderRef;
    if (from > tip.number + 1) {
      const again = await this.headerAt(tip.number);
      if (again.hash !== tip.hash) return undefined;
    }
    const headers = await this.headersUpTo(from, target);
    const first = headers[0] as BlockHeader;
    if (first.number === tip.number + 1 && first.parentHash !== tip.hash) return undefined;
    if (firstUnlinked(headers) !== undefined) throw new ForkedAnswersError(target.number);
    return headers;
  }

  /**
   * Reads the logs of several new blocks without the headers between, except those from the first block with logs on.
   * Undefined if all headers are to be read, or if the followed head is not on the node's branch.
   */
  async #readStretch(state: ChainState, { head, shownBy }: ShownTips, goal: Goal): Promise<ReadBlocks | undefined> {
    const tip = state.head as HeaderRef;
    const { consumers, reader } = this.#options;
    const filter = this.#filter();
    const isLeft = this.#options.reads.leavesOut({ count: goal.number - tip.number, isBounded: goal.isBounded });
    if (!isLeft || filter.addresses.length === 0) return undefined;
    if (consumers.some((consumer) => consumer.holdsAbove?.(tip.number))) return undefined;
    const doubts: LogsInDoubt[] = [];
    const onDoubt = (doubt: LogsInDoubt) => doubts.push(doubt);
    const logs = await reader.logsOfStretch({ ...filter, stretch: { below: tip, head, shownBy }, onDoubt });
    if (logs === undefined) return undefined;
    const headers = await this.headersUpTo(logs[0]?.blockNumber ?? head.number, head);
    if (firstUnlinked(headers) !== undefined) throw new ForkedAnswersError(head.number);
    return { headers, logs, doubts };
  }

  /** Reads the headers from `from` to the target, and the logs of all new blocks. Undefined at a fork. */
  async #readAll(state: ChainState, from: number, target: BlockHeader): Promise<ReadBlocks | undefined> {
    const headers = await this.#linkedHeaders(state, from, target);
    if (headers === undefined) return undefined;
    const fromBlock = (state.head as HeaderRef).number + 1;
    const doubts: LogsInDoubt[] = [];
    const logs = await this.#logs(headers, { fromBlock, to: target, onDoubt: (doubt) => doubts.push(doubt) });
    if (headers[0]?.number === fromBlock) return { headers, logs, doubts };
    // Blooms don't cover all blocks, and a block without logs leaves no hash to check.
    const again = await this.headerAt(target.number);
    if (again.hash !== target.hash) throw new ForkedAnswersError(target.number);
    return { headers, logs, doubts };
  }

  #logs(headers: readonly BlockHeader[], { fromBlock, to, onDoubt }: LogsRead): Promise<ChainLog[]> {
    const { reader, verify } = this.#options;
    const filter = this.#filter();
    if (filter.addresses.length === 0) return Promise.resolve([]);
    const requiredBlock = headers[0]?.number === fromBlock ? undefined : to;
    const { clock } = this.#options;
    const sampled = new Set(headers.filter(() => clock.random() < RECEIPTS_SAMPLE).map(({ number }) => number));
    const onMissed = () => this.#options.reads.mismatched();
    const options: CompleteLogsOptions = { strict: verify === "receipts", requiredBlock, sampled, onMissed, onDoubt };
    return reader.completeLogs({ ...filter, fromBlock, toBlock: to.number }, headers, options);
  }

  /** The contracts and topics of all consumers. */
  #filter(): Pick<LogFilter, "addresses" | "topics"> {
    const { consumers } = this.#options;
    const addresses = [...new Set(consumers.flatMap((consumer) => consumer.addresses()))];
    return { addresses, topics: [...new Set(consumers.flatMap((consumer) => consumer.topics))] };
  }
}

/** Returns the logs of a consumer's own addresses and topics. */
export function logsFor(consumer: ChainConsumer, { logs }: AdvancedBlocks): ChainLog[] {
  const addresses = new Set(consumer.addresses());
  const topics = new Set<string>(consumer.topics);
  return logs.filter((log) => addresses.has(log.address) && topics.has(log.topics[0] ?? ""));
}
