/**
 * The faults. Each one breaks something, waits, and heals it. Their kinds, targets and durations come from the seed.
 * `seeded-run.ts` then measures how long the service takes to recover.
 */
import { DISTURBANCES, type Disturbance } from "../../test/support/tcp-proxy.ts";
import { createRandom, type Random } from "../local-chain/random.ts";
import { type Cluster, DATABASE, secondsToTakeOver } from "./cluster.ts";
import type { NodeFault } from "./node.ts";
import type { Replica } from "./replica.ts";

export interface Inflicted {
  /** What was done, for the report. */
  readonly what: string;
  /** Prepares the next fault, once the service has recovered. */
  readonly afterwards?: () => Promise<void>;
}

/** Breaks and heals. Resolves at the moment at which nothing is broken any more. */
type Fault = (cluster: Cluster, random: Random) => Promise<Inflicted>;

/** A lease lasts three seconds. */
const LEASE_MS = 3_000;
const STORM_MS = 3_000;
const STORM_PAUSE_MS = 150;
/** Blocks that the primary commits without its standby, before it is lost. */
const LOST_MS = 3_500;
/** Depth of the fork that a replica does not hear of. */
const LONG_FORK = 5;
/** Longer than any lease, and longer than what the service takes for one that another clock gave. */
const CLOCK_BEHIND_SECONDS = 120;

const seconds = (random: Random, from: number, to: number): number =>
  (from + random.below((to - from) * 10) / 10) * 1_000;

/** Every second time the follower, because the other replicas depend on it. */
const victim = ({ replicas, follower }: Cluster, random: Random) =>
  random.below(2) === 0 ? follower() : random.pick(replicas);

const kill: Fault = async (cluster, random) => {
  const replica = victim(cluster, random);
  const isFollower = replica === cluster.follower();
  await replica.kill();
  if (isFollower) cluster.findings.tookOver("a killed follower", await secondsToTakeOver(cluster, replica));
  else await Bun.sleep(seconds(random, 0.2, 3));
  await replica.start();
  return { what: `killed ${replica.name}${isFollower ? ", the follower" : ""}` };
};

const stop: Fault = async (cluster, random) => {
  const replica = victim(cluster, random);
  const isFollower = replica === cluster.follower();
  const ms = LEASE_MS + seconds(random, 1, 4);
  replica.pause();
  const taken = isFollower ? secondsToTakeOver(cluster, replica) : Promise.resolve(0);
  await Bun.sleep(ms);
  if (isFollower) cluster.findings.tookOver("a stopped follower", await taken);
  replica.resume();
  return { what: `stopped ${replica.name}${isFollower ? ", the follower," : ""} for ${ms / 1_000} s or longer` };
};

const partition =
  (kind: Disturbance): Fault =>
  async (cluster, random) => {
    const { path, name } = victim(cluster, random);
    const ms = seconds(random, 2, 6);
    path.disturb(kind, 100 + random.below(400));
    await Bun.sleep(ms);
    path.heal();
    return { what: `${kind} path of ${name} for ${ms / 1_000} s` };
  };

const partitionAll: Fault = async ({ replicas }, random) => {
  const kind = random.pick(DISTURBANCES);
  const ms = seconds(random, 2, 6);
  for (const { path } of replicas) path.disturb(kind, 100 + random.below(400));
  await Bun.sleep(ms);
  for (const { path } of replicas) path.heal();
  return { what: `${kind} paths of all replicas for ${ms / 1_000} s` };
};

/** One replica is cut off for so long, while the chain forks, that its pages must say that they are stale. */
const partitionLong: Fault = async (cluster, random) => {
  const { chain } = cluster;
  const { path, name } = victim(cluster, random);
  const kind = random.pick(["cut", "silent", "deaf"] as const);
  const ms = seconds(random, 14, 17);
  path.disturb(kind);
  await chain.replaceAbove(chain.head.number - LONG_FORK, () => Promise.resolve());
  await Bun.sleep(ms);
  path.heal();
  return { what: `${kind} path of ${name} for ${ms / 1_000} s, with a fork of ${LONG_FORK} blocks` };
};

const node =
  (fault: NodeFault): Fault =>
  async (cluster, random) => {
    const replica = victim(cluster, random);
    const isFollower = cluster.replicas.length > 1 && replica === cluster.follower();
    const ms = seconds(random, 3, 7);
    replica.node.disturb(fault);
    await Bun.sleep(ms);
    replica.node.heal();
    return { what: `${fault} node of ${replica.name}${isFollower ? ", the follower," : ""} for ${ms / 1_000} s` };
  };

const restart =
  (mode: "fast" | "immediate"): Fault =>
  async ({ postgres }) => {
    await postgres.restart(mode);
    return { what: `restarted PostgreSQL (${mode})` };
  };

const storm: Fault = async ({ postgres }) => {
  const until = performance.now() + STORM_MS;
  let ended = 0;
  while (performance.now() < until) {
    const text = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = '${DATABASE}' AND pid <> pg_backend_pid()`;
    ended += (await postgres.query(DATABASE, text)).length;
    await Bun.sleep(STORM_PAUSE_MS);
  }
  return { what: `ended ${ended} sessions` };
};

/**
 * Triggers refuse rows with 53100, as the server does when a table can't grow. A small file system would be truer, but
 * mounting one takes root, and the mount would outlive a killed script. Every second time the leases' table is full, too:
 * an update often finds room in its own page, but not always.
 */
const diskFull: Fault = async ({ postgres }, random) => {
  const tables = ["events", "streams", "blobs", ...(random.below(2) === 0 ? ["leases"] : [])];
  const ms = seconds(random, 2, 6);
  const run = (text: string) => postgres.query(DATABASE, text);
  await run(`CREATE OR REPLACE FUNCTION disk_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`);
  for (const table of tables) {
    await run(`CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON ${table} FOR EACH ROW EXECUTE FUNCTION disk_full()`);
  }
  await Bun.sleep(ms);
  for (const table of tables) await run(`DROP TRIGGER full_disk ON ${table}`);
  return { what: `no room in ${tables.join(", ")} for ${ms / 1_000} s` };
};

interface FailoverOptions {
  readonly isLossy?: boolean;
  readonly isClockBehind?: boolean;
}

/**
 * The primary dies and the standby takes its place. `isLossy`: the standby lacks the last commits, and the chain has
 * replaced the blocks that they told of. Without a fork the new primary would learn the same blocks again.
 *
 * `isClockBehind`: the new primary's clock is behind, so that present leases seem to last for minutes. The clock itself
 * can't be moved without libfaketime, so the leases' ends are moved instead. Clocks of the service's processes are not
 * moved at all: the service takes no clock from outside.
 */
const failover =
  ({ isLossy = false, isClockBehind = false }: FailoverOptions): Fault =>
  async ({ postgres, chain, replicas, isSynchronous }, random) => {
    await postgres.setSynchronous(!isLossy);
    let what = isLossy ? "lost the primary and its last commits" : "lost the primary";
    if (isLossy) {
      const kept = chain.head.number;
      postgres.cutStandby();
      await Bun.sleep(LOST_MS + random.below(2_000));
      const isForked = random.below(4) > 0;
      if (isForked) await chain.replaceAbove(kept, () => postgres.killPrimary());
      else await postgres.killPrimary();
      what += isForked ? `, and blocks above ${kept} were replaced` : `, and no block was replaced above ${kept}`;
    } else await postgres.killPrimary();
    await Bun.sleep(seconds(random, 0, 2));
    await postgres.promote();
    if (isClockBehind || random.below(2) === 0) {
      const shift = `interval '${CLOCK_BEHIND_SECONDS} seconds'`;
      await postgres.query(DATABASE, `UPDATE leases SET expires_at = expires_at + ${shift}`);
      what += `; its clock is ${CLOCK_BEHIND_SECONDS} s behind`;
    }
    for (const { path } of replicas) path.route(postgres.port);
    const afterwards = async () => {
      await postgres.rebuildStandby();
      await postgres.setSynchronous(isSynchronous);
    };
    return { what, afterwards };
  };

/** Two replicas at once: the node of one fails or its path is slow, and the path of another one fails. */
const pair: Fault = async (cluster, random) => {
  const [first, second] = random.below(2) === 0 ? cluster.replicas : cluster.replicas.toReversed();
  const on = (replica: Replica): Cluster => ({ ...cluster, replicas: [replica], follower: () => replica });
  const one = random.pick([node("down"), node("hung"), node("stuck"), partition("delayed")]);
  const other = partition(random.pick(DISTURBANCES));
  const seeds = [random.below(1_000_000), random.below(1_000_000)] as const;
  const inflicted = await Promise.all([
    one(on(first!), createRandom(seeds[0])),
    other(on(second ?? first!), createRandom(seeds[1])),
  ]);
  return { what: inflicted.map(({ what }) => what).join(", and ") };
};

export const FAULTS: Readonly<Record<string, Fault>> = {
  kill,
  stop,
  pair,
  "partition-cut": partition("cut"),
  "partition-silent": partition("silent"),
  "partition-deaf": partition("deaf"),
  "partition-half-closed": partition("half-closed"),
  "partition-delayed": partition("delayed"),
  "partition-all": partitionAll,
  "partition-long": partitionLong,
  "restart-fast": restart("fast"),
  "restart-immediate": restart("immediate"),
  "session-storm": storm,
  "disk-full": diskFull,
  failover: failover({}),
  "failover-clock": failover({ isClockBehind: true }),
  "failover-loss": failover({ isLossy: true }),
  "node-down": node("down"),
  "node-hung": node("hung"),
  "node-stuck": node("stuck"),
  "node-lying": node("lying"),
};
