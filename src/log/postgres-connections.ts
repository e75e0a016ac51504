/**
 * A pool of connections to a PostgreSQL server. Connections can die silently: if the server has answered nothing for a
 * while, new queries use new connections. The old ones are given up once the new ones get answers.
 */
import type { SQL, TransactionSQL } from "bun";
import { Budget } from "../core/budget.ts";
import { type Clock, retry } from "../core/clock.ts";
import { AppError, isRetryable } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import { Semaphore } from "../core/semaphore.ts";
import { singleFlight } from "../core/work.ts";
import type { SqlQuery } from "./seen-records.ts";

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
/** The server counts as silent if it has answered no query for this long. The poll asks it each second. */
const SILENT_MS = 1_000;
/** New connections are opened after this much silence: the old ones may be dead, and the way to the server open. */
const REPLACE_MS = 2_500;
/** Queries on replaced connections are given up this long after a newer connection got an answer. */
const LOST_AFTER_MS = 500;
/** Statements of each client in the search for a pooler. */
const POOLER_LOOKS = 3;
/** Most attempts at a read if connections die. */
const READ_ATTEMPTS = 3;
/** Most attempts at a statement that the server rolls back to let another one pass. */
const CONFLICT_ATTEMPTS = 6;
const BACKOFF = { baseMs: 50, maxMs: 400 } as const;

interface ConnectionsOptions {
  readonly url: string;
  /** Most connections. */
  readonly most: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called when new connections replace silent ones. */
  readonly onReplaced: () => void;
  /**
   * Checks that a new connection leads to the same log as the ones before. No answer is released before that. It must
   * send its queries through `query`. If it rejects, the answer is an error.
   */
  readonly check: (query: SqlQuery) => Promise<void>;
}

/** The server sent neither an answer nor a refusal in time. */
class SilentError extends Error {}

export function postgresError(error: unknown, meta: Record<string, string | number> = {}): AppError {
  if (error instanceof AppError) return error;
  const fault = error as { code?: unknown; errno?: unknown; message?: unknown };
  const state = typeof fault.errno === "string" ? fault.errno : "";
  if (/^(?:26000|42P05)$/.test(state)) return new AppError(POOLED, { code: "configuration", cause: error });
  // Classes 22, 23 and 42: the statement itself is wrong. A retry may help with all the rest.
  const final = /^(22|23|42)/.test(state);
  return new AppError(`the event log is not available: ${String(fault.message ?? error)}`, {
    code: "log_unavailable",
    retryable: !final,
    meta: { ...meta, sqlState: state },
    cause: error,
  });
}

const POOLED =
  "the event log is behind a pooler that shares connections between transactions: add ?prepare=false to EVENT_LOG_URL";

/**
 * Refuses a pooler that shares the server's connections between transactions, unless statements are not prepared: the
 * parameters of one client's statement could go to another client's. Such a pooler gives two clients one connection of
 * the server, or one client two.
 * @throws AppError `configuration`
 */
export async function assertUnpooled(url: string): Promise<void> {
  if (new URL(url).searchParams.get("prepare") === "false") return;
  const options = { max: 1, connectionTimeout: CONNECT_SECONDS, prepare: false } as const;
  const clients = [new Bun.SQL(url, options), new Bun.SQL(url, options)] as const;
  const backends = clients.map(() => new Set<number>());
  try {
    for (let look = 0; look < POOLER_LOOKS; look++) {
      for (const [index, sql] of clients.entries()) {
        const [row] = await sql.unsafe<{ pid: number }[]>("SELECT pg_backend_pid() AS pid");
        if (row !== undefined) backends[index]?.add(row.pid);
      }
    }
  } catch (error) {
    throw postgresError(error);
  } finally {
    await Promise.all(clients.map((sql) => sql.close({ timeout: CLOSE_SECONDS })));
  }
  const all = backends.flatMap((pids) => [...pids]);
  if (all.length > clients.length || new Set(all).size < all.length) {
    throw new AppError(POOLED, { code: "configuration" });
  }
}

/** True if the server rolled the statement back to let another one pass: a serialisation failure or a deadlock. */
const isConflict = (error: unknown): boolean => /^40(?:001|P01)$/.test(String((error as { errno?: unknown }).errno));

/** A query that was sent and is not answered yet. */
interface PendingQuery {
  /** Monotonic time. */
  readonly sentMs: number;
  readonly giveUp: (reason: string) => void;
}

/** Connections that are replaced together. They open on demand. */
class ConnectionSet {
  readonly sql: SQL;
  /** A query waits here for a free connection. Its timeout starts afterwards: this wait says nothing about the server. */
  readonly slots: Semaphore;
  /** Oldest first. */
  readonly pending = new Set<PendingQuery>();
  /** Aborted when newer connections replace these. The queries in the queue then move to them. */
  readonly replaced = new AbortController();
  /** Monotonic time of the newest answer. */
  answeredMs = Number.NEGATIVE_INFINITY;

  constructor({ url, most }: ConnectionsOptions, onOpened: () => void) {
    const onconnect = (error: unknown): void => void (error ?? onOpened());
    this.sql = new Bun.SQL(url, { max: most, connectionTimeout: CONNECT_SECONDS, onconnect });
    this.slots = new Semaphore(most);
  }

  /** Monotonic time of the oldest pending query; infinite without one. */
  get waitingSinceMs(): number {
    const [oldest] = this.pending;
    return oldest?.sentMs ?? Number.POSITIVE_INFINITY;
  }
}

export class PostgresConnections {
  readonly #options: ConnectionsOptions;
  #current: ConnectionSet;
  /** Replaced connections that are still open, because one of their queries may still be answered. */
  readonly #former = new Set<ConnectionSet>();
  /** Monotonic time since which the former connections wait; infinite once a current one gets an answer. */
  #formerSinceMs = Number.POSITIVE_INFINITY;
  /** True if the newest query could not be sent, or its connection died. */
  #isRefused = false;
  /** Connections opened so far, and how many of them had been opened when the last successful check began. */
  #opened = 0;
  #checked = 0;
  readonly #checkOnce = singleFlight(() => this.#check());
  #closed = false;

  constructor(options: ConnectionsOptions) {
    this.#options = options;
    this.#current = this.#openSet();
  }

  #openSet(): ConnectionSet {
    return new ConnectionSet(this.#options, () => this.#opened++);
  }

  /** False while the server refuses connections or leaves queries without an answer. */
  get isAnswering(): boolean {
    const { waitingSinceMs, answeredMs } = this.#current;
    // Connections that were just opened have not waited for long, but the former ones have.
    const silentSince = Math.max(answeredMs, Math.min(waitingSinceMs, this.#formerSinceMs));
    return !this.#isRefused && this.#options.clock.monotonic() - silentSince < SILENT_MS;
  }

  /** Like `query`, for a statement that changes nothing: retried if its connection died. */
  async read<T>(text: string, parameters: unknown[], meta?: Record<string, string | number>): Promise<T[]> {
    // After a silent server's timeout the caller has waited long enough.
    const shouldRetry = (error: unknown) =>
      !this.#closed && isRetryable(error) && !((error as AppError).cause instanceof SilentError);
    const { clock } = this.#options;
    const options = { ...BACKOFF, clock, attempts: READ_ATTEMPTS, shouldRetry };
    return retry(() => this.query<T>(text, parameters, meta), options);
  }

  /** @throws AppError `log_unavailable` */
  async query<T>(text: string, parameters: unknown[], meta: Record<string, string | number> = {}): Promise<T[]> {
    const { clock } = this.#options;
    const options = { ...BACKOFF, clock, attempts: CONFLICT_ATTEMPTS, shouldRetry: isConflict };
    try {
      const rows = await retry(() => this.#query<T>(text, parameters), options);
      // All questions use the new connections, so the answer to this one must not end their check.
      while (this.#checked < this.#opened) await Budget.outside(this.#checkOnce);
      return rows;
    } catch (error) {
      throw postgresError(error, meta);
    }
  }

  async #check(): Promise<void> {
    const opened = this.#opened;
    await this.#options.check((text, parameters) => this.#query(text, parameters));
    this.#checked = opened;
  }

  async #query<T>(text: string, parameters: unknown[]): Promise<T[]> {
    const waiting = new AbortController();
    const cancel = this.#options.clock.after(QUERY_MS, () =>
      waiting.abort(new SilentError(`no connection was free within ${QUERY_MS} ms`)),
    );
    try {
      for (;;) {
        const set = this.#current;
        const { signal: replaced } = set.replaced;
        const ask = (): Promise<T[]> => {
          cancel();
          return this.#send<T>(set, text, parameters);
        };
        try {
          return await set.slots.run(ask, AbortSignal.any([waiting.signal, replaced]));
        } catch (error) {
          if (!replaced.aborted || error !== replaced.reason) throw error;
        }
      }
    } finally {
      cancel();
    }
  }

  /** @throws SilentError if no answer comes in time, or newer connections get answers */
  async #send<T>(set: ConnectionSet, text: string, parameters: unknown[]): Promise<T[]> {
    const { clock } = this.#options;
    const { promise: silence, reject } = Promise.withResolvers<never>();
    const pending: PendingQuery = { sentMs: clock.monotonic(), giveUp: (reason) => reject(new SilentError(reason)) };
    set.pending.add(pending);
    const cancelWatch = clock.after(REPLACE_MS, () => {
      if (set.answeredMs < pending.sentMs) this.#replace(set);
    });
    const cancelTimeout = this.#onTimeout(() => {
      pending.giveUp(`no answer within ${QUERY_MS} ms`);
      this.#replace(set);
    });
    try {
      const rows = await Promise.race([set.sql.unsafe(text, parameters) as PromiseLike<T[]>, silence]);
      this.#answered(set, false);
      return rows;
    } catch (error) {
      // A state of SQL comes from the server. Classes 08 and 57 say that it is going away, or not there yet.
      const isAnswer = /^(?!08|57)[0-9A-Z]{5}$/.test(String((error as { errno?: unknown }).errno));
      if (!(error instanceof SilentError)) this.#answered(set, !isAnswer);
      throw error;
    } finally {
      cancelWatch();
      cancelTimeout();
      set.pending.delete(pending);
    }
  }

  #answered(set: ConnectionSet, isRefused: boolean): void {
    const { clock } = this.#options;
    set.answeredMs = clock.monotonic();
    this.#isRefused = isRefused;
    if (isRefused || set !== this.#current) return;
    this.#formerSinceMs = Number.POSITIVE_INFINITY;
    // The way to the server is open again, so what the former connections still wait for is lost.
    for (const former of this.#former) {
      this.#former.delete(former);
      clock.after(LOST_AFTER_MS, () => {
        for (const { giveUp } of former.pending) giveUp("its connection died");
      });
    }
  }

  /** Runs without a timeout: a migration may take long. @throws AppError `log_unavailable` */
  async transaction(work: (tx: TransactionSQL) => Promise<void>): Promise<void> {
    try {
      await this.#current.sql.begin(work);
    } catch (error) {
      throw postgresError(error);
    }
  }

  /** Sends new queries over new connections. Pending queries on the old ones may still be answered. */
  #replace(set: ConnectionSet): void {
    if (this.#closed || set !== this.#current) return;
    const { logger } = this.#options;
    logger.warn({}, "the event log does not answer; opening new connections");
    this.#formerSinceMs = Math.min(this.#formerSinceMs, set.waitingSinceMs);
    this.#current = this.#openSet();
    this.#former.add(set);
    set.replaced.abort();
    set.sql
      .close({ timeout: QUERY_MS / 1_000 })
      .catch((error: unknown) => logger.debug({ err: postgresError(error) }, "closing connections failed"))
      .finally(() => this.#former.delete(set));
    this.#options.onReplaced();
    // The callers may all be waiting for the old connections.
    this.#query("SELECT 1", []).catch(() => undefined);
  }

  /** Calls back after the timeout of a query. Returns the function that cancels it. */
  #onTimeout(callback: () => void): () => void {
    const { clock } = this.#options;
    let cancel = clock.after(QUERY_MS, () => {
      // If this process itself was held up, an answer may have arrived: let it be read before giving up.
      cancel = clock.after(1, callback);
    });
    return () => cancel();
  }

  async close(): Promise<void> {
    this.#closed = true;
    const sets = [this.#current, ...this.#former];
    await Promise.all(sets.map(({ sql }) => sql.close({ timeout: CLOSE_SECONDS })));
  }
}
