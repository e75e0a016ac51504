/**
 * Compares two ways to spread requests over four replicas behind a real nginx: round robin, and by a consistent hash of the
 * contract. The replicas share one PostgreSQL with 1,000 collections and one S3 store with their metadata, and none of them has
 * room for all collections. Then one replica is killed under load. Prints memory, hit rate, p99 and failed requests.
 * `bun scripts/bench/routing.ts [collections] [seconds]`; `--write` keeps the results.
 */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { startProxy } from "../../test/support/long/proxies.ts";
import { startPostgres } from "../../test/support/postgres.ts";
import { startS3 } from "../../test/support/s3.ts";
import { createRandom } from "../local-chain/random.ts";
import { percentile } from "./load.ts";
import { machine, residentBytes } from "./machine.ts";
import { fillRouted, TOKENS_SHOWN } from "./routing/filled.ts";
import { countersOf, sumOfCounters } from "./routing/scraped.ts";
import { type BenchService, KEY_HEADERS, numberedAddress, startBenchService, startBlocklessNode } from "./service.ts";

const [collections = 1_000, seconds = 30] = process.argv
  .slice(2)
  .filter((word) => /^\d+$/.test(word))
  .map(Number);
const REPLICAS = 4;
/** The collections of this bench take about 200 MB together. */
const CACHE_MB = 96;
const CONNECTIONS = 8;

interface Load {
  readonly requests: number;
  readonly failed: number;
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
}

/** Asks for pages of random collections for a while. @param onHalf called once in the middle */
async function load(port: number, ms: number, seed: number, onHalf?: () => void): Promise<Load> {
  const random = createRandom(seed);
  const began = performance.now();
  const latencies: number[] = [];
  let failed = 0;
  let isHalf = false;
  const client = async (): Promise<void> => {
    for (;;) {
      const at = performance.now();
      if (at - began >= ms) return;
      if (!isHalf && at - began >= ms / 2) {
        isHalf = true;
        onHalf?.();
      }
      failed += (await isAnswered(port, random.below(collections))) ? 0 : 1;
      latencies.push(performance.now() - at);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, client));
  const passed = (performance.now() - began) / 1_000;
  return {
    ...{ requests: latencies.length, failed, perSecond: latencies.length / passed },
    ...{ p50: percentile(latencies, 50), p99: percentile(latencies, 99) },
  };
}

/** True if the page came whole, with the metadata of each token. */
async function isAnswered(port: number, index: number): Promise<boolean> {
  const path = `/api/v2/nft/${numberedAddress(index)}?limit=${TOKENS_SHOWN}&normalizeMetadata=true`;
  try {
    const response = await fetch(`http://127.0.0.1:${port}${path}`, {
      headers: { ...KEY_HEADERS, host: "nft.example.org" },
    });
    const { result } = (await response.json()) as { result?: readonly { metadata: string | null }[] };
    return response.ok && result?.length === TOKENS_SHOWN && result.every(({ metadata }) => metadata !== null);
  } catch {
    return false;
  }
}

interface Row {
  readonly way: string;
  readonly memoryMb: readonly number[];
  readonly collectionsHeld: readonly number[];
  /** KB of memory that a collection takes. */
  readonly kilobytes: number;
  readonly hitRate: number;
  readonly blobReads: number;
  readonly load: Load;
  readonly killed: Load;
}

async function measured(way: "round robin" | "by contract", environment: Record<string, string>): Promise<Row> {
  const node = startBlocklessNode();
  const rpcUrl = `http://127.0.0.1:${node.port}`;
  const logUrl = environment["EVENT_LOG_URL"] as string;
  const start = () => startBenchService({ rpcUrl, logUrl, env: environment });
  const replicas: BenchService[] = [];
  for (let index = 0; index < REPLICAS; index++) replicas.push(await start());
  const proxy = await startProxy(
    "nginx",
    replicas.map(({ port }) => port),
    way === "by contract",
  );
  // The same load before, so that what fits is in memory.
  await load(proxy.port, seconds * 1_000, 3);
  const before = await Promise.all(replicas.map(countersOf));
  const loaded = await load(proxy.port, seconds * 1_000, 1);
  const after = await Promise.all(replicas.map(countersOf));
  const of = (name: string) => sumOfCounters(after, name) - sumOfCounters(before, name);
  const memoryMb = replicas.map(({ pid }) => residentBytes(pid) / 2 ** 20);
  const [first] = replicas as [BenchService];
  const killed = await load(proxy.port, seconds * 1_000, 2, () => void first.stop());
  await proxy.stop();
  for (const replica of replicas) await replica.stop();
  await node.stop(true);
  const [hits, misses] = [of('cache_reads_total{outcome="hit"}'), of('cache_reads_total{outcome="miss"}')];
  return {
    ...{ way, memoryMb, load: loaded, killed, hitRate: hits / (hits + misses) },
    collectionsHeld: after.map((counters) => counters.get("cache_collections") ?? 0),
    kilobytes: sumOfCounters(after, "cache_bytes") / sumOfCounters(after, "cache_collections") / 1_000,
    blobReads: of('blob_requests_total{outcome="read"}'),
  };
}

const range = (values: readonly number[]): string => {
  const [least, most] = [Math.round(Math.min(...values)), Math.round(Math.max(...values))];
  return least === most ? String(least) : `${least} to ${most}`;
};

function table(rows: readonly Row[]): string {
  const cells = rows.map(({ way, memoryMb, collectionsHeld, kilobytes, hitRate, blobReads, load: loaded, killed }) => [
    ...[way, range(memoryMb), range(collectionsHeld), `${kilobytes.toFixed(0)}`, `${(hitRate * 100).toFixed(1)} %`],
    ...[(blobReads / loaded.requests).toFixed(2), loaded.perSecond.toFixed(0)],
    ...[loaded.p50.toFixed(1), loaded.p99.toFixed(1), `${loaded.failed} of ${loaded.requests}`],
    ...[killed.p99.toFixed(1), `${killed.failed} of ${killed.requests}`],
  ]);
  const head = [
    ...[
      "Way",
      "MB per replica",
      "Collections in each",
      "KB a collection",
      "Hit rate",
      "S3 reads a page",
      "Pages/s",
      "p50 ms",
      "p99 ms",
    ],
    ...["Failed", "p99 ms, one killed", "Failed, one killed"],
  ];
  return [head, head.map(() => "---"), ...cells].map((row) => `| ${row.join(" | ")} |`).join("\n");
}

const postgres = await startPostgres();
const s3 = await startS3();
const logUrl = await postgres.createDatabase();
const environment = {
  ...{ EVENT_LOG_URL: logUrl, CACHE_MB: String(CACHE_MB), SNAPSHOT_DIR: "off", CURSOR_SECRET: "of all replicas alike" },
  ...s3.env("routing"),
};
const filled = await fillRouted(logUrl, s3.place("routing"), collections);
const rows = [await measured("round robin", environment), await measured("by contract", environment)];
const text = `# Four replicas, ${collections.toLocaleString("en")} collections

Printed by \`bun scripts/bench/routing.ts\`. ${REPLICAS} replicas behind nginx with the shipped file, over one PostgreSQL and one S3 store
(s3rver), all on one machine. Each collection has ${filled.tokens} tokens with ${filled.transfers} transfers; a page has ${TOKENS_SHOWN} of them with metadata.
\`CACHE_MB=${CACHE_MB}\` for each. ${CONNECTIONS} connections ask for pages of random collections, for ${seconds} s, after as long a time of the
same load. Then once more, and one replica is killed with SIGKILL in the middle.

${machine()}

${table(rows)}

A request failed if its answer was not 200, or a token in it had no metadata. An answer that a replica has ready is sent without a read of
the collection, so it is not in the hit rate.
`;
process.stdout.write(text);
if (process.argv.includes("--write")) writeFileSync(join(import.meta.dir, "results/routing.md"), text);
await s3.stop();
await postgres.stop();
process.exit(rows.some(({ load: one, killed }) => one.failed + killed.failed > 0) ? 1 : 0);
