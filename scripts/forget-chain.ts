/**
 * Removes everything that an event log knows of one chain, so that the service indexes it anew. The way out where a
 * development chain was rolled back below its final block, or restarted from genesis, and following halts. Stop every
 * service on the log first: the script refuses while one follows the chain. Other chains and keys stay.
 *
 * bun scripts/forget-chain.ts <chain> [sqlite://path | postgres://…]   (else EVENT_LOG_URL, else
 * sqlite://./data/events.db)
 */
import { Database } from "bun:sqlite";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { SQL } from "bun";
import { blobStoreAt, knownChainsOf } from "../src/config.ts";
import { systemClock } from "../src/core/clock.ts";
import { silentLogger } from "../src/core/logger.ts";
import { openLog } from "../src/log/open.ts";

const KINDS = ["nft", "price", "priced", "prices", "metadata", "chain"];
const SQLITE = /^sqlite:(?:\/\/)?/;
const LEASE_MS = 60_000;

// The development chain is known without its endpoint, too.
const chains = knownChainsOf({ RPC_URL_LOCAL: "any", ...process.env });
const [chainText, url = process.env["EVENT_LOG_URL"] ?? "sqlite://./data/events.db"] = process.argv.slice(2);
const chain = chainText === undefined ? undefined : chains.parse(chainText);
if (chain === undefined) fail(`chain: must be one of ${chains.all.map(({ name }) => name).join(", ")}`);
if (SQLITE.test(url) && !existsSync(url.replace(SQLITE, ""))) fail("there is no event log at that path");

const { chainId, name } = chain;
const holder = randomUUID();
const { BLOB_URL } = process.env;
// A log that names a store opens only with it. Nothing in the store is deleted.
const blobs = BLOB_URL === undefined || BLOB_URL === "" ? undefined : blobStoreAt(process.env, BLOB_URL);
const log = await openLog(url, systemClock, silentLogger, { blobs });
try {
  if (!(await log.acquireLease(`follow/${chainId}`, holder, LEASE_MS))) {
    fail(`a service follows ${name} on this log, or did seconds ago: stop it, then run this again`);
  }
  const streams = await forget();
  console.log(`${name}: ${streams} streams forgotten`);
  await log.releaseLease(`follow/${chainId}`, holder);
} finally {
  await log.close();
}

function fail(message: string): never {
  console.error(message);
  process.exit(1);
}

/** Deletes the chain's streams in one transaction; returns how many there were. */
async function forget(): Promise<number> {
  const isOfChain = KINDS.map((kind) => `name = '${kind}/${chainId}' OR name LIKE '${kind}/${chainId}/%'`).join(" OR ");
  const statements = [
    `DELETE FROM events WHERE stream_id IN (SELECT id FROM streams WHERE ${isOfChain})`,
    `DELETE FROM streams WHERE ${isOfChain}`,
  ];
  if (!SQLITE.test(url)) {
    const sql = new SQL(url);
    const counts = await sql.begin(async (transaction) => {
      const done: number[] = [];
      for (const statement of statements) done.push((await transaction.unsafe(statement)).count);
      return done;
    });
    await sql.close();
    return counts[1] ?? 0;
  }
  const database = new Database(url.replace(SQLITE, ""), { readwrite: true, strict: true });
  database.run("PRAGMA busy_timeout = 10000");
  const run = database.transaction(() => statements.map((statement) => database.run(statement).changes));
  const counts = run.immediate();
  database.close();
  return counts[1] ?? 0;
}
