/**
 * The commands, as a table: name, usage, options and work. `runCommand` parses the words, prints help and errors, and
 * returns the exit code: 0 done, 1 refused or failed, 64 wrong usage, 69 log or service out of reach, 77 key refused,
 * 78 bad configuration, 130 and 143 ended by SIGINT and SIGTERM.
 */

import { parseArgs } from "node:util";
import { blobStoreAt, ConfigError, knownChainsOf, proxiesOf, readConfig } from "../config.ts";
import { systemClock } from "../core/clock.ts";
import { AppError, messageOf } from "../core/errors.ts";
import { PROGRAM } from "../core/program.ts";
import { proxyFor } from "../core/proxies.ts";
import type { KeyScope } from "../events/types.ts";
import { BAD_CONFIG, boundedFetch, CommandError, FAILED, ServiceAccess, UNAVAILABLE, USAGE } from "./access.ts";
import { refreshCommand, reindexCommand, removeCommand } from "./change-commands.ts";
import { type Command, type CommandOptions, type CommandRun, shown, unknownWord, type Values } from "./command.ts";
import { copyCommand } from "./copy-command.ts";
import { doctorCommand } from "./doctor-command.ts";
import { estimateCommand } from "./estimate-command.ts";
import { exportCommand } from "./export-command.ts";
import { indexCommand } from "./index-command.ts";
import { keysCommand } from "./keys-command.ts";
import { backupCommand, restoreCommand, verifyCommand } from "./log-commands.ts";
import { openReader } from "./own-service.ts";
import { priceCommand } from "./price-command.ts";
import { pricesCommand } from "./prices-command.ts";
import { proofCommand } from "./proof-command.ts";
import { collectionsCommand, inspectCommand, statusCommand } from "./show-commands.ts";

/** Without further words `main.ts` serves, before this table is read. */
const serveCommand: Command = {
  name: "serve",
  usage: "serve",
  summary: "Starts the service, as without a command",
  maxWords: 0,
  run: async () => {
    throw new CommandError("serve takes no words and no options: the environment configures it", USAGE);
  },
};

const COMMANDS: readonly Command[] = [
  ...[serveCommand, statusCommand, collectionsCommand, indexCommand, reindexCommand, removeCommand, refreshCommand],
  ...[
    inspectCommand,
    estimateCommand,
    priceCommand,
    proofCommand,
    pricesCommand,
    exportCommand,
    copyCommand,
    keysCommand,
    doctorCommand,
  ],
  ...[backupCommand, restoreCommand, verifyCommand],
];

const COMMON: CommandOptions = { json: { type: "boolean" }, help: { type: "boolean", short: "h" } };
const COMMON_HELP = { "--json": "Prints JSON" };
/** Options of the commands that can ask a running service. */
const SERVICE: CommandOptions = { url: { type: "string" }, key: { type: "string" } };
const serviceHelp = (scope: KeyScope) => ({
  "--url <url>": "Base URL of a running service. Without it the command opens EVENT_LOG_URL",
  "--key <key>": `A key${scope === "operate" ? " of scope operate" : ", also of scope read"}, for --url. Better: the variable SERVICE_KEY`,
});
/** The syntax of API keys. Another text can't be a header's value, or belongs to no key. */
const KEY_TEXT = /^[A-Za-z0-9._~-]{8,128}$/;

interface CommandLineOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly print: (line: string) => void;
  readonly say: (line: string) => void;
  readonly version: string;
  /** Calls back with the exit code when a signal asks the process to end, in place of ending it at once. */
  readonly onSignal: (stop: (exitCode: number) => void) => void;
}

/** @param words the arguments after the program's name. Returns the exit code */
export async function runCommand(words: readonly string[], options: CommandLineOptions): Promise<number> {
  const [first = "--help", ...rest] = words;
  const { print, say, version } = options;
  if (first === "--version" || first === "-v" || first === "version") {
    print(version);
    return 0;
  }
  try {
    if (first === "--help" || first === "-h" || first === "help") {
      print(rest[0] === undefined ? generalHelp() : helpOf(commandOf(rest[0])));
      return 0;
    }
    return await perform(commandOf(first), rest, options);
  } catch (error) {
    const isWhole = error instanceof CommandError || error instanceof ConfigError || error instanceof AppError;
    say(isWhole ? error.message : messageOf(error));
    return exitCodeOf(error);
  }
}

function exitCodeOf(error: unknown): number {
  if (error instanceof CommandError) return error.exitCode;
  if (error instanceof ConfigError) return BAD_CONFIG;
  return error instanceof AppError && error.code === "log_unavailable" ? UNAVAILABLE : FAILED;
}

/** @throws CommandError with the nearest name */
function commandOf(word: string): Command {
  const command = COMMANDS.find(({ name }) => name === word);
  if (command !== undefined) return command;
  if (!word.startsWith("-")) {
    throw unknownWord("command", word, ["help", "version", ...COMMANDS.map(({ name }) => name)]);
  }
  const name = word.split("=")[0] as string;
  if (Object.keys({ ...SERVICE, ...COMMON }).some((one) => name === `--${one}`))
    throw new CommandError(`${name} comes after the command, as in: status ${name}`, USAGE);
  throw unknownWord("option", name, ["--help", "--version"]);
}

async function perform(command: Command, rest: readonly string[], given: CommandLineOptions): Promise<number> {
  const { environment, print, say } = given;
  const { words, values } = parseWords(command, rest);
  if (values["help"] === true) {
    print(helpOf(command));
    return 0;
  }
  assertFew(command, words);
  const chains = knownChainsOf(environment);
  const config = () => readConfig(environment);
  const interruption = new Interruption(given.onSignal);
  const { signal } = interruption;
  const service: CommandRun["service"] = () => {
    const { url } = values;
    if (typeof url !== "string") return undefined;
    if (!/^https?:\/\//.test(url)) throw new CommandError("--url: must be an http or https URL", USAGE);
    const fetch = boundedFetch(signal, proxyFor(proxiesOf(environment), url));
    return new ServiceAccess({ url, key: keyOf(values, environment), fetch });
  };
  const open: CommandRun["open"] = async (options) => service() ?? openReader({ config, say }, options);
  const beforeExit: CommandRun["beforeExit"] = (close) => interruption.add(close);
  const ways = { service, open, config, blobStoreAt: (url: string) => blobStoreAt(environment, url) };
  const run = { words, values, chains, print, say, redraw: redrawer(), signal, beforeExit, ...ways };
  try {
    return await Promise.race([command.run(run), interruption.ended]);
  } catch (error) {
    // The signal has ended the work. That is no failure of the command.
    if (signal.aborted) return interruption.ended;
    throw error;
  }
}

/** Time for a command to close what it opened after a signal. */
const CLOSE_MS = 700;

/**
 * The end of a command by a signal. A command that has nothing to close is ended by the system at once, also while it
 * computes.
 */
class Interruption {
  readonly #onSignal: CommandLineOptions["onSignal"];
  readonly #controller = new AbortController();
  readonly #closers: (() => Promise<unknown>)[] = [];
  readonly #ending = Promise.withResolvers<number>();

  constructor(onSignal: CommandLineOptions["onSignal"]) {
    this.#onSignal = onSignal;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Resolves with the exit code once a signal has come and all is closed. */
  get ended(): Promise<number> {
    return this.#ending.promise;
  }

  add(close: () => Promise<unknown>): void {
    this.#closers.push(close);
    if (this.#closers.length > 1) return;
    this.#onSignal((exitCode) => {
      this.#controller.abort(new DOMException("a signal ended the command", "AbortError"));
      // A silent node or service must not keep the command. A lease that was not released ends by itself.
      systemClock.after(CLOSE_MS, () => this.#ending.resolve(exitCode));
      Promise.allSettled(this.#closers.map((one) => one())).then(() => this.#ending.resolve(exitCode));
    });
  }
}

/** @throws CommandError that names the surplus words */
function assertFew({ name, maxWords }: Command, words: readonly string[]): void {
  if (words.length <= maxWords) return;
  const some = words.slice(maxWords).map(shown);
  const most = maxWords === 0 ? "no words" : maxWords === 1 ? "one word" : `${maxWords} words`;
  throw new CommandError(`${name} takes ${most}; surplus: ${some.join(" ")}`, USAGE);
}

/** @throws CommandError that names the place of a key that is missing, or that no service can have */
function keyOf(values: Values, environment: CommandLineOptions["environment"]): string {
  const [place, key] =
    typeof values["key"] === "string" ? ["--key", values["key"]] : ["SERVICE_KEY", environment["SERVICE_KEY"]];
  if (key === undefined) throw new CommandError("--url needs a key: set SERVICE_KEY, or give --key", USAGE);
  if (key === "") throw new CommandError(`${place} is empty: --url needs a key`, USAGE);
  if (KEY_TEXT.test(key)) return key;
  throw new CommandError(
    `${place}: no key; keys have 8 to 128 letters, digits, dots, hyphens, underscores, tildes`,
    USAGE,
  );
}

/** Parses the words after the command's name. @throws CommandError that names the option */
function parseWords(command: Command, words: readonly string[]): { words: readonly string[]; values: Values } {
  const options = { ...COMMON, ...(command.scope === undefined ? {} : SERVICE), ...command.options };
  const args: string[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = words[at] as string;
    // Everything after it is a word, also with a dash.
    if (word === "--") {
      args.push(...words.slice(at));
      break;
    }
    const [, dashes = "", name = "", value] = /^(--?)([^=]+)(=[\s\S]*)?$/.exec(word) ?? [];
    const option = dashes === "--" ? options[name] : undefined;
    if (dashes === "" || word === "-h") args.push(word);
    else if (option === undefined) throw unknownOption(command, `${dashes}${name}`, Object.keys(options));
    else if (option.type === "boolean") {
      if (value !== undefined) throw new CommandError(`--${name} takes no value`, USAGE);
      args.push(word);
    } else if (value !== undefined) args.push(word);
    else {
      const next = words[++at];
      // A negative number is a value, which the command judges. Another word with a dash is more likely an option.
      const isValue = next !== undefined && !/^-(?!\d)/.test(next);
      if (!isValue) throw new CommandError(`--${name} needs a value`, USAGE);
      args.push(`--${name}=${next}`);
    }
  }
  const parsed = parseArgs({ args, options, allowPositionals: true });
  return { words: parsed.positionals, values: parsed.values as Values };
}

function unknownOption({ name }: Command, option: string, known: readonly string[]): CommandError {
  const isService = Object.keys(SERVICE).some((one) => option === `--${one}`);
  if (isService) return new CommandError(`${name} asks no running service: leave ${option} out`, USAGE);
  return unknownWord(
    "option",
    option,
    known.map((one) => `--${one}`),
  );
}

/** Draws lines over the last ones in a terminal, cut to its size: the cursor can't go back over a line that wraps. */
function redrawer(): CommandRun["redraw"] {
  let drawn = 0;
  return (lines) => {
    const { stderr } = process;
    if (!stderr.isTTY) return;
    const [rows, columns] = [stderr.rows, stderr.columns].map((size) => (size > 1 ? size : Number.MAX_SAFE_INTEGER));
    const fitting = lines.slice(0, (rows as number) - 1).map((line) => line.slice(0, columns));
    const up = drawn === 0 ? "" : `\x1b[${drawn}A`;
    stderr.write(`${up}${fitting.map((line) => `\x1b[2K${line}\n`).join("")}\x1b[J`);
    drawn = fitting.length;
  };
}

function generalHelp(): string {
  const width = Math.max(...COMMANDS.map(({ name }) => name.length));
  const lines = COMMANDS.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`);
  return [
    `Usage: ${PROGRAM} <command> [options]`,
    "",
    ...lines,
    "",
    "`help <command>` shows a command's options. The environment configures everything else: see README.md.",
    "Exit codes: 0 done, 1 refused or failed, 64 wrong usage, 69 log or service out of reach, 77 key refused,",
    "78 bad configuration.",
  ].join("\n");
}

function helpOf(command: Command): string {
  const { usage, summary, scope, help = {} } = command;
  const common = { ...help, ...(scope === undefined ? {} : serviceHelp(scope)), ...COMMON_HELP };
  const rows = Object.entries(command === serveCommand ? {} : common);
  const width = Math.max(...rows.map(([name]) => name.length));
  return [
    `Usage: ${PROGRAM} ${usage}`,
    "",
    `${summary}.`,
    "",
    ...rows.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`),
  ].join("\n");
}
