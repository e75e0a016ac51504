/**
 * The event log on PostgreSQL, for many replicas. An append is one conditional statement: the stream's row moves from
 * the expected version to the new one, or nothing happens. LISTEN/NOTIFY wakes the other processes; a poll of
 * `streams.seq` each second finds what a lost notification, or an engine without LISTEN, did not tell. Connections can die
 * without a word: a query that is not answered in time takes all of them to be dead.
 */
import { SQL } from "bun";
import type { Clock } from "../core/clock.ts";
import { AppError, ConcurrencyError, InvariantError, invariant } from "../core/errors.ts";
import { bytesToHex, type Hash, hexToBytes } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import type { Recorded, StreamName } from "../events/types.ts";
import type { Append, AppendListener, AppendOutcome, EventLog, ReadOptions, StreamHead } from "./port.ts";
import { POSTGRES_MIGRATIONS } from "./postgres-schema.ts";
import { assertGapless, fromStored, parseHeadline, READ_LIMIT, READ_MAX_BYTES, toStored, WakeUps } from "./records.ts";

const POLL_MS = 1_000;
const CHANNEL = "event_log";
/** Taken while migrating, so that replicas that start together do not both create tables. Any constant of ours. */
const MIGRATION_LOCK = 7_310_881;
/**
 * Sequence numbers are taken before the commit, so a lower one may become visible after a higher. The poll looks back
 * this far; more appends than this in flight at once is beyond any pool of connections.
 */
const SEQ_OVERLAP = 512;
const MAX_CONNECTIONS = 8;
/** A server that cannot be reached is given up before a query's time is over. */
const CONNECT_SECONDS = 10;
/**
 * Where the network drops a flow without a word (a NAT that forgot it, a primary that lost its power) nothing ever comes
 * back, and the system would go on sending for a quarter of an hour. The largest statement, an append of some megabytes,
 * takes under a second; fifteen are a server at its limit, and a hundred queries that wait their turn.
 */
const QUERY_MS = 15_000;
/** Nobody waits for an answer any more when the log is closed, so that this is for the server's goodbye. */
const CLOSE_SECONDS = 1;
/** PostgreSQL's bound on parameters of a statement is 65,535; an event takes five. */
const MAX_EVENTS_PER_APPEND = 10_000;

interface EventRow {
  version: number;
  type: string;
  time: string;
  crc: string;
  data: Uint8Array;
}

interface HeadRow {
  name: string;
  version: number;
  headline: string | null;
}

export interface PostgresOptions {
  readonly url: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onAppended: AppendListener;
}

/** Connects and migrates. @throws AppError `log_unavailable` */
export async function openPostgresLog(options: PostgresOptions): Promise<EventLog> {
  const log = new PostgresLog(options);
  try {
    await log.open();
    return log;
  } catch (error) {
    await log.close();
    throw error;
  }
}

function postgresError(error: unknown, meta: Record<string, string | number> = {}): AppError {
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

/** Nothing came back in time: neither an answer nor a refusal. */
class SilentError extends Error {}

class PostgresLog implements EventLog {
  readonly engine = "postgres";
  readonly #url: string;
  #sql: SQL;
  /** Given up, and not closed yet: a query of theirs may still be answered. */
  readonly #former = new Set<SQL>();
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #onAppended: AppendListener;
  readonly #wakeUps: WakeUps;
  readonly #known = new Map<string, number>();
  #seenSeq = 0;
  #cancelPoll: () => void = () => undefined;
  #closed = false;

  constructor({ url, clock, logger, onAppended }: PostgresOptions) {
    this.#onAppended = onAppended;
    this.#url = url;
    this.#sql = this.#connections();
    this.#clock = clock;
    this.#logger = logger;
    this.#wakeUps = new WakeUps((error) => logger.error({ err: error }, "a log subscriber failed"));
  }

  async open(): Promise<void> {
    await this.#migrate();
    const [row] = await this.#query<{ seq: string | null }>("SELECT max(seq) AS seq FROM streams", []);
    this.#seenSeq = Number(row?.seq ?? 0);
    await this.#listen();
    this.#schedulePoll();
  }

  /** Opened as they are needed. */
  #connections(): SQL {
    return new SQL(this.#url, { max: MAX_CONNECTIONS, connectionTimeout: CONNECT_SECONDS });
  }

  /** Never rejects. */
  async #listen(): Promise<void> {
    const sql = this.#sql;
    try {
      await this.#inTime(
        sql.listen(CHANNEL, (payload) => {
          const at = payload.lastIndexOf(" ");
          if (at > 0) this.#wakeUps.notify(payload.slice(0, at) as StreamName, Number(payload.slice(at + 1)));
        }),
      );
    } catch (error) {
      if (this.#closed || sql !== this.#sql) return;
      this.#logger.warn({ err: postgresError(error) }, "LISTEN is not available; the poll of the tail must do");
    }
  }

  /** What is asked from here on goes over other connections; what was asked of these before may still be answered. */
  #giveUp(sql: SQL): void {
    if (this.#closed || sql !== this.#sql) return;
    this.#logger.warn({ afterMs: QUERY_MS }, "the event log does not answer; its connections are replaced");
    this.#sql = this.#connections();
    this.#former.add(sql);
    sql
      .close({ timeout: QUERY_MS / 1_000 })
      .catch((error: unknown) => this.#logger.debug({ err: postgresError(error) }, "closing connections failed"))
      .finally(() => this.#former.delete(sql));
    this.#listen();
  }

  /** The answer, unless there is none for too long. @throws AppError `log_unavailable` then */
  async #inTime<T>(answer: PromiseLike<T>): Promise<T> {
    const { promise: silence, reject } = Promise.withResolvers<never>();
    const reason = `no answer within ${QUERY_MS} ms`;
    let cancel = this.#clock.after(QUERY_MS, () => {
      // Where this process itself was held up, answers that came meanwhile are read before the next timer.
      cancel = this.#clock.after(1, () => reject(new SilentError(reason)));
    });
    try {
      return await Promise.race([answer, silence]);
    } finally {
      cancel();
    }
  }

  async #migrate(): Promise<void> {
    try {
      await this.#sql.begin(async (tx) => {
        await tx.unsafe(`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`);
        await tx.unsafe(
          "CREATE TABLE IF NOT EXISTS migrations (id integer PRIMARY KEY, applied_at timestamptz NOT NULL)",
        );
        const rows: { id: number }[] = await tx.unsafe("SELECT id FROM migrations");
        const applied = new Set(rows.map((row) => row.id));
        const newest = Math.max(0, ...applied);
        if (newest > POSTGRES_MIGRATIONS.length) {
          throw new InvariantError(
            `the event log has schema ${newest}, this release knows up to ${POSTGRES_MIGRATIONS.length}`,
          );
        }
        for (const [index, statements] of POSTGRES_MIGRATIONS.entries()) {
          if (applied.has(index + 1)) continue;
          for (const statement of statements) await tx.unsafe(statement);
          await tx.unsafe("INSERT INTO migrations (id, applied_at) VALUES ($1, now())", [index + 1]);
        }
      });
    } catch (error) {
      throw postgresError(error);
    }
  }

  #schedulePoll(): void {
    this.#cancelPoll = this.#clock.after(POLL_MS, () => {
      this.#poll()
        .catch((error: unknown) => {
          if (!this.#closed) this.#logger.warn({ err: error }, "polling the log's tail failed");
        })
        .finally(() => {
          if (!this.#closed) this.#schedulePoll();
        });
    });
  }

  async #poll(): Promise<void> {
    const rows = await this.#query<{ name: string; version: number; seq: string }>(
      "SELECT name, version, seq FROM streams WHERE seq > $1 ORDER BY seq",
      [Math.max(0, this.#seenSeq - SEQ_OVERLAP)],
    );
    const overlap = new Map<string, number>();
    for (const row of rows) {
      this.#seenSeq = Math.max(this.#seenSeq, Number(row.seq));
      overlap.set(row.name, row.version);
      if (this.#known.get(row.name) !== row.version) this.#wakeUps.notify(row.name as StreamName, row.version);
    }
    // Only what the next poll's overlap can show again is worth remembering.
    this.#known.clear();
    for (const [name, version] of overlap) this.#known.set(name, version);
  }

  async #query<T>(text: string, parameters: unknown[], meta: Record<string, string | number> = {}): Promise<T[]> {
    const sql = this.#sql;
    try {
      return await this.#inTime<T[]>(sql.unsafe(text, parameters));
    } catch (error) {
      if (error instanceof SilentError) this.#giveUp(sql);
      throw postgresError(error, meta);
    }
  }

  async append(append: Append): Promise<number> {
    const { stream, expectedVersion, events, guard } = append;
    if (events.length === 0) {
      const { version } = await this.head(stream);
      if (version !== expectedVersion) throw new ConcurrencyError(stream, expectedVersion, version);
      return version;
    }
    invariant(events.length <= MAX_EVENTS_PER_APPEND, "too many events in one append", { stream });
    const stored = toStored(append, this.#clock.now());
    const version = expectedVersion + events.length;
    const parameters: unknown[] = [stream, expectedVersion, version, stored.headline ?? null];
    const values = stored.events.map((event) => {
      const at = parameters.length;
      parameters.push(event.version, event.type, event.time, event.crc, event.data);
      return `($${at + 1}::integer, $${at + 2}::text, $${at + 3}::bigint, $${at + 4}::bigint, $${at + 5}::bytea)`;
    });
    // The guard's row stays locked until the commit: its stream cannot move in between.
    const guarded = guard === undefined ? "" : " AND EXISTS (SELECT 1 FROM guard)";
    const guardRow =
      guard === undefined
        ? ""
        : `guard AS (SELECT 1 FROM streams WHERE name = $${parameters.push(guard.stream)}::text
                     AND version = $${parameters.push(guard.version)}::integer FOR SHARE), `;
    const claim =
      expectedVersion === 0
        ? `INSERT INTO streams (name, version, seq, headline)
           SELECT $1, $3::integer, nextval('streams_seq'), $4::text WHERE $2::integer = 0${guarded}
           ON CONFLICT (name) DO NOTHING RETURNING id`
        : `UPDATE streams SET version = $3::integer, seq = nextval('streams_seq'), headline = coalesce($4::text, headline)
           WHERE name = $1 AND version = $2::integer${guarded} RETURNING id`;
    const rows = await this.#query<{ id: string }>(
      `WITH ${guardRow}claimed AS (${claim}),
       written AS (
         INSERT INTO events (stream_id, version, type, time, crc, data)
         SELECT claimed.id, v.version, v.type, v.time, v.crc, v.data
         FROM claimed, (VALUES ${values.join(", ")}) AS v (version, type, time, crc, data)
       )
       SELECT id, pg_notify('${CHANNEL}', $1 || ' ' || $3::text) FROM claimed`,
      parameters,
      { stream, expectedVersion },
    );
    if (rows.length === 0) {
      const { version: actual } = await this.head(stream);
      if (guard === undefined || actual !== expectedVersion) {
        throw new ConcurrencyError(stream, expectedVersion, actual);
      }
      throw new ConcurrencyError(guard.stream, guard.version, (await this.head(guard.stream)).version);
    }
    this.#onAppended(append);
    this.#wakeUps.notify(stream, version);
    return version;
  }

  async appendAll(appends: readonly Append[]): Promise<AppendOutcome[]> {
    // The pool's connections work side by side; appends of one stream must stay in order.
    const last = new Map<StreamName, Promise<AppendOutcome>>();
    const outcomes = appends.map((append) => {
      const before = last.get(append.stream) ?? Promise.resolve();
      const outcome = before.then(async (): Promise<AppendOutcome> => {
        try {
          return { version: await this.append(append) };
        } catch (error) {
          return { error: error instanceof Error ? error : new Error(String(error)) };
        }
      });
      last.set(append.stream, outcome);
      return outcome;
    });
    return Promise.all(outcomes);
  }

  async read(stream: StreamName, options: ReadOptions = {}): Promise<Recorded[]> {
    const { from = 1, limit = READ_LIMIT, maxBytes = READ_MAX_BYTES } = options;
    // The running sum of sizes decides where to stop on the server, so that a read never drags a whole stream over.
    const rows = await this.#query<EventRow>(
      `SELECT version, type, time, crc, data FROM (
         SELECT version, type, time, crc, data,
                sum(octet_length(data)) OVER (ORDER BY version) - octet_length(data) AS before
         FROM (SELECT * FROM events WHERE stream_id = (SELECT id FROM streams WHERE name = $1) AND version >= $2
               ORDER BY version LIMIT $3) AS page
       ) AS sized WHERE before < $4 ORDER BY version`,
      [stream, from, limit, maxBytes],
      { stream, from },
    );
    assertGapless(stream, rows, from);
    return rows.map((row) => this.#recorded(stream, row));
  }

  async readBackwards(stream: StreamName, options: { before?: number; limit: number }): Promise<Recorded[]> {
    const rows = await this.#query<EventRow>(
      `SELECT version, type, time, crc, data FROM events
       WHERE stream_id = (SELECT id FROM streams WHERE name = $1) AND version < $2 ORDER BY version DESC LIMIT $3`,
      [stream, options.before ?? 2 ** 31 - 1, options.limit],
      { stream },
    );
    return rows.map((row) => this.#recorded(stream, row));
  }

  #recorded(stream: StreamName, row: EventRow): Recorded {
    return fromStored(stream, {
      version: row.version,
      type: row.type,
      time: Number(row.time),
      crc: Number(row.crc),
      data: new Uint8Array(row.data.buffer, row.data.byteOffset, row.data.byteLength),
    });
  }

  async head(stream: StreamName): Promise<StreamHead> {
    const [head] = await this.heads([stream]);
    return head ?? { stream, version: 0, headline: undefined };
  }

  async heads(streams: readonly StreamName[]): Promise<StreamHead[]> {
    if (streams.length === 0) return [];
    const rows = await this.#query<HeadRow>(
      "SELECT name, version, headline FROM streams WHERE name IN (SELECT jsonb_array_elements_text($1::text::jsonb))",
      [JSON.stringify(streams)],
    );
    return rows.map(toHead);
  }

  async streams(prefix: string, options: { after?: string; limit: number }): Promise<StreamHead[]> {
    const rows = await this.#query<HeadRow>(
      `SELECT name, version, headline FROM streams
       WHERE starts_with(name, $1) AND name > $2 ORDER BY name LIMIT $3`,
      [prefix, options.after ?? "", options.limit],
    );
    return rows.map(toHead);
  }

  subscribe(listener: (stream: StreamName, version: number) => void): () => void {
    return this.#wakeUps.subscribe(listener);
  }

  async putBlob(bytes: Uint8Array): Promise<Hash> {
    const hash = new Uint8Array(new Bun.CryptoHasher("sha256").update(bytes).digest());
    await this.#query("INSERT INTO blobs (hash, bytes) VALUES ($1, $2) ON CONFLICT DO NOTHING", [hash, bytes]);
    return bytesToHex(hash) as Hash;
  }

  async getBlob(hash: Hash): Promise<Uint8Array | undefined> {
    const [row] = await this.#query<{ bytes: Uint8Array }>("SELECT bytes FROM blobs WHERE hash = $1", [
      hexToBytes(hash),
    ]);
    return row === undefined ? undefined : new Uint8Array(row.bytes);
  }

  async getBlobs(hashes: readonly Hash[]): Promise<Map<Hash, Uint8Array>> {
    if (hashes.length === 0) return new Map();
    const rows = await this.#query<{ hash: Uint8Array; bytes: Uint8Array }>(
      `SELECT hash, bytes FROM blobs
       WHERE hash IN (SELECT decode(jsonb_array_elements_text($1::text::jsonb), 'hex'))`,
      [JSON.stringify(hashes.map((hash) => hash.slice(2)))],
    );
    return new Map(rows.map((row) => [bytesToHex(row.hash) as Hash, new Uint8Array(row.bytes)]));
  }

  async acquireLease(name: string, holder: string, ttlMs: number): Promise<boolean> {
    const rows = await this.#query<{ holder: string }>(
      `INSERT INTO leases (name, holder, expires_at) VALUES ($1, $2, now() + $3::integer * interval '1 millisecond')
       ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
       WHERE leases.holder = excluded.holder OR leases.expires_at <= now() RETURNING holder`,
      [name, holder, ttlMs],
    );
    return rows.length > 0;
  }

  async releaseLease(name: string, holder: string): Promise<void> {
    await this.#query("DELETE FROM leases WHERE name = $1 AND holder = $2", [name, holder]);
  }

  async setting(name: string, initial: () => string): Promise<{ value: string; created: boolean }> {
    const found = await this.#query<{ value: string }>("SELECT value FROM settings WHERE name = $1", [name]);
    if (found[0] !== undefined) return { value: found[0].value, created: false };
    const inserted = await this.#query<{ value: string }>(
      "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING value",
      [name, initial()],
    );
    if (inserted[0] !== undefined) return { value: inserted[0].value, created: true };
    return this.setting(name, initial);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#cancelPoll();
    // With its connection LISTEN ends as well; a server that is silent is not asked for it first.
    await Promise.all([this.#sql, ...this.#former].map((sql) => sql.close({ timeout: CLOSE_SECONDS })));
  }
}

function toHead(row: HeadRow): StreamHead {
  return { stream: row.name as StreamName, version: row.version, headline: parseHeadline(row.headline) };
}
