/**
 * The subscriptions to collections. Every message is derived from the collection's own stream as the projection folds it, so
 * a client that reconnects catches up by a replay of the stream. A message is sent only when pages show its block, and is
 * serialised once for all subscribers.
 */
import type { Moved, PublishedChain } from "../chain/view.ts";
import type { Chains } from "../chains/chains.ts";
import type { Clock } from "../core/clock.ts";
import { invariant, isAbort } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import { yieldToEventLoop } from "../core/turns.ts";
import {
  type BlockRef,
  type NftEvent,
  nftStream,
  parseStream,
  type Recorded,
  type StreamName,
} from "../events/types.ts";
import type { EventLog } from "../log/event-log.ts";
import type { Collection } from "../nft/collections/collection.ts";
import { keptUpTo, placeOf } from "../nft/collections/event-place.ts";
import type { HotCollections } from "../nft/collections/hot-collections.ts";
import type { Delay, Verdict } from "../nft/indexing/candidates.ts";
import type { Demand } from "../nft/indexing/demand.ts";
import { currentBlock, type PageChain } from "../nft/walks/snapshot.ts";
import type { Mark } from "./mark.ts";
import type { SocketLimits } from "./message-models.ts";
import {
  failedMessage,
  failureMessage,
  indexedMessage,
  isProgress,
  type MessageSubject,
  messageOfEvent,
  metadataMessage,
  notAContractMessage,
  progressMessage,
  revertedMessage,
  statusMessage,
} from "./messages.ts";
import { Broadcast, Throttle } from "./pacing.ts";
import type { StreamSubscription } from "./subscription.ts";
import { UnsentEvents } from "./unsent-events.ts";

/** The shown chain. */
type ChainClock = PageChain & Pick<PublishedChain, "newest">;

export interface CollectionFeedOptions {
  readonly log: EventLog;
  readonly projections: HotCollections;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly chains: Chains;
  /** The clock of an enabled chain id. */
  readonly chainOf: (chainId: number) => ChainClock | undefined;
  /** Takes the requests of clients for collections. */
  readonly demand: Pick<Demand, "request">;
}

/** What a subscription begins with. */
interface BegunSubscription {
  /** The last record that the client has. */
  readonly asked: Mark | undefined;
  /** The limits of the connection, as a field of `status`. */
  readonly limits: { readonly limits?: SocketLimits };
}

/** The mark of a stream without records. */
const UNRECORDED: Mark = { version: 0, checksum: undefined };

/** Most versions replayed after a `since`. */
const MAX_REPLAY = 1_000;
/** Bytes per read of a replay: some hundred transfers, read and sent in less than a millisecond. */
const REPLAY_BYTES = 16 * 1024;
/** Interval of `progress`: at most four a second. */
const PROGRESS_MS = 250;
/** Interval of `metadata`: at most one a second. */
const METADATA_MS = 1_000;

export class CollectionFeed {
  readonly #options: CollectionFeedOptions;
  readonly #byStream = new Map<StreamName, Set<StreamSubscription>>();
  readonly #unsubscribe: () => void;
  readonly #broadcast = new Broadcast<StreamSubscription>();
  readonly #unsent = new UnsentEvents();
  /** Subscriptions whose replay waits until more of their collection is shown, each with what lets it go on. */
  readonly #waiting = new Map<StreamSubscription, () => void>();
  readonly #progress: Throttle<StreamName>;
  readonly #metadata: Throttle<StreamName>;

  constructor(options: CollectionFeedOptions) {
    this.#options = options;
    this.#progress = new Throttle(options.clock, PROGRESS_MS);
    this.#metadata = new Throttle(options.clock, METADATA_MS);
    this.#unsubscribe = options.projections.subscribe((stream, collection, recorded) =>
      this.#onEvent(stream, collection, recorded),
    );
  }

  /** Has a subscription hear of the events of its stream from now on. */
  add(subscription: StreamSubscription): void {
    this.#byStream.getOrInsertComputed(subscription.stream, () => new Set()).add(subscription);
  }

  drop(subscription: StreamSubscription): void {
    this.#wake(subscription);
    const all = this.#byStream.get(subscription.stream);
    all?.delete(subscription);
    if (all?.size === 0) this.#byStream.delete(subscription.stream);
  }

  /**
   * Requests the collection as a page does, tells the client of its state and of what it has missed, and makes the
   * subscription live. @throws AppError; the end of the question
   */
  async begin(subscription: StreamSubscription, begun: BegunSubscription): Promise<void> {
    const { stream, peer } = subscription;
    const { collection, verdict } = await this.#requestCollection(subscription);
    const isLost = begun.asked !== undefined && !(await this.#isInLog(stream, begun.asked));
    if (subscription.isListening) await this.#sendInitialState(subscription, collection, { ...begun, isLost });
    if (verdict === "not_a_contract" && subscription.isListening)
      peer.send(notAContractMessage(this.#subjectOf(stream), collection));
  }

  /**
   * Returns the collection. Like a page request, it requests indexing if new, and identification if due.
   * @returns with the verdict about an address that the log does not record
   */
  async #requestCollection({ stream, peer }: StreamSubscription) {
    const { projections, demand } = this.#options;
    const { chainId, address } = collectionOf(stream);
    const collection = await projections.get(chainId, address);
    const verdict = await demand.request({ chainId, address }, collection, peer.key);
    const isNew = collection.version === 0 || collection.isRemoved;
    return { collection: isNew ? await projections.get(chainId, address) : collection, verdict };
  }

  /**
   * Sends `status`, then `indexed` or `failed` if due, then replays the versions after `since`, then goes live. `status`
   * names the record that the further messages go on from, so that a client that is cut off in between misses none.
   */
  async #sendInitialState(
    subscription: StreamSubscription,
    found: Collection,
    { asked, isLost, limits }: BegunSubscription & { readonly isLost: boolean },
  ): Promise<void> {
    const { stream, peer, connection } = subscription;
    const since = isLost ? undefined : asked?.version;
    const collection = this.#options.projections.peek(stream) ?? found;
    const chain = this.#chainOf(stream);
    // The chain may move at each await, so block and version are taken together.
    const block = chain === undefined ? collection.end : currentBlock(collection, chain);
    const shown = await this.#withChecksum(stream, this.#shownMark(stream, collection));
    if (!subscription.isListening) return;
    // It was indexed anew since, and is complete once more.
    if ((connection.indexed.get(stream) ?? 0) < collection.base) connection.indexed.delete(stream);
    const { knowsIndexed } = subscription;
    const gap = isLost || (since !== undefined && shown.version - since > MAX_REPLAY);
    const indexed =
      collection.completedVersion > shown.version ? undefined : indexedMessage(this.#subjectOf(stream), collection);
    // `status` and `indexed` cover everything up to completion, so a client that neither has nor gets `indexed` needs no replay.
    const isReplayed = asked !== undefined && !gap && (indexed !== undefined || knowsIndexed);
    const mark = isReplayed ? asked : shown;
    peer.send({ ...statusMessage(this.#subjectOf(stream), collection, { mark, block, gap }), ...limits });
    const failure = failureMessage(this.#subjectOf(stream), collection, isReplayed ? undefined : since);
    if (failure !== undefined) peer.send(failure);
    const news = knowsIndexed ? undefined : indexed;
    if (news !== undefined) {
      if (since !== undefined && since >= news.version) connection.indexed.set(stream, news.version);
      else subscription.sendIndexed(news);
    }
    // This replica may not show yet what the client has seen on another one. It is not sent again.
    subscription.startAfter(Math.max(mark.version, since ?? 0, (isReplayed && news?.version) || 0));
    await this.#replay(subscription, collection);
    if (!subscription.isListening || since === undefined) return;
    const now = this.#options.projections.peek(stream) ?? collection;
    const isMissed = since < now.version && now.end !== undefined && now.completed === undefined;
    if (isMissed) peer.send(progressMessage(this.#subjectOf(stream), now, this.#shownMark(stream, now)));
  }

  /** True if the log has the record. Another replica may have told the client of a record that this one has not read. */
  async #isInLog(stream: StreamName, { version, checksum }: Mark): Promise<boolean> {
    const { projections, log } = this.#options;
    const { chainId, address } = collectionOf(stream);
    if (version === 0) return true;
    let collection = projections.peek(stream);
    if (collection === undefined || collection.version < version) {
      // Another replica has shown the client more of the chain.
      await this.#options.chainOf(chainId)?.newest();
      collection = await projections.newest(chainId, address);
    }
    // Events from before the collection was indexed anew may not be readable.
    if (version < collection.base) return false;
    if (collection.version === version && collection.checksum === checksum) return true;
    const found = await log.checksum(stream, version);
    return found !== undefined && (checksum === undefined || found === checksum);
  }

  async #withChecksum(stream: StreamName, { version, checksum }: Mark): Promise<Mark> {
    return { version, checksum: checksum ?? (await this.#options.log.checksum(stream, version)) };
  }

  #subjectOf(stream: StreamName): MessageSubject {
    const { chainId, address } = collectionOf(stream);
    return { chain: this.#options.chains.nameOf(chainId), address };
  }

  #chainOf(stream: StreamName): ChainClock | undefined {
    return this.#options.chainOf(parseStream(stream).chainId);
  }

  /** Returns the newest record of a stream that pages show. Its checksum is not known while the collection is ahead. */
  #shownMark(stream: StreamName, collection: Collection): Mark {
    const version = this.#options.projections.shownVersion(stream, collection);
    return { version, checksum: version === collection.version ? collection.checksum : undefined };
  }

  /**
   * Replays missed events, a few at a time, then makes the subscription live. Yields before each part: thousands of
   * clients can reconnect at once, and HTTP requests must not wait for their replays.
   */
  async #replay(subscription: StreamSubscription, collection: Collection): Promise<void> {
    const { log, projections } = this.#options;
    const { stream } = subscription;
    while (subscription.isListening) {
      // The collection may have been evicted and hydrated again meanwhile.
      const now = projections.peek(stream) ?? collection;
      const end = Math.max(this.#shownMark(stream, now).version, subscription.replayTo);
      if (subscription.sentVersion >= end) {
        if (this.#isHeard(stream, now, end)) {
          subscription.goLive();
          return;
        }
        await new Promise<void>((resolve) => this.#waiting.set(subscription, resolve));
        continue;
      }
      await yieldToEventLoop();
      const from = subscription.sentVersion + 1;
      const page = await log.read(stream, { from, maxBytes: REPLAY_BYTES });
      if (!subscription.isListening) return;
      invariant(page.length > 0, "the log lacks events that the projection has folded", { stream, from, end });
      for (const recorded of page as Recorded<NftEvent>[]) {
        // Pages do not show later events yet.
        if (recorded.version > end) break;
        const isCovered = !subscription.knowsIndexed && isProgress(now, recorded);
        subscription.replay(recorded.version, messageOfEvent(this.#subjectOf(stream), now, recorded, { isCovered }));
      }
    }
  }

  /**
   * True if the events of a collection after `version` come as they are shown. Those that it folded before it had subscribers
   * are not kept: when they are shown, they are read from the log.
   */
  #isHeard(stream: StreamName, collection: Collection, version: number): boolean {
    return collection.version <= version || this.#unsent.firstVersion(stream) === version + 1;
  }

  /** Lets the replay of a subscription go on, if it waits. */
  #wake(subscription: StreamSubscription): void {
    this.#waiting.get(subscription)?.();
    this.#waiting.delete(subscription);
  }

  #onEvent(stream: StreamName, collection: Collection, recorded: Recorded<NftEvent>): void {
    if (!this.#byStream.has(stream)) return;
    if (isProgress(collection, recorded)) this.#progress.run(stream, () => this.#sendProgress(stream, collection));
    const isEnd = recorded.event.type === "IndexingCompleted" || recorded.event.type === "HistoryProven";
    if (isEnd) this.#progress.cancel(stream);
    this.#sendWhenShown(stream, collection, recorded);
  }

  /** Sends an event at once, or when the chain shows it. */
  #sendWhenShown(stream: StreamName, collection: Collection, recorded: Recorded<NftEvent>): void {
    const { event, version } = recorded;
    const block = placeOf(event)?.block ?? 0;
    const isCovered = isProgress(collection, recorded);
    // Many transfers take milliseconds to name.
    const isTold =
      !isCovered ||
      this.#byStream
        .get(stream)
        ?.values()
        .some((one) => one.knowsIndexed) === true;
    const messageUpTo = (upTo?: number) =>
      messageOfEvent(this.#subjectOf(stream), collection, recorded, { upTo, isCovered: !isTold });
    const message = messageUpTo();
    const unsent = { version, collection, block, isCovered, message };
    this.#unsent.add(stream, message?.type === "transfers" ? { ...unsent, messageUpTo } : unsent, keptUpTo(event));
    if (this.#options.projections.shownVersion(stream, collection) >= version) this.#sendUnsent(stream);
  }

  /** Sends the events of a stream that are shown by now. */
  #sendUnsent(stream: StreamName): void {
    const { projections } = this.#options;
    const shownVersion = (collection: Collection) => projections.shownVersion(stream, collection);
    for (const { version, isCovered, message } of this.#unsent.takeShown(stream, shownVersion)) {
      // The client learns a version without a message from the next message.
      if (message === undefined) continue;
      this.#sendToSubscribers(stream, (subscription) => {
        if (!isCovered || subscription.knowsIndexed) subscription.onEvent(version, message);
      });
    }
    // A revert or a removal of the collection shows the rest of it without a move of the chain.
    for (const subscription of this.#waiting.keys()) if (subscription.stream === stream) this.#wake(subscription);
  }

  /** Handles a move of the chain: sends the events that it shows, and its reorganisation. */
  onMoved(chainId: number, { ancestor }: Moved): void {
    for (const stream of this.#unsent.streams()) if (parseStream(stream).chainId === chainId) this.#sendUnsent(stream);
    for (const subscription of this.#waiting.keys())
      if (parseStream(subscription.stream).chainId === chainId) this.#wake(subscription);
    if (ancestor !== undefined) this.#sendReorged(chainId, ancestor);
  }

  #sendProgress(stream: StreamName, collection: Collection): void {
    if (collection.completed !== undefined) return;
    const message = progressMessage(this.#subjectOf(stream), collection, this.#shownMark(stream, collection));
    this.#sendToSubscribers(stream, (subscription) => subscription.onProgress(message));
  }

  /**
   * Tells the subscribers of complete collections about a reorganisation. A collection with orphaned blocks tells it by its
   * own stream, with the version to go on from.
   */
  #sendReorged(chainId: number, ancestor: BlockRef): void {
    for (const [stream, subscriptions] of this.#byStream) {
      if (parseStream(stream).chainId !== chainId) continue;
      const { end } = this.#options.projections.peek(stream) ?? {};
      if (end !== undefined && end.number > ancestor.number) continue;
      const mark = this.#completeMark(stream, subscriptions);
      if (mark === undefined) continue;
      const message = revertedMessage(this.#subjectOf(stream), mark, ancestor);
      this.#broadcast.send(subscriptions, (subscription) => subscription.onChainReverted(message));
    }
  }

  /**
   * Returns the newest record of a complete collection that pages show; undefined for an incomplete one. For an evicted
   * collection it is the newest version that its subscribers got.
   */
  #completeMark(stream: StreamName, subscriptions: ReadonlySet<StreamSubscription>): Mark | undefined {
    const collection = this.#options.projections.peek(stream);
    if (collection !== undefined) return collection.completed && this.#shownMark(stream, collection);
    let version: number | undefined;
    for (const { sentCompleteVersion = version } of subscriptions) {
      if (sentCompleteVersion !== undefined) version = Math.max(sentCompleteVersion, version ?? 0);
    }
    return version === undefined ? undefined : { version, checksum: undefined };
  }

  /** Tells the subscribers of an address that the log does not record what it turned out to be. */
  onVerdict(chainId: number, address: Address, verdict: Verdict): void {
    const stream = nftStream(chainId, address);
    const collection = this.#options.projections.peek(stream);
    if (verdict !== "not_a_contract" || collection?.status === "not_a_contract") return;
    const message = notAContractMessage(this.#subjectOf(stream), collection ?? UNRECORDED);
    this.#sendToSubscribers(stream, ({ peer }) => peer.send(message));
  }

  /** Tells the subscribers of an address that it could not be looked at. */
  onDelayed(chainId: number, address: Address, delay: Delay): void {
    const stream = nftStream(chainId, address);
    const message = failedMessage(this.#subjectOf(stream), this.#options.projections.peek(stream) ?? UNRECORDED, delay);
    this.#sendToSubscribers(stream, ({ peer }) => peer.send(message));
  }

  hasSubscribers(chainId: number, address: Address): boolean {
    return this.#byStream.has(nftStream(chainId, address));
  }

  hasChainSubscribers(chainId: number): boolean {
    const prefix = `nft/${chainId}/`;
    for (const stream of this.#byStream.keys()) if (stream.startsWith(prefix)) return true;
    return false;
  }

  /**
   * Sends the progress of a collection's metadata, in tokens: the first at once, then at most one a second, always the
   * last. Reads an evicted collection, to count the tokens left.
   */
  onMetadataProgress(chainId: number, address: Address, counts: { resolved: number; failed: number }): void {
    const { projections, logger } = this.#options;
    const stream = nftStream(chainId, address);
    if (!this.#byStream.has(stream)) return;
    this.#metadata.run(stream, async () => {
      try {
        const collection = projections.peek(stream) ?? (await projections.get(chainId, address));
        const mark = this.#shownMark(stream, collection);
        const message = metadataMessage(this.#subjectOf(stream), collection, { ...counts, mark });
        this.#sendToSubscribers(stream, (subscription) => subscription.onMetadata(message));
      } catch (error) {
        if (!isAbort(error))
          logger.debug({ err: error, stream }, "could not read the collection for a metadata message");
      }
    });
  }

  #sendToSubscribers(stream: StreamName, send: (subscription: StreamSubscription) => void): void {
    const subscriptions = this.#byStream.get(stream);
    if (subscriptions !== undefined) this.#broadcast.send(subscriptions, send);
  }

  stop(): void {
    this.#unsubscribe();
    this.#broadcast.stop();
    this.#progress.stop();
    this.#metadata.stop();
  }
}

/** The collection of a stream of this feed. */
function collectionOf(stream: StreamName): { readonly chainId: number; readonly address: Address } {
  const parsed = parseStream(stream);
  invariant(parsed.kind === "nft", "a subscription to a stream that is no collection's", { stream });
  return parsed;
}
