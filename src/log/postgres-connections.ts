/**
 * A pool of connections to a PostgreSQL server, and one connection that listens. Connections can die silently: after a
 * query without an answer in time, all connections are presumed dead and new queries use new ones.
 */
import { SQL, type TransactionSQL } from "bun";
import { Semaphore } from "../core/background.ts";
import type { Clock } from "../core/clock.ts";
import { AppError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";

export const MAX_CONNECTIONS = 8;
/** Shorter than a query's timeout, so that an unreachable server is noticed first. */
const CONNECT_SECONDS = 10;
/**
 * Timeout of a query. If the network drops a flow silently (a NAT forgot it, a primary lost its power), no answer ever
 * comes, and the system would retransmit for a quarter of an hour. The largest statement, an append of some megabytes,
 * takes under a second; a server that takes fifteen is at its limit.
 */
const QUERY_MS = 15_000;
/** Time for the server's goodbye. No caller waits for an answer once the connections close. */
const CLOSE_SECONDS = 1;
/** First backoff after a failed LISTEN. It doubles with each failure. */
const LISTEN_RETRY_MS = 2_000;
const LISTEN_RETRY_MAX_MS = 60_000;

interface ConnectionsOptions {
  readonly url: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly channel: string;
  /** Receives the payload of each notification on the channel. */
  readonly onNotified: (payload: string) => void;
}

/** The server sent neither an answer nor a refusal in time. */
class SilentError extends Error {}

function postgresError(error: unknown, meta: Record<string, string | number> = {}): AppError {
  if (error instanceof AppError) return error;
  const fault = error as { code?: unknown; errno?: unknown; message?: unknown };
  const state = typeof fault.errno === "string" ? fault.errno : "";
  // Classes 22, 23 and 42: the statement itself is wrong. A retry may help with all the rest.
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
  /** Replaced connections that are still open, because one of their queries may still be answered. */
  readonly #former = new Set<SQL>();
  /**
   * A query waits here for a free connection. Its timeout starts afterwards: this wait says nothing about the server.
   */
  readonly #slots = new Semaphore(MAX_CONNECTIONS);
  #cancelListening: () => void = () => undefined;
  #closed = false;

  constructor(options: ConnectionsOptions) {
    this.#options = options;
    this.#sql = this.#open();
  }

  /** Connections open on demand. */
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

  /** Runs without a timeout: a migration may take long. @throws AppError `log_unavailable` */
  async transaction(work: (tx: TransactionSQL) => Promise<void>): Promise<void> {
    try {
      await this.#sql.begin(work);
    } catch (error) {
      throw postgresError(error);
    }
  }

  /** Listens on the channel, with retries until the server accepts. Never rejects. */
  async listen(attempt = 1): Promise<void> {
    const { channel, onNotified, clock, logger } = this.#options;
    const sql = this.#sql;
    try {
      await this.#inTime(sql.listen(channel, onNotified));
    } catch (error) {
      if (this.#closed || sql !== this.#sql) return;
      const level = attempt === 1 ? "warn" : "debug";
      logger[level]({ err: postgresError(error) }, "LISTEN failed; changes are found by polling until it works");
      const wait = Math.min(LISTEN_RETRY_MAX_MS, LISTEN_RETRY_MS * 2 ** (attempt - 1));
      this.#cancelListening = clock.after(wait, () => this.listen(attempt + 1));
    }
  }

  /** Sends new queries over new connections. Pending queries on the old ones may still be answered. */
  #replace(sql: SQL): void {
    if (this.#closed || sql !== this.#sql) return;
    const { logger } = this.#options;
    logger.warn({ afterMs: QUERY_MS }, "the event log did not answer in time; opening new connections");
    this.#sql = this.#open();
    this.#former.add(sql);
    sql
      .close({ timeout: QUERY_MS / 1_000 })
      .catch((error: unknown) => logger.debug({ err: postgresError(error) }, "closing connections failed"))
      .finally(() => this.#former.delete(sql));
    this.#cancelListening();
    this.listen();
  }

  /** Awaits an answer with the query timeout. @throws SilentError after it */
  async #inTime<T>(answer: PromiseLike<T>): Promise<T> {
    const { clock } = this.#options;
    const { promise: silence, reject } = Promise.withResolvers<never>();
    const reason = `no answer within ${QUERY_MS} ms`;
    let cancel = clock.after(QUERY_MS, () => {
      // If this process itself was held up, an answer may have arrived: let it be read before giving up.
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
    // Closing the connection ends LISTEN, too. A silent server would never confirm an UNLISTEN.
    await Promise.all([this.#sql, ...this.#former].map((sql) => sql.close({ timeout: CLOSE_SECONDS })));
  }
}

export const POSTGRES_MIGRATIONS: readonly (readonly string[])[] = [
  [
    "CREATE SEQUENCE streams_seq",
    // The collation "C" compares bytes, so prefix scans use the index in any locale.
    `CREATE TABLE streams (
       id bigserial PRIMARY KEY,
       name text COLLATE "C" NOT NULL UNIQUE,
       version integer NOT NULL,
       seq bigint NOT NULL,
       headline text
     )`,
    "CREATE INDEX streams_by_seq ON streams (seq)",
    `CREATE TABLE events (
       stream_id bigint NOT NULL,
       version integer NOT NULL,
       type text NOT NULL,
       time bigint NOT NULL,
       crc bigint NOT NULL,
       data bytea NOT NULL,
       PRIMARY KEY (stream_id, version)
     )`,
    // Transfer columns are dense already; PostgreSQL's own compression would only cost time.
    "ALTER TABLE events ALTER COLUMN data SET STORAGE EXTERNAL",
    "CREATE TABLE blobs (hash bytea PRIMARY KEY, bytes bytea NOT NULL)",
    "CREATE TABLE leases (name text PRIMARY KEY, holder text NOT NULL, expires_at timestamptz NOT NULL)",
    "CREATE TABLE settings (name text PRIMARY KEY, value text NOT NULL)",
  ],
];
