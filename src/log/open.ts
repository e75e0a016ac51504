/** Opens the event log of `EVENT_LOG_URL` with the engine that its scheme names. */
import type { Clock } from "../core/clock.ts";
import { AppError } from "../core/errors.ts";
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
  if (url.startsWith("sqlite://")) return openSqliteLog({ path: url.slice("sqlite://".length), ...common });
  if (/^postgres(ql)?:\/\//.test(url)) return openPostgresLog({ url, ...options, ...common });
  throw new AppError("EVENT_LOG_URL must start with sqlite:// or postgres://", { code: "configuration" });
}
