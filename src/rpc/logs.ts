/**
 * Reads logs for everything but the backfill. Splits ranges as providers demand, splits or drops long address lists,
 * and settles blocks in doubt by their receipts. Returns verified logs of the requested contracts, in chain order.
 */
import { AppError } from "../core/errors.ts";
import { type Address, type Hash, quantity } from "../core/hex.ts";
import type { BlockRef } from "../events/types.ts";
import { addressesInBloom, doubtfulBlocks, logsOfReceipts } from "./block-logs.ts";
import { verifyLogs } from "./decode/verify.ts";
import type { EndpointPool } from "./endpoint/endpoint-pool.ts";
import { MAX_SPAN, SpanController } from "./endpoint/span.ts";
import { fromAnyNode, headerFrom } from "./headers.ts";
import type { BlockHeader, ChainLog, CompleteLogsOptions, Endpoint, LogFilter, MaybeLater } from "./port.ts";
import { isUnknownRefusal, mayBeTooLarge, RpcError } from "./rpc-errors.ts";

/** Most addresses in one filter. Providers refuse longer lists. */
const ADDRESS_CHUNK = 1_000;
/** With more chunks of addresses than this, one filter by topic alone is cheaper than a request per chunk. */
const MAX_CHUNKS = 2;
/** After this many refusals in a row, an endpoint counts as having no receipts. A single refusal may be temporary. */
const MAX_REFUSALS = 3;
/** Blocks in doubt that are settled in parallel. */
const SETTLE_AT_ONCE = 4;

/** Hears what the log reader learns about the endpoints. */
export interface LogReaderObserver {
  /** An endpoint left out logs that its receipts, or another endpoint, had. */
  missed(count: number): void;
  /** A block in doubt was settled by this source. */
  settled(by: "receipts" | "another endpoint" | "asking again"): void;
}

export class LogReader {
  readonly #pool: EndpointPool;
  readonly #watch: LogReaderObserver;
  /** Blocks per request. Starts at the maximum and shrinks after a timeout. */
  readonly #span = new SpanController(MAX_SPAN);
  /** Refusals of `eth_getBlockReceipts` in a row per endpoint, with any message. */
  readonly #refusals = new Map<Endpoint, number>();

  constructor(pool: EndpointPool, watch: LogReaderObserver) {
    this.#pool = pool;
    this.#watch = watch;
  }

  async logs(filter: LogFilter): Promise<ChainLog[]> {
    return (await this.#read(filter)).logs;
  }

  /** Reads the logs of the first blocks of a range, as many as `span` expects in one answer. */
  async firstLogs(filter: LogFilter, span: SpanController, { reaching, signal }: FirstLogsOptions): Promise<FirstLogs> {
    const { fromBlock } = filter;
    const sources = new Sources();
    for (;;) {
      const toBlock = Math.min(filter.toBlock, fromBlock + span.span - 1);
      const some = { ...filter, toBlock, reaching };
      const blocks = toBlock - fromBlock + 1;
      try {
        const { logs, count } = await this.#ask(some, sources, signal);
        span.succeeded(blocks, count);
        return { logs, toBlock };
      } catch (error) {
        if (mayBeTooLarge(error) && blocks > 1) {
          span.tookTooLong(blocks);
          continue;
        }
        if (!(error instanceof RpcError && error.kind === "range")) throw error;
        if (blocks === 1) return { logs: await this.#largeBlock(some, error, sources), toBlock };
        span.refused(blocks, error.hint);
      }
    }
  }

  /**
   * Reads the logs of a range and checks each block of `toCheck`. If its bloom names a contract without a log here, the
   * block's receipts decide.
   */
  async completeLogs(
    filter: LogFilter,
    toCheck: MaybeLater<readonly BlockHeader[]>,
    { strict = false, sampled, requiredBlock }: CompleteLogsOptions = {},
  ): Promise<ChainLog[]> {
    const [{ logs, sources }, given] = await Promise.all([this.#read({ ...filter, reaching: requiredBlock }), toCheck]);
    const headers = given.filter((header) => !sources.isSettled(header, filter.addresses.length));
    const isStrict = ({ number }: BlockHeader) => strict || sources.pieced.has(number);
    const certain = headers.filter((header) => isStrict(header) && addressesInBloom(header, filter).length > 0);
    const lenient = headers.filter((header) => !isStrict(header));
    const doubtful = [...certain, ...doubtfulBlocks(lenient, filter, logs)];
    let complete = logs;
    for (const header of lenient) {
      if (sampled?.has(header.number) !== true || doubtful.includes(header)) continue;
      if (addressesInBloom(header, filter).length === 0) continue;
      const found = await this.#byReceipts(header, filter);
      if (found !== undefined) complete = this.#corrected(complete, header, found, sources);
    }
    for (let at = 0; at < doubtful.length; at += SETTLE_AT_ONCE) {
      const some = doubtful.slice(at, at + SETTLE_AT_ONCE);
      const settled = await Promise.all(some.map((header) => this.#settle(header, filter, strict, sources)));
      for (const index of some.keys()) {
        complete = this.#corrected(complete, some[index]!, settled[index]!, sources);
      }
    }
    return complete === logs ? logs : complete.sort(inChainOrder);
  }

  /** Replaces the logs of one block. Benches the endpoint that gave different ones. */
  #corrected(logs: ChainLog[], { number }: BlockHeader, found: ChainLog[], sources: Sources): ChainLog[] {
    const own = logs.filter((log) => log.blockNumber === number);
    if (sameLogs(own, found)) return logs;
    this.#watch.missed(Math.max(1, found.length - own.length));
    const liar = sources.get(number);
    if (liar !== undefined) this.#pool.benchLiar(liar);
    return logs.filter((log) => log.blockNumber !== number).concat(found);
  }

  /** Returns the logs of one block from receipts, or else from a second endpoint or a repeated request. */
  async #settle(header: BlockHeader, filter: LogFilter, strict: boolean, sources: Sources): Promise<ChainLog[]> {
    const byReceipts = await this.#byReceipts(header, filter);
    if (byReceipts !== undefined) {
      this.#watch.settled("receipts");
      return byReceipts;
    }
    const first = sources.get(header.number);
    // This request only adds logs that the bloom confirms, so a benched endpoint may answer it.
    const second = first && this.#pool.secondEndpoint(first, strict);
    if (second === undefined && strict) {
      throw new AppError("VERIFY=receipts needs eth_getBlockReceipts, or a second endpoint to compare with", {
        code: "unverifiable",
        meta: { block: header.number },
      });
    }
    const named = addressesInBloom(header, filter) as Address[];
    // Providers refuse longer address lists. Filtered by topic alone, one block is still a small answer.
    const least = { ...filter, addresses: named.length > ADDRESS_CHUNK ? [] : named };
    const ask = (endpoint: Endpoint) => logsOfBlock(endpoint, header, least);
    const opinion = second && (await this.#opinion(second, ask, strict));
    const again = opinion ?? (await this.#pool.run(ask));
    const asked = await (first === undefined ? this.#pool.run(ask) : this.#pool.runOn(first, ask));
    this.#watch.settled(opinion === undefined ? "asking again" : "another endpoint");
    // Neither answer proves that it is complete. Logs that the header's bloom confirms are accepted from both.
    const spoken = new Set<string>(named);
    const union = new Map([...again, ...asked].map((log) => [log.logIndex, log]));
    return [...union.values()].filter((log) => spoken.has(log.address)).sort(inChainOrder);
  }

  #hasReceipts(endpoint: Endpoint): boolean {
    return (this.#refusals.get(endpoint) ?? 0) < MAX_REFUSALS;
  }

  /** Returns a block's logs from its receipts. Undefined if no endpoint has receipts, or they contradict the header. */
  async #byReceipts(header: BlockHeader, filter: LogFilter): Promise<ChainLog[] | undefined> {
    if (!this.#pool.endpoints.some((endpoint) => this.#hasReceipts(endpoint))) return undefined;
    const ask = async (endpoint: Endpoint): Promise<ChainLog[]> => {
      const result = await fromAnyNode(async () => (await this.#receiptsOf(endpoint, header)) ?? undefined);
      if (result === undefined) throw new RpcError("transient", "the endpoint lacks a block's receipts");
      return logsOfReceipts(result, header, filter);
    };
    try {
      return await this.#pool.run(ask, { meta: { block: header.number } });
    } catch (error) {
      // The endpoints that support receipts are down. Don't wait for them.
      if (error instanceof RpcError && error.kind === "unsupported") return undefined;
      // All receipts contradict the header's bloom. The chain may not build blooms so, and then they prove nothing.
      const cause = error instanceof AppError ? error.cause : undefined;
      if (cause instanceof RpcError && cause.kind === "lie") return undefined;
      throw error;
    }
  }

  /** @throws RpcError `unsupported` without a request, after enough refusals */
  async #receiptsOf(endpoint: Endpoint, { number }: BlockHeader): Promise<unknown> {
    if (!this.#hasReceipts(endpoint)) throw new RpcError("unsupported", "the endpoint has no eth_getBlockReceipts");
    try {
      const result = await endpoint.request("eth_getBlockReceipts", [quantity(number)]);
      this.#refusals.set(endpoint, 0);
      return result;
    } catch (error) {
      if (isUnknownRefusal(error)) this.#refusals.set(endpoint, (this.#refusals.get(endpoint) ?? 0) + 1);
      throw error;
    }
  }

  /** Returns a second endpoint's answer. Undefined if the endpoint fails and the answer is not needed. */
  async #opinion<T>(second: Endpoint, ask: (of: Endpoint) => Promise<T>, isNeeded: boolean): Promise<T | undefined> {
    try {
      return await this.#pool.runOn(second, ask);
    } catch (error) {
      if (isNeeded || !(error instanceof AppError)) throw error;
      return undefined;
    }
  }

  async #read(filter: LogRequest): Promise<{ logs: ChainLog[]; sources: Sources }> {
    const sources = new Sources(filter.maxLogs);
    const { addresses } = filter;
    if (addresses.length <= ADDRESS_CHUNK) return { logs: await this.#readInSpans(filter, sources), sources };
    let logs: ChainLog[];
    if (addresses.length > ADDRESS_CHUNK * MAX_CHUNKS) {
      logs = await this.#readInSpans({ ...filter, addresses: [], only: new Set(addresses) }, sources);
    } else {
      const chunks: Address[][] = [];
      for (let i = 0; i < addresses.length; i += ADDRESS_CHUNK) chunks.push(addresses.slice(i, i + ADDRESS_CHUNK));
      const parts = await Promise.all(
        chunks.map((chunk) => this.#readInSpans({ ...filter, addresses: chunk }, sources)),
      );
      logs = parts.flat().sort(inChainOrder);
    }
    return { logs, sources };
  }

  /** Reads a range in one answer. `count` includes the logs that were filtered out. @throws RpcError `range` */
  #ask(filter: LogRequest, sources: Sources, signal?: AbortSignal): Promise<{ logs: ChainLog[]; count: number }> {
    const { fromBlock, toBlock, reaching, only } = filter;
    // A single block cannot be split, so after a refusal for size another endpoint is asked.
    const failover = fromBlock === toBlock ? "any" : "lacking";
    const ask = async (endpoint: Endpoint) => {
      // Checked before the logs: an endpoint that catches up in between would pass, though its logs end too early.
      await assertReaching(endpoint, reaching);
      const all = await logsFrom(endpoint, filter);
      sources.add(fromBlock, toBlock, endpoint);
      // Filtered at once: all contracts' logs of a long gap are gigabytes.
      const logs = only === undefined ? all : all.filter((log) => only.has(log.address));
      return { logs, count: all.length };
    };
    return this.#pool.run(ask, { meta: { fromBlock, toBlock }, failover, ...(signal ? { signal } : {}) });
  }

  /** Reads in ranges that answer before the timeout, and shrinks the next range after one that doesn't. */
  async #readInSpans(filter: LogRequest, sources: Sources): Promise<ChainLog[]> {
    const parts: ChainLog[][] = [];
    for (let fromBlock = filter.fromBlock; fromBlock <= filter.toBlock; ) {
      const toBlock = fromBlock + this.#span.take(filter.toBlock - fromBlock + 1) - 1;
      parts.push(await this.#split({ ...filter, fromBlock, toBlock }, sources));
      fromBlock = toBlock + 1;
    }
    return parts.flat();
  }

  /** Reads a range and halves it until the endpoint accepts its size. */
  async #split(filter: LogRequest, sources: Sources): Promise<ChainLog[]> {
    const { fromBlock, toBlock } = filter;
    const blocks = toBlock - fromBlock + 1;
    try {
      const { logs, count } = await this.#ask(filter, sources);
      this.#span.succeeded(blocks, count);
      return sources.countLogs(logs);
    } catch (error) {
      if (mayBeTooLarge(error)) this.#span.tookTooLong(blocks);
      else this.#span.failed(blocks);
      if (!(error instanceof RpcError && error.kind === "range")) throw error;
      if (fromBlock === toBlock) return sources.countLogs(await this.#largeBlock(filter, error, sources));
      const middle = Math.floor((fromBlock + toBlock) / 2);
      const lower = await this.#split({ ...filter, toBlock: middle }, sources);
      return lower.concat(await this.#split({ ...filter, fromBlock: middle + 1 }, sources));
    }
  }

  /**
   * Reads one block that is too large for a single answer: from its receipts, or else by topic and by address.
   * @throws AppError `block_too_large` if nothing is left to split
   */
  async #largeBlock(filter: LogRequest, refusal: RpcError, sources: Sources): Promise<ChainLog[]> {
    const { fromBlock: block, only } = filter;
    const header = await this.#pool.run((endpoint) => headerFrom(endpoint, block), { meta: { block } });
    const watched = only === undefined ? filter : { ...filter, addresses: [...only] };
    const found = header && (await this.#byReceipts(header, watched));
    if (header !== undefined && found !== undefined) {
      sources.settled.set(block, { hash: header.hash, addresses: watched.addresses.length });
      return found;
    }
    sources.pieced.add(block);
    return (await this.#inPieces(filter, refusal, sources)).sort(inChainOrder);
  }

  /** Reads one block's logs by parts of the filter. Finds no omitted logs: `completeLogs` checks the block. */
  async #inPieces(filter: LogRequest, refusal: RpcError, sources: Sources): Promise<ChainLog[]> {
    const logs: ChainLog[] = [];
    for (const piece of piecesOf(filter, refusal)) {
      try {
        for (const log of (await this.#ask(piece, sources)).logs) logs.push(log);
      } catch (error) {
        if (!(error instanceof RpcError && error.kind === "range")) throw error;
        for (const log of await this.#inPieces(piece, error, sources)) logs.push(log);
      }
    }
    return logs;
  }
}

/** Splits a filter into smaller ones. @throws AppError `block_too_large` if that is impossible */
function piecesOf(filter: LogRequest, refusal: RpcError): LogRequest[] {
  const { topics, addresses, fromBlock } = filter;
  if (topics.length > 1) return topics.map((topic) => ({ ...filter, topics: [topic] }));
  if (addresses.length > 1) return addresses.map((address) => ({ ...filter, addresses: [address] }));
  throw new AppError(`the logs of block ${fromBlock} alone exceed the endpoint's limit: ${refusal.message}`, {
    code: "block_too_large",
    meta: { ...refusal.meta, block: fromBlock },
    cause: refusal,
  });
}

export interface FirstLogsOptions {
  /** A block that the endpoint must have. An endpoint that is behind omits newer logs without an error. */
  readonly reaching?: BlockRef | undefined;
  readonly signal: AbortSignal;
}

export interface FirstLogs {
  readonly logs: ChainLog[];
  /** The last block of the request. */
  readonly toBlock: number;
}

interface LogRequest extends LogFilter {
  /** A block that the endpoint must have. */
  readonly reaching?: BlockRef | undefined;
  /** Addresses to keep from an answer that was requested by topic alone. */
  readonly only?: ReadonlySet<Address>;
}

/** @throws RpcError `transient` if the endpoint lacks the block: its logs may end before it */
async function assertReaching(endpoint: Endpoint, block: BlockRef | undefined): Promise<void> {
  if (block === undefined) return;
  if ((await headerFrom(endpoint, block.number))?.hash === block.hash) return;
  throw new RpcError("transient", "the endpoint does not have the required block yet", {
    meta: { endpoint: endpoint.label, block: block.number },
  });
}

/** Records which endpoint answered for which blocks, and counts the logs against the filter's limit. */
class Sources {
  /** Blocks read by parts of the filter. Here some logs of a contract do not mean that all of them came. */
  readonly pieced = new Set<number>();
  /** Blocks read from their receipts, and the number of addresses that were searched for. */
  readonly settled = new Map<number, { readonly hash: Hash; readonly addresses: number }>();
  readonly #ranges: { from: number; to: number; endpoint: Endpoint }[] = [];
  /** Logs left before the filter's limit. */
  #room: number;

  constructor(room = Number.POSITIVE_INFINITY) {
    this.#room = room;
  }

  /** Counts the logs and returns them. @throws AppError `too_many_logs` above the filter's limit */
  countLogs(logs: ChainLog[]): ChainLog[] {
    this.#room -= logs.length;
    if (this.#room >= 0) return logs;
    throw new AppError("the range has more logs than the caller's limit", { code: "too_many_logs" });
  }

  add(from: number, to: number, endpoint: Endpoint): void {
    this.#ranges.push({ from, to, endpoint });
  }

  /** True if the block's own receipts were read for all addresses. */
  isSettled({ number, hash }: BlockHeader, addresses: number): boolean {
    const settled = this.settled.get(number);
    return settled?.hash === hash && settled.addresses === addresses;
  }

  get(block: number): Endpoint | undefined {
    return this.#ranges.find(({ from, to }) => block >= from && block <= to)?.endpoint;
  }
}

async function logsFrom(endpoint: Endpoint, filter: LogFilter): Promise<ChainLog[]> {
  const result = await endpoint.request("eth_getLogs", [logFilterParams(filter)]);
  const { addresses, topics, fromBlock, toBlock } = filter;
  const expected = { addresses: new Set<string>(addresses), topics: new Set<string>(topics), fromBlock, toBlock };
  return verifyLogs(result, expected);
}

/** Reads one block's logs by hash (EIP-234). A node on another branch refuses instead of giving other logs. */
async function logsOfBlock(endpoint: Endpoint, { hash, number }: BlockHeader, filter: LogFilter): Promise<ChainLog[]> {
  const { fromBlock: _from, toBlock: _to, ...rest } = logFilterParams(filter);
  const result = await endpoint.request("eth_getLogs", [{ blockHash: hash, ...rest }]);
  const expected = { addresses: new Set<string>(filter.addresses), topics: new Set<string>(filter.topics) };
  const logs = verifyLogs(result, { ...expected, fromBlock: number, toBlock: number });
  if (logs.some((log) => log.blockHash !== hash)) {
    throw new RpcError("lie", "the endpoint's logs are of another block", { meta: { block: number } });
  }
  return logs;
}

/** The parameter object of `eth_getLogs`. */
export function logFilterParams(filter: LogFilter): Record<string, unknown> {
  const { addresses, topics } = filter;
  return {
    fromBlock: quantity(filter.fromBlock),
    toBlock: quantity(filter.toBlock),
    ...(addresses.length === 0 ? {} : { address: addresses.length === 1 ? addresses[0] : addresses }),
    ...(topics.length === 0 ? {} : { topics: [topics] }),
  };
}

const inChainOrder = (a: ChainLog, b: ChainLog): number => a.blockNumber - b.blockNumber || a.logIndex - b.logIndex;

function sameLogs(a: readonly ChainLog[], b: readonly ChainLog[]): boolean {
  const print = ({ address, blockHash, logIndex, topics, data }: ChainLog) =>
    `${logIndex} ${address} ${blockHash} ${topics.join()} ${data}`;
  return a.length === b.length && a.every((log, i) => print(log) === print(b[i]!));
}
