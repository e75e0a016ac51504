/** Opens the event log of `EVENT_LOG_URL` with the engine that its scheme names. */
import type { Clock } from "../core/clock.ts";
import { AppError, InvariantError, messageOf } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { EventLog } from "./event-log.ts";
import { openPostgresLog } from "./postgres.ts";
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
  if (url.startsWith("sqlite://")) {
    const path = url.slice("sqlite://".length);
    return openSqliteLog({ path, ...common }).catch((error: unknown) => refuse(path, error));
  }
  if (/^postgres(ql)?:\/\//.test(url)) {
    const { hostname, port } = new URL(url);
    return openPostgresLog({ url, ...options, ...common }).catch((error: unknown) =>
      refuse(`${hostname}:${port === "" ? 5_432 : port}`, error),
    );
  }
  throw new AppError("EVENT_LOG_URL must start with sqlite:// or postgres://", { code: "configuration" });
}

/** @param place path, or host and port: where to look. @throws AppError that names it, and the variable */
function refuse(place: string, error: unknown): never {
  if (error instanceof InvariantError) throw error;
  const { code, retryable, meta } =
    error instanceof AppError ? error : { code: "log_unavailable", retryable: false, meta: {} };
  const message = messageOf(error);
  const text = message.includes(place) ? message : `${place}: ${message}`;
  const isNamed = message.includes("EVENT_LOG_URL");
  throw new AppError(isNamed ? message : `EVENT_LOG_URL: ${text}`, { code, retryable, meta, cause: error });
}
