/**
 * One client's socket, as the channel sees it: limits the rate of its messages, ends its questions with it, and closes it
 * if the client does not read.
 */

import type { ServerWebSocket } from "bun";
import { LIMITS } from "../config.ts";
import type { Clock } from "../core/clock.ts";
import { Refusal } from "../core/errors.ts";
import type { Metrics } from "../core/metrics.ts";
import { noteRequest, turnToStart } from "../core/turns.ts";
import type { ApiKey, ApiKeys } from "../operators/keys.ts";
import type { Questions } from "../operators/questions.ts";
import type { ServerMessage } from "../push/message-models.ts";
import { encodeMessage } from "../push/messages.ts";
import type { Peer } from "../push/subscription.ts";

export interface SocketData {
  readonly key: ApiKey;
  peer: SocketPeer | undefined;
}

/** Time for a slow client to read the close frame before the socket is terminated. */
const CLOSE_GRACE_MS = 5_000;
/** WebSocket close codes: RFC 6455, and 1012 ("service restart") and 1013 ("try again later") of the IANA registry. */
export const [POLICY_VIOLATION, SERVICE_RESTART, TRY_LATER, GOING_AWAY] = [1008, 1012, 1013, 1001] as const;

/** Text of the pings that ask whether the client has read what was sent. */
const IS_READ = "read";

const SECOND_MS = 1_000;

interface SocketServing {
  readonly keys: Pick<ApiKeys, "takeMessage">;
  readonly questions: Questions;
  readonly metrics: Metrics;
}

export class SocketPeer implements Peer {
  readonly #socket: ServerWebSocket<SocketData>;
  readonly #clock: Clock;
  readonly #serving: SocketServing;
  /** Aborted when the socket closes. */
  readonly #gone = new AbortController();
  #windowStart: number;
  #inWindow = 0;
  #closing = false;
  /** Callbacks for the pong to the ping that was sent, and those for the next ping's. */
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

  /** @throws Refusal `rate_limited` whose text has the wait: a message over a socket has no Retry-After */
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

  /** A client that answers a ping has read what was sent before it. An empty send buffer shows only that the system took it. */
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

  /**
   * Counts a message, and closes the socket beyond its bound of a second, or that of all sockets of its key. Returns false if
   * the message gets no answer.
   */
  countMessage(): boolean {
    if (this.#closing) return false;
    const now = this.#clock.monotonic();
    if (now - this.#windowStart >= SECOND_MS) {
      this.#windowStart = now;
      this.#inWindow = 0;
    }
    if (++this.#inWindow > LIMITS.maxSocketMessagesPerSecond) {
      this.close(POLICY_VIOLATION, `more than ${LIMITS.maxSocketMessagesPerSecond} messages in a second`);
      return false;
    }
    if (this.#serving.keys.takeMessage(this.key)) return true;
    // A reason has 123 bytes at most.
    this.close(POLICY_VIOLATION, "too many messages over all sockets of the key: send fewer than ten times its rate");
    return false;
  }

  close(code: number, reason: string): void {
    if (this.#closing) return;
    this.#closing = true;
    this.endQuestions();
    this.#socket.close(code, reason);
    // A client that never reads would hold the buffered bytes for ever.
    this.#clock.after(CLOSE_GRACE_MS, () => this.#socket.terminate());
  }

  /** Ends the questions that are not answered yet. */
  endQuestions(): void {
    this.#gone.abort(new DOMException("the socket is closed", "AbortError"));
  }
}
