/**
 * The cache of collections in memory: hydrated from the log on first use, kept current by the log's wake-ups, evicted
 * by bytes. Callers get the state as it is; no call waits for a node.
 */
import { LRUCache } from "lru-cache";
import { Semaphore, yieldToEventLoop } from "../core/background.ts";
import { isAbort } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import { type NftEvent, nftStream, type Recorded, type StreamName } from "../events/types.ts";
import type { EventLog } from "../log/event-log.ts";
import { type Collection, evolveInSlices, initialState, sizeOf } from "./collection.ts";
import type { Snapshots } from "./snapshots.ts";

// Buffers events that this process appended to the stream of a collection in memory, until they are folded. Without it,
// the fold would read them back from the log: a millisecond of the request thread for ten thousand transfers, or a
// database round trip.

/** Most bytes of buffered transfers. A fold that falls behind by more reads the log. */
const MAX_BYTES = 4 * 1024 * 1024;

class AppendedEvents {
  /** Consecutive versions. */
  #events: Recorded<NftEvent>[] = [];
  #bytes = 0;

  /** Adds events that are durable in the log. */
  add(events: readonly Recorded<NftEvent>[]): void {
    const last = this.#events.at(-1)?.version;
    if (last !== undefined && events[0]?.version !== last + 1) this.#clear();
    for (const recorded of events) {
      this.#events.push(recorded);
      this.#bytes += bytesOf(recorded);
    }
    if (this.#bytes > MAX_BYTES) this.#clear();
  }

  /**
   * Removes and returns the events from `version` on, up to and including the one that reaches `maxBytes`. Returns none
   * if that version is not buffered.
   */
  take(version: number, maxBytes: number): Recorded<NftEvent>[] {
    this.drop(version - 1);
    if (this.#events[0]?.version !== version) return [];
    let [to, bytes] = [0, 0];
    for (const recorded of this.#events) {
      if (bytes >= maxBytes) break;
      bytes += bytesOf(recorded);
      to++;
    }
    this.#bytes -= bytes;
    return this.#events.splice(0, to);
  }

  /** Drops the events up to `version`, which are folded. */
  drop(version: number): void {
    const after = this.#events.findIndex((recorded) => recorded.version > version);
    if (after < 0) this.#clear();
    else for (const gone of this.#events.splice(0, after)) this.#bytes -= bytesOf(gone);
  }

  #clear(): void {
    this.#events = [];
    this.#bytes = 0;
  }
}

function bytesOf({ event }: Recorded<NftEvent>): number {
  return event.type === "TransfersCommitted" ? event.transfers.length : 0;
}

/** Called after each folded event. */
type CollectionListener = (stream: StreamName, collection: Collection, recorded: Recorded<NftEvent>) => void;

/** A range of blocks, both ends included. */
export interface BlocksInDoubt {
  readonly fromBlock: number;
  readonly toBlock: number;
}

interface HotCollection {
  readonly stream: StreamName;
  readonly collection: Collection;
  readonly appended: AppendedEvents;
  /** Transfers folded since the last snapshot. */
  folded: number;
  /** Attempts to write a snapshot of them. */
  attempts: number;
  /** The running catch-up; there is at most one. */
  catching: Promise<void> | undefined;
  /** Version to catch up to. */
  targetVersion: number;
}

interface ProjectionsOptions {
  readonly log: EventLog;
  readonly logger: Logger;
  /** Bytes of all collections in memory together. */
  readonly maxBytes: number;
  /** Stores snapshots of large collections; without it there are none. */
  readonly snapshots?: Snapshots | undefined;
  /** Called with blocks between which a transfer is missing, if a followed block shows it. */
  readonly onDoubt?: ((stream: StreamName, blocks: BlocksInDoubt) => void) | undefined;
  /** Replaces `SNAPSHOT_EVERY` in tests. */
  readonly snapshotEvery?: number | undefined;
}

/** Least transfers folded before a snapshot is written: 40 ms of folding. */
const SNAPSHOT_EVERY = 200_000;
/** For a large history, the least share of its transfers folded before a snapshot is written. */
const SNAPSHOT_SHARE = 0.25;
/** Attempts per snapshot. A collection that changes during each write must not be written forever. */
const SNAPSHOT_ATTEMPTS = 3;
/** Concurrent hydrations. The cache doesn't count their memory yet, and each one slows down the rest. */
const MAX_HYDRATIONS = 16;
/** Bytes per read of the log. */
const READ_BYTES = 256 * 1024;
/** Transfers of followed blocks folded per slice, before requests get their turn: 0.1 ms of the request thread. */
const SLICE = 500;
/** The same for a hydration, which a request waits for: 1 ms. */
const HYDRATION_SLICE = 5_000;

export class CollectionProjections {
  readonly #log: EventLog;
  readonly #logger: Logger;
  readonly #hot: LRUCache<StreamName, HotCollection>;
  readonly #hydrating = new Map<StreamName, Promise<HotCollection>>();
  readonly #slots = new Semaphore(MAX_HYDRATIONS);
  /** Number of running catch-ups. */
  #catchingUp = 0;
  /** Newest version announced while the stream is being hydrated. */
  readonly #announcedVersions = new Map<StreamName, number>();
  readonly #listeners = new Set<CollectionListener>();
  readonly #pinned = new Map<StreamName, number>();
  readonly #unsubscribe: () => void;
  readonly #snapshots: Snapshots | undefined;
  readonly #snapshotEvery: number;
  readonly #onDoubt: ProjectionsOptions["onDoubt"];
  /** The queue of snapshots: one is written at a time. */
  #saving: Promise<void> = Promise.resolve();
  readonly #toSave = new Set<HotCollection>();
  #closed = false;

  constructor({ log, logger, maxBytes, snapshots, onDoubt, snapshotEvery = SNAPSHOT_EVERY }: ProjectionsOptions) {
    this.#log = log;
    this.#logger = logger;
    this.#snapshots = snapshots;
    this.#snapshotEvery = snapshotEvery;
    this.#onDoubt = onDoubt;
    // Cap the size at the cache's: the cache would refuse a larger one, and each request would fold it again.
    const sizeCalculation = ({ collection }: HotCollection) => Math.min(maxBytes, Math.max(1, sizeOf(collection)));
    this.#hot = new LRUCache({ maxSize: maxBytes, sizeCalculation });
    this.#unsubscribe = log.subscribe((stream, version, appended) => this.#onWakeUp(stream, version, appended));
  }

  /** Bytes and number of the collections in memory. */
  stats(): { bytes: number; collections: number } {
    return { bytes: this.#hot.calculatedSize, collections: this.#hot.size };
  }

  /** Transfers that the contracts in memory should not have been able to make. */
  anomalies(): number {
    let count = 0;
    for (const { collection } of this.#hot.values()) count += collection.ledger.anomalies;
    return count;
  }

  /** The collection as the log has it; version 0 if it was never requested. */
  async get(chainId: number, address: Address): Promise<Collection> {
    const stream = nftStream(chainId, address);
    const hot = this.#hot.get(stream);
    if (hot !== undefined) return hot.collection;
    return (await this.#hydrate(stream)).collection;
  }

  /** Like `get`, but reads the log's head first: another process may have appended events without a wake-up yet. */
  async newest(chainId: number, address: Address): Promise<Collection> {
    const stream = nftStream(chainId, address);
    const { version } = await this.#log.head(stream);
    const collection = await this.get(chainId, address);
    await this.#catchUpTo(stream, version);
    return this.#hot.peek(stream)?.collection ?? collection;
  }

  /** Streams of a chain that have their collection in memory. */
  hotOf(chainId: number): StreamName[] {
    const prefix = `nft/${chainId}/`;
    return [...this.#hot.keys()].filter((stream) => stream.startsWith(prefix));
  }

  /** The collection if it is in memory. */
  peek(stream: StreamName): Collection | undefined {
    return this.#hot.get(stream)?.collection;
  }

  /**
   * Keeps the stream followed while it has subscribers, even after an eviction. Returns the function that releases it.
   */
  pin(stream: StreamName): () => void {
    this.#pinned.set(stream, (this.#pinned.get(stream) ?? 0) + 1);
    return () => {
      const left = (this.#pinned.get(stream) ?? 1) - 1;
      if (left === 0) this.#pinned.delete(stream);
      else this.#pinned.set(stream, left);
    };
  }

  subscribe(listener: CollectionListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Resolves once every collection of the chain in memory has reached the log's current version. It doesn't wait for
   * hydrations, but they also reach that version before they resolve.
   */
  async settle(chainId: number): Promise<void> {
    const prefix = `nft/${chainId}/`;
    const streams = [...this.#hot.keys(), ...this.#hydrating.keys()].filter((stream) => stream.startsWith(prefix));
    if (streams.length === 0) return;
    const heads = await this.#log.heads(streams);
    await Promise.all(heads.map(({ stream, version }) => this.#catchUpTo(stream, version)));
  }

  #catchUpTo(stream: StreamName, version: number): Promise<void> | undefined {
    const hot = this.#hot.peek(stream);
    if (hot === undefined) {
      this.#noteVersion(stream, version);
      return undefined;
    }
    return hot.collection.version < version ? this.#catchUp(hot, version) : undefined;
  }

  /** Makes a running hydration read on to this version. */
  #noteVersion(stream: StreamName, version: number): void {
    if (this.#hydrating.has(stream))
      this.#announcedVersions.set(stream, Math.max(version, this.#announcedVersions.get(stream) ?? 0));
  }

  #onWakeUp(stream: StreamName, version: number, appended: readonly Recorded[] | undefined): void {
    if (!stream.startsWith("nft/")) return;
    const hot = this.#hot.peek(stream);
    if (hot !== undefined) {
      if (hot.collection.version >= version) return;
      if (appended !== undefined) hot.appended.add(appended as readonly Recorded<NftEvent>[]);
      this.#background(this.#catchUp(hot, version), stream);
    } else if (this.#hydrating.has(stream)) {
      this.#noteVersion(stream, version);
    } else if (this.#pinned.has(stream)) {
      this.#background(this.#hydrate(stream), stream);
    }
  }

  #background(work: Promise<unknown>, stream: StreamName): void {
    work.catch((error: unknown) => {
      if (!isAbort(error)) this.#logger.error({ err: error, stream }, "failed to fold new events of a collection");
    });
  }

  #hydrate(stream: StreamName): Promise<HotCollection> {
    let hydrating = this.#hydrating.get(stream);
    if (hydrating === undefined) {
      hydrating = this.#slots
        .run(() => this.#load(stream))
        .finally(() => {
          this.#hydrating.delete(stream);
          this.#announcedVersions.delete(stream);
        });
      this.#hydrating.set(stream, hydrating);
    }
    return hydrating;
  }

  async #load(stream: StreamName): Promise<HotCollection> {
    // Many hydrations may start at once, and the first slice of each takes up to a millisecond.
    if (this.#hydrating.size > 0) await yieldToEventLoop();
    const collection = (await this.#snapshots?.load(stream)) ?? initialState();
    const hot: HotCollection = {
      stream,
      collection,
      appended: new AppendedEvents(),
      folded: 0,
      attempts: 0,
      catching: undefined,
      targetVersion: 0,
    };
    // Wake-ups don't reach it before it is in the cache, so read on until the newest announced version is folded.
    do {
      this.#announcedVersions.delete(stream);
      while ((await this.#readOn(hot, HYDRATION_SLICE, true)) > 0);
    } while ((this.#announcedVersions.get(stream) ?? 0) > hot.collection.version);
    hot.collection.ledger.trim();
    // Don't cache a stream without events: requests for made-up addresses would fill the cache.
    if (hot.collection.version > 0) this.#hot.set(stream, hot);
    this.#offerToSave(hot);
    return hot;
  }

  /** Folds one page of the log in slices of `slice` transfers. Returns its number of events. */
  async #readOn(hot: HotCollection, slice: number, isReadingOn = false): Promise<number> {
    const from = hot.collection.version + 1;
    let page: Recorded[] = hot.appended.take(from, READ_BYTES);
    if (page.length === 0) page = await this.#log.read(hot.stream, { from, maxBytes: READ_BYTES, isReadingOn });
    let folded = 0;
    for (const recorded of page as Recorded<NftEvent>[]) {
      const { anomalies } = hot.collection.ledger;
      for (const _ of evolveInSlices(hot.collection, recorded, slice)) await yieldToEventLoop();
      if (hot.collection.ledger.anomalies > anomalies) this.#doubt(hot, recorded);
      const count = recorded.event.type === "TransfersCommitted" ? recorded.event.count : 1;
      folded += count;
      hot.folded += count;
      if (this.#hot.has(hot.stream) || this.#pinned.has(hot.stream)) {
        for (const listener of this.#listeners) listener(hot.stream, hot.collection, recorded);
      }
      if (folded >= slice) {
        folded = 0;
        await yieldToEventLoop();
      }
    }
    if (page.length > 0) await yieldToEventLoop();
    return page.length;
  }

  /** Reports blocks with a missing transfer, if the event is of a followed block. */
  #doubt({ stream, collection: { ledger } }: HotCollection, { event }: Recorded<NftEvent>): void {
    const { missingTransferRange } = ledger;
    const isFollowed = event.type === "TransfersCommitted" && event.chainVersion !== undefined;
    if (missingTransferRange !== undefined && isFollowed && this.#hot.has(stream))
      this.#onDoubt?.(stream, missingTransferRange);
  }

  /** Resolves once the collection is at `version`, or at the end of the log. */
  async #catchUp(hot: HotCollection, version: number): Promise<void> {
    hot.targetVersion = Math.max(hot.targetVersion, version);
    while (hot.collection.version < version) {
      // The running catch-up may have checked the version already, so start another one after it if needed.
      if (hot.catching !== undefined) await hot.catching;
      else {
        const before = hot.collection.version;
        hot.catching = this.#run(hot).finally(() => {
          hot.catching = undefined;
        });
        await hot.catching;
        if (hot.collection.version === before) return;
      }
    }
  }

  async #run(hot: HotCollection): Promise<void> {
    // One block may move many collections, and folding all of them is too much for one turn of the event loop.
    if (this.#catchingUp++ > 0) await yieldToEventLoop();
    try {
      while (hot.collection.version < hot.targetVersion && (await this.#readOn(hot, SLICE)) > 0);
    } catch (error) {
      // The state may be half folded. Drop it; the next request hydrates it again.
      this.#hot.delete(hot.stream);
      throw error;
    } finally {
      this.#catchingUp--;
    }
    hot.appended.drop(hot.collection.version);
    this.#weigh(hot);
    this.#offerToSave(hot);
  }

  /** Updates the size of a collection in the cache, after readers added indexes to it. */
  updateSize(chainId: number, address: Address): void {
    const hot = this.#hot.peek(nftStream(chainId, address));
    if (hot !== undefined) this.#weigh(hot);
  }

  #weigh(hot: HotCollection): void {
    const { stream } = hot;
    if (this.#hot.peek(stream) !== hot) return;
    // The cache keeps the old size if the same value is set again, so delete it first.
    this.#hot.delete(stream);
    this.#hot.set(stream, hot);
  }

  /** Queues a snapshot, if the collection is synced and enough was folded since the last one. */
  #offerToSave(hot: HotCollection): void {
    const { status, ledger } = hot.collection;
    const transfers = ledger.owners.count + ledger.balances.count;
    const least = Math.max(this.#snapshotEvery, transfers * SNAPSHOT_SHARE);
    if (this.#snapshots === undefined || status !== "synced" || hot.folded < least || this.#toSave.has(hot)) return;
    this.#toSave.add(hot);
    this.#saving = this.#saving.then(() => this.#save(hot));
  }

  /** Writes a queued snapshot. Gives up if the collection changes meanwhile. */
  async #save(hot: HotCollection): Promise<void> {
    // The catch-up that queued this snapshot is about to end.
    await hot.catching?.catch(() => undefined);
    this.#toSave.delete(hot);
    const { stream, collection } = hot;
    const isOver = (): boolean => this.#closed || hot.catching !== undefined || this.#hot.peek(stream) !== hot;
    let isDone = ++hot.attempts === SNAPSHOT_ATTEMPTS;
    try {
      if (!isOver() && (await this.#snapshots?.save(stream, collection, isOver)) === true) isDone = true;
    } catch (error) {
      isDone = true;
      if (!this.#closed) this.#logger.warn({ err: error, stream }, "failed to write a snapshot");
    }
    // Otherwise the next catch-up queues it again.
    if (isDone) [hot.folded, hot.attempts] = [0, 0];
  }

  /** Stops following the log. Resolves once no snapshot is being written. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#unsubscribe();
    this.#hot.clear();
    await this.#saving;
  }
}
