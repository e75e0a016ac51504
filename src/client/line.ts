/**
 * One socket with its subscriptions. It connects again after an interruption, with a growing wait, and asks for each
 * subscription anew. It ends them with an error if the service refuses them, or was never there.
 */
import { Pace } from "./pace.ts";
import { type ClientOptions, Requests, ServiceError } from "./requests.ts";
import { type AnySubscription, nameOf, type Subscribed } from "./subscription.ts";
import type { ErrorCode, MessageOf, ServerMessage } from "./types.ts";

/** What the service has told about its limits. Shared by all sockets. */
export interface KnownLimits {
  messagesPerSecond?: number;
  subscriptionsPerConnection?: number;
}

/**
 * - `queued`: is to be asked for.
 * - `asked`: the first answer is awaited.
 * - `active`: has had its first answer.
 * - `leaving`: the answer to `unsubscribe` is awaited. What comes before it belongs to the former subscription.
 */
interface LineEntry {
  subscription: AnySubscription | undefined;
  /** What it is to, for the message that ends it. */
  readonly of: { readonly chain: string; readonly subject: Subscribed };
  state: "queued" | "asked" | "active" | "leaving";
}

interface LineOptions {
  readonly client: ClientOptions;
  readonly limits: KnownLimits;
  /** The service has told its limits. */
  readonly onLimits: () => void;
  /** The last subscription has ended. */
  readonly onEmpty: (line: Line) => void;
}

const FIRST_WAIT_MS = 250;
const MAX_WAIT_MS = 30_000;
const ATTEMPTS = 4;
/** A connection that is not open by then, or a question over HTTP that has no answer, is given up. */
const OPEN_MS = 10_000;
/** A connection that says nothing for this long is asked, and then given up. */
const PING_MS = 30_000;
/** `readyState` of an open socket. */
const OPEN = 1;
/** Close code of a server that refuses the key, or a client that exceeds a limit. */
const POLICY_VIOLATION = 1_008;
/** Close code of a connection that broke. */
const ABNORMAL = 1_006;
const UPGRADE_REQUIRED = 426;
/** Errors after which the same request may succeed. */
const RETRYABLE: readonly string[] = ["log_unavailable", "internal", "starting"];

export class Line {
  readonly #options: LineOptions;
  readonly #requests: Requests;
  readonly #places = new Map<string, LineEntry>();
  readonly #pace: Pace;
  #socket: WebSocket | undefined;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #opening: ReturnType<typeof setTimeout> | undefined;
  #ping: ReturnType<typeof setInterval> | undefined;
  /** Timers of subscriptions that are asked for again. */
  readonly #repeats = new Set<ReturnType<typeof setTimeout>>();
  /** Interruptions since all subscriptions were last answered. */
  #failures = 0;
  #wasOpen = false;
  #isHeard = true;
  #isEnded = false;

  constructor(options: LineOptions) {
    this.#options = options;
    this.#requests = new Requests({ ...options.client, attempts: 1 });
    this.#pace = new Pace(() => options.limits.messagesPerSecond);
  }

  get size(): number {
    return this.#places.size;
  }

  has(name: string): boolean {
    return this.#places.has(name);
  }

  add(name: string, subscription: AnySubscription): void {
    const place = this.#places.get(name);
    if (place !== undefined) {
      place.subscription = subscription;
      return;
    }
    const { chain, subject } = subscription;
    const added: LineEntry = { subscription, of: { chain, subject }, state: "queued" };
    this.#places.set(name, added);
    if (this.#socket?.readyState === OPEN) this.#ask(name, added);
    else this.#connect();
  }

  /** The subscription has ended. */
  remove(name: string, subscription: AnySubscription): void {
    const place = this.#places.get(name);
    if (place?.subscription !== subscription) return;
    place.subscription = undefined;
    this.#leave(name, place);
  }

  /** The reader of a subscription is too slow: ends it at the service. */
  pause(name: string): void {
    const place = this.#places.get(name);
    if (place !== undefined) this.#leave(name, place);
  }

  /** The reader of a subscription has room again. */
  resume(name: string): void {
    const place = this.#places.get(name);
    if (place?.state === "queued" && this.#socket?.readyState === OPEN) this.#ask(name, place);
  }

  /** Gives up subscriptions that were not asked for yet, beyond this number. Returns them. */
  overflow(max: number): AnySubscription[] {
    const spare: AnySubscription[] = [];
    for (const [name, { subscription, state }] of [...this.#places].reverse()) {
      if (this.#places.size <= max) break;
      if (state !== "queued" || subscription === undefined) continue;
      this.#places.delete(name);
      spare.unshift(subscription);
    }
    return spare;
  }

  /** Closes the socket. */
  end(): void {
    this.#isEnded = true;
    clearTimeout(this.#retry);
    for (const timer of this.#repeats) clearTimeout(timer);
    this.#places.clear();
    const socket = this.#socket;
    this.#forget();
    socket?.close();
  }

  /** Returns false if the socket is closing. Then `onclose` follows. */
  #send(message: object): boolean {
    if (this.#socket?.readyState !== OPEN) return false;
    this.#socket.send(JSON.stringify(message));
    return true;
  }

  #ask(name: string, place: LineEntry): void {
    this.#pace.add(name, () => {
      const { subscription } = place;
      const isWanted = place.state === "queued" && subscription?.hasRoom === true;
      // It has ended, paused or moved to another socket meanwhile.
      if (!isWanted || this.#places.get(name) !== place) return false;
      const { chain, subject, since } = subscription;
      place.state = "asked";
      return this.#send({ action: "subscribe", chain, ...subject, ...(since === undefined ? {} : { since }) });
    });
  }

  #leave(name: string, place: LineEntry): void {
    if (place.state === "leaving") return;
    if (place.state === "queued") {
      if (place.subscription === undefined) this.#drop(name);
      return;
    }
    place.state = "leaving";
    const { chain, subject } = place.of;
    this.#pace.add(`unsubscribed ${name}`, () => this.#send({ action: "unsubscribe", chain, ...subject }));
    if ([...this.#places.values()].every(({ subscription }) => subscription === undefined)) this.#options.onEmpty(this);
  }

  #drop(name: string): void {
    this.#places.delete(name);
    if (this.#places.size === 0) this.#options.onEmpty(this);
  }

  #connect(): void {
    if (this.#socket !== undefined || this.#retry !== undefined || this.#isEnded) return;
    const { url, key, WebSocket: Given } = this.#options.client;
    const Socket = Given ?? globalThis.WebSocket;
    let socket: WebSocket;
    try {
      socket = new Socket(`${url.replace(/\/+$/, "").replace(/^http/i, "ws")}/api/v2/ws`, ["evm.v2", `apikey.${key}`]);
    } catch (cause) {
      const fields = { status: 0, code: "unreachable" } as const;
      const refused = new ServiceError("the address or the key can't be used for a WebSocket", fields, cause);
      // The caller first gets its subscription.
      this.#retry = setTimeout(() => this.#fail(refused), 0);
      return;
    }
    this.#socket = socket;
    this.#opening = setTimeout(() => {
      void this.#lost(socket, ABNORMAL, "");
      socket.close();
    }, OPEN_MS);
    socket.onopen = () => {
      clearTimeout(this.#opening);
      this.#wasOpen = true;
      this.#isHeard = true;
      for (const [name, place] of this.#places) this.#ask(name, place);
      this.#ping = setInterval(() => this.#checkAlive(socket), PING_MS);
    };
    socket.onmessage = ({ data }) => {
      this.#isHeard = true;
      if (this.#socket === socket) this.#receive(JSON.parse(String(data)) as ServerMessage);
    };
    // Without a listener some implementations end the process. `onclose` follows.
    socket.onerror = () => undefined;
    socket.onclose = ({ code, reason }) => void this.#lost(socket, code, String(reason ?? ""));
  }

  #checkAlive(socket: WebSocket): void {
    if (this.#isHeard) {
      this.#isHeard = false;
      this.#pace.add("pong", () => this.#send({ action: "ping" }));
    } else socket.close();
  }

  #receive(message: ServerMessage): void {
    if (message.type === "pong") {
      this.#pace.answered("pong");
      return;
    }
    const isNamed = ("address" in message && message.address !== undefined) || "token" in message;
    if (!isNamed) return;
    const name = nameOf(message);
    const place = this.#places.get(name);
    if (message.type === "unsubscribed") {
      this.#pace.answered(`unsubscribed ${name}`);
      // A subscription that ended at once gets no other answer.
      this.#pace.answered(name);
      if (place?.state === "leaving") this.#left(name, place);
      return;
    }
    if (message.type === "status" && message.limits !== undefined) this.#learn(message.limits);
    if ((message.type === "status" || message.type === "error") && this.#pace.answered(name)) {
      if (place?.state === "asked") place.state = "active";
    }
    if (place?.state !== "active") return;
    if (message.type === "error") this.#refused(name, place, message);
    else {
      place.subscription?.push(message);
      if (this.#pace.isIdle) this.#failures = 0;
    }
  }

  #learn(limits: KnownLimits): void {
    Object.assign(this.#options.limits, limits);
    this.#options.onLimits();
  }

  /** The service has ended a subscription. A new one of the same name, or a reader that has room again, goes on. */
  #left(name: string, place: LineEntry): void {
    place.state = "queued";
    if (place.subscription === undefined) this.#drop(name);
    else if (place.subscription.hasRoom) this.#ask(name, place);
  }

  /** The service has no subscription after an error: asks again, on another socket if this one is full, or ends it. */
  #refused(name: string, place: LineEntry, error: MessageOf<"error">): void {
    place.state = "queued";
    const [, perConnection] = /may hold (\d+) subscriptions/.exec(error.message) ?? [];
    if (perConnection !== undefined) this.#learn({ subscriptionsPerConnection: Number(perConnection) });
    // Another socket has taken it.
    if (this.#places.get(name) !== place) return;
    const { subscription } = place;
    subscription?.push(error);
    // The key's rate is spent for now, for example by the subscriptions before this one.
    const [, seconds] = error.code === "rate_limited" ? (/: try again in (\d+) s$/.exec(error.message) ?? []) : [];
    if (perConnection !== undefined || seconds !== undefined || RETRYABLE.includes(error.code)) {
      const timer = setTimeout(
        () => {
          this.#repeats.delete(timer);
          this.resume(name);
        },
        Math.max(1_000 * Number(seconds ?? 0), waitAfter(this.#failures++)),
      );
      this.#repeats.add(timer);
      return;
    }
    const status = error.code === "rate_limited" ? 429 : 400;
    subscription?.close(new ServiceError(error.message, { status, code: error.code as ErrorCode }));
  }

  /** Ends all subscriptions of this socket. */
  #fail(error: ServiceError): void {
    for (const { subscription } of [...this.#places.values()]) subscription?.close(error);
  }

  async #lost(socket: WebSocket, code: number, reason: string): Promise<void> {
    if (this.#socket !== socket) return;
    this.#forget();
    for (const [name, place] of [...this.#places]) {
      place.state = "queued";
      if (place.subscription === undefined) this.#places.delete(name);
    }
    if (this.#places.size === 0) return this.#options.onEmpty(this);
    const [, perSecond] = /more than (\d+) messages in a second/.exec(reason) ?? [];
    if (perSecond !== undefined) this.#learn({ messagesPerSecond: Number(perSecond) });
    this.#failures++;
    const error = await this.#reasonOf(code, reason);
    if (this.#isEnded || this.#socket !== undefined || this.#retry !== undefined) return;
    if (this.#isFinal(error, code)) return this.#fail(error);
    this.#options.client.onInterruption?.(error);
    const wait = Math.max(waitAfter(this.#failures - 1), 1_000 * (error.retryAfter ?? 0));
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      this.#connect();
    }, wait);
  }

  /** True if there is no use in another attempt. A service that was there before may come back at any time. */
  #isFinal({ status, code }: ServiceError, closeCode: number): boolean {
    if (status === 401 || status === 403) return true;
    const hasTried = this.#failures >= (this.#options.client.attempts ?? ATTEMPTS);
    if (closeCode === POLICY_VIOLATION) return hasTried;
    if (this.#wasOpen) return false;
    const isPassing = status === 0 || status === 429 || status >= 500;
    // Another server than this service answers, or the address has another path.
    if (!isPassing) return true;
    // The service says itself that it starts or is busy.
    const isThere = status !== 0 && code !== "unreadable";
    return hasTried && !isThere;
  }

  /** Says why a socket was closed or not opened, as the service says it over HTTP: browsers don't tell. */
  async #reasonOf(code: number, reason: string): Promise<ServiceError> {
    try {
      const { status } = await this.#requests.response("/api/v2/ws", { signal: AbortSignal.timeout(OPEN_MS) });
      return new ServiceError(`no service answers at this address: it answered with status ${status}`, {
        status,
        code: "unreadable",
      });
    } catch (error) {
      if (!(error instanceof ServiceError))
        return new ServiceError("the service did not answer in time", { status: 0, code: "unreachable" }, error);
      if (error.status !== UPGRADE_REQUIRED || error.code === "unreadable") return error;
      // The service is there. The socket's own words count.
      if (code === POLICY_VIOLATION) return new ServiceError(reason, { status: 429, code: "rate_limited" }, error);
      const text = reason === "" ? `the WebSocket was closed with code ${code}` : reason;
      return new ServiceError(text, { status: 0, code: "unreachable" }, error);
    }
  }

  #forget(): void {
    clearInterval(this.#ping);
    clearTimeout(this.#opening);
    this.#pace.stop();
    this.#socket = undefined;
  }
}

/** Clients of a service that restarts must not all return at once. */
const waitAfter = (failures: number): number =>
  Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** failures) * (0.5 + Math.random() / 2);
