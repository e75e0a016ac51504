/** A logger that records its lines for a test. */
import { Writable } from "node:stream";
import pino from "pino";
import type { Logger } from "../../src/core/logger.ts";

export interface LoggedLine {
  readonly level: number;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** pino's number for the level. */
export const WARN = 40;

/** Returns a logger of that level and the list of lines it has written. */
export function recordingLogger(level: "debug" | "info"): { readonly logger: Logger; readonly lines: LoggedLine[] } {
  const lines: LoggedLine[] = [];
  const sink = new Writable({
    write: (chunk, _encoding, done) => {
      lines.push(JSON.parse(String(chunk)) as LoggedLine);
      done();
    },
  });
  return { logger: pino({ level }, sink) as unknown as Logger, lines };
}
