/** What a command is, and what it gets to work with. */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ParseArgsConfig } from "node:util";
import { type Chain, knownChains, parseChain } from "../chains/chains.ts";
import type { Config } from "../config.ts";
import { nearestWord, printable } from "../core/format.ts";
import { parseAddress } from "../core/hex.ts";
import { createLogger } from "../core/logger.ts";
import { type KeyScope, usageStream } from "../events/types.ts";
import { appendWithRetry } from "../log/event-log.ts";
import {
  CommandError,
  HttpOperator,
  type LogOptions,
  missingLog,
  type NamedContract,
  type Operator,
  openCommandLog,
  USAGE,
} from "./access.ts";

/** Options as `parseArgs` takes them. */
export type CommandOptions = NonNullable<ParseArgsConfig["options"]>;
export type Values = Readonly<Record<string, string | boolean | undefined>>;

/** A command at work. */
export interface CommandRun {
  readonly words: readonly string[];
  readonly values: Values;
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
  /** The running service of `--url`; undefined without that option. @throws CommandError */
  service(): HttpOperator | undefined;
  /** The running service, or else the log. @throws CommandError */
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
  return new CommandError(`unknown ${kind} ${shown(word)}: ${hint}`, USAGE);
}

/** Characters of a wrong word in its refusal. */
const MAX_SHOWN = 80;

/** A wrong word, as its refusal has it. */
export const shown = (word: string): string => printable(word.slice(0, MAX_SHOWN));

/** The chain of a name or code. @throws CommandError with the nearest name */
export function knownChain(name: string): Chain {
  const chain = parseChain(name);
  if (chain !== undefined) return chain;
  throw unknownWord(
    "chain",
    name,
    knownChains().map((one) => one.name),
  );
}

/** The option of commands about one contract, and its help. */
export const CHAIN = { chain: { type: "string" } } as const;
export const CHAIN_HELP = { "--chain <name>": "eth by default" };

/** The contract that the words name, on the chain of the option. @throws CommandError */
export function contractOf({ words, values }: CommandRun, command: string): NamedContract {
  const chain = knownChain(String(values["chain"] ?? "eth"));
  const address = parseAddress(words[0] ?? "");
  if (address === undefined) throw new CommandError(`${command} needs the address of a contract`, USAGE);
  return { chain: chain.name, address };
}

// The service in the command's own process, for work that needs endpoints while no service runs.

export interface Work<T extends Operator = Operator> {
  readonly operator: T;
  close(): Promise<void>;
}

/** Starts the service on a free port of this machine, with a key of its own. */
export async function ownService(run: CommandRun, config = run.config()): Promise<Work<HttpOperator>> {
  const { startService } = await import("../service.ts");
  const key = randomBytes(32).toString("base64url");
  const hash = Bun.CryptoHasher.hash("sha256", key, "hex");
  const apiKeys = [{ name: "command", scope: "operate", hash } as const];
  const own = { ...config, host: "127.0.0.1", port: 0, publicUrl: undefined, apiKeys };
  // Work that a signal ends is no failure.
  const write = (line: string) => (run.signal.aborted ? undefined : run.say(line.trimEnd()));
  const starting = startService({ config: own, logger: createLogger("error", { write }) });
  let closing: Promise<void> | undefined;
  const close = () => {
    closing ??= starting.then((service) => service.stop());
    return closing;
  };
  // A signal ends the process only after the leases are released.
  run.beforeExit(close);
  const { port } = await starting;
  return { operator: new HttpOperator(`http://127.0.0.1:${port}`, key, run.signal), close };
}

/**
 * The given service, or one in this process for commands that only read. That one has an empty log of its own, which
 * is deleted at the end: it does not work on what the operator's log has queued. Only its bill is written there.
 */
export async function serviceOf(run: CommandRun): Promise<Work<HttpOperator>> {
  const running = run.service();
  if (running !== undefined) return { operator: running, close: async () => undefined };
  const config = run.config();
  const folder = await mkdtemp(join(tmpdir(), "evm-data-service-"));
  const remove = () => rm(folder, { recursive: true, force: true });
  // Also if the service does not stop in time. An open file stays usable until it is closed.
  run.beforeExit(remove);
  try {
    const own = withLogIn(folder, config);
    const work = await ownService(run, own);
    const close = () =>
      work
        .close()
        .then(() => copyBill(own, config))
        .finally(remove);
    return { operator: work.operator, close };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Attempts to append while a service writes its own bill. */
const ATTEMPTS = 8;

/** Copies what the command's own service recorded of its calls to the operator's log, if there is one. */
async function copyBill(own: Config, config: Config): Promise<void> {
  if (missingLog(config) !== undefined) return;
  const from = await openCommandLog(own);
  const events = (await from.read(usageStream)).map(({ event }) => event);
  await from.close();
  if (events.length === 0) return;
  const log = await openCommandLog(config);
  try {
    await appendWithRetry(log, ATTEMPTS, async () => {
      const { version } = await log.head(usageStream);
      return { stream: usageStream, expectedVersion: version, events };
    });
  } finally {
    await log.close();
  }
}

const withLogIn = (folder: string, config: Config): Config => ({
  ...config,
  eventLogUrl: `sqlite://${join(folder, "events.db")}`,
  snapshotDir: undefined,
});
