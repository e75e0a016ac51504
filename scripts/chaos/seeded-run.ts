/**
 * Runs a seed: starts the cluster and its clients, inflicts faults one after the other, measures the recovery from each,
 * and in the end, without faults, compares the listings of every replica with the chain.
 */
import { join } from "node:path";
import { createRandom, type Random } from "../local-chain/random.ts";
import { askForPage } from "./answers.ts";
import type { ChaosCollection } from "./chain.ts";
import { type Cluster, measureRecovery, startCluster } from "./cluster.ts";
import { FAULTS } from "./faults.ts";
import type { Findings } from "./findings.ts";
import type { Replica } from "./replica.ts";
import { startRoamers } from "./sockets.ts";
import { differences, startWalkers } from "./walkers.ts";

export interface ChaosOptions {
  readonly seed: number;
  /** How long faults follow one another. The start and the final comparison come on top. */
  readonly seconds: number;
  readonly replicas: number;
  /** Names of faults. Empty: all. */
  readonly only: readonly string[];
  /** Ends the faults after so many, even if there is time left. */
  readonly rounds?: number | undefined;
  /** A folder for the replicas' whole logs, at level debug. */
  readonly logs?: string | undefined;
}

/** Walkers, and clients that ask for prices. */
const CLIENTS = { walkers: 4, pricers: 2 } as const;
const CALM_MS = 1_000;
const SETTLE_MS = 30_000;
const LOOK_MS = 100;
/** The newest lines of a replica's log that a violation at the end shows. */
const LOG_LINES = 12;

/** Runs one seed and adds what it found. */
export async function runChaos(options: ChaosOptions, findings: Findings): Promise<void> {
  const { seed, only, logs } = options;
  const names = only.length === 0 ? Object.keys(FAULTS) : only;
  const unknown = names.filter((name) => FAULTS[name] === undefined);
  if (unknown.length > 0) throw new Error(`there is no ${unknown}, only ${Object.keys(FAULTS).join(", ")}`);
  findings.beginSeed(seed);
  const violationsBefore = findings.violations.length;
  const cluster = await startCluster(seed, options, findings);
  findings.say(`seed ${seed}: ${options.replicas} replicas, ${cluster.isSynchronous ? "" : "a"}synchronous standby`);
  try {
    await Promise.race([cluster.chain.failed, runIn(cluster, options, names)]);
    if (findings.violations.length > violationsBefore) showLogs(cluster);
  } finally {
    await cluster.close();
    if (logs !== undefined) await keepLogs(cluster, join(logs, `seed-${seed}`));
  }
}

async function runIn(
  cluster: Cluster,
  { seed, seconds, rounds = Number.POSITIVE_INFINITY }: ChaosOptions,
  names: readonly string[],
): Promise<void> {
  const random = createRandom(seed);
  const walkers = startWalkers(cluster, { ...CLIENTS, seed });
  const roamers = startRoamers(cluster, seed);
  await Bun.sleep(CALM_MS);
  const until = performance.now() + seconds * 1_000;
  const deck: string[] = [];
  for (let round = 0; round < rounds && performance.now() < until; round++) {
    if (deck.length === 0) deck.push(...shuffled(names, random));
    await inflict(cluster, deck.pop()!, random);
  }
  cluster.findings.during = "the final comparison";
  await walkers.stop();
  const last = await settle(cluster);
  await roamers.finish(last);
  for (const replica of cluster.replicas) {
    const code = await replica.end();
    if (code !== 0) cluster.findings.violation(`${replica.name} ended with ${code} after SIGTERM`);
  }
}

function shuffled(names: readonly string[], random: Random): string[] {
  const left = [...names];
  return names.map(() => left.splice(random.below(left.length), 1)[0]!);
}

async function inflict(cluster: Cluster, name: string, random: Random): Promise<void> {
  const { findings } = cluster;
  findings.during = name;
  const { what, afterwards } = await FAULTS[name]!(cluster, random);
  const { ready, moved } = await measureRecovery(cluster);
  findings.recovered(name, ready, moved);
  findings.say(`${what}: ready after ${ready.toFixed(1)} s, showed a new block after ${moved.toFixed(1)} s`);
  await afterwards?.();
  await Bun.sleep(CALM_MS);
}

/** Ends the chain with a block that moves all collections, and compares all listings there. Returns the block. */
async function settle(cluster: Cluster): Promise<number> {
  const { chain, replicas, findings } = cluster;
  await chain.stop();
  const last = await chain.mineForAll();
  for (const replica of replicas) {
    for (const collection of chain.collections) {
      const problem = await finalProblem(cluster, replica, collection);
      if (problem !== undefined) findings.violation(`in the end ${replica.name}, ${collection.address}: ${problem}`);
    }
  }
  return last;
}

async function finalProblem(
  cluster: Cluster,
  replica: Replica,
  collection: ChaosCollection,
): Promise<string | undefined> {
  const { chain } = cluster;
  const owners = await chain.ownersAt(collection, chain.head.hash);
  const deadline = performance.now() + SETTLE_MS;
  let seen = "no page";
  while (performance.now() < deadline) {
    const records: [string, string][] = [];
    let path: string | undefined = `/api/v2/nft/${collection.address}?limit=500`;
    while (path !== undefined) {
      const page = await askForPage(cluster, replica, path);
      path = undefined;
      if (page === undefined || page === "ended") break;
      seen = `block ${page.facts.block} ${page.facts.hash}`;
      if (page.facts.hash !== chain.head.hash) break;
      const { cursor, result } = JSON.parse(page.body) as {
        cursor: string | null;
        result: { token_id: string; owner_of: string }[];
      };
      for (const { token_id, owner_of } of result) records.push([token_id, owner_of]);
      if (cursor === null) {
        const wrong = differences(owners, records);
        return wrong.length === 0
          ? undefined
          : `${wrong.length} wrong entries: ${wrong.slice(0, LOG_LINES).join("; ")}`;
      }
      path = `/api/v2/nft/${collection.address}?cursor=${encodeURIComponent(cursor)}`;
    }
    await Bun.sleep(LOOK_MS);
  }
  return `shows ${seen} and not the head ${chain.head.number} ${chain.head.hash} after ${SETTLE_MS / 1_000} s`;
}

function showLogs({ replicas, findings }: Cluster): void {
  for (const { name, log } of replicas) {
    const lines = log.split("\n").filter((line) => /"level":"(?:warn|error|fatal)"/.test(line));
    findings.say(`log of ${name}, the last of ${lines.length} lines:`);
    for (const line of lines.slice(-LOG_LINES)) findings.say(`  ${logLine(line)}`);
  }
}

async function keepLogs({ replicas }: Cluster, folder: string): Promise<void> {
  for (const { name, log } of replicas) await Bun.write(join(folder, `${name.replace(" ", "-")}.log`), log);
}

/** A line of the service's log without its stacks. */
function logLine(line: string): string {
  try {
    const { level, time, msg, err } = JSON.parse(line) as Record<string, string> & { err?: { message: string } };
    return `${time} ${level}: ${msg}${err === undefined ? "" : ` (${err.message})`}`.slice(0, 300);
  } catch {
    return line.slice(0, 300);
  }
}
