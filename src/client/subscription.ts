/** The messages about one collection or one token, in order, between the socket and a reader that may be slow. */
import { CHAIN_NAMES } from "./chain-names.ts";
import type { ErrorMessage, MessageOf, PriceMessage, ServerMessage, TokenStatusMessage } from "./types.ts";

/** A message about the price of a token. */
export type PriceFeedMessage = TokenStatusMessage | PriceMessage | ErrorMessage;

/** A message about the subscribed collection. `status` with `gap` tells that messages were lost: read the listing anew. */
export type FeedMessage =
  | Exclude<ServerMessage, MessageOf<"pong"> | MessageOf<"unsubscribed"> | PriceFeedMessage>
  | ErrorMessage;

/** What a subscription is to, as messages name it. */
export type Subscribed = { readonly address: string } | { readonly token: string; readonly minChangePercent?: number };

export interface SubscribeOptions {
  /** Name of the chain. Default: eth. */
  readonly chain?: string;
  /** The record to go on from: `resume` of a message, or a version. */
  readonly since?: string | number;
  /** Ends the subscription. Its reader gets the signal's reason. */
  readonly signal?: AbortSignal;
}

export interface PriceSubscribeOptions extends Omit<SubscribeOptions, "since"> {
  /** Least move against the last price that was sent, in per cent. Default: any. */
  readonly minChangePercent?: number;
}

/** Messages that wait for a slow reader. Beyond it the service is asked to pause, and later for what followed. */
const MAX_WAITING = 10_000;

interface SubscriptionEvents {
  /** The reader is too slow: the service should send nothing until `onRoom`. */
  readonly onFull: () => void;
  readonly onRoom: () => void;
  readonly onClosed: () => void;
}

export class Subscription<M extends ServerMessage = FeedMessage> implements AsyncIterable<M> {
  readonly chain: string;
  readonly subject: Subscribed;
  readonly #events: SubscriptionEvents;
  readonly #signal: AbortSignal | undefined;
  readonly #waiting: M[] = [];
  readonly #onAbort = () => this.close(this.#signal?.reason);
  #wake: (() => void) | undefined;
  #isClosed = false;
  #isFull = false;
  #failure: unknown;
  /** The newest record that waits for the reader or was read. */
  #since: string | number | undefined;

  constructor(
    of: { readonly chain: string; readonly subject: Subscribed } & SubscribeOptions,
    events: SubscriptionEvents,
  ) {
    this.chain = of.chain;
    this.subject = of.subject;
    this.#since = of.since;
    this.#signal = of.signal;
    this.#events = events;
    this.#signal?.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** The record to go on from after an interruption; undefined before the first message. */
  get since(): string | number | undefined {
    return this.#since;
  }

  /** True if the reader has room for messages. */
  get hasRoom(): boolean {
    return !this.#isFull;
  }

  /** Takes a message from the socket. */
  push(message: M): void {
    if (this.#isFull || this.#isClosed) return;
    this.#since = ("resume" in message ? message.resume : undefined) ?? this.#since;
    // Of prices only the latest counts.
    if (message.type === "price" && this.#waiting.at(-1)?.type === "price") this.#waiting.pop();
    this.#waiting.push(message);
    this.#wake?.();
    if (this.#waiting.length < MAX_WAITING) return;
    this.#isFull = true;
    this.#events.onFull();
  }

  /** Ends the subscription. A reader gets what has arrived, and then the end, or the error. */
  close(failure?: unknown): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#failure = failure;
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#wake?.();
    this.#events.onClosed();
  }

  /** @throws ServiceError if the service refuses the subscription or can't be reached; the signal's reason */
  async *[Symbol.asyncIterator](): AsyncGenerator<M> {
    try {
      for (;;) {
        // A reader that gave up gets no further message.
        if (this.#signal?.aborted === true) throw this.#signal.reason;
        const message = this.#waiting.shift();
        if (message !== undefined) {
          this.#makeRoom();
          yield message;
        } else if (this.#isClosed) {
          if (this.#failure !== undefined) throw this.#failure;
          return;
        } else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
      }
    } finally {
      this.close();
    }
  }

  #makeRoom(): void {
    if (!this.#isFull || this.#waiting.length > MAX_WAITING / 2) return;
    this.#isFull = false;
    if (!this.#isClosed) this.#events.onRoom();
  }
}

/** A subscription as sockets see it: they take its messages from the service. */
export type AnySubscription = Pick<Subscription, "chain" | "subject" | "since" | "hasRoom" | "close"> & {
  // biome-ignore lint/suspicious/noExplicitAny: the name of a message tells of which kind of subscription it is
  push(message: any): void;
};

interface Named {
  readonly chain?: string;
  readonly address?: string;
  readonly token?: string;
}

/** Names a subscription. The service names chains by their names, and a caller may give a code. */
export function nameOf({ chain = "", address, token }: Named): string {
  const lower = chain.toLowerCase();
  return `${CHAIN_NAMES[lower] ?? lower} ${address === undefined ? `token ${token}` : address}`.toLowerCase();
}
