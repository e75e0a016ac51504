/**
 * The command lines of the examples: `--url` and `SERVICE_KEY` make a client, Ctrl-C ends the example in order, and an
 * error names the parameter and the way out.
 */
import { parseArgs } from "node:util";
import { Client, type Contract, ServiceError } from "../../src/client/index.ts";

/** Exit code of a wrong command line. */
const USAGE = 64;
const DEFAULT_URL = "http://127.0.0.1:3000";
const PORTS = { min: 0, max: 65_535 };
const SHARED = ["url", "chain"] as const;

/** 128 and the number of the signal, as in a shell. */
const EXIT_CODES = { SIGINT: 130, SIGTERM: 143 } as const;
/** Time that an example has to end in order. What it waits for may never come. */
const GRACE_MS = 250;
/** A service that is silent for this long is mentioned. */
const SILENT_MS = 3_000;

/** A parameter is missing or wrong. */
export class UsageError extends Error {
  override readonly name = "UsageError";
}

/** A command line that was read. */
export interface CommandLine {
  readonly client: Client;
  readonly url: string;
  readonly key: string;
  readonly chain: string;
  /** Returns the address at this place. @throws UsageError */
  address(place: number, name: string): string;
  /** The text of an option; undefined if it is not given. */
  option(name: string): string | undefined;
  /** The number of an option; undefined if it is not given. @throws UsageError */
  number(name: string, bounds: { readonly min: number; readonly max: number }): number | undefined;
  /** Returns the port of `--port`, or of the variable PORT; 0, which takes a free one, without both. @throws UsageError */
  port(): number;
  /** Aborts on Ctrl-C and SIGTERM. */
  readonly signal: AbortSignal;
}

/**
 * Reads the command line, runs an example with it, and sets the exit code. Every option takes a value. A signal ends the
 * process within a second: with 0 if the example ended in order, else with the signal's code.
 */
export async function runExample(
  usage: string,
  options: readonly string[],
  work: (line: CommandLine) => Promise<void>,
): Promise<void> {
  let line: CommandLine | undefined;
  try {
    line = readLine(usage, options);
    if (line === undefined) console.log(usage);
    else await Promise.race([work(line), graceAfter(line.signal)]);
  } catch (error) {
    if (line?.signal.aborted === true) process.exitCode = EXIT_CODES[line.signal.reason as keyof typeof EXIT_CODES];
    else {
      console.error(explained(error, line?.url ?? DEFAULT_URL));
      process.exitCode = error instanceof UsageError ? USAGE : 1;
    }
  } finally {
    line?.client.close();
  }
  // A request without an answer would keep the process alive.
  if (line?.signal.aborted === true) process.exit();
}

/** Rejects some time after the signal. */
async function graceAfter(signal: AbortSignal): Promise<never> {
  await aborted(signal);
  await new Promise((resolve) => setTimeout(resolve, GRACE_MS));
  throw signal.reason;
}

/** Sends a request, and says so if there is no answer for a while. */
async function noticed(url: string, init: RequestInit): Promise<Response> {
  const { origin } = new URL(url);
  const timer = setTimeout(() => console.error(`the service at ${origin} is silent; still waiting`), SILENT_MS);
  try {
    return await fetch(url, init);
  } finally {
    clearTimeout(timer);
  }
}

/** Returns undefined for `--help`. */
function readLine(usage: string, names: readonly string[]): CommandLine | undefined {
  const options = Object.fromEntries([...SHARED, ...names].map((name) => [name, { type: "string" as const }]));
  const { values, positionals } = parsed(usage, { ...options, help: { type: "boolean" as const } });
  if (values["help"] === true) return undefined;
  const option = (name: string) => values[name] as string | undefined;
  const url = option("url") ?? DEFAULT_URL;
  if (!/^https?:\/\//.test(url)) throw new UsageError(`--url: "${url}" must begin with http:// or https://`);
  const key = process.env["SERVICE_KEY"];
  if (key === undefined || key === "") {
    throw new UsageError(
      "SERVICE_KEY is not set: set this variable to a key of the service, see `bun run cli keys add`",
    );
  }
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort(signal));
  const client = new Client({
    ...{ url, key, fetch: noticed },
    onInterruption: ({ message }) => console.error(`no messages from ${url} for now: ${message}`),
  });
  return {
    client,
    url,
    key,
    chain: option("chain") ?? "eth",
    signal: stop.signal,
    option,
    address: (place, name) => addressFrom(positionals[place], name, usage),
    number: (name, bounds) => numberFrom(option(name), `--${name}`, bounds),
    port: () =>
      numberFrom(option("port"), "--port", PORTS) ?? numberFrom(process.env["PORT"] || undefined, "PORT", PORTS) ?? 0,
  };
}

function parsed(usage: string, options: Record<string, { readonly type: "string" | "boolean" }>) {
  try {
    return parseArgs({ args: process.argv.slice(2), options, allowPositionals: true });
  } catch (error) {
    throw new UsageError(`${(error as Error).message}\n${usage}`);
  }
}

function addressFrom(text: string | undefined, name: string, usage: string): string {
  if (text === undefined) throw new UsageError(`${name} is missing\n${usage}`);
  if (!/^0x[0-9a-f]{40}$/i.test(text)) throw new UsageError(`${name}: "${text}" must be 0x and 40 hex digits`);
  return text;
}

function numberFrom(
  text: string | undefined,
  name: string,
  { min, max }: { readonly min: number; readonly max: number },
): number | undefined {
  if (text === undefined) return undefined;
  const number = text.trim() === "" ? Number.NaN : Number(text);
  if (number >= min && number <= max) return number;
  throw new UsageError(`${name}: "${text}" must be a number from ${min} to ${max}`);
}

/** Says what went wrong, and what to do about it. */
function explained(error: unknown, url: string): string {
  if (!(error instanceof ServiceError)) return error instanceof Error ? error.message : String(error);
  if (error.status === 401) return `${error.message}: set SERVICE_KEY to a key of the service at ${url}`;
  if (error.status === 0) return `no service answers at ${url}: start it with \`bun run start\`, or give its --url`;
  return `${error.message} (${error.code})`;
}

/** Resolves once the signal aborts. */
export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}

/**
 * Resolves once a collection is indexed. An unknown one gets indexed, which may take minutes.
 * @param onProgress called with the per cent that are done
 */
export async function whenIndexed(
  client: Client,
  { chain = "eth", address }: Contract,
  onProgress: (percent: number) => void = () => {},
): Promise<void> {
  for await (const message of client.subscribe(address, { chain })) {
    if (message.type === "indexed" || (message.type === "status" && message.status === "SYNCED")) return;
    if (message.type === "progress") onProgress(message.percent);
    if (message.type === "failed" && message.nextTry === null) throw new Error(`${address}: ${message.reason}`);
  }
}
