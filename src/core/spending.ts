/**
 * Attributes calls to the work that made them, through any number of awaits: `Spending.run` opens an account, and each
 * call of the work inside is counted on it. Work inside other work has an account of its own.
 */
import { AsyncLocalStorage } from "node:async_hooks";

const current = new AsyncLocalStorage<Spending>();

export class Spending {
  readonly calls = new Map<string, number>();

  /** Number of calls of all methods. */
  get total(): number {
    return [...this.calls.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Runs `work`, and counts its calls on this account. */
  run<T>(work: () => T): T {
    return current.run(this, work);
  }

  /** Counts calls on the account of the work that is running, if there is one. */
  static count(methods: readonly string[]): void {
    const spending = current.getStore();
    if (spending === undefined) return;
    for (const method of methods) spending.calls.set(method, (spending.calls.get(method) ?? 0) + 1);
  }
}
