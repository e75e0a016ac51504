/**
 * Two processes over one log: each range is appended once, another process takes over within seconds from a killed
 * lease holder, and a holder that was stopped for longer than its lease is refused when it resumes an append.
 */
import { Database } from "bun:sqlite";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { type Anvil, inOneBlock, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, queue, transact } from "../../scripts/local-chain/contracts.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { chainStream, nftStream, type Recorded } from "../../src/events/types.ts";
import type { EventLog } from "../../src/log/event-log.ts";
import { openLog } from "../../src/log/open.ts";
import { sharedPostgres } from "../support/postgres.ts";
import { type ServiceProcess, startServiceProcess } from "../support/process.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, temporaryLogUrl } from "../support/service.ts";

const BLOCKS = 120;
/** Maximum blocks per request: sixty appends. */
const RANGE = 2;
/** A lease lasts three seconds, it is requested every second, and the work behind it takes a moment. */
const TAKEN_OVER_MS = 8_000;

let anvil: Anvil;
let nft: Deployed;
let minted = 0;
/** Everything a test started. It is stopped after the test. */
const started: { stop(): Promise<unknown> }[] = [];

beforeAll(async () => {
  // The genesis is in the past, so the follower considers every block overdue and never waits for the next one.
  anvil = await startAnvil({ slotsInAnEpoch: 1, genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Leased", "LEASE"]);
  for (; minted < BLOCKS; minted++) {
    await inOneBlock(anvil, () =>
      queue(anvil, nft.contract, "mint", [anvil.accounts[minted % 8] as string, BigInt(minted)]),
    );
  }
}, 300_000);
afterAll(() => anvil.stop());
afterEach(async () => {
  for (const one of started.splice(0).reverse()) await one.stop();
});

/**
 * A node that answers for few blocks at once. Each process has its own, so that it can be held up alone. The second
 * half of the history is answered only after `opened`.
 */
async function nodeOf(opened?: Promise<void>): Promise<RpcProxy> {
  const proxy = await startRpcProxy(anvil.url, {
    onRequest: ({ method, params }) => {
      if (method !== "eth_getLogs") return;
      const [{ fromBlock, toBlock }] = params as [{ fromBlock: string; toBlock: string }];
      if (Number(toBlock) - Number(fromBlock) < RANGE) {
        return opened !== undefined && Number(toBlock) > BLOCKS / 2 ? { delayUntil: opened } : undefined;
      }
      return { error: { code: -32602, message: `query exceeds max block range ${RANGE}` } };
    },
  });
  started.push(proxy);
  return proxy;
}

async function processOf(logUrl: string, node: RpcProxy): Promise<ServiceProcess> {
  const env = { EVENT_LOG_URL: logUrl, RPC_URL_ETH: node.url, RPC_URLS_ONLY: "true", LOG_LEVEL: "silent" };
  const service = await startServiceProcess(env);
  const stop = async () => {
    service.kill("SIGKILL");
    await service.exited;
  };
  started.push({ stop });
  return service;
}

async function logOf(url: string): Promise<EventLog> {
  const log = await openLog(url, systemClock, silentLogger);
  started.push({ stop: () => log.close() });
  return log;
}

const stream = () => nftStream(1, nft.address.toLowerCase() as Address);
const path = () => `/api/v2/nft/${nft.address}?limit=500&disable_total=false`;
const eventsOf = (log: EventLog, name = stream()): Promise<Recorded[]> => log.read(name, { limit: 10_000 });
const versionOf = async (log: EventLog): Promise<number> => (await log.head(stream())).version;

/** Checks that the ranges in the log are contiguous and none is repeated. Two writers would break this. */
async function expectEachRangeOnce(log: EventLog): Promise<void> {
  let next: number | undefined;
  for (const { event } of await eventsOf(log)) {
    if (event.type !== "TransfersCommitted") continue;
    if (next !== undefined) expect(event.fromBlock).toBe(next);
    next = event.toBlock + 1;
  }
  expect(next).toBeGreaterThan(BLOCKS);
}

/** Checks that the listing equals the contract's state at the head. */
async function expectTruth(service: ServiceProcess, ms = 15_000): Promise<void> {
  const owners = await Promise.all(
    Array.from({ length: minted }, async (_, id) =>
      ((await nft.contract.getFunction("ownerOf")(id)) as string).toLowerCase(),
    ),
  );
  const { hash } = (await anvil.send("eth_getBlockByNumber", ["latest", false])) as { hash: string };
  const listed = await eventually(
    "the listing is at the head",
    async () => {
      const response = await service.get(path());
      const body = (await response.json()) as { status: string; result: { token_id: string; owner_of: string }[] };
      return body.status === "SYNCED" && response.headers.get("x-as-of-hash") === hash ? body.result : undefined;
    },
    ms,
  );
  expect(listed.map(({ token_id }) => token_id)).toEqual(owners.map((_, id) => String(id)));
  expect(listed.map(({ owner_of }) => owner_of)).toEqual(owners);
}

/** Mints one more token at the head. */
async function mint(): Promise<void> {
  await transact(anvil, nft.contract, "mint", [anvil.accounts[minted % 8] as string, BigInt(minted)]);
  minted++;
}

/** Returns true if some process holds the write lock of the SQLite file. */
function isLocked(logUrl: string): boolean {
  if (!logUrl.startsWith("sqlite://")) return false;
  const database = new Database(logUrl.slice("sqlite://".length), { readwrite: true });
  try {
    database.run("BEGIN IMMEDIATE");
    database.run("ROLLBACK");
    return false;
  } catch {
    return true;
  } finally {
    database.close();
  }
}

/** Stops a process at a moment without a lock on the file. A lock would keep all processes from writing. */
async function stopBetweenWrites(service: ServiceProcess, logUrl: string): Promise<void> {
  const state = () => readFileSync(`/proc/${service.pid}/stat`, "latin1").split(") ")[1]?.[0];
  await eventually("the process is stopped without a lock", async () => {
    service.kill("SIGSTOP");
    if (state() !== "T") return undefined;
    if (!isLocked(logUrl)) return true;
    service.kill("SIGCONT");
    return undefined;
  });
}

const engines: [string, () => Promise<string>][] = [
  ["SQLite", async () => temporaryLogUrl()],
  ["PostgreSQL", async () => (await sharedPostgres()).createDatabase()],
];

for (const [engine, freshLog] of engines) {
  describe(`two processes over ${engine}`, () => {
    test("append each range once, and one takes over from the other within seconds of its death", async () => {
      const [logUrl, nodes] = [await freshLog(), [await nodeOf(), await nodeOf()]];
      const [one, two] = await Promise.all(nodes.map((node) => processOf(logUrl, node)));
      const log = await logOf(logUrl);
      await Promise.all([one!.get(path()), two!.get(path())]);
      await Promise.all([expectTruth(one!), expectTruth(two!)]);
      await expectEachRangeOnce(log);
      // Only the holder of the follower's lease requests the head. Each process has its own node, which identifies it.
      for (const node of nodes) node.reset();
      await mint();
      await expectTruth(one!);
      const heads = (node: RpcProxy) => node.calls.filter(({ params }) => params[0] === "latest").length;
      const [holder, other] = heads(nodes[0]!) >= heads(nodes[1]!) ? [one!, two!] : [two!, one!];
      holder.kill("SIGKILL");
      await mint();
      await expectTruth(other, TAKEN_OVER_MS);
      await expectEachRangeOnce(log);
    }, 60_000);

    test("refuse a holder that was stopped for longer than its lease when it resumes", async () => {
      const logUrl = await freshLog();
      const { promise: opened, resolve: open } = Promise.withResolvers<void>();
      const [slowNode, node] = [await nodeOf(opened), await nodeOf()];
      const slow = await processOf(logUrl, slowNode);
      const log = await logOf(logUrl);
      await slow.get(path());
      await eventually("the backfill has begun", async () => ((await versionOf(log)) > 4 ? true : undefined));
      await stopBetweenWrites(slow, logUrl);
      const stoppedAt = await versionOf(log);
      const other = await processOf(logUrl, node);
      await other.get(path());
      await expectTruth(other);
      expect(await versionOf(log)).toBeGreaterThan(stoppedAt);
      const chain = await log.head(chainStream(1));
      open();
      slow.kill("SIGCONT");
      await mint();
      await expectTruth(other);
      await expectTruth(slow);
      expect((await log.head(chainStream(1))).version).toBeGreaterThan(chain.version);
      await expectEachRangeOnce(log);
    }, 60_000);
  });
}
