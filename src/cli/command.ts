/** What a command is, and what it gets to work with. */
import type { ParseArgsConfig } from "node:util";
import type { Config } from "../config.ts";
import { nearestWord } from "../core/nearest.ts";
import { CommandError, type LogOptions, type Operator, USAGE } from "./access.ts";

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
  /** Opens the running service, or the log. @throws CommandError */
  open(options?: LogOptions): Promise<Operator>;
  config(): Config;
}

export interface Command {
  readonly name: string;
  readonly usage: string;
  readonly summary: string;
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
  return new CommandError(`unknown ${kind} ${word}: ${hint}`, USAGE);
}
