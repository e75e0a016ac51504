/**
 * The follower's next step, and the new blocks above the followed head: their logs for all consumers, and as many headers
 * as are needed to know that they lie on one branch with it.
 */
import type { BlockRef, HeaderRef } from "../events/types.ts";
import type { BlockHeader, ChainLog, CompleteLogsOptions, LogFilter, LogsInDoubt, Verify } from "../rpc/port.ts";
import { ForkedAnswersError, firstUnlinked, isUnforked, numbersBetween } from "./branch.ts";
import type { AdvancedBlocks, ChainConsumer, ChainWork, FollowedChain } from "./consumer.ts";
import type { ShownTips } from "./head.ts";
import { UnsettledBlocks } from "./unsettled-blocks.ts";
import type { ChainState } from "./view.ts";

// Decides which headers the follower reads. Each header is a call that the provider bills, so the headers between two
// polls are read only for samples, and for a while after a mismatch.

/** Share of polls that read all headers, so that blooms still find endpoints that leave out logs. */
const SAMPLE = 0.03;
/** Polls that read all headers after a fork, or after logs were left out. */
const CAREFUL_POLLS = 6;
/** More new blocks are a gap, which `nextStep` handles. */
const MAX_BLOCKS = 512;
/** Polls from one request for the final block to the next. */
const FINAL_EVERY = 6;

interface PolledBlocks {
  readonly count: number;
  /** True if they end below the node's head. */
  readonly isBounded: boolean;
}

export class HeaderReads {
  readonly #verify: Verify;
  readonly #random: () => number;
  #carefulPolls = 0;
  #pollsUntilFinal = 0;

  /** @param random returns a number in [0, 1) */
  constructor(verify: Verify, random: () => number) {
    this.#verify = verify;
    this.#random = random;
  }

  /** The chain was loaded from the log: the first poll reads all headers and the final block. */
  begin(): void {
    this.#carefulPolls = Math.max(this.#carefulPolls, 1);
    this.#pollsUntilFinal = 0;
  }

  /** Answers did not agree with each other: the next polls read all headers. */
  mismatched(): void {
    this.#carefulPolls = CAREFUL_POLLS;
  }

  /** The node has shown its head, and its final block if `asksFinal`. */
  shown(): void {
    this.#pollsUntilFinal = this.asksFinal ? FINAL_EVERY - 1 : this.#pollsUntilFinal - 1;
  }

  /** A poll has moved the head, or found no news. */
  polled(): void {
    if (this.#carefulPolls > 0) this.#carefulPolls--;
  }

  /** True if the next poll asks for the final block. */
  get asksFinal(): boolean {
    return this.#pollsUntilFinal === 0;
  }

  /** The next poll asks for the final block: the head may not go on without it. */
  needsFinal(): void {
    this.#pollsUntilFinal = 0;
  }

  /** True if the headers between the followed head and the new one are left out. One new block leaves out none. */
  leavesOut({ count, isBounded }: PolledBlocks): boolean {
    if (this.#verify !== "sample" || count < 2 || count > MAX_BLOCKS || isBounded) return false;
    return this.#carefulPolls === 0 && this.#random() >= SAMPLE;
  }
}

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

// Decides the follower's next step from the recorded chain and the node's newest and final blocks. Pure: reading
// headers and writing events is the follower's work.

/** The newest blocks of a gap, always checked by their headers: an hour and a half of Ethereum. */
const ALWAYS_CHECKED = 512;
/**
 * Most blocks followed in one step after a long gap: their logs stay in memory until they are written. Also the most whose
 * headers are read in a step without logs. A node whose final block is far behind its head doesn't lengthen it.
 */
const MAX_STEP = 2_000;

/** The newest block that the node shows, and the newest final one that is known. */
interface Shown {
  readonly head: BlockRef;
  readonly finalized: BlockRef;
}

/** The block that one step may reach. */
export interface Goal {
  readonly number: number;
  /** True if the block lies below the node's head, so that another step follows. */
  readonly isBounded: boolean;
  /** The newest final block. It never moves back, even if the node's tag does. */
  readonly final: BlockRef;
}

type Step =
  | { readonly type: "begin" }
  | { readonly type: "wait" }
  /** The fork lies at or below block `from`. */
  | { readonly type: "rewind"; readonly from: number }
  /** Headers are read from block `readFrom` on. */
  | { readonly type: "advance"; readonly readFrom: number };

/** Returns how far the next step may go. @param hasLogs false if no contract is followed, so that a step reads no logs */
export function goalOf(
  { head, finalized: known }: FollowedChain,
  { head: nodeHead, finalized }: Shown,
  hasLogs = true,
): Goal {
  if (head === undefined || known === undefined) return { number: nodeHead.number, isBounded: false, final: finalized };
  const final = finalized.number > known.number ? finalized : known;
  const bound = hasLogs ? head.number + MAX_STEP : Number.POSITIVE_INFINITY;
  return { number: Math.min(nodeHead.number, bound), isBounded: nodeHead.number > bound, final };
}

/**
 * Returns the next step towards the goal. `target` is the node's block at the goal's number.
 * 1. Nothing is followed yet: begin.
 * 2. The target is at or below the followed head, and no other block is followed in its place: wait. The node has no
 *    news or is behind.
 * 3. The target is at or below the followed head, and another block is followed in its place: rewind.
 * 4. The target is above the followed head: advance. If the headers then read don't link to the head: rewind.
 */
export function nextStep(chain: FollowedChain, goal: Goal, target: BlockRef, verify: Verify): Step {
  const { head, headers } = chain;
  if (head === undefined || chain.finalized === undefined) return { type: "begin" };
  if (target.number > head.number) return { type: "advance", readFrom: firstRead(head.number + 1, goal, verify) };
  return isUnforked(target, (number) => headers.get(number))
    ? { type: "wait" }
    : { type: "rewind", from: target.number };
}

/** Returns the first block above the head whose header is read. Skips final blocks, unless all are checked. */
function firstRead(next: number, { number, isBounded, final }: Goal, verify: Verify): number {
  // Without contracts a step may be of any length. No log of it needs a header.
  const least = Math.max(next, number - MAX_STEP + 1);
  if (verify !== "sample") return least;
  if (isBounded && number <= final.number) return number;
  return Math.max(least, Math.min(final.number, number - ALWAYS_CHECKED + 1));
}

/**
 * The blocks whose headers are read when following begins, in rising order: the final one, the newest ones, and between
 * them one at each doubling of the distance from the head, to which a deep reorganisation can go back.
 */
export function firstRecorded({ head, finalized }: Shown): { readonly apart: number[]; readonly newest: number } {
  const newest = Math.max(finalized.number, head.number - ALWAYS_CHECKED + 1);
  const apart: number[] = [];
  for (let distance = 2 * ALWAYS_CHECKED; head.number - distance > finalized.number; distance *= 2) {
    apart.unshift(head.number - distance);
  }
  if (finalized.number < newest) apart.unshift(finalized.number);
  return { apart, newest };
}
