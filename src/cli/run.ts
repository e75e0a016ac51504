/**
 * The commands, as a table: name, usage, options and work. `runCommand` parses the words, prints help and errors, and
 * returns the exit code: 0 done, 1 refused or failed, 64 wrong usage, 69 log or service out of reach, 77 key refused,
 * 78 bad configuration.
 */
import { parseArgs } from "node:util";
import { type Config, ConfigError, readConfig } from "../config.ts";
import { messageOf } from "../core/errors.ts";
import { BAD_CONFIG, CommandError, FAILED, HttpOperator, LogOperator, USAGE } from "./access.ts";
import { backupCommand, restoreCommand, verifyCommand } from "./backup-commands.ts";
import { refreshCommand, reindexCommand, removeCommand } from "./change-commands.ts";
import { type Command, type CommandOptions, type CommandRun, unknownWord, type Values } from "./command.ts";
import { copyCommand } from "./copy-command.ts";
import { doctorCommand } from "./doctor-command.ts";
import { estimateCommand } from "./estimate-command.ts";
import { exportCommand } from "./export-command.ts";
import { indexCommand } from "./index-command.ts";
import { keysCommand } from "./keys-command.ts";
import { priceCommand } from "./price-command.ts";
import { collectionsCommand, inspectCommand, statusCommand } from "./show-commands.ts";

/** Without further words `main.ts` serves, before this table is read. */
const serveCommand: Command = {
  name: "serve",
  usage: "serve",
  summary: "Starts the service, as without a command",
  run: async () => {
    throw new CommandError("serve takes no words and no options: the environment configures it", USAGE);
  },
};

const COMMANDS: readonly Command[] = [
  ...[serveCommand, statusCommand, collectionsCommand, indexCommand, reindexCommand, removeCommand, refreshCommand],
  ...[inspectCommand, estimateCommand, priceCommand, exportCommand, copyCommand, keysCommand, doctorCommand],
  ...[backupCommand, restoreCommand, verifyCommand],
];

const COMMON: CommandOptions = {
  url: { type: "string" },
  key: { type: "string" },
  json: { type: "boolean" },
  help: { type: "boolean", short: "h" },
};
const COMMON_HELP = {
  "--url <url>": "Base URL of a running service. Without it the command opens EVENT_LOG_URL",
  "--key <key>": "A key of scope operate, for --url. Better: the variable SERVICE_KEY",
  "--json": "Prints JSON",
};

/** @param words the arguments after the program's name. Returns the exit code */
export async function runCommand(
  words: readonly string[],
  {
    environment,
    print,
    say,
    version,
  }: {
    readonly environment: Readonly<Record<string, string | undefined>>;
    readonly print: (line: string) => void;
    readonly say: (line: string) => void;
    readonly version: string;
  },
): Promise<number> {
  const [first = "--help", ...rest] = words;
  if (first === "--version" || first === "-v") {
    print(version);
    return 0;
  }
  try {
    if (first === "--help" || first === "-h" || first === "help") {
      print(rest[0] === undefined ? generalHelp() : helpOf(commandOf(rest[0])));
      return 0;
    }
    return await perform(commandOf(first), rest, { environment, print });
  } catch (error) {
    say(error instanceof CommandError ? error.message : messageOf(error));
    return error instanceof CommandError ? error.exitCode : FAILED;
  }
}

/** @throws CommandError with the nearest name */
function commandOf(word: string): Command {
  const command = COMMANDS.find(({ name }) => name === word);
  if (command !== undefined) return command;
  throw unknownWord("command", word, ["help", ...COMMANDS.map(({ name }) => name)]);
}

async function perform(
  command: Command,
  rest: readonly string[],
  { environment, print }: Pick<CommandRun, "environment" | "print">,
): Promise<number> {
  const options = { ...COMMON, ...command.options };
  const parsed = parseWords(rest, options);
  const values = parsed.values as Values;
  if (values["help"] === true) {
    print(helpOf(command));
    return 0;
  }
  const config = (): Config => {
    try {
      return readConfig(environment);
    } catch (error) {
      throw error instanceof ConfigError ? new CommandError(error.message, BAD_CONFIG) : error;
    }
  };
  const open: CommandRun["open"] = async (options) => {
    const { url } = values;
    if (typeof url !== "string") return LogOperator.open(config(), options);
    if (!/^https?:\/\//.test(url)) throw new CommandError("--url: must be an http or https URL", USAGE);
    const key = values["key"] ?? environment["SERVICE_KEY"];
    if (typeof key !== "string") throw new CommandError("--url needs a key: set SERVICE_KEY, or give --key", USAGE);
    return new HttpOperator(url, key);
  };
  return command.run({ words: parsed.positionals, values, environment, print, redraw: redrawer(), open, config });
}

function parseWords(words: readonly string[], options: CommandOptions) {
  for (const word of words) {
    const name = /^--(?:no-)?([a-z-]+)/.exec(word)?.[1];
    if (name !== undefined && !(name in options)) {
      throw unknownWord(
        "option",
        word.split("=")[0] as string,
        Object.keys(options).map((one) => `--${one}`),
      );
    }
  }
  try {
    return parseArgs({ args: [...words], options, allowPositionals: true });
  } catch (error) {
    throw new CommandError(messageOf(error), USAGE);
  }
}

/** Draws lines over the last ones in a terminal. */
function redrawer(): CommandRun["redraw"] {
  let drawn = 0;
  return (lines) => {
    if (!process.stderr.isTTY) return;
    const up = drawn === 0 ? "" : `\x1b[${drawn}A`;
    process.stderr.write(`${up}${lines.map((line) => `\x1b[2K${line}\n`).join("")}\x1b[J`);
    drawn = lines.length;
  };
}

function generalHelp(): string {
  const width = Math.max(...COMMANDS.map(({ name }) => name.length));
  const lines = COMMANDS.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`);
  return [
    "Usage: bun run cli <command> [options]",
    "",
    ...lines,
    "",
    "`help <command>` shows a command's options. The environment configures everything else: see README.md.",
    "Exit codes: 0 done, 1 refused or failed, 64 wrong usage, 69 log or service out of reach, 77 key refused,",
    "78 bad configuration.",
  ].join("\n");
}

function helpOf(command: Command): string {
  const { usage, summary, help = {} } = command;
  const rows = Object.entries(command === serveCommand ? {} : { ...help, ...COMMON_HELP });
  const width = Math.max(...rows.map(([name]) => name.length));
  return [
    `Usage: bun run cli ${usage}`,
    "",
    `${summary}.`,
    "",
    ...rows.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`),
  ].join("\n");
}
