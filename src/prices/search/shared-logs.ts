/**
 * A reader for many questions about one stretch of blocks. The logs of a pool are read once for the whole stretch, and
 * each question gets its part of them. Bounds the requests for logs of all questions together.
 */
import { AppError } from "../../core/errors.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { BlockRange } from "../../events/types.ts";
import { inChainOrder } from "../../rpc/decode/verify-logs.ts";
import type {
  ArchivedPart,
  BlockHeader,
  Call,
  CallResult,
  CallsAtHead,
  ChainLog,
  CheckAllowance,
  LogClaim,
  LogFilter,
} from "../../rpc/port.ts";
import type { PoolId } from "../market/pools.ts";
import { poolIdOf, setsPrice } from "../styles/styles.ts";
import { isTooManyLogs, type PastReader } from "./past-source.ts";

/** All state logs of a pool in a range of blocks, in chain order. */
interface Covered {
  fromBlock: number;
  toBlock: number;
  logs: readonly ChainLog[];
}

interface SharedOptions {
  readonly reader: PastReader;
  /** The stretch that the questions are about. */
  readonly stretch: BlockRange;
  /** Blocks up to this number are final: their headers are asked for once. */
  readonly finalized: number;
  /** Most requests for logs. Beyond it, reads fail with `too_many_logs`; with 0, so do those of state. */
  readonly requests: number;
}

/** Requests by which the points of a series have archives checked, besides those of the first point: as many as for logs. */
const CHECKS = 64;

export class SharedLogs implements PastReader {
  readonly #options: SharedOptions;
  readonly #covered = new Map<PoolId, Covered>();
  readonly #headers = new Map<number, BlockHeader>();
  /** Reads of the newest state, by their calls: the questions ask for the same facts. */
  readonly #newest = new Map<string, Promise<CallsAtHead>>();
  /** Blocks up to this number have no state, as the node said. */
  #statelessTo = -1;
  #left: number;
  /** True if the whole stretch is too much for one read. */
  #isTooWide = false;
  /** What archives told of the covered blocks. */
  #archived: ArchivedPart[] = [];
  /** What was confirmed of it: ranges of pools. */
  readonly #confirmed = new Map<string, BlockRange[]>();
  /** What all questions after the first one may spend on checks of archives. */
  readonly #checks: CheckAllowance = { left: CHECKS };
  #hasChecked = false;
  #checking: Promise<unknown> = Promise.resolve();
  /** Reads wait for each other, since one covers what the next one needs. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: SharedOptions) {
    this.#options = options;
    this.#left = options.requests;
  }

  head(): Promise<BlockHeader> {
    return this.#options.reader.head();
  }

  async header(number: number): Promise<BlockHeader | undefined> {
    return (await this.headers([number]))[0];
  }

  async headers(numbers: readonly number[]): Promise<(BlockHeader | undefined)[]> {
    const missing = numbers.filter((number) => !this.#headers.has(number));
    const read = missing.length === 0 ? [] : await this.#options.reader.headers(missing);
    const found = new Map(missing.map((number, at) => [number, read[at]]));
    for (const header of read) {
      if (header !== undefined && header.number <= this.#options.finalized) this.#headers.set(header.number, header);
    }
    return numbers.map((number) => this.#headers.get(number) ?? found.get(number));
  }

  async calls(calls: readonly Call[], block: number | "latest"): Promise<CallResult[]> {
    if (this.#options.requests === 0) throw new AppError("only what is stored may be used", { code: "too_many_logs" });
    const isStateless = block !== "latest" && block <= this.#statelessTo;
    if (isStateless) throw new AppError("the node has no state of this block", { code: "state_unavailable" });
    try {
      return await this.#options.reader.calls(calls, block);
    } catch (error) {
      const isMissing = error instanceof AppError && error.code === "state_unavailable";
      if (isMissing && block !== "latest") this.#statelessTo = Math.max(this.#statelessTo, block);
      throw error;
    }
  }

  callsAtHead(calls: readonly Call[]): Promise<CallsAtHead> {
    const key = calls.map(({ to, data }) => to + data).join();
    const shared = this.#newest.get(key) ?? this.#options.reader.callsAtHead(calls);
    this.#newest.set(key, shared);
    return shared;
  }

  logs(filter: LogFilter): Promise<ChainLog[]> {
    const read = this.#turn.then(() => this.#read(filter));
    this.#turn = read.catch(() => undefined);
    return read;
  }

  async #read(filter: LogFilter): Promise<ChainLog[]> {
    const { fromBlock, toBlock } = filter;
    const pools = poolsIn(filter);
    const gaps = new Map<string, { readonly range: BlockRange; readonly pools: PoolId[] }>();
    for (const pool of pools) {
      for (const range of this.#gapsOf(pool, filter)) {
        const key = `${range.fromBlock}-${range.toBlock}`;
        const gap = gaps.get(key) ?? { range, pools: [] };
        gap.pools.push(pool);
        gaps.set(key, gap);
      }
    }
    for (const { range, pools: lacking } of gaps.values()) await this.#cover(filter, range, lacking);
    for (const part of this.#archived) {
      if (part.fromBlock <= toBlock && part.toBlock >= fromBlock) filter.onArchived?.(part);
    }
    const logs = pools.flatMap((pool) => this.#covered.get(pool)?.logs ?? []);
    const wanted = logs.filter(({ blockNumber }) => blockNumber >= fromBlock && blockNumber <= toBlock);
    return wanted.sort(inChainOrder);
  }

  /** Has claims checked that no question had checked before. Forgets what an archive told that was found wrong. */
  #sharedPart(part: ArchivedPart): ArchivedPart {
    const check = async (claims: readonly LogClaim[]): Promise<readonly number[]> => {
      const open = claims.filter((claim) => !this.#isConfirmed(claim));
      let confirmed: readonly number[];
      try {
        confirmed = open.length === 0 ? [] : await part.check(open, this.#hasChecked ? this.#checks : undefined);
        this.#hasChecked = true;
      } catch (error) {
        this.#covered.clear();
        this.#archived = [];
        throw error;
      }
      for (const [at, claim] of open.entries()) {
        const ranges = this.#confirmed.getOrInsertComputed(nameOf(claim), () => []);
        ranges.push({ fromBlock: confirmed[at]!, toBlock: claim.toBlock });
      }
      return claims.map((claim) => confirmed[open.indexOf(claim)] ?? claim.fromBlock);
    };
    // One after the other: what one question has confirmed, the next one needs not.
    const inTurn: ArchivedPart["check"] = (claims) => {
      const checked = this.#checking.then(() => check(claims));
      this.#checking = checked.catch(() => undefined);
      return checked;
    };
    return { ...part, check: inTurn };
  }

  #isConfirmed(claim: LogClaim): boolean {
    const ranges = this.#confirmed.get(nameOf(claim)) ?? [];
    return ranges.some(({ fromBlock, toBlock }) => fromBlock <= claim.fromBlock && toBlock >= claim.toBlock);
  }

  /**
   * What must be read of a pool. A search back needs nothing below an event that sets the price, so a pool with such an
   * event in the known part of the range lacks nothing below it.
   */
  #gapsOf(pool: PoolId, { fromBlock, toBlock }: BlockRange): BlockRange[] {
    const covered = this.#covered.get(pool);
    if (covered === undefined) {
      const { stretch } = this.#options;
      const [from, to] = [Math.min(fromBlock, stretch.fromBlock), Math.max(toBlock, stretch.toBlock)];
      return [this.#isTooWide ? { fromBlock, toBlock } : { fromBlock: from, toBlock: to }];
    }
    const isFound = covered.logs.some(
      (log) => log.blockNumber >= fromBlock && log.blockNumber <= toBlock && setsPrice(log),
    );
    const below = fromBlock < covered.fromBlock && !isFound;
    const above = toBlock > covered.toBlock;
    return [
      ...(below ? [{ fromBlock, toBlock: covered.fromBlock - 1 }] : []),
      ...(above ? [{ fromBlock: covered.toBlock + 1, toBlock }] : []),
    ];
  }

  /** Reads a range of some pools. If the whole stretch is too much, only what this question needs. */
  async #cover(filter: LogFilter, range: BlockRange, pools: readonly PoolId[]): Promise<void> {
    const isWhole = range.fromBlock < filter.fromBlock || range.toBlock > filter.toBlock;
    try {
      // A whole stretch that the node gives in small pieces must leave requests for single questions.
      await this.#take(filter, range, pools, isWhole ? Math.ceil(this.#left / 2) : this.#left);
    } catch (error) {
      if (!isWhole || !isTooManyLogs(error)) throw error;
      this.#isTooWide = true;
      await this.#take(filter, filter, pools, this.#left);
    }
  }

  async #take(filter: LogFilter, range: BlockRange, pools: readonly PoolId[], most: number): Promise<void> {
    const { fromBlock, toBlock } = range;
    const requests = { left: most };
    let logs: ChainLog[];
    try {
      const onArchived = (part: ArchivedPart) => this.#archived.push(this.#sharedPart(part));
      logs = await this.#options.reader.logs({ ...ofPools(filter, pools), fromBlock, toBlock, requests, onArchived });
    } finally {
      this.#left -= most - Math.max(0, requests.left);
    }
    const own = Map.groupBy(logs, poolIdOf);
    for (const pool of pools) {
      const found = own.get(pool) ?? [];
      const before = this.#covered.get(pool);
      if (before === undefined) this.#covered.set(pool, { fromBlock, toBlock, logs: found });
      else if (toBlock < before.fromBlock) Object.assign(before, { fromBlock, logs: [...found, ...before.logs] });
      else Object.assign(before, { toBlock, logs: [...before.logs, ...found] });
    }
  }
}

const nameOf = ({ addresses, moreTopics }: LogClaim): string => [addresses, moreTopics].join(" ");

/** The pools that a filter names: by their own addresses, or by their hashes inside one contract. */
const poolsIn = ({ addresses, moreTopics }: LogFilter): readonly PoolId[] => moreTopics?.[0] ?? addresses;

/** The filter for some of its pools. */
const ofPools = (filter: LogFilter, pools: readonly PoolId[]): LogFilter =>
  filter.moreTopics === undefined
    ? { ...filter, addresses: pools as readonly Address[] }
    : { ...filter, moreTopics: [pools as readonly Hash[]] };
