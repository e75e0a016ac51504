/**
 * A single-flight cache of answers, by key and version, and the bounded queue for work at past blocks. Knows nothing of
 * prices.
 */
import { LRUCache } from "lru-cache";
import type { Chain } from "../chains/chains.ts";
import type { Clock } from "../core/clock.ts";
import { Refusal } from "../core/errors.ts";
import { FairSlots, type Requester, type Shares } from "../core/work.ts";

/** A waiting request without a retry for this long is dropped, in ms: 2 × (25 s timeout + 5 s retry-after). */
const UNWANTED_MS = 60_000;

interface AnswerCacheOptions<A> {
  readonly maxBytes: number;
  readonly bytesOf: (answer: A) => number;
  readonly clock: Clock;
}

export class AnswerCache<A extends object> {
  readonly #clock: Clock;
  readonly #answers: LRUCache<string, A>;
  /** Computations in progress, with the `Clock.monotonic` of the last request that shares each. */
  readonly #inFlight = new Map<string, { readonly answer: Promise<A>; askedMs: number }>();

  constructor({ maxBytes, bytesOf, clock }: AnswerCacheOptions<A>) {
    this.#clock = clock;
    this.#answers = new LRUCache({ maxSize: maxBytes, sizeCalculation: bytesOf });
  }

  get(key: string, version: string | number): A | undefined {
    return this.#answers.get(`${key}@${version}`);
  }

  set(key: string, version: string | number, answer: A): void {
    this.#answers.set(`${key}@${version}`, answer);
  }

  /** Starts the computation of a key, or joins the one in progress. `isWanted`: a client asked for it lately. */
  share(key: string, compute: (isWanted: () => boolean) => Promise<A>): Promise<A> {
    const now = this.#clock.monotonic();
    const shared = this.#inFlight.get(key);
    if (shared !== undefined) {
      shared.askedMs = now;
      return shared.answer;
    }
    const isWanted = (): boolean => {
      const asked = this.#inFlight.get(key);
      // A computation that starts at once is not registered yet.
      return asked === undefined || this.#clock.monotonic() - asked.askedMs < UNWANTED_MS;
    };
    const answer = compute(isWanted).finally(() => this.#inFlight.delete(key));
    this.#inFlight.set(key, { answer, askedMs: now });
    return answer;
  }
}

/** Concurrent requests: a public node bears about this many concurrent log searches. */
const SHARES: Shares = { places: 24, perKey: 16, forOperators: 2 };
/** Most waiting requests of a key: at 1.5 s each, the last one starts before its client gets a timeout and must retry. */
const MAX_WAITING = 256;

const RETRY = { retryAfter: 5 };

/** Runs work when a slot is free. */
export type RunInSlot = <T>(work: () => Promise<T>) => Promise<T>;

/** The client that a computation is for. */
export interface Asking {
  readonly requester: Requester;
  /** True if the client sent the request lately. */
  readonly isWanted: () => boolean;
}

/**
 * Bounds work at past blocks. Without archive state such work searches logs, which can last minutes and outlive its
 * client. A waiting piece of work is dropped when its turn comes if its client is gone.
 */
export class PastQueue {
  readonly #chain: Chain;
  readonly #slots: FairSlots;

  constructor(chain: Chain) {
    this.#chain = chain;
    const work = `requests about past blocks of ${chain.name}`;
    this.#slots = new FairSlots({ ...SHARES, maxWaiting: MAX_WAITING, retryAfter: 5, work });
  }

  /** @throws Refusal `rate_limited` when the key's share is exceeded, `chain_unavailable` when the request was dropped; and any error of `work` */
  run<T>({ requester, isWanted }: Asking, work: () => Promise<T>): Promise<T> {
    return this.#slots.run(requester, async () => {
      if (isWanted()) return work();
      throw new Refusal("chain_unavailable", `${this.#chain.name} did not answer in time; retry later`, RETRY);
    });
  }
}
