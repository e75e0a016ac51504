/**
 * The request thread's side of the writer worker of a SQLite log: sends operations, classifies errors, and reports a
 * full disk.
 */
import type { Clock } from "../core/clock.ts";
import { AppError, InvariantError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { WriterOperation, WriterReply } from "./sqlite-writer.ts";

interface Pending {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
  /** True if the operation needs room on the disk. The few bytes of a lease fit on a disk that is full. */
  readonly stores: boolean;
}

/** Sends operations to the writer worker, with one promise per request. */
export class WriterClient {
  readonly #worker = new Worker(new URL("./sqlite-writer.ts", import.meta.url).href);
  readonly #pending = new Map<number, Pending>();
  readonly #disk: DiskWatch;
  #nextId = 1;
  #dead: Error | undefined;

  constructor({ clock, logger }: { readonly clock: Clock; readonly logger: Logger }) {
    this.#disk = new DiskWatch(clock, logger);
    this.#worker.onmessage = (message: MessageEvent<WriterReply>) => {
      const reply = message.data;
      const waiting = this.#pending.get(reply.id);
      this.#pending.delete(reply.id);
      if ("error" in reply) {
        this.#disk.failed(reply.sqliteCode);
        waiting?.reject(writerError(reply.error, reply.sqliteCode));
        return;
      }
      if (waiting?.stores === true) this.#disk.stored();
      waiting?.resolve(reply.result);
    };
    this.#worker.onerror = (event: ErrorEvent) => {
      this.#dead = new AppError(`the log's writer died: ${event.message}`, { code: "log_unavailable" });
      for (const { reject } of this.#pending.values()) reject(this.#dead);
      this.#pending.clear();
    };
  }

  get isDead(): boolean {
    return this.#dead !== undefined;
  }

  get isFull(): boolean {
    return this.#disk.isFull;
  }

  /** @param handed buffers of the operation to transfer. The caller must not use them afterwards. */
  call(operation: WriterOperation, handed: ArrayBuffer[] = []): Promise<unknown> {
    if (this.#dead !== undefined) return Promise.reject(this.#dead);
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, stores: operation.op === "append" || operation.op === "blob" });
      this.#worker.postMessage({ ...operation, id }, handed);
    });
  }

  terminate(): void {
    this.#worker.terminate();
  }
}

function writerError(message: string, sqliteCode: string | undefined): AppError {
  if (sqliteCode === "SQLITE_CORRUPT" || sqliteCode === "SQLITE_NOTADB") {
    return new InvariantError(`the event log's database file is damaged: ${message}`);
  }
  const retryable = sqliteCode?.startsWith("SQLITE_BUSY") === true || sqliteCode === "SQLITE_FULL";
  return new AppError(`the event log could not be written: ${message}`, {
    code: "log_unavailable",
    retryable,
    meta: { sqliteCode },
  });
}

/** Least time between two error lines: on a full disk, small events may still fit now and then. */
const REPEAT_MS = 60_000;

/** Tells the operator once when the disk is full, and when the log stores events again. */
class DiskWatch {
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** Time of the last error line on the monotonic clock. */
  #reportedAt = Number.NEGATIVE_INFINITY;
  /** True if a line about the full disk was not followed by one about its end. */
  #isReported = false;
  /** True if the last operation that stores something failed for lack of room. */
  isFull = false;

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Notes a failed write. @param sqliteCode extended code of SQLite: a quota shows as an I/O error */
  failed(sqliteCode: string | undefined): void {
    if (sqliteCode !== "SQLITE_FULL" && sqliteCode !== "SQLITE_IOERR_WRITE") return;
    this.isFull = true;
    if (this.#clock.monotonic() - this.#reportedAt < REPEAT_MS) return;
    this.#reportedAt = this.#clock.monotonic();
    this.#isReported = true;
    this.#logger.error(
      { sqliteCode },
      "the event log is not writable: its disk is full, and nothing new is stored until there is room",
    );
  }

  /** Notes that something was stored. */
  stored(): void {
    this.isFull = false;
    if (!this.#isReported) return;
    this.#isReported = false;
    this.#logger.info({}, "the event log is writable again");
  }
}
