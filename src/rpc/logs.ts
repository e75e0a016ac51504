/**
 * Reading logs: ranges split as the providers demand, long lists of addresses cut or left out of the filter, and blocks
 * in doubt settled by their receipts. What is returned is verified, in chain order, and of the asked contracts only.
 */
import { AppError } from "../core/errors.ts";
import { type Address, type Hash, quantity } from "../core/hex.ts";
import type { BlockRef } from "../events/types.ts";
import { doubtfulBlocks, spokenOf } from "./bloom.ts";
import type { Endpoint } from "./endpoint.ts";
import { isUnknownRefusal, mayBeOfSize, RpcError } from "./errors.ts";
import { fromAnyNode, headerBy } from "./header.ts";
import type { EndpointPool } from "./pool.ts";
import type { BlockHeader, ChainLog, CompleteLogsOptions, LogFilter, MaybeLater } from "./port.ts";
import { logsOfReceipts } from "./receipts.ts";
import { MAX_SPAN, SpanController } from "./span.ts";
import { verifyLogs } from "./verify.ts";

/** Addresses in one filter; providers refuse longer lists. */
const ADDRESS_CHUNK = 1_000;
/** With more chunks than this, one filter by topic alone costs less than as many requests. */
const MAX_CHUNKS = 2;
/** After so many refusals in a row an endpoint is not asked for receipts any more; one alone may be a gateway's mood. */
const MAX_REFUSALS = 3;
/** Blocks in doubt settled side by side. */
const SETTLE_AT_ONCE = 4;

/** What the reading of logs found out about the endpoints. */
export interface LogWatch {
  /** Logs that an endpoint left out and its receipts, or another endpoint, had. */
  missed(count: number): void;
  /** A block in doubt that was settled, and by what. */
  settled(by: "receipts" | "another endpoint" | "asking again"): void;
}

export class LogReader {
  readonly #pool: EndpointPool;
  readonly #watch: LogWatch;
  /** Blocks of a gap to ask for at once: all, as long as that is answered in time, and with no more than is read at once. */
  readonly #span = new SpanController(MAX_SPAN);
  /** How often an endpoint refused receipts of blocks in a row, in whatever words. */
  readonly #refusals = new Map<Endpoint, number>();

  constructor(pool: EndpointPool, watch: LogWatch) {
    this.#pool = pool;
    this.#watch = watch;
  }

  async logs(filter: LogFilter): Promise<ChainLog[]> {
    return (await this.#read(filter)).logs;
  }

  /** The logs of the first blocks of a range: of as many as `span` has learned that are answered at once. */
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
        if (mayBeOfSize(error) && blocks > 1) {
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
   * The logs of a range, each block of `toCheck` checked: where its bloom speaks of a contract without a log here, its
   * receipts decide.
   */
  async completeLogs(
    filter: LogFilter,
    toCheck: MaybeLater<readonly BlockHeader[]>,
    { strict = false, sampled, reaching }: CompleteLogsOptions = {},
  ): Promise<ChainLog[]> {
    const [{ logs, sources }, given] = await Promise.all([this.#read({ ...filter, reaching }), toCheck]);
    const headers = given.filter((header) => !sources.isSettled(header, filter.addresses.length));
    const isStrict = ({ number }: BlockHeader) => strict || sources.pieced.has(number);
    const certain = headers.filter((header) => isStrict(header) && spokenOf(header, filter).length > 0);
    const lenient = headers.filter((header) => !isStrict(header));
    const doubtful = [...certain, ...doubtfulBlocks(lenient, filter, logs)];
    let complete = logs;
    for (const header of lenient) {
      if (sampled?.has(header.number) !== true || doubtful.includes(header)) continue;
      if (spokenOf(header, filter).length === 0) continue;
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

  /** The logs with those of one block as they were found; the endpoint that gave other ones is benched. */
  #corrected(logs: ChainLog[], { number }: BlockHeader, found: ChainLog[], sources: Sources): ChainLog[] {
    const own = logs.filter((log) => log.blockNumber === number);
    if (sameLogs(own, found)) return logs;
    this.#watch.missed(Math.max(1, found.length - own.length));
    const liar = sources.get(number);
    if (liar !== undefined) this.#pool.benchLiar(liar);
    return logs.filter((log) => log.blockNumber !== number).concat(found);
  }

  /** The logs of one block from whoever can vouch for them. */
  async #settle(header: BlockHeader, filter: LogFilter, strict: boolean, sources: Sources): Promise<ChainLog[]> {
    const byReceipts = await this.#byReceipts(header, filter);
    if (byReceipts !== undefined) {
      this.#watch.settled("receipts");
      return byReceipts;
    }
    const first = sources.get(header.number);
    // What is asked here only adds logs that the bloom vouches for: one that left logs out may be asked while it rests.
    const second = first === undefined ? undefined : strict ? this.#pool.witness(first) : this.#pool.other(first);
    if (second === undefined && strict) {
      throw new AppError("VERIFY=receipts needs eth_getBlockReceipts, or a second endpoint to compare with", {
        code: "unverifiable",
        meta: { block: header.number },
      });
    }
    const named = spokenOf(header, filter) as Address[];
    // Providers refuse longer lists; by topic alone, a block is one small answer.
    const least = { ...filter, addresses: named.length > ADDRESS_CHUNK ? [] : named };
    const ask = (endpoint: Endpoint) => logsOfBlock(endpoint, header, least);
    const opinion = second && (await this.#opinion(second, ask, strict));
    const again = opinion ?? (await this.#pool.run(ask));
    const asked = await (first === undefined ? this.#pool.run(ask) : this.#pool.only(first, ask));
    this.#watch.settled(opinion === undefined ? "asking again" : "another endpoint");
    // Neither can prove what it left out; a log the header's bloom vouches for is believed.
    const spoken = new Set<string>(named);
    const union = new Map([...again, ...asked].map((log) => [log.logIndex, log]));
    return [...union.values()].filter((log) => spoken.has(log.address)).sort(inChainOrder);
  }

  #hasReceipts(endpoint: Endpoint): boolean {
    return (this.#refusals.get(endpoint) ?? 0) < MAX_REFUSALS;
  }

  /** Undefined where there are none, or none that prove anything. */
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
      // Nobody's receipts add up: on this chain they may not be made to. They prove nothing then.
      const cause = error instanceof AppError ? error.cause : undefined;
      if (cause instanceof RpcError && cause.kind === "lie") return undefined;
      throw error;
    }
  }

  /** @throws RpcError `unsupported` without a request when it has said so often enough */
  async #receiptsOf(endpoint: Endpoint, { number }: BlockHeader): Promise<unknown> {
    if (!this.#hasReceipts(endpoint)) throw new RpcError("unsupported", "the endpoint has no receipts of blocks");
    try {
      const result = await endpoint.request("eth_getBlockReceipts", [quantity(number)]);
      this.#refusals.set(endpoint, 0);
      return result;
    } catch (error) {
      if (isUnknownRefusal(error)) this.#refusals.set(endpoint, (this.#refusals.get(endpoint) ?? 0) + 1);
      throw error;
    }
  }

  /** What a second endpoint has; undefined when it does not say, where that need not be waited for. */
  async #opinion<T>(second: Endpoint, ask: (of: Endpoint) => Promise<T>, isNeeded: boolean): Promise<T | undefined> {
    try {
      return await this.#pool.only(second, ask);
    } catch (error) {
      if (isNeeded || !(error instanceof AppError)) throw error;
      return undefined;
    }
  }

  async #read(filter: Reading): Promise<{ logs: ChainLog[]; sources: Sources }> {
    const sources = new Sources(filter.most);
    const { addresses } = filter;
    if (addresses.length <= ADDRESS_CHUNK) return { logs: await this.#inTime(filter, sources), sources };
    let logs: ChainLog[];
    if (addresses.length > ADDRESS_CHUNK * MAX_CHUNKS) {
      logs = await this.#inTime({ ...filter, addresses: [], only: new Set(addresses) }, sources);
    } else {
      const chunks: Address[][] = [];
      for (let i = 0; i < addresses.length; i += ADDRESS_CHUNK) chunks.push(addresses.slice(i, i + ADDRESS_CHUNK));
      const parts = await Promise.all(chunks.map((chunk) => this.#inTime({ ...filter, addresses: chunk }, sources)));
      logs = parts.flat().sort(inChainOrder);
    }
    return { logs, sources };
  }

  /** In one answer; `count` is of all that came. @throws RpcError `range` when that is too large */
  #ask(filter: Reading, sources: Sources, signal?: AbortSignal): Promise<{ logs: ChainLog[]; count: number }> {
    const { fromBlock, toBlock, reaching, only } = filter;
    // A refusal that asking for less does not help may be this endpoint's alone.
    const failover = fromBlock === toBlock ? "any" : "lacking";
    const ask = async (endpoint: Endpoint) => {
      // Before: who catches up in between would show the block after it has left out logs.
      await assertReaching(endpoint, reaching);
      const all = await logsFrom(endpoint, filter);
      sources.add(fromBlock, toBlock, endpoint);
      // At once: all contracts' logs of a long gap are gigabytes.
      const logs = only === undefined ? all : all.filter((log) => only.has(log.address));
      return { logs, count: all.length };
    };
    return this.#pool.run(ask, { meta: { fromBlock, toBlock }, failover, ...(signal ? { signal } : {}) });
  }

  /** In parts that are answered in time; where one is not, it is smaller the next time: who reads has others to read for. */
  async #inTime(filter: Reading, sources: Sources): Promise<ChainLog[]> {
    const parts: ChainLog[][] = [];
    for (let fromBlock = filter.fromBlock; fromBlock <= filter.toBlock; ) {
      const toBlock = fromBlock + this.#span.take(filter.toBlock - fromBlock + 1) - 1;
      parts.push(await this.#split({ ...filter, fromBlock, toBlock }, sources));
      fromBlock = toBlock + 1;
    }
    return parts.flat();
  }

  /** Halves a range until its answers are small enough. */
  async #split(filter: Reading, sources: Sources): Promise<ChainLog[]> {
    const { fromBlock, toBlock } = filter;
    const blocks = toBlock - fromBlock + 1;
    try {
      const { logs, count } = await this.#ask(filter, sources);
      this.#span.succeeded(blocks, count);
      return sources.taken(logs);
    } catch (error) {
      if (mayBeOfSize(error)) this.#span.tookTooLong(blocks);
      else this.#span.failed(blocks);
      if (!(error instanceof RpcError && error.kind === "range")) throw error;
      if (fromBlock === toBlock) return sources.taken(await this.#largeBlock(filter, error, sources));
      const middle = Math.floor((fromBlock + toBlock) / 2);
      const lower = await this.#split({ ...filter, toBlock: middle }, sources);
      return lower.concat(await this.#split({ ...filter, fromBlock: middle + 1 }, sources));
    }
  }

  /**
   * One block alone is too large an answer: from its receipts, which are one answer; where there are none, by topic and
   * by address.
   * @throws AppError `block_too_large` when nothing is left to split
   */
  async #largeBlock(filter: Reading, refusal: RpcError, sources: Sources): Promise<ChainLog[]> {
    const { fromBlock: block, only } = filter;
    const header = await this.#pool.run((endpoint) => headerBy(endpoint, block), { meta: { block } });
    const watched = only === undefined ? filter : { ...filter, addresses: [...only] };
    const found = header && (await this.#byReceipts(header, watched));
    if (header !== undefined && found !== undefined) {
      sources.settled.set(block, { hash: header.hash, addresses: watched.addresses.length });
      return found;
    }
    sources.pieced.add(block);
    return (await this.#inPieces(filter, refusal, sources)).sort(inChainOrder);
  }

  /** One block's logs by parts of the filter; what is left out is found by who checks the block. */
  async #inPieces(filter: Reading, refusal: RpcError, sources: Sources): Promise<ChainLog[]> {
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

/** Parts of a filter that are smaller answers. @throws AppError `block_too_large` when there are none */
function piecesOf(filter: Reading, refusal: RpcError): Reading[] {
  const { topics, addresses, fromBlock } = filter;
  if (topics.length > 1) return topics.map((topic) => ({ ...filter, topics: [topic] }));
  if (addresses.length > 1) return addresses.map((address) => ({ ...filter, addresses: [address] }));
  throw new AppError(`block ${fromBlock} alone is more than the endpoint answers: ${refusal.message}`, {
    code: "block_too_large",
    meta: { ...refusal.meta, block: fromBlock },
    cause: refusal,
  });
}

export interface FirstLogsOptions {
  /** A block that whoever answers must have: one that is behind leaves out what it does not know yet. */
  readonly reaching?: BlockRef | undefined;
  readonly signal: AbortSignal;
}

export interface FirstLogs {
  readonly logs: ChainLog[];
  /** The last block that was asked for. */
  readonly toBlock: number;
}

interface Reading extends LogFilter {
  /** A block that whoever answers must have. */
  readonly reaching?: BlockRef | undefined;
  /** What is kept of an answer that was asked for by topic alone. */
  readonly only?: ReadonlySet<Address>;
}

/** @throws RpcError `transient` when the endpoint has not got that block: its logs may end before it */
async function assertReaching(endpoint: Endpoint, block: BlockRef | undefined): Promise<void> {
  if (block === undefined) return;
  if ((await headerBy(endpoint, block.number))?.hash === block.hash) return;
  throw new RpcError("transient", "the endpoint lacks the block that its logs are to reach", {
    meta: { endpoint: endpoint.label, block: block.number },
  });
}

/** Who answered for which blocks. */
class Sources {
  /** Blocks put together from answers to parts of the filter: that some of a contract's logs came says nothing there. */
  readonly pieced = new Set<number>();
  /** Blocks read from their receipts, and how many of the addresses were looked for. */
  readonly settled = new Map<number, { readonly hash: Hash; readonly addresses: number }>();
  readonly #ranges: { from: number; to: number; endpoint: Endpoint }[] = [];
  /** Logs there is room for. */
  #room: number;

  constructor(room = Number.POSITIVE_INFINITY) {
    this.#room = room;
  }

  /** The same logs, which are kept from here on. @throws AppError `too_many_logs` when there is no room for them */
  taken(logs: ChainLog[]): ChainLog[] {
    this.#room -= logs.length;
    if (this.#room >= 0) return logs;
    throw new AppError("there are more logs than there is room for", { code: "too_many_logs" });
  }

  add(from: number, to: number, endpoint: Endpoint): void {
    this.#ranges.push({ from, to, endpoint });
  }

  /** Whether nothing is in doubt in a block: its own receipts were read, for all addresses. */
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
  return verifyLogs(result, expected) as unknown as ChainLog[];
}

/** By hash (EIP-234): a node on another branch has no answer, instead of another block's. */
async function logsOfBlock(endpoint: Endpoint, { hash, number }: BlockHeader, filter: LogFilter): Promise<ChainLog[]> {
  const { fromBlock: _from, toBlock: _to, ...rest } = logFilterParams(filter);
  const result = await endpoint.request("eth_getLogs", [{ blockHash: hash, ...rest }]);
  const expected = { addresses: new Set<string>(filter.addresses), topics: new Set<string>(filter.topics) };
  const logs = verifyLogs(result, { ...expected, fromBlock: number, toBlock: number }) as unknown as ChainLog[];
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
