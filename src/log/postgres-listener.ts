/**
 * The connection that listens for notifications of PostgreSQL. It is one of its own, and opened anew whenever it is
 * lost: the driver's own reconnection can't be told to log through our logger. Notifications are hints; the poll finds
 * every append that no notification announced.
 */
import type { SQL } from "bun";
import { type Clock, withTimeout } from "../core/clock.ts";
import type { Logger } from "../core/logger.ts";
import { postgresError } from "./postgres-connections.ts";

interface ListenerOptions {
  readonly url: string;
  readonly channel: string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Receives the payload of each notification. */
  readonly onNotified: (payload: string) => void;
}

/** The server gets this long to connect and to accept LISTEN. */
const TIMEOUT_MS = 3_000;
/** First backoff after a failure. It doubles with each failure. */
const RETRY_MS = 1_000;
const RETRY_MAX_MS = 3_000;

export class PostgresListener {
  readonly #options: ListenerOptions;
  #sql: SQL | undefined;
  #isListening = false;
  #failures = 0;
  #cancelRetry: () => void = () => undefined;
  #closed = false;

  constructor(options: ListenerOptions) {
    this.#options = options;
  }

  /** True once a notification has arrived, until the connection is lost. */
  get isListening(): boolean {
    return this.#isListening;
  }

  /** Opens a connection, and gives up the one before. Never rejects: a failed attempt is retried later. */
  async open(): Promise<void> {
    if (this.#closed) return;
    this.#giveUp();
    const { url, channel, clock, logger, onNotified } = this.#options;
    const seconds = TIMEOUT_MS / 1_000;
    const sql = new Bun.SQL(url, { max: 1, connectionTimeout: seconds, onclose: (error) => this.#onLost(sql, error) });
    this.#sql = sql;
    try {
      const hear = (payload: string) => {
        this.#isListening ||= sql === this.#sql;
        onNotified(payload);
      };
      const listening = await withTimeout(clock, TIMEOUT_MS, sql.listen(channel, hear));
      if (listening === undefined) throw new Error(`no answer within ${TIMEOUT_MS} ms`);
      if (sql !== this.#sql) return;
      if (this.#failures > 0) logger.info({}, "LISTEN works again");
      this.#failures = 0;
    } catch (error) {
      this.#onLost(sql, error);
    }
  }

  #onLost(sql: SQL, error: unknown): void {
    if (this.#closed || sql !== this.#sql) return;
    const { clock, logger } = this.#options;
    this.#giveUp();
    const level = this.#failures === 0 ? "warn" : "debug";
    logger[level]({ err: postgresError(error) }, "LISTEN was interrupted; changes are found by polling until it works");
    const wait = Math.min(RETRY_MAX_MS, RETRY_MS * 2 ** this.#failures++);
    this.#cancelRetry = clock.after(wait, () => this.open());
  }

  #giveUp(): void {
    this.#cancelRetry();
    this.#isListening = false;
    const sql = this.#sql;
    this.#sql = undefined;
    sql?.close({ timeout: 0 }).catch(() => undefined);
  }

  close(): void {
    this.#closed = true;
    this.#giveUp();
  }
}
