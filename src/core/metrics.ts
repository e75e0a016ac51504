/** All metrics of the service, in one registry. Served at `/metrics` in Prometheus' text format. */
import {
  Counter,
  collectDefaultMetrics,
  Gauge,
  Histogram,
  type Metric,
  type MetricValueWithName,
  Registry,
} from "prom-client";

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

/** Statistics of the heap take milliseconds of the request thread, so they are read at most this often. */
const PROCESS_MS = 5_000;

export class Metrics {
  readonly registry = new Registry();

  readonly requestSeconds = new DurationHistogram({
    name: "http_request_duration_seconds",
    help: "Time to answer, by route and status",
    bounds: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    registry: this.registry,
  });
  readonly eventsAppended = this.#counter(
    "log_events_appended_total",
    "Events appended by this process, by type",
    "type",
  );
  readonly logUp = this.#gauge("log_up", "1 while the event log answers");
  readonly logBehind = this.#gauge("log_behind_seconds", "Age of the event log's state that this process has folded");
  readonly logLatency = this.#gauge("log_latency_seconds", "Time until the last poll of the event log was answered");
  readonly logListening = this.#gauge("log_listening", "1 while PostgreSQL notifies this process of appends");
  readonly logWentBack = this.#counter(
    "log_went_back_total",
    "Times that the event log lost records which this process had read, so that all memory was dropped",
  );
  readonly rpcRequests = this.#counter(
    "rpc_requests_total",
    "Requests to endpoints, by endpoint label, method and outcome",
    "endpoint",
    "method",
    "outcome",
  );
  readonly rpcCalls = this.#counter(
    "rpc_calls_total",
    "Calls to endpoints as a provider bills them, by endpoint label and method: each call of a batch counts",
    "endpoint",
    "method",
  );
  readonly rpcUnits = this.#counter(
    "rpc_units_total",
    "Units of these calls by the price list, by endpoint label",
    "endpoint",
  );
  readonly rpcBytes = this.#counter("rpc_received_bytes_total", "Bytes received from endpoints", "endpoint");
  readonly rpcSeconds = new Histogram({
    name: "rpc_request_duration_seconds",
    help: "Time until an endpoint's answer, by endpoint label",
    labelNames: ["endpoint"],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers: [this.registry],
  });
  readonly rpcHedges = this.#counter(
    "rpc_hedged_requests_total",
    "Slow requests that were also sent to a second endpoint",
    "chain",
  );
  readonly rpcBenchedBehind = this.#counter(
    "rpc_passed_over_total",
    "Times an endpoint was benched because another one had newer blocks",
    "endpoint",
  );
  readonly rpcContradictions = this.#counter(
    "rpc_lies_total",
    "Answers that contradicted themselves or known facts, by endpoint label",
    "endpoint",
  );
  readonly missedLogs = this.#counter(
    "rpc_missed_logs_total",
    "Logs that an endpoint omitted, found by receipts or a second endpoint before any append",
    "chain",
  );
  readonly doubtfulBlocks = this.#counter(
    "rpc_doubtful_blocks_total",
    "Blocks whose bloom named a contract without a log, by the source that settled the doubt",
    "chain",
    "by",
  );
  readonly blocksBehind = this.#gauge(
    "chain_blocks_behind_head",
    "Blocks between the node's head and the followed head",
    "chain",
  );
  readonly nodeHead = this.#gauge(
    "chain_node_head",
    "Newest block that the node showed at the last poll of this process's follower; if lower than chain_followed_head, the node went back",
    "chain",
  );
  readonly headAge = this.#gauge(
    "chain_head_age_seconds",
    "Age of the newest block that answers show, by the block's timestamp",
    "chain",
  );
  readonly blockSeconds = this.#gauge("chain_block_seconds", "Usual time between two blocks of the chain", "chain");
  readonly idle = this.#gauge(
    "chain_idle",
    "1 if nothing on the chain is followed, so that nothing is asked of its nodes; 0 at processes that do not follow it",
    "chain",
  );
  readonly followedHead = this.#gauge("chain_followed_head", "Newest block that answers show", "chain");
  readonly reorgs = this.#counter("chain_reorgs_total", "Reorganisations resolved", "chain");
  readonly halted = this.#gauge(
    "chain_halted",
    "1 while a fork deeper than finality stops the chain's follower",
    "chain",
  );
  readonly leasesHeld = this.#gauge(
    "leases_held",
    "Leases that this process holds, by kind: follow and metadata are 1 in the process that does this work of the chain, index counts collections",
    "chain",
    "kind",
  );
  readonly leasesLost = this.#counter(
    "leases_lost_total",
    "Leases that ended before the work, because the process could not renew them in time",
    "chain",
    "kind",
  );
  readonly leasesHandedOver = this.#counter(
    "leases_handed_over_total",
    "Leases that the process gave up for another process, because its own node failed",
    "chain",
    "kind",
  );
  readonly collectionsIndexed = this.#counter(
    "collections_indexed_total",
    "Collections whose indexing completed",
    "chain",
  );
  readonly indexingFailures = this.#counter(
    "indexing_failures_total",
    "Attempts to index a collection that failed",
    "chain",
  );
  readonly anomalies = this.#gauge(
    "transfer_anomalies",
    "Transfers in hot collections that contradict earlier transfers",
  );
  readonly auditedHoldings = this.#counter(
    "audit_holdings_checked_total",
    "Holdings that the self-audit compared with the chain",
    "chain",
  );
  readonly auditDrift = this.#counter(
    "audit_drift_total",
    "Holdings that differ from the chain's answer at the same block",
    "chain",
  );
  readonly auditUnexplained = this.#counter(
    "audit_unexplained_holders_total",
    "Tokens that have an owner by the contract but no log, found by the self-audit; counted at each find",
    "chain",
  );
  readonly malformedLogs = this.#counter(
    "malformed_logs_total",
    "Logs under a known topic whose data do not fit the event",
    "chain",
  );
  readonly cacheBytes = this.#gauge("cache_bytes", "Bytes of hot collections");
  readonly cacheCollections = this.#gauge("cache_collections", "Collections in memory");
  readonly sockets = this.#gauge("websocket_connections", "Open WebSocket connections");
  readonly socketMessages = this.#counter(
    "websocket_messages_total",
    "Messages sent to WebSocket clients, by type",
    "type",
  );
  readonly metadataOutcomes = this.#counter(
    "metadata_outcomes_total",
    "Tokens whose metadata was requested, by outcome: resolved (repaired: the resolved ones with text that was not strict JSON), or the reason of the failure",
    "chain",
    "outcome",
  );
  readonly mediaOutcomes = this.#counter(
    "media_outcomes_total",
    "Media files (images, audio, video) that were examined, by status",
    "chain",
    "status",
  );
  readonly metadataInFlight = this.#gauge(
    "metadata_tokens_in_flight",
    "Tokens whose metadata this process is fetching",
    "chain",
  );
  readonly metadataCacheBytes = this.#gauge("metadata_cache_bytes", "Bytes of metadata references in memory");
  readonly answerCacheBytes = this.#gauge("answer_cache_bytes", "Bytes of cached answers that are ready to send");
  readonly collections = this.#gauge("collections", "Collections in the event log, by status", "status");
  readonly indexingQueue = this.#gauge(
    "indexing_queue",
    "Collections in the event log that wait for indexing or are being indexed",
  );
  readonly logBytes = this.#gauge("log_bytes", "Bytes of the event log on disk");
  readonly logFreeBytes = this.#gauge("log_free_bytes", "Bytes left on the disk of the event log, where it tells");
  readonly logWritable = this.#gauge("log_writable", "1 while the event log takes appends");
  readonly keyRequests = this.#gauge(
    "api_key_requests_today",
    "Requests with each API key to this process since midnight UTC; empty unless METRICS_KEY is set",
    "key",
  );
  readonly keyUnits = this.#gauge(
    "api_key_rpc_units_day",
    "Units of calls to endpoints for each API key in the last 24 hours, over all processes; empty unless METRICS_KEY is set",
    "key",
  );
  readonly buildInfo = this.#gauge("build_info", "1, with the version of the program", "version");

  readonly #measures: (() => void | Promise<void>)[] = [];

  /** prom-client's own metrics of the process, their last text, and when that was made, on the monotonic clock. */
  readonly #process = new Registry();
  #processText: { readonly text: string; readonly at: number } | undefined;

  constructor() {
    collectDefaultMetrics({ register: this.#process });
  }

  #counter<L extends string>(name: string, help: string, ...labelNames: L[]): Counter<L> {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  #gauge<L extends string>(name: string, help: string, ...labelNames: L[]): Gauge<L> {
    return new Gauge({ name, help, labelNames, registers: [this.registry] });
  }

  /** Calls `measure` before each scrape, for gauges that are cheaper to read than to maintain. */
  onScrape(measure: () => void | Promise<void>): void {
    this.#measures.push(measure);
  }

  /** Returns the text of a scrape. */
  async text(): Promise<string> {
    // A figure of a log that does not answer stays as it was.
    await Promise.allSettled(this.#measures.map(async (measure) => measure()));
    const now = performance.now();
    if (this.#processText === undefined || now - this.#processText.at > PROCESS_MS) {
      this.#processText = { text: await this.#process.metrics(), at: now };
    }
    return `${await this.registry.metrics()}\n${this.#processText.text}`;
  }
}
