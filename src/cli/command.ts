/** What a command is, and what it gets to work with. */
import type { ParseArgsConfig } from "node:util";
import { CHAINS, type Chain, parseChain } from "../chains/chains.ts";
import type { Config } from "../config.ts";
import { nearestWord } from "../core/format.ts";
import type { KeyScope } from "../events/types.ts";
import { CommandError, type LogOptions, type Operator, USAGE } from "./access.ts";
import { printable } from "./terminal.ts";

/** Options as `parseArgs` takes them. */
export type CommandOptions = NonNullable<ParseArgsConfig["options"]>;
export type Values = Readonly<Record<string, string | boolean | undefined>>;

/** A command at work. */
export interface CommandRun {
  readonly words: readonly string[];
  readonly values: Values;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Writes a line to standard output. */
  readonly print: (line: string) => void;
  /** Writes to a terminal what later lines replace. Does nothing without one. */
  readonly redraw: (lines: readonly string[]) => void;
  /** Writes a line to standard error. */
  readonly say: (line: string) => void;
  /** Aborted when a signal such as Ctrl-C ends the command. */
  readonly signal: AbortSignal;
  /** Registers work that must be done before a signal ends the process, such as to release leases. */
  beforeExit(close: () => Promise<unknown>): void;
  /** Opens the running service, or the log. @throws CommandError */
  open(options?: LogOptions): Promise<Operator>;
  config(): Config;
}

export interface Command {
  readonly name: string;
  readonly usage: string;
  readonly summary: string;
  /** Most words after the name. */
  readonly maxWords: number;
  /** The least scope of a key for `--url`. Left out if the command uses no running service. */
  readonly scope?: KeyScope;
  readonly options?: CommandOptions;
  /** Help for each option of its own. */
  readonly help?: Readonly<Record<string, string>>;
  /** Returns the exit code. @throws CommandError */
  run(run: CommandRun): Promise<number>;
}

/** The refusal of a word, with the nearest known one. */
export function unknownWord(kind: string, word: string, known: readonly string[]): CommandError {
  const nearest = nearestWord(word, known);
  const hint = nearest === undefined ? `one of ${known.join(", ")}` : `did you mean ${nearest}?`;
  return new CommandError(`unknown ${kind} ${printable(word.slice(0, MAX_SHOWN))}: ${hint}`, USAGE);
}

/** Characters of a wrong word in its refusal. */
export const MAX_SHOWN = 80;

/** The chain of a name or code. @throws CommandError with the nearest name */
export function knownChain(name: string): Chain {
  const chain = parseChain(name);
  if (chain !== undefined) return chain;
  throw unknownWord(
    "chain",
    name,
    CHAINS.map((one) => one.name),
  );
}
