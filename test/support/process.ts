/**
 * Runs the service in a separate process, as `start` does, configured only by its environment. Used by tests that
 * cannot run it in their own process, for example because they kill it.
 */
import { dirname, join } from "node:path";
import { guardChild } from "../../scripts/local-chain/guard.ts";
import { TEST_KEY } from "./service.ts";

export interface ServiceProcess {
  readonly base: string;
  readonly pid: number;
  /** Everything written to standard error so far. */
  stderr(): string;
  kill(signal: NodeJS.Signals): void;
  /** The exit code, or null after a signal. */
  readonly exited: Promise<number | null>;
  get(path: string): Promise<Response>;
}

const CHECKOUT = join(import.meta.dir, "../..");

/** As the package's script starts it. */
const SCRIPT = { npm_lifecycle_event: "start" };

interface SpawnOptions {
  /** Default: this one. */
  readonly checkout?: string;
  /** Path of the program in one file, to start it in place of the sources. */
  readonly program?: string | undefined;
  /** A shell command that runs first in the same process, such as one that sets a limit. */
  readonly before?: string;
}

/** Starts the service of a checkout and does not wait until it serves. */
export function spawnService(
  env: Record<string, string>,
  { checkout = CHECKOUT, program, before }: SpawnOptions = {},
): Omit<ServiceProcess, "base" | "get"> & {
  serving: Promise<string>;
} {
  const command = program === undefined ? [process.execPath, join(checkout, "src/main.ts")] : [program];
  const shell = before === undefined ? [] : ["sh", "-c", `${before}; exec "$@"`, "sh"];
  const child = Bun.spawn([...shell, ...command], {
    cwd: checkout,
    env: {
      PATH: process.env["PATH"] ?? "",
      PORT: "0",
      LOG_LEVEL: "warn",
      COLLECTIONS_PER_HOUR: "1000000",
      ...SCRIPT,
      ...env,
    },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  });
  const guard = guardChild({ pid: child.pid, signal: "KILL" });
  let text = "";
  const { promise: serving, resolve, reject } = Promise.withResolvers<string>();
  serving.catch(() => undefined);
  const reading = (async () => {
    const decoder = new TextDecoder();
    for await (const bytes of child.stderr) {
      text += decoder.decode(bytes, { stream: true });
      const base = /serving (\S+)\/api\/v2/.exec(text)?.[1];
      if (base !== undefined) resolve(base);
    }
    reject(new Error(`the service ended before it served:\n${text}`));
  })();
  const exited = child.exited.then(async () => {
    await reading;
    guard.dismiss();
    return child.exitCode;
  });
  return { pid: child.pid, stderr: () => text, kill: (signal) => child.kill(signal), exited, serving };
}

/** Starts the service and resolves when it serves. `program` as for `spawnService`, in its own folder. */
export async function startServiceProcess(env: Record<string, string>, program?: string): Promise<ServiceProcess> {
  const folder = program === undefined ? CHECKOUT : dirname(program);
  const { serving, ...process } = spawnService({ API_KEYS: TEST_KEY, ...env }, { checkout: folder, program });
  const base = await serving;
  return { ...process, base, get: (path) => fetch(`${base}${path}`, { headers: { "x-api-key": TEST_KEY } }) };
}
