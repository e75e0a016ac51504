/**
 * Live messages of collections and prices over as few sockets as the service allows. Each subscription keeps the record that it
 * has, and the service replays what came after it.
 */
import { type KnownLimits, Line } from "./line.ts";
import type { ClientOptions } from "./requests.ts";
import { type AnySubscription, nameOf, type Subscribed, type SubscribeOptions, Subscription } from "./subscription.ts";
import type { ServerMessage } from "./types.ts";

interface Held {
  readonly subscription: AnySubscription;
  line: Line;
}

export class Feed {
  readonly #options: ClientOptions;
  readonly #held = new Map<string, Held>();
  readonly #lines = new Set<Line>();
  readonly #limits: KnownLimits = {};

  constructor(options: ClientOptions) {
    this.#options = options;
  }

  /**
   * Subscribes to a collection, of which an unknown one gets indexed, or to the price of a token.
   * @throws TypeError if it is subscribed to already, or the runtime has no WebSocket
   */
  subscribe<M extends ServerMessage>(
    subject: Subscribed,
    { chain = "eth", ...options }: SubscribeOptions = {},
  ): Subscription<M> {
    if (this.#options.WebSocket === undefined && typeof globalThis.WebSocket === "undefined") {
      throw new TypeError(
        "this runtime has no WebSocket: use Node 22 or newer, or give the client one as its option WebSocket, such as that of the package ws",
      );
    }
    const name = nameOf({ chain, ...subject });
    if (this.#held.has(name)) throw new TypeError(`there is a subscription to ${name} already`);
    const subscription: Subscription<M> = new Subscription<M>(
      { chain, subject, ...options },
      {
        onFull: () => this.#held.get(name)?.line.pause(name),
        onRoom: () => this.#held.get(name)?.line.resume(name),
        onClosed: () => this.#left(name, subscription),
      },
    );
    if (options.signal?.aborted === true) {
      subscription.close(options.signal.reason);
      return subscription;
    }
    const held = { subscription, line: this.#lineFor(name) };
    this.#held.set(name, held);
    held.line.add(name, subscription);
    return subscription;
  }

  /** Ends all subscriptions and closes the sockets. */
  close(): void {
    for (const { subscription } of [...this.#held.values()]) subscription.close();
  }

  #left(name: string, subscription: AnySubscription): void {
    const held = this.#held.get(name);
    if (held?.subscription !== subscription) return;
    this.#held.delete(name);
    held.line.remove(name, subscription);
  }

  /** A socket with room. While the limit is unknown, there is one socket. */
  #lineFor(name: string): Line {
    const { subscriptionsPerConnection: max = Number.POSITIVE_INFINITY } = this.#limits;
    for (const line of this.#lines) if (line.has(name) || line.size < max) return line;
    const line = new Line({
      client: this.#options,
      limits: this.#limits,
      onLimits: () => this.#spread(),
      onEmpty: (empty) => {
        this.#lines.delete(empty);
        empty.end();
      },
    });
    this.#lines.add(line);
    return line;
  }

  /** Moves subscriptions that a socket may not have to others. */
  #spread(): void {
    const { subscriptionsPerConnection: max } = this.#limits;
    if (max === undefined) return;
    for (const line of [...this.#lines]) {
      for (const subscription of line.overflow(max)) {
        const name = nameOf({ chain: subscription.chain, ...subscription.subject });
        const held = this.#held.get(name);
        if (held?.subscription !== subscription) continue;
        held.line = this.#lineFor(name);
        held.line.add(name, subscription);
      }
    }
  }
}
