/**
 * Connections to a PostgreSQL server, as many as work side by side, and one that listens. Connections can die without a
 * word: a query that is not answered in time takes all of them to be dead, and what is asked next goes over new ones.
 */
import { SQL, type TransactionSQL } from "bun";
import type { Clock } from "../core/clock.ts";
import { AppError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { Slots } from "../core/slots.ts";

export const MAX_CONNECTIONS = 8;
/** A server that cannot be reached is given up before a query's time is over. */
const CONNECT_SECONDS = 10;
/**
 * Where the network drops a flow without a word (a NAT that forgot it, a primary that lost its power) nothing ever comes
 * back, and the system would go on sending for a quarter of an hour. The largest statement, an append of some megabytes,
 * takes under a second; fifteen are a server at its limit.
 */
const QUERY_MS = 15_000;
/** Nobody waits for an answer any more when the connections are closed, so that this is for the server's goodbye. */
const CLOSE_SECONDS = 1;
/** A LISTEN that failed is tried again after this, then after twice as long. */
const LISTEN_RETRY_MS = 2_000;
const LISTEN_RETRY_MAX_MS = 60_000;

export interface ConnectionsOptions {
  readonly url: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly channel: string;
  /** Hears each notification on the channel. */
  readonly onNotified: (payload: string) => void;
}

/** Nothing came back in time: neither an answer nor a refusal. */
class SilentError extends Error {}

export function postgresError(error: unknown, meta: Record<string, string | number> = {}): AppError {
  if (error instanceof AppError) return error;
  const fault = error as { code?: unknown; errno?: unknown; message?: unknown };
  const state = typeof fault.errno === "string" ? fault.errno : "";
  // Class 22/23/42: the statement itself is wrong. All else (connection, shutdown, resources) may pass.
  const final = /^(22|23|42)/.test(state);
  return new AppError(`the event log is not available: ${String(fault.message ?? error)}`, {
    code: "log_unavailable",
    retryable: !final,
    meta: { ...meta, sqlState: state },
    cause: error,
  });
}

export class PostgresConnections {
  readonly #options: ConnectionsOptions;
  #sql: SQL;
  /** Given up, and not closed yet: a query of theirs may still be answered. */
  readonly #former = new Set<SQL>();
  /** A query's time begins when a connection is free for it: waiting for its turn says nothing of the server. */
  readonly #slots = new Slots(MAX_CONNECTIONS);
  #cancelListening: () => void = () => undefined;
  #closed = false;

  constructor(options: ConnectionsOptions) {
    this.#options = options;
    this.#sql = this.#open();
  }

  /** Opened as they are needed. */
  #open(): SQL {
    return new SQL(this.#options.url, { max: MAX_CONNECTIONS, connectionTimeout: CONNECT_SECONDS });
  }

  /** @throws AppError `log_unavailable` */
  async query<T>(text: string, parameters: unknown[], meta: Record<string, string | number> = {}): Promise<T[]> {
    const waiting = new AbortController();
    const cancel = this.#options.clock.after(QUERY_MS, () =>
      waiting.abort(new SilentError(`no connection was free within ${QUERY_MS} ms`)),
    );
    const ask = async (): Promise<T[]> => {
      cancel();
      const sql = this.#sql;
      try {
        return await this.#inTime<T[]>(sql.unsafe(text, parameters));
      } catch (error) {
        if (error instanceof SilentError) this.#replace(sql);
        throw error;
      }
    };
    try {
      return await this.#slots.run(ask, waiting.signal);
    } catch (error) {
      throw postgresError(error, meta);
    } finally {
      cancel();
    }
  }

  /** Without a bound on its time: a migration takes what it takes. @throws AppError `log_unavailable` */
  async transaction(work: (tx: TransactionSQL) => Promise<void>): Promise<void> {
    try {
      await this.#sql.begin(work);
    } catch (error) {
      throw postgresError(error);
    }
  }

  /** Listens on the channel from now on, or as soon as the server lets it. Never rejects. */
  async listen(attempt = 1): Promise<void> {
    const { channel, onNotified, clock, logger } = this.#options;
    const sql = this.#sql;
    try {
      await this.#inTime(sql.listen(channel, onNotified));
    } catch (error) {
      if (this.#closed || sql !== this.#sql) return;
      const level = attempt === 1 ? "warn" : "debug";
      logger[level]({ err: postgresError(error) }, "LISTEN is not available; the poll of the tail must do");
      const wait = Math.min(LISTEN_RETRY_MAX_MS, LISTEN_RETRY_MS * 2 ** (attempt - 1));
      this.#cancelListening = clock.after(wait, () => this.listen(attempt + 1));
    }
  }

  /** What is asked from here on goes over other connections; what was asked of these before may still be answered. */
  #replace(sql: SQL): void {
    if (this.#closed || sql !== this.#sql) return;
    const { logger } = this.#options;
    logger.warn({ afterMs: QUERY_MS }, "the event log does not answer; its connections are replaced");
    this.#sql = this.#open();
    this.#former.add(sql);
    sql
      .close({ timeout: QUERY_MS / 1_000 })
      .catch((error: unknown) => logger.debug({ err: postgresError(error) }, "closing connections failed"))
      .finally(() => this.#former.delete(sql));
    this.#cancelListening();
    this.listen();
  }

  /** The answer, unless there is none for too long. @throws SilentError then */
  async #inTime<T>(answer: PromiseLike<T>): Promise<T> {
    const { clock } = this.#options;
    const { promise: silence, reject } = Promise.withResolvers<never>();
    const reason = `no answer within ${QUERY_MS} ms`;
    let cancel = clock.after(QUERY_MS, () => {
      // Where this process itself was held up, answers that came meanwhile are read before the next timer.
      cancel = clock.after(1, () => reject(new SilentError(reason)));
    });
    try {
      return await Promise.race([answer, silence]);
    } finally {
      cancel();
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelListening();
    // With its connection LISTEN ends as well; a server that is silent is not asked for it first.
    await Promise.all([this.#sql, ...this.#former].map((sql) => sql.close({ timeout: CLOSE_SECONDS })));
  }
}
