/**
 * The collections in memory: hydrated from the log when first asked for, kept current by its wake-ups, evicted by bytes.
 * Whoever asks gets the state as it is; nobody waits for a node.
 */
import { LRUCache } from "lru-cache";
import { isAbort } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import { otherWork } from "../core/own-thread.ts";
import { Slots } from "../core/slots.ts";
import { type NftEvent, nftStream, type Recorded, type StreamName } from "../events/types.ts";
import type { EventLog } from "../log/port.ts";
import { AppendedEvents } from "./appended.ts";
import { type Collection, evolving, initialState, sizeOf } from "./collection.ts";
import type { Snapshots } from "./snapshots.ts";

/** A fold step as subscribers hear of it, after it was made. */
export type CollectionListener = (stream: StreamName, collection: Collection, recorded: Recorded<NftEvent>) => void;

/** Both included. */
export interface BlocksInDoubt {
  readonly fromBlock: number;
  readonly toBlock: number;
}

interface Hot {
  readonly stream: StreamName;
  readonly collection: Collection;
  readonly appended: AppendedEvents;
  /** Transfers folded that no snapshot has, and how often one was begun for them. */
  folded: number;
  attempts: number;
  /** The one catch-up under way. */
  catching: Promise<void> | undefined;
  wanted: number;
}

export interface ProjectionsOptions {
  readonly log: EventLog;
  readonly logger: Logger;
  /** Bytes of all hot collections together. */
  readonly maxBytes: number;
  /** Where large collections are kept beside the log; nowhere without. */
  readonly snapshots?: Snapshots | undefined;
  /** Hears of blocks between which a transfer is missing, when a followed block shows that one is. */
  readonly onDoubt?: ((stream: StreamName, blocks: BlocksInDoubt) => void) | undefined;
  /** Transfers folded before a snapshot is worth its file, for tests. */
  readonly snapshotEvery?: number | undefined;
}

/** Transfers folded before a snapshot is worth its file: 40 ms of folding; of a larger history, a part of it. */
const SNAPSHOT_EVERY = 200_000;
const SNAPSHOT_SHARE = 0.25;
/** A collection that changes while it is written is not written for ever anew. */
const SNAPSHOT_ATTEMPTS = 3;
/** Hydrations at a time: what is half read counts nowhere as memory yet, and who waits for one waits for all beside it. */
const AT_ONCE = 16;
/** Bytes of one read. */
const READ_BYTES = 256 * 1024;
/**
 * Transfers folded in one go, before requests have their turn: of what is followed, a tenth of a millisecond of the
 * request thread; of what somebody waits for, one.
 */
const SLICE = 500;
const HYDRATION_SLICE = 5_000;

export class CollectionProjections {
  readonly #log: EventLog;
  readonly #logger: Logger;
  readonly #hot: LRUCache<StreamName, Hot>;
  readonly #hydrating = new Map<StreamName, Promise<Hot>>();
  readonly #slots = new Slots(AT_ONCE);
  /** Collections that are being brought up to date. */
  #catchingUp = 0;
  /** Newest version heard of while a stream was being hydrated. */
  readonly #heard = new Map<StreamName, number>();
  readonly #listeners = new Set<CollectionListener>();
  readonly #pinned = new Map<StreamName, number>();
  readonly #unsubscribe: () => void;
  readonly #snapshots: Snapshots | undefined;
  readonly #snapshotEvery: number;
  readonly #onDoubt: ProjectionsOptions["onDoubt"];
  /** One is written at a time. */
  #saving: Promise<void> = Promise.resolve();
  readonly #toSave = new Set<Hot>();
  #closed = false;

  constructor({ log, logger, maxBytes, snapshots, onDoubt, snapshotEvery = SNAPSHOT_EVERY }: ProjectionsOptions) {
    this.#log = log;
    this.#logger = logger;
    this.#snapshots = snapshots;
    this.#snapshotEvery = snapshotEvery;
    this.#onDoubt = onDoubt;
    // One larger than all the room there is takes all of it: a cache that refused it would have each request fold it anew.
    const sizeCalculation = ({ collection }: Hot) => Math.min(maxBytes, Math.max(1, sizeOf(collection)));
    this.#hot = new LRUCache({ maxSize: maxBytes, sizeCalculation });
    this.#unsubscribe = log.subscribe((stream, version, appended) => this.#onWakeUp(stream, version, appended));
  }

  /** Bytes of the hot collections, and how many there are. */
  stats(): { bytes: number; collections: number } {
    return { bytes: this.#hot.calculatedSize, collections: this.#hot.size };
  }

  /** Transfers of the hot collections that their contracts should not have been able to make. */
  anomalies(): number {
    let count = 0;
    for (const { collection } of this.#hot.values()) count += collection.ledger.anomalies;
    return count;
  }

  /** The collection as far as the log has it; version 0 when nobody ever asked for it. */
  async get(chainId: number, address: Address): Promise<Collection> {
    const stream = nftStream(chainId, address);
    const hot = this.#hot.get(stream);
    if (hot !== undefined) return hot.collection;
    return (await this.#hydrate(stream)).collection;
  }

  /** As `get`, with all that is in the log at this moment: another process may have appended what no wake-up told yet. */
  async newest(chainId: number, address: Address): Promise<Collection> {
    const stream = nftStream(chainId, address);
    const { version } = await this.#log.head(stream);
    const collection = await this.get(chainId, address);
    await this.#catchUpTo(stream, version);
    return this.#hot.peek(stream)?.collection ?? collection;
  }

  /** Streams of a chain that are in memory. */
  hotOf(chainId: number): StreamName[] {
    const prefix = `nft/${chainId}/`;
    return [...this.#hot.keys()].filter((stream) => stream.startsWith(prefix));
  }

  /** The collection when it is in memory. */
  peek(stream: StreamName): Collection | undefined {
    return this.#hot.get(stream)?.collection;
  }

  /** Keeps the stream followed, hot or not, for as long as somebody listens to it. Returns the release. */
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
   * Resolves once every hot collection of the chain is at least where the log is now. One that is being hydrated is not
   * waited for, but will be as far before anybody sees it.
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
      this.#hear(stream, version);
      return undefined;
    }
    return hot.collection.version < version ? this.#catchUp(hot, version) : undefined;
  }

  /** Has a hydration under way read on to this version. */
  #hear(stream: StreamName, version: number): void {
    if (this.#hydrating.has(stream)) this.#heard.set(stream, Math.max(version, this.#heard.get(stream) ?? 0));
  }

  #onWakeUp(stream: StreamName, version: number, appended: readonly Recorded[] | undefined): void {
    if (!stream.startsWith("nft/")) return;
    const hot = this.#hot.peek(stream);
    if (hot !== undefined) {
      if (hot.collection.version >= version) return;
      if (appended !== undefined) hot.appended.add(appended as readonly Recorded<NftEvent>[]);
      this.#background(this.#catchUp(hot, version), stream);
    } else if (this.#hydrating.has(stream)) {
      this.#hear(stream, version);
    } else if (this.#pinned.has(stream)) {
      this.#background(this.#hydrate(stream), stream);
    }
  }

  #background(work: Promise<unknown>, stream: StreamName): void {
    work.catch((error: unknown) => {
      if (!isAbort(error)) this.#logger.error({ err: error, stream }, "a collection could not be brought up to date");
    });
  }

  #hydrate(stream: StreamName): Promise<Hot> {
    let hydrating = this.#hydrating.get(stream);
    if (hydrating === undefined) {
      hydrating = this.#slots
        .run(() => this.#load(stream))
        .finally(() => {
          this.#hydrating.delete(stream);
          this.#heard.delete(stream);
        });
      this.#hydrating.set(stream, hydrating);
    }
    return hydrating;
  }

  async #load(stream: StreamName): Promise<Hot> {
    // Many may be asked for at once, and even the first slice of each is a millisecond.
    if (this.#hydrating.size > 0) await otherWork();
    const collection = (await this.#snapshots?.load(stream)) ?? initialState();
    const hot: Hot = {
      stream,
      collection,
      appended: new AppendedEvents(),
      folded: 0,
      attempts: 0,
      catching: undefined,
      wanted: 0,
    };
    // Before it is in the cache no wake-up reaches it, so it is read until there is nothing more to read.
    do {
      this.#heard.delete(stream);
      while ((await this.#readOn(hot, HYDRATION_SLICE, true)) > 0);
    } while ((this.#heard.get(stream) ?? 0) > hot.collection.version);
    hot.collection.ledger.trim();
    // A stream nobody wrote is not worth a place: anybody could fill the cache with made-up addresses.
    if (hot.collection.version > 0) this.#hot.set(stream, hot);
    this.#offerToSave(hot);
    return hot;
  }

  /** Folds one page, so many transfers at a time; returns how many events it had. */
  async #readOn(hot: Hot, slice: number, isReadingOn = false): Promise<number> {
    const from = hot.collection.version + 1;
    let page: Recorded[] = hot.appended.take(from, READ_BYTES);
    if (page.length === 0) page = await this.#log.read(hot.stream, { from, maxBytes: READ_BYTES, isReadingOn });
    let folded = 0;
    for (const recorded of page as Recorded<NftEvent>[]) {
      const { anomalies } = hot.collection.ledger;
      for (const _ of evolving(hot.collection, recorded, slice)) await otherWork();
      if (hot.collection.ledger.anomalies > anomalies) this.#doubt(hot, recorded);
      const count = recorded.event.type === "TransfersCommitted" ? recorded.event.count : 1;
      folded += count;
      hot.folded += count;
      if (this.#hot.has(hot.stream) || this.#pinned.has(hot.stream)) {
        for (const listener of this.#listeners) listener(hot.stream, hot.collection, recorded);
      }
      if (folded >= slice) {
        folded = 0;
        await otherWork();
      }
    }
    if (page.length > 0) await otherWork();
    return page.length;
  }

  /** Says where a transfer is missing, if a block that was just followed shows it. */
  #doubt({ stream, collection: { ledger } }: Hot, { event }: Recorded<NftEvent>): void {
    const { doubt } = ledger;
    const isFollowed = event.type === "TransfersCommitted" && event.chainVersion !== undefined;
    if (doubt !== undefined && isFollowed && this.#hot.has(stream)) this.#onDoubt?.(stream, doubt);
  }

  /** Resolves once the collection is at `version`, or has read all there is. */
  async #catchUp(hot: Hot, version: number): Promise<void> {
    hot.wanted = Math.max(hot.wanted, version);
    while (hot.collection.version < version) {
      // One that is under way may be past the point where it would have seen what is wanted now: then another follows.
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

  async #run(hot: Hot): Promise<void> {
    // Many may move in one block, and what it brought to all of them is too much for one turn.
    if (this.#catchingUp++ > 0) await otherWork();
    try {
      while (hot.collection.version < hot.wanted && (await this.#readOn(hot, SLICE)) > 0);
    } catch (error) {
      // A state that stopped half-way must not be served: it is dropped and read anew.
      this.#hot.delete(hot.stream);
      throw error;
    } finally {
      this.#catchingUp--;
    }
    hot.appended.drop(hot.collection.version);
    this.#weigh(hot);
    this.#offerToSave(hot);
  }

  /** The collection's readers have left in it what they will want again, indexes: the cache makes room for that, too. */
  weigh(chainId: number, address: Address): void {
    const hot = this.#hot.peek(nftStream(chainId, address));
    if (hot !== undefined) this.#weigh(hot);
  }

  #weigh(hot: Hot): void {
    const { stream } = hot;
    if (this.#hot.peek(stream) !== hot) return;
    // What is stored in its own place keeps the size it had there.
    this.#hot.delete(stream);
    this.#hot.set(stream, hot);
  }

  /** Has a collection written down that took long to fold, once nothing of its history is missing. */
  #offerToSave(hot: Hot): void {
    const { status, ledger } = hot.collection;
    const transfers = ledger.owners.count + ledger.balances.count;
    const least = Math.max(this.#snapshotEvery, transfers * SNAPSHOT_SHARE);
    if (this.#snapshots === undefined || status !== "synced" || hot.folded < least || this.#toSave.has(hot)) return;
    this.#toSave.add(hot);
    this.#saving = this.#saving.then(() => this.#save(hot));
  }

  /** Resolves once it is written, or left since it goes on meanwhile. */
  async #save(hot: Hot): Promise<void> {
    // The catch-up that it was offered by ends with this.
    await hot.catching?.catch(() => undefined);
    this.#toSave.delete(hot);
    const { stream, collection } = hot;
    const isOver = (): boolean => this.#closed || hot.catching !== undefined || this.#hot.peek(stream) !== hot;
    let isDone = ++hot.attempts === SNAPSHOT_ATTEMPTS;
    try {
      if (!isOver() && (await this.#snapshots?.save(stream, collection, isOver)) === true) isDone = true;
    } catch (error) {
      isDone = true;
      if (!this.#closed) this.#logger.warn({ err: error, stream }, "a snapshot could not be written");
    }
    // Else the next block of its transfers offers it again.
    if (isDone) [hot.folded, hot.attempts] = [0, 0];
  }

  /** Resolves once nothing is written any more. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#unsubscribe();
    this.#hot.clear();
    await this.#saving;
  }
}
