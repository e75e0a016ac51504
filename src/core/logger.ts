/**
 * Structured logs by pino on standard error: JSON lines, or short lines for people in a terminal. The serializers and
 * the message hook redact, so that no line contains an endpoint URL or a key, whatever a caller passes.
 */
import pino from "pino";
import { AppError, redact as redactUrls } from "./errors.ts";
import { printable, printableLines } from "./format.ts";
import { Secrets } from "./secrets.ts";

export type LogLevel = "silent" | "error" | "warn" | "info" | "debug" | "trace";

export interface Logger {
  error(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  info(fields: object, message: string): void;
  debug(fields: object, message: string): void;
  child(fields: object): Logger;
}

type Redact = (text: string) => string;

function serializeError(error: unknown, redact: Redact, depth = 0): unknown {
  if (!(error instanceof Error)) return redact(String(error));
  return {
    type: error.name,
    message: redact(error.message),
    ...(error instanceof AppError ? { code: error.code, retryable: error.retryable, ...error.meta } : {}),
    stack: redact(error.stack ?? ""),
    ...(error.cause !== undefined && depth < MAX_DEPTH
      ? { cause: serializeError(error.cause, redact, depth + 1) }
      : {}),
  };
}

/** Deeper values of a line are errors' causes and lists of lists, which no caller passes. */
const MAX_DEPTH = 3;

/** Facts of a client's request, of which there may be thousands a second. The client doesn't know the operator's secrets. */
const OWN_FIELDS = new Set(["requestId", "method", "path", "parameters"]);

/** The fields of a line with redacted texts. Errors have a serializer of their own. */
function redactedFields(value: unknown, redact: Redact, depth = 0): unknown {
  if (typeof value === "string") return redact(value);
  if (typeof value !== "object" || value === null || value instanceof Error || depth > MAX_DEPTH) return value;
  if (Array.isArray(value)) return value.map((one) => redactedFields(one, redact, depth + 1));
  const redacted = ([key, one]: [string, unknown]) =>
    [key, depth === 0 && OWN_FIELDS.has(key) ? one : redactedFields(one, redact, depth + 1)] as const;
  return Object.fromEntries(Object.entries(value).map(redacted));
}

export type LogFormat = "json" | "pretty";

interface Destination {
  write(text: string): void;
}

/** Writes short lines for people: time, level if it matters, the message, and the fault. */
export function prettyLines(destination: Destination, isColored: boolean): Destination {
  // Only a terminal needs the package, which takes 20 ms to load.
  const pretty = require("pino-pretty") as typeof import("pino-pretty");
  const prettify = pretty.prettyFactory({
    colorize: isColored,
    translateTime: "SYS:HH:MM:ss",
    ignore: "pid,hostname",
    hideObject: true,
    messageFormat: (line, key) => lineText(line, String(line[key] ?? "")),
    customPrettifiers: { level: (_level, _key, _line, { labelColorized }) => labelColorized.padEnd(5) },
  });
  return {
    write: (json) => {
      // The type of the result of pino-pretty is a string, or undefined for a line of another level.
      const text = prettify(JSON.parse(json)) as string | undefined;
      if (text !== undefined) destination.write(text);
    },
  };
}

/** Fields that a line's message doesn't already say. */
const SHOWN = [
  "chain",
  "endpoint",
  "address",
  "state",
  "reason",
  "attempt",
  "method",
  "path",
  "parameters",
  "status",
  "ms",
] as const;

function lineText(line: Readonly<Record<string, unknown>>, message: string): string {
  const fields = SHOWN.filter((name) => line[name] !== undefined && !message.includes(String(line[name])));
  const fault = (line["err"] as { readonly message?: string } | undefined)?.message;
  const rest = fields.map((name) => `${name}=${String(line[name])}`);
  const words = [message, ...(fault === undefined || message.includes(fault) ? [] : [`(${fault})`]), ...rest];
  // A text of a node or a contract must not end the line, or turn it.
  return printable(words.join(" "));
}

/**
 * Creates a logger of JSON lines to standard error, or to `destination`.
 * @param secrets the operator's, which no line may contain, whatever their source
 */
export function createLogger(level: LogLevel, destination?: Destination, secrets = new Secrets([])): Logger {
  const output = destination ?? pino.destination({ fd: 2, sync: true });
  // JSON escapes some control characters only. The others would reach a terminal that shows the lines.
  const stream: Destination = { write: (line) => output.write(printableLines(line)) };
  const redact = (text: string) => secrets.redact(redactUrls(text));
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      serializers: { err: (error: unknown) => serializeError(error, redact) },
      redact: { paths: ["key", "apiKey", "*.apiKey", "url", "*.url", "headers"], censor: "[redacted]" },
      formatters: {
        level: (label) => ({ level: label }),
        log: (fields) => redactedFields(fields, redact) as Record<string, unknown>,
      },
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
