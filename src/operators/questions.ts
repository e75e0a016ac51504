/**
 * The questions of keys: requests over HTTP and messages over sockets. Each has a budget that its key pays for, and ends
 * with its client or its answer. The key's rate is charged with what the question has cost. Work that several keys want
 * together is charged to all of them.
 */
import { Budget, type SharedWork } from "../core/budget.ts";
import type { ApiKey, ApiKeys } from "./keys.ts";

/**
 * What one question of a key of scope `read` may cost: 64 requests for logs and 36 other calls; one answer of the largest
 * size that an endpoint may send, or many of an ordinary one. Operators' questions have no bounds.
 */
const BOUNDS = { calls: 100, logs: 64, bytes: 64 << 20 };
/** What a request of the key's rate pays for: an ordinary first price takes seven calls and 100 KB. */
const PER_REQUEST = { calls: 10, bytes: 1 << 20, ms: 10 };

/** Open questions that are charged before another one begins. A refused request charges them, too, so it can't be all of them. */
const CHARGED_AT_ONCE = 16;

/** All questions share it: a new error would trace the stack each time. */
const IS_ANSWERED = new DOMException("the question is answered", "AbortError");

/** A question that is being answered. */
export class Question {
  readonly budget: Budget;
  readonly #key: ApiKey;
  readonly #keys: ApiKeys;
  readonly #ending = new AbortController();
  readonly #onEnd: (question: Question) => void;
  #isOpen = true;
  /** Requests that the rate has paid for its cost so far. */
  #paid = 0;
  /** True if the answer is made while it is sent. The end of what is sent is then the end of the question. */
  isStreamed = false;

  constructor(key: ApiKey, keys: ApiKeys, payer: Budget, onEnd: (question: Question) => void) {
    this.#key = key;
    this.#keys = keys;
    this.#onEnd = onEnd;
    const bounds = key.isOperator ? {} : BOUNDS;
    this.budget = new Budget({ payer, bounds, signal: this.#ending.signal, isQuestion: true, owner: key });
  }

  /** Counts a batch by its items: each is a question. @throws Refusal `rate_limited` */
  asksFor(items: number): void {
    if (items <= 1) return;
    this.#keys.takeFurther(this.#key, items - 1);
    this.budget.grow(items);
  }

  /** Ends the work with the signal of the question's client. */
  endWith(client: AbortSignal): void {
    const { signal } = this.#ending;
    if (client.aborted) this.#ending.abort(client.reason);
    // A socket outlives its questions, so each takes its listener away when it ends.
    else client.addEventListener("abort", () => this.#ending.abort(client.reason), { once: true, signal });
  }

  /** The question is answered: ends the work that still runs for it, and charges its key. */
  end(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#ending.abort(IS_ANSWERED);
    this.charge();
    this.#onEnd(this);
  }

  /** Charges the key's rate for what the question has cost since the last time. */
  charge(): void {
    const { total, bytes, ms } = this.budget;
    const { calls, bytes: perBytes, ms: perMs } = PER_REQUEST;
    const cost = Math.floor(total / calls) + Math.floor(bytes / perBytes) + Math.floor(ms / perMs);
    this.#keys.charge(this.#key, cost - this.#paid);
    this.#paid = cost;
  }
}

/** Charges a key's open questions; of very many, those that were charged longest ago. */
function chargeSome(open: Set<Question>): void {
  for (const question of [...open.values().take(CHARGED_AT_ONCE)]) {
    question.charge();
    if (open.size <= CHARGED_AT_ONCE) continue;
    open.delete(question);
    open.add(question);
  }
}

/** What a cost takes from a rate, in requests. */
const requestsOf = ({ total, bytes, ms }: Budget): number =>
  total / PER_REQUEST.calls + bytes / PER_REQUEST.bytes + ms / PER_REQUEST.ms;

interface QuestionsOptions {
  readonly keys: ApiKeys;
  /** The account of a key. */
  readonly accountOf: (key: Pick<ApiKey, "key">) => Budget;
}

export class Questions implements SharedWork {
  readonly #options: QuestionsOptions;
  /** Questions that are being answered, by the names of their keys. */
  readonly #open = new Map<string, Set<Question>>();

  constructor(options: QuestionsOptions) {
    this.#options = options;
  }

  /**
   * Takes a request from a key's rate, after what its open questions have cost so far: many that are asked at once don't run up
   * a debt of which the rate learns at their ends. If very many are open, each call charges those that were charged longest ago.
   * @throws Refusal `rate_limited`
   */
  take(key: ApiKey): void {
    const open = this.#open.get(key.key);
    // A warm page is answered without a question, and takes some microseconds in all.
    if (open !== undefined && open.size > 0) chargeSome(open);
    this.#options.keys.takeRequest(key);
  }

  begin(key: ApiKey): Question {
    const { keys, accountOf } = this.#options;
    const open = this.#open.getOrInsertComputed(key.key, () => new Set());
    const question = new Question(key, keys, accountOf(key), (ended) => {
      open.delete(ended);
      if (open.size === 0 && this.#open.get(key.key) === open) this.#open.delete(key.key);
    });
    open.add(question);
    return question;
  }

  hasRate(names: Iterable<string>): boolean {
    const { keys } = this.#options;
    for (const name of names) {
      const key = keys.ratedKey(name);
      // A revoked key has no more turns.
      if (key === undefined ? name === "" : !keys.isInDebt(key)) return true;
    }
    return false;
  }

  async share<T>(
    keysOf: readonly Iterable<string>[],
    work: () => Promise<T>,
    ending = new AbortController(),
  ): Promise<T> {
    const budget = new Budget({ bounds: BOUNDS, signal: ending.signal });
    budget.grow(Math.max(1, keysOf.length));
    try {
      return await budget.run(work);
    } finally {
      ending.abort(IS_ANSWERED);
      this.#chargeParts(keysOf, budget);
    }
  }

  /** Charges the accounts and the rates of keys with their parts of a cost. The service's own part is charged to no key. */
  #chargeParts(keysOf: readonly Iterable<string>[], cost: Budget): void {
    const { keys, accountOf } = this.#options;
    const parts = new Map<string, number>();
    for (const wanting of keysOf) {
      const names = [...wanting];
      for (const name of names) parts.set(name, (parts.get(name) ?? 0) + 1 / names.length / keysOf.length);
    }
    for (const [name, part] of parts) {
      const key = keys.ratedKey(name);
      if (key === undefined) continue;
      accountOf(key).addPart(cost, part);
      keys.charge(key, requestsOf(cost) * part);
    }
  }
}
