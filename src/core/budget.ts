/**
 * What work costs, and what it may cost. A budget counts the node calls, the bytes of their answers and the milliseconds
 * of the serving thread of one question, through any number of awaits. It refuses a call beyond its bounds, and any call
 * once its client is gone. It counts on its payer as well: the question that it is a part of, and the account of a key.
 */
import { AsyncLocalStorage } from "node:async_hooks";

/** Limits of a budget. An absent one is that of its payer. */
interface Bounds {
  /** Node calls of all methods. */
  readonly calls?: number;
  /** Requests for logs among them. */
  readonly logs?: number;
  /** Bytes of answers. The answer that exceeds them is the last one. */
  readonly bytes?: number;
}

/** The key that pays. */
interface Owner {
  readonly key: string;
  readonly isOperator: boolean;
}

interface BudgetOptions {
  /** Default: the payer's. */
  readonly owner?: Owner | undefined;
  /** True for the budget of a whole question, false for a part of one, or an account. */
  readonly isQuestion?: boolean;
  /** The budget that everything counts on as well, with its bounds. */
  readonly payer?: Budget | undefined;
  readonly bounds?: Bounds;
  /** Aborts when nobody waits for the result. Default: the payer's. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * The work would cost more than its question may. No `AppError`: it is no fault of a node, and nothing may take it for one
 * and go on.
 */
export class OverBudget extends Error {
  constructor(bound: keyof Bounds, most: number) {
    const of = { calls: "calls of the node", logs: "requests for logs", bytes: "bytes of answers" };
    super(`the question takes more than ${most} ${of[bound]}`);
    this.name = "OverBudget";
  }
}

/** Resolves to undefined where `work` costs more than its question may. */
export async function undefinedIfOverBudget<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof OverBudget) return undefined;
    throw error;
  }
}

/** Work that several keys want together, such as a read of all tokens at a head. The keys pay for it in equal parts. */
export interface SharedWork {
  /** True if one of the keys has rate left. The key without a name is the service itself, which has no rate. */
  hasRate(keys: Iterable<string>): boolean;
  /**
   * Runs work for several items, and charges its cost: each item is an equal part, which its keys share equally.
   * @param keysOf the names of the keys that want an item, for each item
   * @param ending ends the work when no client waits for any item. It aborts with the work, and ends what that left running
   * @throws OverBudget beyond the bounds of one question for each item; the reason of an abort; errors of `work`
   */
  share<T>(keysOf: readonly Iterable<string>[], work: () => Promise<T>, ending?: AbortController): Promise<T>;
}

/** Work that no key pays for. */
export const UNSHARED: SharedWork = { hasRate: () => true, share: (_keysOf, work) => work() };

const current = new AsyncLocalStorage<Budget | undefined>();

const LOGS = "eth_getLogs";

export class Budget {
  /** Calls by method. */
  readonly calls = new Map<string, number>();
  /** Number of calls of all methods. */
  total = 0;
  bytes = 0;
  /** Milliseconds of the serving thread, as far as they were measured. */
  ms = 0;
  /** Calls that were refused on it and its parts: what was made meanwhile may lack something. */
  refusals = 0;
  /** Items that the question asks for. */
  items = 1;
  readonly signal: AbortSignal | undefined;
  readonly #owner: Owner | undefined;
  #payer: Budget | undefined;
  readonly #isQuestion: boolean;
  #bounds: Bounds;
  /** The bounds of one item of the question. */
  readonly #perItem: Bounds;

  constructor(options: BudgetOptions = {}) {
    const { payer, bounds = {}, signal = payer?.signal, isQuestion = false, owner } = options;
    this.#owner = owner;
    this.#isQuestion = isQuestion;
    this.#payer = payer;
    this.#bounds = bounds;
    this.#perItem = bounds;
    this.signal = signal;
  }

  /** The key that pays. Undefined for the service's own work. */
  get owner(): Owner | undefined {
    return this.#owner ?? this.#payer?.owner;
  }

  /** Has another budget pay for the rest of the work: the client of the former one is gone. */
  passTo(payer: Budget): void {
    const refusals = this.question?.refusals ?? 0;
    this.#payer = payer;
    // Work that compares the refusals before and after a part must not find fewer.
    if (payer.question !== undefined) payer.question.refusals += refusals;
  }

  /** Multiplies the bounds: the question asks for several items. */
  grow(items: number): void {
    this.items = items;
    const bounds = Object.entries(this.#bounds).map(([bound, most]) => [bound, most * items]);
    this.#bounds = Object.fromEntries(bounds) as Bounds;
  }

  /** The budget of the work that is running, if there is one. */
  static get current(): Budget | undefined {
    return current.getStore();
  }

  /** The question that this budget is a part of; undefined for other work. */
  get question(): Budget | undefined {
    let found: Budget | undefined;
    for (let one: Budget | undefined = this; one !== undefined; one = one.#payer) if (one.#isQuestion) found = one;
    return found;
  }

  /** Name of the key that pays for the work that is running; "" for the service's own. */
  static get payerName(): string {
    return current.getStore()?.owner?.key ?? "";
  }

  /** Runs `work` on this budget. */
  run<T>(work: () => T): T {
    return current.run(this, work);
  }

  /** Runs `work` on no budget: it goes on after the question that started it. */
  static outside<T>(work: () => T): T {
    return current.run(undefined, work);
  }

  /** Counts calls before they are sent. @throws OverBudget; the signal's reason once the client is gone */
  spend(methods: readonly string[]): void {
    this.signal?.throwIfAborted();
    try {
      for (let one: Budget | undefined = this; one !== undefined; one = one.#payer) one.#assertLeft(methods);
    } catch (error) {
      this.noteRefusal();
      throw error;
    }
    for (let one: Budget | undefined = this; one !== undefined; one = one.#payer) one.#count(methods);
  }

  /** Notes that work ends here for want of calls. */
  noteRefusal(): void {
    for (let one: Budget | undefined = this; one !== undefined; one = one.#payer) one.refusals++;
  }

  /** The refusals on the budget of the work that is running, and on the question that it is a part of. */
  static get refusals(): number {
    const budget = current.getStore();
    return budget === undefined ? 0 : budget.refusals + (budget.question?.refusals ?? 0);
  }

  /** Counts calls on the budget of the work that is running. @throws OverBudget; the reason of an abort */
  static spend(methods: readonly string[]): void {
    current.getStore()?.spend(methods);
  }

  #assertLeft(methods: readonly string[]): void {
    const { calls, logs, bytes } = this.#bounds;
    if (calls !== undefined && this.total + methods.length > calls) throw new OverBudget("calls", calls);
    if (bytes !== undefined && this.bytes > bytes) throw new OverBudget("bytes", bytes);
    if (logs === undefined || !methods.includes(LOGS)) return;
    const wanted = methods.filter((method) => method === LOGS).length;
    if (this.#logs + wanted > logs) throw new OverBudget("logs", logs);
  }

  get #logs(): number {
    return this.calls.get(LOGS) ?? 0;
  }

  #count(methods: readonly string[]): void {
    this.total += methods.length;
    for (const method of methods) this.calls.set(method, (this.calls.get(method) ?? 0) + 1);
  }

  /** Counts a part of the cost of work that ran on another budget. */
  addPart({ calls, bytes, ms }: Pick<Budget, "calls" | "bytes" | "ms">, part: number): void {
    for (const [method, count] of calls) {
      this.calls.set(method, (this.calls.get(method) ?? 0) + count * part);
      this.total += count * part;
    }
    this.bytes += bytes * part;
    this.ms += ms * part;
  }

  /** Counts what an answer brought, and the time that it took here. */
  add({ bytes = 0, ms = 0 }: { readonly bytes?: number; readonly ms?: number }): void {
    for (let one: Budget | undefined = this; one !== undefined; one = one.#payer) {
      one.bytes += bytes;
      one.ms += ms;
    }
  }

  /** Runs a piece of work of the serving thread, and counts its time on the budget of the work that is running. */
  static timed<T>(work: () => T): T {
    const budget = current.getStore();
    if (budget === undefined) return work();
    const began = performance.now();
    try {
      return work();
    } finally {
      budget.add({ ms: performance.now() - began });
    }
  }

  /** The requests for logs that are left, as a counter that follows the budget; undefined without a bound. */
  get logRequests(): { left: number } | undefined {
    if (this.#left().logs === undefined) return undefined;
    const leftNow = () => Math.min(this.#left().logs ?? 0, this.#left().calls ?? Number.POSITIVE_INFINITY);
    return {
      get left() {
        return leftNow();
      },
      // The calls themselves are counted when they are sent.
      set left(_) {},
    };
  }

  /** Runs work on a budget of one item of the question. */
  static item<T>(work: () => Promise<T>): Promise<T> {
    const payer = current.getStore();
    return payer === undefined ? work() : new Budget({ payer, bounds: payer.#perItem }).run(work);
  }

  /** Runs work that also ends with a signal of its own, while the question goes on. */
  static endingWith<T>(ending: AbortSignal, work: () => Promise<T>): Promise<T> {
    const payer = current.getStore();
    const signal = payer?.signal === undefined ? ending : AbortSignal.any([payer.signal, ending]);
    return new Budget({ payer, signal }).run(work);
  }

  /**
   * Runs work with a part of what the current budget has left. What it may cost doesn't depend on how fast other parts run.
   * @param share from 0 to 1; the shares of parts that run at once must not exceed 1
   */
  static part<T>(share: number, work: () => Promise<T>): Promise<T> {
    const payer = current.getStore();
    if (payer === undefined) return work();
    const { calls, logs } = payer.#left();
    const bounds = {
      ...(calls !== undefined && { calls: Math.floor(calls * share) }),
      ...(logs !== undefined && { logs: Math.floor(logs * share) }),
    };
    return new Budget({ payer, bounds }).run(work);
  }

  /** The calls that are left on this budget and all that pay for it; undefined without a bound. */
  #left(): { readonly calls: number | undefined; readonly logs: number | undefined } {
    const above = this.#payer === undefined ? undefined : this.#payer.#left();
    const least = (own: number | undefined, used: number, other: number | undefined) =>
      own === undefined ? other : Math.max(0, Math.min(own - used, other ?? Number.POSITIVE_INFINITY));
    return {
      calls: least(this.#bounds.calls, this.total, above?.calls),
      logs: least(this.#bounds.logs, this.#logs, above?.logs),
    };
  }
}
