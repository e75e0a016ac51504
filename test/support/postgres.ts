/**
 * A real PostgreSQL for tests, in a temporary folder on a free port. A test can stop and restart it, and it ends with
 * this process. A cluster creates fresh databases. `sharedPostgres` is the one cluster of a test process.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { chown, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SQL } from "bun";
import { type Guard, guardChild } from "../../scripts/local-chain/guard.ts";
import { type PostgresBinaries, preparePostgres } from "./postgres-binaries.ts";

export interface PostgresOptions {
  /**
   * Flush commits to the disk, as in production. Default: false, which is faster. Commits then survive a kill of the
   * server, but not of the machine.
   */
  durable?: boolean;
  /** Further settings, such as `{ max_connections: "20" }`. */
  settings?: Record<string, string>;
}

export interface Postgres {
  readonly port: number;
  /** The URL of a database of this cluster. */
  url(database: string): string;
  /** Creates a database for one test and resolves with its URL. */
  createDatabase(): Promise<string>;
  /** Stops the server and keeps its data and its port. With `abruptly`, recovery is left to the next start. */
  stopServer(options?: { abruptly?: boolean }): Promise<void>;
  /** Starts the server again and resolves when it accepts connections. */
  startServer(): Promise<void>;
  /** Stops the server and deletes its data. May be called twice. */
  stop(): Promise<void>;
}

/** A server process. `postgres-pair.ts` shares the functions below that start one. */
export interface RunningServer {
  child: ChildProcess;
  exited: Promise<void>;
  guard: Guard;
}

const USER = "postgres";
const PASSWORD = "password";

export const POSTGRES_SETTINGS = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  max_connections: "200",
  shared_buffers: "64MB",
  lc_messages: "C",
  timezone: "UTC",
};
const NOT_DURABLE = { fsync: "off", full_page_writes: "off" };

let shared: Promise<Postgres> | undefined;

/** The one cluster for all tests of this process. The first call starts it, and it ends with the process. */
export function sharedPostgres(): Promise<Postgres> {
  shared ??= startPostgres();
  return shared;
}

/** The URL of a database of the shared cluster, for a user that may not call `pg_notify`. */
export async function createSilentDatabase(): Promise<string> {
  const url = new URL(await (await sharedPostgres()).createDatabase());
  const sql = new SQL(url.href, { max: 1 });
  await sql.unsafe("REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC");
  const roles = await sql.unsafe("SELECT 1 FROM pg_roles WHERE rolname = 'silent'");
  if (roles.length === 0) await sql.unsafe("CREATE ROLE silent LOGIN PASSWORD 'password'");
  await sql.unsafe("GRANT ALL ON SCHEMA public TO silent");
  await sql.end();
  url.username = "silent";
  return url.href;
}

/** Creates and starts a cluster. */
export async function startPostgres(options: PostgresOptions = {}): Promise<Postgres> {
  const binaries = await preparePostgres();
  const home = await mkdtemp(join(tmpdir(), "postgres-"));
  if (binaries.user !== undefined) await chown(home, binaries.user.uid, binaries.user.gid);
  const data = join(home, "data");
  await initialise(binaries, data);

  const port = freePort();
  const settings = { ...POSTGRES_SETTINGS, ...(options.durable === true ? {} : NOT_DURABLE), ...options.settings };
  const args = serverArguments({ data, port, settings });

  let running: RunningServer | undefined;
  let databases = 0;
  const url = (database: string) => postgresUrl(port, database);
  const startServer = async () => {
    if (running !== undefined) throw new Error("PostgreSQL is already running");
    running = await launch(binaries, args, home);
  };
  const stopServer = async ({ abruptly = false }: { abruptly?: boolean } = {}) => {
    if (running === undefined) return;
    const { child, exited, guard } = running;
    running = undefined;
    // SIGINT ends sessions and shuts down cleanly. SIGQUIT leaves recovery to the next start.
    child.kill(abruptly ? "SIGQUIT" : "SIGINT");
    await exited;
    guard.dismiss();
  };
  await startServer();
  return {
    port,
    url,
    createDatabase: async () => {
      databases += 1;
      const name = `test_${databases}`;
      const sql = new SQL(url("postgres"), { max: 1 });
      await sql.unsafe(`CREATE DATABASE ${name}`).finally(() => sql.close());
      return url(name);
    },
    stopServer,
    startServer,
    stop: async () => {
      await stopServer({ abruptly: true });
      await rm(home, { recursive: true, force: true });
    },
  };
}

/** The URL of a database of a server on this machine. */
export const postgresUrl = (port: number, database: string): string =>
  `postgres://${USER}:${PASSWORD}@127.0.0.1:${port}/${database}`;

/** The arguments of a server on a data folder. */
export function serverArguments(server: { data: string; port: number; settings: Record<string, string> }): string[] {
  const args = ["-D", server.data, "-p", String(server.port)];
  for (const [name, value] of Object.entries(server.settings)) args.push("-c", `${name}=${value}`);
  return args;
}

/** Creates the data folder of a cluster. */
export async function initialise({ folder, user }: PostgresBinaries, data: string): Promise<void> {
  const args = ["-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions"];
  const child = spawn(join(folder, "initdb"), args, {
    stdio: ["ignore", "ignore", "pipe"],
    env: environment(),
    ...user,
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let errors = "";
  child.stderr.on("data", (chunk: Buffer) => {
    errors += chunk.toString();
  });
  child.on("error", reject);
  child.on("close", (code) => (code === 0 ? resolve() : reject(new Error(`initdb failed (${code}): ${errors}`))));
  await promise;
}

/** Resolves when the server accepts connections, if only for reading. Its log is then read and discarded. */
export async function launch({ folder, user }: PostgresBinaries, args: string[], home: string): Promise<RunningServer> {
  const child = spawn(join(folder, "postgres"), args, {
    stdio: ["ignore", "ignore", "pipe"],
    env: environment(),
    ...user,
  });
  const ready = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  let log = "";
  child.stderr.on("data", (chunk: Buffer) => {
    if (log.length < 10_000) log += chunk.toString();
    if (/ready to accept (?:read-only )?connections/.test(log)) ready.resolve();
  });
  child.on("error", ready.reject);
  child.on("exit", (code) => {
    ready.reject(new Error(`PostgreSQL did not start (${code}): ${log}`));
    ended.resolve();
  });
  const guard =
    child.pid === undefined ? undefined : guardChild({ pid: child.pid, signal: "QUIT", removeAfterwards: home });
  await ready.promise.catch((error: unknown) => {
    guard?.dismiss();
    throw error;
  });
  // The process ends even if it never stops the shared cluster. The guard then ends the server.
  child.unref();
  return { child, exited: ended.promise, guard: guard! };
}

/** An environment without PGDATA, PGPORT and the like, which would override the arguments. */
function environment(): Record<string, string> {
  const { PATH = "" } = process.env;
  return { PATH, LC_ALL: "C", TZ: "UTC" };
}

export function freePort(): number {
  const listener = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => undefined } });
  const { port } = listener;
  listener.stop(true);
  return port;
}
