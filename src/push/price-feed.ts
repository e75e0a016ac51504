/**
 * Prices of tokens for their subscribers. A token that has subscribers is read ahead at each head and priced once a block
 * for all of them, and their keys share the cost. A subscription sends its latest price as often as its client reads, and keeps no queue. Uses sockets
 * only through `Peer`.
 */

import { Budget, OverBudget, type SharedWork } from "../core/budget.ts";
import type { Clock } from "../core/clock.ts";
import { AppError, type ErrorCode, isAbort, Refusal } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import { yieldToEventLoop } from "../core/turns.ts";
import type { BlockRef } from "../events/types.ts";
import type { PageChain } from "../nft/walks/snapshot.ts";
import { absolute, compare, multiply, type Rational, rational, subtract } from "../prices/market/rational.ts";
import type { PriceAnswer } from "../prices/price-computer.ts";
import type { Prices } from "../prices/price-service.ts";
import { resumeText } from "./mark.ts";
import type { MessageOf } from "./message-models.ts";
import { Broadcast } from "./pacing.ts";
import type { Peer } from "./subscription.ts";

/** What the feed needs of an enabled chain. */
export interface PricedChain {
  readonly prices: Pick<Prices, "chain" | "answer" | "answers" | "watch" | "isCostly">;
  readonly view: PageChain;
}

/** Tokens that are priced without a pause: some 20 ms of the thread that serves requests. */
const AT_ONCE = 50;
/** Least time between two reads of a token whose contract takes much gas or gives long answers. */
const COSTLY_MS = 60_000;
/** Time after which the feed looks if tokens that had no turn at the newest head have one now. */
const NEXT_TURN_MS = 1_000;
/** Refusals that stand while the chain stays as it is. Any other one says only that the price is not known now. */
const LOST: readonly ErrorCode[] = ["no_pool", "low_liquidity", "no_price_at_block", "no_dollar"];
/** Codes of errors that endpoints cause. */
const OF_ENDPOINTS = /^(?:chain_|rpc_|state_unavailable$|logs_in_doubt$)/;
/** Refusals of an address that is no token with a price. */
const NO_TOKEN: readonly ErrorCode[] = ["not_a_token", "unknown_decimals"];

/** A price, or why there is none, with its message for all subscribers. */
interface PriceUpdate {
  readonly message: MessageOf<"price">;
  readonly block: BlockRef | undefined;
  /** US dollars; undefined without a price. */
  readonly usd: Rational | undefined;
}

/** A read of tokens that runs. It ends with the last subscriber of any of them. */
interface RunningRead {
  /** Its tokens that still have subscribers. */
  wanted: number;
  readonly ending: AbortController;
}

/** A token with subscribers. */
interface WatchedToken {
  readonly token: Address;
  readonly subscriptions: Set<PriceSubscription>;
  /** Subscriptions by the name of their key. */
  readonly keys: Map<string, number>;
  readonly unwatch: () => void;
  /** The read that gave `newest`. Reads that began earlier no longer count. */
  read: number;
  newest: PriceUpdate | undefined;
  /** False until its price or the lack of it is known: while its pools are searched for, or the chain can't be read. */
  isKnown: boolean;
  /** True while it is read apart from the others. */
  isReading: boolean;
  readonly reads: Set<RunningRead>;
  /** True until it is read at the newest head. */
  isDue: boolean;
  /** `Clock.monotonic` of its last read. */
  readMs: number;
}

interface WatchedChain {
  readonly of: PricedChain;
  readonly tokens: Map<Address, WatchedToken>;
  /** True if the view has moved since the last read began. */
  hasMoved: boolean;
  isReading: boolean;
  /** Cancels the next look at tokens that had no turn. */
  cancelTurn: () => void;
}

interface FeedOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly shared: SharedWork;
}

const noTurn = (): void => undefined;

export class PriceFeed {
  readonly #options: FeedOptions;
  readonly #chains = new Map<number, WatchedChain>();
  readonly #broadcast = new Broadcast<PriceSubscription>();
  #reads = 0;

  constructor(options: FeedOptions) {
    this.#options = options;
  }

  add(subscription: PriceSubscription): void {
    const { of, token, peer } = subscription;
    const chain = this.#chains.getOrInsertComputed(of.prices.chain.chainId, () => watchedChain(of));
    const watched = chain.tokens.getOrInsertComputed(token, () => watchedToken(of, token));
    watched.subscriptions.add(subscription);
    watched.keys.set(peer.key.key, (watched.keys.get(peer.key.key) ?? 0) + 1);
  }

  drop(subscription: PriceSubscription): void {
    const { of, token, peer } = subscription;
    const { chainId } = of.prices.chain;
    const chain = this.#chains.get(chainId);
    const watched = chain?.tokens.get(token);
    subscription.end();
    if (chain === undefined || watched?.subscriptions.delete(subscription) !== true) return;
    const left = watched.keys.get(peer.key.key)! - 1;
    if (left > 0) watched.keys.set(peer.key.key, left);
    else watched.keys.delete(peer.key.key);
    if (watched.subscriptions.size > 0) return;
    watched.unwatch();
    for (const read of watched.reads) if (--read.wanted === 0) read.ending.abort();
    chain.tokens.delete(token);
    if (chain.tokens.size > 0) return;
    chain.cancelTurn();
    this.#chains.delete(chainId);
  }

  /**
   * Sends the present price to a new subscription, in the share of its key. Returns the refusal of an address that is no
   * token: it gets no price. @throws the end of the subscription
   */
  async begin(subscription: PriceSubscription): Promise<Refusal | undefined> {
    const { of, token, peer } = subscription;
    const read = this.#reads++;
    const ask = () => of.prices.answer(requestOf(token), peer.key);
    const answer = await orRefusal(of, () => Budget.endingWith(subscription.ended, ask));
    const readMs = this.#options.clock.monotonic();
    if (answer instanceof Refusal && NO_TOKEN.includes(answer.code)) return answer;
    const watched = this.#chains.get(of.prices.chain.chainId)?.tokens.get(token);
    if (watched === undefined) return undefined;
    if (isUnpaid(answer)) {
      // It says what this key's budget could pay, and nothing to the other subscribers.
      subscription.offer(watched.newest ?? updateOf(of, token, answer));
      return undefined;
    }
    watched.isKnown = isKnown(answer);
    watched.readMs = readMs;
    this.#take(of, watched, { read, update: updateOf(of, token, answer) });
    if (watched.newest !== undefined) subscription.offer(watched.newest);
    return undefined;
  }

  /** Handles a move of the chain view: prices all tokens at the head that it shows by now. */
  onChainViewMoved(chainId: number): void {
    const chain = this.#chains.get(chainId);
    if (chain === undefined) return;
    chain.hasMoved = true;
    if (!chain.isReading) void this.#follow(chain);
  }

  /** Never rejects. */
  async #follow(chain: WatchedChain): Promise<void> {
    chain.isReading = true;
    try {
      do {
        // The view can show further blocks in this turn. Only the last one's prices are needed.
        await yieldToEventLoop();
        if (chain.hasMoved) for (const watched of chain.tokens.values()) watched.isDue = true;
        chain.hasMoved = false;
        const due = [...chain.tokens.values()].filter((watched) => this.#hasTurn(chain, watched));
        const isApart = ({ token, isKnown }: WatchedToken) => !isKnown || chain.of.prices.isCostly(token);
        for (const watched of due) if (isApart(watched)) void this.#readAlone(chain.of, watched);
        const tokens = due.filter((watched) => !isApart(watched));
        for (let from = 0; from < tokens.length; from += AT_ONCE) {
          await this.#readAll(chain.of, tokens.slice(from, from + AT_ONCE));
          await yieldToEventLoop();
        }
      } while (chain.hasMoved);
    } catch (error) {
      this.#failed(error);
    } finally {
      chain.isReading = false;
      this.#planTurn(chain);
    }
  }

  /** True if a token is to be read: one of its keys has rate left, and if it is costly, it was not read for a minute. */
  #hasTurn({ of }: WatchedChain, { token, keys, isDue, readMs }: WatchedToken): boolean {
    const { clock, shared } = this.#options;
    if (!isDue || !shared.hasRate(keys.keys())) return false;
    return !of.prices.isCostly(token) || clock.monotonic() - readMs >= COSTLY_MS;
  }

  /** Looks again soon if tokens had no turn: the next head may be far away. */
  #planTurn(chain: WatchedChain): void {
    chain.cancelTurn();
    chain.cancelTurn = noTurn;
    const isLeft = [...chain.tokens.values()].some(({ isDue, isReading }) => isDue && !isReading);
    if (!isLeft) return;
    chain.cancelTurn = this.#options.clock.after(NEXT_TURN_MS, () => {
      if (!chain.isReading) void this.#follow(chain);
    });
  }

  #failed(error: unknown): void {
    if (!isAbort(error)) this.#options.logger.warn({ err: error }, "could not price the tokens of subscribers");
  }

  /** Prices a token that may take long, so that the others don't wait for it. Never rejects. */
  async #readAlone(of: PricedChain, watched: WatchedToken): Promise<void> {
    if (watched.isReading) return;
    watched.isReading = true;
    try {
      await this.#readAll(of, [watched]);
    } catch (error) {
      this.#failed(error);
    } finally {
      watched.isReading = false;
    }
  }

  async #readAll(of: PricedChain, tokens: readonly WatchedToken[]): Promise<void> {
    const { clock, shared } = this.#options;
    const number = this.#reads++;
    const requests = tokens.map(({ token }) => requestOf(token));
    const keysOf = tokens.map(({ keys }) => [...keys.keys()]);
    const running: RunningRead = { wanted: tokens.length, ending: new AbortController() };
    for (const watched of tokens) {
      watched.isDue = false;
      watched.readMs = clock.monotonic();
      watched.reads.add(running);
    }
    const read = () => shared.share(keysOf, () => of.prices.answers(requests), running.ending);
    const answers = await orRefusal(of, read).finally(() => {
      for (const { reads } of tokens) reads.delete(running);
    });
    // The chain can't be read now, or only for more than the tokens may cost. The next block is another chance.
    if (answers instanceof Refusal) return;
    tokens.forEach((watched, at) => {
      const answer = answers[at]!;
      watched.isKnown = isKnown(answer);
      if (watched.isKnown) this.#take(of, watched, { read: number, update: updateOf(of, watched.token, answer) });
    });
  }

  #take(of: PricedChain, watched: WatchedToken, { read, update }: { read: number; update: PriceUpdate }): void {
    if (read < watched.read) return;
    watched.read = read;
    const before = watched.newest;
    watched.newest = update;
    if (before !== undefined && !differs(of, before, update)) return;
    // A broadcast to many takes several turns, in which a newer price may come.
    this.#broadcast.send(watched.subscriptions, (subscription) => subscription.offer(watched.newest ?? update));
  }

  stop(): void {
    for (const chain of this.#chains.values()) chain.cancelTurn();
    this.#broadcast.stop();
  }
}

const watchedChain = (of: PricedChain): WatchedChain => ({
  of,
  tokens: new Map(),
  hasMoved: false,
  isReading: false,
  cancelTurn: noTurn,
});

function watchedToken({ prices }: PricedChain, token: Address): WatchedToken {
  const keys = new Map<string, number>();
  return {
    ...{ token, subscriptions: new Set(), keys, read: -1, newest: undefined, isKnown: false, isReading: false },
    ...{ isDue: false, readMs: Number.NEGATIVE_INFINITY, reads: new Set() },
    unwatch: prices.watch(token, () => keys.keys()),
  };
}

const isKnown = (answer: PriceAnswer | Refusal): boolean =>
  !(answer instanceof Refusal) || LOST.includes(answer.code) || NO_TOKEN.includes(answer.code);

/** True if a question ended because its budget was spent. */
function isUnpaid(answer: PriceAnswer | Refusal): boolean {
  const searched = answer instanceof Refusal ? answer.details?.["searched"] : undefined;
  return searched !== undefined && !("byState" in (searched as object));
}

const requestOf = (address: Address) => ({ address, percentChange: false, provenance: false });

/** Resolves to a refusal in place of its error, also if the endpoints caused it. */
async function orRefusal<T>({ prices }: PricedChain, work: () => Promise<T>): Promise<T | Refusal> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Refusal) return error;
    if (error instanceof OverBudget) return new Refusal("chain_unavailable", error.message);
    if (!(error instanceof AppError) || !OF_ENDPOINTS.test(error.code)) throw error;
    return new Refusal("chain_unavailable", `no endpoint of ${prices.chain.name} answers at the moment`);
  }
}

function updateOf({ prices, view }: PricedChain, token: Address, answer: PriceAnswer | Refusal): PriceUpdate {
  const about = { type: "price", chain: prices.chain.name, token } as const;
  if (answer instanceof Refusal) {
    const { code, message } = answer;
    const block = view.head();
    const none = { usdPrice: null, nativePrice: null, confidence: null, reason: { code, message } };
    return { message: { ...about, ...placeOf(block), ...none }, block, usd: undefined };
  }
  const { record, asOf, confidence, usd } = answer;
  const { usdPrice, nativePrice } = record;
  return { message: { ...about, ...placeOf(asOf), usdPrice, nativePrice, confidence }, block: asOf, usd };
}

function placeOf(block: BlockRef | undefined) {
  if (block === undefined) return { block: null, hash: null };
  const { number, hash } = block;
  const resume = resumeText({ version: number, checksum: Number.parseInt(hash.slice(2, 10), 16) });
  return { block: number, hash, ...(resume === undefined ? {} : { resume }) };
}

/** True if a price differs, or if the block of the former one has left the chain. */
function differs({ view }: PricedChain, before: PriceUpdate, now: PriceUpdate): boolean {
  const [one, other] = [before.message, now.message];
  if (one.usdPrice !== other.usdPrice || one.nativePrice?.value !== other.nativePrice?.value) return true;
  return one.reason?.code !== other.reason?.code || (before.block !== undefined && !view.isCanonical(before.block));
}

export class PriceSubscription {
  readonly of: PricedChain;
  readonly token: Address;
  readonly peer: Peer;
  /** Per cent. */
  readonly #minChange: Rational | undefined;
  readonly #ending = new AbortController();
  #sent: PriceUpdate | undefined;
  /** True until the client has read the last message. */
  #isUnread = false;
  /** The newest price that came meanwhile. */
  #next: PriceUpdate | undefined;

  constructor(
    of: PricedChain,
    peer: Peer,
    { token, minChange }: { readonly token: Address; readonly minChange: Rational | undefined },
  ) {
    this.of = of;
    this.peer = peer;
    this.token = token;
    this.#minChange = minChange;
  }

  /** Aborts when the subscription is dropped. */
  get ended(): AbortSignal {
    return this.#ending.signal;
  }

  get isListening(): boolean {
    return !this.ended.aborted;
  }

  end(): void {
    this.#ending.abort(new DOMException("the subscription has ended", "AbortError"));
  }

  /** Sends a price if it moved far enough, once the client has read the one before. */
  offer(update: PriceUpdate): void {
    if (!this.isListening) return;
    if (this.#isUnread) {
      this.#next = update;
      return;
    }
    if (!this.#isWorthSending(update)) return;
    this.#sent = update;
    this.#isUnread = true;
    this.peer.send(update.message);
    this.peer.onRead(() => {
      this.#isUnread = false;
      const next = this.#next;
      this.#next = undefined;
      if (next !== undefined) this.offer(next);
    });
  }

  #isWorthSending(update: PriceUpdate): boolean {
    const sent = this.#sent;
    if (sent === undefined) return true;
    if (!differs(this.of, sent, update)) return false;
    const isOrphaned = sent.block !== undefined && !this.of.view.isCanonical(sent.block);
    if (this.#minChange === undefined || isOrphaned || sent.usd === undefined || update.usd === undefined) return true;
    const moved = multiply(absolute(subtract(update.usd, sent.usd)), rational(100n));
    return compare(moved, multiply(sent.usd, this.#minChange)) >= 0;
  }
}
