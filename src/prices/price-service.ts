/**
 * Answers price requests for one chain: request in, record out. Three levels, fastest first: a finished answer from the
 * cache, keyed by the published head's hash; a pure computation from the market in memory; a read from the node. Connects
 * the parts of the prices.
 */
import type { ChainConsumer, ChainView } from "../chain/consumer.ts";
import type { Chain } from "../chains/chains.ts";
import { Budget, type SharedWork, UNSHARED, undefinedIfOverBudget } from "../core/budget.ts";
import { type Clock, withTimeout } from "../core/clock.ts";
import { AppError, invalidParameter, Refusal } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import { type Logger, silentLogger } from "../core/logger.ts";
import { OwnedCache } from "../core/owned-cache.ts";
import { NO_KEY, type Requester, SingleFlight } from "../core/work.ts";
import type { BlockRef, HeaderRef } from "../events/types.ts";
import type { EventLog } from "../log/event-log.ts";
import type { BlockHeader, ChainReader } from "../rpc/port.ts";
import type { PriceRecord, SeriesPoint } from "./models.ts";
import { Pairs } from "./pairs.ts";
import { DAY_SECONDS, PastFigures } from "./past-figures.ts";
import {
  type NewestFacts,
  orRefusal,
  POOL_LESS,
  type PriceAnswer,
  PriceComputer,
  type PriceRequest,
} from "./price-computer.ts";
import { rankedExchanges } from "./price-record.ts";
import { planFacts } from "./search/discovery.ts";
import { Markets } from "./search/markets.ts";
import { mergedReads } from "./search/merged-reads.ts";
import type { PastReader } from "./search/past-source.ts";
import { type Moment, PriceSeries, type SeriesRange } from "./series.ts";
import { PriceRecorder } from "./stored/price-recorder.ts";
import { pricingRules } from "./stored/rules.ts";
import { StoredPrices } from "./stored/stored-prices.ts";
import { type StoredSeries, storedSeries } from "./stored-series.ts";
import type { FindListedToken } from "./token-lists.ts";

interface PricesDeps {
  readonly chain: Chain;
  readonly reader: ChainReader;
  readonly log: EventLog;
  readonly view: ChainView;
  readonly clock: Clock;
  /** The exchanges whose pools rank: all that are known (the default), or the contract's twelve. */
  readonly pools?: "all" | "contract";
  readonly limits?: Partial<PriceLimits>;
  /** Tells of stored prices that can't be read. Default: silent. */
  readonly logger?: Logger;
  /** Prices that are so many days older are thinned to hourly closes. Default: kept. */
  readonly historyDays?: number | undefined;
  /** Finds a token in the operator's lists. Finds none by default. */
  readonly listed?: FindListedToken;
  /** Called when a price at the head is requested, and none was for a minute: the chain must be followed. */
  readonly onAsked?: () => void;
  /** Charges what is read ahead to the keys that want it. Charges no key by default. */
  readonly shared?: SharedWork;
}

export interface PriceLimits {
  /** Most tokens and pools that are read ahead at a new head. */
  readonly readsAhead: number;
  /** Size limit of the answer cache, in bytes. */
  readonly answerBytes: number;
  /** Prices that a key may have recorded in an hour. Beyond it, prices are given without a record. */
  readonly pricesPerHour: number;
  /** Size limit of the stored prices in memory, in bytes. */
  readonly historyBytes: number;
}

export interface Prices {
  readonly chain: Chain;
  /** Facts of tokens and pairs beside prices. */
  readonly pairs: Pairs;
  /** Register it with the chain's follower. */
  readonly consumer: ChainConsumer;
  /**
   * @param requester the key whose share of the queues the answer takes
   * @throws Refusal as in the API's error table; AppError `chain_unavailable` when no endpoint answers
   */
  answer(request: PriceRequest, requester?: Requester): Promise<PriceAnswer>;
  price(request: PriceRequest): Promise<PriceRecord>;
  /**
   * Answers several requests in their order. Those without a block are answered at one head. A refusal takes the place of
   * an answer.
   * @throws Refusal `rate_limited`, `chain_unavailable`; AppError `chain_unavailable` when no endpoint answers
   */
  answers(requests: readonly PriceRequest[], requester?: Requester): Promise<readonly (PriceAnswer | Refusal)[]>;
  /**
   * Returns a check for the answer just given: true while the same request gets the same answer. Undefined if the
   * answer may already differ. Each call of the check counts as a request of the key for the token, which stays in memory
   * then.
   */
  stillCurrent(request: PriceRequest, asOf: BlockRef): ((key: string) => boolean) | undefined;
  /**
   * Returns prices at evenly spaced blocks, each equal to the answer for that block.
   * @throws Refusal as in the API's error table; AppError `chain_unavailable` when no endpoint answers
   */
  series(address: Address, range: SeriesRange, requester?: Requester): Promise<readonly SeriesPoint[]>;
  /**
   * Returns the last block at or before a time; undefined if the chain began later.
   * @param time Unix seconds
   * @throws AppError `chain_unavailable` when no endpoint tells the headers that decide it
   */
  blockAt(time: number, requester?: Requester): Promise<BlockHeader | undefined>;
  /**
   * Returns the stored prices of a range, the last one of each of so many parts, and where there are none. Asks no node.
   * @throws Refusal `invalid_parameter` for a range that is none or ends above the head
   */
  storedSeries(address: Address, range: SeriesRange): Promise<StoredSeries>;
  /** The header of a block; undefined above the head. @throws AppError `chain_unavailable` if no endpoint tells it */
  header(block: number): Promise<BlockHeader | undefined>;
  /** Reads the stored prices' heads, so that the first question need not wait for them. */
  warm(): Promise<void>;
  /** True if a price at the head was requested in the last minute, or has a subscriber: clients wait for the newest block. */
  isAsked(): boolean;
  /**
   * Has a token read ahead at each head until the returned function is called.
   * @param keys the names of the keys that want it at the moment of the call
   */
  watch(address: Address, keys: () => Iterable<string>): () => void;
  /** True for a contract whose getters take much gas or give long answers. It is not read ahead. */
  isCostly(address: Address): boolean;
  /**
   * Reads the prices that were asked for lately at a head that is about to be published. Resolves after a second at the
   * latest; requests then read for themselves what is missing.
   */
  readAhead(head: HeaderRef): Promise<void>;
}

/** Two thousand tokens and pools are some 20 requests in one batch; 16 MiB of answers about 10,000; 10,000 prices 2 MB. */
const DEFAULTS: PriceLimits = {
  ...{ readsAhead: 2_000, answerBytes: 16 << 20, pricesPerHour: 10_000, historyBytes: 32 << 20 },
};
/** Longest time that a head waits for the prices at it, in ms. */
const LONGEST_WAIT_MS = 1_000;
/** Without a new head for this long, in ms, the published head may be old: nobody follows the chain, or can't. */
const FRESH_MS = 30_000;
/** A token's time of last request is updated at most this often. */
const ASKED_EVERY_MS = 1_000;
/** A price alone. */
const WITHOUT_EXTRAS = { percentChange: false, provenance: false } as const;

export const createPrices = (deps: PricesDeps): Prices => new PriceService(deps);

class PriceService implements Prices {
  readonly chain: Chain;
  readonly pairs: Pairs;
  readonly consumer: ChainConsumer;
  readonly #deps: PricesDeps;
  readonly #markets: Markets;
  readonly #computer: PriceComputer;
  /** Finished answers, by request and version. */
  readonly #answers: OwnedCache<string, PriceAnswer>;
  readonly #computing = new SingleFlight<string, PriceAnswer>();
  readonly #series: PriceSeries;
  readonly #stored: StoredPrices;
  readonly #recorder: PriceRecorder;
  /** Counts the times in which the published head may have become old. Answers from before one count no longer. */
  #era = 0;
  /** `Clock.monotonic` of the newest head, or of the beginning of this era. */
  #freshMs = Number.NEGATIVE_INFINITY;
  /** `Clock.monotonic` of the newest head. */
  #headMs = Number.NEGATIVE_INFINITY;
  #isReadingAhead = false;

  constructor(deps: PricesDeps) {
    const reader = mergedReads(deps.reader);
    this.#deps = { ...deps, reader };
    const { chain, log, view, clock, listed = () => undefined, shared = UNSHARED } = deps;
    this.chain = chain;
    const { answerBytes, readsAhead, pricesPerHour, historyBytes } = { ...DEFAULTS, ...deps.limits };
    const exchanges = rankedExchanges(chain, deps.pools);
    const rules = pricingRules(chain, exchanges);
    const logger = deps.logger ?? silentLogger;
    const stored = new StoredPrices({ chain, log, view, clock, logger, rules, maxBytes: historyBytes });
    const { chainId } = chain;
    const recorder = new PriceRecorder({
      chainId,
      log,
      view,
      clock,
      stored,
      rules,
      pricesPerHour,
      historyDays: deps.historyDays,
    });
    const markets = new Markets({ chain, reader, view, clock, stored, recorder, readsAhead, exchanges, shared });
    const figures = new PastFigures({ reader, view, markets, blockSeconds: chain.blockSeconds });
    // Prices need the chain's head, but no logs from its follower.
    this.consumer = {
      name: "prices",
      topics: [],
      addresses: () => [],
      needsBlocks: () => markets.isAsked,
      holdsAbove: (block) => markets.newest > block,
      apply: async () => undefined,
    };
    this.#markets = markets;
    this.#stored = stored;
    this.#recorder = recorder;
    this.pairs = new Pairs({ chain, reader, exchanges, pastSource: () => markets.pastSource() });
    const isFresh = () => this.#isFresh;
    const isHeadFresh = () => clock.monotonic() - this.#headMs < FRESH_MS;
    const keptOr = async (request: PriceRequest, compute: () => Promise<PriceAnswer>) => {
      const key = keyOf(request);
      return (await this.#kept(request, key)) ?? this.#keep(key, await compute());
    };
    this.#computer = new PriceComputer({
      ...{ chain, reader, view, markets, figures, listed, isFresh, isHeadFresh, exchanges, keptOr, stored, recorder },
    });
    this.#answers = new OwnedCache(answerBytes, ({ body }) => body.length * 2 + 512);
    this.#series = new PriceSeries({
      ...{ chain, reader, view, clock },
      // Not shared with a request for the same block: that one has no bound on its requests.
      priceAt: async (address, toBlock, past, requester) => {
        const request = { ...WITHOUT_EXTRAS, address, toBlock };
        const key = keyOf(request);
        const computing = { requester, past };
        return (
          (await this.#kept(request, key, past)) ?? this.#keep(key, await this.#computer.compute(request, computing))
        );
      },
    });
  }

  isAsked(): boolean {
    return this.#markets.isAsked;
  }

  watch(address: Address, keys: () => Iterable<string>): () => void {
    this.#noteQuestion();
    return this.#markets.watch(address, keys);
  }

  isCostly(address: Address): boolean {
    return this.#deps.reader.isCostly(address);
  }

  async readAhead(head: HeaderRef): Promise<void> {
    const { clock } = this.#deps;
    this.#freshMs = clock.monotonic();
    this.#headMs = this.#freshMs;
    // A node that is slower than its chain gets no second read of as many tokens at once.
    if (this.#isReadingAhead) return;
    this.#isReadingAhead = true;
    const reading = undefinedIfOverBudget(this.#markets.readAhead(head))
      .catch((error: unknown) => {
        if (!(error instanceof AppError)) throw error;
      })
      .finally(() => {
        this.#isReadingAhead = false;
      });
    await withTimeout(clock, LONGEST_WAIT_MS, reading);
  }

  async price(request: PriceRequest): Promise<PriceRecord> {
    return (await this.answer(request)).record;
  }

  async answer(request: PriceRequest, requester = NO_KEY): Promise<PriceAnswer> {
    const isAtHead = request.toBlock === undefined;
    if (isAtHead) this.#noteQuestion();
    try {
      const answer = await this.#answer(request, requester);
      if (isAtHead) this.#noteAnswered(request, answer, requester);
      return answer;
    } catch (error) {
      if (isAtHead && error instanceof Refusal) this.#noteAnswered(request, error, requester);
      throw error;
    }
  }

  /** Notes a token whose price, or whose lack of one, the next blocks may change. Other addresses are not read ahead. */
  #noteAnswered({ address }: PriceRequest, answer: PriceAnswer | Refusal, { key }: Requester): void {
    if (!(answer instanceof Refusal) || POOL_LESS.includes(answer.code)) this.#markets.noteAsked(address, key);
  }

  async #answer(request: PriceRequest, requester: Requester): Promise<PriceAnswer> {
    const key = keyOf(request);
    const found = this.#kept(request, key);
    const kept = found instanceof Promise ? await found : found;
    if (kept !== undefined) return kept;
    const computing = { requester, kept: () => this.#kept(request, key) };
    // Not shared with another key, which may have to wait longer for its turn.
    return this.#computing.run(`${requester.key}|${key}`, async () => {
      try {
        return this.#keep(key, await this.#computer.compute(request, computing));
      } catch (error) {
        const isHeadUnread = request.toBlock === undefined && isOfEndpoints(error);
        const stale = isHeadUnread ? await this.#computer.stale(request, computing) : undefined;
        if (stale === undefined) throw error;
        return stale;
      }
    });
  }

  async answers(requests: readonly PriceRequest[], requester = NO_KEY): Promise<readonly (PriceAnswer | Refusal)[]> {
    // A question that repeats a request gets the same answer for each.
    const distinct = [...new Map(requests.map((request) => [keyOf(request), request])).values()];
    const answers = await this.#answersOf(distinct, requester);
    const byKey = new Map(distinct.map((request, at) => [keyOf(request), answers[at]!]));
    return requests.map((request) => byKey.get(keyOf(request))!);
  }

  async #answersOf(
    requests: readonly PriceRequest[],
    requester: Requester,
  ): Promise<readonly (PriceAnswer | Refusal)[]> {
    const isAtHead = ({ toBlock }: PriceRequest) => toBlock === undefined;
    const [atHead, past] = await Promise.all([
      this.#atHead(requests.filter(isAtHead), requester),
      Promise.all(
        requests.map((request) =>
          isAtHead(request) ? undefined : Budget.item(() => orRefusal(() => this.answer(request, requester))),
        ),
      ),
    ]);
    const left = [...atHead];
    return past.map((answer) => answer ?? left.shift()!);
  }

  async #atHead(requests: readonly PriceRequest[], requester: Requester): Promise<readonly (PriceAnswer | Refusal)[]> {
    if (requests.length > 0) this.#noteQuestion();
    // An answer at the head is never made of newer facts, so it is there at once.
    const kept = requests.map((request) => this.#kept(request, keyOf(request)) as PriceAnswer | undefined);
    const isKept = kept.every((answer) => answer !== undefined);
    const answers = isKept ? kept : await this.#together(requests, requester);
    return answers.map((answer, at) => {
      const request = requests[at]!;
      this.#noteAnswered(request, answer, requester);
      return isKept || answer instanceof Refusal ? answer : this.#keep(keyOf(request), answer);
    });
  }

  /** While no endpoint answers, the last prices that the log has stand in. */
  async #together(
    requests: readonly PriceRequest[],
    requester: Requester,
  ): Promise<readonly (PriceAnswer | Refusal)[]> {
    try {
      return await this.#computer.computeTogether(requests, { requester });
    } catch (error) {
      if (!isOfEndpoints(error)) throw error;
      const stale = await Promise.all(requests.map((request) => this.#computer.stale(request, { requester })));
      if (stale.every((answer) => answer === undefined)) throw error;
      const text = `no endpoint of ${this.chain.name} answers at the moment, and no price of the token is known`;
      return stale.map((answer) => answer ?? new Refusal("chain_unavailable", text));
    }
  }

  #noteQuestion(): void {
    const wasAsked = this.#markets.isAsked;
    const isFresh = this.#isFresh;
    this.#markets.noteQuestion();
    if (!wasAsked) this.#deps.onAsked?.();
    if (wasAsked && isFresh) return;
    this.#recorder.wake();
    if (isFresh) return;
    this.#era++;
    this.#freshMs = this.#deps.clock.monotonic();
    this.#markets.forget();
  }

  /** True if the published head is the chain's newest one, as far as is known. */
  get #isFresh(): boolean {
    return this.#markets.isAsked && this.#deps.clock.monotonic() - this.#freshMs < FRESH_MS;
  }

  /** Returns a computed answer that is still right. Asks the node only about facts that are newer than the block. */
  #kept(
    request: PriceRequest,
    key: string,
    reader: PastReader = this.#deps.reader,
  ): PriceAnswer | undefined | Promise<PriceAnswer | undefined> {
    const head = this.#deps.view.head();
    if (head === undefined) return undefined;
    const at = request.toBlock ?? head.number;
    const isAtHead = at === head.number;
    const kept = this.#answers.get(`${key}@${isAtHead ? this.#versionOf(head) : at}`);
    if (kept === undefined || at > head.number || (isAtHead && !this.#isFresh)) return undefined;
    return kept.newestFacts === undefined ? kept : this.#ifFactsStand(kept, request.address, kept.newestFacts, reader);
  }

  /** Returns an answer if the facts in it are still the newest ones. */
  async #ifFactsStand(
    kept: PriceAnswer,
    address: Address,
    { facts, decimals }: NewestFacts,
    reader: PastReader,
  ): Promise<PriceAnswer | undefined> {
    const plan = planFacts([address], [...decimals.keys()]);
    const now = plan.read((await reader.callsAtHead(plan.calls)).results);
    return Bun.deepEquals([now.facts.get(address), now.decimals], [facts, decimals]) ? kept : undefined;
  }

  #versionOf({ hash }: BlockRef): string {
    return `${this.#era} ${hash}`;
  }

  #keep(key: string, answer: PriceAnswer): PriceAnswer {
    if (answer.isCutShort || answer.finality === "stale") return answer;
    const { asOf, finality, isPast } = answer;
    this.#answers.set(`${key}@${this.#versionOf(asOf)}`, answer, Budget.payerName);
    // A pool ranks otherwise at the head, so an answer that was made there is not that of the past block.
    if (finality === "finalized" && isPast) this.#answers.set(`${key}@${asOf.number}`, answer, Budget.payerName);
    return answer;
  }

  async series(address: Address, range: SeriesRange, requester = NO_KEY): Promise<readonly SeriesPoint[]> {
    return this.#series.read(address, range, requester);
  }

  blockAt(time: number, requester = NO_KEY): Promise<BlockHeader | undefined> {
    return this.#computer.blockAt(time, requester);
  }

  warm(): Promise<void> {
    return this.#stored.ready();
  }

  async storedSeries(address: Address, { from, to, points }: SeriesRange): Promise<StoredSeries> {
    const stored = this.#stored;
    await stored.ready();
    const head = this.#deps.view.head();
    if (head === undefined) return { points: [], fromBlock: 0, toBlock: 0, gaps: [] };
    const blockOf = (moment: Moment) => {
      if ("block" in moment) return moment.block;
      return moment.time >= head.timestamp ? head.number : stored.book.lastBefore(moment.time);
    };
    const last = to === undefined ? head.number : (blockOf(to) ?? 0);
    if (last > head.number) throw invalidParameter("to", `at most ${head.number}, the chain's head`);
    const end = stored.book.lastHeadAt(last)?.timestamp ?? head.timestamp;
    // Before the first head of the book nothing tells which block a moment is.
    const first = blockOf(from ?? { time: end - DAY_SECONDS }) ?? Math.min(stored.book.first ?? last, last);
    if (first > last) throw invalidParameter("from", "must not be after to");
    return storedSeries(stored, address, { from: first, to: last, points });
  }

  header(block: number): Promise<BlockHeader | undefined> {
    return this.#computer.header(block);
  }

  stillCurrent(request: PriceRequest, asOf: BlockRef): ((key: string) => boolean) | undefined {
    const { view, clock } = this.#deps;
    const { address, toBlock } = request;
    const head = view.head()?.hash;
    // The cache does not return an answer that was read ahead of the published head.
    const isFinal = toBlock === asOf.number && asOf.number <= this.#computer.finalized;
    const kept = this.#answers.get(`${keyOf(request)}@${this.#versionOf(asOf)}`);
    // Another question may get more than an answer that is not kept.
    if (kept === undefined) return undefined;
    const { newestFacts } = kept;
    if (head === undefined || newestFacts !== undefined || !(isFinal || head === asOf.hash)) return undefined;
    let askedMs = clock.monotonic();
    return (key) => {
      if (view.head()?.hash !== head || !(isFinal || this.#isFresh)) return false;
      const now = clock.monotonic();
      if (toBlock !== undefined || now - askedMs < ASKED_EVERY_MS) return true;
      askedMs = now;
      this.#markets.noteAsked(address, key);
      return true;
    };
  }
}

/** True if a price failed because no endpoint of the chain answered. */
const isOfEndpoints = (error: unknown): boolean =>
  (error instanceof AppError && /^chain_(?:unavailable|moved)$/.test(error.code)) ||
  (error instanceof Refusal && error.code === "chain_unavailable");

/** Requests with the same key share one computation. */
function keyOf(request: PriceRequest): string {
  const { exchange, minLiquidityUsd, depthUsd } = request;
  const place = exchange === undefined ? "" : exchange.kind === "listed" ? exchange.exchange.standin : exchange.factory;
  const [floor, size] = [minLiquidityUsd, depthUsd].map((usd) => (usd === undefined ? "" : `${usd.n}/${usd.d}`));
  const idle = request.maxIdleHours ?? "";
  const wants = `${request.percentChange ? "p" : ""}${request.provenance ? "r" : ""}${request.pair ? "l" : ""}`;
  return `${request.address}|${place}|${floor}|${size}|${idle}|${wants}|${request.toBlock ?? ""}`;
}
