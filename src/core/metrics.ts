/** All metrics of the service, in one registry. Served at `/metrics` in Prometheus' text format. */
import Counter from "prom-client/lib/counter.js";
import Gauge from "prom-client/lib/gauge.js";
import Histogram from "prom-client/lib/histogram.js";
import Registry from "prom-client/lib/registry.js";
import { DurationHistogram } from "./duration-histogram.ts";

/** Each text has a metric's name, then its help, as a HELP line of Prometheus' text format has them. */
const GAUGES = {
  logUp: "log_up 1 while the event log answers",
  logBehind: "log_behind_seconds Age of the event log's state that this process has folded",
  logLatency: "log_latency_seconds Time until the last poll of the event log was answered",
  logListening: "log_listening 1 while PostgreSQL notifies this process of appends",
  anomalies: "transfer_anomalies Transfers in hot collections that contradict earlier transfers",
  cacheBytes: "cache_bytes Bytes of hot collections",
  cacheCollections: "cache_collections Collections in memory",
  sockets: "websocket_connections Open WebSocket connections",
  metadataCacheBytes: "metadata_cache_bytes Bytes of metadata references in memory",
  answerCacheBytes: "answer_cache_bytes Bytes of cached answers that are ready to send",
  collectionsInDoubt: "collections_in_doubt Collections of which something can't be known: inDoubt of each says what",
  indexingQueue: "indexing_queue Collections in the event log that wait for indexing or are being indexed",
  logBytes: "log_bytes Bytes of the event log on disk",
  logFreeBytes: "log_free_bytes Bytes left on the disk of the event log, where it tells",
  logWritable: "log_writable 1 while the event log takes appends",
};

const COUNTERS_OF_CHAINS = {
  rpcHedges: "rpc_hedged_requests_total Slow requests that were also sent to a second endpoint",
  missedLogs:
    "rpc_missed_logs_total Logs that an endpoint omitted, found by receipts or a second endpoint before any append",
  reorgs: "chain_reorgs_total Reorganisations resolved",
  collectionsIndexed: "collections_indexed_total Collections whose indexing completed",
  indexingFailures: "indexing_failures_total Attempts to index a collection that failed",
  auditedHoldings: "audit_holdings_checked_total Holdings that the self-audit compared with the chain",
  auditDrift: "audit_drift_total Holdings that differ from the chain's answer at the same block",
  auditUnexplained:
    "audit_unexplained_holders_total Tokens that have an owner by the contract but no log, found by the self-audit; counted at each find",
  malformedLogs: "malformed_logs_total Logs under a known topic whose data do not fit the event",
};

const GAUGES_OF_CHAINS = {
  blocksBehind: "chain_blocks_behind_head Blocks between the node's head and the followed head",
  nodeHead:
    "chain_node_head Newest block that the node showed at the last poll of this process's follower; if lower than chain_followed_head, the node went back",
  headAge: "chain_head_age_seconds Age of the newest block that answers show, by the block's timestamp",
  blockSeconds: "chain_block_seconds Usual time between two blocks of the chain",
  idle: "chain_idle 1 if nothing on the chain is followed, so that nothing is asked of its nodes; 0 at processes that do not follow it",
  followedHead: "chain_followed_head Newest block that answers show",
  headersChanged:
    "chain_headers_changed_block First block whose header no longer makes its hash, as older ones do: an upgrade that this release doesn't know; absent or 0 otherwise",
  halted: "chain_halted 1 while a fork deeper than finality stops the chain's follower",
  metadataInFlight: "metadata_tokens_in_flight Tokens whose metadata this process is fetching",
};

const COUNTERS_OF_ENDPOINTS = {
  rpcUnits: "rpc_units_total Units of these calls by the price list, by endpoint label",
  rpcBytes: "rpc_received_bytes_total Bytes received from endpoints",
  rpcBenchedBehind: "rpc_passed_over_total Times an endpoint was benched because another one had newer blocks",
  rpcContradictions: "rpc_lies_total Answers that contradicted themselves or known facts, by endpoint label",
};

/** Makes the metric of each text. */
function fromHelp<K extends string, M>(
  texts: Readonly<Record<K, string>>,
  make: (name: string, help: string) => M,
): Readonly<Record<K, M>> {
  const made = Object.entries<string>(texts).map(([key, text]) => {
    const at = text.indexOf(" ");
    return [key, make(text.slice(0, at), text.slice(at + 1))];
  });
  return Object.fromEntries(made) as Record<K, M>;
}

/** Makes all counters and gauges, by their labels. */
const GAUGES_OF_KEYS = {
  keyRequests:
    "api_key_requests_today Requests with each API key to this process since midnight UTC; empty unless METRICS_KEY is set",
  keyUnits:
    "api_key_rpc_units_day Units of calls to endpoints for each API key in the last 24 hours, over all processes; empty unless METRICS_KEY is set",
  keyBytes:
    "api_key_rpc_bytes_day Bytes of endpoints' answers for each API key in the last 24 hours, over all processes; empty unless METRICS_KEY is set",
  keyThreadMs:
    "api_key_thread_milliseconds Milliseconds of the serving thread that each API key took of this process; empty unless METRICS_KEY is set",
};

function countersAndGauges(registers: Registry[]) {
  const counters = <K extends string, L extends string>(labelNames: readonly L[], texts: Readonly<Record<K, string>>) =>
    fromHelp(texts, (name, help) => new Counter({ name, help, labelNames, registers }));
  const gauges = <K extends string, L extends string>(labelNames: readonly L[], texts: Readonly<Record<K, string>>) =>
    fromHelp(texts, (name, help) => new Gauge({ name, help, labelNames, registers }));
  return {
    ...counters([], {
      logWentBack:
        "log_went_back_total Times that the event log lost records which this process had read, so that all memory was dropped",
    }),
    ...gauges([], GAUGES),
    ...counters(["chain"], COUNTERS_OF_CHAINS),
    ...gauges(["chain"], GAUGES_OF_CHAINS),
    ...counters(["chain", "by"], {
      doubtfulBlocks:
        "rpc_doubtful_blocks_total Blocks whose bloom named a contract without a log, by the source that settled the doubt",
    }),
    ...counters(["chain", "kind"], {
      leasesLost:
        "leases_lost_total Leases that ended before the work, because the process could not renew them in time",
      leasesHandedOver:
        "leases_handed_over_total Leases that the process gave up for another process, because its own node failed",
    }),
    ...gauges(["chain", "kind"], {
      leasesHeld:
        "leases_held Leases that this process holds, by kind: follow and metadata are 1 in the process that does this work of the chain, index counts collections",
    }),
    ...counters(["chain", "outcome"], {
      metadataOutcomes:
        "metadata_outcomes_total Tokens whose metadata was requested, by outcome: resolved (repaired: the resolved ones with text that was not strict JSON), or the reason of the failure",
    }),
    ...counters(["chain", "status"], {
      mediaOutcomes: "media_outcomes_total Media files (images, audio, video) that were examined, by status",
    }),
    ...counters(["endpoint"], COUNTERS_OF_ENDPOINTS),
    ...counters(["endpoint", "method"], {
      rpcCalls:
        "rpc_calls_total Calls to endpoints as a provider bills them, by endpoint label and method: each call of a batch counts",
    }),
    ...counters(["endpoint", "method", "outcome"], {
      rpcRequests: "rpc_requests_total Requests to endpoints, by endpoint label, method and outcome",
    }),
    ...gauges(["key"], GAUGES_OF_KEYS),
    ...counters(["outcome"], {
      cacheReads:
        "cache_reads_total Reads of collections by outcome: hit, or miss if the collection had to be folded from the log",
      blobRequests: "blob_requests_total Requests to the store of blobs, by outcome: stored, read, missing or failed",
    }),
    ...gauges(["status"], {
      collections: "collections Collections in the event log, by status",
    }),
    ...counters(["type"], {
      eventsAppended: "log_events_appended_total Events appended by this process, by type",
      socketMessages: "websocket_messages_total Messages sent to WebSocket clients, by type",
    }),
    ...gauges(["version"], {
      buildInfo: "build_info 1, with the version of the program",
    }),
  };
}

/** Statistics of the heap take milliseconds of the request thread, so they are read at most this often. */
const PROCESS_MS = 5_000;

export type Metrics = ReturnType<typeof createMetrics>;

/** Adds prom-client's own metrics, which count from now on: what the process has used before is added to its CPU time. */
async function measureIn(registry: Registry): Promise<void> {
  const { default: collectDefaultMetrics } = await import("prom-client/lib/defaultMetrics.js");
  const { user, system } = process.cpuUsage();
  collectDefaultMetrics({ register: registry });
  const used = {
    process_cpu_user_seconds_total: user,
    process_cpu_system_seconds_total: system,
    process_cpu_seconds_total: user + system,
  };
  for (const [name, micros] of Object.entries(used)) {
    (registry.getSingleMetric(name) as Counter | undefined)?.inc(micros / 1_000_000);
  }
}

export function createMetrics() {
  const registry = new Registry();
  const measures: (() => void | Promise<void>)[] = [];
  // prom-client's own metrics of the process, their last text, and when that was made, on the monotonic clock.
  const process = new Registry();
  let isProcessMeasured = false;
  let measuring: Promise<void> | undefined;
  let processText: { readonly text: string; readonly at: number } | undefined;
  return {
    registry,
    ...countersAndGauges([registry]),
    requestSeconds: new DurationHistogram({
      name: "http_request_duration_seconds",
      help: "Time to answer, by route and status",
      bounds: [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
      registry,
    }),
    rpcSeconds: new Histogram({
      name: "rpc_request_duration_seconds",
      help: "Time until an endpoint's answer, by endpoint label",
      labelNames: ["endpoint"],
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers: [registry],
    }),

    /** Has the process measured from the first scrape on: a start doesn't wait for it, and a command has no use for it. */
    measureProcess: (): void => {
      isProcessMeasured = true;
    },

    /** Calls `measure` before each scrape, for gauges that are cheaper to read than to maintain. */
    onScrape: (measure: () => void | Promise<void>): void => void measures.push(measure),

    /** Returns the text of a scrape. */
    text: async (): Promise<string> => {
      // A figure of a log that does not answer stays as it was.
      await Promise.allSettled(measures.map(async (measure) => measure()));
      const now = performance.now();
      if (isProcessMeasured) {
        measuring ??= measureIn(process);
        await measuring;
      }
      if (processText === undefined || now - processText.at > PROCESS_MS) {
        processText = { text: await process.metrics(), at: now };
      }
      return `${await registry.metrics()}\n${processText.text}`;
    },
  };
}
