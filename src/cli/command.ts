/** What a command is, and what it gets to work with. */
import type { ParseArgsConfig } from "node:util";
import type { Chain, Chains } from "../chains/chains.ts";
import type { Config } from "../config.ts";
import { nearestWord, printable } from "../core/format.ts";
import { parseAddress } from "../core/hex.ts";
import type { S3Place } from "../core/s3-place.ts";
import type { KeyScope } from "../events/types.ts";
import { CommandError, type NamedContract, type ServiceAccess, USAGE } from "./access.ts";

/** Options as `parseArgs` takes them. */
export type CommandOptions = NonNullable<ParseArgsConfig["options"]>;
export type Values = Readonly<Record<string, string | boolean | undefined>>;

/** What a reader is opened for: a service in the command's own process that answers from the log. */
export interface ReaderOptions {
  /** True if the command may be the first to write to a log. */
  readonly mayCreate?: boolean;
  /** The contracts that the command names. */
  readonly contracts?: readonly NamedContract[];
  /** True if the log alone has the answer. Else a contract is refused if its chain has no endpoints. */
  readonly isOfLogAlone?: boolean;
}

/** A command at work. */
export interface CommandRun {
  readonly words: readonly string[];
  readonly values: Values;
  /** Writes a line to standard output. */
  readonly print: (line: string) => void;
  /** The chains that the environment knows. */
  readonly chains: Chains;
  /** Writes to a terminal what later lines replace. Does nothing without one. */
  readonly redraw: (lines: readonly string[]) => void;
  /** Writes a line to standard error. */
  readonly say: (line: string) => void;
  /** Aborted when a signal such as Ctrl-C ends the command. */
  readonly signal: AbortSignal;
  /** Registers work that must be done before a signal ends the process, such as to release leases. */
  beforeExit(close: () => Promise<unknown>): void;
  /** The running service of `--url`; undefined without that option. @throws CommandError */
  service(): ServiceAccess | undefined;
  /** The running service, or else one in this process that answers from the log. @throws CommandError */
  open(options?: ReaderOptions): Promise<ServiceAccess>;
  config(): Config;
  /** The store of a `s3://` URL that an option names, with the endpoint and keys of the environment. @throws ConfigError */
  blobStoreAt(url: string): S3Place;
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
  return new CommandError(`unknown ${kind} ${shown(word)}: ${hint}`, USAGE);
}

/** Characters of a wrong word in its refusal. */
const MAX_SHOWN = 80;

/** A wrong word, as its refusal has it. */
export const shown = (word: string): string => printable(word.slice(0, MAX_SHOWN));

/** The chain of a name or code. @throws CommandError with the nearest name */
export function knownChain(name: string, chains: Chains): Chain {
  const chain = chains.parse(name);
  if (chain !== undefined) return chain;
  throw unknownWord(
    "chain",
    name,
    chains.all.map((one) => one.name),
  );
}

/** The option of commands about one contract, and its help. */
export const CHAIN = { chain: { type: "string" } } as const;
export const CHAIN_HELP = { "--chain <name>": "eth by default" };

/** The contract that the words name, on the chain of the option. @throws CommandError */
export function contractOf({ words, values, chains }: CommandRun, command: string): NamedContract {
  const chain = knownChain(String(values["chain"] ?? "eth"), chains);
  const address = parseAddress(words[0] ?? "");
  if (address === undefined) throw new CommandError(`${command} needs the address of a contract`, USAGE);
  return { chain: chain.name, address };
}
