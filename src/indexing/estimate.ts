/**
 * Says what indexing a contract will cost before it is done: blocks, calls, units, seconds. The history is planned by
 * the code that reads it, against a model of the endpoint. A few real requests tell the model what nobody knows yet:
 * where the history begins, how many blocks the endpoint takes, how dense the transfers are.
 */
import { Interface } from "ethers";
import { LRUCache } from "lru-cache";
import type { Chain } from "../chains/chains.ts";
import { type PriceList, unitsOf } from "../chains/price-list.ts";
import type { Clock } from "../core/clock.ts";
import { ApiError } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import { Spending } from "../core/spending.ts";
import type { SpanController } from "../rpc/endpoint/span.ts";
import type { Verify } from "../rpc/port.ts";
import type { RpcChainReader, TransfersAnswer } from "../rpc/reader.ts";
import { isStateUnavailable } from "../rpc/rpc-errors.ts";
import { CHECKED_SPAN, FIRST_AHEAD, NEAR_FINAL, READ_AHEAD } from "./backfill.ts";
import { ReadAhead } from "./backfill-reads.ts";
import { between, PARTS, readText, STANDARD_FORMS } from "./identify.ts";
import { MAX_CHECKED } from "./joining.ts";

/** Most calls that an estimate makes. */
const MAX_CALLS = 20;
/** Calls that search for the deployment, and the share of the history that its place may be wrong by. */
const MAX_SEARCH = 7;
const NEAR_ENOUGH = 0.04;
/** Places of the history at which transfers are counted, as shares of it. */
const PLACES = [0, 0.5, 0.9, 0.25, 0.75] as const;
const KEPT_MS = 600_000;
const MAX_KEPT = 1_000;
/** Logs of an answer from which on their number decides about its size: half of what a span aims at. */
const DENSE_LOGS = 5_000;
/** A place may be this much denser than the densest one that was looked at. */
const DENSER = 3;
/** And another one this much sparser than the sparsest. */
const SPARSER = 0.3;
/** Transfers that are decoded, verified and stored in a second, and the time of work that needs no node. */
const TRANSFERS_PER_SECOND = 300_000;
const OVERHEAD_MS = 100;
/** Round trips of the identification and of the join, beside the search for the deployment. */
const TRIPS = 5;
/** Time from the estimate to the join of a young collection. */
const UNTIL_JOIN_SECONDS = 30;
const ABI = new Interface(["function name() view returns (string)"]);

interface Range {
  readonly low: number;
  readonly high: number;
}

export interface Estimate {
  readonly name: string;
  readonly blocks: { readonly from: number; readonly to: number; readonly count: number };
  /** Transfers of the whole history, by the density at a few places. */
  readonly transfers: Range;
  /** By method. */
  readonly calls: Readonly<Record<string, Range>>;
  readonly total: Range;
  readonly units: Range & { readonly list: string };
  readonly seconds: number;
  readonly limits: {
    /** Most blocks that the endpoint takes per request; null if none is known. */
    readonly maxBlocks: number | null;
    readonly source: "known" | "probed";
    readonly batch: boolean;
    readonly multicall: boolean;
  };
  /** Calls that this estimate made. */
  readonly probes: number;
  /** Ms since the epoch. */
  readonly time: number;
}

interface EstimatorOptions {
  readonly chain: Chain;
  readonly reader: RpcChainReader;
  readonly clock: Clock;
  readonly prices: PriceList;
  readonly verify: Verify;
  /** True while a process follows the chain, as far as this one knows. */
  readonly isFollowed: () => boolean;
}

/** What the requests of an estimate have told. */
interface Facts {
  readonly name: string;
  readonly head: number;
  readonly final: number;
  readonly start: number;
  readonly isArchive: boolean;
  readonly hasMulticall: boolean;
  /** Calls for the newest final block. */
  readonly finalCalls: number;
  /** Logs and transfers per block at the places that were looked at. One log can hold several transfers. */
  readonly densities: readonly Density[];
  /** True if one answer had the whole history. */
  readonly isWhole: boolean;
  /** The most logs of an answer, if the endpoint refused more. */
  readonly maxLogs: number | undefined;
  /** Ms of a request for logs. */
  readonly rangeMs: number;
}

interface Density {
  readonly logs: number;
  readonly transfers: number;
}

/** What an endpoint is asked in a plan: how dense the logs are, and how many it gives at once. */
interface Model {
  readonly density: number;
  readonly maxLogs?: number | undefined;
}

/** The calls of a plan by method. */
type Plan = Record<string, number>;

/** The plan of a history, and its requests: several calls can be one. */
interface HistoryPlan {
  readonly calls: Plan;
  readonly requests: number;
}

class BudgetSpent extends Error {}

export class Estimator {
  readonly #options: EstimatorOptions;
  readonly #kept: LRUCache<Address, Estimate>;

  constructor(options: EstimatorOptions) {
    this.#options = options;
    const { clock } = options;
    this.#kept = new LRUCache({
      max: MAX_KEPT,
      ttl: KEPT_MS,
      perf: { now: () => clock.monotonic() },
      ttlResolution: 0,
    });
  }

  /** Returns the estimate for a contract, at most ten minutes old. @throws ApiError 404 if there is no contract */
  async of(address: Address): Promise<Estimate> {
    const kept = this.#kept.get(address);
    if (kept !== undefined) return kept;
    const spending = new Spending();
    const known = this.#options.reader.historyLimits();
    const facts = await spending.run(() => this.#look(address, spending));
    const estimate = await this.#estimate(facts, spending.total, known.maxBlocks !== null);
    this.#kept.set(address, estimate);
    return estimate;
  }

  async #look(address: Address, spending: Spending): Promise<Facts> {
    const { reader, chain } = this.#options;
    const { header, results } = await reader.callsAtHead([{ to: address, data: ABI.encodeFunctionData("name") }]);
    const hasMulticall = (spending.calls.get("eth_call") ?? 0) < 2;
    const head = header.number;
    const before = spending.total;
    const { number: final } = await reader.finalized(header);
    const finalCalls = spending.total - before;
    if ((await reader.code(address, head)) === "0x") {
      const text = `address: there is no contract at ${address} on ${chain.name}`;
      throw new ApiError(404, "not_a_contract", text);
    }
    const { start, isArchive } = await this.#deployment(address, head, spending);
    const sample = await this.#sample(address, { from: start, to: head }, spending);
    return { name: readText(results[0]), head, final, start, isArchive, hasMulticall, finalCalls, ...sample };
  }

  /** Searches for the deployment, one call at a time, until its place is known well enough. */
  async #deployment(address: Address, head: number, spending: Spending) {
    const { reader } = this.#options;
    const before = spending.total;
    let [without, having] = [-1, head];
    try {
      while (having - without > 1 && spending.total - before < MAX_SEARCH) {
        if (having - without <= (head - having) * NEAR_ENOUGH) break;
        const middle = without + Math.ceil((having - without) / 2);
        if ((await reader.code(address, middle)) === "0x") without = middle;
        else having = middle;
      }
    } catch (error) {
      if (!isStateUnavailable(error)) throw error;
      return { start: 0, isArchive: false };
    }
    return { start: having - without > 1 ? Math.floor((without + having) / 2) : having, isArchive: true };
  }

  /** Reads transfers at some places, as the backfill does. So the pool learns what the endpoint takes, too. */
  async #sample(address: Address, { from, to }: { from: number; to: number }, spending: Spending) {
    const { reader, clock } = this.#options;
    const densities: Density[] = [];
    let [requests, calls, mostLogs] = [0, 0, 0];
    // The quickest one: the first also starts the thread that decodes.
    let rangeMs = Number.POSITIVE_INFINITY;
    let isWhole = false;
    const use = async (answer: TransfersAnswer) => {
      if (spending.total + (answer.parts ?? 1) > MAX_CALLS) throw new BudgetSpent();
      const started = clock.monotonic();
      calls++;
      const decoded = (await answer.askInParts?.([]))?.decoded ?? (await answer.ask());
      rangeMs = Math.min(rangeMs, clock.monotonic() - started);
      requests++;
      return { decoded, answer };
    };
    for (const place of PLACES) {
      const fromBlock = from + Math.floor((to - from) * place);
      if (fromBlock > to) break;
      try {
        const filter = { address, forms: STANDARD_FORMS, fromBlock, toBlock: to };
        const { value, toBlock } = await reader.transfers(filter, use);
        const blocks = toBlock - fromBlock + 1;
        const { logs, count } = value.decoded;
        reader.recordHistory(value.answer, blocks, logs);
        densities.push({ logs: logs / blocks, transfers: count / blocks });
        mostLogs = Math.max(mostLogs, logs);
        isWhole = fromBlock === from && toBlock === to;
        if (isWhole) break;
      } catch (error) {
        if (error instanceof BudgetSpent) break;
        throw error;
      }
    }
    const isRefused = calls > requests && reader.historyLimits().maxBlocks === null;
    const maxLogs = isRefused ? Math.max(1, mostLogs) : undefined;
    return { densities, isWhole, maxLogs, rangeMs: requests === 0 ? 0 : rangeMs };
  }

  async #estimate(facts: Facts, probes: number, wasKnown: boolean): Promise<Estimate> {
    const { reader, prices, clock } = this.#options;
    const { head, final, start, densities, isWhole, maxLogs, name } = facts;
    const count = Math.max(0, head - start + 1);
    const { maxBlocks, hasBatches } = reader.historyLimits();
    const { mean, least, most } = spreadOf(densities.map(({ logs }) => logs));
    const perBlock = spreadOf(densities.map(({ transfers }) => transfers));
    const history = { from: start, to: final };
    const ofBlocks = await this.#history(history, { density: mean });
    // If the endpoint's limit of blocks keeps the answers small, the number of logs decides nothing.
    const isDense = maxBlocks === null || maxBlocks * most > DENSE_LOGS;
    const low = isDense && !isWhole ? await this.#history(history, { density: least * SPARSER }) : ofBlocks;
    const high = isDense && !isWhole ? await this.#history(history, { density: most, maxLogs }) : ofBlocks;
    const rest = this.#around(facts, maxBlocks);
    const calls: Record<string, Range> = {};
    for (const method of new Set([low.calls, high.calls, rest.low, rest.high].flatMap((plan) => Object.keys(plan)))) {
      const counts = [low.calls, high.calls].map((plan) => plan[method] ?? 0);
      const [fewest, most] = [rest.low, rest.high].map((plan) => plan[method] ?? 0) as [number, number];
      calls[method] = { low: Math.min(...counts) + fewest, high: Math.max(...counts) + most };
    }
    const sum = (weigh: (method: string) => number): Range => {
      const weighed = Object.entries(calls).map(([method, range]) => ({ ...range, weight: weigh(method) }));
      const low = weighed.reduce((all, one) => all + one.low * one.weight, 0);
      return { low, high: weighed.reduce((all, one) => all + one.high * one.weight, 0) };
    };
    const transfers = {
      low: Math.round(perBlock.least * count),
      high: Math.round((isWhole ? perBlock.mean : Math.max(perBlock.mean, perBlock.most)) * count),
    };
    return {
      name,
      blocks: { from: start, to: head, count },
      transfers,
      calls,
      total: sum(() => 1),
      units: { ...sum((method) => unitsOf(prices, method)), list: prices.name },
      seconds: this.#seconds(facts, ofBlocks.requests, perBlock.mean * count),
      limits: {
        maxBlocks,
        source: wasKnown ? "known" : "probed",
        batch: hasBatches,
        multicall: facts.hasMulticall,
      },
      probes,
      time: clock.now(),
    };
  }

  /** Plans the backfill with its own classes, against an endpoint that answers as the limits and the density say. */
  async #history({ from, to }: { from: number; to: number }, { density, maxLogs }: Model): Promise<HistoryPlan> {
    const { reader, verify } = this.#options;
    const plan: Plan = { eth_getLogs: 0, eth_getBlockByNumber: 0 };
    let requests = 0;
    const add = (method: string, count: number) => {
      plan[method] = (plan[method] ?? 0) + count;
    };
    const { span, maxBlocks, hasBatches, endpoints } = reader.historyLimits();
    const cap = maxBlocks ?? Number.POSITIVE_INFINITY;
    if (verify !== "sample") {
      const ranges = Math.ceil(Math.max(0, to - from + 1) / CHECKED_SPAN);
      add("eth_getLogs", ranges * Math.max(1, Math.ceil(CHECKED_SPAN / cap)));
      add("eth_getBlockByNumber", Math.max(0, to - from + 1));
      return { calls: plan, requests: 2 * ranges };
    }
    const partsOf = (blocks: number, size: number) => (hasBatches ? Math.min(span.parts, Math.ceil(blocks / size)) : 1);
    const read = async (fromBlock: number, end: number) => {
      const most = Math.min(cap, Math.max(1, Math.floor((maxLogs ?? Number.POSITIVE_INFINITY) / density)));
      const size = takeAccepted(span, end - fromBlock + 1, most, () => add("eth_getLogs", 1));
      const parts = partsOf(end - fromBlock + 1, size);
      const toBlock = Math.min(end, fromBlock + size * parts - 1);
      const blocks = toBlock - fromBlock + 1;
      requests++;
      add("eth_getLogs", Math.ceil(blocks / size) + (endpoints > 1 ? 0.01 : 0));
      add("eth_getBlockByNumber", toBlock < to && toBlock > to - NEAR_FINAL ? 2 : 1);
      // Other ranges are under way meanwhile.
      await Promise.resolve();
      span.succeeded(blocks, blocks * density, parts);
      return { toBlock };
    };
    const nextSpan = () => span.next() * (hasBatches ? span.parts : 1);
    const ranges = new ReadAhead({ fromBlock: from, toBlock: to, span: nextSpan, read }, FIRST_AHEAD);
    while (!ranges.isOver) {
      await ranges.take();
      ranges.places = READ_AHEAD;
    }
    for (const method of Object.keys(plan)) plan[method] = Math.round(plan[method] ?? 0);
    return { calls: plan, requests };
  }

  /** The least and the most calls before and after the history: what the contract is, and blocks that are not final. */
  #around({ head, final, start, isArchive, hasMulticall, finalCalls }: Facts, maxBlocks: number | null) {
    const { isFollowed, chain } = this.#options;
    // However young the contract is, the join reads from the final block on: a reorg may move its first log.
    const unfinal = Math.min(head - final, MAX_CHECKED);
    // The newest block with the answers, the final block twice, and the newest block with it.
    const headers = 2 + 2 * finalCalls;
    const plan = (checked: number): Plan => ({
      eth_call: hasMulticall ? 1 : QUESTIONS,
      eth_getCode: 1 + (isArchive ? searchCalls(start, head) : between(-1, head).length),
      // Blocks that no header covers are checked by the newest block, and by the end of the history.
      eth_getBlockByNumber: headers + checked + (head - final > MAX_CHECKED ? 2 : 0),
      eth_getLogs: Math.max(1, Math.ceil((head - final) / (maxBlocks ?? Number.POSITIVE_INFINITY))),
    });
    if (!isFollowed()) return { low: plan(unfinal), high: plan(unfinal) };
    // The follower may have these headers, all but the newest. Until the join, the chain makes further blocks.
    const further = Math.ceil(UNTIL_JOIN_SECONDS / chain.blockSeconds);
    return { low: plan(Math.min(1, unfinal)), high: plan(Math.min(unfinal + further, MAX_CHECKED)) };
  }

  /** Seconds until the collection is ready: round trips one after the other, and ranges side by side. */
  #seconds({ rangeMs, head, start }: Facts, requests: number, transfers: number): number {
    const trips = TRIPS + Math.ceil(searchCalls(start, head) / (PARTS - 1)) + requests / READ_AHEAD;
    const ms = OVERHEAD_MS + trips * rangeMs + (transfers / TRANSFERS_PER_SECOND) * 1_000;
    return Math.round(ms / 100) / 10;
  }
}

/** The mean of the densities, and the bounds between which places that were not looked at lie. */
function spreadOf(densities: readonly number[]) {
  const mean = densities.reduce((sum, one) => sum + one, 0) / Math.max(1, densities.length);
  return { mean, least: Math.min(mean, ...densities), most: Math.max(0, ...densities) * DENSER };
}

/** Questions that the identification asks a contract, each a call without Multicall3. */
const QUESTIONS = 8;

/** Takes a size that the endpoint accepts. @param onRefused called for each refusal */
function takeAccepted(span: SpanController, blocks: number, most: number, onRefused: () => void): number {
  for (;;) {
    const size = span.take(blocks);
    if (size <= most) return size;
    onRefused();
    span.refused(size, { ofResults: true });
  }
}

/** Number of calls with which the identification finds the deployment. */
function searchCalls(start: number, head: number): number {
  let calls = 0;
  let [without, having] = [-1, head];
  while (having - without > 1) {
    const blocks = between(without, having);
    calls += blocks.length;
    const first = blocks.findIndex((block) => block >= start);
    without = (first < 0 ? blocks.at(-1) : blocks[first - 1]) ?? without;
    having = blocks[first] ?? having;
  }
  return calls;
}
