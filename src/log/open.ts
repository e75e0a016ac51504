/** Opens the event log of `EVENT_LOG_URL` with the engine that its scheme names. Its errors name the variable. */
import type { Clock } from "../core/clock.ts";
import { AppError, type BlobsUnavailable, InvariantError, messageOf } from "../core/errors.ts";
import { sqlitePath } from "../core/files.ts";
import type { Logger } from "../core/logger.ts";
import type { S3Place } from "../core/s3-place.ts";
import { Secrets, secretsOfPassword } from "../core/secrets.ts";
import { assertStore, bindStore, whileReachable } from "./blob-binding.ts";
import { type EventLog, type KeepBlobs, serverOf } from "./event-log.ts";
import { openPostgresLog } from "./postgres.ts";
import { UNFINISHED_COPY } from "./raw-log.ts";
import { S3Store } from "./s3-store.ts";
import { openSqliteLog } from "./sqlite.ts";
import { type BlobOutcome, StoredBlobs } from "./stored-blobs.ts";

interface LogOptions {
  /** Connections of this process to PostgreSQL. */
  readonly connections?: number | undefined;
  /**
   * Called once if a log on PostgreSQL went back. The caller must close it, drop everything derived from it, and open it
   * again.
   */
  readonly onWentBack?: (() => void) | undefined;
  /** The store of the log's blobs. Without it they are in the log's own table. */
  readonly blobs?: S3Place | undefined;
  readonly onBlob?: ((outcome: BlobOutcome) => void) | undefined;
  /** True to bind the log to the store now, and not with the first blob, so that a start refuses wrong keys. */
  readonly bindsStore?: boolean;
}

/**
 * @param url `sqlite://<path>` or `postgres://…`
 * @throws AppError `log_unavailable` or `configuration`
 */
export async function openLog(url: string, clock: Clock, logger: Logger, options: LogOptions = {}): Promise<EventLog> {
  const { blobs, onBlob: onOutcome = () => undefined, bindsStore = false } = options;
  const store = blobs === undefined ? undefined : new S3Store(blobs, clock);
  const keepBlobs: KeepBlobs | undefined =
    store &&
    ((log, table) => new StoredBlobs({ store, table, bind: () => bindStore(log, store), clock, logger, onOutcome }));
  const log = await openEngine(url, { ...options, clock, logger, keepBlobs });
  const onUnreachable = (error: BlobsUnavailable) =>
    logger.warn({ err: error }, "the store of blobs can't be reached: pages are served without what is in it");
  try {
    await assertStore(log, store, onUnreachable);
    if (store !== undefined && bindsStore) await bindStore(log, store).catch(whileReachable(onUnreachable));
    return log;
  } catch (error) {
    await log.close();
    throw error;
  }
}

async function openEngine(
  url: string,
  options: LogOptions & { clock: Clock; logger: Logger; keepBlobs: KeepBlobs | undefined },
): Promise<EventLog> {
  const path = sqlitePath(url);
  if (path !== undefined) return openSqliteLog({ path, ...options }).catch((error: unknown) => refuse(path, error));
  if (/^postgres(ql)?:\/\//.test(url)) {
    return openPostgresLog({ url, ...options }).catch((error: unknown) => refuseServer(url, error));
  }
  throw new AppError("EVENT_LOG_URL must start with sqlite:// or postgres://", { code: "configuration" });
}

/** @throws AppError if a copy into the log was begun and has not ended: streams, or their ends, are missing */
export async function assertWhole(log: EventLog): Promise<void> {
  if ((await log.findSetting(UNFINISHED_COPY)) === undefined) return;
  throw new AppError("EVENT_LOG_URL: a copy into this log has not ended; run the same `copy` again", {
    code: "configuration",
  });
}

/** @param place path, or host and port: where to look. @throws AppError that names it, and the variable */
export function refuse(place: string, error: unknown, secrets?: Secrets): never {
  if (error instanceof InvariantError) throw error;
  const { code, retryable, meta } =
    error instanceof AppError ? error : { code: "log_unavailable", retryable: false, meta: {} };
  const message = messageOf(error, secrets);
  const text = message.includes(place) ? message : `${place}: ${message}`;
  const isNamed = message.includes("EVENT_LOG_URL");
  throw new AppError(isNamed ? message : `EVENT_LOG_URL: ${text}`, { code, retryable, meta, cause: error });
}

export const refuseServer = (url: string, error: unknown): never =>
  refuse(serverOf(url), error, new Secrets(secretsOfPassword(url)));
