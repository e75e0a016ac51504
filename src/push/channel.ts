/**
 * The WebSocket channel: who listens to which collection, and what they are told. Everything told is derived from the
 * collection's own stream as the projection folds it, so a reconnect heals by reading and nobody is told of what HTTP
 * does not yet show. A message is made once, however many it goes to. Knows nothing of sockets but `Peer`.
 */
import type { Clock } from "../core/clock.ts";
import { isAbort } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import {
  type BlockRef,
  type NftEvent,
  nftStream,
  parseStream,
  type Recorded,
  type StreamName,
} from "../events/types.ts";
import type { EventLog } from "../log/port.ts";
import type { Collection } from "../nfts/collection.ts";
import { currentBlock, type PageChain } from "../nfts/pages.ts";
import type { CollectionProjections } from "../nfts/projections.ts";
import { Broadcast } from "./broadcast.ts";
import { type ClientMessage, parseClientMessage, type ServerMessage } from "./messages.ts";
import { Pace } from "./pace.ts";
import {
  indexedMessage,
  isProgress,
  messageOf,
  metadataMessage,
  progressMessage,
  revertedMessage,
  statusMessage,
} from "./told.ts";

/** How far a collection's metadata is. */
export interface MetadataCounts {
  readonly resolved: number;
  readonly failed: number;
}

/** A connection as the channel sees it. */
export interface Peer {
  send(message: ServerMessage): void;
}

export interface ChannelOptions {
  readonly log: EventLog;
  readonly projections: CollectionProjections;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The followed chain of an enabled chain id. */
  readonly chainOf: (chainId: number) => PageChain | undefined;
  readonly requestIndexing: (chainId: number, address: `0x${string}`) => Promise<void>;
  readonly maxSubscriptions: number;
}

/** Versions replayed at most for a `since`. */
const MAX_REPLAY = 1_000;
/** At most four `progress` a second. */
const PROGRESS_MS = 250;
/** At most one `metadata` a second. */
const METADATA_MS = 1_000;

interface Subscription {
  readonly stream: StreamName;
  readonly peer: Peer;
  readonly connection: Connection;
  readonly unpin: () => void;
  /** Newest version the peer was told of, or need not be. */
  version: number;
  /** While a replay is read from the log, live events wait for it. */
  replaying: boolean;
  /** Ancestor of the last `reorged` told: the stream's own revert to it says the same again. */
  revertedTo: string | undefined;
}

interface Connection {
  readonly subscriptions: Map<StreamName, Subscription>;
  /** Streams whose `indexed` this connection has had. */
  readonly indexed: Set<StreamName>;
}

export class Channel {
  readonly #options: ChannelOptions;
  readonly #connections = new Map<Peer, Connection>();
  readonly #byStream = new Map<StreamName, Set<Subscription>>();
  readonly #unsubscribe: () => void;
  readonly #broadcast = new Broadcast<Subscription>();
  readonly #progress: Pace<StreamName>;
  readonly #metadata: Pace<StreamName>;

  constructor(options: ChannelOptions) {
    this.#options = options;
    this.#progress = new Pace(options.clock, PROGRESS_MS);
    this.#metadata = new Pace(options.clock, METADATA_MS);
    this.#unsubscribe = options.projections.subscribe((stream, collection, recorded) =>
      this.#onEvent(stream, collection, recorded),
    );
  }

  open(peer: Peer): void {
    this.#connections.set(peer, { subscriptions: new Map(), indexed: new Set() });
  }

  close(peer: Peer): void {
    const connection = this.#connections.get(peer);
    if (connection === undefined) return;
    for (const subscription of connection.subscriptions.values()) this.#drop(subscription);
    this.#connections.delete(peer);
  }

  /** Handles a client's text. Never rejects: what is wrong is told to the client. */
  async receive(peer: Peer, text: string): Promise<void> {
    const message = parseClientMessage(text);
    if ("code" in message) {
      peer.send({ type: "error", code: message.code, message: message.message });
      return;
    }
    try {
      await this.#perform(peer, message);
    } catch (error) {
      if (isAbort(error)) return;
      this.#options.logger.error({ err: error }, "a WebSocket message could not be handled");
      peer.send({ type: "error", code: "internal", message: "internal error; try again" });
    }
  }

  async #perform(peer: Peer, message: ClientMessage): Promise<void> {
    const connection = this.#connections.get(peer);
    if (connection === undefined) return;
    switch (message.action) {
      case "ping":
        peer.send({ type: "pong" });
        return;
      case "unsubscribe": {
        const subscription = connection.subscriptions.get(nftStream(message.chain.chainId, message.address));
        if (subscription !== undefined) this.#drop(subscription);
        peer.send({ type: "unsubscribed", chain: message.chain.name, address: message.address });
        return;
      }
      case "subscribe":
        await this.#subscribe(peer, connection, message);
        return;
      default:
        message satisfies never;
    }
  }

  async #subscribe(
    peer: Peer,
    connection: Connection,
    message: Extract<ClientMessage, { action: "subscribe" }>,
  ): Promise<void> {
    const { chain, address, since } = message;
    const { projections, chainOf, maxSubscriptions, requestIndexing } = this.#options;
    if (chainOf(chain.chainId) === undefined) {
      const text = `chain ${chain.name} is not enabled on this server`;
      peer.send({ type: "error", code: "chain_not_enabled", message: text });
      return;
    }
    const stream = nftStream(chain.chainId, address);
    const before = connection.subscriptions.get(stream);
    if (before !== undefined) this.#drop(before);
    if (connection.subscriptions.size >= maxSubscriptions) {
      const text = `a connection may hold ${maxSubscriptions} subscriptions; unsubscribe from some, or open another`;
      peer.send({ type: "error", code: "rate_limited", message: text });
      return;
    }
    // Registered before the first await, so that the bound holds and nothing is missed in between.
    const subscription: Subscription = {
      stream,
      peer,
      connection,
      unpin: projections.pin(stream),
      version: Number.MAX_SAFE_INTEGER,
      replaying: true,
      revertedTo: undefined,
    };
    connection.subscriptions.set(stream, subscription);
    const all = this.#byStream.get(stream) ?? new Set();
    this.#byStream.set(stream, all.add(subscription));

    let collection = await projections.get(chain.chainId, address);
    if (collection.version === 0) {
      await requestIndexing(chain.chainId, address);
      collection = await projections.get(chain.chainId, address);
    }
    if (connection.subscriptions.get(stream) !== subscription) return;
    await this.#greet(subscription, collection, since);
  }

  /** `status`, then `indexed` where it is due, then what `since` missed, then live. */
  async #greet(subscription: Subscription, collection: Collection, since: number | undefined): Promise<void> {
    const { stream, peer, connection } = subscription;
    const gap = since !== undefined && collection.version - since > MAX_REPLAY;
    const chain = this.#options.chainOf(parseStream(stream).chainId);
    const block = chain === undefined ? collection.end : currentBlock(collection, chain);
    peer.send(statusMessage(stream, collection, { block, gap }));
    const indexed = indexedMessage(stream, collection);
    if (indexed !== undefined) {
      if (since !== undefined && since >= indexed.version) connection.indexed.add(stream);
      else tellOnce(subscription, indexed);
    }
    subscription.version = since === undefined || gap ? collection.version : Math.min(since, collection.version);
    let missedProgress = false;
    while (subscription.version < collection.version) {
      const page = await this.#options.log.read(stream, { from: subscription.version + 1, limit: MAX_REPLAY });
      if (connection.subscriptions.get(stream) !== subscription || page.length === 0) return;
      for (const recorded of page as Recorded<NftEvent>[]) {
        if (recorded.version > collection.version) break;
        missedProgress ||= isProgress(collection, recorded);
        tell(subscription, recorded.version, messageOf(stream, collection, recorded));
      }
    }
    subscription.replaying = false;
    if (missedProgress && collection.completed === undefined) peer.send(progressMessage(stream, collection));
  }

  #drop(subscription: Subscription): void {
    const { stream, connection, unpin } = subscription;
    unpin();
    connection.subscriptions.delete(stream);
    const all = this.#byStream.get(stream);
    all?.delete(subscription);
    if (all?.size === 0) this.#byStream.delete(stream);
  }

  #onEvent(stream: StreamName, collection: Collection, recorded: Recorded<NftEvent>): void {
    const subscriptions = this.#byStream.get(stream);
    if (subscriptions === undefined) return;
    if (isProgress(collection, recorded)) this.#progress.act(stream, () => this.#sendProgress(stream, collection));
    if (recorded.event.type === "IndexingCompleted") this.#progress.drop(stream);
    const message = messageOf(stream, collection, recorded);
    // What says nothing is known as soon as what comes after it.
    if (message === undefined) return;
    this.#broadcast.send(subscriptions, (subscription) => {
      // During a replay the loop in `#greet` reads on to the collection's version, this event included.
      if (isLive(subscription)) tell(subscription, recorded.version, message);
    });
  }

  #sendProgress(stream: StreamName, collection: Collection): void {
    if (collection.completed !== undefined) return;
    this.#sendAll(stream, progressMessage(stream, collection), isLive);
  }

  /** The chain was reorganised: every subscriber of a collection of it is told, whether or not its own stream changed. */
  chainReverted(chainId: number, ancestor: BlockRef): void {
    for (const [stream, subscriptions] of this.#byStream) {
      const collection = this.#options.projections.peek(stream);
      if (parseStream(stream).chainId !== chainId || collection?.completed === undefined) continue;
      const message = revertedMessage(stream, collection.version, ancestor);
      this.#broadcast.send(subscriptions, (subscription) => {
        subscription.revertedTo = ancestor.hash;
        if (isListening(subscription)) subscription.peer.send(message);
      });
    }
  }

  /** Whether anybody listens to the collection. */
  isHeard(chainId: number, address: Address): boolean {
    return this.#byStream.has(nftStream(chainId, address));
  }

  /** The collection's metadata came further: told at once, then at most once a second, the last of it always. */
  metadataMoved(chainId: number, address: Address, counts: MetadataCounts): void {
    const stream = nftStream(chainId, address);
    if (this.#byStream.has(stream)) this.#metadata.act(stream, () => this.#sendMetadata(stream, counts));
  }

  #sendMetadata(stream: StreamName, counts: MetadataCounts): void {
    const collection = this.#options.projections.peek(stream);
    if (collection === undefined) return;
    this.#sendAll(stream, metadataMessage(stream, collection, counts), isListening);
  }

  #sendAll(stream: StreamName, message: ServerMessage, isToHear: (subscription: Subscription) => boolean): void {
    const subscriptions = this.#byStream.get(stream);
    if (subscriptions === undefined) return;
    this.#broadcast.send(subscriptions, (subscription) => {
      if (isToHear(subscription)) subscription.peer.send(message);
    });
  }

  stop(): void {
    this.#unsubscribe();
    this.#broadcast.stop();
    this.#progress.stop();
    this.#metadata.stop();
    for (const peer of [...this.#connections.keys()]) this.close(peer);
  }
}

/** Whether it was not given up since. */
function isListening(subscription: Subscription): boolean {
  return subscription.connection.subscriptions.get(subscription.stream) === subscription;
}

/** Whether what happens is told as it happens. */
function isLive(subscription: Subscription): boolean {
  return !subscription.replaying && isListening(subscription);
}

/** Tells a subscriber what an event says, unless it knows. */
function tell(subscription: Subscription, version: number, message: ServerMessage | undefined): void {
  if (version <= subscription.version) return;
  subscription.version = version;
  if (message?.type === "indexed") tellOnce(subscription, message);
  else if (message?.type === "reorged") {
    if (subscription.revertedTo !== message.hash) subscription.peer.send(message);
    subscription.revertedTo = undefined;
  } else if (message !== undefined) subscription.peer.send(message);
}

/** `indexed` comes once to a connection, whatever is subscribed anew or reorganised. */
function tellOnce({ connection, stream, peer }: Subscription, message: ServerMessage): void {
  if (connection.indexed.has(stream)) return;
  connection.indexed.add(stream);
  peer.send(message);
}
