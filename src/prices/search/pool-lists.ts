/**
 * The pools that factories name for tokens. A list is whole at a block if the factories were asked at that block or
 * later, or if their logs of every block since announce no pool of the token. Each process reads these logs itself, so
 * that its prices don't depend on another one.
 */
import type { ChainView } from "../../chain/consumer.ts";
import { CHAINS, type Chain } from "../../chains/chains.ts";
import { type Deployment, knownExchanges, type PoolStyle } from "../../chains/exchanges.ts";
import { isMoney, isReference, isReferencePair, referenceTokens } from "../../chains/tokens.ts";
import { Budget, OverBudget } from "../../core/budget.ts";
import { AppError, invalidParameter, type Refusal } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import { OwnedCache } from "../../core/owned-cache.ts";
import { Semaphore } from "../../core/semaphore.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import type { BlockRef, HeaderRef } from "../../events/types.ts";
import type { BlockHeader, Call, CallsAtHead, ChainReader } from "../../rpc/port.ts";
import type { TokenFacts } from "../market/market.ts";
import { otherToken, type Pool, type PoolId } from "../market/pools.ts";
import { isPriceable } from "../market/quote.ts";
import { both, type CallPlan, together } from "../styles/abi.ts";
import type { Venue } from "../styles/style.ts";
import { announced, CREATION_TOPICS, STYLES, TIER_TOPICS } from "../styles/styles.ts";
import {
  type FactsRead,
  pairsAmong,
  planFacts,
  planLaunched,
  planPairs,
  planProbe,
  planUnlisted,
  venueOf,
} from "./discovery.ts";
import {
  askedVenue,
  hasOthers,
  KnownTiers,
  otherPools,
  planTiers,
  type Tiers,
  unaskedVenues,
  withTier,
} from "./venue-tiers.ts";

interface PoolList {
  readonly pools: ReadonlyMap<PoolId, Pool>;
  /** The block at which the factories named them. */
  readonly at: BlockRef;
}

/** A token to be priced. */
export interface Wanted {
  readonly token: Address;
  /** The factory that the request names, if its pools don't rank. */
  readonly unlisted: Address | undefined;
}

/** A token with every pool that may price it. */
export interface Subject {
  readonly token: Address;
  /** The token's own pools; those of the reference tokens if it is money itself. */
  readonly own: PoolList;
  /** The pools that tell the dollar, and those of the connectors. */
  readonly reference: PoolList;
  /** Pools of an unlisted factory, used for this request only. */
  readonly unlistedPools: readonly Pool[];
  /** True if the unlisted factory answers like one of a known style, or if the request names none. */
  readonly factoryAnswers: boolean;
  /** The head at which the factories and the token just answered; undefined if memory had the lists. */
  readonly found?: { readonly header: BlockHeader; readonly facts: TokenFacts };
}

interface ListOptions {
  readonly chain: Chain;
  /** Those whose pools rank. */
  readonly exchanges: readonly Deployment[];
  readonly reader: ChainReader;
  readonly view: ChainView;
  /** Runs calls at the newest block. */
  readonly callsAtHead: (calls: readonly Call[]) => Promise<CallsAtHead>;
}

/** What was found of a token: its pools by listed factories, those by the unlisted one, and its facts. */
type FoundOwn = readonly [Pool[], readonly [Pool[], FactsRead]];

/** What the subjects of one read share. */
interface FoundAt {
  readonly header: BlockHeader;
  readonly reference: PoolList;
  readonly styles: ReadonlyMap<Address, PoolStyle | undefined>;
}

/** What is asked in one round trip of a search by state. */
interface Asking<T> {
  readonly venues: readonly Venue[];
  readonly styles: FoundAt["styles"];
  readonly isReferenceKnown: boolean;
  /** What is read besides. */
  readonly beside: CallPlan<T>;
}

interface AskedPools<T> {
  readonly header: BlockHeader;
  readonly beside: T;
  readonly reference: readonly Pool[];
  /** For each token. */
  readonly own: readonly FoundOwn[];
}

/** Up to this many addresses are asked about in one round trip, whether they are tokens or not. */
const FEW = 8;
/** Tokens whose lists are kept: some kilobytes each. */
const MAX_LISTS = 5_000;
/** Blocks of logs read to keep lists whole. After a longer gap, asking the factories again costs less. */
const MAX_GAP = 512;
/** The part of a question's budget that may go into keeping the lists whole. */
const UPKEEP = 0.3;
/** Announced pools remembered; with more of them, the lists are no longer known to be whole. */
const MAX_CREATED = 50_000;
/** Blocks remembered to step back to after a reorganisation. */
const MAX_READ = 64;

export class PoolLists {
  readonly #options: ListOptions;
  #venues: readonly Venue[];
  readonly #references: readonly Address[];
  readonly #referencePairs: readonly (readonly [Address, Address])[];
  readonly #lists = new OwnedCache<Address, PoolList>(MAX_LISTS);
  #reference: PoolList | undefined;
  /** The first block from which on the factories' logs were read without a gap, and the newest blocks read to. */
  #readFrom = 0;
  #read: BlockRef[] = [];
  /**
   * The newest block in which a pool of the token was announced; pools of two reference tokens count for money. By a
   * factory's address, the newest block in which it has added a tier.
   */
  readonly #created = new Map<Address, number>();
  /** Likewise for pools that only their announcement tells. */
  readonly #unfound = new Map<Address, number>();
  readonly #tiers = new KnownTiers((factory, at) => this.#covers({ at }, factory, this.#newest));
  readonly #turn = new Semaphore(1);

  constructor(options: ListOptions) {
    this.#options = options;
    this.#venues = options.exchanges.map((deployment) => venueOf(options.chain, deployment));
    this.#references = referenceTokens(options.chain).map((token) => token.address);
    this.#referencePairs = pairsAmong(options.chain, this.#references);
  }

  /** The token under which the pools of two reference tokens are listed. */
  get money(): Address {
    return this.#options.chain.wrappedNative.address;
  }

  /** The newest block to which the factories' logs were read. */
  get #newest(): number {
    return this.#read.at(-1)?.number ?? 0;
  }

  /** Returns the subject from memory; undefined when the factories must be asked. `block`: the one to be priced. */
  known(token: Address, block = this.#newest): Subject | undefined {
    const reference = this.#reference;
    const own = isMoney(this.#options.chain, token) ? reference : this.#lists.get(token);
    if (own === undefined || reference === undefined) return undefined;
    const subject = { token, own, reference, unlistedPools: [], factoryAnswers: true };
    return this.isWhole(subject, block) ? subject : undefined;
  }

  /** True if the subject's lists name every pool that exists at the end of the block. */
  isWhole({ token, own, reference }: Pick<Subject, "token" | "own" | "reference">, block: number): boolean {
    return this.#covers(own, token, block) && this.#covers(reference, this.money, block);
  }

  #covers({ at }: Pick<PoolList, "at">, token: Address, block: number): boolean {
    if (!this.#options.view.isCanonical(at)) return false;
    const readTo = this.#read.at(-1)?.number ?? -1;
    const isRead = at.number >= this.#readFrom && block <= readTo && (this.#created.get(token) ?? -1) <= at.number;
    return at.number >= block || isRead;
  }

  /**
   * Asks the factories for the pools of tokens, and for those of the reference tokens unless they are known. Of many
   * addresses, those that are no tokens are asked about nothing else: a token takes hundreds of calls.
   */
  async discover(wanted: readonly Wanted[]): Promise<Subject[]> {
    if (wanted.length <= FEW) return this.#find(wanted);
    const tokens = [...new Set(wanted.map(({ token }) => token))];
    const ofTokens = planFacts(tokens, []);
    const isNew = ofTokens.calls.map((one) => ({ ...one, isNew: true }));
    // Many tokens are asked about no tier in vain.
    const plan = both({ ...ofTokens, calls: isNew }, this.#planUnreadTiers([]));
    const { header, results } = await this.#options.callsAtHead(plan.calls);
    const [{ facts }, tiers] = plan.read(results);
    this.#tiers.note(tiers, header);
    const none = listOf([], header);
    const isToken = ({ token }: Wanted) => isPriceable(facts.get(token)!);
    const found = await this.#find(wanted.filter(isToken));
    return wanted.map((one) => {
      if (isToken(one)) return found.shift()!;
      const { token } = one;
      const lists = { own: none, reference: none, unlistedPools: [], factoryAnswers: true };
      return { token, ...lists, found: { header, facts: facts.get(token)! } };
    });
  }

  async #find(wanted: readonly Wanted[]): Promise<Subject[]> {
    if (wanted.length === 0) return [];
    const { chain } = this.#options;
    const kept = this.known(this.money)?.reference;
    const styles = await this.#stylesOf(wanted.flatMap(({ unlisted }) => unlisted ?? []));
    const venues = this.#venues.map((venue) => askedVenue(venue, this.#tiers.of(venue.factory)));
    const isReferenceKnown = kept !== undefined;
    const ownPairs = wanted.flatMap(({ token }) => this.#ownPairs(token));
    const pairs = isReferenceKnown ? ownPairs : [...this.#referencePairs, ...ownPairs];
    const beside = both(this.#planUnreadTiers(pairs), planLaunched(venues, this.#launched(wanted)));
    const asked = await this.#ask(wanted, { venues, styles, isReferenceKnown, beside });
    const { header } = asked;
    const [tiers, launched] = asked.beside;
    this.#tiers.note(tiers, header);
    // A read of tiers may have failed before.
    if (isReferenceKnown && hasOthers(venues, tiers)) await this.#turn.run(async () => this.#begin(header));
    const missed = unaskedVenues(venues, tiers);
    const rest = { venues: missed, styles: new Map(), isReferenceKnown, beside: NO_POOLS };
    const more = missed.length === 0 ? undefined : await this.#ask(wanted, rest);
    const named = launched.filter(({ token0, token1 }) => [token0, token1].some((one) => isReference(chain, one)));
    const others = Map.groupBy([...otherPools(venues, tiers), ...named], ({ token0, token1 }) =>
      this.#listedUnder(token0, token1),
    );
    const ofMoney = [...asked.reference, ...(more?.reference ?? []), ...(others.get(this.money) ?? [])];
    const reference = kept ?? listOf(ofMoney, header);
    if (kept === undefined) this.#reference = reference;
    const subjects: Subject[] = [];
    for (const [at, one] of wanted.entries()) {
      if (at > 0) await yieldToEventLoop();
      const [found, unlisted] = asked.own[at]!;
      const [missing = []] = more?.own[at] ?? [];
      const own: FoundOwn = [[...found, ...missing, ...(others.get(one.token) ?? [])], unlisted];
      subjects.push(Budget.timed(() => this.#subject(one, own, { header, reference, styles })));
    }
    return subjects;
  }

  /** Asks venues for the pools of tokens, and for those of the reference tokens, in one round trip. */
  async #ask<T>(
    wanted: readonly Wanted[],
    { venues, styles, isReferenceKnown, beside }: Asking<T>,
  ): Promise<AskedPools<T>> {
    const { callsAtHead } = this.#options;
    const shared = both(beside, planPairs(isReferenceKnown ? [] : venues, this.#referencePairs));
    const plans: CallPlan<FoundOwn>[] = [];
    for (const one of wanted) {
      // A token takes a millisecond.
      if (plans.length > 0) await yieldToEventLoop();
      plans.push(Budget.timed(() => this.#planOwn(one, venues, styles)));
    }
    const { header, results } = await callsAtHead([...shared.calls, ...plans.flatMap(({ calls }) => calls)]);
    const [told, reference] = shared.read(results.slice(0, shared.calls.length));
    const own: FoundOwn[] = [];
    let from = shared.calls.length;
    for (const { calls, read } of plans) {
      if (own.length > 0) await yieldToEventLoop();
      const ofToken = results.slice(from, from + calls.length);
      from += calls.length;
      own.push(Budget.timed(() => read(ofToken)));
    }
    return { header, beside: told, reference, own };
  }

  #subject({ token, unlisted }: Wanted, found: FoundOwn, { header, reference, styles }: FoundAt): Subject {
    const [named, [extra, { facts }]] = found;
    const own = isMoney(this.#options.chain, token) ? reference : listOf(named, header);
    // An unlisted factory can return a listed factory's pool. It counts for the listed one.
    const listed = new Set([...reference.pools.keys(), ...own.pools.keys()]);
    const unlistedPools = [...listOf(extra, header).pools.values()].filter(({ id }) => !listed.has(id));
    const factoryAnswers = unlisted === undefined || styles.get(unlisted) !== undefined;
    return { token, own, reference, unlistedPools, factoryAnswers, found: { header, facts: facts.get(token)! } };
  }

  /** Asks unlisted factories for their styles, before anything else is asked of them. */
  async #stylesOf(factories: readonly Address[]): Promise<ReadonlyMap<Address, PoolStyle | undefined>> {
    const { chain, callsAtHead } = this.#options;
    const distinct = [...new Set(factories)];
    const plan = together(distinct.map((factory) => planProbe(chain, factory)));
    const { results } = plan.calls.length === 0 ? { results: [] } : await callsAtHead(plan.calls);
    const styles = plan.read(results);
    return new Map(distinct.map((factory, at) => [factory, styles[at]]));
  }

  /** Reads the tiers that are not known, and the pools of these pairs at those that the data lack. */
  #planUnreadTiers(pairs: readonly (readonly [Address, Address])[]): CallPlan<Tiers> {
    const unread = this.#venues.filter(({ factory }) => this.#tiers.of(factory) === undefined);
    return planTiers(unread, pairs);
  }

  /** The tokens whose lists have a pool of these two: a list has a token's pools with reference tokens. */
  #listing([first, second]: readonly [Address, Address]): readonly Address[] {
    const { chain } = this.#options;
    if (isReferencePair(chain, first, second)) return [this.money];
    return [...(isReference(chain, second) ? [first] : []), ...(isReference(chain, first) ? [second] : [])];
  }

  /** The tokens that a launchpad may have made. */
  #launched(wanted: readonly Wanted[]): readonly Address[] {
    return [...new Set(wanted.map(({ token }) => token))].filter((token) => !isReference(this.#options.chain, token));
  }

  /** The token in whose list a pool is: that of two reference tokens is money's. */
  #listedUnder(token0: Address, token1: Address): Address {
    if (isReferencePair(this.#options.chain, token0, token1)) return this.money;
    return this.#references.includes(token0) ? token1 : token0;
  }

  /** The pairs of a token with reference tokens, without those of two reference tokens. */
  #ownPairs(token: Address): (readonly [Address, Address])[] {
    const pairs = this.#references.filter((quote) => quote !== token).map((quote) => [token, quote] as const);
    return pairs.filter(([, quote]) => !isReferencePair(this.#options.chain, token, quote));
  }

  #planOwn(
    { token, unlisted }: Wanted,
    venues: readonly Venue[],
    styles: ReadonlyMap<Address, PoolStyle | undefined>,
  ): CallPlan<FoundOwn> {
    const { chain } = this.#options;
    const style = unlisted === undefined ? undefined : styles.get(unlisted);
    const pairs = this.#references.filter((quote) => quote !== token).map((quote) => [token, quote] as const);
    return both(
      planPairs(isMoney(chain, token) ? [] : venues, this.#ownPairs(token)),
      both(
        style === undefined ? NO_POOLS : planUnlisted(chain, { factory: unlisted!, style }, pairs),
        planFacts([token], []),
      ),
    );
  }

  /**
   * Keeps the lists of a token that can have a price. Other addresses take no memory.
   * @param owner the key that asked about the token first
   */
  keep({ token, own, reference }: Subject, owner: string): void {
    if (own !== reference) this.#lists.set(token, own, owner);
  }

  /** Reads the factories' logs up to a head, and steps back from blocks that have left the chain. */
  readTo(head: Pick<HeaderRef, "number" | "hash" | "parentHash">): Promise<void> {
    return this.#turn.run(async () => {
      while (this.#read.length > 0 && !this.#isBelow(this.#read.at(-1)!, head)) this.#read.pop();
      const last = this.#read.at(-1);
      if (last !== undefined && head.number <= last.number) return;
      const isNear =
        last !== undefined &&
        head.number - last.number <= MAX_GAP &&
        this.#created.size + this.#unfound.size < MAX_CREATED;
      // Asking the factories again is the alternative, which the question must still be able to pay.
      const read = () => this.#readLogs(last!.number + 1, head);
      if (!isNear || !(await Budget.part(UPKEEP, read))) this.#begin(head);
      this.#read.push({ number: head.number, hash: head.hash });
      if (this.#read.length > MAX_READ) this.#read.shift();
    });
  }

  /** False if the block has left the chain, as far as the view and the head tell. */
  #isBelow(block: BlockRef, { number, hash, parentHash }: Pick<HeaderRef, "number" | "hash" | "parentHash">): boolean {
    if (block.number === number) return block.hash === hash;
    if (block.number === number - 1 && block.hash !== parentHash) return false;
    return this.#options.view.isCanonical(block);
  }

  #begin({ number }: Pick<BlockRef, "number">): void {
    this.#readFrom = number;
    this.#read = [];
    this.#created.clear();
    this.#unfound.clear();
  }

  /** True if the factories' logs after one block up to another announce no pool of a token that only they tell. */
  announcesNone(token: Address, after: number, block: number): boolean {
    const isRead = after >= this.#readFrom && block <= (this.#read.at(-1)?.number ?? -1);
    return isRead && (this.#unfound.get(token) ?? -1) <= after;
  }

  /** Notes the pools that the factories announce. Returns false if their logs can't be read. */
  async #readLogs(fromBlock: number, { number: toBlock, hash }: BlockRef): Promise<boolean> {
    const { chain, reader } = this.#options;
    const addresses = this.#venues.map(({ factory }) => factory);
    const filter = {
      addresses,
      topics: [...CREATION_TOPICS, ...TIER_TOPICS],
      fromBlock,
      toBlock,
      maxLogs: MAX_CREATED,
    };
    try {
      if (addresses.length === 0) return true;
      const logs = await reader.completeLogs(filter, [], { requiredBlock: { number: toBlock, hash } });
      const styles = new Map(this.#venues.map(({ factory, style }) => [factory, STYLES[style]]));
      for (const log of logs) {
        const style = styles.get(log.address);
        if (style?.tiers?.added === log.topics[0]) {
          this.#created.set(log.address, log.blockNumber);
          const tier = Number(log.topics[1] ?? 0n);
          this.#venues = this.#venues.map((venue) => (venue.factory === log.address ? withTier(venue, tier) : venue));
        }
        const pool = style && announced(style, log, chain);
        if (pool === undefined) continue;
        for (const token of this.#listing(pool.tokens)) {
          if (pool.isFound || pool.mayBeFound === true) this.#created.set(token, log.blockNumber);
          if (!pool.isFound) this.#unfound.set(token, log.blockNumber);
        }
      }
      return true;
    } catch (error) {
      if (error instanceof AppError || error instanceof OverBudget) return false;
      throw error;
    }
  }
}

/** The allowed values of `exchange`, in words. @param chains whose exchanges may be named */
export const exchangesAllowed = (chains: readonly Chain[]): string =>
  `one of ${knownExchanges(chains).join(", ")}, or the address of a v2- or v3-style factory`;

export const unknownExchange = (chain: Chain): Refusal =>
  invalidParameter("exchange", exchangesAllowed([...CHAINS, chain]));

/** Returns every pool that the subject's price depends on. */
export function pricingPools(chain: Chain, { token, own, reference, unlistedPools }: Subject): readonly Pool[] {
  const held = [...new Map([...reference.pools, ...own.pools]).values()];
  const ends = new Set([token]);
  for (const pool of [...held, ...unlistedPools]) {
    if (pool.token0 === token || pool.token1 === token) ends.add(otherToken(pool, token));
  }
  // The token's own pools, those that set the dollar, and those of each connector that the token has a pool with.
  const needed = held.filter(({ token0, token1 }) => {
    if (isMoney(chain, token0)) return isMoney(chain, token1) || ends.has(token1);
    return ends.has(token0) && (isMoney(chain, token1) || token0 === token || token1 === token);
  });
  return [...needed, ...unlistedPools];
}

const NO_POOLS: CallPlan<Pool[]> = { calls: [], read: () => [] };

const listOf = (pools: readonly Pool[], { number, hash }: BlockRef): PoolList => ({
  pools: new Map(pools.map((pool) => [pool.id, pool])),
  at: { number, hash },
});
