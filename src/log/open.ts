/** Opens the event log of `EVENT_LOG_URL` with the engine that its scheme names. Its errors name the variable. */
import type { Clock } from "../core/clock.ts";
import { AppError, InvariantError, messageOf } from "../core/errors.ts";
import { sqlitePath } from "../core/files.ts";
import type { Logger } from "../core/logger.ts";
import { Secrets, secretsOfPassword } from "../core/secrets.ts";
import { type EventLog, serverOf } from "./event-log.ts";
import { openPostgresLog } from "./postgres.ts";
import { UNFINISHED_COPY } from "./raw-log.ts";
import { openSqliteLog } from "./sqlite.ts";

/** They apply to PostgreSQL only. */
interface ServerOptions {
  /** Connections of this process. */
  readonly connections?: number | undefined;
  /** Called once if the log went back. The caller must close it, drop everything derived from it, and open it again. */
  readonly onWentBack?: (() => void) | undefined;
}

/**
 * @param url `sqlite://<path>` or `postgres://…`
 * @throws AppError `log_unavailable` or `configuration`
 */
export async function openLog(
  url: string,
  clock: Clock,
  logger: Logger,
  options: ServerOptions = {},
): Promise<EventLog> {
  const common = { clock, logger };
  const path = sqlitePath(url);
  if (path !== undefined) return openSqliteLog({ path, ...common }).catch((error: unknown) => refuse(path, error));
  if (/^postgres(ql)?:\/\//.test(url)) {
    return openPostgresLog({ url, ...options, ...common }).catch((error: unknown) => refuseServer(url, error));
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
