/** A logger whose lines a test looks at. */
import { Writable } from "node:stream";
import pino from "pino";
import type { Logger } from "../../src/core/logger.ts";

export interface LoggedLine {
  readonly level: number;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** As pino numbers its levels. */
export const WARN = 40;

/** A logger of that level, and what it has written so far. */
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
