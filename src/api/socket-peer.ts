/**
 * One client's socket, as the channel sees it: limits the rate of its messages, ends its questions with it, and closes it
 * if it does not read. Also shares the places for sockets among keys.
 */

import type { ServerWebSocket } from "bun";
import { LIMITS } from "../config.ts";
import type { Clock } from "../core/clock.ts";
import { Refusal } from "../core/errors.ts";
import type { Metrics } from "../core/metrics.ts";
import { noteRequest, turnToStart } from "../core/turns.ts";
import type { ApiKey } from "../operators/keys.ts";
import type { Questions } from "../operators/questions.ts";
import type { ServerMessage } from "../push/message-models.ts";
import { encodeMessage } from "../push/messages.ts";
import type { Peer } from "../push/subscription.ts";

export interface SocketData {
  readonly key: ApiKey;
  peer: SocketPeer | undefined;
}

/** Time for a slow reader to read the close frame before the socket is terminated. */
const CLOSE_GRACE_MS = 5_000;
/** WebSocket close codes: RFC 6455, and 1012 ("service restart") and 1013 ("try again later") of the IANA registry. */
export const [POLICY_VIOLATION, SERVICE_RESTART, TRY_LATER, GOING_AWAY] = [1008, 1012, 1013, 1001] as const;

/** Text of the pings that ask if a client reads. */
const IS_READ = "read";

/** The parts that a socket needs of those that serve requests. */
interface SocketServing {
  readonly questions: Questions;
  readonly metrics: Metrics;
}

const SECOND_MS = 1_000;

/** One client's socket. Limits the rate of its messages, and closes it if it does not read. */
export class SocketPeer implements Peer {
  readonly #socket: ServerWebSocket<SocketData>;
  readonly #clock: Clock;
  readonly #serving: SocketServing;
  /** Ends the questions of the client when it is gone. */
  readonly #gone = new AbortController();
  #windowStart: number;
  #inWindow = 0;
  #closing = false;
  /** Callbacks of the ping that is on its way, and those that wait for the next one. */
  #pinged: (() => void)[] = [];
  #unpinged: (() => void)[] = [];

  /** The key that opened the socket. */
  get key(): ApiKey {
    return this.#socket.data.key;
  }

  constructor(socket: ServerWebSocket<SocketData>, clock: Clock, serving: SocketServing) {
    this.#socket = socket;
    this.#clock = clock;
    this.#serving = serving;
    this.#windowStart = clock.monotonic();
  }

  async ask(work: () => Promise<void>): Promise<void> {
    this.#takeRequest();
    noteRequest(this.key);
    const question = this.#serving.questions.begin(this.key);
    question.endWith(this.#gone.signal);
    try {
      await question.budget.run(async () => {
        await turnToStart();
        await work();
      });
    } finally {
      question.end();
    }
  }

  /** @throws Refusal `rate_limited` in words: a message over a socket has no Retry-After */
  #takeRequest(): void {
    try {
      this.#serving.questions.take(this.key);
    } catch (error) {
      if (!(error instanceof Refusal) || error.retryAfter === undefined) throw error;
      const { key, requestsPerMinute } = this.key;
      const rate = `the key ${key} has ${requestsPerMinute} requests a minute, which its messages and their work take`;
      throw new Refusal(error.code, `${rate}: try again in ${error.retryAfter} s`, { retryAfter: error.retryAfter });
    }
  }

  send(message: ServerMessage): void {
    if (this.#closing) return;
    this.#serving.metrics.socketMessages.inc({ type: message.type });
    this.#socket.send(encodeMessage(message));
    if (this.#socket.getBufferedAmount() > LIMITS.maxSocketBuffer) {
      this.close(TRY_LATER, `slow reader: more than ${LIMITS.maxSocketBuffer} bytes are unread`);
    }
  }

  onRead(callback: () => void): void {
    this.#unpinged.push(callback);
    this.#askIfRead();
  }

  /** A client that has read a ping has read what was sent before it. Bytes that the system took tell less. */
  #askIfRead(): void {
    if (this.#closing || this.#pinged.length > 0 || this.#unpinged.length === 0) return;
    this.#pinged = this.#unpinged.splice(0);
    this.#socket.ping(IS_READ);
  }

  /** Handles a pong. The runtime's own pings have no text. */
  onPong(text: string): void {
    if (text !== IS_READ) return;
    for (const callback of this.#pinged.splice(0)) callback();
    this.#askIfRead();
  }

  /** Counts a message. Returns false if it is not to be answered: beyond the bound of a second, the socket is closed. */
  countMessage(): boolean {
    if (this.#closing) return false;
    const now = this.#clock.monotonic();
    if (now - this.#windowStart >= SECOND_MS) {
      this.#windowStart = now;
      this.#inWindow = 0;
    }
    if (++this.#inWindow <= LIMITS.maxSocketMessagesPerSecond) return true;
    this.close(POLICY_VIOLATION, `more than ${LIMITS.maxSocketMessagesPerSecond} messages in a second`);
    return false;
  }

  close(code: number, reason: string): void {
    if (this.#closing) return;
    this.#closing = true;
    this.ended();
    this.#socket.close(code, reason);
    // A client that never reads would hold the buffered bytes for ever.
    this.#clock.after(CLOSE_GRACE_MS, () => this.#socket.terminate());
  }

  /** Ends the questions that are not answered yet. */
  ended(): void {
    this.#gone.abort(new DOMException("the socket is closed", "AbortError"));
  }
}

/** The places for sockets, and how many of them each key holds. */
export class SocketPlaces {
  readonly #places: number;
  readonly #byKey = new Map<string, number>();
  #total = 0;

  constructor(places: number) {
    this.#places = places;
  }

  /** @throws Refusal `rate_limited` that says whether the key's share or the whole process is full */
  assertFree({ key, isOperator }: ApiKey): void {
    const part = isOperator ? LIMITS.socketsPerOperator : LIMITS.socketsPerReader;
    const most = Math.max(1, Math.floor(this.#places * part));
    if ((this.#byKey.get(key) ?? 0) >= most) {
      const text = `connections of the key ${key} to this process: at most ${most}; close some, and use one connection`;
      const way = `for up to ${LIMITS.maxSubscriptionsPerSocket} subscriptions`;
      throw new Refusal("rate_limited", `${text} ${way}`, { retryAfter: RETRY_SECONDS });
    }
    if (this.#total < this.#places) return;
    const text = "too many connections: this process has no room for more";
    throw new NoRoom("rate_limited", text, { retryAfter: RETRY_SECONDS });
  }

  take({ key }: ApiKey): void {
    this.#total++;
    this.#byKey.set(key, (this.#byKey.get(key) ?? 0) + 1);
  }

  leave({ key }: ApiKey): void {
    this.#total--;
    const left = (this.#byKey.get(key) ?? 0) - 1;
    if (left > 0) this.#byKey.set(key, left);
    else this.#byKey.delete(key);
  }
}

/** Time after which a refused client may try again: another connection may have ended by then. */
const RETRY_SECONDS = 10;

/** All places are taken, so another process may have room: the answer is a 503. */
export class NoRoom extends Refusal {}
