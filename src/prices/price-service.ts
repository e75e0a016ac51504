/**
 * Answers price requests for one chain: request in, record out. Three levels, fastest first: a finished answer from the
 * cache, keyed by the followed head's hash; a pure computation from the pools in memory; a read from the node, shared
 * by all concurrent requests for the same token.
 */
import { LRUCache } from "lru-cache";
import type { ChainConsumer, ChainView } from "../chain/consumer.ts";
import type { Chain } from "../chains/chains.ts";
import { exchangesOf } from "../chains/exchanges.ts";
import { isMoney, listedToken, referenceTokens } from "../chains/tokens.ts";
import type { Clock } from "../core/clock.ts";
import { ApiError, AppError, invalidParameter } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import { type BlockRef, chainStream, type HeaderRef, parseStream, type StreamName } from "../events/types.ts";
import type { EventLog } from "../log/event-log.ts";
import type { BlockHeader, ChainReader } from "../rpc/port.ts";
import type { PricesContext, Subject } from "./context.ts";
import type { Market } from "./market/market.ts";
import { floorOf, type Quote, type QuoteOptions, quote, refusal, refusalOf } from "./market/quote.ts";
import type { Rational } from "./market/rational.ts";
import { applyCoverage, applyEvents, loadBook, loadReference, sessionUnderWay } from "./memory/memory.ts";
import { MAX_GAP_MS, PriceFollower } from "./memory/pool-follower.ts";
import { Journal } from "./memory/price-streams.ts";
import { type BookLimits, Books, emptyBook, type TokenBook } from "./memory/token-book.ts";
import { type PriceParameters, type Selection, selectPools, unknownExchange } from "./price-query.ts";
import { type PriceRecord, provenanceOf, recordOf } from "./price-record.ts";
import { venueOf } from "./search/discovery.ts";
import { isTooManyLogs, Origins } from "./search/history.ts";
import { Markets } from "./search/markets.ts";
import { averageOf, BlockTimes, changeOf, PastQueue, type RunInSlot } from "./search/past-figures.ts";

interface PricesDeps {
  readonly chain: Chain;
  readonly reader: ChainReader;
  readonly log: EventLog;
  readonly view: ChainView;
  readonly clock: Clock;
  readonly limits?: Partial<PriceLimits>;
  /** Called when a token's pools become known, so that the chain's follower can be started. */
  readonly onTokenKnown?: () => void;
}

export interface PriceLimits extends BookLimits {
  /** Size limit of the answer cache, in bytes. */
  readonly answerBytes: number;
}

interface PriceRequest extends PriceParameters {
  readonly address: Address;
}

export interface PriceAnswer {
  readonly record: PriceRecord;
  /** `record` as JSON. */
  readonly body: string;
  /** The block of the price. `timestamp` is in Unix seconds. */
  readonly asOf: Pick<HeaderRef, "number" | "hash" | "timestamp">;
  readonly finality: "finalized" | "latest";
  /** Number of pools in memory that the price could come from. */
  readonly poolCount: number;
}

export interface Prices {
  readonly chain: Chain;
  /** The consumer to register with the chain's follower. */
  readonly consumer: ChainConsumer;
  /** @throws ApiError as in the API's error table; AppError `chain_unavailable` when no endpoint answers */
  answer(request: PriceRequest): Promise<PriceAnswer>;
  price(request: PriceRequest): Promise<PriceRecord>;
  /**
   * Returns a check for the answer just given: true while the same request gets the same answer. Undefined if the
   * answer may already differ. Each call of the check counts as a request for the token, which stays in memory then.
   */
  stillCurrent(request: PriceRequest, asOf: BlockRef): (() => boolean) | undefined;
  /**
   * Restores from the log the tokens that were followed when it was last written. Await it before the chain's follower
   * starts, so that following continues without a gap. Requests wait for it.
   */
  load(): Promise<void>;
  /** Resolves once memory has caught up with the log. Await it before a new head is published. */
  settle(): Promise<void>;
  /** Unsubscribes from the log. */
  close(): void;
}

/** 64 MiB of states hold about 100,000; 16 MiB of answers about 10,000. */
const DEFAULTS: PriceLimits = { bytes: 64 << 20, pools: 2_000, idleMs: 3_600_000, answerBytes: 16 << 20 };
/** Attempts at a request that fails with `chain_moved`. */
const MOVED_ATTEMPTS = 3;
/** Most tokens of other processes that wait to be loaded. A token beyond it is announced again by its next request. */
const MAX_WANTED = 1_000;
/** Dropped streams remembered. A forgotten one is loaded once more at most. */
const MAX_LEFT = 10_000;
/** Number of newest events of a chain's stream that are searched for a head. */
const HEAD_WITHIN = 16;
/** A token's time of last request is updated at most this often. */
const ASKED_EVERY_MS = 1_000;
/** Streams read concurrently when memory is restored. */
const LOAD_BATCH = 32;
/** A waiting request without a retry for this long is dropped, in ms: 2 × (25 s timeout + 5 s retry-after). */
const UNWANTED_MS = 60_000;

/** A request in progress. */
interface PriceComputation {
  readonly request: PriceRequest;
  readonly selection: Selection;
  /** True if a client sent this request lately. */
  readonly isWanted: () => boolean;
  /** Runs the reads of past blocks when a slot is free. */
  readonly turn: RunInSlot;
  /** True after a reorg during the read: the followed head may be orphaned, so it must not be used. */
  readonly hasMoved: boolean;
}

/** A computation, shared by all requests that ask for the same meanwhile. */
interface SharedComputation {
  readonly answer: Promise<PriceAnswer>;
  /** `Clock.monotonic` of the last of these requests. */
  askedMs: number;
}

/** Creates the price service of one chain. */
export function createPrices(deps: PricesDeps): Prices {
  const service = new PriceService(deps);
  return {
    chain: deps.chain,
    consumer: service.consumer,
    answer: (request) => service.answer(request),
    price: async (request) => (await service.answer(request)).record,
    stillCurrent: (request, asOf) => service.stillCurrent(request, asOf),
    load: () => service.load(),
    settle: () => service.consumer.settle(),
    close: () => service.close(),
  };
}

class PriceService {
  readonly consumer: PriceFollower;
  readonly close: () => void;
  readonly #deps: PricesDeps;
  readonly #limits: PriceLimits;
  readonly #context: PricesContext;
  readonly #markets: Markets;
  readonly #times: BlockTimes;
  readonly #answers: LRUCache<string, PriceAnswer>;
  readonly #inFlight = new Map<string, SharedComputation>();
  /** Slots for requests about past blocks. */
  readonly #pastQueue: PastQueue;
  /** Slots for reads of past blocks by requests at the head. Separate, so that these don't queue behind the former. */
  readonly #headPastQueue: PastQueue;
  #restoring: Promise<void> | undefined;
  #isRestored = false;
  readonly #loading = new Map<Address, Promise<{ subject: Subject; market: Market | undefined }>>();

  constructor(deps: PricesDeps) {
    this.#deps = deps;
    const limits = { ...DEFAULTS, ...deps.limits };
    this.#limits = limits;
    const { chain, reader, view, clock } = deps;
    const venues = exchangesOf(chain).map(venueOf);
    const references = referenceTokens(chain).map((token) => token.address);
    const journal = new Journal(deps.log, (stream, events) =>
      applyEvents({ books, chain, clock, venues }, stream, events),
    );
    const reference = emptyBook(chain.chainId, chain.wrappedNative.address);
    const onDrop = (book: TokenBook): void => {
      journal.close(book.stream);
      this.consumer.drop(book);
    };
    const books = new Books({ reference, limits, clock, onDrop });
    this.#context = {
      chain,
      reader,
      view,
      clock,
      journal,
      books,
      startBlocks: new Origins(),
      venues,
      references,
      listingFingerprint: fingerprint([references, venues]),
      session: undefined,
      followedTo: undefined,
      announcedTokens: new Map(),
      droppedStreams: new LRUCache({ max: MAX_LEFT }),
      recordedReferences: new Set(),
    };
    this.#markets = new Markets(this.#context);
    this.#pastQueue = new PastQueue(chain);
    this.#headPastQueue = new PastQueue(chain);
    this.#times = new BlockTimes(reader, chain.blockSeconds);
    this.#answers = new LRUCache({ maxSize: limits.answerBytes, sizeCalculation: ({ body }) => body.length * 2 + 512 });
    this.consumer = new PriceFollower(this.#context, () => this.load());
    const prefix = `price/${chain.chainId}/`;
    this.close = deps.log.subscribe((stream, version) => {
      if (stream.startsWith(prefix)) this.#noteGrownStream(stream, version);
    });
  }

  /** Notes a price stream that grew, perhaps by a request at another process, so that its token is followed here. */
  #noteGrownStream(stream: StreamName, version: number): void {
    const { books, journal, announcedTokens, chain } = this.#context;
    const parsed = parseStream(stream);
    if (parsed.kind !== "price" || version <= journal.version(stream)) return;
    if (isMoney(chain, parsed.address) || books.peek(stream) !== undefined || announcedTokens.size >= MAX_WANTED)
      return;
    announcedTokens.set(parsed.address, version);
    this.#deps.onTokenKnown?.();
  }

  load(): Promise<void> {
    this.#restoring ??= this.#restore().then(
      () => {
        this.#isRestored = true;
      },
      (error: unknown) => {
        this.#restoring = undefined;
        throw error;
      },
    );
    return this.#restoring;
  }

  async #restore(): Promise<void> {
    const { books, journal, chain, clock } = this.#context;
    const last = await this.#deps.log.readBackwards(chainStream(chain.chainId), { limit: HEAD_WITHIN });
    const newest = last.find(({ event }) => event.type === "HeadAdvanced");
    if (newest === undefined || clock.now() - newest.time > MAX_GAP_MS) return;
    if (!(await loadReference(this.#context))) return;
    const session = sessionUnderWay(this.#context);
    if (session === undefined) return;
    // Each token takes the place of a pool at least, so the bound on pools bounds them too.
    const tokens = await journal.followedBy(chain.chainId, session, this.#limits.pools);
    for (let at = 0; at < tokens.length; at += LOAD_BATCH) {
      await Promise.all(tokens.slice(at, at + LOAD_BATCH).map((token) => loadBook(this.#context, token)));
    }
    for (const book of books.all()) applyCoverage(this.#context, book, session);
    this.#deps.onTokenKnown?.();
  }

  async answer(request: PriceRequest): Promise<PriceAnswer> {
    if (!this.#isRestored) await this.load();
    const key = keyOf(request);
    const head = this.#context.view.head();
    if (head !== undefined) {
      const at = request.toBlock ?? head.number;
      const kept = this.#answers.get(`${key}@${at === head.number ? head.hash : at}`);
      if (kept !== undefined && at <= head.number) {
        this.#markets.known(request.address);
        // A pool found since then may have existed at that block, too, and carry the price.
        if (kept.poolCount === this.#markets.poolCount(request.address)) return kept;
      }
    }
    const now = this.#context.clock.monotonic();
    const shared = this.#inFlight.get(key);
    if (shared !== undefined) {
      shared.askedMs = now;
      return shared.answer;
    }
    const answer = this.#compute(request, key).finally(() => this.#inFlight.delete(key));
    this.#inFlight.set(key, { answer, askedMs: now });
    return answer;
  }

  stillCurrent(request: PriceRequest, asOf: BlockRef): (() => boolean) | undefined {
    const { view, clock } = this.#context;
    const head = view.head()?.hash;
    // The cache does not return an answer that was read ahead of the published head.
    const isKept = head === asOf.hash || (request.toBlock === asOf.number && asOf.number <= this.#finalized());
    if (head === undefined || !isKept) return undefined;
    let askedMs = clock.monotonic();
    return () => {
      if (view.head()?.hash !== head) return false;
      const now = clock.monotonic();
      if (now - askedMs < ASKED_EVERY_MS) return true;
      askedMs = now;
      this.#markets.known(request.address);
      return true;
    };
  }

  async #compute(request: PriceRequest, key: string): Promise<PriceAnswer> {
    const { chain, clock } = this.#context;
    const selection = selectPools(chain, request.exchange);
    const isWanted = (): boolean => {
      const asked = this.#inFlight.get(key);
      // A computation that starts at once is not registered yet.
      return asked === undefined || clock.monotonic() - asked.askedMs < UNWANTED_MS;
    };
    const turn: RunInSlot = (work) => this.#headPastQueue.run(isWanted, work);
    const question: PriceComputation = { request, selection, isWanted, turn, hasMoved: false };
    const ask = (): Promise<PriceAnswer> =>
      this.#attempt((hasMoved) => {
        const now = { ...question, hasMoved };
        return request.toBlock === undefined ? this.#atHead(now) : this.#atBlock(now, request.toBlock);
      });
    const answer = await ask().catch(async (error: unknown) => {
      const isRefused = error instanceof ApiError && error.status === 404;
      const found = isRefused ? await this.#markets.rediscover(request.address) : undefined;
      if (found === undefined) throw error;
      if (request.toBlock !== undefined || selection.unlisted !== undefined) return ask();
      return this.#finish(question, found, await this.#markets.fromNode(found));
    });
    this.#answers.set(`${key}@${answer.asOf.hash}`, answer);
    if (answer.finality === "finalized") this.#answers.set(`${key}@${answer.asOf.number}`, answer);
    return answer;
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
    const head = hasMoved ? undefined : this.#context.view.head();
    const known = selection.unlisted === undefined ? this.#markets.known(request.address) : undefined;
    const warm = head !== undefined && known !== undefined ? this.#markets.fromMemory(known, head) : undefined;
    const ahead = head !== undefined && known !== undefined ? this.#markets.aheadOfFollower(known, head) : undefined;
    if (ahead !== undefined) return this.#finish(question, known!, ahead);
    if (warm !== undefined) return this.#finish(question, known!, warm);
    const { subject, market } = await this.#load(request.address, selection.unlisted);
    this.#assertPriceable(subject);
    return this.#finish(question, subject, market!);
  }

  /** Reads subject and head market from the node. Concurrent requests for the same token share the read. */
  #load(token: Address, unlisted: Address | undefined): Promise<{ subject: Subject; market: Market | undefined }> {
    const shared = this.#loading.get(token);
    if (unlisted === undefined && shared !== undefined) return shared;
    const load = async (): Promise<{ subject: Subject; market: Market | undefined }> => {
      const subject = await this.#markets.subject(token, unlisted);
      if (refusalOf(subject.facts) !== undefined || !subject.factoryAnswers) return { subject, market: undefined };
      this.#deps.onTokenKnown?.();
      return { subject, market: await this.#markets.fromNode(subject) };
    };
    if (unlisted !== undefined) return load();
    const loading = load().finally(() => this.#loading.delete(token));
    this.#loading.set(token, loading);
    return loading;
  }

  /** @throws ApiError when the address is not a priceable token, or the unlisted factory is not a factory */
  #assertPriceable(subject: Subject): void {
    if (!subject.factoryAnswers) throw unknownExchange();
    const refused = refusalOf(subject.facts);
    if (refused !== undefined) throw refused;
  }

  async #atBlock(question: PriceComputation, toBlock: number): Promise<PriceAnswer> {
    const { request, selection, isWanted, hasMoved } = question;
    const head = this.#context.view.head();
    if (head?.number === toBlock && !hasMoved) {
      // Only memory is at exactly this block. A market read ahead from the node is of a newer one.
      const known = selection.unlisted === undefined ? this.#markets.known(request.address) : undefined;
      const warm = known === undefined ? undefined : this.#markets.fromMemory(known, head);
      if (warm !== undefined) return this.#finish(question, known!, warm);
    }
    // The slot is taken for the whole request, so its parts don't wait for further slots.
    return this.#pastQueue.run(isWanted, () => this.#inPast({ ...question, turn: (work) => work() }, toBlock));
  }

  async #inPast(question: PriceComputation, toBlock: number): Promise<PriceAnswer> {
    const { request, selection } = question;
    const head = this.#context.view.head();
    const newest = head !== undefined && toBlock <= head.number ? head.number : await this.#newestFor(toBlock);
    const [subject, block] = await Promise.all([
      this.#markets.subject(request.address, selection.unlisted),
      this.#header(toBlock),
    ]);
    this.#assertPriceable(subject);
    if (block === undefined) throw invalidParameter("to_block", "a block the node has");
    // Counts the pools now: pools found during the read, perhaps a minute later, are not part of this market.
    const poolCount = this.#markets.poolCount(request.address);
    const market = await this.#markets
      .pastFor(subject, block, (then) => this.#quoteOptions(request, selection, then))
      .catch((error: unknown) => {
        throw isTooManyLogs(error) ? refusal("no_price_at_block") : error;
      });
    const answer = await this.#finish(question, subject, { ...market, isPast: toBlock < newest });
    return { ...answer, poolCount };
  }

  /** Returns the number of the node's head. @throws ApiError 400 when `toBlock` is above it */
  async #newestFor(toBlock: number): Promise<number> {
    const { reader } = this.#context;
    let newest = await reader.head();
    // Perhaps only this endpoint is behind.
    if (toBlock > newest.number && (await reader.benchLaggards(newest))) newest = await reader.head();
    if (toBlock > newest.number) {
      throw invalidParameter("to_block", `at most the chain's head, which is ${newest.number}`);
    }
    return newest.number;
  }

  /** Returns a block's header. Retries once if the endpoint that lacks it is behind the followed head. */
  async #header(number: number): Promise<BlockHeader | undefined> {
    const { reader, view } = this.#context;
    const header = await reader.header(number);
    const head = view.head();
    if (header !== undefined || head === undefined || number > head.number) return header;
    return (await reader.benchLaggards(head)) ? reader.header(number) : undefined;
  }

  async #finish(
    { request, selection, turn }: PriceComputation,
    subject: Subject,
    market: Market,
  ): Promise<PriceAnswer> {
    const poolCount = this.#markets.poolCount(subject.token);
    const priced = quote(market, this.#quoteOptions(request, selection, market));
    const [percentChange, twap] = await Promise.all([
      request.percentChange
        ? turn(() => this.#change(subject, priced, (then) => this.#quoteOptions(request, selection, then)))
        : undefined,
      request.provenance
        ? averageOf({ context: this.#context, markets: this.#markets, times: this.#times, subject, now: priced, turn })
        : undefined,
    ]);
    const record = recordOf({
      quote: priced,
      facts: subject.facts,
      listed: listedToken(market.chain.chainId, subject.token),
      exchangeName: selection.exchangeName,
      percentChange,
      provenance: request.provenance ? provenanceOf(priced, twap) : undefined,
    });
    const { number, hash, timestamp } = market.block;
    const finality = number <= this.#finalized() ? "finalized" : "latest";
    return { record, body: JSON.stringify(record), asOf: { number, hash, timestamp }, finality, poolCount };
  }

  #change(subject: Subject, now: Quote, optionsAt: (market: Market) => QuoteOptions): Promise<Rational | undefined> {
    const finalized = this.#finalized();
    return changeOf({ markets: this.#markets, times: this.#times, finalized, subject, now, optionsAt });
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
  #finalized(): number {
    const { view, chain } = this.#context;
    return view.finalized()?.number ?? (view.head()?.number ?? -1) - chain.finalityDepth;
  }
}

/** Returns twelve hexadecimal digits of a value's SHA-256. */
const fingerprint = (value: unknown): string =>
  new Bun.CryptoHasher("sha256").update(JSON.stringify(value)).digest("hex").slice(0, 12);

/** Returns a key for the request. Requests with the same key share one computation. */
function keyOf(request: PriceRequest): string {
  const { exchange, minLiquidityUsd } = request;
  const place = exchange === undefined ? "" : exchange.kind === "listed" ? exchange.exchange.standin : exchange.factory;
  const floor = minLiquidityUsd === undefined ? "" : `${minLiquidityUsd.n}/${minLiquidityUsd.d}`;
  const wants = `${request.percentChange ? "p" : ""}${request.provenance ? "r" : ""}`;
  return `${request.address}|${place}|${floor}|${wants}|${request.toBlock ?? ""}`;
}
