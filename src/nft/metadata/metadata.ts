/**
 * Wires the metadata parts together: those that all chains share (fetcher, hosts, parser, previews, books, texts) and
 * those of each chain (worker, media worker, announcements). Readers get facts from memory and the log; the workers
 * fetch.
 */
import type { LRUCache } from "lru-cache";
import type { ChainConsumer, ChainView } from "../../chain/consumer.ts";
import type { Leases } from "../../chain/lease.ts";
import { NodeWatch } from "../../chain/node-watch.ts";
import type { Chain } from "../../chains/chains.ts";
import type { Clock } from "../../core/clock.ts";
import { countedCache } from "../../core/counted-cache.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type { Lifecycle } from "../../core/lifecycle.ts";
import type { Logger } from "../../core/logger.ts";
import { Semaphore } from "../../core/semaphore.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import type { TokenRef } from "../../events/columns.ts";
import { encodeTokens, NO_HASH } from "../../events/token-columns.ts";
import { type MetadataReason, parseStream, type Recorded, type StreamName } from "../../events/types.ts";
import type { EventLog } from "../../log/event-log.ts";
import type { RpcChainReader } from "../../rpc/reading/reader.ts";
import type { HotCollections } from "../collections/hot-collections.ts";
import type { Slot } from "../ledger/tables.ts";
import type { RecordFacts } from "../listings/record.ts";
import type { TokenTraits } from "../listings/token-traits.ts";
import { Announcements } from "./announcements.ts";
import type { MetadataBook, Outcome } from "./book.ts";
import { appendMetadata, MetadataBooks } from "./books.ts";
import { type ContractDocument, documentOf } from "./contract-document.ts";
import { CONTRACT, keyOf } from "./due-tokens.ts";
import { type MediaDocument, previewSize } from "./media/media.ts";
import { Previews } from "./media/previews.ts";
import { MediaWorker } from "./media-worker.ts";
import { FactsReader, type KnownFacts, type PageFactsOptions, type ShownToken } from "./page.ts";
import { Fetcher } from "./resolve/fetcher.ts";
import { Hosts } from "./resolve/host-limits.ts";
import { Parser } from "./resolve/parser.ts";
import { Resolver, type ResolverOptions } from "./resolve/resolver.ts";
import type { Wire } from "./resolve/wire.ts";
import { MIN_REFRESH_MS } from "./retry-times.ts";
import { TokenTexts } from "./token-texts.ts";
import { TokenUriReader } from "./token-uris.ts";
import { TraitThread } from "./trait-thread.ts";
import { MetadataWorker } from "./worker.ts";

/** Tokens in flight in this process: bounds sockets, and bodies of at most a megabyte each. Four times a silent host's. */
const SLOTS = 128;
/** Requests to one host, and as many more that are silent for seconds. */
const PER_HOST = 16;
/**
 * Previews that are read at once. A client may ask for any hash without a key. A store of blobs may charge for each read, and the
 * hash may name a document of megabytes.
 */
const PREVIEWS_AT_ONCE = 16;
/** Share of the bytes for texts that is for documents of pictures. */
const DOCUMENTS_PART = 1 / 8;
/** Share of them that each chain has for the results of examined pictures. */
const EXAMINED_PART = 1 / 64;
const SAMPLE_MS = 600_000;

export interface MetadataObserver {
  outcome(chainId: number, outcome: MetadataReason | "resolved" | "repaired"): void;
  media(chainId: number, status: MediaDocument["status"]): void;
}

interface MetadataOptions extends Pick<ResolverOptions, "gateways" | "asksGiven"> {
  readonly log: EventLog;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly projections: HotCollections;
  readonly wire: Wire;
  readonly allowPrivate: boolean;
  /** Without a trailing slash. */
  readonly publicUrl: () => string;
  /** Bytes of memory for books, and the same for texts. */
  readonly cacheBytes: number;
  /** Stored bytes of a collection's metadata above which only tokens that clients read are fetched. */
  readonly maxStoredBytes: number;
  readonly observer: MetadataObserver;
  /** First wait before a finished collection is sampled, in ms. */
  readonly sampleMs?: number;
  /** Path of the preview process's entry point, for tests. */
  readonly previewEntry?: string;
}

interface MetadataChainOptions {
  readonly chain: Chain;
  readonly reader: RpcChainReader;
  readonly view: ChainView;
  readonly leases: Leases;
  /** Addresses of the followed collections. */
  readonly followed: () => readonly Address[];
  /** Called when an operator has requested the metadata of a collection again, by whichever process. */
  readonly onRefresh: (address: Address) => void;
}

/** How far the metadata of a collection is. */
export interface MetadataHealth {
  /** Tokens with metadata. */
  readonly resolved: number;
  /** Tokens that only failed so far. */
  readonly failed: number;
  /** Failed tokens by the reason of the last attempt. */
  readonly reasons: Readonly<Partial<Record<MetadataReason, number>>>;
  /** Ids of failed tokens, decimal; not all of them if there are many. */
  readonly failedTokens: readonly string[];
}

export interface ChainMetadata {
  readonly consumer: ChainConsumer;
  /** Starts the worker, which waits for the chain's metadata lease. */
  start(lifecycle: Lifecycle): void;
  /** @param appended the new events, if this process appended them */
  onWakeUp(stream: StreamName, appended?: readonly Recorded[]): void;
  /** Number of tokens in flight in this process. */
  inFlight(): number;
  factsOf(address: Address, entries: readonly ShownToken[], options: PageFactsOptions): Promise<KnownFacts>;
  /** Returns the traits of the first entries, of at least one. @throws BlobsUnavailable if the store of blobs fails */
  traitsOf(address: Address, entries: readonly ShownToken[]): Promise<TokenTraits>;
  /** Returns the known document about the collection. @param media also the state of its picture */
  documentOf(address: Address, media: boolean): Promise<ContractDocument>;
  /** Returns up to `limit` attempts to fetch a token's metadata, newest first. */
  outcomesOf(address: Address, token: TokenRef, limit: number): Promise<readonly Outcome[]>;
  /** Counts the tokens of a collection with metadata, and those without by the reason. */
  healthOf(address: Address): Promise<MetadataHealth>;
  /** Increases with every change of the collection's metadata; undefined while it is not in memory. */
  metadataVersion(address: Address): number | undefined;
}

/** Most failed tokens that are named: as many as one refresh may name. */
const MAX_NAMED = 500;
/** Tokens counted per turn of the event loop: a millisecond or two. */
const COUNTED_AT_ONCE = 50_000;

/** Counts in slices. What the worker writes meanwhile may be counted or not. */
async function countHealth(book: MetadataBook): Promise<MetadataHealth> {
  const { resolved, failed, tokens } = book;
  const reasons: Partial<Record<MetadataReason, number>> = {};
  const failedTokens: string[] = [];
  const slots = failed === 0 ? 0 : tokens.count;
  for (let slot = 0; slot < slots; slot++) {
    if (slot % COUNTED_AT_ONCE === COUNTED_AT_ONCE - 1) await yieldToEventLoop();
    const reason = book.failureOf(slot);
    if (reason === undefined || book.isContract(slot)) continue;
    reasons[reason] = (reasons[reason] ?? 0) + 1;
    if (failedTokens.length < MAX_NAMED) failedTokens.push(tokens.id(slot as Slot).toString());
  }
  return { resolved, failed, reasons, failedTokens };
}

export class Metadata {
  readonly books: MetadataBooks;
  readonly #options: MetadataOptions;
  readonly #parser: Parser;
  /** A parser for pages only, so that they don't wait for fetched content. */
  readonly #pageParser: Parser;
  readonly #previews: Previews;
  readonly #texts: TokenTexts;
  readonly #traits: TraitThread;
  readonly #resolver: Resolver;
  readonly #reader: FactsReader;
  readonly #chains = new Map<number, MetadataWorker>();
  readonly #previewReads = new Semaphore(PREVIEWS_AT_ONCE);
  /** Tokens that this process requested from the process with the lease. Made with the first one: it takes ten milliseconds. */
  #requested: LRUCache<string, true> | undefined;
  readonly #unsubscribe: () => void;

  constructor(options: MetadataOptions) {
    this.#options = options;
    const { log, clock, logger, wire, gateways, asksGiven, allowPrivate, cacheBytes, publicUrl } = options;
    if (allowPrivate) {
      logger.warn({}, "METADATA_ALLOW_PRIVATE is on: token URIs may reach this machine and its network");
    }
    this.books = new MetadataBooks({ log, logger, maxBytes: cacheBytes });
    this.#parser = new Parser({ clock });
    this.#pageParser = new Parser({ clock });
    this.#texts = new TokenTexts(log, this.#pageParser, cacheBytes - cacheBytes * DOCUMENTS_PART);
    this.#traits = new TraitThread(log);
    this.#previews = new Previews({
      clock,
      logger,
      ...(options.previewEntry === undefined ? {} : { entry: options.previewEntry }),
    });
    const fetcher = new Fetcher({ wire, clock, allowPrivate, gateways });
    const hosts = new Hosts(clock, PER_HOST);
    const slots = new Semaphore(SLOTS);
    this.#resolver = new Resolver({ fetcher, hosts, parser: this.#parser, slots, gateways, asksGiven });
    const maxBytes = cacheBytes * DOCUMENTS_PART;
    this.#reader = new FactsReader({ books: this.books, texts: this.#texts, maxBytes, log, clock, publicUrl });
    this.#unsubscribe = this.books.subscribe((stream, _book, events) => {
      const parsed = parseStream(stream);
      if ("address" in parsed) this.#chains.get(parsed.chainId)?.onEvents(parsed.address, events);
    });
  }

  chain(options: MetadataChainOptions): ChainMetadata {
    const { log } = this.#options;
    const { chain, followed } = options;
    const { chainId } = chain;
    const { worker, media } = this.#workersOf(options);
    this.#chains.set(chainId, worker);
    const consumer = new Announcements({
      addresses: followed,
      append: (address, events) => appendMetadata({ log, books: this.books }, { chainId, address }, events),
    });
    const factsOf: ChainMetadata["factsOf"] = async (address, entries, shown) => {
      const { facts, dueTokens, duePictures, isWhole } = await this.#reader.read({ chainId, address }, entries, shown);
      if (worker.holding) {
        worker.request(address, dueTokens);
        if (duePictures.length > 0) media.request(address, duePictures);
      } else {
        this.#requestThroughLog({ chainId, address }, dueTokens, false);
        this.#requestThroughLog({ chainId, address }, duePictures, true);
      }
      return { facts, isWhole, isSettled: isWhole && dueTokens.length + duePictures.length === 0 };
    };
    const outcomesOf: ChainMetadata["outcomesOf"] = async (address, { kind, id }, limit) => {
      const book = await this.books.get(chainId, address);
      const slot = book.find(kind, id);
      return slot < 0 ? [] : book.outcomes(slot, limit);
    };
    const traitsOf: ChainMetadata["traitsOf"] = async (address, entries) =>
      this.#traits.read(await this.books.get(chainId, address), entries);
    return {
      consumer,
      start: (lifecycle) => void lifecycle.run(`metadata of ${chain.name}`, (signal) => worker.run(signal)),
      onWakeUp: (stream, appended) => worker.onWakeUp(stream, appended),
      inFlight: () => worker.inFlight,
      factsOf,
      traitsOf,
      outcomesOf,
      documentOf: async (address, mediaItems) => {
        const shown = { normalizeMetadata: true, mediaItems, asOf: undefined };
        const { facts } = await factsOf(address, [CONTRACT], shown);
        const [newest] = await outcomesOf(address, CONTRACT, 1);
        return documentOf(facts[0] as RecordFacts, newest);
      },
      healthOf: async (address) => countHealth(await this.books.get(chainId, address)),
      metadataVersion: (address) => this.books.peek(chainId, address)?.version,
    };
  }

  #workersOf({ chain: { chainId }, reader, view, leases, onRefresh }: MetadataChainOptions): {
    readonly worker: MetadataWorker;
    readonly media: MediaWorker;
  } {
    const { log, clock, logger, projections, observer, cacheBytes, maxStoredBytes, sampleMs } = this.#options;
    const shared = { chainId, log, clock, logger, books: this.books, resolver: this.#resolver };
    const media = new MediaWorker({
      ...shared,
      previews: this.#previews,
      texts: this.#texts,
      maxBytes: cacheBytes * EXAMINED_PART,
      observe: (status) => observer.media(chainId, status),
    });
    const worker = new MetadataWorker({
      ...shared,
      projections,
      view,
      leases,
      node: new NodeWatch({ reader, clock }),
      media,
      onRefresh,
      sampleMs: sampleMs ?? SAMPLE_MS,
      maxStoredBytes,
      // One book that fills the whole cache.
      maxBookBytes: cacheBytes,
      uriReader: new TokenUriReader(reader),
      observe: (outcome) => observer.outcome(chainId, outcome),
    });
    return { worker, media };
  }

  /** Asks the process with the lease, through the log, for tokens that were read here: each once in 10 minutes. */
  #requestThroughLog(of: { chainId: number; address: Address }, tokens: readonly TokenRef[], media: boolean): void {
    const fresh = tokens.filter((token) => {
      const key = `${of.chainId}/${of.address}/${keyOf(token)}/${media}`;
      this.#requested ??= countedCache(100_000, { ttl: MIN_REFRESH_MS });
      if (this.#requested.has(key)) return false;
      this.#requested.set(key, true);
      return true;
    });
    if (fresh.length === 0) return;
    const columns = encodeTokens(fresh.map((token) => ({ ...token, hash: NO_HASH })));
    const event = { type: "MetadataRequested", media, count: fresh.length, tokens: columns } as const;
    appendMetadata({ log: this.#options.log, books: this.books }, of, [event]).catch((error: unknown) => {
      this.#options.logger.debug({ err: error, address: of.address }, "failed to request metadata through the log");
    });
  }

  /**
   * The bytes of a preview; undefined if the hash names no preview of that size.
   * @param client aborts when its client is gone. @throws its reason, if it aborts before the read has its turn
   */
  async preview(hash: Hash, size: number, client: AbortSignal | undefined): Promise<Uint8Array | undefined> {
    const bytes = await this.#previewReads.run(() => this.#options.log.getBlob(hash), client);
    return bytes !== undefined && previewSize(bytes) === size ? bytes : undefined;
  }

  async close(): Promise<void> {
    this.#unsubscribe();
    this.#parser.close();
    this.#pageParser.close();
    await this.#previews.close();
    await this.#traits.close();
    this.books.close();
  }
}
