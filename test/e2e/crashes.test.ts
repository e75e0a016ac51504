/**
 * The service as a process when its environment fails: a full disk, a file that is read-only or damaged, a stop with
 * work in flight, a PostgreSQL that goes away. Acknowledged events stay, and the work continues or the start is refused
 * with a reason.
 */
import { Database } from "bun:sqlite";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, copyFileSync, mkdtempSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Anvil, inOneBlock, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, queue } from "../../scripts/local-chain/contracts.ts";
import { guardChild } from "../../scripts/local-chain/guard.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { nftStream, type Recorded } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";
import { startServiceProcess } from "../support/process.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, TEST_KEY, temporaryLogUrl } from "../support/service.ts";

const BLOCKS = 120;
const PER_BLOCK = 20;
/** Blocks without a log between the two halves of the history, so that the second half needs requests of its own. */
const QUIET = 2_200;
/** Maximum blocks per request: some fifty appends. */
const RANGE = 50;
const MAIN = join(import.meta.dir, "../../src/main.ts");

let anvil: Anvil;
let nft: Deployed;
let node: RpcProxy;
let owners: string[];
/** While set, the node doesn't answer for the second half of the history. */
let gate: PromiseWithResolvers<void> | undefined;
/** Everything a test started. It is stopped after the test. */
const started: { stop(): Promise<unknown> }[] = [];

beforeAll(async () => {
  anvil = await startAnvil({ slotsInAnEpoch: 1, genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Crashed", "CRASH"]);
  const ownerAt = (block: number) => anvil.accounts[block % 8] as string;
  for (let block = 0; block < BLOCKS; block++) {
    if (block === BLOCKS / 2) await anvil.mine(QUIET);
    const args = [ownerAt(block), BigInt(block * PER_BLOCK), BigInt(PER_BLOCK)];
    await inOneBlock(anvil, () => queue(anvil, nft.contract, "mintMany", args));
  }
  owners = Array.from({ length: BLOCKS * PER_BLOCK }, (_, id) => ownerAt(Math.floor(id / PER_BLOCK)));
  node = await startRpcProxy(anvil.url, {
    onRequest: ({ method, params }) => {
      if (method !== "eth_getLogs") return;
      const [{ fromBlock, toBlock }] = params as [{ fromBlock: string; toBlock: string }];
      if (Number(toBlock) - Number(fromBlock) < RANGE) {
        return gate === undefined || Number(fromBlock) < QUIET ? undefined : { delayUntil: gate.promise };
      }
      return { error: { code: -32602, message: `query exceeds max block range ${RANGE}` } };
    },
  });
}, 300_000);
afterAll(async () => {
  await node.stop();
  await anvil.stop();
});
afterEach(async () => {
  openGate();
  for (const one of started.splice(0).reverse()) await one.stop();
});

function openGate(): void {
  gate?.resolve();
  gate = undefined;
}

const environmentOf = (logUrl: string) => ({
  EVENT_LOG_URL: logUrl,
  RPC_URL_ETH: node.url,
  RPC_URLS_ONLY: "true",
  LOG_LEVEL: "error",
});
const stream = () => nftStream(1, nft.address.toLowerCase() as Address);
const path = () => `/api/v2/nft/${nft.address}?limit=500`;

async function processOf(logUrl: string) {
  const service = await startServiceProcess(environmentOf(logUrl));
  const stop = async () => {
    service.kill("SIGKILL");
    await service.exited;
  };
  started.push({ stop });
  return service;
}

async function eventsOf(logUrl: string): Promise<Recorded[]> {
  const log = await openLog(logUrl, systemClock, silentLogger);
  try {
    return await log.read(stream(), { limit: 10_000 });
  } finally {
    await log.close();
  }
}

const isUnderWay = (logUrl: string) =>
  eventually("the backfill has begun", async () => ((await eventsOf(logUrl)).length > 4 ? true : undefined));

type Get = (path: string) => Promise<Response>;

/** Checks that the complete listing, page by page, equals the mints. */
async function expectTruth(get: Get, ms = 20_000): Promise<void> {
  const listed = new Map<string, string>();
  for (let cursor: string | null = ""; cursor !== null; ) {
    const from: string = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const page: { status: string; cursor: string | null; result: { token_id: string; owner_of: string }[] } =
      await eventually(
        "the collection is synced",
        async () => {
          const body = (await (await get(`${path()}${from}`)).json()) as typeof page;
          return body.status === "SYNCED" ? body : undefined;
        },
        ms,
      );
    for (const { token_id, owner_of } of page.result) listed.set(token_id, owner_of);
    cursor = page.cursor;
  }
  expect(owners.map((_, id) => listed.get(String(id)))).toEqual(owners);
  expect(listed.size).toBe(owners.length);
}

/** Runs the program until it ends by itself. */
async function refusedStart(logUrl: string): Promise<{ code: number; words: string }> {
  const child = Bun.spawn([process.execPath, MAIN], {
    env: { PATH: process.env["PATH"] ?? "", PORT: "0", API_KEYS: TEST_KEY, ...environmentOf(logUrl) },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  });
  const guard = guardChild({ pid: child.pid, signal: "KILL" });
  const words = await new Response(child.stderr).text();
  const code = await child.exited;
  guard.dismiss();
  return { code, words };
}

/** Returns the URL of a log that contains the whole collection. */
async function filledLog(): Promise<string> {
  const logUrl = temporaryLogUrl();
  const service = await startServiceProcess(environmentOf(logUrl));
  await expectTruth(service.get);
  service.kill("SIGTERM");
  expect(await service.exited).toBe(0);
  return logUrl;
}

const fileOf = (logUrl: string): string => logUrl.slice("sqlite://".length);

/** Starts the service with a limit on file sizes, in blocks of 1,024 bytes, which acts like a full disk. */
async function limitedProcess(logUrl: string, kilobytes: number) {
  const script = `ulimit -f ${kilobytes}; trap "" XFSZ; exec "$0" "$1"`;
  const child = Bun.spawn(["bash", "-c", script, process.execPath, MAIN], {
    env: { PATH: process.env["PATH"] ?? "", PORT: "0", API_KEYS: TEST_KEY, ...environmentOf(logUrl) },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "pipe",
  });
  const guard = guardChild({ pid: child.pid, signal: "KILL" });
  let text = "";
  const serving = Promise.withResolvers<string>();
  (async () => {
    const decoder = new TextDecoder();
    for await (const bytes of child.stderr) {
      text += decoder.decode(bytes, { stream: true });
      const base = /serving (\S+)\/api\/v2/.exec(text)?.[1];
      if (base !== undefined) serving.resolve(base);
    }
    serving.reject(new Error(`the service ended before it served: ${text}`));
  })();
  const stop = async () => {
    child.kill("SIGKILL");
    await child.exited;
    guard.dismiss();
  };
  started.push({ stop });
  const base = await serving.promise;
  const get: Get = (path) => fetch(`${base}${path}`, { headers: { "x-api-key": TEST_KEY } });
  return { get, stop, isRunning: () => child.exitCode === null && child.signalCode === null };
}

describe("a full disk", () => {
  test("stops only the writing, which continues when there is room again", async () => {
    const logUrl = temporaryLogUrl();
    const limited = await limitedProcess(logUrl, 200);
    await limited.get(path());
    const file = fileOf(logUrl);
    await eventually("the file has reached its limit", async () =>
      Math.max(statSync(file).size, statSync(`${file}-wal`).size) > 190 * 1_024 ? true : undefined,
    );
    const before = await eventsOf(logUrl);
    // The service still answers, and reports that indexing is unfinished.
    const answer = await limited.get(path());
    expect(answer.status).toBeLessThan(500);
    expect(limited.isRunning()).toBe(true);
    await limited.stop();
    const service = await processOf(logUrl);
    await expectTruth(service.get);
    expect((await eventsOf(logUrl)).slice(0, before.length)).toEqual(before);
  }, 300_000);
});

describe("a database file", () => {
  test("that is damaged, truncated or not a log is refused with a reason", async () => {
    const whole = fileOf(await filledLog());
    const folder = mkdtempSync(join(tmpdir(), "damaged-"));
    started.push({ stop: async () => rmSync(folder, { recursive: true, force: true }) });
    const copy = (name: string) => {
      const file = join(folder, `${name}.db`);
      copyFileSync(whole, file);
      return file;
    };
    const cut = copy("cut");
    truncateSync(cut, Math.floor(statSync(cut).size / 2 / 4_096) * 4_096);
    const other = copy("other");
    writeFileSync(other, "this is a letter to my aunt, and no database at all. ".repeat(200));
    for (const file of [cut, other]) {
      const { code, words } = await refusedStart(`sqlite://${file}`);
      expect({ file, code }).toEqual({ file, code: 1 });
      expect(words).toContain(file);
      expect(words).toMatch(/damaged|not a database/);
      expect(words).not.toMatch(/^\s+at /m);
    }
  }, 300_000);

  test("with a record changed by hand is not served", async () => {
    const logUrl = await filledLog();
    const database = new Database(fileOf(logUrl));
    database.run(
      "UPDATE events SET data = zeroblob(length(data)) WHERE type = 'TransfersCommitted' AND version = (SELECT max(version) FROM events WHERE type = 'TransfersCommitted')",
    );
    database.close();
    const service = await processOf(logUrl);
    const answer = await eventually("the service gives a final answer", async () => {
      const response = await service.get(path());
      return response.status === 202 ? undefined : response;
    });
    expect(answer.status).toBeGreaterThanOrEqual(500);
    await expect(eventsOf(logUrl)).rejects.toThrow("damaged");
  }, 300_000);

  test("that is read-only is refused with a reason", async () => {
    const logUrl = await filledLog();
    const file = fileOf(logUrl);
    // Root may write to a read-only file, but not to an immutable one.
    if (process.getuid?.() === 0) {
      const made = Bun.spawnSync(["chattr", "+i", file]);
      if (made.exitCode !== 0) {
        console.log("not shown here: this file system has no immutable files, and root writes into all others");
        return;
      }
      started.push({ stop: async () => Bun.spawnSync(["chattr", "-i", file]) });
    } else {
      chmodSync(file, 0o444);
    }
    const { code, words } = await refusedStart(logUrl);
    expect(code).toBe(1);
    expect(words).toContain(file);
    expect(words).toMatch(/readonly|unable to open/);
    expect(words).not.toMatch(/^\s+at /m);
  }, 300_000);
});

test("ends with exit code 0 on a stop with work in flight, and continues after the next start", async () => {
  const logUrl = temporaryLogUrl();
  gate = Promise.withResolvers();
  const service = await processOf(logUrl);
  await service.get(path());
  await isUnderWay(logUrl);
  service.kill("SIGTERM");
  expect(await service.exited).toBe(0);
  const before = await eventsOf(logUrl);
  expect(before.some(({ event }) => event.type === "IndexingCompleted")).toBe(false);
  openGate();
  await expectTruth((await processOf(logUrl)).get);
  expect((await eventsOf(logUrl)).slice(0, before.length)).toEqual(before);
}, 300_000);

describe("PostgreSQL", () => {
  let postgres: Postgres;
  beforeAll(async () => {
    postgres = await startPostgres();
  }, 300_000);
  afterAll(() => postgres.stop());

  test("may go away during a backfill, which continues by itself when it is back", async () => {
    const logUrl = await postgres.createDatabase();
    gate = Promise.withResolvers();
    const service = await processOf(logUrl);
    await service.get(path());
    await isUnderWay(logUrl);
    const before = await eventsOf(logUrl);
    await postgres.stopServer({ abruptly: true });
    // A request that must read the log shows that the service has noticed.
    await eventually("the service has noticed", async () => {
      const { status } = await service.get(`/api/v2/nft/${`0x${"7".repeat(40)}`}`);
      return status >= 500 ? true : undefined;
    });
    openGate();
    await postgres.startServer();
    await expectTruth(service.get, 30_000);
    const after = await eventsOf(logUrl);
    expect(after.slice(0, before.length)).toEqual(before);
  }, 300_000);
});
