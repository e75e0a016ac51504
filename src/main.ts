/**
 * The process's edge: environment, first key, signals, exit code. Everything else is built in `service.ts`.
 */
import { type Config, ConfigError, readConfig } from "./config.ts";
import { systemClock } from "./core/clock.ts";
import { AppError, messageOf } from "./core/errors.ts";
import { createLogger } from "./core/logger.ts";
import { startService } from "./service.ts";

/** Signals closer together than this are one wish to stop. */
const SAME_SIGNAL_MS = 1_000;
/** Clients get ten seconds, then loops and what they stand on some five: whatever else hangs, supervisors kill after thirty. */
const STOP_MS = 18_000;

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

function configure(): Config {
  try {
    return readConfig(process.env);
  } catch (error) {
    return refuse(error);
  }
}

/** Says all that is wrong with the configuration, and leaves. */
function refuse(error: unknown): never {
  say(error instanceof ConfigError ? error.message : messageOf(error));
  process.exit(78);
}

const config = configure();
const logger = createLogger(config.logLevel);
try {
  const service = await startService({
    config,
    logger,
    onKeyMade: (key) => {
      // Once, and past the logger: a log that is kept must not keep a key.
      say(`\n  API key, shown once and kept only as a hash:  ${key}\n`);
    },
  });
  say(`  serving ${service.url}/api/v2, documented at ${service.url}/swagger`);
  let stoppingSince: number | undefined;
  const stop = async (signal: string) => {
    const now = performance.now();
    if (stoppingSince !== undefined) {
      // A terminal's Ctrl-C comes twice through `bun run`: from the terminal and from the parent that passes it on.
      if (now - stoppingSince < SAME_SIGNAL_MS) return;
      say(`${signal} again: leaving at once`);
      process.exit(130);
    }
    stoppingSince = now;
    systemClock.after(STOP_MS, () => {
      say(`not stopped within ${STOP_MS} ms: leaving`);
      process.exit(1);
    });
    await service.stop();
    process.exit(0);
  };
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      stop(signal).catch((error: unknown) => {
        say(messageOf(error));
        process.exit(1);
      });
    });
  }
} catch (error) {
  // What the environment leads to may be as wrong as the environment: a list's file, say.
  if (error instanceof ConfigError) refuse(error);
  // An error of ours says what is wrong and what to do; the stack of one that is not locates it.
  if (error instanceof AppError) logger.error({ code: error.code, ...error.meta }, `no start: ${messageOf(error)}`);
  else logger.error({ err: error }, "the service did not start");
  say(messageOf(error));
  process.exit(1);
}
