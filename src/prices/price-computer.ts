/**
 * Computes one price: from the market in memory, from a read of the node's head, shared by all concurrent requests for
 * the same token, or from a past block. Repeats what a reorg interrupted.
 */
import type { ChainView } from "../chain/consumer.ts";
import type { Chain } from "../chains/chains.ts";
import type { Deployment } from "../chains/exchanges.ts";
import { isReference } from "../chains/tokens.ts";
import { Budget, OverBudget, undefinedIfOverBudget } from "../core/budget.ts";
import { AppError, type ErrorCode, invalidParameter, Refusal } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import { startInTurns } from "../core/turns.ts";
import { FairSlots, type Requester, type Shares, SingleFlight } from "../core/work.ts";
import type { BlockHeader, ChainReader } from "../rpc/port.ts";
import { Depths } from "./depth/depth.ts";
import { idleRoute } from "./depth/idle.ts";
import { cappedByHooks, cappedBySale, hooksLimitOf, limitOf } from "./depth/sale.ts";
import type { Market, PricedBlock } from "./market/market.ts";
import type { PoolId } from "./market/pools.ts";
import {
  archiveLimitOf,
  confidence,
  floorOf,
  isFromArchive,
  notAToken,
  type Quote,
  type QuoteOptions,
  quote,
  refusal,
} from "./market/quote.ts";
import { format, type Rational } from "./market/rational.ts";
import type { PriceRecord, UnconfirmedFigure } from "./models.ts";
import { DAY_SECONDS, type PastFigure, type PastFigures } from "./past-figures.ts";
import { pastQueue, type RunInSlot } from "./past-queue.ts";
import {
  type PriceParameters,
  pairOf,
  percentBetween,
  provenanceOf,
  recordOf,
  type Selection,
  selectPools,
} from "./price-record.ts";
import { redemptionOf } from "./redemption.ts";
import { type Markets, payingKeys } from "./search/markets.ts";
import {
  blockUnavailable,
  boundOf,
  isTooManyLogs,
  MAX_LOG_REQUESTS,
  type PastReader,
  SearchTooLong,
} from "./search/past-source.ts";
import type { Wanted } from "./search/pool-lists.ts";
import type { PriceRecorder } from "./stored/price-recorder.ts";
import type { StoredPrices } from "./stored/stored-prices.ts";
import type { FindListedToken } from "./token-lists.ts";

export interface PriceRequest extends PriceParameters {
  readonly address: Address;
}

export interface PriceAnswer {
  readonly record: PriceRecord;
  /** `record` as JSON. */
  readonly body: string;
  /** The block of the price. */
  readonly asOf: PricedBlock;
  /** `stale`: the chain's endpoints don't answer, and the block is the last one that is known. */
  readonly finality: "finalized" | "latest" | "stale";
  /** True if the block was not the head when the answer was made. */
  readonly isPast: boolean;
  /** Set if the facts are newer than the block: the token's facts and all decimals that the price depends on. */
  readonly newestFacts: NewestFacts | undefined;
  /** True if the budget of its question was not enough for all of it: another question may get more. */
  readonly isCutShort: boolean;
  /** US dollars, exactly. */
  readonly usd: Rational;
  /** From 0 to 1, as `provenance` has it. */
  readonly confidence: string;
  /** The first pool of the route; undefined if no pool measures the price. */
  readonly pool: PoolId | undefined;
  /** Set if an archive told a state of the route. */
  readonly source: "archive" | undefined;
  /** What an archive alone says of the price. */
  readonly archiveLimit: string | undefined;
  /** `stored`: made from what the log has of the block. */
  readonly origin: "stored" | "read";
}

/** Facts that stand in for those of a past block. */
export type NewestFacts = Pick<Market, "facts" | "decimals">;

/** Refusals of a token for which other pools may exist. */
export const POOL_LESS: readonly ErrorCode[] = ["no_pool", "low_liquidity", "no_price_at_block"];

/** Refusals of one token, or of one request about it. Others say that the chain or the key can't have any. */
const OF_ONE_TOKEN: readonly ErrorCode[] = [
  ...POOL_LESS,
  ...(["not_a_token", "unknown_decimals", "no_dollar", "searching", "invalid_parameter"] as const),
];

/**
 * About the node calls of each extra figure. Each gets its share of what the price has left of the budget, so that none
 * depends on how fast the others are read. The day before and the average search for a block by its time; the average
 * dates the blocks of trades.
 */
const COSTS = { dayBefore: 28, twap: 42, depth: 18, sale: 5, redemption: 5 } as const;
type Extra = keyof typeof COSTS;
const EXTRAS = Object.keys(COSTS) as Extra[];

const SECONDS_PER_HOUR = 3_600;

/** Attempts at a request that fails with `chain_moved`. */
const MOVED_ATTEMPTS = 3;

/** First reads of tokens at once: three round trips each. */
const READS: Shares = { places: 40, perKey: 28, forOperators: 4 };
/** Tokens of one read that count as one first read: they share its requests. */
const TOKENS_PER_PLACE = 10;
/** Most first reads of a key that wait. At 20 a second and place, the last one starts within a second. */
const MAX_WAITING_READS = 500;

export interface Computing {
  /** The key whose share of the queues the answer takes. */
  readonly requester: Requester;
  /** Reads past blocks, shared with other questions; undefined for the chain's own reader. */
  readonly past?: PastReader;
  /** Returns the answer if another request has found it meanwhile. */
  readonly kept?: () => PriceAnswer | undefined | Promise<PriceAnswer | undefined>;
}

interface PriceComputation extends Computing {
  readonly request: PriceRequest;
  readonly selection: Selection;
  /** Runs the reads of past blocks when a slot is free. */
  readonly turn: RunInSlot;
  /** True after a reorg during the read: the followed head may be orphaned, so it must not be used. */
  readonly hasMoved: boolean;
}

interface ComputerOptions {
  readonly chain: Chain;
  /** Those whose pools rank. */
  readonly exchanges: readonly Deployment[];
  readonly listed: FindListedToken;
  readonly reader: ChainReader;
  readonly view: ChainView;
  readonly markets: Markets;
  readonly figures: PastFigures;
  /** True if the published head is the chain's newest one, as far as is known. */
  readonly isFresh: () => boolean;
  /** True if that head was shown lately. Otherwise a question reads the node's newest block. */
  readonly isHeadFresh: () => boolean;
  readonly stored: StoredPrices;
  readonly recorder: PriceRecorder;
  /** Returns the kept answer to a request, or computes and keeps it. */
  readonly keptOr: (request: PriceRequest, compute: () => Promise<PriceAnswer>) => Promise<PriceAnswer>;
}

/** Resolves to a refusal in place of its error, unless it is about more than the one request. */
export async function orRefusal<T>(work: () => Promise<T>): Promise<T | Refusal> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Refusal && OF_ONE_TOKEN.includes(error.code)) return error;
    throw error;
  }
}

/** Runs work for a price. @throws Refusal that says so if it would cost more than the question may */
async function withinBudget<T>({ toBlock }: PriceRequest, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof OverBudget)) throw error;
    throw refusal(toBlock === undefined ? "no_pool" : "no_price_at_block", [], { searched: { why: error.message } });
  }
}

/** A refusal that rests on an archive's word alone says so: another pool may have had a price. */
function saidByArchive(error: unknown, { archive }: Market): unknown {
  const isPoolLess = error instanceof Refusal && POOL_LESS.includes(error.code);
  if (!isPoolLess || archive === undefined) return error;
  const byArchive = archiveLimitOf({ market: { archive }, route: undefined, nativeSide: undefined });
  const searched = { ...(error.details?.["searched"] as object | undefined), why: byArchive };
  return new Refusal(error.code, error.message, { details: { ...error.details, searched, source: "archive" } });
}

/** An NFT contract that has decimals and a supply, too, is a token only if it has a pool. */
function unlessNft(error: unknown, token: Address, { chain, facts, pools }: Market): unknown {
  if (facts.standard === undefined || !(error instanceof Refusal) || error.code !== "no_pool") return error;
  const isKnown = error.details?.["searched"] === undefined;
  const hasPool = pools.some(({ token0, token1 }) => token0 === token || token1 === token);
  return isKnown && !hasPool ? notAToken(token, chain, facts, false) : error;
}

/** What an archive alone says, in a refusal; undefined if it rests on no archive's word. */
export function archiveLimitIn({ details }: Refusal): string | undefined {
  if (details?.["source"] !== "archive") return undefined;
  return (details["searched"] as { readonly why?: string } | undefined)?.why;
}

/** The figures of an answer that rest on an archive's word alone. */
function unconfirmedIn(
  { percentChange, pair }: PriceRequest,
  {
    usd,
    dayBefore,
    twap,
  }: { readonly usd: boolean; readonly dayBefore?: PastFigure | undefined; readonly twap?: PastFigure | undefined },
): readonly UnconfirmedFigure[] {
  const isDay = dayBefore?.isArchivesAlone === true;
  const all: readonly (readonly [UnconfirmedFigure, boolean])[] = [
    ["usdPrice", usd],
    ["24hrPercentChange", isDay && percentChange],
    ["usdPrice24h", isDay && pair === true],
    ["twap30m", twap?.isArchivesAlone === true],
  ];
  return all.flatMap(([figure, isAlone]) => (isAlone ? figure : []));
}

/** The refusal of a block that is too far back for one question, with what bounds it and the blocks that were searched. */
function tooFar(error: unknown, toBlock: number): Refusal {
  const from = error instanceof SearchTooLong ? error.block : toBlock + 1;
  const blocks = from > toBlock ? {} : { fromBlock: from, toBlock };
  return refusal("no_price_at_block", [], { searched: { ...blocks, why: boundOf(error) } });
}

/** Why the announcements of a token's pools could not all be read. */
const TOO_LONG = `it takes more than ${MAX_LOG_REQUESTS} requests for logs, or the endpoints have no older ones`;

/** A stale answer is at most this much older than the head that is shown last, in seconds. */
const STALE_SECONDS = 3_600;

/** True for a request that a stored price can answer: of all pools, with nothing that only the read itself tells. */
const isStorable = ({ exchange, minLiquidityUsd, provenance, depthUsd }: PriceRequest): boolean =>
  exchange === undefined && minLiquidityUsd === undefined && !provenance && depthUsd === undefined;

const atOnce: RunInSlot = (work) => work();

function found(market: Market | Refusal): Market {
  if (market instanceof Refusal) throw market;
  return market;
}

export class PriceComputer {
  readonly #options: ComputerOptions;
  readonly #markets: Markets;
  readonly #figures: PastFigures;
  readonly #depths: Depths;
  /** Slots for requests about past blocks. */
  readonly #pastQueue: FairSlots;
  /** Slots for reads of past blocks by requests at the head. Separate, so that these don't queue behind the former. */
  readonly #headPastQueue: FairSlots;
  readonly #reads: FairSlots;
  /** Reads that run, by token. */
  readonly #loading = new SingleFlight<Address, Market>();
  /** Reads that wait for the turn of their key, by key and token. */
  readonly #waiting = new SingleFlight<string, Market>();

  constructor(options: ComputerOptions) {
    this.#options = options;
    this.#markets = options.markets;
    this.#figures = options.figures;
    this.#depths = new Depths(options.reader);
    this.#pastQueue = pastQueue(options.chain);
    this.#headPastQueue = pastQueue(options.chain);
    const work = `first prices of tokens on ${options.chain.name}`;
    this.#reads = new FairSlots({ ...READS, maxWaiting: MAX_WAITING_READS, retryAfter: 2, work });
  }

  /**
   * @throws Refusal as in the API's error table; AppError `chain_unavailable` when no endpoint answers
   */
  async compute(request: PriceRequest, computing: Computing): Promise<PriceAnswer> {
    const selection = this.#select(request);
    const turn: RunInSlot = (work) => this.#headPastQueue.run(computing.requester, work);
    const question: PriceComputation = { ...computing, request, selection, turn, hasMoved: false };
    return withinBudget(request, () =>
      this.#attempt((hasMoved) => {
        const now = { ...question, hasMoved };
        return request.toBlock === undefined ? this.#atHead(now) : this.#atBlock(now, request.toBlock);
      }),
    );
  }

  /** @throws Refusal `invalid_parameter` when a listed exchange is not on this chain */
  #select({ exchange }: PriceRequest): Selection {
    return selectPools(this.#options.chain, exchange, this.#options.exchanges);
  }

  /** Retries work that a reorg interrupted, and passes `hasMoved` to the retries. */
  async #attempt<T>(work: (hasMoved: boolean) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await work(attempt > 1);
      } catch (error) {
        const moved = error instanceof AppError && error.code === "chain_moved";
        if (!moved || attempt === MOVED_ATTEMPTS) throw error;
      }
    }
  }

  async #atHead(question: PriceComputation): Promise<PriceAnswer> {
    const { request, selection, hasMoved } = question;
    const head = hasMoved || selection.unlisted !== undefined ? undefined : this.#options.view.head();
    const { address } = request;
    const kept = head && (this.#markets.keptAhead(address, head) ?? this.#markets.keptAt(address, head));
    if (kept !== undefined) return this.#price(question, kept);
    const stored = head && this.#options.isHeadFresh() ? await this.#storedAt(question, head.number) : undefined;
    return stored ?? this.#price(question, await this.#load(question));
  }

  /** Answers from the log, where that suffices: at a block that any process has read, and without what is never stored. */
  async #storedAt(question: PriceComputation, block: number): Promise<PriceAnswer | undefined> {
    const { request } = question;
    if (!isStorable(request)) return undefined;
    const quoted = await this.#options.stored.quoteAt(request.address, block);
    return quoted && this.#finishStored(question, quoted);
  }

  async #finishStored(question: PriceComputation, quoted: Quote): Promise<PriceAnswer> {
    return { ...(await this.#finish(question, quoted)), origin: "stored" };
  }

  /**
   * Answers from the log at the newest block at which any process has read the token, for a chain whose endpoints don't
   * answer. Undefined if that is too long ago.
   */
  async stale(request: PriceRequest, computing: Computing): Promise<PriceAnswer | undefined> {
    const head = this.#options.view.head();
    if (head === undefined || !isStorable(request) || request.percentChange || request.pair === true) return undefined;
    const quoted = await this.#options.stored.newestQuote(request.address, head.number, STALE_SECONDS);
    if (quoted === undefined) return undefined;
    const question = { ...computing, request, selection: this.#select(request), turn: atOnce, hasMoved: false };
    return { ...(await this.#finishStored(question, quoted)), finality: "stale" };
  }

  /** Quotes a market that was read, and records the price at the head before the answer is given. */
  async #price(question: PriceComputation, market: Market): Promise<PriceAnswer> {
    const { request, requester } = question;
    const { recorder } = this.#options;
    const { address } = request;
    const isPlain = request.exchange === undefined && request.minLiquidityUsd === undefined;
    let quoted: Quote;
    try {
      quoted = await this.#quote(question, market);
    } catch (error) {
      const isPoolLess = error instanceof Refusal && POOL_LESS.includes(error.code);
      if (isPlain && isPoolLess) await recorder.noteFound(address, market);
      throw unlessNft(error, address, market);
    }
    const keys = payingKeys([requester.key, ...this.#markets.keysOf(address)]);
    const isStored = isPlain && (await recorder.note({ quote: quoted, keys }));
    const answer = await this.#finish(question, quoted);
    return isStored ? { ...answer, origin: "stored" } : answer;
  }

  /**
   * Reads the market at the node's head, in the turn of the key. Concurrent requests for the same token share a
   * read that runs, but not a place in the queue: the first one's key may have to wait for long.
   * @throws Refusal for an address without a price; `rate_limited` beyond the key's share
   */
  #load({ request: { address: token }, selection: { unlisted }, requester }: PriceComputation): Promise<Market> {
    const read = async () => found((await this.#markets.atHead([{ token, unlisted }], requester.key))[0]!);
    if (unlisted !== undefined) return this.#reads.run(requester, read);
    const shared = () => this.#loading.run(token, read);
    if (this.#loading.has(token)) return shared();
    return this.#waiting.run(`${requester.key} ${token}`, () => this.#reads.run(requester, shared));
  }

  /**
   * Computes prices at one head, from one read of the node if memory has not all of them there. A refusal takes the place
   * of a price.
   * @param requests without `toBlock`
   * @throws AppError `chain_unavailable` when no endpoint answers; Refusal `rate_limited` beyond the key's share
   */
  computeTogether(
    requests: readonly PriceRequest[],
    computing: Computing,
  ): Promise<readonly (PriceAnswer | Refusal)[]> {
    const turn: RunInSlot = (work) => this.#headPastQueue.run(computing.requester, work);
    return this.#attempt(async (hasMoved) => {
      const selections = await Promise.all(requests.map((request) => orRefusal(async () => this.#select(request))));
      const wanted = requests.flatMap(({ address: token }, at) => {
        const selection = selections[at]!;
        return selection instanceof Refusal ? [] : [{ token, unlisted: selection.unlisted }];
      });
      const known = hasMoved ? undefined : await this.#knownTogether(requests, wanted, computing);
      const markets = [...(known ?? (await this.#read(wanted, computing)))];
      return startInTurns(requests, async (request, at) => {
        const selection = selections[at]!;
        if (selection instanceof Refusal) return selection;
        const market = markets.shift()!;
        if (market instanceof Refusal) return market;
        const { percentChange, provenance, pair, depthUsd, maxIdleHours } = request;
        const asksMore = [depthUsd, maxIdleHours].some((given) => given !== undefined);
        const hasExtras = percentChange || provenance || pair === true || asksMore;
        // An item takes one slot for all of its extras.
        const question = { ...computing, request, selection, turn: atOnce, hasMoved };
        const finish = () =>
          withinBudget(request, () =>
            "usd" in market ? this.#finishStored(question, market) : this.#price(question, market),
          );
        return Budget.item(() => orRefusal(hasExtras ? () => turn(finish) : finish));
      });
    });
  }

  /**
   * Returns the markets in memory, or else the quotes in the log, at the shown head. What neither has is read; undefined if
   * that is of another block.
   */
  async #knownTogether(
    requests: readonly PriceRequest[],
    wanted: readonly Wanted[],
    computing: Computing,
  ): Promise<readonly (Market | Quote | Refusal)[] | undefined> {
    const head = this.#options.view.head();
    if (head === undefined || wanted.some(({ unlisted }) => unlisted !== undefined)) return undefined;
    const kept = wanted.map(({ token }) => this.#markets.keptAhead(token, head) ?? this.#markets.keptAt(token, head));
    const isOneBlock = new Set(kept.flatMap((market) => market?.block.hash ?? [])).size <= 1;
    if (!isOneBlock) return undefined;
    if (kept.every((market) => market !== undefined)) return kept;
    if (kept.some((market) => market !== undefined && market.block.hash !== head.hash)) return undefined;
    if (!this.#options.isHeadFresh()) return undefined;
    const isStored = new Set(requests.filter(isStorable).map(({ address }) => address));
    const known = await Promise.all(
      wanted.map(
        ({ token }, at) =>
          kept[at] ?? (isStored.has(token) ? this.#options.stored.quoteAt(token, head.number) : undefined),
      ),
    );
    const missing = wanted.filter((_, at) => known[at] === undefined);
    if (missing.length === wanted.length) return undefined;
    const read = missing.length === 0 ? [] : [...(await this.#read(missing, computing))];
    if (read.some((one) => !(one instanceof Refusal) && one.block.hash !== head.hash)) return undefined;
    return known.map((one) => one ?? read.shift()!);
  }

  #read(wanted: readonly Wanted[], { requester }: Computing): Promise<readonly (Market | Refusal)[]> {
    const places = Math.min(READS.perKey, Math.ceil(wanted.length / TOKENS_PER_PLACE));
    return this.#reads.run(requester, () => this.#markets.atHead(wanted, requester.key), { places });
  }

  async #atBlock(question: PriceComputation, toBlock: number): Promise<PriceAnswer> {
    const { request, selection, kept, hasMoved } = question;
    const head = this.#options.view.head();
    const isAtHead = head?.number === toBlock && this.#options.isFresh();
    if (isAtHead && !hasMoved && selection.unlisted === undefined) {
      const market = this.#markets.keptAt(request.address, head);
      if (market !== undefined) return this.#price(question, market);
    }
    const stored = head !== undefined && toBlock <= head.number && (await this.#storedAt(question, toBlock));
    if (stored) return stored;
    // The slot is taken for the whole request, so its parts don't wait for further slots.
    return this.#pastQueue.run(
      question.requester,
      async () => (await kept?.()) ?? this.#inPast({ ...question, turn: (work) => work() }, toBlock),
    );
  }

  async #inPast(question: PriceComputation, toBlock: number): Promise<PriceAnswer> {
    const { request, selection } = question;
    const head = this.#options.view.head();
    const newest = head !== undefined && toBlock <= head.number ? head.number : await this.#newestFor(toBlock);
    const [subject, block] = await Promise.all([
      this.#markets.subject(request.address, selection.unlisted, toBlock),
      this.#header(toBlock, question.past),
    ]);
    if (block === undefined) throw blockUnavailable(this.#options.chain, toBlock);
    const market = await this.#markets
      .pastFor(subject, block, (then) => this.#quoteOptions(request, selection, then), {
        reader: question.past,
        owner: question.requester.key,
      })
      .catch((error: unknown) => {
        throw isTooManyLogs(error) ? tooFar(error, toBlock) : error;
      });
    const seen = { ...market, isPast: toBlock < newest };
    // Not recorded, even at the head: only a read of the head measures what ranks there.
    const quoted = await this.#quote(question, seen).catch((error: unknown) => {
      throw unlessNft(error, request.address, seen);
    });
    return this.#finish(question, quoted);
  }

  /** Returns the number of the node's head. @throws Refusal `invalid_parameter` when `toBlock` is above it */
  async #newestFor(toBlock: number): Promise<number> {
    const { reader } = this.#options;
    let newest = await reader.head();
    // Perhaps only this endpoint is behind.
    if (toBlock > newest.number && (await reader.benchLaggards(newest))) newest = await reader.head();
    if (toBlock > newest.number) {
      throw invalidParameter("to_block", `at most the chain's head, which is ${newest.number}`);
    }
    return newest.number;
  }

  /** The header of a block; undefined above the head. @throws AppError `chain_unavailable` if no endpoint tells it */
  async header(number: number): Promise<BlockHeader | undefined> {
    const { reader, view, chain } = this.#options;
    const found = await this.#header(number, undefined);
    if (found !== undefined) return found;
    const isAbove = number > (view.head()?.number ?? -1) && number > (await reader.head()).number;
    if (isAbove) return undefined;
    throw blockUnavailable(chain, number);
  }

  /** Returns a block's header. Retries once if the endpoint that lacks it is behind the followed head. */
  async #header(number: number, past: PastReader | undefined): Promise<BlockHeader | undefined> {
    const { reader, view } = this.#options;
    const header = await (past ?? reader).header(number);
    const head = view.head();
    if (header !== undefined || head === undefined || number > head.number) return header;
    await reader.benchLaggards(head);
    return reader.header(number);
  }

  async #finish(question: PriceComputation, priced: Quote): Promise<PriceAnswer> {
    const { request, selection, turn } = question;
    const { market } = priced;
    const { refusals } = Budget;
    await this.#assertActive(question, priced);
    const { depthUsd: sizeUsd } = request;
    const hasDayBefore = request.percentChange || request.pair === true;
    const isWanted: Readonly<Record<Extra, boolean>> = {
      ...{ dayBefore: hasDayBefore, depth: sizeUsd !== undefined },
      ...{ twap: request.provenance, sale: request.provenance, redemption: request.provenance },
    };
    const all = EXTRAS.reduce((sum, extra) => sum + (isWanted[extra] ? COSTS[extra] : 0), 0);
    const part = <T>(extra: Extra, work: () => Promise<T>): Promise<T> | undefined =>
      isWanted[extra] ? Budget.part(COSTS[extra] / all, work) : undefined;
    const [dayBefore, twap, redemption, sale, depth] = await Promise.all([
      part("dayBefore", () => undefinedIfOverBudget(turn(() => this.#dayBefore(question, market.block)))),
      part("twap", () =>
        undefinedIfOverBudget(this.#figures.average(priced, this.#quoteOptions(request, selection, market), turn)),
      ),
      part("redemption", () => undefinedIfOverBudget(redemptionOf(this.#options.reader, priced))),
      part("sale", () => turn(() => this.#depths.sale(priced))),
      part("depth", () => turn(() => this.#depths.of(priced, sizeUsd!))),
    ]);
    const tried = depth?.sale ?? sale;
    const byHooks = hooksLimitOf(priced, tried);
    const own = cappedByHooks(confidence(priced), byHooks);
    const sureness = depth ? depth.limited(own) : sale ? cappedBySale(own, sale) : own;
    const archiveLimit = archiveLimitOf(priced);
    const limitedBy = (sale && limitOf(sale)) ?? archiveLimit ?? byHooks;
    const unconfirmed = unconfirmedIn(request, { usd: archiveLimit !== undefined, dayBefore, twap });
    const record = recordOf({
      quote: priced,
      listed: this.#options.listed(market.chain.chainId, request.address),
      exchangeName: selection.exchangeName,
      percentChange: request.percentChange && dayBefore ? percentBetween(dayBefore.usd, priced.usd) : undefined,
      pair: request.pair ? pairOf(priced, dayBefore?.usd) : undefined,
      provenance: request.provenance
        ? provenanceOf(priced, { confidence: sureness, twap: twap?.usd, redemption, limitedBy, unconfirmed })
        : undefined,
      depth: depth?.fields,
    });
    const { number, hash, timestamp } = market.block;
    const finality = number <= this.finalized ? "finalized" : "latest";
    const pool = priced.route?.legs[0]?.pool.id;
    const newestFacts = market.factsOf === "newest" ? { facts: market.facts, decimals: market.decimals } : undefined;
    return {
      ...{ record, body: JSON.stringify(record), asOf: { number, hash, timestamp }, finality, newestFacts, pool },
      ...{ usd: priced.usd, confidence: format(sureness), isPast: market.isPast },
      source: isFromArchive(priced) ? "archive" : undefined,
      archiveLimit,
      origin: "read",
      isCutShort: Budget.refusals > refusals,
    };
  }

  /**
   * Returns the price 24 hours before a block: the answer that the same request gets for the last block at or before that
   * time. Undefined if it would be refused there.
   */
  async #dayBefore(question: PriceComputation, block: PricedBlock): Promise<PastFigure | undefined> {
    const known = this.#options.stored.blockAt(block.timestamp - DAY_SECONDS);
    const then = known ?? (await this.#figures.dayBefore(block, this.finalized));
    if (then === undefined) return undefined;
    const { address, exchange, minLiquidityUsd } = question.request;
    const request: PriceRequest = {
      ...{ address, percentChange: false, provenance: false, toBlock: then.number },
      ...(exchange === undefined ? {} : { exchange }),
      ...(minLiquidityUsd === undefined ? {} : { minLiquidityUsd }),
    };
    const past = { ...question, request, turn: atOnce };
    const compute = async () => (await this.#storedAt(past, then.number)) ?? this.#inPast(past, then.number);
    const answer = await orRefusal(() => this.#options.keptOr(request, compute));
    if (answer instanceof Refusal) return undefined;
    return { usd: answer.usd, isArchivesAlone: answer.archiveLimit !== undefined };
  }

  /**
   * The last block at or before a time in Unix seconds; undefined if the chain began later.
   * @throws AppError `chain_unavailable` if no endpoint tells its header
   */
  blockAt(time: number, requester: Requester): Promise<BlockHeader | undefined> {
    const { chain, reader, view } = this.#options;
    return this.#pastQueue.run(requester, async () => {
      const followed = this.#options.isFresh() ? view.head() : undefined;
      const newest = await reader.head();
      const head = followed === undefined || followed.number < newest.number ? newest : followed;
      const found = await this.#figures.blockAt(time, head, this.finalized);
      if (found === undefined) return undefined;
      const header = await this.#header(found.number, undefined);
      if (header === undefined) throw blockUnavailable(chain, found.number);
      return header;
    });
  }

  /** Refuses a price whose pool had no trade for longer than the request allows. @throws Refusal `low_liquidity` */
  async #assertActive(question: PriceComputation, priced: Quote): Promise<void> {
    const { request, turn } = question;
    const { maxIdleHours } = request;
    if (maxIdleHours === undefined) return;
    const idle = await turn(() => idleRoute(this.#options.reader, priced, maxIdleHours * SECONDS_PER_HOUR));
    if (idle !== undefined) throw refusal("low_liquidity", [], { ...idle, maxTokenInactivity: maxIdleHours });
  }

  /** Quotes the token; if it has no pool that state reads find, by those that only announcements tell. */
  async #quote(question: PriceComputation, market: Market): Promise<Quote> {
    const { request, selection, turn, requester } = question;
    const optionsIn = (one: Market) => this.#quoteOptions(request, selection, one);
    try {
      return quote(market, optionsIn(market));
    } catch (error) {
      const { address } = request;
      const isPoolLess = error instanceof Refusal && POOL_LESS.includes(error.code);
      if (!isPoolLess || !this.#markets.announced.mayHelp(selection.accepts) || isReference(market.chain, address))
        throw saidByArchive(error, market);
      const { block, chain } = market;
      // A chain that was just asked for the first time has no followed head yet.
      const final = Math.max(this.finalized, block.number - chain.finalityDepth);
      const announced = await this.#markets.announced.poolsOf(address, block, final, requester);
      if (announced === undefined) {
        const searched = { byState: true, byAnnouncement: false, why: TOO_LONG };
        throw new Refusal("no_pool", error.message, { details: { ...error.details, searched } });
      }
      const { archive: label } = announced;
      // A launchpad's pool may have been found by state, too.
      const known = new Set(market.pools.map(({ id }) => id));
      const pools = announced.pools.filter(({ id }) => !known.has(id));
      const alone = label === undefined ? market.archive : { label, absent: [], isOfAnnouncements: true };
      const told = alone === undefined ? market : { ...market, archive: alone };
      if (pools.length === 0) throw saidByArchive(error, told);
      const wider = await turn(() => this.#markets.withPools(told, address, pools, question.past));
      try {
        return quote(wider, optionsIn(wider));
      } catch (failure) {
        throw saidByArchive(failure, wider);
      }
    }
  }

  #quoteOptions(request: PriceRequest, selection: Selection, market: Market): QuoteOptions {
    return {
      token: request.address,
      floor: request.minLiquidityUsd ?? floorOf(market),
      accepts: selection.accepts,
      isNamed: request.exchange !== undefined,
      isPast: market.isPast,
    };
  }

  /** The newest final block, estimated by the chain's finality depth if unknown; below 0 when there is none. */
  get finalized(): number {
    const { view, chain } = this.#options;
    return view.finalized()?.number ?? (view.head()?.number ?? -1) - chain.finalityDepth;
  }
}
