/**
 * What one endpoint was used for: calls by method, as a provider bills them, units, bytes and latency. Each call inside
 * a batch counts.
 */
import { type PriceList, unitsOf } from "../../chains/price-list.ts";
import type { Clock } from "../../core/clock.ts";

export interface Bill {
  /** Calls by method. */
  readonly calls: Readonly<Record<string, number>>;
  readonly units: number;
  /** Bytes received. */
  readonly bytes: number;
}

interface Bucket {
  /** Number of the bucket's time slice since the clock's start. */
  slice: number;
  readonly calls: Map<string, number>;
  bytes: number;
}

const MINUTE_MS = 60_000;
/** Answers whose latency is kept: enough for a p99. */
const LATENCIES = 512;

/** Counts over a sliding time, in slices. */
class SlidingBill {
  readonly #sliceMs: number;
  readonly #buckets: Bucket[];

  constructor(sliceMs: number, slices: number) {
    this.#sliceMs = sliceMs;
    this.#buckets = Array.from({ length: slices }, () => ({ slice: -1, calls: new Map(), bytes: 0 }));
  }

  /** Returns the counts of the current slice. */
  at(now: number): Bucket {
    const slice = Math.floor(now / this.#sliceMs);
    const bucket = this.#buckets[slice % this.#buckets.length] as Bucket;
    if (bucket.slice !== slice) {
      bucket.slice = slice;
      bucket.calls.clear();
      bucket.bytes = 0;
    }
    return bucket;
  }

  total(now: number, prices: PriceList): Bill {
    const oldest = Math.floor(now / this.#sliceMs) - this.#buckets.length;
    const calls: Record<string, number> = {};
    let [units, bytes] = [0, 0];
    for (const bucket of this.#buckets) {
      if (bucket.slice <= oldest) continue;
      bytes += bucket.bytes;
      for (const [method, count] of bucket.calls) {
        calls[method] = (calls[method] ?? 0) + count;
        units += count * unitsOf(prices, method);
      }
    }
    return { calls, units, bytes };
  }
}

export class Usage {
  readonly #clock: Clock;
  readonly #prices: PriceList;
  readonly #hour = new SlidingBill(MINUTE_MS, 60);
  readonly #day = new SlidingBill(60 * MINUTE_MS, 24);
  /** The newest latencies in ms, in a ring. */
  readonly #latencies: number[] = [];
  #next = 0;

  constructor(clock: Clock, prices: PriceList) {
    this.#clock = clock;
    this.#prices = prices;
  }

  /** Counts the calls of one request. */
  sent(methods: readonly string[]): void {
    const now = this.#clock.monotonic();
    for (const { calls } of [this.#hour.at(now), this.#day.at(now)]) {
      for (const method of methods) calls.set(method, (calls.get(method) ?? 0) + 1);
    }
  }

  /** Counts an answer. @param ms time until it had arrived */
  received(bytes: number, ms: number): void {
    const now = this.#clock.monotonic();
    this.#hour.at(now).bytes += bytes;
    this.#day.at(now).bytes += bytes;
    this.#latencies[this.#next] = ms;
    this.#next = (this.#next + 1) % LATENCIES;
  }

  /** The bill of the last 60 minutes, and of the last 24 hours. */
  bill(): { readonly hour: Bill; readonly day: Bill } {
    const now = this.#clock.monotonic();
    return { hour: this.#hour.total(now, this.#prices), day: this.#day.total(now, this.#prices) };
  }

  /** Percentiles of the newest latencies in ms; null without an answer. */
  latencyMs(): { readonly p50: number; readonly p99: number } | null {
    if (this.#latencies.length === 0) return null;
    const sorted = [...this.#latencies].sort((a, b) => a - b);
    const at = (share: number) => Math.round((sorted[Math.floor(sorted.length * share)] as number) * 10) / 10;
    return { p50: at(0.5), p99: at(0.99) };
  }
}
