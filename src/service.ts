/**
 * Composition root: the one file that knows how the parts connect.
 *
 *   request ─► http/app ─► nfts/pages ◄─ nfts/projections ◄─ log ◄─ indexer/jobs ◄─ rpc ◄─ endpoints
 *                  │                          │                ▲          │ joins
 *                  │                          └─► push/channel └── indexer/follower (one a chain)
 *                  ├──────► prices/service ◄── rpc, log, the follower's blocks
 *                  └──────► metadata/service ◄── rpc, log, the hosts that token URIs name
 *
 * A chain's follower and jobs run in the process that holds their leases; every process folds the log and serves.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { LRUCache } from "lru-cache";
import { type Chain, chainById } from "./chains/chains.ts";
import { type ChainConfig, type Config, ConfigError, LIMITS } from "./config.ts";
import { type Clock, systemClock } from "./core/clock.ts";
import type { Address, Hash } from "./core/hex.ts";
import { Lifecycle } from "./core/lifecycle.ts";
import type { Logger } from "./core/logger.ts";
import { Metrics } from "./core/metrics.ts";
import { parseStream } from "./events/types.ts";
import { createApp } from "./http/app.ts";
import { KeyRing, RateLimiter } from "./http/auth.ts";
import { type RunningServer, type Serving, startServer } from "./http/server.ts";
import { type AuditSample, runAudit } from "./indexer/audit.ts";
import type { ChainProjection } from "./indexer/chain-projection.ts";
import { ChainIndexing } from "./indexer/indexing.ts";
import { requestIdentification, requestIndexing } from "./indexer/jobs.ts";
import { ListFiles } from "./indexer/list-files.ts";
import type { IndexingObserver } from "./indexer/observer.ts";
import { openLog } from "./log/open.ts";
import type { EventLog } from "./log/port.ts";
import type { PageFactsOptions } from "./metadata/page.ts";
import { type ChainMetadata, Metadata, type MetadataObserver } from "./metadata/service.ts";
import { systemWire, type Wire } from "./metadata/wire.ts";
import { isAirdropShaped } from "./nfts/airdrop.ts";
import type { FlagLists } from "./nfts/flags.ts";
import type { Entry } from "./nfts/listing.ts";
import { CollectionProjections } from "./nfts/projections.ts";
import type { TokenFacts } from "./nfts/record.ts";
import { sampleHoldings } from "./nfts/sample.ts";
import { createPrices, type Prices } from "./prices/service.ts";
import { Channel } from "./push/channel.ts";
import { DecodePool } from "./rpc/decode-pool.ts";
import type { LogWatch } from "./rpc/logs.ts";
import { EndpointPool } from "./rpc/pool.ts";
import { EndpointProvider } from "./rpc/provider.ts";
import { RpcChainReader } from "./rpc/reader.ts";

export interface ServiceOptions {
  readonly config: Config;
  readonly logger: Logger;
  readonly clock?: Clock;
  /** Called with a key that was made at first start: shown to the operator once, never kept. */
  readonly onKeyMade?: (key: string) => void;
  /** Least wait between polls of a chain in ms, for tests. */
  readonly minPollMs?: number;
  /** Opens the event log: tests watch appends through it. */
  readonly openLog?: typeof openLog;
  /** Wait between rounds of the self-audit in ms, for tests. */
  readonly auditMs?: number;
  /** Names and connections of metadata, for tests: to record what is attempted and lead it elsewhere. */
  readonly metadataWire?: Wire;
  /** The first wait before a finished collection's sample is asked again in ms, for tests. */
  readonly metadataSampleMs?: number;
}

export interface Service {
  /** `http://host:port`, as bound. */
  readonly url: string;
  readonly port: number;
  stop(): Promise<void>;
}

/** How long an answer waits for the hash of an old block before it goes without. */
const HASH_WAIT_MS = 500;
/** Holdings asked about in one round of the self-audit. */
const AUDITED_AT_ONCE = 20;

/** One enabled chain with its parts. */
interface ChainRuntime {
  readonly chain: Chain;
  readonly view: ChainProjection;
  readonly indexing: ChainIndexing;
  readonly prices: Prices;
  readonly metadata: ChainMetadata;
  factsOf(address: Address, entries: readonly Entry[], options: PageFactsOptions): Promise<readonly TokenFacts[]>;
  hashOf(block: number): Promise<Hash | undefined>;
  isHalted(): boolean;
}

/** Opens the log, starts the work, listens. @throws when the log cannot be opened or the port is taken */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { config, logger } = options;
  const clock = options.clock ?? systemClock;
  const lifecycle = new Lifecycle(logger);
  let serving: Serving | undefined;
  const server = startServer({ host: config.host, port: config.port, clock, serving: () => serving });
  try {
    serving = await assemble(options, { clock, lifecycle, publicUrl: () => urlOf(config, server.port) });
  } catch (error) {
    await lifecycle.stop();
    await server.stop();
    throw error;
  }
  logger.info({ host: config.host, port: server.port }, "listening");
  return { url: urlOf(config, server.port), port: server.port, stop: () => stopService(server, lifecycle, logger) };
}

/** The address clients see. */
function urlOf(config: Config, port: number): string {
  const host = config.host.includes(":") ? `[${config.host}]` : config.host;
  return config.publicUrl ?? `http://${host}:${port}`;
}

/** What a service is assembled on. */
interface Ground {
  readonly clock: Clock;
  readonly lifecycle: Lifecycle;
  readonly publicUrl: () => string;
}

/** In order: no new requests, the sockets told, the loops ended, then what they stand on closed. */
async function stopService(server: RunningServer, lifecycle: Lifecycle, logger: Logger): Promise<void> {
  logger.info({}, "stopping");
  await server.stop();
  await lifecycle.stop();
  logger.info({}, "stopped");
}

async function assemble(options: ServiceOptions, { clock, lifecycle, publicUrl }: Ground): Promise<Serving> {
  const { config, logger } = options;
  const metrics = new Metrics();
  const lists = await readLists(options, clock);
  const log = await (options.openLog ?? openLog)(config.eventLogUrl, clock, logger, ({ events }) => {
    for (const { type } of events) metrics.eventsAppended.inc({ type });
  });
  lifecycle.onStop("event log", () => log.close());
  const cursorSecret = await readCursorSecret(log, config);
  const keys = new KeyRing(await readKeyHashes(log, options));
  const projections = new CollectionProjections({ log, logger, maxBytes: config.cacheBytes });
  lifecycle.onStop("projections", () => projections.close());
  const metadata = new Metadata({
    log,
    clock,
    logger,
    projections,
    wire: options.metadataWire ?? systemWire,
    ipfsGateways: config.ipfsGateways,
    allowPrivate: config.metadataAllowPrivate,
    publicUrl,
    cacheBytes: config.cacheBytes * LIMITS.metadataCachePart,
    observer: metadataObserver(metrics),
    ...(options.metadataSampleMs === undefined ? {} : { sampleMs: options.metadataSampleMs }),
  });
  lifecycle.onStop("metadata", () => metadata.close());
  // One core is left to requests.
  const decoder = new DecodePool(Math.max(1, navigator.hardwareConcurrency - 1));
  lifecycle.onStop("decoder", () => decoder.close());

  const runtimes = new Map<number, ChainRuntime>();
  const holder = randomUUID();
  const shared = { options, clock, lifecycle, metrics, lists, log, projections, metadata, decoder, holder };
  for (const chainConfig of config.chains) {
    const runtime = createRuntime(chainConfig, shared);
    runtimes.set(runtime.chain.chainId, runtime);
  }
  const request = (chainId: number, address: Address) => requestIndexing(log, chainId, address);
  const channel = new Channel({
    log,
    projections,
    clock,
    logger,
    chainOf: (chainId) => runtimes.get(chainId)?.view,
    requestIndexing: (chainId, address) => request(chainId, address as Address),
    maxSubscriptions: LIMITS.maxSubscriptionsPerSocket,
  });
  lifecycle.onStop("channel", () => channel.stop());
  watchLog({ log, runtimes, channel, lifecycle, logger });
  observe(metrics, projections);
  watchMetadata({ log, metadata, runtimes, channel, metrics, lifecycle, logger });
  for (const { indexing, prices, metadata } of runtimes.values()) {
    await indexing.start(() => prices.load());
    metadata.start(lifecycle);
  }
  const listsChanged = () => {
    for (const { indexing } of runtimes.values()) indexing.listsChanged();
  };
  lifecycle.run("lists", (signal) => lists.watch(listsChanged, signal));

  const limiter = new RateLimiter(config.rateLimitPerMinute, clock);
  const app = createApp({
    keys,
    limiter,
    metrics,
    logger,
    projections,
    clock,
    cursorSecret,
    maxPageSize: config.maxPageSize,
    wireTypes: config.wireTypes,
    metricsKeys:
      config.metricsKey === undefined
        ? undefined
        : new KeyRing([new Bun.CryptoHasher("sha256").update(config.metricsKey).digest("hex")]),
    enabledChains: config.chains.map(({ chain }) => chain),
    nftChain: (chain) => runtimes.get(chain.chainId),
    preview: (hash, size) => metadata.preview(hash, size),
    pricesOf: (chain) => runtimes.get(chain.chainId)?.prices,
    isHalted: (chain) => runtimes.get(chain.chainId)?.isHalted() ?? false,
    requestIndexing: request,
    requestIdentification: (chainId, address, version) => {
      lifecycle.run("request identification", () => requestIdentification(log, chainId, address, version));
    },
  });
  return { app, channel, keys, limiter, metrics };
}

/** The operator's lists. @throws ConfigError with what is wrong with their files */
async function readLists({ config, logger, minPollMs }: ServiceOptions, clock: Clock): Promise<ListFiles> {
  const lists = new ListFiles({
    spam: { key: "SPAM_LIST", path: config.spamList },
    verified: { key: "VERIFIED_LIST", path: config.verifiedList },
    maxBytes: LIMITS.maxListBytes,
    pollMs: minPollMs ?? LIMITS.listPollMs,
    clock,
    logger,
  });
  const problems = await lists.load();
  if (problems.length > 0) throw new ConfigError(problems);
  return lists;
}

async function readCursorSecret(log: EventLog, config: Config): Promise<string> {
  if (config.cursorSecret !== undefined) return config.cursorSecret;
  const { value } = await log.setting("cursor-secret", () => randomBytes(32).toString("hex"));
  return value;
}

/** The configured keys' hashes, else that of the key made at first start. */
async function readKeyHashes(log: EventLog, { config, onKeyMade }: ServiceOptions): Promise<readonly string[]> {
  if (config.apiKeyHashes.length > 0) return config.apiKeyHashes;
  const key = randomBytes(24).toString("base64url");
  const hash = new Bun.CryptoHasher("sha256").update(key).digest("hex");
  const { value, created } = await log.setting("api-key-sha256", () => hash);
  if (created) onKeyMade?.(key);
  return [value];
}

interface Shared {
  readonly options: ServiceOptions;
  readonly clock: Clock;
  readonly lifecycle: Lifecycle;
  readonly metrics: Metrics;
  readonly lists: FlagLists;
  readonly log: EventLog;
  readonly projections: CollectionProjections;
  readonly metadata: Metadata;
  readonly decoder: DecodePool;
  readonly holder: string;
}

function createRuntime(chainConfig: ChainConfig, shared: Shared): ChainRuntime {
  const { chain, urls, finalityDepth, depthIsSet } = chainConfig;
  const { options, clock, lifecycle, metrics, log, projections, decoder, holder } = shared;
  const { logger, config } = options;
  const { chainId } = chain;
  const slug = chain.name.replaceAll(" ", "-");
  const endpoints = urls.map(
    (url, index) =>
      new EndpointProvider({
        url,
        label: `${slug}#${index + 1}`,
        chainId,
        timeoutMs: LIMITS.rpcTimeoutMs,
        maxBytes: LIMITS.maxRpcAnswer,
        clock,
        onRequest: ({ endpoint, method, outcome, seconds, bytes }) => {
          metrics.rpcRequests.inc({ endpoint, method, outcome });
          metrics.rpcBytes.inc({ endpoint }, bytes);
          metrics.rpcSeconds.observe({ endpoint }, seconds);
        },
        onHead: () => indexing.headSeen(),
      }),
  );
  const pool = new EndpointPool({
    chain: chain.name,
    endpoints,
    clock,
    onHedge: () => metrics.rpcHedges.inc({ chain: chain.name }),
    onLiar: (endpoint) => {
      metrics.rpcLies.inc({ endpoint });
      logger.warn({ endpoint }, "an endpoint gave a wrong answer and rests");
    },
  });
  lifecycle.onStop(`endpoints of ${chain.name}`, () => pool.close());
  const multicall = chain.multicall3.address;
  const reader = new RpcChainReader({
    chainId,
    pool,
    multicall,
    finalityDepth,
    depthIsSet,
    watch: watchOf(metrics, chain),
  });
  const indexing = new ChainIndexing({
    chain,
    log,
    reader,
    decoder,
    clock,
    logger,
    lifecycle,
    observer: observerOf(metrics, chain),
    holder,
    verify: config.verify,
    lists: () => shared.lists,
    shapeOf: async (address) => {
      const { ledger } = await projections.newest(chainId, address);
      return { airdrop: isAirdropShaped(ledger), transfers: ledger.owners.count + ledger.balances.count };
    },
    settle: async () => {
      await Promise.all([projections.settle(chainId), prices.settle()]);
    },
    ...(options.minPollMs === undefined ? {} : { minPollMs: options.minPollMs }),
  });
  lifecycle.onStop(`indexing of ${chain.name}`, () => indexing.stop());
  const { view } = indexing;
  const prices = createPrices({ chain, reader, log, view, clock, onTokenKnown: () => indexing.follow() });
  lifecycle.onStop(`prices of ${chain.name}`, () => prices.close());
  indexing.addConsumer(prices.consumer);
  const metadata = shared.metadata.chain({ chain, reader, view, holder, followed: () => indexing.followed() });
  indexing.addConsumer(metadata.consumer);
  startAudit({ chain, reader, view }, shared);
  const hashes = new LRUCache<number, Hash>({ max: 10_000 });
  const hashOf = async (block: number): Promise<Hash | undefined> => {
    const known = hashes.get(block);
    if (known !== undefined) return known;
    const wait = clock.sleep(HASH_WAIT_MS).then(() => undefined);
    const header = await Promise.race([reader.header(block).catch(() => undefined), wait]);
    if (header !== undefined && block <= (view.finalized()?.number ?? -1)) hashes.set(block, header.hash);
    return header?.hash;
  };
  const { factsOf } = metadata;
  return {
    chain,
    view,
    indexing,
    prices,
    metadata,
    factsOf,
    hashOf,
    isHalted: () => view.halted() !== undefined,
  };
}

interface Watch {
  readonly log: EventLog;
  readonly runtimes: ReadonlyMap<number, ChainRuntime>;
  readonly channel: Channel;
  readonly lifecycle: Lifecycle;
  readonly logger: Logger;
}

/** Routes the log's wake-ups to the chains they concern, and a chain's reverts to the subscribers. */
function watchLog({ log, runtimes, channel, lifecycle, logger }: Watch): void {
  for (const { view, chain } of runtimes.values()) {
    const stop = view.onChange((change) => {
      if (change.type === "reverted") channel.chainReverted(chain.chainId, change.ancestor);
    });
    lifecycle.onStop(`view of ${chain.name}`, stop);
  }
  const unsubscribe = log.subscribe((stream, version) => {
    const [, chainId] = stream.split("/");
    if (lifecycle.stopping) return;
    runtimes
      .get(Number(chainId))
      ?.indexing.onWakeUp(stream, version)
      .catch((error: unknown) => logger.warn({ err: error, stream }, "a wake-up of the log was not acted on"));
  });
  lifecycle.onStop("log watch", unsubscribe);
}

interface AuditParts {
  readonly chain: Chain;
  readonly reader: RpcChainReader;
  readonly view: ChainProjection;
}

/** Asks the chain about what is served, for as long as the service runs. */
function startAudit(
  { chain, reader, view }: AuditParts,
  { options, clock, lifecycle, metrics, projections }: Shared,
): void {
  const { logger, auditMs } = options;
  const { chainId, name } = chain;
  metrics.auditDrift.inc({ chain: name }, 0);
  const random = () => clock.random();
  const sample = (): AuditSample | undefined => {
    const streams = projections.hotOf(chainId);
    const stream = streams[Math.floor(random() * streams.length)];
    const collection = stream === undefined ? undefined : projections.peek(stream);
    const head = view.head();
    const isShown = collection?.status === "synced" && collection.chainVersion <= view.version;
    if (stream === undefined || collection === undefined || head === undefined || !isShown) return undefined;
    const parsed = parseStream(stream);
    if (parsed.kind !== "nft") return undefined;
    const holdings = sampleHoldings(collection, head.number, { count: AUDITED_AT_ONCE, random });
    return { address: parsed.address, block: { number: head.number, hash: head.hash }, holdings };
  };
  const onChecked = ({ checked, drifted }: { checked: number; drifted: number }): void => {
    metrics.auditedHoldings.inc({ chain: name }, checked);
    metrics.auditDrift.inc({ chain: name }, drifted);
  };
  const every = auditMs === undefined ? {} : { roundMs: auditMs };
  const audit = { chain: name, reader, clock, logger, sample, onChecked, ...every };
  lifecycle.run(`audit ${name}`, (signal) => runAudit(audit, signal));
}

function watchOf(metrics: Metrics, chain: Chain): LogWatch {
  const labels = { chain: chain.name };
  return {
    missed: (count) => metrics.missedLogs.inc(labels, count),
    settled: (by) => metrics.blocksSettled.inc({ ...labels, by }),
  };
}

/** Routes wake-ups to the chains' metadata workers, and what they get done to the subscribers. */
function watchMetadata({ log, metadata, runtimes, channel, metrics, lifecycle, logger }: MetadataWatch): void {
  const unsubscribe = log.subscribe((stream) => {
    const [kind, id, address] = stream.split("/");
    const chainId = Number(id);
    if (lifecycle.stopping || (kind !== "nft" && kind !== "metadata")) return;
    runtimes.get(chainId)?.metadata.onWakeUp(stream);
    if (kind !== "metadata" || !channel.isHeard(chainId, address as Address)) return;
    // Read where somebody listens; what was read comes through the subscription below.
    metadata.books.current(chainId, address as Address).catch((error: unknown) => {
      logger.debug({ err: error, stream }, "a metadata stream could not be read");
    });
  });
  lifecycle.onStop("metadata watch", unsubscribe);
  metadata.books.subscribe((stream, { resolved, failed }) => {
    const [, id, address] = stream.split("/");
    channel.metadataMoved(Number(id), address as Address, { resolved, failed });
  });
  const before = metrics.onScrape;
  metrics.onScrape = () => {
    before();
    metrics.metadataCacheBytes.set(metadata.books.bytes);
    for (const { chain, metadata: own } of runtimes.values()) {
      metrics.metadataInFlight.set({ chain: chain.name }, own.inFlight());
    }
  };
}

interface MetadataWatch extends Watch {
  readonly metadata: Metadata;
  readonly metrics: Metrics;
}

function metadataObserver(metrics: Metrics): MetadataObserver {
  const nameOf = (chainId: number) => chainById(chainId)?.name ?? String(chainId);
  return {
    outcome: (chainId, outcome) => metrics.metadataOutcomes.inc({ chain: nameOf(chainId), outcome }),
    media: (chainId, status) => metrics.mediaOutcomes.inc({ chain: nameOf(chainId), status }),
  };
}

function observerOf(metrics: Metrics, chain: Chain): IndexingObserver {
  const labels = { chain: chain.name };
  return {
    malformed: (_chainId, count) => metrics.malformedLogs.inc(labels, count),
    progress: () => undefined,
    completed: () => metrics.collectionsIndexed.inc(labels),
    failed: () => metrics.indexingFailures.inc(labels),
    head: (_chainId, head, behind) => {
      metrics.followedHead.set(labels, head);
      metrics.blocksBehind.set(labels, Math.max(0, behind));
    },
    reorg: () => metrics.reorgs.inc(labels),
    halted: (_chainId, isHalted) => metrics.halted.set(labels, isHalted ? 1 : 0),
  };
}

function observe(metrics: Metrics, projections: CollectionProjections): void {
  metrics.onScrape = () => {
    const { bytes, collections } = projections.stats();
    metrics.cacheBytes.set(bytes);
    metrics.cacheCollections.set(collections);
    metrics.anomalies.set(projections.anomalies());
  };
}
