/** Opens the event log of `EVENT_LOG_URL` with the engine that its scheme names. */
import type { Clock } from "../core/clock.ts";
import { AppError } from "../core/errors.ts";
import type { Logger } from "../core/logger.ts";
import type { EventLog } from "./event-log.ts";
import { openPostgresLog } from "./postgres.ts";
import { openSqliteLog } from "./sqlite.ts";

/**
 * @param url `sqlite://<path>` or `postgres://…`
 * @param connections of this process to a PostgreSQL server
 * @throws AppError `log_unavailable` or `configuration`
 */
export async function openLog(url: string, clock: Clock, logger: Logger, connections?: number): Promise<EventLog> {
  const common = { clock, logger };
  if (url.startsWith("sqlite://")) return openSqliteLog({ path: url.slice("sqlite://".length), ...common });
  if (/^postgres(ql)?:\/\//.test(url)) return openPostgresLog({ url, connections, ...common });
  throw new AppError("EVENT_LOG_URL must start with sqlite:// or postgres://", { code: "configuration" });
}
