/** Connects the parts' callbacks with the metrics. No other file knows both. */
import type { IndexingObserver } from "./chain/consumer.ts";
import type { LeaseObserver } from "./chain/lease.ts";
import type { Chain, Chains } from "./chains/chains.ts";
import { type PriceList, unitsOf } from "./chains/price-lists.ts";
import type { Clock } from "./core/clock.ts";
import type { Logger } from "./core/logger.ts";
import type { Metrics } from "./core/metrics.ts";
import type { LogStatus } from "./log/event-log.ts";
import type { BlobOutcome } from "./log/stored-blobs.ts";
import type { HotCollections } from "./nft/collections/hot-collections.ts";
import type { MetadataObserver } from "./nft/metadata/metadata.ts";
import type { Bills } from "./operators/bills.ts";
import type { Catalogue } from "./operators/catalogue.ts";
import type { ApiKeys } from "./operators/keys.ts";
import type { EndpointStatus, PoolOptions } from "./rpc/endpoint/endpoint-pool.ts";
import type { RequestOutcome } from "./rpc/endpoint/provider.ts";
import type { LogReaderObserver } from "./rpc/reading/logs.ts";

/** Counts requests to endpoints. Labels stand for their URLs. */
export function requestObserver(metrics: Metrics, prices: PriceList): (outcome: RequestOutcome) => void {
  return ({ endpoint, method, calls, outcome, seconds, bytes }) => {
    for (const call of calls) {
      metrics.rpcCalls.inc({ endpoint, method: call });
      metrics.rpcUnits.inc({ endpoint }, unitsOf(prices, call));
    }
    metrics.rpcRequests.inc({ endpoint, method, outcome });
    metrics.rpcBytes.inc({ endpoint }, bytes);
    metrics.rpcSeconds.observe({ endpoint }, seconds);
  };
}

/** Counts hedged requests and wrong answers of a chain's pool, and logs each change of an endpoint's state. */
export function poolObserver(
  metrics: Metrics,
  chain: Chain,
  log: EndpointLog,
): Required<Pick<PoolOptions, "onHedge" | "onLiar" | "onBehind" | "onState">> {
  return {
    onHedge: () => metrics.rpcHedges.inc({ chain: chain.name }),
    onLiar: (endpoint) => {
      metrics.rpcContradictions.inc({ endpoint });
    },
    onBehind: (endpoint) => {
      metrics.rpcBenchedBehind.inc({ endpoint });
    },
    onState: (status) => log.tell(status),
  };
}

const TEXT_OF_STATE = {
  unused: "an endpoint was not asked yet",
  wrong_chain: "an endpoint is of another chain and is not used",
  lied: "an endpoint gave a wrong answer, and others are preferred for a while",
  paused: "an endpoint asked for a pause",
  failed: "an endpoint fails",
} as const;

/** Endpoints with one fault within this time are one line: a network that fails takes all chains with it. */
const SAME_FAULT_MS = 1_000;

/** Logs changes of endpoints' states, of all chains. A fault that several endpoints have at a time is one line. */
export class EndpointLog {
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** Faults that are not logged yet, by state and reason. */
  readonly #waiting = new Map<string, EndpointStatus[]>();
  #cancel: (() => void) | undefined;

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  tell(status: EndpointStatus): void {
    const { label: endpoint, state, reason, restsMs } = status;
    if (state === "behind") {
      // A node is behind for a moment with nearly each block.
      const restSeconds = Math.round(restsMs / 1_000);
      this.#logger.debug({ endpoint, restSeconds }, "an endpoint is behind and is passed over");
    } else if (state === "available") {
      this.flush();
      this.#logger.info({ endpoint }, "an endpoint answers again");
    } else {
      const fault = `${state} ${reason}`;
      this.#waiting.set(fault, [...(this.#waiting.get(fault) ?? []), status]);
      this.#cancel ??= this.#clock.after(SAME_FAULT_MS, () => this.flush());
    }
  }

  /** Logs the faults that wait. */
  flush(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    for (const same of this.#waiting.values()) this.#warn(same);
    this.#waiting.clear();
  }

  #warn(same: readonly EndpointStatus[]): void {
    const [{ label: endpoint, state, reason, restsMs }] = same as readonly [EndpointStatus];
    const text = TEXT_OF_STATE[state as keyof typeof TEXT_OF_STATE];
    const labels = same.map(({ label }) => label);
    const restSeconds = Math.round(restsMs / 1_000);
    if (labels.length === 1) this.#logger.warn({ endpoint, state, reason, restSeconds }, text);
    else this.#logger.warn({ endpoints: labels, state, reason }, `${labels.length} endpoints have one fault: ${text}`);
  }
}

/** Counts logs that an endpoint left out, and blocks that needed a second source. */
export function watchOf(metrics: Metrics, chain: Chain): LogReaderObserver {
  const labels = { chain: chain.name };
  return {
    missed: (count) => metrics.missedLogs.inc(labels, count),
    settled: (by) => metrics.doubtfulBlocks.inc({ ...labels, by }),
  };
}

/** Counts requests to the store of blobs. */
export const blobObserver =
  (metrics: Metrics) =>
  (outcome: BlobOutcome): void =>
    metrics.blobRequests.inc({ outcome });

/** Counts the outcomes of the metadata workers. */
export function metadataObserver(metrics: Metrics, chains: Chains): MetadataObserver {
  return {
    outcome: (chainId, outcome) => metrics.metadataOutcomes.inc({ chain: chains.nameOf(chainId), outcome }),
    media: (chainId, status) => metrics.mediaOutcomes.inc({ chain: chains.nameOf(chainId), status }),
  };
}

/** Shows the leases of this process, and counts those that it lost or handed over. All series exist from the start. */
export function leaseObserver(metrics: Metrics, chains: readonly Chain[], known: Chains): LeaseObserver {
  for (const { name: chain } of chains) {
    for (const kind of ["follow", "metadata", "index"]) {
      for (const metric of [metrics.leasesHeld, metrics.leasesLost, metrics.leasesHandedOver]) {
        metric.inc({ chain, kind }, 0);
      }
    }
  }
  /** Names are `follow/1`, `metadata/1` and `index/nft/1/0x…`. */
  const labelsOf = (name: string) => {
    const [kind = "", ...rest] = name.split("/");
    const chainId = Number(kind === "index" ? rest[1] : rest[0]);
    return { chain: known.nameOf(chainId), kind };
  };
  return {
    held: (name, isHeld) => metrics.leasesHeld.inc(labelsOf(name), isHeld ? 1 : -1),
    lost: (name) => metrics.leasesLost.inc(labelsOf(name)),
    handedOver: (name) => metrics.leasesHandedOver.inc(labelsOf(name)),
  };
}

/** Counts the work of a chain's indexing. */
export function observerOf(metrics: Metrics, chain: Chain, heads: { node: number | undefined }): IndexingObserver {
  const labels = { chain: chain.name };
  return {
    malformed: (count) => metrics.malformedLogs.inc(labels, count),
    completed: () => metrics.collectionsIndexed.inc(labels),
    failed: () => metrics.indexingFailures.inc(labels),
    head: (nodeHead) => {
      metrics.nodeHead.set(labels, nodeHead);
      heads.node = nodeHead;
    },
    omitted: () => metrics.missedLogs.inc(labels),
    reorg: () => metrics.reorgs.inc(labels),
    halted: (isHalted) => metrics.halted.set(labels, isHalted ? 1 : 0),
  };
}

interface HeadParts {
  readonly chain: Chain;
  readonly view: { head(): { readonly number: number; readonly timestamp: number } | undefined };
  readonly clock: Clock;
  /** The newest block that the node has shown to this process's follower. */
  readonly heads: { readonly node: number | undefined };
  /** True if nothing on the chain is followed. */
  readonly isIdle: boolean;
}

/** Sets the metrics of a chain's head to the block that answers show now. */
export function measureHead(metrics: Metrics, { chain, view, clock, heads, isIdle }: HeadParts): void {
  const labels = { chain: chain.name };
  metrics.idle.set(labels, isIdle ? 1 : 0);
  metrics.blockSeconds.set(labels, chain.blockSeconds);
  const head = view.head();
  if (head === undefined) return;
  metrics.followedHead.set(labels, head.number);
  metrics.headAge.set(labels, Math.max(0, clock.now() / 1_000 - head.timestamp));
  if (heads.node !== undefined) metrics.blocksBehind.set(labels, Math.max(0, heads.node - head.number));
}

interface LogParts {
  readonly isAnswering: boolean;
  readonly tail: { readonly latencyMs: number; readonly isListening: boolean };
}

/** Sets the metrics of this process's way to the event log. */
export function measureLog(
  metrics: Metrics,
  { tail, isAnswering }: LogParts,
  { behindMs }: { readonly behindMs: number },
): void {
  metrics.logUp.set(isAnswering ? 1 : 0);
  metrics.logBehind.set(behindMs / 1_000);
  metrics.logLatency.set(tail.latencyMs / 1_000);
  metrics.logListening.set(tail.isListening ? 1 : 0);
}

interface OperatorFigures {
  readonly catalogue: Pick<Catalogue, "counts" | "inDoubt">;
  readonly keys: Pick<ApiKeys, "list">;
  readonly bills: Pick<Bills, "costOf">;
  readonly status: () => Promise<LogStatus>;
  /** True if the metrics may name the keys. */
  readonly areKeysNamed: boolean;
}

/** Sets what the log has, and what is used: read at each scrape. */
export function measureOperations(metrics: Metrics, figures: OperatorFigures): void {
  const { catalogue, keys, bills, status, areKeysNamed } = figures;
  metrics.onScrape(async () => {
    const counts = await catalogue.counts();
    for (const [name, count] of Object.entries(counts)) metrics.collections.set({ status: name }, count);
    metrics.collectionsInDoubt.set(catalogue.inDoubt);
    metrics.indexingQueue.set(counts.requested + counts.indexing + counts.joining + counts.failing);
  });
  metrics.onScrape(async () => {
    const { bytes, freeBytes, isWritable } = await status();
    metrics.logBytes.set(bytes);
    if (freeBytes !== undefined) metrics.logFreeBytes.set(freeBytes);
    metrics.logWritable.set(isWritable ? 1 : 0);
  });
  if (!areKeysNamed) return;
  metrics.onScrape(() => {
    metrics.keyRequests.reset();
    metrics.keyUnits.reset();
    metrics.keyBytes.reset();
    metrics.keyThreadMs.reset();
    for (const { name, requestsToday } of keys.list()) {
      metrics.keyRequests.set({ key: name }, requestsToday);
      const { units, bytes, threadMs } = bills.costOf(name);
      metrics.keyUnits.set({ key: name }, units.day);
      metrics.keyBytes.set({ key: name }, bytes.day);
      metrics.keyThreadMs.set({ key: name }, threadMs);
    }
  });
}

/** Metrics that are cheaper to read at a scrape than to keep current. */
export function observe(metrics: Metrics, projections: HotCollections): void {
  metrics.onScrape(() => {
    const { bytes, collections } = projections.stats();
    metrics.cacheBytes.set(bytes);
    metrics.cacheCollections.set(collections);
    metrics.anomalies.set(projections.anomalies());
  });
}
