/**
 * The collections in memory: a cache of projections that is never ahead of the shown chain, with snapshots of large
 * histories, and a report of blocks in which a followed collection lacks a transfer.
 */
import type { PublishedChain } from "../../chain/view.ts";
import type { Address } from "../../core/hex.ts";
import type { Logger } from "../../core/logger.ts";
import {
  type BlockRange,
  type HeaderRef,
  type NftEvent,
  nftStream,
  parseStream,
  type Recorded,
  type StreamName,
} from "../../events/types.ts";
import type { EventLog } from "../../log/event-log.ts";
import { HotStreams } from "../../log/hot-streams.ts";
import { AheadEvents } from "./ahead-events.ts";
import { type Collection, evolveInSlices, initialState, sizeOf } from "./collection.ts";
import { foldableOf } from "./event-place.ts";
import { fromHeadline } from "./headline.ts";
import type { Snapshots } from "./snapshots.ts";

/** Called after each folded event. */
type CollectionListener = (stream: StreamName, collection: Collection, recorded: Recorded<NftEvent>) => void;

type ShownClock = Pick<PublishedChain, "shows" | "head" | "newest">;

interface ProjectionsOptions {
  readonly log: EventLog;
  readonly logger: Logger;
  /** Bytes of all collections in memory together. */
  readonly maxBytes: number;
  /** The clock of an enabled chain. Collections of other chains are folded as the log has them. */
  readonly clockOf?: (chainId: number) => ShownClock | undefined;
  /** Stores snapshots of large collections; without it there are none. */
  readonly snapshots?: Snapshots | undefined;
  /** Called with blocks between which a transfer is missing, if a followed block shows it. */
  readonly onDoubt?: ((stream: StreamName, blocks: BlockRange) => void) | undefined;
  /** Called with each read of a collection. @param isHit false if it was not in memory */
  readonly onRead?: ((isHit: boolean) => void) | undefined;
  /** Replaces `SNAPSHOT_EVERY` in tests. */
  readonly snapshotEvery?: number | undefined;
}

/** Work since the last snapshot of a collection. */
interface Unsaved {
  /** Transfers folded. */
  folded: number;
  /** Attempts to write a snapshot of them. */
  attempts: number;
  isQueued: boolean;
}

/** Least transfers folded before a snapshot is written: 40 ms of folding. */
const SNAPSHOT_EVERY = 200_000;
/** For a large history, the least share of its transfers folded before a snapshot is written. */
const SNAPSHOT_SHARE = 0.25;
/** Attempts per snapshot. A collection that changes during each write must not be written forever. */
const SNAPSHOT_ATTEMPTS = 3;

export class HotCollections {
  readonly #options: ProjectionsOptions;
  readonly #hot: HotStreams<Collection, NftEvent>;
  readonly #listeners = new Set<CollectionListener>();
  readonly #unsaved = new WeakMap<Collection, Unsaved>();
  readonly #ahead = new WeakMap<Collection, AheadEvents>();
  /** The queue of snapshots: one is written at a time. */
  #saving: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: ProjectionsOptions) {
    this.#options = options;
    const { log, logger, maxBytes } = options;
    this.#hot = new HotStreams({
      log,
      logger,
      maxBytes,
      kind: "nft",
      keepsEmpty: false,
      projection: {
        load: (stream) => this.#load(stream),
        foldable: (stream, page) => foldableOf(page, this.#clockOf(stream)),
        evolve: (stream, collection, recorded, slice) => this.#evolve(stream, collection, recorded, slice),
        weight: transfersOf,
        bytes: sizeOf,
        trim: ({ ledger }) => ledger.trim(),
      },
      onEvent: (stream, collection, recorded) => {
        this.#unsavedOf(collection).folded += transfersOf(recorded.event);
        this.#ahead.getOrInsertComputed(collection, () => new AheadEvents()).note(recorded, this.#headOf(stream));
        if (!this.#hot.isFollowed(stream)) return;
        for (const listener of this.#listeners) listener(stream, collection, recorded);
      },
      onRead: (isHit) => this.#options.onRead?.(isHit),
      onCaughtUp: (stream, collection) => this.#offerToSave(stream, collection),
    });
  }

  /** Bytes and number of the collections in memory. */
  stats(): { bytes: number; collections: number } {
    return { bytes: this.#hot.bytes, collections: this.#hot.size };
  }

  /** Transfers that the contracts in memory should not have been able to make. */
  anomalies(): number {
    let count = 0;
    for (const { ledger } of this.#hot.states()) count += ledger.anomalies;
    return count;
  }

  /** The collection as the log has it; version 0 if it was never requested. */
  get(chainId: number, address: Address): Promise<Collection> {
    return this.#hot.get(nftStream(chainId, address));
  }

  /** Like `get`, but reads the log's head first: another process may have appended events without a wake-up yet. */
  newest(chainId: number, address: Address): Promise<Collection> {
    return this.#hot.newest(nftStream(chainId, address));
  }

  /** Like `newest`, but a collection that is not in memory is not kept there either. For work in the background. */
  apart(chainId: number, address: Address): Promise<Collection> {
    return this.#hot.apart(nftStream(chainId, address));
  }

  /** Streams of a chain that have their collection in memory. */
  hotOf(chainId: number): StreamName[] {
    return this.#hot.names(`nft/${chainId}/`);
  }

  /** The collection if it is in memory. */
  peek(stream: StreamName): Collection | undefined {
    return this.#hot.peek(stream);
  }

  /**
   * Newest version of a collection that readers of its chain see. The collection has a later one while the chain moves, and
   * after a move that failed.
   */
  shownVersion(stream: StreamName, collection: Collection): number {
    const first = this.#ahead.get(collection)?.first(this.#headOf(stream));
    return first === undefined ? collection.version : first - 1;
  }

  /** Keeps the stream followed while it has subscribers. Returns the function that releases it. */
  pin(stream: StreamName): () => void {
    return this.#hot.pin(stream);
  }

  subscribe(listener: CollectionListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Brings the collections of the chain in memory to what the chain's clock shows. Without a new head only those go on that
   * had more in the log than was shown.
   */
  bringTo(chainId: number, head: HeaderRef | undefined): Promise<void> {
    const prefix = `nft/${chainId}/` as const;
    return head === undefined ? this.#hot.resume(prefix) : this.#hot.settle(prefix);
  }

  /** Resolves once the catch-ups that are running now have ended. */
  caughtUp(): Promise<void> {
    return this.#hot.caughtUp();
  }

  /** Updates the size of a collection in the cache, after readers added indexes to it. */
  updateSize(chainId: number, address: Address): void {
    this.#hot.updateSize(nftStream(chainId, address));
  }

  #clockOf(stream: StreamName): ShownClock | undefined {
    return this.#options.clockOf?.(parseStream(stream).chainId);
  }

  /** Number of the shown head; infinite for a chain without one. */
  #headOf(stream: StreamName): number {
    return this.#clockOf(stream)?.head()?.number ?? Number.POSITIVE_INFINITY;
  }

  /** The state that a hydration begins with: a snapshot, unless another process wrote it at a later moment than is shown. */
  async #load(stream: StreamName): Promise<Collection> {
    const { log, snapshots } = this.#options;
    const { base } = fromHeadline((await log.head(stream)).headline);
    const saved = await snapshots?.load(stream);
    if (saved === undefined || saved.base < base) return initialState(base);
    const clock = this.#clockOf(stream);
    const { chainVersion, end } = saved;
    // A history without followed blocks is final, and counts independent of the head.
    const place = { chainVersion, block: chainVersion === 0 ? 0 : (end?.number ?? 0) };
    const isShown = (): boolean => clock?.shows(place) !== false && place.block <= this.#headOf(stream);
    if (!isShown()) await clock?.newest();
    return isShown() ? saved : initialState(base);
  }

  /** Folds an event, and reports blocks with a missing transfer if the event is of a followed block. */
  *#evolve(stream: StreamName, collection: Collection, recorded: Recorded<NftEvent>, slice: number): Generator<void> {
    const { anomalies } = collection.ledger;
    yield* evolveInSlices(collection, recorded, slice);
    const { missingTransferRange } = collection.ledger;
    if (collection.ledger.anomalies <= anomalies || missingTransferRange === undefined) return;
    const { event } = recorded;
    const isFollowed = event.type === "TransfersCommitted" && event.chainVersion !== undefined;
    if (isFollowed && this.#hot.peek(stream) === collection) this.#options.onDoubt?.(stream, missingTransferRange);
  }

  #unsavedOf(collection: Collection): Unsaved {
    let unsaved = this.#unsaved.get(collection);
    if (unsaved === undefined) {
      unsaved = { folded: 0, attempts: 0, isQueued: false };
      this.#unsaved.set(collection, unsaved);
    }
    return unsaved;
  }

  /** Queues a snapshot, if the collection is synced and enough was folded since the last one. */
  #offerToSave(stream: StreamName, collection: Collection): void {
    const { snapshots, snapshotEvery = SNAPSHOT_EVERY } = this.#options;
    const { status, ledger } = collection;
    const unsaved = this.#unsavedOf(collection);
    const least = Math.max(snapshotEvery, (ledger.owners.count + ledger.balances.count) * SNAPSHOT_SHARE);
    if (snapshots === undefined || status !== "synced" || unsaved.folded < least || unsaved.isQueued) return;
    unsaved.isQueued = true;
    this.#saving = this.#saving.then(() => this.#save(snapshots, stream, collection));
  }

  /** Writes a queued snapshot. Gives up if the collection changes meanwhile. */
  async #save(snapshots: Snapshots, stream: StreamName, collection: Collection): Promise<void> {
    // The catch-up that queued this snapshot is about to end.
    await this.#hot.catchUpOf(stream)?.catch(() => undefined);
    const unsaved = this.#unsavedOf(collection);
    unsaved.isQueued = false;
    const isOver = (): boolean =>
      this.#closed || this.#hot.catchUpOf(stream) !== undefined || this.#hot.peek(stream) !== collection;
    let isDone = ++unsaved.attempts === SNAPSHOT_ATTEMPTS;
    try {
      if (!isOver() && (await snapshots.save(stream, collection, isOver))) isDone = true;
    } catch (error) {
      isDone = true;
      if (!this.#closed) this.#options.logger.warn({ err: error, stream }, "failed to write a snapshot");
    }
    // Otherwise the next catch-up queues it again.
    if (isDone) [unsaved.folded, unsaved.attempts] = [0, 0];
  }

  /** Stops following the log. Resolves once no snapshot is being written. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#hot.close();
    await this.#saving;
  }
}

const transfersOf = (event: NftEvent): number => (event.type === "TransfersCommitted" ? event.count : 1);
