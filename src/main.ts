/**
 * The edge of the process: environment, first key, signals, exit code. `service.ts` builds everything else. With a
 * command as argument, `cli/commands.ts` carries it out instead.
 */
import packageFacts from "../package.json" with { type: "json" };
import { Terminal } from "./cli/terminal.ts";
import { type Config, ConfigError, LIMITS, readConfig, secretsIn } from "./config.ts";
import { systemClock } from "./core/clock.ts";
import { PREVIEW_COMMAND } from "./core/embedded-files.ts";
import { AppError, messageOf } from "./core/errors.ts";
import { printableLines } from "./core/format.ts";
import { createLogger, prettyLines } from "./core/logger.ts";
import { PROXY_VARIABLES } from "./core/proxies.ts";
import { blobUrlOf } from "./core/s3-place.ts";
import type { Service } from "./service.ts";

/** Signals closer together than this count as one. */
const SAME_SIGNAL_MS = 1_000;
/** Clients get ten seconds, then loops and their foundations about five. Supervisors kill after thirty. */
const STOP_MS = 18_000;

function say(text: string): void {
  process.stderr.write(`${printableLines(text)}\n`);
}

/** The environment, and without the proxies the one that the runtime sees: each request is told its proxy. */
const environment = { ...process.env };
for (const name of PROXY_VARIABLES) {
  delete process.env[name];
  delete process.env[name.toLowerCase()];
}

function configure(): Config {
  try {
    return readConfig(environment);
  } catch (error) {
    return refuse(error);
  }
}

type StopSignal = "SIGINT" | "SIGTERM";
/** 128 and the number of the signal, as in a shell. */
const EXIT_CODES: Readonly<Record<StopSignal, number>> = { SIGINT: 130, SIGTERM: 143 };

/** Calls back for the first signal. Leaves at a second one, or if the process has not stopped in time. */
function onStopSignals(stop: (signal: StopSignal) => void): void {
  let stoppingSince: number | undefined;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      const now = performance.now();
      if (stoppingSince === undefined) {
        stoppingSince = now;
        systemClock.after(STOP_MS, () => {
          say(`not stopped within ${STOP_MS} ms: leaving`);
          process.exit(1);
        });
        stop(signal);
      } else if (now - stoppingSince >= SAME_SIGNAL_MS) {
        // With `bun run`, Ctrl-C arrives twice: from the terminal, and from the parent process, which forwards it.
        say(`${signal} again: leaving at once`);
        process.exit(EXIT_CODES[signal]);
      }
    });
  }
}

const RULE = `  ${"═".repeat(88)}`;

/**
 * The key of a first start. It is shown below everything else that the start says, so that nothing buries it, and at the
 * latest when the process ends. Not through the logger: logs are kept, and must not contain a key.
 */
class FirstKey {
  readonly #write: (text: string) => void;
  #key: string | undefined;
  /** True once the start has said everything. */
  #isDue = false;

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  made(key: string): void {
    this.#key = key;
    if (this.#isDue) this.show();
  }

  /** Shows the key, if one was made and not shown yet. @param use what it is for */
  show(use = ""): void {
    this.#isDue = true;
    if (this.#key === undefined) return;
    this.#write(`\n${RULE}\n  API key, shown once and kept only as a hash:  ${this.#key}\n${use}${RULE}\n\n`);
    this.#key = undefined;
  }
}

/** Prints all problems of the configuration and exits. */
function refuse(error: unknown): never {
  say(error instanceof ConfigError ? error.message : messageOf(error));
  process.exit(78);
}

const [command, ...rest] = process.argv.slice(2);
if (command === PREVIEW_COMMAND) (await import("./nft/metadata/media/preview-process.ts")).servePreviews();
else if (command === undefined || (command === "serve" && rest.length === 0)) await serve();
else {
  // Imported on demand: the service starts without it.
  const { runCommand } = await import("./cli/commands.ts");
  const print = (line: string) => void process.stdout.write(`${printableLines(line)}\n`);
  process.exitCode = await runCommand(process.argv.slice(2), {
    environment,
    print,
    say,
    version: packageFacts.version,
    onSignal: (stop) => onStopSignals((signal) => stop(EXIT_CODES[signal])),
  });
  // The reader of the pipe may never take the rest.
  if (process.exitCode > 128) process.exit();
  // An exit would cut off what a slow reader of the pipe has not taken yet.
  await new Promise<void>((resolve) => process.stdout.end(() => resolve()));
  // A log's connections may keep the process alive for a moment.
  process.exit();
}

/** Says what runs here, and which endpoints answer. */
async function introduce(
  service: Service,
  { eventLogUrl, blobs, proxies: { http, https } }: Config,
  tell: (line: string) => void,
): Promise<void> {
  for (const proxy of new Set([http ?? [], https ?? []].flat())) {
    tell(`outgoing requests go through the proxy at ${new URL(proxy).host}`);
  }
  const store = blobs === undefined ? "" : `, metadata and pictures in ${blobUrlOf(blobs)}`;
  tell(`version ${packageFacts.version}, event log on ${eventLogUrl.split(":")[0]}${store}`);
  try {
    for (const line of await service.probe()) tell(line);
  } catch (error) {
    tell(`the endpoints could not be asked: ${messageOf(error)}`);
  }
}

async function serve(): Promise<void> {
  // Imported on demand: most commands need no service. It loads while the configuration is read.
  const loading = import("./service.ts");
  const config = configure();
  const isPretty = config.logFormat === "pretty" || (config.logFormat === "auto" && process.stderr.isTTY === true);
  const terminal = new Terminal((text) => void process.stderr.write(text));
  const isColored = isPretty && process.stderr.isTTY === true;
  const logger = createLogger(
    config.logLevel,
    isPretty ? prettyLines(terminal, isColored) : undefined,
    secretsIn(config),
  );
  const firstKey = new FirstKey((text) => terminal.write(text));
  for (const warning of config.warnings) logger.warn({}, warning);
  try {
    const { startService } = await loading;
    const service = await startService({
      ...{ config, logger, drainMs: LIMITS.drainMs },
      onKeyMade: (key) => firstKey.made(key),
    });
    const endProgress = isColored ? terminal.follow(systemClock, service.indexing) : () => undefined;
    const stop = async () => {
      endProgress();
      firstKey.show();
      await service.stop();
      process.exit(0);
    };
    onStopSignals(() => {
      stop().catch((error: unknown) => {
        say(messageOf(error));
        process.exit(1);
      });
    });
    // Only now: a supervisor may stop the service as soon as it reads this line.
    terminal.write(
      `  serving ${service.url}/api/v2, documented at ${service.url}/swagger${config.hasConsole ? `, console at ${service.url}/` : ""}\n`,
    );
    await introduce(
      service,
      config,
      isPretty ? (line) => terminal.write(`  ${printableLines(line)}\n`) : (line) => logger.info({}, line),
    );
    firstKey.show(config.hasConsole ? `  Sign in with it at ${service.url}/\n` : "");
  } catch (error) {
    firstKey.show();
    // A file that the environment names, such as an operator's list, may be as wrong as the environment itself.
    if (error instanceof ConfigError) refuse(error);
    // An AppError says what is wrong and what to do. Any other error needs its stack to be located.
    const text = `cannot start: ${messageOf(error)}`;
    if (config.logLevel === "silent") say(text);
    else if (error instanceof AppError) logger.error({ code: error.code, ...error.meta }, text);
    else logger.error({ err: error }, text);
    process.exit(1);
  }
}
