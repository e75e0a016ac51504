/**
 * A histogram of durations for a path that is taken a hundred thousand times a second: prom-client checks every label and
 * walks every bucket at each observation, which costs more than many an answer. Counted here in plain arrays; read by the
 * registry as any other metric.
 */
import type { Metric, MetricValueWithName, Registry } from "prom-client";

interface Series {
  readonly labels: { readonly route: string; readonly status: string };
  /** Observations within each bound and above the one before; the last are above all. */
  readonly counts: Float64Array;
  sum: number;
}

export interface DurationsOptions {
  readonly name: string;
  readonly help: string;
  /** Upper bounds in seconds, rising. */
  readonly bounds: readonly number[];
  readonly registry: Registry;
}

export class Durations {
  /** Of the metric, as the registry knows it. */
  readonly name: string;
  readonly #help: string;
  readonly #bounds: readonly number[];
  readonly #series = new Map<string, Map<number, Series>>();

  constructor({ name, help, bounds, registry }: DurationsOptions) {
    this.name = name;
    this.#help = help;
    this.#bounds = bounds;
    // The registry takes whatever has a name and can be got; its types know its own classes only.
    registry.registerMetric(this as unknown as Metric);
  }

  /** Counts one answer. */
  count(route: string, status: number, seconds: number): void {
    const series = this.#series.get(route)?.get(status) ?? this.#begin(route, status);
    const bounds = this.#bounds;
    let bucket = 0;
    while (bucket < bounds.length && seconds > (bounds[bucket] as number)) bucket++;
    series.counts[bucket] = (series.counts[bucket] as number) + 1;
    series.sum += seconds;
  }

  #begin(route: string, status: number): Series {
    const labels = { route, status: String(status) };
    const series = { labels, counts: new Float64Array(this.#bounds.length + 1), sum: 0 };
    const ofRoute = this.#series.get(route) ?? new Map<number, Series>();
    ofRoute.set(status, series);
    this.#series.set(route, ofRoute);
    return series;
  }

  /** What a scrape shows. */
  async get(): Promise<object> {
    const { name } = this;
    const values: MetricValueWithName<string>[] = [];
    for (const ofRoute of this.#series.values()) {
      for (const { labels, counts, sum } of ofRoute.values()) {
        let count = 0;
        for (const [index, own] of counts.entries()) {
          count += own;
          const le = this.#bounds[index] ?? "+Inf";
          values.push({ value: count, metricName: `${name}_bucket`, labels: { le, ...labels } });
        }
        values.push(
          { value: sum, metricName: `${name}_sum`, labels },
          { value: count, metricName: `${name}_count`, labels },
        );
      }
    }
    return { name, help: this.#help, type: "histogram", aggregator: "sum", values };
  }
}
