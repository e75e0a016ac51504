/**
 * Appends the prices of one chain to the log. One process reads ahead for all: its records name the tokens that it read
 * at each head, and it goes on for as long as they come. Others wait for them, say which tokens their clients want, and
 * record what they had to read for themselves.
 *
 * Each price is appended under the guard of the book: if another process has recorded a head meanwhile, nothing is
 * appended, and what is to be said is found out anew.
 */
import type { ChainView } from "../../chain/consumer.ts";
import { Budget } from "../../core/budget.ts";
import type { Clock } from "../../core/clock.ts";
import { ConcurrencyError } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import { TokenBuckets } from "../../core/rate.ts";
import { Semaphore } from "../../core/semaphore.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import { encodeHead, encodePrice, encodeState, HEAD_FLAGS, storedStates } from "../../events/price-columns.ts";
import {
  type HeadPriced,
  type PoolDiscovered,
  type PriceBookEvent,
  type PriceEvent,
  priceStream,
  type TokenIdentified,
} from "../../events/types.ts";
import type { Append, EventLog } from "../../log/event-log.ts";
import type { Market, PricedBlock, TokenFacts } from "../market/market.ts";
import type { Pool } from "../market/pools.ts";
import type { Quote } from "../market/quote.ts";
import type { PriceHistory } from "./price-history.ts";
import type { StoredPrices } from "./stored-prices.ts";
import { type CoinState, coinStateOf, type OwnSides, ownSides, toStoredPool, toStoredPrice } from "./stored-quotes.ts";

/** A quote of a market that was read at a head. */
export interface QuoteToRecord {
  readonly quote: Quote;
  /** The names of the keys that want the token: one of them bears the record. "" for the service itself. */
  readonly keys: Iterable<string>;
}

interface RecorderOptions {
  readonly chainId: number;
  readonly log: EventLog;
  readonly view: ChainView;
  readonly clock: Clock;
  readonly stored: StoredPrices;
  readonly rules: number;
  /** Prices that a key may have recorded in an hour. Beyond it, prices are given without a record. */
  readonly pricesPerHour: number;
  /** Prices that are so many days older than the head are thinned. Kept if undefined. */
  readonly historyDays: number | undefined;
}

/** Conflicts in a row before a record is given up. Each one means that another process made progress. */
const MAX_CONFLICTS = 8;
/** A head waits so long for the reader, in ms, before this process reads for itself. */
const WAIT_MS = 700;
/** A reader without a record for this long, in ms, is not waited for. */
const SILENT_MS = 60_000;
/** This process says again which tokens it wants after this time, in ms: before the reader forgets them. */
const WANT_AGAIN_MS = 40_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Most prices that wait for their blocks to be shown. */
const MAX_UNSHOWN = 256;
/** Heads after which a reader states its set anew, so that a process that starts need not read the whole book. */
const BEGIN_EVERY = 20_000;
/** Quotes that are encoded before requests get their turn. */
const SLICE = 16;

/** What a record would append about one token. */
interface Draft {
  readonly token: Address;
  readonly append: Append | undefined;
  /** True if the price stands at the head, once the append is made. */
  readonly stands: boolean;
}

interface HeadToRecord {
  readonly head: PricedBlock;
  readonly coin: CoinState | undefined;
  /** True if this process has read all tokens that anybody wants. */
  readonly isWhole: boolean;
  /** True if the reader's set begins empty. */
  readonly isAnew: boolean;
}

export class PriceRecorder {
  readonly #options: RecorderOptions;
  readonly #id: string = crypto.randomUUID();
  readonly #prices: TokenBuckets;
  /** Records of this process wait for each other: one would refuse the next. */
  readonly #turns = new Semaphore(1);
  /** `Clock.monotonic` at which this process said that it wants a token. */
  readonly #wantedMs = new Map<Address, number>();
  #thinnedMs = Number.NEGATIVE_INFINITY;
  /** The head that is shown next, or was last. */
  #next: PricedBlock | undefined;
  /** Prices at blocks that were not shown when they were read, by token. */
  readonly #unshown = new Map<Address, QuoteToRecord>();
  #pending: QuoteToRecord[] = [];
  #recording: Promise<void> | undefined;
  /** True while the head that is shown next is not recorded. */
  #isOpen = false;
  /** True if the set must begin anew: a head was shown that this process has not recorded. */
  #hasSkipped = false;

  constructor(options: RecorderOptions) {
    this.#options = options;
    this.#prices = new TokenBuckets(options.clock);
  }

  /** True if this process read the last head for all. */
  get isReader(): boolean {
    return this.#options.stored.book.reader === this.#id;
  }

  /**
   * Resolves to true once the reader has recorded a head. False if it doesn't come in time: then this process reads.
   * @param head the head that is about to be shown
   */
  async isCovered(head: PricedBlock): Promise<boolean> {
    const { stored, clock } = this.#options;
    // A hint of the reader's record may be late.
    if (!this.isReader) await stored.newest();
    const hasReader = stored.book.reader !== undefined && !this.isReader;
    if (!hasReader || clock.monotonic() - stored.wholeMs > SILENT_MS) return false;
    const isThere = () => {
      const last = stored.book.headAt(head.number);
      return last?.isWhole === true && last.hash === head.hash;
    };
    if (isThere()) return true;
    const over = new AbortController();
    const { promise: arrived, resolve } = Promise.withResolvers<void>();
    const stop = stored.onFolded(() => {
      if (isThere()) resolve();
    });
    await Promise.race([arrived, clock.sleep(WAIT_MS, over.signal).catch(() => undefined)]);
    over.abort();
    stop();
    if (!isThere()) stored.inherit();
    return isThere();
  }

  /** Tells the reader which tokens clients of this process wait for. Says nothing that was said lately. */
  async want(tokens: ReadonlyMap<Address, Iterable<string>>): Promise<void> {
    const now = this.#options.clock.monotonic();
    const isDue = (token: Address) => now - (this.#wantedMs.get(token) ?? Number.NEGATIVE_INFINITY) >= WANT_AGAIN_MS;
    const due = [...tokens].filter(([token]) => isDue(token));
    if (due.length === 0) return;
    for (const [token, ms] of this.#wantedMs) if (now - ms >= WANT_AGAIN_MS) this.#wantedMs.delete(token);
    for (const [token] of due) this.#wantedMs.set(token, now);
    const wanted = Object.fromEntries(due.map(([token, keys]) => [token, [...keys]]));
    await this.#turns.run(() => this.#appendToBook(() => ({ type: "PricesWanted", tokens: wanted })));
  }

  /** Tells other processes that clients of this one wait for heads: the one that follows the chain may rest. */
  wake(): void {
    const say = () => this.#appendToBook(() => ({ type: "PricesWanted", tokens: {} }));
    // The next question says it again.
    void this.#options.stored
      .ready()
      .then(() => this.#turns.run(say))
      .catch(() => undefined);
  }

  /** Appends an event to the book, whatever others append. @param make undefined if there is nothing to say any more */
  async #appendToBook(make: () => PriceBookEvent | undefined): Promise<void> {
    const { log, stored } = this.#options;
    for (let attempt = 1; ; attempt++) {
      const event = make();
      if (event === undefined) return;
      try {
        await log.append({ stream: stored.stream, events: [event], expectedVersion: stored.book.version });
        return;
      } catch (error) {
        if (!(error instanceof ConcurrencyError) || attempt === MAX_CONFLICTS) throw error;
        await stored.newest();
      }
    }
  }

  /**
   * Records what a question has read at the shown head, before its answer is given. Resolves once it is durable. Of a block
   * that is not shown only the token's facts and pools are recorded: nobody knows yet whether it will be.
   * @returns true if the log has the price
   */
  async note(entry: QuoteToRecord): Promise<boolean> {
    const { stored } = this.#options;
    await stored.ready();
    const { number, hash } = entry.quote.market.block;
    const { token, market } = entry.quote;
    if (this.#options.view.head()?.hash !== hash && this.#next?.hash !== hash) {
      if (this.#unshown.size >= MAX_UNSHOWN) this.#unshown.clear();
      this.#unshown.set(token, entry);
      await this.noteFound(token, market);
      return false;
    }
    const head = stored.book.headAt(number);
    // The reader has read it, or does so.
    if (head?.hash === hash && head.isWhole && stored.book.runAt(token, number) !== undefined) return true;
    if (this.#isReadByOther(token)) return false;
    await this.#recordSoon([entry]);
    return (await stored.standingAt(token, number)) !== undefined;
  }

  #isReadByOther(token: Address): boolean {
    const { stored, clock } = this.#options;
    const isAlive = clock.monotonic() - stored.wholeMs <= SILENT_MS;
    return isAlive && !this.isReader && stored.book.members.has(token);
  }

  #recordSoon(entries: readonly QuoteToRecord[]): Promise<void> {
    this.#pending.push(...entries);
    // Several questions wait for this record, so the answer to the one that begins it must not end it.
    this.#recording ??= Budget.outside(() => this.#turns.run(() => this.#recordPending()));
    return this.#recording;
  }

  async #recordPending(): Promise<void> {
    // Questions of the same turn of the event loop share one record.
    await yieldToEventLoop();
    const entries = this.#pending;
    this.#pending = [];
    this.#recording = undefined;
    const { block } = entries[0]!.quote.market;
    const ofBlock = entries.filter(({ quote }) => quote.market.block.hash === block.hash);
    await this.#record(ofBlock, block, false);
  }

  /**
   * Records a head that is about to be shown, with the quotes of all tokens that were read at it. From then on this
   * process is the reader.
   */
  async recordHead(entries: readonly QuoteToRecord[], head: PricedBlock): Promise<void> {
    await this.#turns.run(async () => {
      await this.#record(entries, head, true);
      await this.#thin(head);
    });
  }

  /** Once a day, leaves of the heads that are too old the last one of each hour. */
  async #thin({ timestamp }: PricedBlock): Promise<void> {
    const { historyDays, stored, clock } = this.#options;
    const now = clock.monotonic();
    if (historyDays === undefined || now - this.#thinnedMs < DAY_MS) return;
    this.#thinnedMs = now;
    const before = stored.book.lastBefore(timestamp - (historyDays * DAY_MS) / 1_000);
    if (before === undefined || before === stored.book.first) return;
    await this.#appendToBook(() => ({ type: "PricesThinned", before, seconds: HOUR_MS / 1_000 }));
  }

  async #record(entries: readonly QuoteToRecord[], head: PricedBlock, isWhole: boolean): Promise<void> {
    const { stored } = this.#options;
    for (let attempt = 1; attempt <= MAX_CONFLICTS; attempt++) {
      if (!this.#mayRecord(head, isWhole)) return;
      if (await this.#tryRecord(entries, head, isWhole)) return;
      await stored.newest();
    }
  }

  /** True if a head is newer than what the book has, or takes the place of a lost branch. */
  #mayRecord({ number, hash }: PricedBlock, isWhole: boolean): boolean {
    const { stored, view } = this.#options;
    const last = stored.book.lastHead;
    if (last === undefined || last.block < number) return true;
    if (last.block === number && last.hash === hash) return !(isWhole && last.isWhole);
    return !view.isCanonical({ number: last.block, hash: last.hash }, last.chainVersion);
  }

  /** Returns false after a conflict. */
  async #tryRecord(entries: readonly QuoteToRecord[], head: PricedBlock, isWhole: boolean): Promise<boolean> {
    const { log, stored } = this.#options;
    const { book } = stored;
    // A stream that is not written yet guards nothing.
    if (book.version === 0) await this.#appendToBook(() => ({ type: "PricesWanted", tokens: {} }));
    if (book.version === 0) await stored.newest();
    const version = book.version;
    const isAnew = isWhole && this.#beginsAnew();
    // One pool of the coin for all: the book tells it once.
    const coin = this.#coinAt(head, entries[0]?.quote);
    const drafts = await this.#drafts(entries, { head, coin, isWhole, isAnew });
    const appends = drafts.flatMap(({ append }) => append ?? []);
    const outcomes = appends.length === 0 ? [] : await log.appendAll(appends);
    const refused = new Set<string>();
    for (const [at, outcome] of outcomes.entries()) {
      if (!("error" in outcome)) continue;
      const { error } = outcome;
      if (!(error instanceof ConcurrencyError)) throw error;
      if (error.stream === stored.stream) return false;
      refused.add(appends[at]!.stream);
    }
    const failed = drafts.filter(({ append }) => append !== undefined && refused.has(append.stream));
    await Promise.all(failed.map(({ token }) => stored.newestHistory(token)));
    if (failed.length > 0) return false;
    const event = this.#headEvent(entries[0]?.quote, { head, coin, isWhole, isAnew, drafts });
    if (event === undefined) return true;
    try {
      await stored.to(await log.append({ stream: stored.stream, events: [event], expectedVersion: version }));
    } catch (error) {
      if (error instanceof ConcurrencyError) return false;
      throw error;
    }
    if (isWhole) [this.#isOpen, this.#hasSkipped] = [false, false];
    return true;
  }

  /** Says that a head is shown next. Without a record of it the reader's set ends. */
  begins(head: PricedBlock): void {
    this.#hasSkipped ||= this.#isOpen;
    this.#isOpen = true;
    this.#next = head;
    const shown = [...this.#unshown.values()].filter(({ quote }) => quote.market.block.hash === head.hash);
    this.#unshown.clear();
    // A record that fails is one price less in the log. The question was answered.
    if (shown.length > 0) void this.#recordSoon(shown).catch(() => undefined);
  }

  /** True if the reader's set begins empty: another process read before, or blocks of the last head's branch are lost. */
  #beginsAnew(): boolean {
    const { stored, view } = this.#options;
    const last = stored.book.lastHead;
    const isLost = last !== undefined && !view.isCanonical({ number: last.block, hash: last.hash }, last.chainVersion);
    return this.#hasSkipped || !this.isReader || isLost || stored.book.sinceBegin >= BEGIN_EVERY;
  }

  async #drafts(
    entries: readonly QuoteToRecord[],
    { head, coin, isWhole, isAnew }: HeadToRecord,
  ): Promise<readonly Draft[]> {
    const { stored } = this.#options;
    const drafts: Draft[] = [];
    for (const [at, entry] of entries.entries()) {
      if (at % SLICE === SLICE - 1) await yieldToEventLoop();
      const { token } = entry.quote;
      const history = await stored.history(token);
      const isHeld = isWhole && !isAnew && stored.book.members.has(token);
      drafts.push(this.#draft(entry, history, { head, coin, isHeld }));
    }
    return drafts;
  }

  #draft(
    { quote, keys }: QuoteToRecord,
    history: PriceHistory,
    { head, coin, isHeld }: Pick<HeadToRecord, "head" | "coin"> & { readonly isHeld: boolean },
  ): Draft {
    const { chainId, stored, rules } = this.#options;
    const { token, market } = quote;
    const sides = ownSides(quote, coin);
    const { facts, pools } = foundIn(history, market.facts, storedPools(quote, sides), market.block.number);
    const added = pools.filter(({ pool }) => history.numberOf(pool) === undefined);
    const numbers = new Map(added.map(({ pool }, at) => [pool as string, history.pools.length + at]));
    const numberOf = (pool: string) => history.numberOf(pool) ?? numbers.get(pool)!;
    const price = encodePrice(toStoredPrice(quote, sides, { rules, numberOf }));
    const last = history.lastStates;
    const isSame =
      last !== undefined &&
      areEqual(last, storedStates(price)) &&
      hasFacts(history.factsOf(history.size - 1), market.facts);
    const stands = isSame && (isHeld || history.isLastAt(head.number, head.hash));
    const events: PriceEvent[] = [...facts, ...pools];
    const mayAppend = stands || this.#mayAppend(keys);
    if (!stands && mayAppend) events.push({ type: "TokenPriced", price });
    const guard = { stream: stored.stream, version: stored.book.version };
    const append = { stream: priceStream(chainId, token), events, expectedVersion: history.version, guard };
    return { token, append: events.length === 0 ? undefined : append, stands: mayAppend };
  }

  /** The coin's pool as the book has it at a head, or will. */
  #coinAt(head: PricedBlock, quote: Quote | undefined): CoinState | undefined {
    const { book } = this.#options.stored;
    const known = book.headAt(head.number);
    if (known?.hash === head.hash) {
      return known.coin && { pool: book.pools[known.coin.pool]!.pool, state: known.coin };
    }
    if (quote?.coin === undefined) return undefined;
    const { coin, market } = quote;
    const { id } = coin.pool;
    return { pool: id, state: coinStateOf(coin, market, book.numberOf(id) ?? book.pools.length) };
  }

  /** True if one of the keys may have one more price recorded. */
  #mayAppend(keys: Iterable<string>): boolean {
    const capacity = this.#options.pricesPerHour;
    for (const key of keys) if (this.#prices.take(key, { capacity, fillMs: HOUR_MS }) === 0) return true;
    return false;
  }

  /** Undefined if the book has the head already, and nothing is added to it. */
  #headEvent(quote: Quote | undefined, made: HeadToRecord & { readonly drafts: readonly Draft[] }) {
    const { stored, view, rules } = this.#options;
    const { book } = stored;
    const { coin, isWhole, isAnew, drafts } = made;
    const { number: block, hash, timestamp } = made.head;
    const last = book.lastHead;
    if (!isWhole && last?.block === block && last.hash === hash) return undefined;
    const before = last !== undefined && last.block < block ? last.coin : undefined;
    const isUnchanged = coin && before && areEqual(encodeState(coin.state), encodeState(before));
    // A fold may begin where a set begins.
    const isSame = isUnchanged === true && !isAnew;
    const flags =
      (isWhole ? HEAD_FLAGS.isWhole : 0) |
      (coin === undefined ? 0 : HEAD_FLAGS.hasCoin) |
      (isSame ? HEAD_FLAGS.isSameCoin : 0);
    const head = encodeHead({
      ...{ block, hash, timestamp, chainVersion: view.version, rules, flags },
      coin: isSame ? undefined : coin?.state,
    });
    const isNewPool = coin !== undefined && book.numberOf(coin.pool) === undefined;
    const newPools = isNewPool ? [toStoredPool(quote!.coin!.pool)] : [];
    const disputed = (quote?.disputed ?? []).map(({ coin: { address }, usd }) => ({
      ...{ coin: address, usd: [String(usd.n), String(usd.d)] as const },
    }));
    const event: HeadPriced = {
      ...{ type: "HeadPriced", head },
      ...(isWhole ? this.#changes(drafts, isAnew) : {}),
      ...(isAnew ? { pools: [...book.pools, ...newPools] } : newPools[0] === undefined ? {} : { pool: newPools[0] }),
      ...(disputed.length > 0 ? { disputed } : {}),
    };
    return event;
  }

  /** Who reads, and which tokens joined its set and left it. */
  #changes(drafts: readonly Draft[], isAnew: boolean): Pick<HeadPriced, "reader" | "joined" | "left"> {
    const { book } = this.#options.stored;
    const standing = new Set(drafts.filter(({ stands }) => stands).map(({ token }) => token));
    const members = isAnew ? new Set<Address>() : new Set(book.members.keys());
    const joined = [...standing].filter((token) => !members.has(token));
    const left = [...members].filter((token) => !standing.has(token));
    return {
      ...(isAnew ? { reader: this.#id } : {}),
      ...(joined.length > 0 ? { joined } : {}),
      ...(left.length > 0 ? { left } : {}),
    };
  }

  /** Records what was found of a token that has no price now: its facts and its pools. */
  async noteFound(token: Address, { facts, pools: all, block }: Market): Promise<void> {
    const { chainId, log, stored } = this.#options;
    const pools = poolsWith(token, all);
    for (let attempt = 1; attempt <= MAX_CONFLICTS; attempt++) {
      const history = await (attempt === 1 ? stored.history(token) : stored.newestHistory(token));
      const found = foundIn(history, facts, pools, block.number);
      const events = [...found.facts, ...found.pools];
      if (events.length === 0) return;
      try {
        await log.append({ stream: priceStream(chainId, token), events, expectedVersion: history.version });
        return;
      } catch (error) {
        if (!(error instanceof ConcurrencyError)) throw error;
      }
    }
  }
}

const areEqual = (one: Uint8Array, other: Uint8Array): boolean => Buffer.compare(one, other) === 0;

const poolsWith = (token: Address, pools: readonly Pool[]): readonly Pool[] =>
  pools.filter(({ token0, token1 }) => token0 === token || token1 === token);

/** The token's pools, and those that its stored price names. */
function storedPools({ token, market }: Quote, { legs, nativeSide }: OwnSides): readonly Pool[] {
  const named = [...legs, ...(nativeSide === undefined ? [] : [nativeSide])].map(({ pool }) => pool);
  return [...new Map([...poolsWith(token, market.pools), ...named].map((pool) => [pool.id, pool])).values()];
}

const hasFacts = (known: TokenIdentified | undefined, { name, symbol, decimals }: TokenFacts): boolean =>
  known !== undefined && known.name === name && known.symbol === symbol && known.decimals === decimals;

/** The facts and pools that a history does not have yet, as events. */
function foundIn(history: PriceHistory, facts: TokenFacts, pools: readonly Pool[], block: number) {
  const { name, symbol, decimals, kind } = facts;
  const identified: TokenIdentified = {
    ...{ type: "TokenIdentified", name, symbol, isContract: kind !== "not_a_token", block },
    ...(decimals === undefined ? {} : { decimals }),
  };
  const isNews = ({ id, stableCurve }: Pool): boolean => {
    const number = history.numberOf(id);
    return number === undefined || (history.pools[number]!.stableCurve === true) !== stableCurve;
  };
  const discovered = pools
    .filter(isNews)
    .map((pool): PoolDiscovered => ({ type: "PoolDiscovered", ...toStoredPool(pool), block }));
  return { facts: hasFacts(history.facts.at(-1), facts) ? [] : [identified], pools: discovered };
}
