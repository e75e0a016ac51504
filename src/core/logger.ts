/**
 * Structured logs by pino, JSON lines on standard error. The serializers and the message hook redact, so that no line
 * contains an endpoint URL or a key, whatever a caller passes.
 */
import pino from "pino";
import { AppError, redact } from "./errors.ts";

export type LogLevel = "silent" | "error" | "warn" | "info" | "debug" | "trace";

export interface Logger {
  error(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  info(fields: object, message: string): void;
  debug(fields: object, message: string): void;
  child(fields: object): Logger;
}

function serializeError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return redact(String(error));
  return {
    type: error.name,
    message: redact(error.message),
    ...(error instanceof AppError ? { code: error.code, retryable: error.retryable, ...error.meta } : {}),
    stack: redact(error.stack ?? ""),
    ...(error.cause !== undefined && depth < 3 ? { cause: serializeError(error.cause, depth + 1) } : {}),
  };
}

/** Creates a logger to standard error, or to `destination` in tests. */
export function createLogger(level: LogLevel, destination?: { write(line: string): void }): Logger {
  const stream = destination ?? pino.destination({ fd: 2, sync: true });
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: (error: unknown) => serializeError(error) },
      redact: { paths: ["key", "apiKey", "*.apiKey", "url", "*.url", "headers"], censor: "[redacted]" },
      formatters: { level: (label) => ({ level: label }) },
      hooks: {
        logMethod(args, method) {
          const clean = args.map((arg) => (typeof arg === "string" ? redact(arg) : arg));
          method.apply(this, clean as Parameters<typeof method>);
        },
      },
    },
    stream,
  );
}

export const silentLogger: Logger = createLogger("silent", { write: () => undefined });
