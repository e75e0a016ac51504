/**
 * The WebSocket channel: the connections of clients, what they ask for, and how many subscriptions they may have. Uses
 * sockets only through `Peer`. What subscribers are told is in `collection-feed.ts` and `price-feed.ts`.
 */

import type { Moved } from "../chain/view.ts";
import { type SharedWork, UNSHARED } from "../core/budget.ts";
import { AppError, invariant, isAbort, Refusal } from "../core/errors.ts";
import { yieldToEventLoop } from "../core/turns.ts";
import { nftStream, priceStream, type StreamName } from "../events/types.ts";
import type { Prices } from "../prices/price-service.ts";
import {
  type ClientMessage,
  type PriceSubscribeMessage,
  parseClientMessage,
  type SubscribeMessage,
} from "./client-messages.ts";
import { CollectionFeed, type CollectionFeedOptions } from "./collection-feed.ts";
import type { MessageOf, SocketLimits } from "./message-models.ts";
import { PriceFeed, PriceSubscription } from "./price-feed.ts";
import { type Connection, type Peer, StreamSubscription } from "./subscription.ts";

export interface ChannelOptions extends CollectionFeedOptions {
  /** The prices of an enabled chain id. */
  readonly pricesOf?: (chainId: number) => Prices | undefined;
  /** Called when a client subscribes to a collection or a token of the chain. */
  readonly onSubscribed?: (chainId: number) => void;
  /** Charges what a head's prices cost to the keys of their subscribers. Charges no key by default. */
  readonly shared?: SharedWork;
  readonly maxSubscriptions: number;
  /** The other limits of a connection, which the socket enforces. Told to each subscriber. */
  readonly socketLimits?: Omit<SocketLimits, "subscriptionsPerConnection">;
}

/** The error of a message that is no text. */
const BINARY = { code: "invalid_parameter", message: "messages are JSON text, not binary" } as const;

/** Messages of a key that wait to end a subscription, without a request of its rate: as many as it has subscriptions by default. */
const MAX_FREE = 1_000;

interface PricedConnection extends Connection {
  /** Subscriptions to prices by their stream. */
  readonly prices: Map<StreamName, PriceSubscription>;
}

export class Channel {
  readonly #options: ChannelOptions;
  readonly #connections = new Map<Peer, PricedConnection>();
  /** Subscriptions by the name of their key. */
  readonly #byKey = new Map<string, number>();
  /** Messages that wait to end a subscription, by the name of their key. */
  readonly #endings = new Map<string, number>();
  /** The subscriptions to collections. */
  readonly collections: CollectionFeed;
  readonly #prices: PriceFeed;

  constructor(options: ChannelOptions) {
    this.#options = options;
    this.#prices = new PriceFeed({ ...options, shared: options.shared ?? UNSHARED });
    this.collections = new CollectionFeed(options);
  }

  open(peer: Peer): void {
    this.#connections.set(peer, { subscriptions: new Map(), indexed: new Map(), prices: new Map() });
  }

  close(peer: Peer): void {
    const connection = this.#connections.get(peer);
    if (connection === undefined) return;
    for (const subscription of connection.subscriptions.values()) this.#drop(subscription);
    for (const stream of connection.prices.keys()) this.#dropPrice(peer, connection, stream);
    this.#connections.delete(peer);
  }

  /** Handles a client's message. Never rejects: the client gets an error message. */
  async receive(peer: Peer, sent: string | Uint8Array): Promise<void> {
    const message = typeof sent === "string" ? parseClientMessage(sent, this.#options.chains) : BINARY;
    try {
      if ("action" in message && message.action === "ping") await this.#perform(peer, message);
      else if ("action" in message && message.action === "unsubscribe" && this.#isFree(peer)) {
        await this.#turnToEnd(peer);
        await this.#perform(peer, message);
      } else await peer.ask(() => this.#answer(peer, message));
    } catch (error) {
      if (isAbort(error)) return;
      const { code, text } = this.#wordsOf(error);
      peer.send("code" in message ? { type: "error", code, message: text } : this.#errorOf(message, code, text));
    }
  }

  /** True for the end of a subscription, which saves work, also for a key that owes requests; unless too many wait already. */
  #isFree({ key: { key } }: Peer): boolean {
    return (this.#endings.get(key) ?? 0) < MAX_FREE;
  }

  /** Subscriptions begin in turns. One must not begin after its own end. */
  async #turnToEnd({ key }: Peer): Promise<void> {
    this.#endings.set(key.key, (this.#endings.get(key.key) ?? 0) + 1);
    await yieldToEventLoop(key);
    const left = (this.#endings.get(key.key) ?? 0) - 1;
    if (left > 0) this.#endings.set(key.key, left);
    else this.#endings.delete(key.key);
  }

  async #answer(peer: Peer, message: ReturnType<typeof parseClientMessage>): Promise<void> {
    if ("code" in message) peer.send({ type: "error", ...message });
    else await this.#perform(peer, message);
  }

  /** What a client is told of an error. */
  #wordsOf(error: unknown): { readonly code: string; readonly text: string } {
    if (error instanceof Refusal && error.code === "rate_limited") return { code: error.code, text: error.message };
    if (error instanceof AppError && error.code === "log_unavailable") {
      return { code: error.code, text: "the event log can't be reached at the moment; try again" };
    }
    this.#options.logger.error({ err: error }, "could not handle a WebSocket message");
    return { code: "internal", text: "internal error; try again" };
  }

  /** Builds the error message for a failed request, with the collection or the token that the request named. */
  #errorOf(asked: ClientMessage, code: string, message: string): MessageOf<"error"> {
    if (asked.action === "ping") return { type: "error", code, message };
    if ("token" in asked) return { type: "error", chain: asked.chain.name, token: asked.token, code, message };
    const { chain, address } = asked;
    const collection = this.#options.projections.peek(nftStream(chain.chainId, address));
    const version = collection && { version: collection.version };
    return { type: "error", chain: chain.name, address, ...version, code, message };
  }

  async #perform(peer: Peer, message: ClientMessage): Promise<void> {
    const connection = this.#connections.get(peer);
    if (connection === undefined) return;
    if (message.action === "ping") peer.send({ type: "pong" });
    else if (message.action === "subscribe") {
      if ("token" in message) await this.#subscribeToPrice(peer, connection, message);
      else await this.#subscribe(peer, connection, message);
    } else if ("token" in message) {
      const { chain, token } = message;
      this.#dropPrice(peer, connection, priceStream(chain.chainId, token));
      peer.send({ type: "unsubscribed", chain: chain.name, token });
    } else {
      const { chain, address } = message;
      const subscription = connection.subscriptions.get(nftStream(chain.chainId, address));
      if (subscription !== undefined) this.#drop(subscription);
      peer.send({ type: "unsubscribed", chain: chain.name, address });
    }
  }

  async #subscribe(peer: Peer, connection: PricedConnection, message: SubscribeMessage): Promise<void> {
    const { chain, address, since } = message;
    const { projections } = this.#options;
    const stream = nftStream(chain.chainId, address);
    const before = connection.subscriptions.get(stream);
    if (before !== undefined) this.#drop(before);
    if (!this.#admit(peer, connection, message)) return;
    // Registered before the first await, so that the bound holds and no event is missed.
    const subscription = new StreamSubscription(stream, { peer, connection, unpin: projections.pin(stream) });
    connection.subscriptions.set(stream, subscription);
    this.collections.add(subscription);
    try {
      this.#options.onSubscribed?.(chain.chainId);
      await this.collections.begin(subscription, { asked: since, limits: this.#limitsOf(peer) });
    } catch (error) {
      // The client gets an error and must subscribe again.
      if (subscription.isListening) this.#drop(subscription);
      throw error;
    }
  }

  /** Counts a subscription in the limits of its connection and its key. Returns false and says why if one is reached. */
  #admit(peer: Peer, connection: PricedConnection, message: SubscribeMessage | PriceSubscribeMessage): boolean {
    const { chainOf, maxSubscriptions } = this.#options;
    const { chain } = message;
    if (chainOf(chain.chainId) === undefined) {
      peer.send(this.#errorOf(message, "chain_not_enabled", this.#options.chains.notEnabledText(chain)));
      return false;
    }
    if (connection.subscriptions.size + connection.prices.size >= maxSubscriptions) {
      const text = `a connection may hold ${maxSubscriptions} subscriptions; unsubscribe from some, or open another`;
      peer.send(this.#errorOf(message, "rate_limited", text));
      return false;
    }
    const { key, subscriptions: most } = peer.key;
    const ofKey = this.#byKey.get(key) ?? 0;
    if (ofKey >= most) {
      const text = `subscriptions of the key ${key} on this server: at most ${most}; unsubscribe from some`;
      peer.send(this.#errorOf(message, "rate_limited", text));
      return false;
    }
    this.#byKey.set(key, ofKey + 1);
    return true;
  }

  /** Takes a subscription out of the count of its key. */
  #leave({ key: { key } }: Peer): void {
    const left = (this.#byKey.get(key) ?? 0) - 1;
    if (left > 0) this.#byKey.set(key, left);
    else this.#byKey.delete(key);
  }

  /** Sends `status`, then the present price, and from then on each change of it. */
  async #subscribeToPrice(peer: Peer, connection: PricedConnection, message: PriceSubscribeMessage): Promise<void> {
    const { chain, token } = message;
    const { chainOf, pricesOf, onSubscribed } = this.#options;
    const stream = priceStream(chain.chainId, token);
    this.#dropPrice(peer, connection, stream);
    if (!this.#admit(peer, connection, message)) return;
    const [view, prices] = [chainOf(chain.chainId), pricesOf?.(chain.chainId)];
    invariant(view !== undefined && prices !== undefined, "an enabled chain has no prices", { chain: chain.name });
    onSubscribed?.(chain.chainId);
    const subscription = new PriceSubscription({ prices, view }, peer, message);
    connection.prices.set(stream, subscription);
    this.#prices.add(subscription);
    const block = view.head()?.number ?? null;
    peer.send({ type: "status", chain: chain.name, token, block, ...this.#limitsOf(peer) });
    try {
      const refused = await this.#prices.begin(subscription);
      if (refused === undefined || !subscription.isListening) return;
      this.#dropPrice(peer, connection, stream);
      peer.send(this.#errorOf(message, refused.code, refused.message));
    } catch (error) {
      // The client gets an error and must subscribe again.
      if (subscription.isListening) this.#dropPrice(peer, connection, stream);
      throw error;
    }
  }

  #dropPrice(peer: Peer, connection: PricedConnection, stream: StreamName): void {
    const subscription = connection.prices.get(stream);
    if (subscription === undefined) return;
    connection.prices.delete(stream);
    this.#prices.drop(subscription);
    this.#leave(peer);
  }

  /** The limits of a connection, as a field of `status`. */
  #limitsOf({ key: { subscriptions: ofKey } }: Peer): { readonly limits?: SocketLimits } {
    const { socketLimits, maxSubscriptions: subscriptionsPerConnection } = this.#options;
    // A key of scope operate has no limit of its own.
    const subscriptionsPerKey = Number.isFinite(ofKey) ? { subscriptionsPerKey: ofKey } : {};
    return socketLimits ? { limits: { ...socketLimits, subscriptionsPerConnection, ...subscriptionsPerKey } } : {};
  }

  #drop(subscription: StreamSubscription): void {
    const { stream, connection, peer, unpin } = subscription;
    unpin();
    this.collections.drop(subscription);
    if (connection.subscriptions.delete(stream)) this.#leave(peer);
  }

  /** Handles a move of the chain: sends the events and prices that it shows, and its reorganisation. */
  onMoved(chainId: number, moved: Moved): void {
    this.collections.onMoved(chainId, moved);
    this.#prices.onChainViewMoved(chainId);
  }

  stop(): void {
    this.collections.stop();
    this.#prices.stop();
    for (const peer of [...this.#connections.keys()]) this.close(peer);
  }
}
