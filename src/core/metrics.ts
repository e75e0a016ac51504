/** All metrics of the service, in one registry. Served at `/metrics` in Prometheus' text format. */
import { Counter, Gauge, Histogram, type Metric, type MetricValueWithName, Registry } from "prom-client";

// A histogram of durations for a path that runs a hundred thousand times per second. prom-client checks each label and
// walks all buckets per observation, which costs more than many answers do. This one counts in plain arrays; the
// registry reads it like any other metric.

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

class DurationHistogram {
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

export class Metrics {
  readonly registry = new Registry();

  readonly requestSeconds = new DurationHistogram({
    name: "http_request_duration_seconds",
    help: "Time to answer, by route and status",
    bounds: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    registry: this.registry,
  });
  readonly eventsAppended = new Counter({
    name: "log_events_appended_total",
    help: "Events appended by this process, by type",
    labelNames: ["type"],
    registers: [this.registry],
  });
  readonly rpcRequests = new Counter({
    name: "rpc_requests_total",
    help: "Requests to endpoints, by endpoint label, method and outcome",
    labelNames: ["endpoint", "method", "outcome"],
    registers: [this.registry],
  });
  readonly rpcBytes = new Counter({
    name: "rpc_received_bytes_total",
    help: "Bytes received from endpoints",
    labelNames: ["endpoint"],
    registers: [this.registry],
  });
  readonly rpcSeconds = new Histogram({
    name: "rpc_request_duration_seconds",
    help: "Time until an endpoint's answer, by endpoint label",
    labelNames: ["endpoint"],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers: [this.registry],
  });
  readonly rpcHedges = new Counter({
    name: "rpc_hedged_requests_total",
    help: "Slow requests that were also sent to a second endpoint",
    labelNames: ["chain"],
    registers: [this.registry],
  });
  readonly rpcBenchedBehind = new Counter({
    name: "rpc_passed_over_total",
    help: "Times an endpoint was benched because another one had newer blocks",
    labelNames: ["endpoint"],
    registers: [this.registry],
  });
  readonly rpcContradictions = new Counter({
    name: "rpc_lies_total",
    help: "Answers that contradicted themselves or known facts, by endpoint label",
    labelNames: ["endpoint"],
    registers: [this.registry],
  });
  readonly missedLogs = new Counter({
    name: "rpc_missed_logs_total",
    help: "Logs that an endpoint omitted, found by receipts or a second endpoint before any append",
    labelNames: ["chain"],
    registers: [this.registry],
  });
  readonly doubtfulBlocks = new Counter({
    name: "rpc_doubtful_blocks_total",
    help: "Blocks whose bloom named a contract without a log, by the source that settled the doubt",
    labelNames: ["chain", "by"],
    registers: [this.registry],
  });
  readonly blocksBehind = new Gauge({
    name: "chain_blocks_behind_head",
    help: "Blocks between the node's head and the followed head",
    labelNames: ["chain"],
    registers: [this.registry],
  });
  readonly nodeHead = new Gauge({
    name: "chain_node_head",
    help: "Newest block that the node showed at the last poll of this process's follower; if lower than chain_followed_head, the node went back",
    labelNames: ["chain"],
    registers: [this.registry],
  });
  readonly headAge = new Gauge({
    name: "chain_head_age_seconds",
    help: "Age of the newest block that answers show, by the block's timestamp",
    labelNames: ["chain"],
    registers: [this.registry],
  });
  readonly followedHead = new Gauge({
    name: "chain_followed_head",
    help: "Newest block that answers show",
    labelNames: ["chain"],
    registers: [this.registry],
  });
  readonly reorgs = new Counter({
    name: "chain_reorgs_total",
    help: "Reorganisations resolved",
    labelNames: ["chain"],
    registers: [this.registry],
  });
  readonly halted = new Gauge({
    name: "chain_halted",
    help: "1 while a fork deeper than finality stops the chain's follower",
    labelNames: ["chain"],
    registers: [this.registry],
  });
  readonly collectionsIndexed = new Counter({
    name: "collections_indexed_total",
    help: "Collections whose indexing completed",
    labelNames: ["chain"],
    registers: [this.registry],
  });
  readonly indexingFailures = new Counter({
    name: "indexing_failures_total",
    help: "Attempts to index a collection that failed",
    labelNames: ["chain"],
    registers: [this.registry],
  });
  readonly anomalies = new Gauge({
    name: "transfer_anomalies",
    help: "Transfers in hot collections that contradict earlier transfers",
    registers: [this.registry],
  });
  readonly auditedHoldings = new Counter({
    name: "audit_holdings_checked_total",
    help: "Holdings that the self-audit compared with the chain",
    labelNames: ["chain"],
    registers: [this.registry],
  });
  readonly auditDrift = new Counter({
    name: "audit_drift_total",
    help: "Holdings that differ from the chain's answer at the same block",
    labelNames: ["chain"],
    registers: [this.registry],
  });
  readonly auditUnexplained = new Counter({
    name: "audit_unexplained_holders_total",
    help: "Tokens that have an owner by the contract but no log, found by the self-audit; counted at each find",
    labelNames: ["chain"],
    registers: [this.registry],
  });
  readonly malformedLogs = new Counter({
    name: "malformed_logs_total",
    help: "Logs under a known topic whose data do not fit the event",
    labelNames: ["chain"],
    registers: [this.registry],
  });
  readonly cacheBytes = new Gauge({
    name: "cache_bytes",
    help: "Bytes of hot collections",
    registers: [this.registry],
  });
  readonly cacheCollections = new Gauge({
    name: "cache_collections",
    help: "Collections in memory",
    registers: [this.registry],
  });
  readonly sockets = new Gauge({
    name: "websocket_connections",
    help: "Open WebSocket connections",
    registers: [this.registry],
  });
  readonly socketMessages = new Counter({
    name: "websocket_messages_total",
    help: "Messages sent to WebSocket clients, by type",
    labelNames: ["type"],
    registers: [this.registry],
  });
  readonly metadataOutcomes = new Counter({
    name: "metadata_outcomes_total",
    help: "Tokens whose metadata was requested, by outcome: resolved (repaired: the resolved ones with text that was not strict JSON), or the reason of the failure",
    labelNames: ["chain", "outcome"],
    registers: [this.registry],
  });
  readonly mediaOutcomes = new Counter({
    name: "media_outcomes_total",
    help: "Media files (images, audio, video) that were examined, by status",
    labelNames: ["chain", "status"],
    registers: [this.registry],
  });
  readonly metadataInFlight = new Gauge({
    name: "metadata_tokens_in_flight",
    help: "Tokens whose metadata this process is fetching",
    labelNames: ["chain"],
    registers: [this.registry],
  });
  readonly metadataCacheBytes = new Gauge({
    name: "metadata_cache_bytes",
    help: "Bytes of metadata references in memory",
    registers: [this.registry],
  });
  readonly answerCacheBytes = new Gauge({
    name: "answer_cache_bytes",
    help: "Bytes of cached answers that are ready to send",
    registers: [this.registry],
  });
  readonly residentBytes = new Gauge({
    name: "process_resident_memory_bytes",
    help: "Resident memory of the process",
    registers: [this.registry],
  });

  readonly #measures: (() => void)[] = [];

  /** Calls `measure` before each scrape, for gauges that are cheaper to read than to maintain. */
  onScrape(measure: () => void): void {
    this.#measures.push(measure);
  }

  /** Returns the text of a scrape. */
  async text(): Promise<string> {
    this.residentBytes.set(process.memoryUsage.rss());
    for (const measure of this.#measures) measure();
    return this.registry.metrics();
  }
}
