/** The messages of one collection, in the order of its versions, between the socket and a reader that may be slow. */
import type { MessageOf, ServerMessage } from "./types.ts";

/** A message about the subscribed collection. `status` with `gap` tells that messages were lost: read the listing anew. */
export type FeedMessage = Exclude<ServerMessage, MessageOf<"pong"> | MessageOf<"unsubscribed">>;

export interface SubscribeOptions {
  /** Name of the chain. Default: eth. */
  readonly chain?: string;
  /** The record to go on from: `resume` of a message, or a version. */
  readonly since?: string | number;
  /** Ends the subscription. Its reader gets the signal's reason. */
  readonly signal?: AbortSignal;
}

/** Messages that wait for a slow reader. Beyond it the service is asked to pause, and later for what followed. */
const MAX_WAITING = 10_000;

interface SubscriptionEvents {
  /** The reader is too slow: the service should send nothing until `onRoom`. */
  readonly onFull: () => void;
  readonly onRoom: () => void;
  readonly onClosed: () => void;
}

export class Subscription implements AsyncIterable<FeedMessage> {
  readonly chain: string;
  readonly address: string;
  readonly #events: SubscriptionEvents;
  readonly #signal: AbortSignal | undefined;
  readonly #waiting: FeedMessage[] = [];
  readonly #onAbort = () => this.close(this.#signal?.reason);
  #wake: (() => void) | undefined;
  #isClosed = false;
  #isFull = false;
  #failure: unknown;
  /** The newest record that waits for the reader or was read. */
  #since: string | number | undefined;

  constructor(of: { readonly chain: string; readonly address: string } & SubscribeOptions, events: SubscriptionEvents) {
    this.chain = of.chain;
    this.address = of.address;
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
  push(message: FeedMessage): void {
    if (this.#isFull || this.#isClosed) return;
    this.#since = ("resume" in message ? message.resume : undefined) ?? this.#since;
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
  async *[Symbol.asyncIterator](): AsyncGenerator<FeedMessage> {
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

/** Names a subscription. The service names chains by their names, and a caller may give a code. */
export function nameOf(chain: string, address: string, names: Readonly<Record<string, string>>): string {
  const lower = chain.toLowerCase();
  return `${names[lower] ?? lower} ${address.toLowerCase()}`;
}
