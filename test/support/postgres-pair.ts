/**
 * A primary and a streaming standby of PostgreSQL on this machine. The standby replicates over a path of its own, which
 * can be cut, so that a failover loses commits. In: settings. Out: the port of the present primary, and the failures
 * of a cluster: restarts, kills, failovers with and without loss.
 */
import { spawn, spawnSync } from "node:child_process";
import { chmod, chown, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SQL } from "bun";
import {
  freePort,
  initialise,
  launch,
  POSTGRES_SETTINGS,
  postgresUrl,
  type RunningServer,
  serverArguments,
} from "./postgres.ts";
import { type PostgresBinaries, preparePostgres } from "./postgres-binaries.ts";
import { eventually } from "./service.ts";
import { startTcpProxy, type TcpProxy } from "./tcp-proxy.ts";

export interface PostgresPair {
  /** Port of the present primary. */
  readonly port: number;
  createDatabase(name: string): Promise<void>;
  /** Runs one statement on the present primary, over a connection of its own. */
  query<T>(database: string, text: string): Promise<T[]>;
  /** Whether a commit waits for the standby. Resolves when it is in force. */
  setSynchronous(isOn: boolean): Promise<void>;
  /** Breaks the replication. Commits made from now on are lost with the primary. Not in synchronous mode. */
  cutStandby(): void;
  /** Stops the primary and starts it again. `immediate` leaves recovery to the start. */
  restart(mode: "fast" | "immediate"): Promise<void>;
  /** Kills the primary and all its processes with SIGKILL. */
  killPrimary(): Promise<void>;
  /** Makes the standby the primary. The former primary must be dead. */
  promote(): Promise<void>;
  /** Builds a new standby from the present primary, and removes the former primary. */
  rebuildStandby(): Promise<void>;
  /** Stops both servers and deletes their data. */
  stop(): Promise<void>;
}

interface Server {
  readonly home: string;
  readonly data: string;
  readonly port: number;
  running: RunningServer | undefined;
}

const SETTINGS = {
  ...POSTGRES_SETTINGS,
  // Crashes of processes lose nothing without fsync, but a copied data folder needs full pages.
  fsync: "off",
  hot_standby: "on",
  max_wal_senders: "10",
  wal_keep_size: "256MB",
  // After a cut the standby reconnects at once. The default is five seconds.
  wal_retrieve_retry_interval: "200ms",
};
const APPLICATION = "standby";

/** Starts a primary and its standby, asynchronous at first. */
export async function startPostgresPair(): Promise<PostgresPair> {
  const binaries = await preparePostgres();
  let primary = await newServer(binaries);
  await initialise(binaries, primary.data);
  await start(binaries, primary);
  const path = await startTcpProxy(primary.port);
  let standby: Server | undefined = await createStandby(binaries, primary, path);
  let former: Server | undefined;

  const query = <T>(database: string, text: string): Promise<T[]> => runQuery<T>(primary.port, database, text);
  return {
    get port() {
      return primary.port;
    },
    createDatabase: async (name) => {
      await query("postgres", `CREATE DATABASE ${name}`);
    },
    query,
    setSynchronous: async (isOn) => {
      await query("postgres", `ALTER SYSTEM SET synchronous_standby_names = '${isOn ? APPLICATION : ""}'`);
      await query("postgres", "SELECT pg_reload_conf()");
      const wanted = isOn ? "sync" : "async";
      await eventually(`the standby is ${wanted}`, async () => {
        const [row] = await query<{ sync_state: string }>("postgres", "SELECT sync_state FROM pg_stat_replication");
        return row?.sync_state === wanted ? true : undefined;
      });
    },
    cutStandby: () => path.disturb("cut"),
    restart: async (mode) => {
      await end(primary, mode === "fast" ? "SIGINT" : "SIGQUIT");
      await start(binaries, primary);
    },
    killPrimary: async () => {
      path.disturb("cut");
      await killAll(primary);
    },
    promote: async () => {
      if (standby === undefined) throw new Error("there is no standby to promote");
      await runQuery(standby.port, "postgres", "SELECT pg_promote(true, 20)");
      [former, primary, standby] = [primary, standby, undefined];
    },
    rebuildStandby: async () => {
      if (former !== undefined) await rm(former.home, { recursive: true, force: true });
      former = undefined;
      path.heal();
      path.route(primary.port);
      standby = await createStandby(binaries, primary, path);
    },
    stop: async () => {
      for (const server of [standby, primary, former]) {
        if (server === undefined) continue;
        await end(server, "SIGQUIT");
        await rm(server.home, { recursive: true, force: true });
      }
      await path.stop();
    },
  };
}

async function newServer({ user }: PostgresBinaries): Promise<Server> {
  const home = await mkdtemp(join(tmpdir(), "postgres-"));
  if (user !== undefined) await chown(home, user.uid, user.gid);
  return { home, data: join(home, "data"), port: freePort(), running: undefined };
}

async function start(binaries: PostgresBinaries, server: Server): Promise<void> {
  const { data, port, home } = server;
  server.running = await launch(binaries, serverArguments({ data, port, settings: SETTINGS }), home);
}

async function end(server: Server, signal: "SIGINT" | "SIGQUIT"): Promise<void> {
  const { running } = server;
  if (running === undefined) return;
  server.running = undefined;
  running.child.kill(signal);
  await running.exited;
  running.guard.dismiss();
}

/** Kills the server and its children. Children that outlived it could commit for a moment. */
async function killAll(server: Server): Promise<void> {
  const { running } = server;
  const pid = running?.child.pid;
  if (running === undefined || pid === undefined) return;
  server.running = undefined;
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8").catch(() => "");
  const lock = await readFile(join(server.data, "postmaster.pid"), "utf8").catch(() => "");
  running.child.kill("SIGKILL");
  for (const child of children.trim().split(/\s+/).filter(Boolean)) {
    try {
      process.kill(Number(child), "SIGKILL");
    } catch {
      // It ended by itself.
    }
  }
  await running.exited;
  running.guard.dismiss();
  // A killed server leaves its segment of shared memory behind, and the system has few of them.
  const segment = /^\s*\d+\s+(\d+)\s*$/m.exec(lock.split("\n")[6] ?? "")?.[1];
  if (segment !== undefined) spawnSync("ipcrm", ["-m", segment], { stdio: "ignore" });
}

/**
 * Copies the primary's data folder between pg_backup_start and pg_backup_stop, and starts the copy as a standby. The
 * package has no pg_basebackup.
 */
async function createStandby(binaries: PostgresBinaries, primary: Server, path: TcpProxy): Promise<Server> {
  const server = await newServer(binaries);
  const { data } = server;
  const sql = new SQL(postgresUrl(primary.port, "postgres"), { max: 1 });
  let label = "";
  try {
    await sql.unsafe("SELECT pg_backup_start('standby', true)");
    await copyFolder(binaries, primary.data, data);
    const [row] = (await sql.unsafe("SELECT labelfile FROM pg_backup_stop(false)")) as { labelfile: string }[];
    label = row!.labelfile;
  } finally {
    await sql.close();
  }
  // The standby streams all of its log from the primary. Files of the primary's own process don't belong to the copy.
  await rm(join(data, "postmaster.pid"), { force: true });
  for (const name of await readdir(join(data, "pg_wal"))) {
    await rm(join(data, "pg_wal", name), { recursive: true, force: true });
  }
  await mkdir(join(data, "pg_wal", "archive_status"));
  const info = `host=127.0.0.1 port=${path.port} user=postgres application_name=${APPLICATION}`;
  await writeFile(join(data, "backup_label"), label);
  await writeFile(join(data, "standby.signal"), "");
  // Replaces what ALTER SYSTEM wrote on the primary. After a promotion no commit waits for a standby.
  await writeFile(join(data, "postgresql.auto.conf"), `primary_conninfo = '${info}'\n`);
  const written = ["pg_wal/archive_status", "backup_label", "standby.signal", "postgresql.auto.conf"];
  for (const name of written) if (binaries.user) await chown(join(data, name), binaries.user.uid, binaries.user.gid);
  await start(binaries, server);
  await eventually("the standby replicates", async () => {
    const rows = await runQuery(
      primary.port,
      "postgres",
      "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'",
    );
    return rows.length > 0 ? true : undefined;
  });
  return server;
}

/** Copies as the servers' user. Ignores files that disappear meanwhile: the replay of the log doesn't need them. */
async function copyFolder({ user }: PostgresBinaries, from: string, to: string): Promise<void> {
  const child = spawn("cp", ["-Rp", from, to], { stdio: "ignore", ...user });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  child.on("error", reject);
  child.on("close", () => resolve());
  await promise;
  await chmod(to, 0o700);
}

async function runQuery<T>(port: number, database: string, text: string): Promise<T[]> {
  const sql = new SQL(postgresUrl(port, database), { max: 1, connectionTimeout: 5 });
  try {
    return (await sql.unsafe(text)) as T[];
  } finally {
    await sql.close({ timeout: 0 }).catch(() => undefined);
  }
}
