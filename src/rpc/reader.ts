/**
 * The chain reader over an endpoint pool: headers, verified logs, calls by Multicall3 or JSON-RPC batch, code. Reads
 * state by block number, and the newest state together with the header of the block that it belongs to.
 */
import { AppError, isRetryable } from "../core/errors.ts";
import { type Address, parseQuantity, quantity } from "../core/hex.ts";
import type { BlockRef, TransferForm } from "../events/types.ts";
import { aggregateCalls, aggregatedResults, selectorOf } from "./abi.ts";
import { NFT_TOPICS } from "./decode/topics.ts";
import type { EndpointPool, RunOptions } from "./endpoint/endpoint-pool.ts";
import type { SpanController } from "./endpoint/span.ts";
import {
  Finality,
  type FinalityOptions,
  fromAnyNode,
  headerFrom,
  laggards,
  missingBlock,
  newestHeaderOf,
} from "./headers.ts";
import { type FirstLogs, type FirstLogsOptions, LogReader, type LogReaderObserver, logFilterParams } from "./logs.ts";
import type {
  BlockHeader,
  BlockTag,
  Call,
  CallResult,
  CallsAtHead,
  ChainLog,
  ChainReader,
  CompleteLogsOptions,
  DecodedRange,
  Endpoint,
  LogFilter,
  MaybeLater,
  PartsAnswer,
  RangeFilter,
  Tips,
} from "./port.ts";
import { RpcError } from "./rpc-errors.ts";

/** On Arbitrum `block.number` is L1's. A precompile returns the chain's own number (Arbitrum docs, ArbSys). */
const ARBITRUM_CHAIN_ID = 42161;
const ARB_SYS = "0x0000000000000000000000000000000000000064" as Address;
const BLOCK_NUMBER = selectorOf("getBlockNumber()");
const ARB_BLOCK_NUMBER = selectorOf("arbBlockNumber()");
/** Most headers in one round trip. */
const HEADERS_AT_ONCE = 100;
/** Most calls in one `aggregate3`. For small getters this is far below the gas cap of an `eth_call`. */
const MULTICALL_MAX = 500;

/** Reads without Multicall3 after its code was missing. It may be missing only because the node is still syncing. */
const LOOKS_WITHOUT_MULTICALL = 100;

const WORD = /^0x[0-9a-f]{64}$/i;

const UNWATCHED: LogReaderObserver = { missed: () => undefined, settled: () => undefined };

interface ReaderOptions extends FinalityOptions {
  readonly chainId: number;
  readonly pool: EndpointPool;
  readonly multicall: Address;
  /** Hears what the log reader learns about the endpoints. */
  readonly watch?: LogReaderObserver;
  /** The block that this process shows as the chain's head. Reads of the newest state must not be older. */
  readonly shownHead?: () => BlockRef | undefined;
}

export class RpcChainReader implements ChainReader {
  readonly chainId: number;
  readonly #options: ReaderOptions;
  readonly #pool: EndpointPool;
  readonly #logs: LogReader;
  readonly #finality: Finality;
  /** Remaining reads without Multicall3. */
  #looksWithoutMulticall = 0;

  constructor(options: ReaderOptions) {
    this.chainId = options.chainId;
    this.#options = options;
    this.#pool = options.pool;
    this.#finality = new Finality(options.pool, options);
    this.#logs = new LogReader(options.pool, options.watch ?? UNWATCHED);
  }

  #run<T>(operation: (endpoint: Endpoint) => Promise<T>, options?: RunOptions): Promise<T> {
    return this.#pool.run(operation, options);
  }

  async head(): Promise<BlockHeader> {
    return this.#run(newestHeaderOf);
  }

  tips(): Promise<Tips> {
    return this.#finality.tips();
  }

  finalized(head: BlockHeader): Promise<BlockHeader> {
    return this.#finality.finalized(head);
  }

  async header(number: number): Promise<BlockHeader | undefined> {
    const ask = (endpoint: Endpoint) => headerFrom(endpoint, number);
    const header = await this.#run(ask, { meta: { block: number } });
    if (header !== undefined || this.#pool.endpoints.length === 1) return header;
    // This endpoint may be behind. Another one may have the block.
    return (await this.#pool.askAll(ask)).find(({ value }) => value !== undefined)?.value;
  }

  async headers(numbers: readonly number[]): Promise<(BlockHeader | undefined)[]> {
    if (numbers.length === 0) return [];
    return this.#run((endpoint) => this.headersOf(endpoint, numbers), {
      meta: { fromBlock: numbers[0], toBlock: numbers.at(-1) },
    });
  }

  async presentHeaders(numbers: readonly number[]): Promise<BlockHeader[]> {
    const present: BlockHeader[] = [];
    for (let at = 0; at < numbers.length; at += HEADERS_AT_ONCE) {
      const some = numbers.slice(at, at + HEADERS_AT_ONCE);
      const meta = { fromBlock: some[0], toBlock: some.at(-1) };
      present.push(...(await this.#run((endpoint) => this.#presentHeadersOf(endpoint, some), { meta })));
    }
    return present;
  }

  async #presentHeadersOf(endpoint: Endpoint, numbers: readonly number[]): Promise<BlockHeader[]> {
    let lacking = -1;
    const headers = await fromAnyNode(async () => {
      const answer = await this.headersOf(endpoint, numbers);
      lacking = answer.indexOf(undefined);
      return lacking < 0 ? (answer as BlockHeader[]) : undefined;
    });
    if (headers === undefined) throw missingBlock(numbers[lacking] as number, endpoint);
    return headers;
  }

  logs(filter: LogFilter): Promise<ChainLog[]> {
    return this.#logs.logs(filter);
  }

  /** See `LogReader.firstLogs`. */
  firstLogs(filter: LogFilter, span: SpanController, options: FirstLogsOptions): Promise<FirstLogs> {
    return this.#logs.firstLogs(filter, span, options);
  }

  completeLogs(
    filter: LogFilter,
    headers: MaybeLater<readonly BlockHeader[]>,
    options?: CompleteLogsOptions,
  ): Promise<ChainLog[]> {
    return this.#logs.completeLogs(filter, headers, options);
  }

  calls(calls: readonly Call[], block: BlockTag): Promise<CallResult[]> {
    return this.#calls(calls, block, {});
  }

  async #calls(calls: readonly Call[], block: BlockTag, options: RunOptions): Promise<CallResult[]> {
    if (calls.length === 0) return [];
    return this.#run((endpoint) => this.#callsOn(endpoint, calls, block), { ...options, meta: { block } });
  }

  async #callsOn(endpoint: Endpoint, calls: readonly Call[], block: BlockTag): Promise<CallResult[]> {
    const tag = block === "latest" ? block : quantity(block);
    if (calls.length > 1 && this.#mayAggregate()) {
      const chunks: Promise<CallResult[] | undefined>[] = [];
      for (let i = 0; i < calls.length; i += MULTICALL_MAX) {
        chunks.push(this.#aggregate(endpoint, calls.slice(i, i + MULTICALL_MAX), tag));
      }
      const results = await Promise.all(chunks);
      if (results.every((chunk) => chunk !== undefined)) return results.flat();
    }
    return Promise.all(calls.map((call) => this.#single(endpoint, call, tag)));
  }

  #mayAggregate(): boolean {
    return this.#looksWithoutMulticall-- <= 0;
  }

  /** Runs calls through Multicall3. Undefined if it does not exist at that block, or reverted as a whole. */
  async #aggregate(endpoint: Endpoint, calls: readonly Call[], tag: string): Promise<CallResult[] | undefined> {
    const data = aggregateCalls(calls);
    let returned: string;
    try {
      returned = await requestParsed(endpoint, "eth_call", [{ to: this.#options.multicall, data }, tag], textOf);
    } catch (error) {
      if (error instanceof RpcError && error.kind === "revert") return undefined;
      throw error;
    }
    if (returned === "0x") {
      // At an old block, the contract may only be younger. At the newest block, the chain does not have it.
      if (tag === "latest") this.#looksWithoutMulticall = LOOKS_WITHOUT_MULTICALL;
      return undefined;
    }
    try {
      return aggregatedResults(returned, calls.length);
    } catch (error) {
      throw new RpcError("lie", "the answer of Multicall3 is malformed", {
        meta: { endpoint: endpoint.label },
        cause: error,
      });
    }
  }

  async #single(endpoint: Endpoint, call: Call, tag: string): Promise<CallResult> {
    try {
      const data = await requestParsed(endpoint, "eth_call", [{ to: call.to, data: call.data }, tag], textOf);
      return { ok: true, data };
    } catch (error) {
      if (error instanceof RpcError && error.kind === "revert") return { ok: false, data: error.data ?? "0x" };
      throw error;
    }
  }

  async callsAtHead(calls: readonly Call[]): Promise<CallsAtHead> {
    const pinned = await this.#run((endpoint) => this.#callsPinned(endpoint, calls));
    if (pinned !== undefined) return pinned;
    const header = await this.#run(async (endpoint) => this.#notBehind(await newestHeaderOf(endpoint), endpoint));
    try {
      // No failover: an endpoint that is behind has only the state of its own head.
      return { header, results: await this.#calls(calls, header.number, { failover: "none" }) };
    } catch (error) {
      // The endpoint that gave the head is behind, and the other ones have dropped that block's state.
      if (!isStateUnavailable(error) || !(await this.benchLaggards(header))) throw error;
      const newest = await this.head();
      return { header: newest, results: await this.calls(calls, newest.number) };
    }
  }

  /** Returns the header. @throws RpcError `transient` if it is older than the block that this process shows as head */
  #notBehind(header: BlockHeader, endpoint: Endpoint): BlockHeader {
    const shown = this.#options.shownHead?.();
    if (shown === undefined || header.number >= shown.number) return header;
    throw new RpcError("transient", `the endpoint is behind block ${shown.number}`, {
      meta: { endpoint: endpoint.label, block: header.number },
    });
  }

  /**
   * Reads head and calls in one batch. Each `aggregate3` also reads the block number, which tells the block that
   * answered. Undefined if Multicall3 is missing, or the head moved between two of the calls.
   */
  async #callsPinned(endpoint: Endpoint, calls: readonly Call[]): Promise<CallsAtHead | undefined> {
    if (!this.#mayAggregate()) return undefined;
    const arbitrum = this.chainId === ARBITRUM_CHAIN_ID;
    const number: Call = arbitrum
      ? { to: ARB_SYS, data: ARB_BLOCK_NUMBER }
      : { to: this.#options.multicall, data: BLOCK_NUMBER };
    const chunks: Promise<CallResult[] | undefined>[] = [];
    for (let i = 0; i === 0 || i < calls.length; i += MULTICALL_MAX - 1) {
      chunks.push(this.#aggregate(endpoint, [number, ...calls.slice(i, i + MULTICALL_MAX - 1)], "latest"));
    }
    const [header, ...answers] = await Promise.all([newestHeaderOf(endpoint), ...chunks]);
    const blocks = answers.map((results) => {
      const answered = results?.[0];
      return answered?.ok === true && WORD.test(answered.data) ? Number(answered.data) : undefined;
    });
    const [block] = blocks;
    if (block === undefined || blocks.some((other) => other !== block)) return undefined;
    // The head moved between header and calls. That is rare, and one more request settles it.
    const exact = block === header.number ? header : await headerFrom(endpoint, block);
    if (exact === undefined) return undefined;
    this.#notBehind(exact, endpoint);
    return { header: exact, results: answers.flatMap((results) => results!.slice(1)) };
  }

  async code(address: Address, block: BlockTag): Promise<string> {
    const tag = block === "latest" ? block : quantity(block);
    const ask = (endpoint: Endpoint) => requestParsed(endpoint, "eth_getCode", [address, tag], textOf);
    return (await this.#run(ask, { meta: { block } })).toLowerCase();
  }

  /** Returns the message of the newest failed request if it failed within the last `ms` ms. */
  failureWithin(ms: number): string | undefined {
    return this.#pool.failureWithin(ms);
  }

  /** Benches an endpoint that contradicted itself. */
  benchLiar(endpoint: Endpoint): void {
    this.#pool.benchLiar(endpoint);
  }

  async transactionCount(address: Address): Promise<number> {
    return this.#run((endpoint) =>
      requestParsed(endpoint, "eth_getTransactionCount", [address, "latest"], parseQuantity),
    );
  }

  async anyHolds({ number, hash }: BlockRef): Promise<boolean> {
    const hashes = await Promise.all(
      this.#pool.endpoints.map((endpoint) =>
        headerFrom(endpoint, number).then(
          (header) => header?.hash,
          () => undefined,
        ),
      ),
    );
    if (!hashes.includes(hash)) return false;
    for (const [index, endpoint] of this.#pool.endpoints.entries()) {
      if (hashes[index] !== undefined && hashes[index] !== hash) this.#pool.benchLiar(endpoint);
    }
    return true;
  }

  async benchLaggards(known: BlockRef): Promise<boolean> {
    if (this.#pool.endpoints.length === 1) return false;
    const shown: { endpoint: Endpoint; head: BlockHeader }[] = [];
    for (const { endpoint, value } of await this.#pool.askAll(newestHeaderOf)) shown.push({ endpoint, head: value });
    const behind = laggards(shown, known);
    for (const one of shown) this.#pool.setBehind(one.endpoint, behind.includes(one));
    return behind.length > 0;
  }

  /** Reads headers from this endpoint in one round trip. @throws RpcError */
  headersOf(endpoint: Endpoint, numbers: readonly number[]): Promise<(BlockHeader | undefined)[]> {
    return Promise.all(numbers.map((number) => headerFrom(endpoint, number)));
  }

  /** Number of blocks for the next bulk request, by the endpoint that is likely to take it. */
  cut(): number {
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
        const toBlock = Math.min(filter.toBlock, fromBlock + span - 1);
        const some = { ...filter, toBlock };
        const ask = () => askTransfers(endpoint, some, abandoned);
        const { transfersInParts } = endpoint;
        if (parts === 1 || transfersInParts === undefined)
          return { value: await use({ ask, endpoint, toBlock }), toBlock };
        const askInParts = (headers: readonly number[]) => {
          const job = { ...some, topics: NFT_TOPICS };
          return transfersInParts.call(endpoint, partsOf(some, parts), headers, job, abandoned);
        };
        return { value: await use({ ask, askInParts, parts, endpoint, toBlock }), toBlock };
      },
      filter.toBlock - fromBlock + 1,
      { attempts: 6, meta: { fromBlock, toBlock: filter.toBlock }, ...(signal ? { signal } : {}) },
    );
  }

  /** Records an answer of `logs` logs for `blocks` blocks. The pool derives the size of the next request from it. */
  answered({ endpoint, parts }: TransfersAnswer, blocks: number, logs: number): void {
    this.#pool.recordHistory(endpoint, blocks, logs, parts);
  }

  /** Reads a range from an endpoint other than `than`. Undefined if there is none. @throws RpcError */
  async secondTransfers(
    filter: TransferFilter,
    than: Endpoint,
    signal: AbortSignal,
  ): Promise<{ decoded: DecodedRange; endpoint: Endpoint } | undefined> {
    const endpoint = this.#pool.secondEndpoint(than);
    if (endpoint === undefined) return undefined;
    return { decoded: await askTransfers(endpoint, filter, signal), endpoint };
  }
}

/** Sends a request and reads the answer with `read`. @throws RpcError, of kind `transient` if `read` throws */
async function requestParsed<T>(
  endpoint: Endpoint,
  method: string,
  params: unknown[],
  read: (said: unknown) => T,
): Promise<T> {
  const said = await endpoint.request(method, params);
  try {
    return read(said);
  } catch (cause) {
    throw new RpcError("transient", `the answer to ${method} is malformed`, {
      meta: { endpoint: endpoint.label },
      cause,
    });
  }
}

function textOf(said: unknown): string {
  if (typeof said !== "string") throw new TypeError("not a string");
  return said;
}

/** A contract, the forms in which its transfers read, and a range of blocks. */
export interface TransferFilter {
  readonly address: Address;
  readonly forms: readonly TransferForm[];
  readonly fromBlock: number;
  readonly toBlock: number;
}

export interface TransfersAnswer {
  /** Requests the transfers. @throws RpcError */
  ask(): Promise<DecodedRange>;
  /** Like `ask`, in several ranges of one request, with the headers of some blocks. Undefined for one range. */
  askInParts?(headers: readonly number[]): Promise<PartsAnswer>;
  /** Number of ranges. Default: one. */
  readonly parts?: number;
  readonly endpoint: Endpoint;
  /** Last block of the request. */
  readonly toBlock: number;
}

/** Splits a range into consecutive ones, with the `eth_getLogs` parameter of each. */
function partsOf({ address, fromBlock, toBlock }: TransferFilter, parts: number): RangeFilter[] {
  const size = Math.ceil((toBlock - fromBlock + 1) / parts);
  const filters: RangeFilter[] = [];
  for (let from = fromBlock; from <= toBlock; from += size) {
    const range = { fromBlock: from, toBlock: Math.min(toBlock, from + size - 1) };
    filters.push({ ...range, filter: logFilterParams({ addresses: [address], topics: NFT_TOPICS, ...range }) });
  }
  return filters;
}

function askTransfers(endpoint: Endpoint, filter: TransferFilter, signal: AbortSignal): Promise<DecodedRange> {
  const { address, fromBlock, toBlock } = filter;
  const asked = logFilterParams({ addresses: [address], topics: NFT_TOPICS, fromBlock, toBlock });
  return endpoint.transfers(asked, { ...filter, topics: NFT_TOPICS }, signal);
}

/** True if the node lacks a past state for good, so that the caller must find another way. */
export function isStateUnavailable(error: unknown): boolean {
  return error instanceof AppError && error.code === "state_unavailable" && !isRetryable(error);
}
