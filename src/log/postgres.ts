/**
 * The event log on PostgreSQL, for many replicas. An append is one conditional statement: it moves the stream's row
 * from the expected version to the new one, or changes nothing. LISTEN/NOTIFY wakes the other processes. A poll of
 * `streams.seq` each second makes up for lost notifications and for servers without LISTEN.
 */

import type { Clock } from "../core/clock.ts";
import { AppError, ConcurrencyError, invariant } from "../core/errors.ts";
import type { Hash } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import { Semaphore } from "../core/semaphore.ts";
import type { Recorded, StreamName } from "../events/types.ts";
import type {
  Append,
  AppendOutcome,
  BlobPage,
  Blobs,
  EventLog,
  HeadlineChange,
  HeldLease,
  KeepBlobs,
  LogStatus,
  LogTail,
  ReadOptions,
  StreamHead,
  WakeUpListener,
} from "./event-log.ts";
import { PostgresBlobs } from "./postgres-blobs.ts";
import { assertUnpooled, PostgresConnections } from "./postgres-connections.ts";
import { PostgresListener } from "./postgres-listener.ts";
import { appendStatement, migrate, tryMigration } from "./postgres-statements.ts";
import {
  assertGapless,
  fromStored,
  type HeadRow,
  READ_LIMIT,
  READ_MAX_BYTES,
  type StoredEvent,
  toHead,
  toRecorded,
  toStored,
} from "./records.ts";
import { SeenRecords, type SqlQuery } from "./seen-records.ts";
import { WakeUps } from "./wake-ups.ts";
import { WriteWatch } from "./write-watch.ts";

const POLL_MS = 1_000;
/** Twenty replicas stay below the server's default of 100. */
const CONNECTIONS = 4;
const CHANNEL = "event_log";
/**
 * How far the poll looks back. Sequence numbers are assigned before the commit, so a lower one may become visible after
 * a higher one. No pool of connections has more appends in flight than this.
 */
const SEQ_OVERLAP = 512;
/** PostgreSQL accepts at most 65,535 parameters per statement, and an event takes five. */
const MAX_EVENTS_PER_APPEND = 10_000;

interface EventRow {
  version: number;
  type: string;
  time: string;
  crc: string;
  data: Uint8Array;
}

/** `crc` is that of the stream's last record. */
type StreamRow = HeadRow & { crc: string };

/** The checksum of the last record of a row of `streams`. */
const LAST_CRC = "(SELECT crc FROM events WHERE stream_id = streams.id AND version = streams.version) AS crc";

interface PostgresOptions {
  readonly url: string;
  /** Connections of this process, at least 2. One of them listens. */
  readonly connections?: number | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called once if the log lacks a record that this process has seen. From then on this object refuses all calls. */
  readonly onWentBack?: (() => void) | undefined;
  readonly keepBlobs?: KeepBlobs | undefined;
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

/** True for an append that a full disk (class 53) or a read-only transaction refused. */
const takesNoAppends = (error: unknown): boolean =>
  error instanceof AppError && /^(?:53|25006)/.test(String(error.meta["sqlState"] ?? ""));

/** Tries what a start does, and keeps nothing. Returns true if a start would change the schema. @throws AppError */
export async function checkPostgresLog({ url, clock, logger }: PostgresOptions): Promise<boolean> {
  await assertUnpooled(url);
  const connections = new PostgresConnections({
    ...{ url, most: 1, clock, logger },
    onReplaced: () => undefined,
    check: async () => undefined,
  });
  try {
    return (await tryMigration(connections)) > 0;
  } finally {
    await connections.close();
  }
}

/** Takes the locks of an append on both tables, and stores nothing. */
const PROBE = `WITH moved AS (UPDATE streams SET version = version WHERE false)
  INSERT INTO events SELECT * FROM events WHERE false`;

class PostgresLog implements EventLog {
  readonly engine = "postgres";
  readonly #connections: PostgresConnections;
  readonly #blobs: Blobs;
  readonly #listener: PostgresListener;
  readonly #url: string;
  /** Appends of one `appendAll` leave a connection free, so that the renewal of a lease doesn't wait behind all of them. */
  readonly #appending: Semaphore;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #wakeUps: WakeUps;
  readonly #known = new Map<string, number>();
  /** False if the last append failed because the server takes none: its disk is full, or it became a standby. */
  #isWritable = true;
  readonly #watch: WriteWatch;
  readonly #seen: SeenRecords;
  #seenSeq = 0;
  #polled: Omit<LogTail, "isListening">;
  /** False on an engine or for a user without `pg_notify`. Other processes then find appends by their polls. */
  #canNotify = false;
  #cancelPoll: () => void = () => undefined;
  #closed = false;

  constructor({ url, connections = CONNECTIONS, clock, logger, onWentBack, keepBlobs }: PostgresOptions) {
    const most = connections - 1;
    this.#appending = new Semaphore(Math.max(1, most - 1));
    this.#clock = clock;
    this.#watch = new WriteWatch(clock);
    this.#logger = logger;
    this.#polled = { polledMs: clock.monotonic(), latencyMs: 0 };
    this.#url = url;
    this.#seen = new SeenRecords(logger, onWentBack);
    this.#wakeUps = new WakeUps((error) => logger.error({ err: error }, "a log subscriber failed"));
    const onNotified = (payload: string) => {
      const at = payload.lastIndexOf(" ");
      if (at > 0) this.#wakeUps.notify(payload.slice(0, at) as StreamName, Number(payload.slice(at + 1)));
    };
    const check = (query: SqlQuery) => this.#seen.compare(query);
    const listener = new PostgresListener({ url, channel: CHANNEL, clock, logger, onNotified });
    const onReplaced = () => void (this.#canNotify && listener.open());
    // An empty payload only shows that notifications arrive.
    this.#listener = listener;
    this.#connections = new PostgresConnections({ url, most, clock, logger, onReplaced, check });
    const table = new PostgresBlobs({
      query: (text, parameters) => this.#query(text, parameters),
      read: (text, parameters) => this.#read(text, parameters),
    });
    this.#blobs = keepBlobs?.(this, table) ?? table;
  }

  async open(): Promise<void> {
    await assertUnpooled(this.#url);
    await migrate(this.#connections);
    const [row] = await this.#read<{ seq: string | null; canNotify: boolean | null }>(
      `SELECT max(seq) AS seq,
              has_function_privilege(to_regprocedure('pg_notify(text,text)'), 'EXECUTE') AS "canNotify" FROM streams`,
      [],
    );
    this.#seenSeq = Number(row?.seq ?? 0);
    this.#canNotify = row?.canNotify === true;
    if (this.#canNotify) await this.#listen();
    else this.#logger.warn({}, "the event log has no pg_notify: other processes find appends by polling");
    this.#schedulePoll();
  }

  /** Listens, and notifies itself: behind a pooler, LISTEN is accepted and delivers nothing. */
  async #listen(): Promise<void> {
    await this.#listener.open();
    await this.#query("SELECT pg_notify($1, '')", [CHANNEL]);
  }

  /** Like `query` of the connections. @throws AppError `log_unavailable`, also if the log went back */
  #query<T>(text: string, parameters: unknown[], meta?: Record<string, string | number>): Promise<T[]> {
    return this.#whileKept(() => this.#connections.query<T>(text, parameters, meta));
  }

  /** Like `read` of the connections. @throws AppError `log_unavailable`, also if the log went back */
  #read<T>(text: string, parameters: unknown[], meta?: Record<string, string | number>): Promise<T[]> {
    return this.#whileKept(() => this.#connections.read<T>(text, parameters, meta));
  }

  async #whileKept<T>(ask: () => Promise<T[]>): Promise<T[]> {
    this.#seen.assertKept();
    const rows = await ask();
    this.#seen.assertKept();
    return rows;
  }

  get #isOver(): boolean {
    return this.#closed || !this.#seen.isKept;
  }

  #schedulePoll(): void {
    this.#cancelPoll = this.#clock.after(POLL_MS, () => {
      this.#poll()
        .catch((error: unknown) => {
          if (!this.#isOver) this.#logger.warn({ err: error }, "polling the log's tail failed");
        })
        .finally(() => {
          if (!this.#isOver) this.#schedulePoll();
        });
    });
  }

  async #poll(): Promise<void> {
    const sentAt = this.#seen.now;
    const sentMs = this.#clock.monotonic();
    const rows = await this.#query<{ name: string; version: number; seq: string }>(
      "SELECT name, version, seq FROM streams WHERE seq > $1 ORDER BY seq",
      [Math.max(0, this.#seenSeq - SEQ_OVERLAP)],
    );
    const newest = Number(rows.at(-1)?.seq ?? 0);
    if (newest < this.#seenSeq) {
      // The log went back. It matters only if this process has seen one of the lost records.
      await this.#seen.compare((text, parameters) => this.#connections.query(text, parameters));
      this.#seenSeq = newest;
    }
    const overlap = new Map<string, number>();
    for (const row of rows) {
      this.#seen.learn(row.name as StreamName, { version: row.version }, sentAt);
      this.#seenSeq = Math.max(this.#seenSeq, Number(row.seq));
      overlap.set(row.name, row.version);
      if (this.#known.get(row.name) !== row.version) this.#wakeUps.notify(row.name as StreamName, row.version);
    }
    // Forget streams below the overlap: the next poll can't return them again.
    this.#known.clear();
    for (const [name, version] of overlap) this.#known.set(name, version);
    this.#polled = { polledMs: sentMs, latencyMs: this.#clock.monotonic() - sentMs };
  }

  get tail(): LogTail {
    return { ...this.#polled, isListening: this.#listener.isListening };
  }

  async append(append: Append): Promise<number> {
    const { stream, expectedVersion, events, guard } = append;
    if (events.length === 0) {
      const { version } = await this.head(stream);
      if (version !== expectedVersion) throw new ConcurrencyError(stream, expectedVersion, version);
      return version;
    }
    invariant(events.length <= MAX_EVENTS_PER_APPEND, "too many events in one append", { stream });
    const time = this.#clock.now();
    const stored = toStored(append, time);
    const version = expectedVersion + events.length;
    const seenOf = (of: StreamName) => this.#seen.newest(of);
    const { text, parameters } = appendStatement(append, stored, seenOf, this.#canNotify ? CHANNEL : undefined);
    const rows = await this.#watched(() => this.#query<{ id: string }>(text, parameters, { stream, expectedVersion }));
    this.#isWritable = true;
    if (rows.length === 0) {
      const { version: actual } = await this.head(stream);
      if (guard === undefined || actual !== expectedVersion) {
        throw new ConcurrencyError(stream, expectedVersion, actual);
      }
      throw new ConcurrencyError(guard.stream, guard.version, (await this.head(guard.stream)).version);
    }
    this.#seen.add({ stream, version, checksum: (stored.events.at(-1) as StoredEvent).crc });
    this.#wakeUps.notify(stream, version, toRecorded(append, stored));
    return version;
  }

  /** Watches how long a write takes. */
  async #watched<T>(ask: () => Promise<T>): Promise<T> {
    const write = this.#watch.begin();
    try {
      const answer = await ask();
      this.#watch.ended(write);
      return answer;
    } catch (error) {
      this.#watch.failed(write, error instanceof AppError && error.code === "log_unavailable");
      if (takesNoAppends(error)) this.#isWritable = false;
      throw error;
    }
  }

  /** Finds out whether appends work again after one was given up, by a statement that stores nothing. */
  #probe(): void {
    if (!this.#watch.isFailing || !this.#watch.isIdle) return;
    this.#watched(() => this.#query(PROBE, [])).catch(() => undefined);
  }

  async appendAll(appends: readonly Append[]): Promise<AppendOutcome[]> {
    // Connections work in parallel, but appends of one stream must keep their order.
    const last = new Map<StreamName, Promise<AppendOutcome>>();
    const outcomes = appends.map((append) => {
      const before = last.get(append.stream) ?? Promise.resolve();
      const outcome = before.then(async (): Promise<AppendOutcome> => {
        try {
          return { version: await this.#appending.run(() => this.append(append)) };
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
    const seen = this.#seen.newest(stream);
    // The server stops at a running sum of sizes, so that a read never transfers a whole stream.
    const rows = await this.#read<EventRow & { seen: string | null }>(
      `SELECT version, type, time, crc, data,
              (SELECT crc FROM events WHERE stream_id = (SELECT id FROM streams WHERE name = $1) AND version = $5) AS seen
       FROM (
         SELECT version, type, time, crc, data,
                sum(octet_length(data)) OVER (ORDER BY version) - octet_length(data) AS before
         FROM (SELECT * FROM events WHERE stream_id = (SELECT id FROM streams WHERE name = $1) AND version >= $2
               ORDER BY version LIMIT $3) AS page
       ) AS sized WHERE before < $4 ORDER BY version`,
      [stream, from, limit, maxBytes, seen?.version ?? 0],
      { stream, from },
    );
    const last = rows.at(-1);
    if (seen !== undefined) {
      const isKept = last === undefined ? seen.version < from : Number(last.seen) === seen.checksum;
      if (!isKept) throw this.#seen.wentBack(seen, last?.version ?? from - 1);
    }
    assertGapless(stream, rows, from);
    if (last !== undefined) this.#seen.add({ stream, version: last.version, checksum: Number(last.crc) });
    return rows.map((row) => this.#recorded(stream, row));
  }

  async readBackwards(stream: StreamName, options: { before?: number; limit: number }): Promise<Recorded[]> {
    const sentAt = this.#seen.now;
    const rows = await this.#read<EventRow>(
      `SELECT version, type, time, crc, data FROM events
       WHERE stream_id = (SELECT id FROM streams WHERE name = $1) AND version < $2 ORDER BY version DESC LIMIT $3`,
      [stream, options.before ?? 2 ** 31 - 1, options.limit],
      { stream },
    );
    if (options.before === undefined) this.#seen.learn(stream, rows[0] ?? { version: 0 }, sentAt);
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

  async checksum(stream: StreamName, version: number): Promise<number | undefined> {
    const [row] = await this.#read<{ crc: string }>(
      "SELECT crc FROM events WHERE stream_id = (SELECT id FROM streams WHERE name = $1) AND version = $2",
      [stream, version],
    );
    return row && Number(row.crc);
  }

  async heads(streams: readonly StreamName[]): Promise<StreamHead[]> {
    if (streams.length === 0) return [];
    const sentAt = this.#seen.now;
    const rows = await this.#read<StreamRow>(
      `SELECT name, version, headline, ${LAST_CRC} FROM streams
       WHERE name IN (SELECT jsonb_array_elements_text($1::text::jsonb))`,
      [JSON.stringify(streams)],
    );
    const byName = new Map(rows.map((row) => [row.name, row]));
    for (const stream of streams) this.#seen.learn(stream, byName.get(stream) ?? { version: 0 }, sentAt);
    return rows.map(toHead);
  }

  async streams(prefix: string, options: { after?: string; limit: number }): Promise<StreamHead[]> {
    const sentAt = this.#seen.now;
    const rows = await this.#read<StreamRow>(
      `SELECT name, version, headline, ${LAST_CRC} FROM streams
       WHERE starts_with(name, $1) AND name > $2 ORDER BY name LIMIT $3`,
      [prefix, options.after ?? "", options.limit],
    );
    for (const row of rows) this.#seen.learn(row.name as StreamName, row, sentAt);
    return rows.map(toHead);
  }

  async replaceHeadline({ stream, version, headline, guard }: HeadlineChange): Promise<boolean> {
    // The guard's row is locked until the commit, as by an append.
    const rows = await this.#query(
      `WITH guard AS (SELECT 1 FROM streams WHERE name = $4::text AND version = $5::integer FOR SHARE)
       UPDATE streams SET headline = $3::text, seq = nextval('streams_seq')
       WHERE name = $1 AND version = $2::integer AND ($4::text IS NULL OR EXISTS (SELECT 1 FROM guard))
       RETURNING id${this.#canNotify ? `, pg_notify('${CHANNEL}', $1 || ' ' || $2::text)` : ""}`,
      [stream, version, JSON.stringify(headline), guard?.stream ?? null, guard?.version ?? null],
    );
    if (rows.length > 0) this.#wakeUps.notify(stream, version);
    return rows.length > 0;
  }

  get isAnswering(): boolean {
    return this.#seen.isKept && this.#connections.isAnswering && !this.#watch.isBlocked;
  }

  subscribe(listener: WakeUpListener): () => void {
    return this.#wakeUps.subscribe(listener);
  }

  putBlob(bytes: Uint8Array): Promise<Hash> {
    return this.#blobs.putBlob(bytes);
  }

  getBlob(hash: Hash): Promise<Uint8Array | undefined> {
    return this.#blobs.getBlob(hash);
  }

  getBlobs(hashes: readonly Hash[], maxBytes?: number): Promise<BlobPage> {
    return this.#blobs.getBlobs(hashes, maxBytes);
  }

  /**
   * By the server's clock. A new primary's clock may be behind: a lease that ends later than twice the ttl from now was
   * given by another clock to a holder that does not renew it, and doesn't count.
   */
  async acquireLease(name: string, holder: string, ttlMs: number): Promise<boolean> {
    const rows = await this.#query<{ holder: string }>(
      `INSERT INTO leases (name, holder, expires_at) VALUES ($1, $2, now() + $3::integer * interval '1 millisecond')
       ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
       WHERE leases.holder = excluded.holder OR leases.expires_at <= now()
         OR leases.expires_at > now() + 2 * $3::integer * interval '1 millisecond' RETURNING holder`,
      [name, holder, ttlMs],
    );
    return rows.length > 0;
  }

  async releaseLease(name: string, holder: string): Promise<void> {
    // A process that drops its memory gives its leases back, too.
    await this.#connections.query("DELETE FROM leases WHERE name = $1 AND holder = $2", [name, holder]);
  }

  async leases(): Promise<HeldLease[]> {
    return this.#read<HeldLease>("SELECT name, holder FROM leases WHERE expires_at > now() ORDER BY name", []);
  }

  async status(): Promise<LogStatus> {
    this.#probe();
    const [row] = await this.#read<{ bytes: string; standby: boolean; time: string | null }>(
      `SELECT pg_database_size(current_database()) AS bytes, pg_is_in_recovery() AS standby,
              (SELECT time FROM events WHERE stream_id = (SELECT id FROM streams ORDER BY seq DESC LIMIT 1)
               ORDER BY version DESC LIMIT 1) AS time`,
      [],
    );
    return {
      bytes: Number(row?.bytes ?? 0),
      freeBytes: undefined,
      isWritable: this.isAnswering && this.#isWritable && !this.#watch.isHeldUp && row?.standby === false,
      lastAppendAt: row?.time == null ? undefined : Number(row.time),
    };
  }

  async findSetting(name: string): Promise<string | undefined> {
    return (await this.#read<{ value: string }>("SELECT value FROM settings WHERE name = $1", [name]))[0]?.value;
  }

  async setting(name: string, initial: () => string): Promise<{ value: string; created: boolean }> {
    const found = await this.findSetting(name);
    if (found !== undefined) return { value: found, created: false };
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
    this.#listener.close();
    await this.#connections.close();
  }
}
