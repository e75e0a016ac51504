/**
 * Metadata, put together: what all chains share (fetcher, hosts, parser, previews, books, texts) and what each chain has
 * of its own (worker, pictures, announcements). Readers get facts; everything that goes outside happens here.
 */
import { LRUCache } from "lru-cache";
import type { Chain } from "../chains/chains.ts";
import type { Clock } from "../core/clock.ts";
import type { Address, Hash } from "../core/hex.ts";
import type { Lifecycle } from "../core/lifecycle.ts";
import type { Logger } from "../core/logger.ts";
import { Slots } from "../core/slots.ts";
import { encodeTokens, NO_HASH } from "../events/tokens.ts";
import { type MetadataReason, parseStream, type StreamName } from "../events/types.ts";
import type { BlockConsumer, ChainView } from "../indexer/consumer.ts";
import type { EventLog } from "../log/port.ts";
import type { Entry } from "../nfts/listing.ts";
import type { CollectionProjections } from "../nfts/projections.ts";
import type { ChainReader } from "../rpc/port.ts";
import { Announcements } from "./announcements.ts";
import { UriAsker } from "./ask.ts";
import { MetadataBooks } from "./books.ts";
import { Fetcher } from "./fetcher.ts";
import { Hosts } from "./hosts.ts";
import { appendMetadata } from "./journal.ts";
import { type MediaDocument, previewSize } from "./media.ts";
import { MediaWorker } from "./media-worker.ts";
import { FactsReader, type KnownFacts, type PageFactsOptions } from "./page.ts";
import { Parser } from "./parser.ts";
import { Previews } from "./previews.ts";
import { Resolver } from "./resolver.ts";
import { MIN_REFRESH_MS } from "./schedule.ts";
import { TokenTexts } from "./texts.ts";
import type { Gateways } from "./uri.ts";
import type { Wire } from "./wire.ts";
import { keyOf, type Token } from "./work.ts";
import { MetadataWorker } from "./worker.ts";

/** Tokens under way at once in this process: sockets and bodies of a megabyte at most. */
const SLOTS = 64;
const PER_HOST = 16;
/** Of the bytes for texts, those for pictures' documents, and for what each chain remembers of pictures it examined. */
const DOCUMENTS_PART = 1 / 8;
const EXAMINED_PART = 1 / 64;
const SAMPLE_MS = 600_000;

export interface MetadataObserver {
  outcome(chainId: number, outcome: MetadataReason | "resolved" | "repaired"): void;
  media(chainId: number, status: MediaDocument["status"]): void;
}

export interface MetadataOptions {
  readonly log: EventLog;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly projections: CollectionProjections;
  readonly wire: Wire;
  readonly gateways: Gateways;
  readonly allowPrivate: boolean;
  /** Without a trailing slash. */
  readonly publicUrl: () => string;
  /** Bytes of books, and of texts, in memory. */
  readonly cacheBytes: number;
  /** Bytes of a collection's metadata on disk from which on only what somebody looks at is asked for. */
  readonly maxStoredBytes: number;
  readonly observer: MetadataObserver;
  /** The first wait before a finished collection's sample is asked again. */
  readonly sampleMs?: number;
}

export interface MetadataChainOptions {
  readonly chain: Chain;
  readonly reader: ChainReader;
  readonly view: ChainView;
  readonly holder: string;
  /** The collections that are followed. */
  readonly followed: () => readonly Address[];
}

/** One chain's metadata. */
export interface ChainMetadata {
  readonly consumer: BlockConsumer;
  /** Starts the worker, which waits for the chain's lease. */
  start(lifecycle: Lifecycle): void;
  onWakeUp(stream: StreamName): void;
  /** Tokens under way in this process. */
  inFlight(): number;
  factsOf(address: Address, entries: readonly Entry[], options: PageFactsOptions): Promise<KnownFacts>;
  /** Changes when what is known of any token does; undefined while nothing is in memory. */
  versionOf(address: Address): number | undefined;
}

/** How far a collection's metadata is. */
export interface MetadataProgress {
  readonly resolved: number;
  readonly failed: number;
}

export class Metadata {
  readonly books: MetadataBooks;
  readonly #options: MetadataOptions;
  readonly #parser: Parser;
  /** For pages, which wait for nothing that is fetched. */
  readonly #reading: Parser;
  readonly #previews: Previews;
  readonly #texts: TokenTexts;
  readonly #resolver: Resolver;
  readonly #reader: FactsReader;
  readonly #chains = new Map<number, MetadataWorker>();
  /** Tokens that this process told the one that fetches about. */
  readonly #told = new LRUCache<string, true>({ max: 100_000, ttl: MIN_REFRESH_MS });
  readonly #unsubscribe: () => void;

  constructor(options: MetadataOptions) {
    this.#options = options;
    const { log, clock, logger, wire, gateways, allowPrivate, cacheBytes, publicUrl } = options;
    if (allowPrivate) {
      logger.warn({}, "METADATA_ALLOW_PRIVATE is on: token URIs may reach this machine and its network");
    }
    this.books = new MetadataBooks({ log, logger, maxBytes: cacheBytes });
    this.#parser = new Parser({ clock });
    this.#reading = new Parser({ clock });
    this.#texts = new TokenTexts(log, this.#reading, cacheBytes - cacheBytes * DOCUMENTS_PART);
    this.#previews = new Previews(clock);
    const fetcher = new Fetcher({ wire, clock, allowPrivate, gateways });
    const hosts = new Hosts(clock, PER_HOST);
    const slots = new Slots(SLOTS);
    this.#resolver = new Resolver({ fetcher, hosts, parser: this.#parser, slots, gateways });
    const shown = { books: this.books, texts: this.#texts, maxBytes: cacheBytes * DOCUMENTS_PART };
    this.#reader = new FactsReader({ ...shown, log, clock, publicUrl });
    this.#unsubscribe = this.books.subscribe((stream, _book, events) => {
      const parsed = parseStream(stream);
      if (parsed.kind !== "chain") this.#chains.get(parsed.chainId)?.onEvents(parsed.address, events);
    });
  }

  /** Adds a chain. */
  chain({ chain, reader, view, holder, followed }: MetadataChainOptions): ChainMetadata {
    const { log, clock, logger, projections, observer, cacheBytes, maxStoredBytes } = this.#options;
    const { sampleMs = SAMPLE_MS } = this.#options;
    const { chainId } = chain;
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
      holder,
      media,
      sampleMs,
      maxStoredBytes,
      // One that takes all the room there is for books.
      maxBookBytes: cacheBytes,
      asker: new UriAsker(reader),
      observe: (outcome) => observer.outcome(chainId, outcome),
    });
    this.#chains.set(chainId, worker);
    const consumer = new Announcements({
      addresses: followed,
      append: (address, events) => appendMetadata({ log, books: this.books }, { chainId, address }, events),
    });
    return {
      consumer,
      start: (lifecycle) => {
        lifecycle.run(`metadata of ${chain.name}`, (signal) => worker.run(signal));
      },
      onWakeUp: (stream) => worker.onWakeUp(stream),
      inFlight: () => worker.inFlight,
      factsOf: async (address, entries, options) => {
        const { facts, wanted, pictures } = await this.#reader.read({ chainId, address }, entries, options);
        if (worker.holding) {
          worker.want(address, wanted);
          if (pictures.length > 0) media.want(address, pictures);
        } else {
          this.#tell({ chainId, address }, wanted, false);
          this.#tell({ chainId, address }, pictures, true);
        }
        return { facts, isSettled: wanted.length + pictures.length === 0 };
      },
      versionOf: (address) => this.books.peek(chainId, address)?.version,
    };
  }

  /** Tells the process that fetches, through the log, of tokens somebody looks at here: each once in ten minutes. */
  #tell(of: { chainId: number; address: Address }, tokens: readonly Token[], media: boolean): void {
    const fresh = tokens.filter((token) => {
      const key = `${of.chainId}/${of.address}/${keyOf(token)}/${media}`;
      if (this.#told.has(key)) return false;
      this.#told.set(key, true);
      return true;
    });
    if (fresh.length === 0) return;
    const columns = encodeTokens(fresh.map((token) => ({ ...token, hash: NO_HASH })));
    const event = { type: "MetadataRequested", media, count: fresh.length, tokens: columns } as const;
    appendMetadata({ log: this.#options.log, books: this.books }, of, [event]).catch((error: unknown) => {
      this.#options.logger.debug({ err: error, address: of.address }, "a wish for metadata was not passed on");
    });
  }

  /** How far the collection is; undefined while nothing is known in memory. */
  async progress(chainId: number, address: Address): Promise<MetadataProgress> {
    const { resolved, failed } = await this.books.get(chainId, address);
    return { resolved, failed };
  }

  /** The bytes of a preview of that size; undefined when the hash names no such thing. */
  async preview(hash: Hash, size: number): Promise<Uint8Array | undefined> {
    const bytes = await this.#options.log.getBlob(hash);
    return bytes !== undefined && previewSize(bytes) === size ? bytes : undefined;
  }

  async close(): Promise<void> {
    this.#unsubscribe();
    this.#parser.close();
    this.#reading.close();
    await this.#previews.close();
    this.books.close();
  }
}
