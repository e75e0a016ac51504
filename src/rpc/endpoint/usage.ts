/**
 * What one endpoint was used for since the last report: calls by method, as a provider bills them, and bytes. Each call
 * inside a batch counts. Also the latency of its newest answers.
 */
import type { CallCounts } from "../../events/types.ts";

/** Answers whose latency is kept: enough for a p99. */
const LATENCIES = 512;

export class Usage {
  readonly #calls = new Map<string, number>();
  #bytes = 0;
  /** The newest latencies in ms, in a ring. */
  readonly #latencies: number[] = [];
  #next = 0;

  /** Counts the calls of one request. */
  sent(methods: readonly string[]): void {
    for (const method of methods) this.#calls.set(method, (this.#calls.get(method) ?? 0) + 1);
  }

  /** Counts an answer. @param ms time until it had arrived */
  received(bytes: number, ms: number): void {
    this.#bytes += bytes;
    this.#latencies[this.#next] = ms;
    this.#next = (this.#next + 1) % LATENCIES;
  }

  /** Everything that was counted since the start of this process. */
  counts(): CallCounts {
    return { calls: Object.fromEntries(this.#calls), bytes: this.#bytes };
  }

  /** Percentiles of the newest latencies in ms; null without an answer. */
  latencyMs(): { readonly p50: number; readonly p99: number } | null {
    if (this.#latencies.length === 0) return null;
    const sorted = [...this.#latencies].sort((a, b) => a - b);
    const at = (share: number) => Math.round((sorted[Math.floor(sorted.length * share)] as number) * 10) / 10;
    return { p50: at(0.5), p99: at(0.99) };
  }
}
