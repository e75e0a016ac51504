/**
 * The request thread's side of the writer of a SQLite log, which is a worker. Sends operations, classifies errors, and
 * reports a full disk or a lock of another process.
 */
import type { Clock } from "../core/clock.ts";
import { AppError, InvariantError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { WriterOperation, WriterReply } from "./sqlite-writer.ts";
import { type RunningWrite, WriteWatch } from "./write-watch.ts";

interface Pending {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
  /** True if the operation needs room on the disk. The few bytes of a lease fit on a disk that is full. */
  readonly stores: boolean;
  readonly write: RunningWrite;
}

/** Sends operations to the writer worker, with one promise per request. */
export class WriterClient {
  readonly #worker = new Worker(new URL("./sqlite-writer.ts", import.meta.url).href);
  readonly #pending = new Map<number, Pending>();
  readonly #watch: WriteWatch;
  readonly #disk: DiskWatch;
  #nextId = 1;
  #dead: Error | undefined;

  constructor({ clock, logger }: { readonly clock: Clock; readonly logger: Logger }) {
    this.#watch = new WriteWatch(clock);
    this.#disk = new DiskWatch(clock, logger);
    this.#worker.onmessage = (message: MessageEvent<WriterReply>) => {
      const reply = message.data;
      const waiting = this.#pending.get(reply.id);
      this.#pending.delete(reply.id);
      if ("error" in reply) {
        this.#disk.failed(reply.sqliteCode);
        if (waiting !== undefined) this.#watch.failed(waiting.write, isBusy(reply.sqliteCode));
        waiting?.reject(writerError(reply.error, reply.sqliteCode));
        return;
      }
      if (waiting !== undefined) this.#watch.ended(waiting.write);
      if (waiting?.stores === true) this.#disk.stored();
      else this.#disk.unlocked();
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

  /** True if the log takes no writes at the moment: the disk is full, or a write waits for too long. */
  get isHeldUp(): boolean {
    return this.#disk.isFull || this.#watch.isHeldUp;
  }

  /** True if no write has succeeded for long, although some were tried. */
  get isBlocked(): boolean {
    return this.#watch.isBlocked;
  }

  /** Finds out whether the file can be written, unless a write waits that will tell. */
  probe(): void {
    if (this.#watch.isIdle) this.call({ op: "probe" }).catch(() => undefined);
  }

  /** @param handed buffers of the operation to transfer. The caller must not use them afterwards. */
  call(operation: WriterOperation, handed: ArrayBuffer[] = []): Promise<unknown> {
    if (this.#dead !== undefined) return Promise.reject(this.#dead);
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      const stores = operation.op === "append" || operation.op === "blob";
      this.#pending.set(id, { resolve, reject, stores, write: this.#watch.begin() });
      this.#worker.postMessage({ ...operation, id }, handed);
    });
  }

  terminate(): void {
    this.#worker.terminate();
  }
}

const isBusy = (sqliteCode: string | undefined): boolean => sqliteCode?.startsWith("SQLITE_BUSY") === true;

function writerError(message: string, sqliteCode: string | undefined): AppError {
  if (sqliteCode === "SQLITE_CORRUPT" || sqliteCode === "SQLITE_NOTADB") {
    return new InvariantError(`the event log's database file is damaged: ${message}`);
  }
  const retryable = isBusy(sqliteCode) || sqliteCode === "SQLITE_FULL";
  return new AppError(`the event log could not be written: ${message}`, {
    code: "log_unavailable",
    retryable,
    meta: { sqliteCode },
  });
}

/** Least time between two error lines: on a full disk, small events may still fit now and then. */
const REPEAT_MS = 60_000;

/** Tells the operator once when the disk is full or the file locked, and when the log stores events again. */
class DiskWatch {
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** Time of the last error line on the monotonic clock. */
  #reportedAt = Number.NEGATIVE_INFINITY;
  /** What a line was about that was not followed by one about its end. */
  #reported: "full" | "locked" | undefined;
  /** True if the last operation that stores something failed for lack of room. */
  isFull = false;

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Notes a failed write. @param sqliteCode extended code of SQLite: a quota shows as an I/O error */
  failed(sqliteCode: string | undefined): void {
    const isFull = sqliteCode === "SQLITE_FULL" || sqliteCode === "SQLITE_IOERR_WRITE";
    if (!isFull && !isBusy(sqliteCode)) return;
    if (isFull) this.isFull = true;
    if (this.#clock.monotonic() - this.#reportedAt < REPEAT_MS) return;
    this.#reportedAt = this.#clock.monotonic();
    this.#reported = isFull ? "full" : "locked";
    const why = isFull
      ? "its disk is full, and nothing new is stored until there is room"
      : "another process holds a lock on its file, and nothing new is stored until that ends";
    this.#logger.error({ sqliteCode }, `the event log is not writable: ${why}`);
  }

  /** Notes that something was written, perhaps too little to need room. */
  unlocked(): void {
    if (this.#reported === "locked") this.stored();
  }

  /** Notes that something was stored. */
  stored(): void {
    this.isFull = false;
    if (this.#reported === undefined) return;
    this.#reported = undefined;
    this.#logger.info({}, "the event log is writable again");
  }
}
