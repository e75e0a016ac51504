/**
 * The chain reader over an endpoint pool: implements the port, and beside it reads transfers for the backfill. Logs,
 * calls and finality have files of their own; here are headers, code, and the comparison of endpoints.
 */
import { Budget } from "../../core/budget.ts";
import { AppError } from "../../core/errors.ts";
import { type Address, parseQuantity, quantity } from "../../core/hex.ts";
import { SingleFlight } from "../../core/work.ts";
import type { BlockRange, BlockRef } from "../../events/types.ts";
import { isHashed } from "../decode/hashes.ts";
import type { EndpointPool, EndpointStatus, HistoryLimits } from "../endpoint/endpoint-pool.ts";
import type {
  BlockHeader,
  BlockTag,
  BloomedBlocks,
  Call,
  CallResult,
  CallsAtHead,
  ChainLog,
  ChainReader,
  CodeStart,
  CompleteLogsOptions,
  DecodedRange,
  Endpoint,
  LogFilter,
  Newest,
  OverriddenCall,
  PartsAnswer,
  SimulatedBlock,
  StretchFilter,
  Tips,
  TransferFilter,
} from "../port.ts";
import { isHistoryPruned, isUnknownRefusal, rpcErrorOf } from "../rpc-errors.ts";
import { type CallOptions, CallReader } from "./call-reader.ts";
import { HeaderForm } from "./header-form.ts";
import {
  absentBlock,
  benchLaggards,
  Finality,
  type FinalityOptions,
  fromAnyNode,
  headerFrom,
  missingBlock,
  newestHeaderOf,
  RecordedBlock,
  someHeadersOf,
} from "./headers.ts";
import { LOOK_CALLS, LogHorizon } from "./log-horizon.ts";
import {
  askForSpan,
  firstUnprunedBlock,
  LogReader,
  type LogReaderObserver,
  type LogSearch,
  type SearchSize,
} from "./logs.ts";
import { bytesIn, requestParsed } from "./one-call.ts";
import { Simulations } from "./simulations.ts";

const HEADERS_AT_ONCE = 100;
const HISTORY_START_MS = 600_000;

interface ChainReaderOptions extends FinalityOptions, CallOptions {
  readonly pool: EndpointPool;
  readonly watch?: LogReaderObserver;
  /** Called with the first block whose header's fields don't make its hash, on a chain where older ones do. */
  readonly onFormChanged?: (block: number) => void;
}

/** What endpoints prune, each from a block of its own on. */
type PrunedPart = "blocks" | "receipts" | "logs";

export class RpcChainReader implements ChainReader {
  readonly chainId: number;
  /** Facts about the newest headers: if their fields make their hashes, and whose blooms they carry. */
  readonly headerForm: HeaderForm;
  readonly #pool: EndpointPool;
  readonly #logs: LogReader;
  readonly #finality: Finality;
  readonly #calls: CallReader;
  readonly #simulations: Simulations;
  readonly #recorded: RecordedBlock;
  readonly #horizon: LogHorizon;
  /** First blocks that the endpoints have not pruned, and until when that is believed, on the monotonic clock. */
  readonly #starts = new Map<PrunedPart, { readonly block: number; readonly until: number }>();
  /** Questions that meet a pruned block at the same time share one search. */
  readonly #searches = new SingleFlight<PrunedPart, number>();

  constructor(options: ChainReaderOptions) {
    this.chainId = options.chainId;
    this.#pool = options.pool;
    this.#finality = new Finality(options.pool, options);
    this.#calls = new CallReader(options.pool, options);
    this.#simulations = new Simulations(options.pool);
    this.#horizon = new LogHorizon(options.pool.clock);
    this.#logs = new LogReader(options.pool, this.#horizon, options.watch);
    const isHashedAt = (number: number) => this.#isHashedAt(number);
    this.headerForm = new HeaderForm({ isHashedAt, onChanged: options.onFormChanged });
    const { pool } = options;
    this.#recorded = new RecordedBlock({
      clock: pool.clock,
      read: (number) =>
        pool
          .run((endpoint) => headerFrom(endpoint, number), { isUngated: true })
          // A block that the nodes have pruned since can't be compared any more.
          .catch((error: unknown) => (isHistoryPruned(error) ? undefined : Promise.reject(error))),
      anyHolds: (block) => this.anyHolds(block),
    });
    pool.gate = () => this.#recorded.assertHeld();
  }

  /** The newest final block of the log. Nothing else is asked of nodes that have another one in its place. */
  expect(block: BlockRef | undefined): void {
    this.#recorded.expect(block);
  }

  /** Returns the nodes' block in the place of the one that is expected; undefined if they have it, or none yet. */
  foundInstead(): Promise<BlockRef | undefined> {
    return this.#recorded.foundInstead();
  }

  /** @param attempts requests in all. Default: those of any read */
  async head(attempts?: number): Promise<BlockHeader> {
    return this.#pool.run(newestHeaderOf, attempts === undefined ? {} : { attempts });
  }

  async newest(): Promise<Newest> {
    const newest = await this.#pool.run(async (shownBy) => ({ head: await newestHeaderOf(shownBy), shownBy }));
    this.headerForm.note(newest.head);
    return newest;
  }

  async tips(): Promise<Tips> {
    const tips = await this.#finality.tips();
    this.headerForm.note(tips.head);
    // A later look at the head tries again.
    await this.headersChangedAt().catch((error: unknown) => {
      if (!(error instanceof AppError)) throw error;
    });
    return tips;
  }

  /**
   * Returns the first block whose header doesn't make its hash, although older ones do. Undefined if there is none.
   * @throws AppError if no endpoint tells
   */
  async headersChangedAt(): Promise<number | undefined> {
    await this.headerForm.explain();
    return this.headerForm.changedAt;
  }

  async #isHashedAt(number: number): Promise<boolean> {
    const ask = (endpoint: Endpoint) => endpoint.request("eth_getBlockByNumber", [quantity(number), false]);
    return isHashed(await this.#pool.run(ask, { meta: { block: number } }));
  }

  finalized(head: BlockHeader): Promise<BlockHeader> {
    return this.#finality.finalized(head);
  }

  async header(number: number): Promise<BlockHeader | undefined> {
    const ask = (endpoint: Endpoint) => headerFrom(endpoint, number);
    const header = await this.#orPruned("blocks", this.#pool.run(ask, { meta: { block: number } }));
    if (header !== undefined || this.#pool.endpoints.length === 1) return header;
    // This endpoint may be behind. Another one may have the block.
    return (await this.#pool.askAll(ask)).find(({ value }) => value !== undefined)?.value;
  }

  /**
   * Waits for what was asked of old blocks.
   * @throws AppError `history_pruned`, with the first block that is there, if the endpoints have pruned them
   */
  async #orPruned<T>(what: "blocks" | "logs", reading: Promise<T>): Promise<T> {
    try {
      return await reading;
    } catch (error) {
      if (!isHistoryPruned(error)) throw error;
      // The search is kept for all questions, so that none pays for it.
      const block = await Budget.outside(async () => this.#startOf(what, (await this.head()).number));
      const text = `the endpoints have pruned ${what} before block ${block}: ask for a later one`;
      throw new AppError(text, { code: "history_pruned", meta: { block }, cause: rpcErrorOf(error) });
    }
  }

  async headers(numbers: readonly number[]): Promise<(BlockHeader | undefined)[]> {
    if (numbers.length === 0) return [];
    const meta = { fromBlock: numbers[0], toBlock: numbers.at(-1) };
    return this.#orPruned(
      "blocks",
      this.#pool.run((endpoint) => this.headersOf(endpoint, numbers), { meta }),
    );
  }

  async presentHeaders(numbers: readonly number[]): Promise<BlockHeader[]> {
    const present: BlockHeader[] = [];
    for (let at = 0; at < numbers.length; at += HEADERS_AT_ONCE) {
      const some = numbers.slice(at, at + HEADERS_AT_ONCE);
      const meta = { fromBlock: some[0], toBlock: some.at(-1) };
      present.push(...(await this.#pool.run((endpoint) => this.#presentHeadersOf(endpoint, some), { meta })));
    }
    return present;
  }

  async #presentHeadersOf(endpoint: Endpoint, numbers: readonly number[]): Promise<BlockHeader[]> {
    let lacking = -1;
    try {
      const headers = await fromAnyNode(async () => {
        const answer = await this.headersOf(endpoint, numbers);
        lacking = answer.indexOf(undefined);
        return lacking < 0 ? (answer as BlockHeader[]) : undefined;
      });
      if (headers !== undefined) return headers;
    } catch (error) {
      // Some nodes refuse a number without a block.
      if (!isUnknownRefusal(error)) throw error;
      const present = await someHeadersOf(endpoint, numbers);
      throw (await absentBlock(endpoint, numbers[present.indexOf(undefined)] ?? 0)) ?? error;
    }
    const number = numbers[lacking] as number;
    throw (await absentBlock(endpoint, number)) ?? missingBlock(number, endpoint);
  }

  logs(filter: LogFilter): Promise<ChainLog[]> {
    return this.#orPruned("logs", this.#logs.logs(filter));
  }

  logSearch(size: SearchSize = {}): LogSearch {
    return this.#logs.search(size);
  }

  completeLogs(
    filter: LogFilter,
    headers: readonly BlockHeader[] | Promise<readonly BlockHeader[]>,
    options?: CompleteLogsOptions,
  ): Promise<ChainLog[]> {
    return this.#logs.completeLogs(filter, headers, options);
  }

  /** Reads a told block's logs from its receipts. See `BlockLogs.proven`. */
  provenLogs(...asked: Parameters<LogReader["provenLogs"]>): ReturnType<LogReader["provenLogs"]> {
    return this.#logs.provenLogs(...asked);
  }

  /** See `BlockLogs.byEach`. */
  logsByEach(...asked: Parameters<LogReader["logsByEach"]>): ReturnType<LogReader["logsByEach"]> {
    return this.#logs.logsByEach(...asked);
  }

  /** The number of the chain's endpoints. Several ones may tell different logs. */
  get endpointCount(): number {
    return this.#pool.endpoints.length;
  }

  /** See `LogReader.settledLogs`. */
  settledLogs(...asked: Parameters<LogReader["settledLogs"]>): Promise<ChainLog[]> {
    return this.#logs.settledLogs(...asked);
  }

  /** See `bloomedBlocks`. */
  bloomed(headers: readonly BlockHeader[]): Promise<BloomedBlocks[]> {
    return this.#logs.bloomed(headers);
  }

  logsOfStretch(filter: StretchFilter): Promise<ChainLog[] | undefined> {
    return this.#logs.logsOfStretch(filter);
  }

  calls(calls: readonly Call[], block: BlockTag): Promise<CallResult[]> {
    return this.#calls.calls(calls, block);
  }

  callsAtBlock(calls: readonly Call[], block: BlockRef): Promise<CallsAtHead> {
    return this.#calls.callsAtBlock(calls, block);
  }

  callsAtHead(calls: readonly Call[]): Promise<CallsAtHead> {
    return this.#calls.callsAtHead(calls);
  }

  callOverridden(call: OverriddenCall, block: number): Promise<CallResult | undefined> {
    return this.#calls.callOverridden(call, block);
  }

  simulate(blocks: readonly SimulatedBlock[], block: number): Promise<readonly CallResult[] | undefined> {
    return this.#simulations.run(blocks, block);
  }

  async code(address: Address, block: BlockTag): Promise<string> {
    const tag = block === "latest" ? block : quantity(block);
    const ask = (endpoint: Endpoint) => requestParsed(endpoint, "eth_getCode", [address, tag], bytesIn);
    return (await this.#pool.run(ask, { meta: { block } })).toLowerCase();
  }

  codes(addresses: readonly Address[]): Promise<CodeStart[]> {
    return this.#calls.codes(addresses);
  }

  isCostly(address: Address): boolean {
    return this.#calls.isCostly(address);
  }

  async transactionCount(address: Address): Promise<number> {
    return this.#pool.run((endpoint) =>
      requestParsed(endpoint, "eth_getTransactionCount", [address, "latest"], parseQuantity),
    );
  }

  /** Makes several requests that one node must answer, at most twice. @throws RpcError, AppError like `EndpointPool.run` */
  onOneEndpoint<T>(ask: (endpoint: Endpoint) => Promise<T>, meta: { readonly block: number }): Promise<T> {
    return this.#pool.run(ask, { attempts: 2, meta });
  }

  failureWithin(ms: number): string | undefined {
    return this.#pool.failureWithin(ms);
  }

  /** The chain's endpoints as operators see them. */
  endpoints(): readonly EndpointStatus[] {
    return this.#pool.status();
  }

  /** Asks each endpoint for its newest block. */
  async probe(): Promise<{ label: string; head: number | undefined; ms: number; fault?: string }[]> {
    return (await this.#pool.probe(newestHeaderOf)).map(({ value, ...rest }) => ({ ...rest, head: value?.number }));
  }

  /** See `EndpointPool.trouble`. */
  trouble(): ReturnType<EndpointPool["trouble"]> {
    return this.#pool.trouble();
  }

  /** Ms for which no endpoint has answered although requests are pending; 0 if none is. */
  silentMs(): number {
    return this.#pool.silentMs();
  }

  /** @param fault the wrong answer in words */
  benchLiar(endpoint: Endpoint, fault: string): void {
    this.#pool.benchLiar(endpoint, fault);
  }

  async anyHolds({ number, hash }: BlockRef): Promise<boolean> {
    const answers = await Promise.allSettled(this.#pool.endpoints.map((endpoint) => headerFrom(endpoint, number)));
    const hashes = answers.map((one) => (one.status === "fulfilled" ? one.value?.hash : undefined));
    if (!hashes.includes(hash)) return false;
    for (const [index, endpoint] of this.#pool.endpoints.entries()) {
      if (hashes[index] !== undefined && hashes[index] !== hash) {
        this.#pool.benchLiar(endpoint, `it has another block ${number}, which is final`);
      }
    }
    return true;
  }

  benchLaggards(known: BlockRef): Promise<boolean> {
    return benchLaggards(this.#pool, known);
  }

  /** Reads headers from this endpoint in one round trip. @throws RpcError */
  headersOf(endpoint: Endpoint, numbers: readonly number[]): Promise<(BlockHeader | undefined)[]> {
    return Promise.all(numbers.map((number) => headerFrom(endpoint, number)));
  }

  /** What the endpoint that reads history takes, as far as it is known. `span` is a copy, to plan with. */
  historyLimits(): HistoryLimits {
    return this.#pool.historyLimits();
  }

  /** Asks for logs of the newest `blocks` blocks, of which none match. False if the endpoint refuses so many. */
  probeSpan(blocks: number, head: number): Promise<boolean> {
    return this.#pool.probeSpan(blocks, (endpoint) => askForSpan(endpoint, blocks, head));
  }

  /**
   * The first block of which the endpoints have logs, once they refused older ones. Kept for ten minutes.
   * @param head the newest block
   */
  historyStart(head: number): Promise<number> {
    return this.#startOf("logs", head);
  }

  /** The same for receipts. */
  receiptsStart(head: number): Promise<number> {
    return this.#startOf("receipts", head);
  }

  async #startOf(what: PrunedPart, head: number): Promise<number> {
    const { clock } = this.#pool;
    const known = this.#starts.get(what);
    if (known !== undefined && known.until >= clock.monotonic()) return known.block;
    return this.#searches.run(what, async () => {
      const block = await firstUnprunedBlock((number) => this.#assertUnpruned(what, number), head);
      this.#starts.set(what, { block, until: clock.monotonic() + HISTORY_START_MS });
      return block;
    });
  }

  /** @throws RpcError `state_unavailable` if the endpoints have pruned that part of the block */
  async #assertUnpruned(what: PrunedPart, block: number): Promise<void> {
    if (what === "receipts") return this.#logs.assertReceipts(block);
    if (what === "blocks") {
      await this.presentHeaders([block]);
      return;
    }
    await this.#pool.run(async (endpoint) => {
      this.#horizon.assertNotDropped(endpoint, block);
      return askForSpan(endpoint, 1, block);
    });
  }

  /** As `historyStart` found it; undefined while no endpoint has refused old logs. */
  get knownHistoryStart(): number | undefined {
    return this.#starts.get("logs")?.block;
  }

  nextBulkSpan(): number {
    return this.#pool.nextBulkSpan();
  }

  /**
   * Selects an endpoint for the backfill and calls `use`, which requests transfers of the first blocks of the range, as
   * many as the endpoint takes. They are decoded off this thread. An error of `use` counts against the endpoint.
   */
  async transfers<T>(
    filter: TransferFilter,
    use: (answer: TransfersAnswer) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<{ value: T; toBlock: number }> {
    const { fromBlock } = filter;
    return this.#pool.bulk(
      async (endpoint, span, abandoned, parts) => {
        this.#horizon.assertNotDropped(endpoint, fromBlock);
        const toBlock = Math.min(filter.toBlock, fromBlock + span - 1);
        const some = { ...filter, toBlock };
        const answer = { ask: () => endpoint.transfers(some, abandoned), endpoint, toBlock };
        const { transfersInParts } = endpoint;
        if (parts === 1 || transfersInParts === undefined) return { value: await use(answer), toBlock };
        const askInParts = (headers: readonly number[]) =>
          transfersInParts.call(endpoint, some, partsOf(some, parts), headers, abandoned);
        return { value: await use({ ...answer, askInParts, parts }), toBlock };
      },
      filter.toBlock - fromBlock + 1,
      { attempts: 6, meta: { fromBlock, toBlock: filter.toBlock }, ...(signal ? { signal } : {}) },
    );
  }

  /** See `LogHorizon.assertHas`. */
  assertHasLogs(endpoint: Endpoint, range: BlockRange): Promise<void> {
    return this.#horizon.assertHas(endpoint, range);
  }

  /** Asserts that some endpoint has the logs of a range. @throws like `assertHasLogs` if none has */
  async assertHistory(range: BlockRange): Promise<void> {
    await this.#pool.run((endpoint) => this.#horizon.assertHas(endpoint, range));
  }

  /** The calls that `assertHasLogs` makes for a block; none once it was shown that all endpoints have its logs. */
  looksForLogs(block: number): Readonly<Record<string, number>> {
    return this.#pool.endpoints.every((endpoint) => this.#horizon.isKnown(endpoint, block)) ? {} : LOOK_CALLS;
  }

  /** Records an answer of `logs` logs for `blocks` blocks. The pool derives the size of the next request from it. */
  recordHistory({ endpoint, parts }: TransfersAnswer, blocks: number, logs: number): void {
    this.#pool.recordHistory(endpoint, blocks, logs, parts);
  }

  /** Another endpoint than this one, to compare their answers. Undefined if there is none. */
  endpointBeside(endpoint: Endpoint): Endpoint | undefined {
    return this.#pool.secondEndpoint(endpoint);
  }
}

export interface TransfersAnswer {
  /** Requests the transfers. @throws RpcError */
  ask(): Promise<DecodedRange>;
  /** Like `ask`, in several ranges of one request, with the headers of some blocks. Undefined for one range. */
  askInParts?(headers: readonly number[]): Promise<PartsAnswer>;
  /** Number of ranges. Default: one. */
  readonly parts?: number;
  readonly endpoint: Endpoint;
  readonly toBlock: number;
}

/** Splits a range into consecutive ones. */
function partsOf({ fromBlock, toBlock }: BlockRange, parts: number): BlockRange[] {
  const size = Math.ceil((toBlock - fromBlock + 1) / parts);
  const ranges: BlockRange[] = [];
  for (let from = fromBlock; from <= toBlock; from += size) {
    ranges.push({ fromBlock: from, toBlock: Math.min(toBlock, from + size - 1) });
  }
  return ranges;
}
