/**
 * A histogram of durations for a path that runs a hundred thousand times per second. prom-client checks each label and
 * walks all buckets per observation, which costs more than many answers do. This one counts in plain arrays; the
 * registry reads it like any other metric.
 */
import type { Metric, MetricValueWithName, Registry } from "prom-client";

interface Series {
  readonly labels: { readonly route: string; readonly status: string };
  /** Observations per bucket, not cumulative. The last entry is above all bounds. */
  readonly counts: Float64Array;
  sum: number;
}

interface DurationsOptions {
  readonly name: string;
  readonly help: string;
  /** Upper bounds in seconds, rising. */
  readonly bounds: readonly number[];
  readonly registry: Registry;
}

export class DurationHistogram {
  /** The metric's name in the registry. */
  readonly name: string;
  readonly #help: string;
  readonly #bounds: readonly number[];
  readonly #series = new Map<string, Map<number, Series>>();

  constructor({ name, help, bounds, registry }: DurationsOptions) {
    this.name = name;
    this.#help = help;
    this.#bounds = bounds;
    // At run time the registry accepts any object with `name` and `get`. Its types only know prom-client's classes.
    registry.registerMetric(this as unknown as Metric);
  }

  /** Counts one answer. */
  observe(route: string, status: number, seconds: number): void {
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

  /** Returns the metric for a scrape, with cumulative buckets. */
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
