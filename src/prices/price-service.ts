/**
 * Answers price requests for one chain: request in, record out. Three levels, fastest first: a finished answer from the
 * cache, keyed by the followed head's hash; a pure computation from the pools in memory; a read from the node. Connects
 * the parts of the prices, and restores memory from the log.
 */
import type { ChainConsumer, ChainView } from "../chain/consumer.ts";
import type { Chain } from "../chains/chains.ts";
import type { Clock } from "../core/clock.ts";
import { NO_KEY, type Requester } from "../core/fair-slots.ts";
import type { Address } from "../core/hex.ts";
import { type BlockRef, chainStream } from "../events/types.ts";
import type { EventLog } from "../log/event-log.ts";
import type { ChainReader } from "../rpc/port.ts";
import { AnswerCache } from "./answer-cache.ts";
import { PoolMemory } from "./memory/memory.ts";
import { MAX_GAP_MS, PriceFollower } from "./memory/pool-follower.ts";
import type { BookLimits } from "./memory/token-book.ts";
import { type PriceAnswer, PriceComputer, type PriceRequest } from "./price-computer.ts";
import type { PriceRecord } from "./price-record.ts";
import { Markets } from "./search/markets.ts";
import { PastFigures } from "./search/past-figures.ts";
import { PriceSeries, type SeriesPoint, type SeriesRange } from "./series.ts";
import type { FindListedToken } from "./token-lists.ts";

interface PricesDeps {
  readonly chain: Chain;
  readonly reader: ChainReader;
  readonly log: EventLog;
  readonly view: ChainView;
  readonly clock: Clock;
  readonly limits?: Partial<PriceLimits>;
  /** Finds a token in the operator's lists. Finds none by default. */
  readonly listed?: FindListedToken;
  /** Called when a token's pools become known, so that the chain's follower can be started. */
  readonly onTokenKnown?: () => void;
  /** Called when a price is requested, and none was for a while. */
  readonly onAsked?: () => void;
}

export interface PriceLimits extends BookLimits {
  /** Size limit of the answer cache, in bytes. */
  readonly answerBytes: number;
}

export interface Prices {
  readonly chain: Chain;
  /** Register it with the chain's follower. */
  readonly consumer: ChainConsumer;
  /**
   * @param requester the key whose share of the queues the answer takes
   * @throws Refusal as in the API's error table; AppError `chain_unavailable` when no endpoint answers
   */
  answer(request: PriceRequest, requester?: Requester): Promise<PriceAnswer>;
  price(request: PriceRequest): Promise<PriceRecord>;
  /**
   * Returns a check for the answer just given: true while the same request gets the same answer. Undefined if the
   * answer may already differ. Each call of the check counts as a request for the token, which stays in memory then.
   */
  stillCurrent(request: PriceRequest, asOf: BlockRef): (() => boolean) | undefined;
  /**
   * Returns prices at evenly spaced blocks, each equal to the answer for that block.
   * @throws Refusal as in the API's error table; AppError `chain_unavailable` when no endpoint answers
   */
  series(address: Address, range: SeriesRange, requester?: Requester): Promise<readonly SeriesPoint[]>;
  /**
   * Restores from the log the tokens that were followed when it was last written. Await it before the chain's follower
   * starts, so that following continues without a gap. Requests wait for it.
   */
  load(): Promise<void>;
  /** True if a price was requested in the last minute: its clients wait for the chain's newest block. */
  isAsked(): boolean;
  /** Resolves once memory has caught up with the log. Await it before a new head is published. */
  settle(): Promise<void>;
  /** Unsubscribes from the log. */
  close(): void;
}

/** 64 MiB of states hold about 100,000; 16 MiB of answers about 10,000. */
const DEFAULTS: PriceLimits = { bytes: 64 << 20, pools: 2_000, idleMs: 3_600_000, answerBytes: 16 << 20 };
/** Number of newest events of a chain's stream that are searched for a head. */
const HEAD_WITHIN = 16;
/** A token's time of last request is updated at most this often. */
const ASKED_EVERY_MS = 1_000;
/** A price alone. */
const WITHOUT_EXTRAS = { percentChange: false, provenance: false } as const;
/** A client that asked this recently is likely to ask again. */
const ASKED_MS = 60_000;

export const createPrices = (deps: PricesDeps): Prices => new PriceService(deps);

class PriceService implements Prices {
  readonly chain: Chain;
  readonly consumer: PriceFollower;
  readonly close: () => void;
  readonly #deps: PricesDeps;
  readonly #limits: PriceLimits;
  readonly #memory: PoolMemory;
  readonly #markets: Markets;
  readonly #computer: PriceComputer;
  readonly #answers: AnswerCache<PriceAnswer>;
  readonly #series: PriceSeries;
  #restoring: Promise<void> | undefined;
  #isRestored = false;

  constructor(deps: PricesDeps) {
    this.#deps = deps;
    const { chain, reader, log, view, clock, onTokenKnown, listed = () => undefined } = deps;
    this.chain = chain;
    const limits = { ...DEFAULTS, ...deps.limits };
    this.#limits = limits;
    const memory = new PoolMemory({ chain, log, clock, limits, onDrop: (book) => this.consumer.drop(book) });
    const follower = new PriceFollower({ chain, reader, view, clock, memory, ready: () => this.load() });
    const markets = new Markets({ chain, reader, view, clock, memory, isFollowing: () => follower.isFollowing });
    const figures = new PastFigures({ reader, view, markets, books: memory.books, blockSeconds: chain.blockSeconds });
    this.consumer = follower;
    this.#memory = memory;
    this.#markets = markets;
    this.#computer = new PriceComputer({ chain, reader, view, markets, figures, onTokenKnown, listed });
    const bytesOf = ({ body }: PriceAnswer): number => body.length * 2 + 512;
    this.#answers = new AnswerCache({ maxBytes: limits.answerBytes, bytesOf, clock });
    this.#series = new PriceSeries({
      ...{ reader, view, clock, blockSeconds: chain.blockSeconds },
      // Not shared with a request for the same block: that one has no bound on its requests.
      priceAt: async (address, toBlock, past, requester) => {
        const request = { ...WITHOUT_EXTRAS, address, toBlock };
        const key = keyOf(request);
        const computing = { requester, isWanted: () => true, past };
        return this.#kept(request, key) ?? this.#keep(key, await this.#computer.compute(request, computing));
      },
    });
    const prefix = `price/${chain.chainId}/`;
    this.close = log.subscribe((stream, version) => {
      if (stream.startsWith(prefix) && follower.announce(stream, version)) onTokenKnown?.();
    });
  }

  load(): Promise<void> {
    this.#restoring ??= this.#restore().catch((error: unknown) => {
      this.#restoring = undefined;
      throw error;
    });
    return this.#restoring;
  }

  async #restore(): Promise<void> {
    const { chain, clock, log, onTokenKnown } = this.#deps;
    const last = await log.readBackwards(chainStream(chain.chainId), { limit: HEAD_WITHIN });
    const newest = last.find(({ event }) => event.type === "HeadAdvanced");
    const isRecent = newest !== undefined && clock.now() - newest.time <= MAX_GAP_MS;
    // Each token takes the place of a pool at least, so the bound on pools bounds them too.
    if (isRecent && (await this.#memory.restore(this.#limits.pools))) onTokenKnown?.();
    this.#isRestored = true;
  }

  settle(): Promise<void> {
    return this.consumer.settle();
  }

  isAsked(): boolean {
    return this.#deps.clock.monotonic() - this.#memory.books.reference.lastRequestMs < ASKED_MS;
  }

  async price(request: PriceRequest): Promise<PriceRecord> {
    return (await this.answer(request)).record;
  }

  async answer(request: PriceRequest, requester = NO_KEY): Promise<PriceAnswer> {
    if (!this.#isRestored) await this.load();
    if (!this.isAsked()) this.#deps.onAsked?.();
    const key = keyOf(request);
    const kept = this.#kept(request, key);
    if (kept !== undefined) return kept;
    const computing = { requester, kept: () => this.#kept(request, key) };
    // Not shared with another key, which may have to wait longer for its turn.
    return this.#answers.share(`${requester.key}|${key}`, async (isWanted) =>
      this.#keep(key, await this.#computer.compute(request, { ...computing, isWanted })),
    );
  }

  #kept(request: PriceRequest, key: string): PriceAnswer | undefined {
    const head = this.#deps.view.head();
    if (head === undefined) return undefined;
    const at = request.toBlock ?? head.number;
    const kept = this.#answers.get(key, at === head.number ? head.hash : at);
    if (kept === undefined || at > head.number) return undefined;
    this.#markets.known(request.address);
    // A pool found since then may have existed at that block, too, and carry the price.
    return kept.poolCount === this.#markets.poolCount(request.address) ? kept : undefined;
  }

  #keep(key: string, answer: PriceAnswer): PriceAnswer {
    this.#answers.set(key, answer.asOf.hash, answer);
    if (answer.finality === "finalized") this.#answers.set(key, answer.asOf.number, answer);
    return answer;
  }

  async series(address: Address, range: SeriesRange, requester = NO_KEY): Promise<readonly SeriesPoint[]> {
    if (!this.#isRestored) await this.load();
    return this.#series.read(address, range, requester);
  }

  stillCurrent(request: PriceRequest, asOf: BlockRef): (() => boolean) | undefined {
    const { view, clock } = this.#deps;
    const head = view.head()?.hash;
    // The cache does not return an answer that was read ahead of the published head.
    const isKept = head === asOf.hash || (request.toBlock === asOf.number && asOf.number <= this.#computer.finalized);
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
}

/** Requests with the same key share one computation. */
function keyOf(request: PriceRequest): string {
  const { exchange, minLiquidityUsd } = request;
  const place = exchange === undefined ? "" : exchange.kind === "listed" ? exchange.exchange.standin : exchange.factory;
  const floor = minLiquidityUsd === undefined ? "" : `${minLiquidityUsd.n}/${minLiquidityUsd.d}`;
  const wants = `${request.percentChange ? "p" : ""}${request.provenance ? "r" : ""}`;
  return `${request.address}|${place}|${floor}|${wants}|${request.toBlock ?? ""}`;
}
