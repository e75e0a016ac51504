/**
 * One chain of a running service: its endpoints, reader, indexing, prices, metadata and self-audit, wired to the parts
 * that all chains share.
 */
import { BlockFacts } from "./chain/block-facts.ts";
import type { ChainWork, IndexingObserver } from "./chain/consumer.ts";
import { PublishedChain } from "./chain/view.ts";
import { type Chain, type Chains, LOCAL_CHAIN } from "./chains/chains.ts";
import type { PriceList } from "./chains/price-lists.ts";
import { type ChainTrouble, doctorOf, HEADERS_CHANGED } from "./chains/trouble.ts";
import { type ChainConfig, type Config, LIMITS } from "./config.ts";
import type { SharedWork } from "./core/budget.ts";
import type { Clock } from "./core/clock.ts";
import { wholeText } from "./core/format.ts";
import { type Address, type Hash, toHash } from "./core/hex.ts";
import type { Lifecycle } from "./core/lifecycle.ts";
import type { Logger } from "./core/logger.ts";
import type { Metrics } from "./core/metrics.ts";
import { PROGRAM } from "./core/program.ts";
import { type Proxies, proxyFor } from "./core/proxies.ts";
import { CONTRACT_TYPES, TransferKind } from "./events/columns.ts";
import type { HeaderRef } from "./events/types.ts";
import type { EventLog } from "./log/event-log.ts";
import { type Collection, ledgersOf, transfersOf } from "./nft/collections/collection.ts";
import type { HotCollections } from "./nft/collections/hot-collections.ts";
import type { ListFiles } from "./nft/collections/operator-lists.ts";
import { isAirdropShaped } from "./nft/indexing/airdrop-shape.ts";
import { type AuditOptions, runAudit } from "./nft/indexing/audit.ts";
import type { CandidatesOptions, Delay, Verdict } from "./nft/indexing/candidates.ts";
import { Estimator } from "./nft/indexing/estimate.ts";
import { ChainIndexing } from "./nft/indexing/indexing.ts";
import type { Estimate } from "./nft/indexing/models.ts";
import { countEntries } from "./nft/ledger/listing.ts";
import type { Slot } from "./nft/ledger/tables.ts";
import { Locks } from "./nft/metadata/locks.ts";
import type { ChainMetadata, Metadata } from "./nft/metadata/metadata.ts";
import { type EndpointLog, measureHead, observerOf, poolObserver, requestObserver, watchOf } from "./observers.ts";
import { createPrices, type Prices } from "./prices/price-service.ts";
import type { TokenLists } from "./prices/token-lists.ts";
import type { RunThread } from "./proof/run-thread.ts";
import { TokenProofs } from "./proof/token-proofs.ts";
import { Archives, readerWithArchives } from "./rpc/archive/archives.ts";
import type { ArchiveStatus } from "./rpc/archive/port.ts";
import { Portal } from "./rpc/archive/portal.ts";
import type { DecodePool } from "./rpc/decode/decode-pool.ts";
import { EndpointPool, type EndpointStatus } from "./rpc/endpoint/endpoint-pool.ts";
import { EndpointProvider } from "./rpc/endpoint/provider.ts";
import { RpcChainReader } from "./rpc/reading/reader.ts";

type ShownMetadata = Pick<
  ChainMetadata,
  "factsOf" | "traitsOf" | "outcomesOf" | "healthOf" | "documentOf" | "metadataVersion"
>;

/** One enabled chain with its parts. */
export interface ChainRuntime extends ShownMetadata, Pick<Locks, "lockedAt">, Pick<BlockFacts, "headerOf"> {
  readonly chain: Chain;
  /** True if the operator gave its endpoints. */
  readonly isGiven: boolean;
  readonly view: PublishedChain;
  readonly indexing: ChainIndexing;
  readonly prices: Prices;
  readonly metadata: ChainMetadata;
  readonly blockFacts: BlockFacts;
  readonly proofs: TokenProofs;
  /** Shows the head that the log has, and starts the chain's work: following, indexing, metadata and the self-audit. */
  start(): Promise<void>;
  /** Says what indexing a contract will cost. */
  estimate(address: Address): Promise<Estimate>;
  isHalted(): boolean;
  trouble(): ChainTrouble | undefined;
  endpoints(): readonly EndpointStatus[];
  archives(): readonly ArchiveStatus[];
  /** The first block of which the endpoints have logs, if they refused older ones. */
  historyFrom(): number | undefined;
  /** Facts about the newest headers: if their fields make their hashes, and whose blooms they carry. */
  headerForm(): RpcChainReader["headerForm"];
  /** Asks each endpoint for its newest block. */
  probe(): Promise<readonly Probed[]>;
}

/** Parts that all chains of a service share. */
export interface SharedParts {
  readonly knownChains: Chains;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly lifecycle: Lifecycle;
  readonly metrics: Metrics;
  readonly lists: ListFiles;
  readonly tokenLists: TokenLists;
  readonly log: EventLog;
  readonly projections: HotCollections;
  readonly metadata: Metadata;
  readonly decoder: DecodePool;
  /** Makes proofs. */
  readonly runThread: RunThread;
  /** Units that providers count per call. */
  readonly priceList: PriceList;
  readonly proxies: Proxies;
}

export interface RuntimeOptions
  extends SharedParts,
    Pick<ChainWork, "leases" | "verify">,
    Pick<CandidatesOptions, "accountOf"> {
  readonly endpointLog: EndpointLog;
  /** Charges the work at a head to all keys whose clients wait for it. */
  readonly sharedWork: SharedWork;
  /** True while a client of this process is subscribed to a collection of the chain. */
  readonly hasSubscribers: (chainId: number) => boolean;
  /** Called when a requested address turned out to be no contract, which the log doesn't record. */
  readonly onVerdict: (chainId: number, address: Address, verdict: Verdict) => void;
  /** Called when a requested address could not be identified yet. */
  readonly onDelayed: (chainId: number, address: Address, delay: Delay) => void;
  readonly pools: Config["pools"];
  readonly priceHistoryDays: Config["priceHistoryDays"];
  /** Least wait between polls, and between rounds of the self-audit, in ms, for tests. */
  readonly minPollMs: number | undefined;
  readonly auditMs: number | undefined;
}

interface ReaderHooks {
  /** Called when an endpoint announces a block. */
  readonly onHead: () => void;
  /** The head that answers show. */
  readonly shownHead: () => HeaderRef | undefined;
}

/** Interval in ms of reads of a development chain's genesis block, and the timeout of each. */
const GENESIS_MS = 2_000;

/** Returns the hash of a development chain's genesis block from the first endpoint that answers; undefined if none does. */
async function genesisOf(
  { chain, urls }: ChainConfig,
  { clock, decoder, proxies }: Pick<RuntimeOptions, "clock" | "decoder" | "proxies">,
): Promise<Hash | undefined> {
  for (const url of urls) {
    const label = chain.name;
    const limits = { timeoutMs: GENESIS_MS, maxBytes: LIMITS.maxRpcAnswer };
    const endpoint = new EndpointProvider({
      ...{ url, label, chainId: chain.chainId, isAnyChain: true, ...limits, clock, decoder },
      proxy: proxyFor(proxies, url),
      onRequest: () => undefined,
    });
    try {
      return toHash(
        String(((await endpoint.request("eth_getBlockByNumber", ["0x0", false])) as { hash: unknown }).hash),
      );
    } catch {
      // The next endpoint may answer.
    } finally {
      endpoint.destroy();
    }
  }
  return undefined;
}

/**
 * Gives the development chain, if there is one, the id of its genesis block, and watches that block from then on.
 * @param onAnew called once the node has another genesis block: all that this process knows is about the old chain
 */
export async function placedChains(
  chains: readonly ChainConfig[],
  options: Pick<RuntimeOptions, "clock" | "decoder" | "lifecycle" | "logger" | "proxies" | "knownChains">,
  onAnew: () => void,
): Promise<readonly ChainConfig[]> {
  const local = chains.find(({ chain }) => chain.name === LOCAL_CHAIN);
  if (local === undefined) return chains;
  const { clock, lifecycle, logger } = options;
  const genesis = await genesisOf(local, options);
  lifecycle.run("genesis of the development chain", async (signal) => {
    for (;;) {
      await clock.sleep(GENESIS_MS, signal);
      const found = await genesisOf(local, options);
      if (found === undefined || found === genesis) continue;
      const text = "the development chain began anew: its contracts are indexed again once a client asks for them";
      if (genesis !== undefined) logger.warn({ genesis: found, before: genesis }, text);
      onAnew();
      return;
    }
  });
  const chain = genesis && options.knownChains.placeLocal(genesis);
  return chain === undefined ? chains : chains.map((one) => (one === local ? { ...one, chain } : one));
}

/** Opens the chain's endpoints, and the reader over them. */
function openReader(
  { chain, urls, finalityDepth, depthIsSet }: ChainConfig,
  { clock, logger, endpointLog, lifecycle, metrics, decoder, priceList, proxies, knownChains }: RuntimeOptions,
  { onHead, shownHead }: ReaderHooks,
): RpcChainReader {
  const { chainId } = chain;
  const slug = chain.name.replaceAll(" ", "-");
  const endpoints = urls.map(
    (url, index) =>
      new EndpointProvider({
        url,
        label: `${slug}#${index + 1}`,
        chainId,
        ...(chain.name === LOCAL_CHAIN
          ? { isAnyChain: true, onChainId: (nodeId: number) => knownChains.nameLocal(nodeId) }
          : {}),
        timeoutMs: LIMITS.rpcTimeoutMs,
        smallTimeoutMs: LIMITS.rpcSmallTimeoutMs,
        maxBytes: LIMITS.maxRpcAnswer,
        proxy: proxyFor(proxies, url),
        clock,
        decoder,
        onRequest: requestObserver(metrics, priceList),
        onHead,
      }),
  );
  const pool = new EndpointPool({ chain: chain.name, endpoints, clock, ...poolObserver(metrics, chain, endpointLog) });
  // Close the pool at once: other parts would first wait for its answers.
  lifecycle.signal.addEventListener("abort", () => pool.close(), { once: true });
  return new RpcChainReader({
    chainId,
    pool,
    multicall: chain.multicall3,
    finalityDepth,
    depthIsSet,
    watch: watchOf(metrics, chain),
    onDevelopmentNode: (endpoint, client, depth) =>
      logger.warn(
        { endpoint, client, depth },
        "a development node calls its head final: blocks are final by depth instead",
      ),
    shownHead,
    onFormChanged: (block) => {
      metrics.headersChanged.set({ chain: chain.name }, block);
      logger.error({ chain: chain.name, block }, HEADERS_CHANGED);
    },
  });
}

/** Opens the archives of a chain. The first request to them is for the first history that needs one. */
function openArchives(
  { chain, archives: { urls, isGiven, key, per10s } }: ChainConfig,
  { clock, logger, metrics, decoder, priceList, proxies }: RuntimeOptions,
  reader: RpcChainReader,
): Archives {
  const onRequest = requestObserver(metrics, priceList);
  const sources = urls.map((url, index) => {
    const label = `archive ${chain.name.replaceAll(" ", "-")}#${index + 1}`;
    const proxy = proxyFor(proxies, url);
    return new Portal({ url, label, key, per10s, proxy, clock, decoder, onRequest, form: reader.headerForm });
  });
  return new Archives({
    ...{ sources, isGiven, clock, logger, chain: chain.name },
    maxBlocks: () => reader.historyLimits().maxBlocks,
    historyStart: () => reader.knownHistoryStart,
  });
}

/** Measures a collection for the rules of spam. */
async function shapeOf(collection: Collection) {
  const { ledger, identified, version } = collection;
  const { name = null, symbol = null, block: target = null } = identified ?? {};
  const transfers = transfersOf(collection);
  const nfts = countEntries(ledger, Number.MAX_SAFE_INTEGER, false);
  const ledgers = ledgersOf(collection);
  const kindOf = () =>
    ledgers.some(({ owners }) => owners.count > 0)
      ? TransferKind.erc721
      : (ledgers.find(({ tokens }) => tokens.count > 0) ?? ledger).tokens.kind(0 as Slot);
  const standard = transfers === 0 ? null : (CONTRACT_TYPES[kindOf()] ?? null);
  const measured = { version, transfers, nfts, name, symbol, standard, target };
  return { airdrop: await isAirdropShaped(ledger), measured };
}

/** A chain with the reader of its nodes and the view that answers are made from. */
interface ReadChain {
  readonly chain: Chain;
  readonly reader: RpcChainReader;
  readonly view: PublishedChain;
}

interface IndexingParts extends ReadChain {
  readonly archives: Archives;
  readonly observer: IndexingObserver;
}

function openIndexing({ followEveryMs }: ChainConfig, shared: RuntimeOptions, parts: IndexingParts): ChainIndexing {
  const { projections } = shared;
  const { chain } = parts;
  const { chainId } = chain;
  const indexing = new ChainIndexing({
    ...shared,
    ...parts,
    followEveryMs,
    collectionOf: (address) => projections.newest(chainId, address),
    lists: () => shared.lists,
    hasSubscribers: () => shared.hasSubscribers(chainId),
    onVerdict: (address, verdict) => shared.onVerdict(chainId, address, verdict),
    onDelayed: (address, delay) => shared.onDelayed(chainId, address, delay),
    staleMs: LIMITS.reidentifyMs,
    shapeOf: async (address, isApart) => shapeOf(await projections[isApart ? "apart" : "newest"](chainId, address)),
  });
  shared.lifecycle.onStop(`indexing of ${chain.name}`, () => indexing.stop());
  return indexing;
}

/** Assembles a chain's parts. */
export function createRuntime(chainConfig: ChainConfig, shared: RuntimeOptions): ChainRuntime {
  const { chain, isGiven } = chainConfig;
  const { clock, metrics, log, projections, leases, verify, priceList, pools, sharedWork } = shared;
  const heads: { node: number | undefined } = { node: undefined };
  const view = new PublishedChain(log, chain.chainId, async (head) => {
    // The prices that clients wait for are read at a head before it is shown.
    await Promise.all([projections.bringTo(chain.chainId, head), head && prices.readAhead(head)]);
  });
  const reader = openReader(chainConfig, shared, { onHead: () => indexing.headSeen(), shownHead: () => view.head() });
  const archives = openArchives(chainConfig, shared, reader);
  const observer = observerOf(metrics, chain, heads);
  const indexing = openIndexing(chainConfig, shared, { chain, reader, view, archives, observer });
  const prices = createPrices({
    ...{ chain, reader: readerWithArchives(reader, archives, clock), log, view, clock, pools, shared: sharedWork },
    ...{ logger: shared.logger, historyDays: shared.priceHistoryDays },
    listed: (chainId, address) => shared.tokenLists.find(chainId, address),
    onAsked: () => {
      indexing.follow();
      indexing.clientAsked();
    },
  });
  indexing.addConsumer(prices.consumer);
  const metadata = shared.metadata.chain({
    ...{ chain, reader, view, leases, followed: () => indexing.followed() },
    onRefresh: (address) => void indexing.tryReadAgain(address),
  });
  indexing.addConsumer(metadata.consumer);
  const isFollowed = () => !indexing.isIdle;
  const estimator = new Estimator({ chain, reader, clock, prices: priceList, archives, verify, isFollowed });
  metrics.onScrape(() => measureHead(metrics, { chain, view, clock, heads, isIdle: indexing.isIdle }));
  const [locks, proofs] = [new Locks(reader, clock), openProofs({ chain, reader, indexing }, shared)];
  const blockFacts = new BlockFacts({ reader, view, clock });
  const { factsOf, traitsOf, outcomesOf, healthOf, documentOf, metadataVersion } = metadata;
  return {
    chain,
    isGiven,
    view,
    indexing,
    prices,
    metadata,
    ...{ factsOf, traitsOf, outcomesOf, healthOf, documentOf, metadataVersion },
    lockedAt: (address, id, block) => locks.lockedAt(address, id, block),
    headerOf: (block, above) => blockFacts.headerOf(block, above),
    blockFacts,
    proofs,
    start: () => startWork({ chain, reader, view, indexing, metadata, proofs, prices }, shared),
    estimate: (address) => estimator.of(address),
    isHalted: () => view.halted() !== undefined,
    trouble: () => (view.halted() === undefined ? reader.trouble() : "halted"),
    endpoints: () => reader.endpoints(),
    archives: () => archives.status(),
    historyFrom: () => reader.knownHistoryStart,
    headerForm: () => reader.headerForm,
    probe: () => probe(reader, chain),
  };
}

type StartedParts = Pick<ChainRuntime, "indexing" | "metadata" | "proofs" | "prices">;

/** Opens the proofs of tokens. A proof that contradicts the ledger counts like a finding of the self-audit. */
function openProofs(
  { chain, reader, indexing }: Pick<ReadChain, "chain" | "reader"> & Pick<ChainRuntime, "indexing">,
  { metrics, runThread: thread }: RuntimeOptions,
): TokenProofs {
  const labels = { chain: chain.name };
  return new TokenProofs({
    ...{ chain, reader, thread },
    onCompared: (differs) => {
      metrics.auditedHoldings.inc(labels, 1);
      if (differs) metrics.auditDrift.inc(labels, 1);
    },
    onFinding: auditCalls(indexing).onFinding,
  });
}

async function startWork(
  { indexing, metadata, proofs, prices, ...read }: ReadChain & StartedParts,
  shared: RuntimeOptions,
): Promise<void> {
  startAudit({ ...read, ...auditCalls(indexing), proven: (...of) => proofs.held(...of) }, shared);
  // If this fails, the first request for a price reads them.
  prices.warm().catch((error: unknown) => shared.logger.debug({ err: error }, "stored prices could not be read"));
  await indexing.start();
  metadata.start(shared.lifecycle);
}

/** The calls by which the audit reports to the indexing. */
const auditCalls = (indexing: ChainIndexing): Pick<AuditOptions, "onCode" | "onFinding" | "readAgain"> => ({
  onCode: (...seen) => indexing.codeSeen(...seen),
  onFinding: (...found) => indexing.doubtOwners(...found),
  readAgain: (address) => indexing.readAgain(address),
});

/** An endpoint's answer when the service starts, or its fault. */
type Probed = { readonly label: string } & ({ readonly answer: string } | { readonly fault: string });

async function probe(reader: RpcChainReader, { name, chainId }: Chain): Promise<Probed[]> {
  const which = name === LOCAL_CHAIN ? "a development chain" : `chain ${chainId}`;
  return (await reader.probe()).map(({ label, head, ms, fault = "does not answer" }) =>
    head === undefined
      ? { label, fault }
      : { label, answer: `${which}, head ${wholeText(head)}, ${Math.round(ms)} ms` },
  );
}

/**
 * Asks all endpoints that the operator gave for their newest block. Returns a line for each endpoint that answers, and one
 * for each kind of fault. Without DNS, all endpoints have the same fault, and a line for each would fill the screen.
 */
export async function probeLines(runtimes: readonly ChainRuntime[]): Promise<string[]> {
  const given = runtimes.filter(({ isGiven }) => isGiven);
  const probed = (await Promise.all(given.map((runtime) => runtime.probe()))).flat();
  const sleeping = runtimes.length - given.length;
  const which = `${sleeping}${given.length === 0 ? "" : " more"} chains`;
  const doctor = doctorOf(PROGRAM);
  const labels = new Map<string, string[]>();
  for (const one of probed) {
    if ("fault" in one) labels.set(one.fault, [...(labels.get(one.fault) ?? []), one.label]);
  }
  return [
    ...probed.flatMap((one) => ("answer" in one ? [`${one.label} ✓ ${one.answer}`] : [])),
    ...[...labels].map(([fault, [first = "", ...more]]) =>
      more.length === 0
        ? `${first} ✗ ${fault}`
        : `${more.length + 1} endpoints ✗ ${fault}: ${[first, ...more].join(", ")}. ${doctor.why} ${doctor.command}`,
    ),
    ...(sleeping === 0 ? [] : [`${which} have published endpoints, asked once a client asks for one`]),
  ];
}

/** Compares served holdings with the chain, as long as the service runs. */
function startAudit(
  parts: ReadChain & Pick<AuditOptions, "onCode" | "onFinding" | "readAgain" | "proven">,
  { clock, logger, lifecycle, metrics, projections, auditMs }: RuntimeOptions,
): void {
  const labels = { chain: parts.chain.name };
  metrics.auditDrift.inc(labels, 0);
  metrics.auditUnexplained.inc(labels, 0);
  const onChecked: AuditOptions["onChecked"] = ({ checked, drifted, unexplained }) => {
    metrics.auditedHoldings.inc(labels, checked);
    metrics.auditDrift.inc(labels, drifted);
    metrics.auditUnexplained.inc(labels, unexplained);
  };
  const audit = { ...parts, projections, clock, logger, onChecked, roundMs: auditMs };
  lifecycle.run(`audit ${parts.chain.name}`, (signal) => runAudit(audit, signal));
}
