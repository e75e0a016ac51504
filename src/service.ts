/**
 * Composition root: the one file that knows how the rooms connect (see `README.md` for the picture). `chain-runtime.ts`
 * wires what belongs to one chain. A chain's follower and jobs run in the process that holds their leases. Every
 * process folds the log and answers: over a socket, or to a command that has composed the service in its own process.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { join } from "node:path";
import packageFacts from "../package.json" with { type: "json" };
import { createApp } from "./api/app.ts";
import { RunningExports } from "./api/routes/export.ts";
import { type RunningServer, type Serving, startServer, unready } from "./api/server.ts";
import { pathOf, targetOf } from "./api/wire/target.ts";
import { Leases } from "./chain/lease.ts";
import {
  type ChainRuntime,
  createRuntime,
  placedChains,
  probeLines,
  type RuntimeOptions,
  type SharedParts,
} from "./chain-runtime.ts";
import { type Chain, explorersOf } from "./chains/chains.ts";
import { isReference } from "./chains/tokens.ts";
import { type ChainConfig, type Config, keyLimits, LIMITS } from "./config.ts";
import { type Clock, systemClock, withTimeout } from "./core/clock.ts";
import { commitOf } from "./core/commit.ts";
import { AppError, messageOf } from "./core/errors.ts";
import { tryFolder } from "./core/files.ts";
import { Generations } from "./core/generations.ts";
import type { Address } from "./core/hex.ts";
import type { Lifecycle } from "./core/lifecycle.ts";
import type { Logger } from "./core/logger.ts";
import { createMetrics } from "./core/metrics.ts";
import { isLowFileLimit, OpenFiles, socketsWithin, WAY_TO_MORE_FILES } from "./core/open-files.ts";
import { type Requester, SingleFlight } from "./core/work.ts";
import { type BlockRange, type CallCounts, nftStream, parseStream, type StreamName } from "./events/types.ts";
import type { EventLog } from "./log/event-log.ts";
import { Freshness } from "./log/freshness.ts";
import { assertWhole, openLog } from "./log/open.ts";
import { watchSoleProcess } from "./log/sole-process.ts";
import { LOG_SCHEMA } from "./log/sqlite-schema.ts";
import { HotCollections } from "./nft/collections/hot-collections.ts";
import { beginAnew } from "./nft/collections/requests.ts";
import { Snapshots } from "./nft/collections/snapshots.ts";
import { WalletIndex } from "./nft/collections/wallet-index.ts";
import { Explorer } from "./nft/explore/readings.ts";
import { Demand } from "./nft/indexing/demand.ts";
import { judge, ruleOfWords } from "./nft/indexing/word-rules.ts";
import { countEntries } from "./nft/ledger/listing.ts";
import { Metadata } from "./nft/metadata/metadata.ts";
import { requestRefresh, resyncs } from "./nft/metadata/refresh-request.ts";
import { type Wire, wireWith } from "./nft/metadata/resolve/wire.ts";
import {
  blobObserver,
  EndpointLog,
  leaseObserver,
  measureLog,
  measureOperations,
  metadataObserver,
  observe,
} from "./observers.ts";
import { readOperatorFiles } from "./operator-files.ts";
import { Bills } from "./operators/bills.ts";
import { Catalogue } from "./operators/catalogue.ts";
import { ApiKeys, FIRST_KEY_SETTING, hashOfKey, newKeyText, WAY_TO_OPERATE } from "./operators/keys.ts";
import type { ListedCollection } from "./operators/models.ts";
import { Questions } from "./operators/questions.ts";
import { ServiceStatus } from "./operators/status.ts";
import { TokenFinder } from "./prices/known-tokens.ts";
import { PricedTokens } from "./prices/priced-tokens.ts";
import { KeptProofs } from "./proof/kept-proofs.ts";
import { RunThread } from "./proof/run-thread.ts";
import { Channel } from "./push/channel.ts";
import { DecodePool } from "./rpc/decode/decode-pool.ts";

const { version: VERSION } = packageFacts;
const COMMIT = commitOf(join(import.meta.dir, ".."));

interface ServiceOptions {
  readonly config: Config;
  readonly logger: Logger;
  readonly clock?: Clock;
  /**
   * The chains of a reader: a service that answers from the log and does no work. It follows nothing, takes no lease and
   * asks no node. What requests change it appends, and another process acts on it. Undefined for a whole service.
   */
  readonly readsChains?: readonly Chain[] | undefined;
  /** SHA-256 of a key of scope `operate` that is valid in this process only, in hex. */
  readonly ownKeyHash?: string;
  /** Called with the key made at first start, which is shown to the operator once and never stored. */
  readonly onKeyMade?: (key: string) => void;
  /** Least wait between polls of a chain in ms, for tests. */
  readonly minPollMs?: number;
  /** Opens the event log. Tests observe appends through it. */
  readonly openLog?: typeof openLog;
  /** Wait between rounds of the self-audit in ms, for tests. */
  readonly auditMs?: number;
  /** DNS and connections for metadata. Tests record attempts and redirect them. */
  readonly metadataWire?: Wire;
  /** Longest time in which a stopping service takes new requests, in ms. Default: it takes none. */
  readonly drainMs?: number;
  /** First wait before a sample of a complete collection is fetched again, in ms, for tests. */
  readonly metadataSampleMs?: number;
}

export interface Service {
  /** `http://host:port`, as bound. */
  readonly url: string;
  readonly port: number;
  /** Asks all endpoints for their newest block. Resolves with a sentence for each, and one for a fault that several share. */
  probe(): Promise<readonly string[]>;
  /** Collections whose history is being read. */
  indexing(): Promise<readonly ListedCollection[]>;
  stop(): Promise<void>;
}

/** Opens the log, starts the work, listens. @throws if the log can't be opened or the port is taken */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { config, logger } = options;
  const clock = options.clock ?? systemClock;
  let isStopping = false;
  const files = new OpenFiles();
  const generations = generationsOf(options, {
    files,
    publicUrl: () => urlOf(config, server.port),
    onKeysDropped: (keys) => server.dropKeys(keys),
    onDropped: () => server.disconnect(),
    isStopping: () => isStopping,
  });
  const { host, port } = config;
  const room = { maxSockets: socketsWithin(files.limit), isCrowded: () => files.isScarceAfterAnswer() };
  const server = listen({ ...room, host, port, prefix: prefixOf(config), clock, serving: () => generations.current });
  try {
    await generations.start();
  } catch (error) {
    await server.stop();
    throw error;
  }
  logger.info({ host: config.host, port: server.port }, "listening");
  if (isLowFileLimit(files.limit)) {
    const sockets = socketsWithin(files.limit);
    logger.warn({ limit: files.limit, sockets }, `few clients can connect at a time; ${WAY_TO_MORE_FILES}`);
  }
  return {
    url: urlOf(config, server.port),
    port: server.port,
    probe: async () => generations.current?.probe() ?? [],
    indexing: async () => generations.current?.indexing() ?? [],
    stop: () => {
      isStopping = true;
      return stopService(server, generations, { clock, logger, drainMs: options.drainMs ?? 0 });
    },
  };
}

/** A service that nothing but this process can ask. */
export interface OwnService {
  /** A key of scope `operate`, which no list shows. */
  readonly key: string;
  /** Answers a request as over HTTP. It may take any time: the signal of `init` is not used. */
  fetch(url: string, init: RequestInit): Promise<Response>;
  stop(): Promise<void>;
}

/**
 * Opens a service without a socket: one that does all the work, or a reader of the log.
 * @throws if the log can't be opened
 */
export async function openOwnService(options: Omit<ServiceOptions, "ownKeyHash">): Promise<OwnService> {
  const { readsChains } = options;
  const config = readsChains === undefined ? options.config : readersConfig(options.config, readsChains);
  const key = newKeyText();
  const generations = generationsOf(
    { ...options, config, ownKeyHash: hashOfKey(key) },
    {
      files: undefined,
      publicUrl: () => urlOf(config, config.port),
      onKeysDropped: () => undefined,
      onDropped: () => undefined,
      isStopping: () => false,
    },
  );
  await generations.start();
  return {
    key,
    fetch: async (url, { signal: _, ...init }) => {
      const target = targetOf(url);
      const path = pathOf(target);
      return generations.current?.app.handle(new Request(url, init), target, path) ?? unready(path, true);
    },
    stop: () => generations.stop(),
  };
}

/**
 * The configuration of a reader. Without endpoints it can't ask a node, and it reads no file beside the log but the price
 * list, which keys' costs need. Its cursors end with it, so the log need not keep their secret.
 */
const readersConfig = (config: Config, chains: readonly Chain[]): Config => ({
  ...config,
  chains: chains.map((chain) => ({ ...NO_ENDPOINTS, chain, finalityDepth: chain.finalityDepth })),
  cursorSecret: newKeyText(),
  ...{ snapshotDir: undefined, spamList: undefined, verifiedList: undefined, nameList: undefined, tokenLists: [] },
  // It fetches nothing.
  metadataAllowPrivate: false,
});

const NO_ENDPOINTS: Omit<ChainConfig, "chain" | "finalityDepth"> = {
  ...{ urls: [], depthIsSet: true, isGiven: false, followEveryMs: 0 },
  archives: { urls: [], isGiven: false, key: undefined, per10s: 1 },
};

/** What the parts and their surroundings tell each other. */
interface Surroundings extends Pick<Ground, "files" | "publicUrl" | "onKeysDropped" | "isStopping"> {
  /** Called when the log went back. */
  readonly onDropped: () => void;
}

/** The parts of a service, made anew whenever the log went back. */
function generationsOf(options: ServiceOptions, { onDropped, ...around }: Surroundings): Generations<Parts> {
  const { logger, clock = systemClock } = options;
  const process = { instance: randomUUID(), startedAt: clock.now() };
  let losses = 0;
  return new Generations<Parts>({
    clock,
    logger,
    make: (lifecycle, onWentBack) => assemble(options, { ...around, ...process, clock, lifecycle, onWentBack, losses }),
    onDropped: () => {
      losses++;
      onDropped();
    },
  });
}

/** @throws AppError that names the variable */
function listen(options: Parameters<typeof startServer>[0]): RunningServer {
  try {
    return startServer(options);
  } catch (error) {
    const { host, port } = options;
    const isTaken = (error as { code?: unknown }).code === "EADDRINUSE";
    const text = isTaken
      ? `PORT: ${port} on ${host} is in use, or HOST is not an address of this machine`
      : `HOST: can't listen on ${host}, port ${port}: ${messageOf(error)}`;
    throw new AppError(text, { code: "configuration", cause: error });
  }
}

/** The base URL that clients see. */
function urlOf(config: Config, port: number): string {
  // Every address of this machine: a client can't connect to 0.0.0.0.
  const name = ANY_HOST.test(config.host) ? "localhost" : config.host;
  return config.publicUrl ?? `http://${name.includes(":") ? `[${name}]` : name}:${port}`;
}

const ANY_HOST = /^(?:0\.0\.0\.0|::|0:0:0:0:0:0:0:0)$/;

/** The path of PUBLIC_URL, such as `/evm`; "" without one. */
const prefixOf = ({ publicUrl }: Config): string =>
  publicUrl === undefined ? "" : new URL(publicUrl).pathname.replace(/\/+$/, "");

/** Shared parts that the assembly starts from. */
interface Ground {
  readonly clock: Clock;
  readonly lifecycle: Lifecycle;
  readonly publicUrl: () => string;
  readonly isStopping: () => boolean;
  /** Undefined without a socket, whose clients need files. */
  readonly files: OpenFiles | undefined;
  readonly onWentBack: () => void;
  /** How often this process has found that the log went back. */
  readonly losses: number;
  /** Id of the process, and its start in ms since the epoch. */
  readonly instance: string;
  readonly startedAt: number;
  /** Called when a key has become invalid. */
  readonly onKeysDropped: (keys: ApiKeys) => void;
}

/** Time the server may take to close sockets, in addition to the time for requests in flight. */
const CUTTING_MS = 1_000;

/**
 * Stops in order: lets proxies and clients go elsewhere, refuses new requests, notifies sockets, ends loops, then closes what the loops used. Each step has a
 * time limit, so that a node or a log that doesn't answer can't keep the process alive.
 */
async function stopService(
  server: RunningServer,
  generations: Generations<Parts>,
  { clock, logger, drainMs }: { readonly clock: Clock; readonly logger: Logger; readonly drainMs: number },
): Promise<void> {
  logger.info({}, "stopping");
  if ((await withTimeout(clock, LIMITS.stopGraceMs + CUTTING_MS, server.stop(drainMs))) === undefined) {
    logger.warn({}, "the listening socket did not close in time");
  }
  await generations.stop();
  logger.info({}, "stopped");
}

type Runtimes = ReadonlyMap<number, ChainRuntime>;

/** All parts, as the steps of the assembly take them. */
interface Assembly extends SharedParts, Ground {
  readonly runtimes: Runtimes;
  readonly keys: ApiKeys;
  readonly bills: Bills;
  readonly questions: Questions;
  readonly channel: Channel;
}

/** @param runtimes the chains, which are opened later */
async function openParts(
  options: ServiceOptions,
  { clock, lifecycle, publicUrl, onWentBack, losses }: Ground,
  runtimes: Runtimes,
): Promise<SharedParts> {
  const { config, logger } = options;
  const { snapshotDir: folder, snapshotBytes, cacheBytes } = config;
  const metrics = createMetrics();
  metrics.logWentBack.inc(losses);
  const files = await readOperatorFiles({ ...options, clock });
  const log = await (options.openLog ?? openLog)(config.eventLogUrl, clock, logger, {
    connections: config.pgPool,
    onWentBack,
    blobs: config.blobs,
    // A reader writes only what its command changes.
    bindsStore: options.readsChains === undefined,
    onBlob: blobObserver(metrics),
  });
  lifecycle.onStopLast("event log", () => log.close());
  await assertWhole(log);
  log.subscribe((_stream, _version, appended = []) => {
    for (const { event } of appended) metrics.eventsAppended.inc({ type: event.type });
  });
  if (folder !== undefined) warnOfFolder(folder, logger);
  const snapshots = folder === undefined ? undefined : new Snapshots({ folder, maxBytes: snapshotBytes, log, logger });
  const onDoubt = (stream: StreamName, blocks: BlockRange) => {
    const parsed = parseStream(stream);
    if (parsed.kind === "nft") runtimes.get(parsed.chainId)?.indexing.doubt(parsed.address, blocks);
  };
  const clockOf = (chainId: number) => runtimes.get(chainId)?.view;
  const projections = new HotCollections({
    ...{ log, logger, maxBytes: cacheBytes, snapshots, onDoubt, clockOf },
    onRead: (isHit) => metrics.cacheReads.inc({ outcome: isHit ? "hit" : "miss" }),
  });
  lifecycle.onStop("projections", () => projections.close());
  const metadata = new Metadata({
    log,
    clock,
    logger,
    projections,
    wire: options.metadataWire ?? wireWith(config.proxies),
    gateways: { ipfs: config.ipfsGateways, arweave: config.arweaveGateways },
    asksGiven: config.metadataGivenHosts,
    allowPrivate: config.metadataAllowPrivate,
    publicUrl,
    cacheBytes: cacheBytes * LIMITS.metadataCachePart,
    maxStoredBytes: config.metadataBytes,
    observer: metadataObserver(metrics, config.knownChains),
    ...(options.metadataSampleMs === undefined ? {} : { sampleMs: options.metadataSampleMs }),
  });
  lifecycle.onStop("metadata", () => metadata.close());
  // Leaves one core to requests.
  const decoder = new DecodePool(navigator.hardwareConcurrency);
  lifecycle.onStop("decoder", () => decoder.close());
  const runThread = new RunThread(clock);
  lifecycle.onStop("proofs", () => runThread.close());
  const { proxies, knownChains } = config;
  const parts = { clock, logger, lifecycle, metrics, log, projections, metadata, decoder, runThread };
  return { ...files, ...parts, proxies, knownChains };
}

/** Snapshots are a cache, so a service without them runs, but replays large collections after each start. */
function warnOfFolder(folder: string, logger: Logger): void {
  try {
    tryFolder(folder);
  } catch (error) {
    logger.warn({ err: error }, "SNAPSHOT_DIR: the folder can't be written, so large collections have no snapshots");
  }
}

async function assemble(options: ServiceOptions, ground: Ground): Promise<Parts> {
  const { config } = options;
  const { clock } = ground;
  const runtimes = new Map<number, ChainRuntime>();
  const shared = await openParts(options, ground, runtimes);
  const { metrics, log, logger, projections } = shared;
  const cursorSecret = await readCursorSecret(log, config);
  const keys = await openKeys(options, { ...shared, ...ground });
  const enabled = await placedChains(config.chains, shared, ground.onWentBack);
  const bills = await openBills(shared, ground, runtimes);
  const accountOf = ({ key }: Pick<Requester, "key">) => bills.account(key);
  const questions = new Questions({ keys, accountOf });
  // The chains' callbacks come only once they have started.
  const runtimeOptions = openRuntimeOptions(
    options,
    { ...shared, ...ground, chains: enabled.map(({ chain }) => chain), accountOf, runtimes, sharedWork: questions },
    () => channel,
  );
  for (const one of enabled) runtimes.set(one.chain.chainId, createRuntime(one, runtimeOptions));
  const demand = new Demand({
    ...shared,
    candidatesOf: (chainId) => runtimes.get(chainId)?.indexing.candidates,
    takeNew: (requester) => keys.takeCollection(requester),
    staleMs: LIMITS.reidentifyMs,
  });
  const channel = openChannel({ ...shared, runtimes, questions }, demand);
  const parts: Assembly = { ...ground, ...shared, runtimes, keys, bills, questions, channel };
  observe(metrics, projections);
  const isReader = options.readsChains !== undefined;
  if (isReader) for (const { view } of runtimes.values()) await view.load();
  else await startWork(parts);

  const freshness = watchFreshness(parts);
  const operators = openOperators(parts, freshness, config.cacheBytes * LIMITS.metadataCachePart);
  const areKeysNamed = config.metricsKey !== undefined;
  measureOperations(metrics, { ...operators, keys, bills, status: () => log.status(), areKeysNamed });
  metrics.buildInfo.set({ version: VERSION }, 1);
  const app = createApp({
    ...{ clock, logger, metrics, projections, keys, bills, demand, cursorSecret, questions },
    ...operators,
    ...settingsOf(config, enabled),
    ...answersOf(parts, isReader),
    ...{ exports: new RunningExports(clock), keptProofs: new KeptProofs(log) },
    isLogAnswering: () => log.isAnswering,
    isStale: () => freshness.isStale,
    isBehind: () => freshness.isBehind,
    behindMs: () => freshness.behindMs,
    ...{ version: VERSION, commit: COMMIT, logSchema: LOG_SCHEMA },
    isStopping: ground.isStopping,
    url: ground.publicUrl,
  });
  return {
    ...{ app, channel, keys, questions, metrics },
    probe: () => probeLines([...runtimes.values()]),
    indexing: async () => {
      const page = { after: undefined, limit: LIMITS.maxProgressRows };
      return (await operators.catalogue.page({ status: "indexing" }, page)).entries;
    },
  };
}

/** The parts that the chains share. @param channelOf returns the channel, which needs the chains itself */
function openRuntimeOptions(
  { config, minPollMs, auditMs }: ServiceOptions,
  {
    chains,
    ...parts
  }: Pick<Assembly, keyof SharedParts | "instance" | "runtimes"> &
    Pick<RuntimeOptions, "accountOf" | "sharedWork"> & { readonly chains: readonly Chain[] },
  channelOf: () => Channel,
): RuntimeOptions {
  const { log, clock, logger, lifecycle, metrics, instance, runtimes } = parts;
  const observer = leaseObserver(metrics, chains, parts.knownChains);
  const endpointLog = new EndpointLog(clock, logger);
  lifecycle.onStop("endpoint log", () => endpointLog.flush());
  return {
    ...parts,
    endpointLog,
    leases: new Leases({ log, clock, holder: instance, observer }),
    hasSubscribers: (chainId) =>
      channelOf().collections.hasChainSubscribers(chainId) || runtimes.get(chainId)?.prices.isAsked() === true,
    onVerdict: (...verdict) => channelOf().collections.onVerdict(...verdict),
    onDelayed: (...delay) => channelOf().collections.onDelayed(...delay),
    verify: config.verify,
    pools: config.pools,
    priceHistoryDays: config.priceHistoryDays,
    minPollMs,
    auditMs,
  };
}

async function openBills(
  { log, clock, logger, priceList: prices, lifecycle }: SharedParts,
  { instance }: Ground,
  runtimes: Runtimes,
): Promise<Bills> {
  const bills = new Bills({ log, clock, logger, prices, instance, endpoints: () => endpointUsage(runtimes) });
  await bills.begin();
  lifecycle.onStop("bills", () => bills.close());
  lifecycle.run("bills", (signal) => bills.run(signal));
  return bills;
}

function openChannel(
  {
    knownChains,
    log,
    projections,
    clock,
    logger,
    lifecycle,
    runtimes,
    questions,
  }: Pick<Assembly, keyof SharedParts | "runtimes" | "questions">,
  demand: Demand,
) {
  const channel = new Channel({
    chains: knownChains,
    log,
    projections,
    clock,
    logger,
    chainOf: (chainId) => runtimes.get(chainId)?.view,
    pricesOf: (chainId) => runtimes.get(chainId)?.prices,
    demand,
    shared: questions,
    onSubscribed: (chainId) => runtimes.get(chainId)?.indexing.clientAsked(),
    maxSubscriptions: LIMITS.maxSubscriptionsPerSocket,
    socketLimits: {
      messagesPerSecond: LIMITS.maxSocketMessagesPerSecond,
      messageBytes: LIMITS.maxSocketMessage,
      unreadBytes: LIMITS.maxSocketBuffer,
    },
  });
  lifecycle.onStop("channel", () => channel.stop());
  return channel;
}

/** What the routes take from the configuration. */
const settingsOf = (config: Config, enabled: readonly ChainConfig[]) => ({
  chains: config.knownChains,
  keyLimits: keyLimits(config),
  maxPageSize: config.maxPageSize,
  wireTypes: config.wireTypes,
  logRequests: config.logRequests,
  hasConsole: config.hasConsole,
  explorers: config.hasExplorerLinks ? explorersOf(enabled.map(({ chain }) => chain)) : {},
  publicUrl: config.publicUrl,
  prefix: prefixOf(config),
  metricsKeyHash: config.metricsKey === undefined ? undefined : Buffer.from(hashOfKey(config.metricsKey), "hex"),
});

/** Longest wait of a refresh for the contract's name, in ms. */
const READ_AGAIN_MS = 3_000;

/** What the routes may ask of chains and collections. */
function answersOf({ log, clock, lists, tokenLists, metadata, lifecycle, runtimes }: Assembly, isReader: boolean) {
  const chains = [...runtimes.values()].map(({ chain }) => chain);
  const finder = new TokenFinder({ chains, lists: tokenLists });
  const priced = new PricedTokens({ log, chains });
  lifecycle.onStop("priced tokens", () => priced.close());
  /** What acts on a change in this process. On the changes of a reader, another process acts. */
  const indexingOf = (chainId: number) => (isReader ? undefined : runtimes.get(chainId)?.indexing);
  tokenLists.onChange(() => finder.index());
  if (!isReader) {
    lifecycle.run("token index", async () => {
      await finder.index();
    });
  }
  const beginning = new SingleFlight<string, Awaited<ReturnType<typeof beginAnew>>>();
  return {
    tokenIndex: () => finder.index(),
    pricedTokens: (text: string, limit: number) => priced.find(text, limit),
    estimate: (chainId: number, address: Address) => runtimes.get(chainId)?.estimate(address),
    nftChain: ({ chainId }: Chain) => runtimes.get(chainId),
    preview: (...asked: Parameters<Metadata["preview"]>) => metadata.preview(...asked),
    pricesOf: ({ chainId }: Chain) => runtimes.get(chainId)?.prices,
    troubleOf: ({ chainId }: Chain) => runtimes.get(chainId)?.trouble(),
    namesOf: (chainId: number, address: Address) => lists.namesOf(chainId, address),
    tokenFlags: (chain: Chain, address: Address, words: { readonly name: string; readonly symbol: string }) => {
      const { chainId } = chain;
      const { possibleSpam } = judge({ chainId, address, wordRule: ruleOfWords(words), shapeRule: "" }, lists);
      const isListed = isReference(chain, address) || tokenLists.find(chainId, address) !== undefined;
      const verifiedContract = lists.isVerified(chainId, address) || (isListed && !lists.isSpam(chainId, address));
      return { possibleSpam: possibleSpam && !verifiedContract, verifiedContract };
    },
    // Requests that come while one of the same kind is recorded share its event.
    beginAnew: (chainId: number, address: Address, type: "ReindexRequested" | "CollectionRemoved") =>
      beginning.run(`${type} ${chainId} ${address}`, async () => {
        const before = await beginAnew({ log, clock }, { chainId, address }, type);
        await indexingOf(chainId)?.changed(nftStream(chainId, address));
        return before;
      }),
    logoOf: (chainId: number, address: Address) => tokenLists.find(chainId, address)?.logo ?? "",
    resyncToken: resyncs({ log, clock, headOf: (chainId) => runtimes.get(chainId)?.view.head()?.number ?? 0 }),
    refreshMetadata: async (chainId: number, address: Address, ids: readonly bigint[] | undefined) => {
      const reading = indexingOf(chainId)?.tryReadAgain(address);
      // A slow node delays the answer by no more than this, and the read goes on.
      if (reading !== undefined) await withTimeout(clock, READ_AGAIN_MS, reading);
      const block = runtimes.get(chainId)?.view.head()?.number ?? 0;
      return requestRefresh(log, { chainId, address }, { ids, block });
    },
  };
}

/** Starts what a reader does not do: the work of all chains, and the watches of files and of other processes. */
async function startWork(parts: Assembly): Promise<void> {
  const { lists, tokenLists, files, clock, logger, log, metrics, lifecycle, runtimes } = parts;
  metrics.measureProcess();
  watchLog(parts);
  watchMetadata(parts);
  for (const runtime of runtimes.values()) await runtime.start();
  const listsChanged = () => {
    for (const { indexing } of runtimes.values()) indexing.listsChanged();
  };
  lifecycle.run("lists", (signal) => lists.watch(listsChanged, signal));
  lifecycle.run("token lists", (signal) => tokenLists.watch(signal));
  if (files !== undefined) lifecycle.run("open files", (signal) => files.watch(clock, logger, signal));
  const sole = { log, clock, logger, holder: parts.instance };
  if (log.engine === "sqlite") lifecycle.run("sole process", (signal) => watchSoleProcess(sole, signal));
}

/** The parts of a service that are made anew when the log went back. */
interface Parts extends Serving {
  probe(): Promise<readonly string[]>;
  indexing(): Promise<readonly ListedCollection[]>;
}

/** What this process used its endpoints for since its start, by label. */
function endpointUsage(runtimes: Runtimes): ReadonlyMap<string, CallCounts> {
  const all = [...runtimes.values()].flatMap((runtime) => runtime.endpoints());
  return new Map(all.flatMap(({ label, usage }) => (usage === undefined ? [] : [[label, usage.counts()]])));
}

/** Assembles what the routes of operators show. @param partBytes memory for indexes of traits, and as much for those of wallets */
function openOperators(parts: Assembly, freshness: Freshness, partBytes: number) {
  const { knownChains, clock, log, projections, metadata, lifecycle, runtimes, metrics } = parts;
  const nftsInMemory = (stream: StreamName) => {
    const collection = projections.peek(stream);
    return collection && countEntries(collection.ledger, Number.MAX_SAFE_INTEGER, false);
  };
  const catalogue = new Catalogue({
    ...{ chains: knownChains, log, nftsInMemory },
    headersChangedAt: (chainId) => runtimes.get(chainId)?.headerForm().changedAt,
  });
  lifecycle.onStop("catalogue", () => catalogue.close());
  const chains = [...runtimes.values()].map(({ chain, isGiven, view, indexing, ...runtime }) => {
    const { isHalted, endpoints, archives, historyFrom, headerForm } = runtime;
    const mayRest = !isGiven && !knownChains.isInContract(chain);
    return {
      chain,
      isAsleep: () => mayRest && view.head() === undefined && endpoints().every(({ state }) => state === "unused"),
      isHalted,
      endpoints,
      archives,
      historyFrom,
      headerForm,
      isIdle: () => indexing.isIdle,
      head: () => view.head(),
      finalized: () => view.finalized(),
    };
  });
  const explorer = new Explorer(clock, partBytes);
  const walletIndex = new WalletIndex({ log, projections, maxBytes: partBytes });
  lifecycle.onStop("wallet index", () => walletIndex.close());
  const memory = () => {
    const bytes = metadata.books.bytes + explorer.traits.bytes;
    return { collections: projections.stats().bytes + walletIndex.bytes, metadata: bytes };
  };
  const behindMs = () => freshness.behindMs;
  const status = new ServiceStatus({ ...parts, version: VERSION, behindMs, memory, chains, catalogue });
  lifecycle.run("status", (signal) => status.run(signal));
  metrics.onScrape(() => metrics.metadataCacheBytes.set(memory().metadata));
  return { catalogue, status, explorer, walletIndex };
}

/** Measures how far this process is behind the log. */
function watchFreshness(parts: Assembly): Freshness {
  const { clock, logger, log, projections, metadata, keys, lifecycle, metrics, runtimes } = parts;
  const views = [...runtimes.values()].map(({ view }) => view);
  const settle = () =>
    Promise.all([
      projections.caughtUp(),
      metadata.books.caughtUp(),
      keys.caughtUp(),
      ...views.map((view) => view.settled()),
    ]);
  const freshness = new Freshness({ log, clock, logger, settle });
  lifecycle.run("freshness", (signal) => freshness.run(signal));
  metrics.onScrape(() => measureLog(metrics, log, freshness));
  return freshness;
}

async function readCursorSecret(log: EventLog, config: Config): Promise<string> {
  if (config.cursorSecret !== undefined) return config.cursorSecret;
  const { value } = await log.setting("cursor-secret", () => randomBytes(32).toString("hex"));
  return value;
}

/** Opens the keys. At first start without a key in the environment, makes one of scope `operate`. */
async function openKeys(
  { config, logger, onKeyMade, ownKeyHash }: ServiceOptions,
  { log, clock, lifecycle, onKeysDropped: onDropped }: Pick<Assembly, "log" | "clock" | "lifecycle" | "onKeysDropped">,
): Promise<ApiKeys> {
  const given = { environment: config.apiKeys, ownKeyHash, limits: keyLimits(config) };
  const keys = new ApiKeys({ log, clock, logger, ...given, onDropped });
  lifecycle.onStop("keys", () => keys.close());
  await keys.begin();
  await keys.read();
  if (!keys.isFirstStart) {
    if (!keys.hasOperator) logger.info({}, `no key may operate; ${WAY_TO_OPERATE}`);
    return keys;
  }
  const key = newKeyText();
  const { created } = await log.setting(FIRST_KEY_SETTING, () => hashOfKey(key));
  if (created) onKeyMade?.(key);
  await keys.begin();
  await keys.read();
  return keys;
}

/** Routes the log's wake-ups to their chains, and a chain's reverts to its subscribers. */
function watchLog({ log, runtimes, channel, lifecycle, logger }: Assembly): void {
  for (const { view, chain } of runtimes.values()) {
    const stop = view.onMoved((moved) => channel.onMoved(chain.chainId, moved));
    lifecycle.onStop(`view of ${chain.name}`, stop);
  }
  const unsubscribe = log.subscribe((stream, version, appended) => {
    const [, chainId] = stream.split("/");
    if (lifecycle.stopping) return;
    runtimes
      .get(Number(chainId))
      ?.indexing.onWakeUp(stream, version, appended !== undefined)
      .catch((error: unknown) => logger.warn({ err: error, stream }, "handling a change of the log failed"));
  });
  lifecycle.onStop("log watch", unsubscribe);
}

/** Routes wake-ups to the chains' metadata workers, and their results to the subscribers. */
function watchMetadata({ log, metadata, runtimes, channel, metrics, lifecycle, logger }: Assembly): void {
  const unsubscribe = log.subscribe((stream, _version, appended) => {
    const [kind, id, address] = stream.split("/");
    const chainId = Number(id);
    if (lifecycle.stopping || (kind !== "nft" && kind !== "metadata")) return;
    runtimes.get(chainId)?.metadata.onWakeUp(stream, appended);
    if (kind !== "metadata" || !channel.collections.hasSubscribers(chainId, address as Address)) return;
    // Load the stream if it has subscribers here; its content arrives through the subscription below.
    metadata.books.current(chainId, address as Address).catch((error: unknown) => {
      logger.debug({ err: error, stream }, "a metadata stream could not be read");
    });
  });
  lifecycle.onStop("metadata watch", unsubscribe);
  metadata.books.subscribe((stream, { resolved, failed }) => {
    const [, id, address] = stream.split("/");
    channel.collections.onMetadataProgress(Number(id), address as Address, { resolved, failed });
  });
  metrics.onScrape(() => {
    for (const { chain, metadata: own } of runtimes.values()) {
      metrics.metadataInFlight.set({ chain: chain.name }, own.inFlight());
    }
  });
}
