/**
 * The newest record of each stream that this process has seen. Streams only grow, so these records stay in the log for
 * ever. If one is missing or different, the log went back: a standby without the last commits was promoted, or a backup
 * was restored. Everything that this process derived from the lost records is wrong then.
 */
import { countedCache } from "../core/counted-cache.ts";
import { AppError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { StreamName } from "../events/types.ts";

/** A record's identity. Two records of one version differ in their checksums if a log that went back was written to. */
interface RecordId {
  readonly stream: StreamName;
  readonly version: number;
  readonly checksum: number;
}

/** Sends a statement to PostgreSQL and returns its rows. */
export type SqlQuery = <T>(text: string, parameters: unknown[]) => Promise<T[]>;

interface SeenRecord extends RecordId {
  /** Increases with each record seen. */
  readonly order: number;
}

/** About 20 MB. A stream beyond these is checked again from its next record on. */
const MAX_STREAMS = 100_000;
/** Records per query of a comparison: half a megabyte of parameters, about 30 ms of the server. */
const COMPARED_AT_ONCE = 5_000;

export class SeenRecords {
  readonly #newest = countedCache<StreamName, SeenRecord>(MAX_STREAMS);
  readonly #logger: Logger;
  readonly #onWentBack: () => void;
  #order = 0;
  #error: AppError | undefined;

  /** @param onWentBack called once */
  constructor(logger: Logger, onWentBack: () => void = () => undefined) {
    this.#logger = logger;
    this.#onWentBack = onWentBack;
  }

  /** False once a seen record is lost. */
  get isKept(): boolean {
    return this.#error === undefined;
  }

  /** @throws AppError `log_unavailable` once a seen record is lost */
  assertKept(): void {
    if (this.#error !== undefined) throw this.#error;
  }

  /** A point in time. An answer can only contradict records that were seen before its query was sent. */
  get now(): number {
    return this.#order;
  }

  /** The newest record of the stream. */
  newest(stream: StreamName): RecordId | undefined {
    return this.#newest.get(stream);
  }

  add({ stream, version, checksum }: RecordId): void {
    if (version <= (this.#newest.peek(stream)?.version ?? 0)) return;
    this.#newest.set(stream, { stream, version, checksum, order: ++this.#order });
  }

  /**
   * Compares a stream's end in the log with the record seen, and adds its last record.
   * @param end of the log's stream. `crc` is that of the last record; undefined if the query did not ask for it
   * @param sentAt `now` when the query was sent
   * @throws AppError `log_unavailable` if the seen record is lost
   */
  learn(stream: StreamName, end: { version: number; crc?: string | null }, sentAt: number): void {
    const { version, crc } = end;
    const checksum = crc === undefined || crc === null ? undefined : Number(crc);
    const seen = this.#newest.peek(stream);
    if (seen !== undefined && seen.order <= sentAt) {
      const isOther = version === seen.version && checksum !== undefined && checksum !== seen.checksum;
      if (version < seen.version || isOther) throw this.wentBack(seen, version);
    }
    if (checksum !== undefined) this.add({ stream, version, checksum });
  }

  /**
   * Looks for all seen records in the log. Runs at each new connection, because it may lead to another server. So there
   * is no need to compare timelines: a restored backup need not change them, and a failover without loss does.
   * @throws AppError `log_unavailable` if one is lost
   */
  async compare(query: SqlQuery): Promise<void> {
    const all = [...this.#newest.values()];
    for (let at = 0; at < all.length && this.isKept; at += COMPARED_AT_ONCE) {
      const part = all.slice(at, at + COMPARED_AT_ONCE);
      const [lost] = await query<{ place: number; version: number | null }>(
        `SELECT seen.place, streams.version
         FROM jsonb_to_recordset($1::text::jsonb) AS seen (place integer, stream text, version integer, checksum bigint)
         LEFT JOIN streams ON streams.name = seen.stream COLLATE "C"
         LEFT JOIN events ON events.stream_id = streams.id AND events.version = seen.version
         WHERE events.crc IS DISTINCT FROM seen.checksum LIMIT 1`,
        [JSON.stringify(part.map(({ stream, version, checksum }, place) => ({ place, stream, version, checksum })))],
      );
      if (lost !== undefined) throw this.wentBack(part[lost.place] as RecordId, lost.version ?? 0);
    }
  }

  /** Records that the log has lost `seen`. Returns the error. @param version the stream's version in the log */
  wentBack({ stream, version: seen }: RecordId, version: number): AppError {
    if (this.#error !== undefined) return this.#error;
    const meta = { stream, seen, version };
    this.#error = new AppError("the event log went back", { code: "log_unavailable", retryable: true, meta });
    this.#logger.error(
      meta,
      "the event log went back: it lost records that this process has seen. All memory is dropped and read again. " +
        "Was a standby promoted that lacked the last commits, or a backup restored?",
    );
    this.#onWentBack();
    return this.#error;
  }
}
