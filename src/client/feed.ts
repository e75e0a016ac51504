/**
 * Live messages of collections over one WebSocket. It connects again after a failure and goes on where it was: each
 * subscription keeps the record that it has, and the service replays what came after it.
 */
import { type ClientOptions, Requests, ServiceError } from "./requests.ts";
import { CHAIN_NAMES, type MessageOf, type ServerMessage } from "./types.ts";

/** A message about the subscribed collection. `status` with `gap` tells that messages were lost: read the listing anew. */
export type FeedMessage = Exclude<ServerMessage, MessageOf<"pong"> | MessageOf<"unsubscribed">>;

export interface SubscribeOptions {
  /** Name of the chain. Default: eth. */
  readonly chain?: string;
  /** The record to go on from: `resume` of a message, or a version. */
  readonly since?: string | number;
}

const FIRST_WAIT_MS = 250;
const MAX_WAIT_MS = 30_000;
/** A connection that says nothing for this long is asked, and then given up. */
const PING_MS = 30_000;
/** Messages that wait for a slow reader. Beyond it, the service is asked to repeat what the reader has not read. */
const MAX_WAITING = 10_000;
/** `readyState` of an open socket. */
const OPEN = 1;
/** Close code of a server that refuses the key. */
const POLICY_VIOLATION = 1_008;

interface SubscriptionEvents {
  /** The reader is too slow: the messages after `since` are to be sent again. */
  readonly onBehind: () => void;
  readonly onClosed: () => void;
}

/** The messages of one collection, in the order of its versions. */
export class Subscription implements AsyncIterable<FeedMessage> {
  readonly chain: string;
  readonly address: string;
  readonly #events: SubscriptionEvents;
  readonly #waiting: FeedMessage[] = [];
  #wake: (() => void) | undefined;
  #isClosed = false;
  #failure: unknown;
  /** The newest record that has arrived, and the newest one that was read. */
  #since: string | number | undefined;
  #read: string | number | undefined;

  constructor(of: { readonly chain: string; readonly address: string } & SubscribeOptions, events: SubscriptionEvents) {
    this.chain = of.chain;
    this.address = of.address;
    this.#since = of.since;
    this.#read = of.since;
    this.#events = events;
  }

  /** The record to go on from after an interruption; undefined before the first message. */
  get since(): string | number | undefined {
    return this.#since;
  }

  /** Takes a message from the socket. */
  push(message: FeedMessage): void {
    if (this.#waiting.length >= MAX_WAITING) {
      this.#waiting.length = 0;
      this.#since = this.#read;
      this.#events.onBehind();
      return;
    }
    this.#since = recordOf(message) ?? this.#since;
    this.#waiting.push(message);
    this.#wake?.();
  }

  /** Ends the subscription. A reader gets what has arrived, and then the end, or the error. */
  close(failure?: unknown): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#failure = failure;
    this.#wake?.();
    this.#events.onClosed();
  }

  /** @throws ServiceError if the service refuses the key */
  async *[Symbol.asyncIterator](): AsyncGenerator<FeedMessage> {
    try {
      for (;;) {
        const message = this.#waiting.shift();
        if (message !== undefined) {
          this.#read = recordOf(message) ?? this.#read;
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
}

const recordOf = (message: FeedMessage): string | undefined => ("resume" in message ? message.resume : undefined);

export class Feed {
  readonly #options: ClientOptions;
  readonly #requests: Requests;
  readonly #subscriptions = new Map<string, Subscription>();
  #socket: WebSocket | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #ping: ReturnType<typeof setInterval> | undefined;
  #failures = 0;
  #isAnswered = true;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#requests = new Requests({ ...options, attempts: 1 });
  }

  /** Subscribes to a collection. An unknown one gets indexed. @throws TypeError if it is subscribed to already */
  subscribe(address: string, { chain = "eth", ...since }: SubscribeOptions = {}): Subscription {
    const name = nameOf(chain, address);
    if (this.#subscriptions.has(name)) throw new TypeError(`there is a subscription to ${name} already`);
    const subscription: Subscription = new Subscription(
      { chain, address, ...since },
      { onBehind: () => this.#ask(subscription), onClosed: () => this.#left(name, subscription) },
    );
    this.#subscriptions.set(name, subscription);
    if (this.#socket?.readyState === OPEN) this.#ask(subscription);
    else this.#connect();
    return subscription;
  }

  /** Ends all subscriptions and closes the socket. */
  close(failure?: unknown): void {
    for (const subscription of [...this.#subscriptions.values()]) subscription.close(failure);
  }

  #left(name: string, { chain, address }: Subscription): void {
    this.#subscriptions.delete(name);
    this.#send({ action: "unsubscribe", chain, address });
    if (this.#subscriptions.size === 0) this.#disconnect();
  }

  #send(message: object): void {
    if (this.#socket?.readyState === OPEN) this.#socket.send(JSON.stringify(message));
  }

  #ask({ chain, address, since }: Subscription): void {
    this.#send({ action: "subscribe", chain, address, ...(since === undefined ? {} : { since }) });
  }

  #connect(): void {
    if (this.#socket !== undefined || this.#retry !== undefined) return;
    const url = `${this.#options.url.replace(/\/+$/, "").replace(/^http/, "ws")}/api/v2/ws`;
    const Socket = this.#options.WebSocket ?? WebSocket;
    const socket = new Socket(url, ["evm.v2", `apikey.${this.#options.key}`]);
    this.#socket = socket;
    socket.onopen = () => {
      this.#failures = 0;
      this.#isAnswered = true;
      for (const subscription of this.#subscriptions.values()) this.#ask(subscription);
      this.#ping = setInterval(() => this.#checkAlive(socket), PING_MS);
    };
    socket.onmessage = ({ data }) => {
      this.#isAnswered = true;
      this.#receive(JSON.parse(String(data)) as ServerMessage);
    };
    socket.onclose = ({ code }) => void this.#lost(socket, code);
  }

  #checkAlive(socket: WebSocket): void {
    if (this.#isAnswered) {
      this.#isAnswered = false;
      this.#send({ action: "ping" });
    } else socket.close();
  }

  #receive(message: ServerMessage): void {
    if (message.type === "pong" || message.type === "unsubscribed" || message.address === undefined) return;
    this.#subscriptions.get(nameOf(message.chain ?? "", message.address))?.push(message);
  }

  async #lost(socket: WebSocket, code: number): Promise<void> {
    if (this.#socket !== socket) return;
    this.#forget();
    const refusal = code === POLICY_VIOLATION || this.#failures > 0 ? await this.#refusal() : undefined;
    if (refusal !== undefined) return this.close(refusal);
    if (this.#subscriptions.size === 0 || this.#socket !== undefined || this.#retry !== undefined) return;
    const wait = Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#failures++);
    // Clients of a service that restarts must not all return at once.
    this.#retry = setTimeout(
      () => {
        this.#retry = undefined;
        this.#connect();
      },
      wait * (0.5 + Math.random() / 2),
    );
  }

  /** The error of a service that refuses the key: browsers don't tell why a socket could not be opened. */
  async #refusal(): Promise<ServiceError | undefined> {
    try {
      await this.#requests.response("/api/v2/ws");
    } catch (error) {
      if (error instanceof ServiceError && (error.status === 401 || error.status === 403)) return error;
    }
    return undefined;
  }

  #forget(): void {
    clearInterval(this.#ping);
    this.#socket = undefined;
  }

  #disconnect(): void {
    clearTimeout(this.#retry);
    this.#retry = undefined;
    const socket = this.#socket;
    this.#forget();
    socket?.close();
  }
}

/** Names a subscription. The service names chains by their names, and a caller may give a code. */
function nameOf(chain: string, address: string): string {
  const lower = chain.toLowerCase();
  return `${CHAIN_NAMES[lower] ?? lower} ${address.toLowerCase()}`;
}
