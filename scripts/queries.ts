/**
 * Counts the queries that replicas send to PostgreSQL, by kind of statement: while the chain stands still, while empty
 * blocks come, and while each block moves several collections. Clients ask nothing meanwhile. Starts the server, a
 * local chain and the replicas itself, and prints queries per second and replica.
 *
 * bun scripts/queries.ts [--replicas 2] [--collections 6] [--seconds 20]
 */
import { parseArgs } from "node:util";
import { SQL } from "bun";
import { startPostgres } from "../test/support/postgres.ts";
import { startServiceProcess } from "../test/support/process.ts";
import { eventually } from "../test/support/service.ts";
import { inOneBlock, startAnvil } from "./local-chain/anvil.ts";
import { contractArtifact } from "./local-chain/compile.ts";
import { deploy, queue } from "./local-chain/contracts.ts";

const BLOCK_MS = 1_000;

const { values } = parseArgs({
  options: {
    replicas: { type: "string", default: "2" },
    collections: { type: "string", default: "6" },
    seconds: { type: "string", default: "20" },
  },
});
const [replicas, seconds] = [Number(values.replicas), Number(values.seconds)];

// The genesis is in the past, so that no block is from the future.
const anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 3_600 });
const artifact = await contractArtifact("PlainNft");
const nfts = await Promise.all(
  Array.from({ length: Number(values.collections) }, (_, index) => deploy(anvil, artifact, [`N${index}`, "N"])),
);
const postgres = await startPostgres({
  settings: { shared_preload_libraries: "pg_stat_statements", "pg_stat_statements.track": "all" },
});
const url = await postgres.createDatabase();
const sql = new SQL(url, { max: 1 });
await sql.unsafe("CREATE EXTENSION pg_stat_statements");
const env = { EVENT_LOG_URL: url, RPC_URL_ETH: anvil.url, RPC_URLS_ONLY: "true", LOG_LEVEL: "error" };
const services = await Promise.all(Array.from({ length: replicas }, () => startServiceProcess(env)));

let minted = 0;

/** Mines a block in which each of the first `moved` collections mints a token. */
async function mineBlock(moved: number): Promise<void> {
  minted++;
  await inOneBlock(anvil, async () => {
    for (const { contract } of nfts.slice(0, moved)) {
      await queue(anvil, contract, "mint", [anvil.accounts[1] as string, BigInt(minted)]);
    }
  });
}

/** Waits until each replica lists all collections at the chain's head. */
async function settled(): Promise<void> {
  const height = Number(await anvil.send("eth_blockNumber"));
  for (const service of services) {
    for (const { address } of nfts) {
      await eventually(`${address} is listed at block ${height}`, async () => {
        const response = await service.get(`/api/v2/nft/${address}?limit=1`);
        return Number(response.headers.get("x-as-of-block") ?? -1) >= height ? response.text() : undefined;
      });
    }
  }
}

/** A short name for a statement, such as `SELECT streams` or `INSERT leases`. */
function kindOf(query: string): string {
  const text = query.replace(/\s+/g, " ");
  const verb = /^\W*(?:WITH .*?\) )?(\w+)/i.exec(text)?.[1]?.toUpperCase() ?? "?";
  const table = /\b(?:FROM|INTO|UPDATE)\s+(\w+)/i.exec(text)?.[1] ?? "";
  return `${verb} ${table} ${text.slice(0, 90)}`.trim();
}

/** Runs one phase. Returns the calls per second and replica, by kind. */
async function measure(act: () => Promise<void>): Promise<Map<string, number>> {
  await settled();
  await sql.unsafe("SELECT pg_stat_statements_reset()");
  const began = performance.now();
  for (let second = 1; second <= seconds; second++) {
    await act();
    await Bun.sleep(Math.max(0, began + second * BLOCK_MS - performance.now()));
  }
  const elapsed = (performance.now() - began) / 1_000;
  const rows: { query: string; calls: string }[] = await sql.unsafe(
    "SELECT query, sum(calls) AS calls FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%' GROUP BY query",
  );
  const kinds = new Map<string, number>();
  for (const { query, calls } of rows) {
    const kind = kindOf(query);
    kinds.set(kind, (kinds.get(kind) ?? 0) + Number(calls) / elapsed / replicas);
  }
  return kinds;
}

try {
  await mineBlock(nfts.length);
  await settled();
  const moved = Math.max(1, nfts.length - 2);
  const phases = new Map([
    ["no block", await measure(async () => undefined)],
    ["empty", await measure(() => mineBlock(0))],
    [`${moved} move`, await measure(() => mineBlock(moved))],
  ]);
  const totals = [...phases.values()].map((kinds) => [...kinds.values()].reduce((sum, one) => sum + one, 0));
  const cell = (rate: number) => rate.toFixed(2).padStart(9);
  console.log(`queries per second and replica; ${replicas} replicas, a block a second, ${nfts.length} collections\n`);
  console.log(`${[...phases.keys()].map((name) => name.padStart(9)).join("")}  statement`);
  console.log(`${totals.map(cell).join("")}  all`);
  const last = [...phases.values()].at(-1) as Map<string, number>;
  const kinds = [...new Set([...phases.values()].flatMap((one) => [...one.keys()]))];
  for (const kind of kinds.sort((a, b) => (last.get(b) ?? 0) - (last.get(a) ?? 0))) {
    const rates = [...phases.values()].map((one) => one.get(kind) ?? 0);
    if (rates.some((rate) => rate >= 0.01)) console.log(`${rates.map(cell).join("")}  ${kind}`);
  }
} finally {
  for (const service of services) service.kill("SIGTERM");
  await Promise.all(services.map(({ exited }) => exited));
  await sql.close();
  await postgres.stop();
  await anvil.stop();
}
