/**
 * The cluster of one seed: the chain, a PostgreSQL pair, and the replicas, each with its own path to PostgreSQL and its
 * own node. Also the questions that faults and measurements ask about it.
 */
import { type PostgresPair, startPostgresPair } from "../../test/support/postgres-pair.ts";
import { eventually } from "../../test/support/service.ts";
import { type ChaosChain, type ChaosCollection, startChaosChain } from "./chain.ts";
import type { Findings } from "./findings.ts";
import { startChaosNode } from "./node.ts";
import { Replica } from "./replica.ts";

export interface Cluster {
  readonly chain: ChaosChain;
  readonly postgres: PostgresPair;
  readonly replicas: readonly Replica[];
  readonly findings: Findings;
  /** Whether commits wait for the standby, apart from faults that need the other mode. */
  readonly isSynchronous: boolean;
  /** The next replica in turn, even if it is down. */
  nextReplica(): Replica;
  /** The replica that asks for the chain's head most: the follower. */
  follower(): Replica;
  close(): Promise<void>;
}

export const DATABASE = "chaos";
const SYNC_MS = 60_000;
/** A replica may be this far behind the chain's head: the follower asks for it about once a block. */
const BLOCKS_BEHIND = 3;
const RECOVERY_MS = 60_000;
const LOOK_MS = 50;

export async function startCluster(
  seed: number,
  options: { replicas: number; logs?: string | undefined },
  findings: Findings,
): Promise<Cluster> {
  const [chain, postgres] = await Promise.all([startChaosChain(seed), startPostgresPair()]);
  await postgres.createDatabase(DATABASE);
  const replicas: Replica[] = [];
  for (let at = 0; at < options.replicas; at++) {
    const logLevel = options.logs === undefined ? "warn" : "debug";
    const to = { port: postgres.port, database: DATABASE, node: await startChaosNode(chain), logLevel };
    const replica = await Replica.create(`replica ${at + 1}`, to);
    replica.onCrash = (problem) => findings.violation(problem);
    replicas.push(replica);
  }
  await Promise.all(replicas.map((replica) => replica.start()));
  let turn = 0;
  const cluster: Cluster = {
    chain,
    postgres,
    replicas,
    findings,
    isSynchronous: seed % 2 === 0,
    nextReplica: () => replicas[turn++ % replicas.length]!,
    follower: () => replicas.toSorted((a, b) => b.node.headQuestions() - a.node.headQuestions())[0]!,
    close: async () => {
      for (const replica of replicas) await replica.close();
      await chain.close();
      await postgres.stop();
    },
  };
  await postgres.setSynchronous(cluster.isSynchronous);
  chain.start();
  await eventually(
    "all replicas list all collections",
    async () => {
      for (const replica of replicas) {
        for (const collection of chain.collections) {
          const { text } = await replica.ask(firstPage(collection));
          if (!text.startsWith('{"status":"SYNCED"')) return undefined;
        }
      }
      return true;
    },
    SYNC_MS,
  );
  return cluster;
}

export const firstPage = ({ address }: ChaosCollection, limit = 1): string => `/api/v2/nft/${address}?limit=${limit}`;

/** Block of a replica's first page. Undefined if it gives none or calls it stale. */
export async function headOf(replica: Replica, collection: ChaosCollection): Promise<number | undefined> {
  const { response } = await replica.ask(firstPage(collection));
  if (response?.status !== 200 || response.headers.get("x-finality") === "stale") return undefined;
  return Number(response.headers.get("x-as-of-block"));
}

/** Seconds from the end of a fault. */
export interface Recovery {
  /** All replicas are ready and show the chain's head, or one of the blocks just below. */
  readonly ready: number;
  /** All of them show a block that was mined after the fault. Never much below a second: that block must come first. */
  readonly moved: number;
}

/** Measures the recovery of all replicas, from now on. */
export async function measureRecovery(cluster: Cluster): Promise<Recovery> {
  const { chain, replicas, findings } = cluster;
  const [started, healed] = [performance.now(), chain.head.number];
  const elapsed = () => (performance.now() - started) / 1_000;
  const isReady = async (replica: Replica, head: number | undefined) =>
    head !== undefined &&
    head >= chain.head.number - BLOCKS_BEHIND &&
    (await replica.ask("/health/ready")).response?.status === 200;
  let ready: number | undefined;
  let late: Replica[] = [];
  while (elapsed() < RECOVERY_MS / 1_000) {
    const heads = await Promise.all(replicas.map((replica) => headOf(replica, chain.collections[0]!)));
    const well = await Promise.all(replicas.map((replica, at) => isReady(replica, heads[at])));
    if (well.every(Boolean)) ready ??= elapsed();
    late = replicas.filter((_, at) => !well[at] || heads[at]! <= healed);
    if (ready !== undefined && late.length === 0) return { ready, moved: elapsed() };
    await Bun.sleep(LOOK_MS);
  }
  const names = late.map(({ name }) => name).join(" and ");
  findings.violation(`${names} had not recovered ${RECOVERY_MS / 1_000} s after the fault`);
  return { ready: ready ?? elapsed(), moved: elapsed() };
}

/** Seconds from now until a replica other than `lost` shows a block that is not mined yet. */
export async function secondsToTakeOver(cluster: Cluster, lost: Replica): Promise<number> {
  const { chain, replicas, findings } = cluster;
  const [started, head] = [performance.now(), chain.head.number];
  const elapsed = () => performance.now() - started;
  while (elapsed() < RECOVERY_MS) {
    for (const replica of replicas) {
      if (replica !== lost && ((await headOf(replica, chain.collections[0]!)) ?? 0) > head) return elapsed() / 1_000;
    }
    await Bun.sleep(LOOK_MS);
  }
  findings.violation(`no replica took over from ${lost.name} within ${RECOVERY_MS / 1_000} s`);
  return elapsed() / 1_000;
}
