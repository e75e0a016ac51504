/**
 * Says what indexing a contract will cost before it is done: blocks, calls, units, seconds. The history is planned by
 * the code that reads it, against a model of the endpoint. A few real requests tell the model what nobody knows yet:
 * where the history begins, how many blocks the endpoint takes, how dense the transfers are.
 */
import { Interface } from "ethers/abi";
import type { LRUCache } from "lru-cache";
import type { ChainWork } from "../../chain/consumer.ts";
import { type PriceList, unitsOf } from "../../chains/price-lists.ts";
import { Budget } from "../../core/budget.ts";
import { countedCache } from "../../core/counted-cache.ts";
import { Refusal } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import type { Archives } from "../../rpc/archive/archives.ts";
import { MAX_BYTES } from "../../rpc/archive/portal.ts";
import { SPANS, type SpanController } from "../../rpc/endpoint/span-controller.ts";
import type { TransfersAnswer } from "../../rpc/reading/reader.ts";
import { isStateUnavailable } from "../../rpc/rpc-errors.ts";
import { CHECKED_SPAN, NEAR_FINAL } from "./checked-reads.ts";
import { SAMPLED_BLOCKS } from "./history.ts";
import { QUESTIONS, readText, STANDARD_FORMS } from "./identify.ts";
import { MAX_CHECKED, MAX_PART } from "./joining.ts";
import { between, PARTS } from "./lives.ts";
import type { Estimate } from "./models.ts";
import { CALLS_AT_ONCE, MAX_PROVEN } from "./proof.ts";
import { FIRST_AHEAD, READ_AHEAD, ReadAhead } from "./read-ahead.ts";

/** Most calls that an estimate makes. */
const MAX_CALLS = 20;
/** Calls that search for the deployment, and the share of the history that its place may be wrong by. */
const MAX_SEARCH = 7;
const NEAR_ENOUGH = 0.04;
/** Calls that look for the endpoint's limit of blocks. */
const PROBES = 2;
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
/** Bytes of a transfer in an archive's answer, with its block's header. */
const ARCHIVE_BYTES = 2_500;
/** Round trips of the identification and of the join, beside the search for the deployment. */
const TRIPS = 5;
/** Time from the estimate to the join of a young collection. */
const UNTIL_JOIN_SECONDS = 30;
const ABI = new Interface(["function name() view returns (string)", "function symbol() view returns (string)"]);

type EstimateRange = Estimate["total"];

interface EstimatorOptions extends Pick<ChainWork, "chain" | "reader" | "clock" | "verify"> {
  readonly prices: PriceList;
  readonly archives: Archives;
  /** True while a process follows the chain, as far as this one knows. */
  readonly isFollowed: () => boolean;
}

/** What the requests of an estimate have told. */
interface ContractFacts {
  readonly name: string;
  readonly head: number;
  readonly final: number;
  /** The first block that can be that of the deployment, and the last one. */
  readonly start: number;
  readonly startAtLatest: number;
  readonly isArchive: boolean;
  readonly runsTogether: boolean;
  /** Calls for the newest final block. */
  readonly finalCalls: number;
  /** Logs and transfers per block at the places that were looked at. One log can hold several transfers. */
  readonly densities: readonly Density[];
  /** Transfers at these places. */
  readonly seen: number;
  /** True if one answer had the whole history. */
  readonly isWhole: boolean;
  /** The most logs of an answer, if the endpoint refused more. */
  readonly maxLogs: number | undefined;
  /** Ms of a request for logs. */
  readonly rangeMs: number;
}

interface Blocks {
  readonly from: number;
  readonly to: number;
}

/** The blocks that may hold the history. */
interface Sampled extends Blocks {
  readonly startAtLatest: number;
}

interface Density {
  readonly logs: number;
  readonly transfers: number;
}

/** What an endpoint is asked in a plan: how dense the logs are, and how many it gives at once. */
interface Model {
  readonly density: number;
  readonly maxLogs?: number | undefined;
  /** Most blocks per request, if the endpoint's limit is not known. Default: no limit. */
  readonly maxBlocks?: number | undefined;
}

/** The calls of a plan by method. */
type PlannedCalls = Record<string, number>;

/** The plan of a history, and its requests: several calls can be one. */
interface HistoryPlan {
  readonly calls: PlannedCalls;
  readonly requests: number;
}

class BudgetSpent extends Error {}

export class Estimator {
  readonly #options: EstimatorOptions;
  readonly #kept: LRUCache<Address, Estimate>;

  constructor(options: EstimatorOptions) {
    this.#options = options;
    const { clock } = options;
    this.#kept = countedCache(MAX_KEPT, { ttl: KEPT_MS, perf: { now: () => clock.monotonic() }, ttlResolution: 0 });
  }

  /** Returns the estimate for a contract, at most ten minutes old. @throws Refusal `not_found` if there is no contract */
  async of(address: Address): Promise<Estimate> {
    const kept = this.#kept.get(address);
    if (kept !== undefined) return kept;
    const spending = new Budget();
    const known = this.#options.reader.historyLimits();
    const facts = await spending.run(() => this.#readFacts(address, spending));
    const estimate = await this.#estimate(facts, spending.total, known.maxBlocks !== null);
    this.#kept.set(address, estimate);
    return estimate;
  }

  async #readFacts(address: Address, spending: Budget): Promise<ContractFacts> {
    const { reader, chain } = this.#options;
    const questions = (["name", "symbol"] as const).map((one) => ({ to: address, data: ABI.encodeFunctionData(one) }));
    const { header, results } = await reader.callsAtHead(questions);
    // Alone, each takes a call of its own, after those that tried them together.
    const runsTogether = (spending.calls.get("eth_call") ?? 0) <= 2;
    const head = header.number;
    const before = spending.total;
    const { number: final } = await reader.finalized(header);
    const finalCalls = spending.total - before;
    if ((await reader.code(address, head)) === "0x") {
      const text = `address: there is no contract at ${address} on ${chain.name}`;
      throw new Refusal("not_a_contract", text);
    }
    const found = await this.#deployment(address, head, spending);
    const { start: from, startAtLatest } = found;
    const sample = await this.#sample(address, { from, startAtLatest, to: head }, spending);
    if (!sample.isWhole) await this.#probe(head - found.start + 1, head, spending);
    return { name: readText(results[0]), head, final, runsTogether, finalCalls, ...found, ...sample };
  }

  /** Searches for the deployment, one call at a time, until its place is known well enough. */
  async #deployment(address: Address, head: number, spending: Budget) {
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
      // Without old state, the identification reads from the first block on.
      return { start: 0, startAtLatest: 0, isArchive: false };
    }
    return { start: without + 1, startAtLatest: having, isArchive: true };
  }

  /**
   * Asks for logs of many blocks, as `doctor` does, if no limit of the endpoint was met. A history takes larger requests
   * than the few that an estimate makes.
   */
  async #probe(blocks: number, head: number, spending: Budget): Promise<void> {
    const { reader } = this.#options;
    for (const span of SPANS) {
      const { maxBlocks, answered } = reader.historyLimits();
      if (maxBlocks !== null || span <= answered || spending.total >= MAX_CALLS) return;
      if (span <= blocks && (await reader.probeSpan(span, head))) return;
    }
  }

  /** Reads transfers at some places, as the backfill does. So the pool learns what the endpoint takes, too. */
  async #sample(address: Address, { from, startAtLatest, to }: Sampled, spending: Budget) {
    const { reader, clock } = this.#options;
    const densities: Density[] = [];
    let [requests, calls, mostLogs, seen] = [0, 0, 0, 0];
    // The quickest one: the first also starts the thread that decodes.
    let rangeMs = Number.POSITIVE_INFINITY;
    let isWhole = false;
    // If nothing was refused yet, some calls are left to look for the endpoint's limit.
    const left = () => {
      const isOpen = calls === requests && reader.historyLimits().maxBlocks === null;
      return MAX_CALLS - spending.total - (isOpen && densities.length > 0 ? PROBES : 0);
    };
    const use = async (answer: TransfersAnswer) => {
      if (left() < (answer.parts ?? 1)) throw new BudgetSpent();
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
        // Not more ranges at once than calls are left.
        const fitting = reader.historyLimits().span.take(to - fromBlock + 1) * Math.max(1, left());
        const filter = { address, forms: STANDARD_FORMS, fromBlock, toBlock: Math.min(to, fromBlock + fitting - 1) };
        const { value, toBlock } = await reader.transfers(filter, use);
        const blocks = toBlock - fromBlock + 1;
        const { logs, count } = value.decoded;
        reader.recordHistory(value.answer, blocks, logs);
        // Blocks that may all be before the deployment tell no density.
        if (logs > 0 || toBlock >= startAtLatest) densities.push({ logs: logs / blocks, transfers: count / blocks });
        mostLogs = Math.max(mostLogs, logs);
        seen = Math.max(seen, count);
        isWhole = fromBlock === from && toBlock === to;
        if (isWhole) break;
      } catch (error) {
        if (error instanceof BudgetSpent) break;
        throw error;
      }
    }
    const isRefused = calls > requests && reader.historyLimits().maxBlocks === null;
    const maxLogs = isRefused ? Math.max(1, mostLogs) : undefined;
    return { densities, seen, isWhole, maxLogs, rangeMs: requests === 0 ? 0 : rangeMs };
  }

  async #estimate(facts: ContractFacts, probes: number, wasKnown: boolean): Promise<Estimate> {
    const { reader, prices, clock } = this.#options;
    const { head, start, startAtLatest, densities, name } = facts;
    const count = Math.max(0, head - start + 1);
    const { maxBlocks, answered, hasBatches } = reader.historyLimits();
    const perBlock = spreadOf(densities.map(({ transfers }) => transfers));
    const { low, high, mean } = await this.#bounds(facts);
    const rest = this.#around(facts, maxBlocks);
    const calls: Record<string, EstimateRange> = {};
    for (const method of new Set([low, high ?? {}, rest.low, rest.high].flatMap((plan) => Object.keys(plan)))) {
      const [fewest, most] = [rest.low, rest.high].map((plan) => plan[method] ?? 0) as [number, number];
      const counts = [low[method] ?? 0, high?.[method] ?? 0];
      calls[method] = {
        low: (high === null ? (low[method] ?? 0) : Math.min(...counts)) + fewest,
        high: high === null ? null : Math.max(...counts) + most,
      };
    }
    const sum = (weigh: (method: string) => number): EstimateRange => {
      const total = (bound: (range: EstimateRange) => number) =>
        Object.entries(calls).reduce((all, [method, range]) => all + bound(range) * weigh(method), 0);
      return { low: total((range) => range.low), high: high === null ? null : total((range) => range.high ?? 0) };
    };
    const transfers = transfersOf(facts, count);
    return {
      name,
      blocks: { from: start, fromAtLatest: startAtLatest, to: head, count },
      transfers,
      calls,
      total: sum(() => 1),
      units: { ...sum((method) => unitsOf(prices, method)), list: prices.name },
      seconds: this.#seconds({ ...facts, start: startAtLatest }, mean.requests, perBlock.mean * count),
      limits: {
        maxBlocks,
        answered,
        source: wasKnown ? "known" : "probed",
        batch: hasBatches,
        multicall: facts.runsTogether,
      },
      archive: this.#byArchive(transfers, rest),
      probes,
      time: clock.now(),
    };
  }

  /** The costs of the road by an archive: its answers, and what the node is asked for the last blocks and the proof. */
  #byArchive(
    transfers: EstimateRange,
    rest: { readonly low: PlannedCalls; readonly high: PlannedCalls },
  ): Estimate["archive"] {
    const { archives, verify } = this.#options;
    const [first] = archives.status();
    if (first === undefined) return null;
    const total = (plan: PlannedCalls) => Object.values(plan).reduce((sum, one) => sum + one, 0);
    const partsOf = (count: number) => 1 + Math.ceil((count * ARCHIVE_BYTES) / MAX_BYTES);
    const callsOf = (count: number) => {
      const proven = verify === "sample" ? Math.min(count, SAMPLED_BLOCKS) : count;
      return partsOf(count) + proven + Math.ceil(Math.min(count, MAX_PROVEN) / CALLS_AT_ONCE);
    };
    const { low, high } = transfers;
    return {
      label: first.label,
      used: archives.isUseful,
      calls: { low: callsOf(low) + total(rest.low), high: high === null ? null : callsOf(high) + total(rest.high) },
      requests: { low: partsOf(low) + 1, high: high === null ? null : partsOf(high) + 1 },
    };
  }

  /**
   * Plans the history as cheap and as costly as the facts allow. The costly plan is null if they bound nothing: no
   * transfer was seen, and no limit of blocks keeps the answers small.
   */
  async #bounds({ final, start, startAtLatest, densities, isWhole, maxLogs }: ContractFacts) {
    const { maxBlocks, answered } = this.#options.reader.historyLimits();
    const { mean: usual, least, most } = spreadOf(densities.map(({ logs }) => logs));
    const [longest, shortest] = [start, startAtLatest].map((from) => ({ from, to: final })) as [Blocks, Blocks];
    const mean = await this.#history(longest, { density: usual });
    if (isWhole) return { mean, low: mean.calls, high: mean.calls };
    const isSmall = maxBlocks !== null && maxBlocks <= DENSE_LOGS;
    if (most === 0 && !isSmall) {
      return { mean, low: (await this.#history(shortest, { density: 0 })).calls, high: null };
    }
    // If the endpoint's limit of blocks keeps the answers small, the number of logs decides nothing.
    const isDense = maxBlocks === null || maxBlocks * most > DENSE_LOGS;
    const low = await this.#history(shortest, { density: isDense ? least * SPARSER : usual });
    // More blocks than it gave at once may be refused.
    const untried = maxBlocks === null ? { maxBlocks: Math.max(1, answered) } : {};
    const high = await this.#history(longest, isDense ? { density: most, maxLogs, ...untried } : { density: usual });
    return { mean, low: low.calls, high: high.calls };
  }

  /** Plans the backfill with its own classes, against an endpoint that answers as the limits and the density say. */
  async #history({ from, to }: Blocks, { density, maxLogs, maxBlocks: most }: Model): Promise<HistoryPlan> {
    const { reader, verify } = this.#options;
    const plan: PlannedCalls = { eth_getLogs: 0, eth_getBlockByNumber: 0 };
    let requests = 0;
    const add = (method: string, count: number) => {
      plan[method] = (plan[method] ?? 0) + count;
    };
    const { span, maxBlocks, hasBatches, endpoints } = reader.historyLimits();
    const cap = maxBlocks ?? most ?? Number.POSITIVE_INFINITY;
    for (const [method, calls] of Object.entries(reader.looksForLogs(from))) add(method, calls);
    // The first range is compared with a second endpoint.
    if (verify === "sample" && endpoints > 1) add("eth_getLogs", 1);
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
  #around(
    { head, final, start, startAtLatest, isArchive, runsTogether, finalCalls }: ContractFacts,
    maxBlocks: number | null,
  ) {
    const { isFollowed, chain } = this.#options;
    // However young the contract is, the join reads from the final block on: a reorg may move its first log.
    const unfinal = Math.min(head - final, MAX_CHECKED);
    // Blocks that are not final and that no header covers are read in parts, each with the blocks at its ends.
    const parts = Math.ceil((head - final - unfinal) / MAX_PART);
    // The newest block with the answers, the final block twice, and the newest block with it.
    const headers = 2 + 2 * finalCalls;
    const searches = isArchive ? [start, startAtLatest].map((at) => searchCalls(at, head)) : [between(-1, head).length];
    const plan = (checked: number, search: number): PlannedCalls => ({
      eth_call: runsTogether ? 1 : QUESTIONS.length,
      eth_getCode: 1 + search,
      eth_getBlockByNumber: headers + checked + 6 * parts,
      eth_getLogs: Math.max(1 + parts, Math.ceil((head - final) / (maxBlocks ?? Number.POSITIVE_INFINITY))),
    });
    const [least, most] = [Math.min(...searches), Math.max(...searches)];
    // A follower that starts reads the headers of the blocks that are not final, on the chain's account.
    if (!isFollowed()) return { low: plan(Math.min(1, unfinal), least), high: plan(Math.min(1, unfinal), most) };
    // The follower may have these headers, all but the newest. Until the join, the chain makes further blocks.
    const further = Math.ceil(UNTIL_JOIN_SECONDS / chain.blockSeconds);
    return { low: plan(Math.min(1, unfinal), least), high: plan(Math.min(unfinal + further, MAX_CHECKED), most) };
  }

  /** Seconds until the collection is ready: round trips one after the other, and ranges side by side. */
  #seconds({ rangeMs, head, start }: ContractFacts, requests: number, transfers: number): number {
    const trips = TRIPS + Math.ceil(searchCalls(start, head) / (PARTS - 1)) + requests / READ_AHEAD;
    const ms = OVERHEAD_MS + trips * rangeMs + (transfers / TRANSFERS_PER_SECOND) * 1_000;
    return Math.round(ms / 100) / 10;
  }
}

/** The transfers of a history. What was not counted is a range, and open above if no place had any. */
function transfersOf({ densities, seen, isWhole }: ContractFacts, count: number): EstimateRange {
  if (isWhole) return { low: seen, high: seen };
  const { mean, least, most } = spreadOf(densities.map(({ transfers }) => transfers));
  if (most === 0) return { low: seen, high: null };
  return { low: Math.max(seen, Math.round(least * SPARSER * count)), high: Math.round(Math.max(mean, most) * count) };
}

/** The mean of the densities, and the bounds between which places that were not looked at lie. */
function spreadOf(densities: readonly number[]) {
  const mean = densities.reduce((sum, one) => sum + one, 0) / Math.max(1, densities.length);
  return { mean, least: Math.min(mean, ...densities), most: Math.max(0, ...densities) * DENSER };
}

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
