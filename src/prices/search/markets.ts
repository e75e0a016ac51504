/**
 * A token's market at a block. At the head, one read of the node gives the token's facts and the states of all pools that
 * its price depends on; memory keeps the last read of each token. Tokens asked about lately are read ahead together at
 * each new head, and their prices are recorded before it is shown. At a past block, `history.ts` reads.
 */
import type { ChainView } from "../../chain/consumer.ts";
import type { Chain } from "../../chains/chains.ts";
import type { Deployment } from "../../chains/exchanges.ts";
import { isMoney } from "../../chains/tokens.ts";
import { Budget, OverBudget, type SharedWork } from "../../core/budget.ts";
import type { Clock } from "../../core/clock.ts";
import { AppError, Refusal } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import { OwnedCache } from "../../core/owned-cache.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import type { HeaderRef } from "../../events/types.ts";
import type { Call, CallsAtHead, ChainReader, CodeStart } from "../../rpc/port.ts";
import type { Market, PricedBlock, TokenFacts } from "../market/market.ts";
import type { Pool, PoolId } from "../market/pools.ts";
import {
  isPriceable,
  isPricedDirectly,
  notAToken,
  plainOptions,
  type QuoteOptions,
  quote,
  refusal,
} from "../market/quote.ts";
import type { PriceRecorder, QuoteToRecord } from "../stored/price-recorder.ts";
import type { StoredPrices } from "../stored/stored-prices.ts";
import { AnnouncedPools } from "./announced-pools.ts";
import { planMarket, venueOf } from "./discovery.ts";
import { type SeenMarket, seenAt, seenIn } from "./history.ts";
import { type HeadRead, Origins, type PastReader, type PastSource } from "./past-source.ts";
import { PoolLists, pricingPools, type Subject, unknownExchange, type Wanted } from "./pool-lists.ts";

interface MarketsOptions {
  readonly chain: Chain;
  /** Those whose pools rank. */
  readonly exchanges: readonly Deployment[];
  readonly reader: ChainReader;
  readonly view: ChainView;
  readonly clock: Clock;
  readonly stored: StoredPrices;
  readonly recorder: PriceRecorder;
  /** Most tokens and pools that are read ahead at a head: up to six calls each, five hundred in one request. */
  readonly readsAhead: number;
  /** Charges what is read ahead to the keys that want it. */
  readonly shared: SharedWork;
}

/** A token is read ahead at each new head for this long after a question, in ms. */
const ASKED_MS = 60_000;
/** Tokens asked about and their markets: a market has some 30 states, 15 KB. */
const MAX_TOKENS = 2_000;
/** A market ahead of the published head is used for at most this long, in ms. */
const AHEAD_MS = 15_000;
/** Quotes without a pause for the event loop: some milliseconds. */
const QUOTED_AT_ONCE = 8;
/** Reads of a token in which a pool may be announced meanwhile. */
const MAX_READS = 3;

/** Bytes of a delegation to another contract's code, which begins with `DELEGATION` (EIP-7702). */
const DELEGATION_BYTES = 23;
const DELEGATION = "ef0100";

/** True without code, or with a delegation in its place. */
const isAccount = ({ bytes, start }: CodeStart): boolean =>
  bytes === 0 || (bytes === DELEGATION_BYTES && start === DELEGATION);

/** Two unlisted factories can name one pool. */
const keyOf = ({ id, factory }: Pool): string => `${id} ${factory}`;

/** The keys, each once. The one without a name is the service itself, which pays only alone. */
export function payingKeys(keys: Iterable<string>): ReadonlySet<string> {
  const distinct = new Set(keys);
  if (distinct.size > 1) distinct.delete("");
  return distinct;
}

/** Tokens that are read ahead with their pools, and each pool once. */
interface TokensAhead {
  readonly subjects: ReadonlyMap<Subject, readonly Pool[]>;
  readonly pools: ReadonlyMap<PoolId, Pool>;
}

interface KeptMarket {
  readonly market: Market;
  /** `Clock.monotonic` of the read. */
  readonly readMs: number;
}

export class Markets {
  readonly #options: MarketsOptions;
  readonly #lists: PoolLists;
  readonly announced: AnnouncedPools;
  readonly #origins = new Origins();
  /**
   * `Clock.monotonic` of the last question of each key about a token that had a price. Its owner is the first of the keys
   * that still ask.
   */
  readonly #asked = new OwnedCache<Address, ReadonlyMap<string, number>>(MAX_TOKENS);
  readonly #kept = new OwnedCache<Address, KeptMarket>(MAX_TOKENS);
  /** Tokens that have subscribers, and the subscribers' keys. */
  readonly #watched = new Map<Address, () => Iterable<string>>();
  #askedMs = Number.NEGATIVE_INFINITY;
  #isDiscovering = false;
  /** Number of the newest block that was read. */
  newest = -1;

  constructor(options: MarketsOptions) {
    const { chain, exchanges, reader, view } = options;
    this.#options = options;
    this.#lists = new PoolLists({ chain, exchanges, reader, view, callsAtHead: (calls) => this.#callsAtHead(calls) });
    this.announced = new AnnouncedPools({
      ...{
        chain,
        reader,
        clock: options.clock,
        head: () => view.head(),
        isCanonical: (block) => view.isCanonical(block),
      },
      venues: exchanges.filter(({ style }) => style === "v4").map((one) => venueOf(chain, one)),
      announcesNone: (...range) => this.#lists.announcesNone(...range),
    });
  }

  /** True if a price was requested in the last minute, or is watched. */
  get isAsked(): boolean {
    return this.#watched.size > 0 || this.#options.clock.monotonic() - this.#askedMs < ASKED_MS;
  }

  /** Notes that a client wants a price at the head. */
  noteQuestion(): void {
    this.#askedMs = this.#options.clock.monotonic();
  }

  /**
   * Notes a question about a token that has a price: it is read ahead from now on, for the key. The token belongs to the
   * first key that asks about it, so that another one can't take it over and let it be evicted.
   * @param key "" if it is not known
   */
  noteAsked(token: Address, key = ""): void {
    this.noteQuestion();
    // Its subscribers' own reads don't prolong the question of another key.
    if (key === "" && this.#watched.has(token)) return;
    const asked = new Map(this.#askedLately(token)).set(key, this.#askedMs);
    const owner = [...asked.keys()].find((name) => name !== "") ?? "";
    this.#asked.set(token, asked, owner);
    const kept = this.#kept.peek(token);
    if (kept !== undefined && this.#kept.ownerOf(token) !== owner) this.#kept.set(token, kept, owner);
  }

  /**
   * Has a token read ahead at each head until the returned function is called.
   * @param keys the names of the keys that want it at the moment of the call
   */
  watch(token: Address, keys: () => Iterable<string>): () => void {
    this.#watched.set(token, keys);
    return () => {
      this.#watched.delete(token);
      // The question of a subscriber that is gone needs no more reads. Another client's next one notes it anew.
      this.#asked.delete(token);
    };
  }

  /** The keys that want a token: its subscribers', and those that asked lately. The service itself only if no key does. */
  keysOf(token: Address): ReadonlySet<string> {
    return payingKeys([...(this.#watched.get(token)?.() ?? []), ...this.#askedLately(token).map(([key]) => key)]);
  }

  /** The keys for which a token is read ahead: those that want it here, and those of other processes. */
  #payersOf(token: Address): ReadonlySet<string> {
    return payingKeys([...this.keysOf(token), ...(this.#options.stored.wanted().get(token)?.keys ?? [])]);
  }

  /** The keys that asked about a token in the last minute, with the times. */
  #askedLately(token: Address): readonly (readonly [string, number])[] {
    const since = this.#options.clock.monotonic() - ASKED_MS;
    return [...(this.#asked.peek(token) ?? [])].filter(([, ms]) => ms > since);
  }

  /** Forgets all markets: the chain may have moved on without being followed. */
  forget(): void {
    this.#kept.clear();
  }

  /** The source for reads of past blocks, with the final block known at this moment. */
  pastSource(reader: PastReader = this.#options.reader): PastSource {
    const { chain, view } = this.#options;
    return { chain, reader, origins: this.#origins, finalized: view.finalized()?.number ?? -1 };
  }

  /** Returns the token's market at this head; undefined if it was not read there. */
  keptAt(token: Address, head: HeaderRef): Market | undefined {
    const market = this.#kept.get(token)?.market;
    return market?.block.hash === head.hash ? market : undefined;
  }

  /** Returns the last market read from the node while the published head has not reached its block yet. */
  keptAhead(token: Address, head: HeaderRef): Market | undefined {
    const { clock, view } = this.#options;
    const { market, readMs } = this.#kept.get(token) ?? {};
    if (market === undefined || clock.monotonic() - readMs! >= AHEAD_MS) return undefined;
    return market.block.number > head.number && view.isCanonical(market.block) ? market : undefined;
  }

  /**
   * Reads the markets of tokens at the node's newest block, all at one: the factories if pools are not known, then facts
   * and states in one round trip. A refusal stands for an address that is not a priceable token, and for an unlisted
   * factory that is not a factory.
   * @param owner the key that asks
   */
  async atHead(wanted: readonly Wanted[], owner = ""): Promise<readonly (Market | Refusal)[]> {
    const { chain, clock } = this.#options;
    let subjects = wanted.map(({ token, unlisted }) => (unlisted === undefined ? this.#lists.known(token) : undefined));
    for (let reads = 1; ; reads++) {
      const whole = await this.#discovered(wanted, subjects);
      // What is no token is refused before its pools are read.
      const refused = await this.#refusalsOf(
        whole.map(({ token, factoryAnswers, found }) =>
          factoryAnswers ? { token, facts: found?.facts } : unknownExchange(chain),
        ),
      );
      const open = whole.filter((_, at) => refused[at] === undefined);
      if (open.length === 0) return refused as Refusal[];
      const own = new Map(open.map((subject) => [subject, pricingPools(chain, subject)]));
      const pools = new Map([...own.values()].flat().map((pool) => [keyOf(pool), pool]));
      const tokens = [...new Set(open.map(({ token }) => token))];
      const [at] = open.flatMap(({ found }) => found?.header ?? []).sort((a, b) => b.number - a.number);
      const read = await this.#readAt(tokens, [...pools.values()], at);
      await this.#lists.readTo(read.header);
      const tradable = open.filter(({ token }) => isPriceable(read.facts.get(token)!));
      const lacking = new Set(tradable.filter((one) => !this.#lists.isWhole(one, read.header.number)));
      if (lacking.size > 0 && reads < MAX_READS) {
        subjects = whole.map((subject) => (lacking.has(subject) ? undefined : subject));
        continue;
      }
      for (const subject of tradable) this.#lists.keep(subject, this.#asked.ownerOf(subject.token) ?? owner);
      const marketOf = this.#marketsIn(read, own);
      const refusals = await this.#refusalsOf(
        whole.map(({ token }, index) => refused[index] ?? { token, facts: read.facts.get(token) }),
      );
      const markets: (Market | Refusal)[] = [];
      for (const [index, subject] of whole.entries()) {
        const refusal = refusals[index];
        if (refusal === undefined && index % QUOTED_AT_ONCE === QUOTED_AT_ONCE - 1) await yieldToEventLoop();
        const market = refusal ?? marketOf(subject);
        if (!(market instanceof Refusal) && wanted[index]!.unlisted === undefined) {
          this.#keep(subject.token, market, clock.monotonic());
        }
        markets.push(market);
      }
      return markets;
    }
  }

  #keep(token: Address, market: Market, readMs: number): void {
    this.#kept.set(token, { market, readMs }, this.#asked.ownerOf(token) ?? "");
  }

  /**
   * Returns the refusals of addresses that are no priceable tokens. Needs no pool, and one read for all.
   * @param facts undefined where they are not known yet
   */
  async #refusalsOf(
    seen: readonly (Refusal | { readonly token: Address; readonly facts: TokenFacts | undefined })[],
  ): Promise<(Refusal | undefined)[]> {
    const { chain, reader } = this.#options;
    const unclear = seen.flatMap((one) =>
      !(one instanceof Refusal) && one.facts?.kind === "not_a_token" && one.facts.standard === undefined
        ? one.token
        : [],
    );
    const codes = unclear.length === 0 ? [] : await reader.codes(unclear);
    const accounts = new Set(unclear.filter((_, at) => isAccount(codes[at]!)));
    return seen.map((one) => {
      if (one instanceof Refusal) return one;
      const { token, facts } = one;
      if (facts === undefined || isPriceable(facts)) return undefined;
      if (facts.kind === "no_decimals") return refusal("unknown_decimals");
      return notAToken(token, chain, facts, accounts.has(token));
    });
  }

  /** Asks the factories about the tokens whose pools are not known, all at once. */
  async #discovered(wanted: readonly Wanted[], known: readonly (Subject | undefined)[]): Promise<readonly Subject[]> {
    const missing = wanted.filter((_, at) => known[at] === undefined);
    const found = missing.length === 0 ? [] : await this.#lists.discover(missing);
    return known.map((subject) => subject ?? found.shift()!);
  }

  /** Returns the market of each subject in a read of several. */
  #marketsIn(read: HeadRead, own: ReadonlyMap<Subject, readonly Pool[]>): (subject: Subject) => Market {
    const byPool = new Map(read.reads.map((one) => [keyOf(one.pool), one]));
    return (subject) => {
      const reads = own.get(subject)!.flatMap((pool) => byPool.get(keyOf(pool)) ?? []);
      return this.#market(seenIn({ ...read, reads }, subject.token, read.header), read.header, false);
    };
  }

  /**
   * Reads the markets of the tokens that clients wait for at a new head, all in one round trip, for the keys that want
   * them, and records their prices. While another process does so for all, this one waits for its records.
   * @throws OverBudget if it takes more than one question for each token may
   */
  async readAhead(head: HeaderRef): Promise<void> {
    const { stored, recorder, shared } = this.#options;
    const isWanted = this.#wanted().next().done !== true;
    recorder.begins(head);
    if (!isWanted && !(recorder.isReader && stored.wanted().size > 0)) return;
    await stored.ready();
    if (await recorder.isCovered(head)) {
      const own = new Map([...this.#wanted()].map((token) => [token, this.keysOf(token)]));
      // The next heads have them.
      void recorder.want(own).catch(() => undefined);
      return;
    }
    // A process that begins to read may know pools of no token: others read for its clients.
    if (!recorder.isReader) await this.#discover(this.#wantedByAll());
    const lately = this.#lately(head);
    const keysOf = [...lately.subjects.keys()].map(({ token }) => this.#payersOf(token));
    await shared.share(keysOf, () => this.#readTogether(lately, head));
    await recorder.recordHead(await this.#quotesAt(head), head);
    // For the next heads. Its own clients' questions find their tokens themselves.
    void this.#discover(stored.wanted().keys());
  }

  async #readTogether({ subjects, pools }: TokensAhead, head: HeaderRef): Promise<void> {
    const { clock } = this.#options;
    const tokens = [...subjects.keys()].map(({ token }) => token);
    const [read] = await Promise.all([this.#readAt(tokens, [...pools.values()], head), this.#lists.readTo(head)]);
    if (read.header.hash !== head.hash) return;
    const whole = [...subjects.keys()].filter(
      (subject) => this.#lists.isWhole(subject, head.number) && isPriceable(read.facts.get(subject.token)!),
    );
    const marketOf = this.#marketsIn(read, subjects);
    for (const subject of whole) {
      // A request may have read a newer block meanwhile. A price does not go back behind one that was given.
      if (this.keptAhead(subject.token, head) !== undefined) continue;
      this.#keep(subject.token, marketOf(subject), clock.monotonic());
    }
  }

  /** The prices of the tokens that anybody waits for, as far as they were read at this head and have one. */
  async #quotesAt(head: HeaderRef): Promise<readonly QuoteToRecord[]> {
    const quotes: QuoteToRecord[] = [];
    let tried = 0;
    for (const token of this.#wantedByAll()) {
      const market = this.keptAt(token, head);
      if (market === undefined) continue;
      if (++tried % QUOTED_AT_ONCE === 0) await yieldToEventLoop();
      try {
        const keys = this.#payersOf(token);
        quotes.push({ quote: quote(market, plainOptions(token, market)), keys: keys.size > 0 ? keys : [""] });
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
      }
    }
    return quotes;
  }

  /** Finds the pools of tokens that clients wait for, as far as this process doesn't know them. */
  async #discover(tokens: Iterable<Address>): Promise<void> {
    const { shared, readsAhead, reader } = this.#options;
    const unknown = [...tokens].filter((token) => this.#lists.known(token) === undefined && !reader.isCostly(token));
    if (this.#isDiscovering || unknown.length === 0) return;
    this.#isDiscovering = true;
    const wanted = unknown.slice(0, readsAhead).map((token) => ({ token, unlisted: undefined }));
    const keysOf = wanted.map(({ token }) => this.#payersOf(token));
    try {
      await Budget.outside(() => shared.share(keysOf, () => this.atHead(wanted)));
    } catch (error) {
      // The next head tries again.
      if (!(error instanceof AppError || error instanceof Refusal || error instanceof OverBudget)) throw error;
    } finally {
      this.#isDiscovering = false;
    }
  }

  /** Yields the tokens of this process's clients, then those that other processes want. */
  *#wantedByAll(): Generator<Address> {
    const own = new Set(this.#wanted());
    yield* own;
    for (const token of this.#options.stored.wanted().keys()) if (!own.has(token)) yield token;
  }

  /** Yields the tokens that clients wait for: those with subscribers, then the last ones asked about. */
  *#wanted(): Generator<Address> {
    yield* this.#watched.keys();
    const since = this.#options.clock.monotonic() - ASKED_MS;
    const recent = [...this.#asked.entries()]
      .map(([token, asked]) => [token, Math.max(...asked.values())] as const)
      .filter(([token, ms]) => ms > since && !this.#watched.has(token))
      .reverse();
    for (const [token] of recent.sort(([, a], [, b]) => b - a)) yield token;
  }

  /** Returns the tokens to be read ahead with their pools, and each pool once. */
  #lately(head: HeaderRef): TokensAhead {
    const { chain, readsAhead, reader, shared } = this.#options;
    const subjects = new Map<Subject, readonly Pool[]>();
    const pools = new Map<PoolId, Pool>();
    for (const token of this.#wantedByAll()) {
      if (subjects.size + pools.size >= readsAhead) break;
      const subject = this.#lists.known(token);
      // A key that owes requests waits, unless another key wants the token too.
      if (reader.isCostly(token) || !shared.hasRate(this.#payersOf(token))) continue;
      const isRead = this.keptAt(token, head) !== undefined || this.keptAhead(token, head) !== undefined;
      if (subject === undefined || isRead) continue;
      const own = pricingPools(chain, subject);
      for (const pool of own) pools.set(pool.id, pool);
      subjects.set(subject, own);
    }
    return { subjects, pools };
  }

  /** Reads facts and pools at a block that the node has shown, else at its newest one. */
  async #readAt(tokens: readonly Address[], pools: readonly Pool[], at: HeaderRef | undefined): Promise<HeadRead> {
    const plan = planMarket(this.#options.chain, tokens, pools, at?.hash);
    const known = at && (await this.#callsAt(plan.calls, at));
    const { header, results } = known ?? (await this.#callsAtHead(plan.calls));
    this.newest = Math.max(this.newest, header.number);
    return { header, ...plan.read(results) };
  }

  /** Runs calls at a known block; undefined if the node has not got it, or not its state. */
  async #callsAt(calls: readonly Call[], block: HeaderRef): Promise<CallsAtHead | undefined> {
    try {
      return await this.#options.reader.callsAtBlock(calls, block);
    } catch (error) {
      if (error instanceof AppError) return undefined;
      throw error;
    }
  }

  /** Runs calls at the newest block. Retries once on another endpoint if the first one is behind the published head. */
  async #callsAtHead(calls: readonly Call[]): Promise<CallsAtHead> {
    const { reader, view } = this.#options;
    const answer = await reader.callsAtHead(calls);
    const shown = view.head();
    if (shown === undefined || answer.header.number >= shown.number) return answer;
    return (await reader.benchLaggards(shown)) ? reader.callsAtHead(calls) : answer;
  }

  /**
   * Returns the token's pools for a past block.
   * @throws Refusal when the unlisted factory is not a factory
   */
  async subject(token: Address, unlisted: Address | undefined, block: number): Promise<Subject> {
    const known = unlisted === undefined ? this.#lists.known(token, block) : undefined;
    const subject = known ?? (await this.#lists.discover([{ token, unlisted }]))[0]!;
    if (!subject.factoryAnswers) throw unknownExchange(this.#options.chain);
    return subject;
  }

  /** Returns the market at the end of a past block, with these pools only. */
  async past(token: Address, block: PricedBlock, pools: readonly Pool[], reader?: PastReader): Promise<Market> {
    return this.#market(await seenAt(this.pastSource(reader), { token, pools }, block), block, true);
  }

  /**
   * Returns the market at the end of a past block. Adds the connectors' pools only if the token has no direct price:
   * without archive state each pool is a search through logs, down to the first block if the pool is younger.
   * @param reader shares its reads with other questions; by default the chain's. `owner`: the key that asks
   * @throws Refusal when the address is not a priceable token
   */
  async pastFor(
    subject: Subject,
    block: PricedBlock,
    optionsAt: (market: Market) => QuoteOptions,
    { reader, owner = "" }: { readonly reader?: PastReader | undefined; readonly owner?: string } = {},
  ): Promise<Market> {
    const { chain } = this.#options;
    const { token } = subject;
    const pools = pricingPools(chain, subject);
    const ends = (address: Address): boolean => address === token || isMoney(chain, address);
    // The token's own pools with the native coin and the stablecoins, and the pools that set the dollar.
    const direct = pools.filter(({ token0, token1 }) => ends(token0) && ends(token1));
    const market = await this.past(token, block, direct, reader);
    const [refused] = await this.#refusalsOf([{ token, facts: market.facts }]);
    if (refused !== undefined) throw refused;
    this.#lists.keep(subject, this.#asked.ownerOf(token) ?? owner);
    if (direct.length === pools.length || isPricedDirectly(market, optionsAt(market))) return market;
    return this.past(token, block, pools, reader);
  }

  /** Returns the market with more pools of a token, and with those of the connectors in them, read at its block. */
  async withPools(market: Market, token: Address, more: readonly Pool[], reader?: PastReader): Promise<Market> {
    const { block } = market;
    const pools = [...more, ...this.#onward(market, token, more)];
    let seen: SeenMarket;
    if (market.isPast) seen = await seenAt(this.pastSource(reader), { token, pools }, block);
    else {
      const plan = planMarket(this.#options.chain, [token], pools, block.hash);
      const { header, results } = await this.#options.reader.callsAtBlock(plan.calls, block);
      seen = seenIn(plan.read(results), token, header);
    }
    const { archive = seen.archive } = market;
    return {
      ...market,
      ...(archive === undefined
        ? {}
        : { archive: { ...archive, absent: [...new Set([...archive.absent, ...(seen.archive?.absent ?? [])])] } }),
      pools: [...market.pools, ...seen.pools],
      states: new Map([...market.states, ...seen.states]),
      decimals: new Map([...seen.decimals, ...market.decimals]),
    };
  }

  /** The pools that lead from the other tokens of these pools to money, as far as the market lacks them. */
  #onward({ pools, block }: Market, token: Address, more: readonly Pool[]): readonly Pool[] {
    const subject = this.#lists.known(token, block.number);
    if (subject === undefined) return [];
    const had = new Set(pools.map(({ id }) => id));
    return pricingPools(this.#options.chain, { ...subject, unlistedPools: more }).filter(
      (pool) => !had.has(pool.id) && !more.includes(pool),
    );
  }

  #market(seen: SeenMarket, { number, hash, timestamp }: PricedBlock, isPast: boolean): Market {
    return { ...seen, chain: this.#options.chain, block: { number, hash, timestamp }, isPast };
  }
}
