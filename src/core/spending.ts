/**
 * Attributes calls to the work that made them, through any number of awaits: `Spending.run` opens an account, and each
 * call of the work inside is counted on it. Work inside other work has an account of its own, which may add to another.
 */
import { AsyncLocalStorage } from "node:async_hooks";

const current = new AsyncLocalStorage<Spending | undefined>();

export class Spending {
  readonly calls = new Map<string, number>();
  readonly #total: Spending | undefined;

  /** @param total an account on which all calls count as well, such as that of a key */
  constructor(total?: Spending) {
    this.#total = total;
  }

  /** Number of calls of all methods. */
  get total(): number {
    return [...this.calls.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Runs `work`, and counts its calls on this account. */
  run<T>(work: () => T): T {
    return current.run(this, work);
  }

  add(methods: readonly string[]): void {
    for (const method of methods) this.calls.set(method, (this.calls.get(method) ?? 0) + 1);
    this.#total?.add(methods);
  }

  /** Counts calls on the account of the work that is running, if there is one. */
  static count(methods: readonly string[]): void {
    current.getStore()?.add(methods);
  }

  /** Runs `work` on no account: it goes on after the request that started it. */
  static outside<T>(work: () => T): T {
    return current.run(undefined, work);
  }
}
