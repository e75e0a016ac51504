/**
 * Two hundred SIGKILLs during backfills, half over SQLite and half over PostgreSQL, many with an append in flight, with
 * a node behind a proxy that limits, throttles, drops and truncates. This process records every acknowledged event and
 * every message to subscribers, and finds all of them in the log. The final listing equals the contracts' state. KILLS
 * sets the number of kills, and KILLS_SEED repeats the choices of a run.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import WebSocket from "ws";
import { type Anvil, inOneBlock, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, queue } from "../../scripts/local-chain/contracts.ts";
import { createRandom, type Random } from "../../scripts/local-chain/random.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { encodeEvent } from "../../src/events/codec.ts";
import { nftStream, type Recorded, type StreamName } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { spawnWatched, type WatchedProcess } from "../support/long/watched-process.ts";
import { type Postgres, startPostgres } from "../support/postgres.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import { eventually, TEST_KEY, temporaryLogUrl } from "../support/service.ts";

const KILLS = Number(process.env["KILLS"] ?? 200);
const SEED = Number(process.env["KILLS_SEED"] ?? Date.now() % 1_000_000);
/** Number of logs, killed in turn. A dead process's leases last for seconds, and meanwhile another log has its turn. */
const LANES = 4;
const CONTRACTS = 12;
const BLOCKS = 400;
const TOKENS_A_BLOCK = 2;
/** Blocks per range: twenty appends per contract, far more in all than the lives of one log complete. */
const RANGE = 20;
/** Limits a batch to one range of few blocks, so that there are many appends during which to kill. */
const ONE_RANGE = { calls: 3, refusal: { error: { code: -32_003, message: "response too large" } } };
/** Maximum number of appends in a life, so that history is left for the next one. */
const MAX_APPENDS = 8;
const MAX_LIFE_MS = 60;
/** Time for a life to begin. It may have to wait for a dead process's lease. */
const PATIENCE_MS = 60_000;

const engines = ["SQLite", "PostgreSQL"] as const;
type Engine = (typeof engines)[number];

interface Lane {
  readonly engine: Engine;
  readonly logUrl: string;
  readonly random: Random;
  /** The digest of each acknowledged event, by stream and version. */
  readonly acknowledged: Map<string, string>;
  /** The newest version of each stream in a message to a subscriber. */
  readonly told: Map<string, number>;
  kills: number;
  inFlight: number;
}

let anvil: Anvil;
let postgres: Postgres;
let proxy: RpcProxy;
const nfts: Deployed[] = [];
const lanes: Lane[] = [];
const streams = () => nfts.map(({ address }) => nftStream(1, address as Address));

beforeAll(async () => {
  console.log(`KILLS=${KILLS} KILLS_SEED=${SEED}`);
  [anvil, postgres] = await Promise.all([startAnvil({ slotsInAnEpoch: 1 }), startPostgres({ durable: true })]);
  for (let i = 0; i < CONTRACTS; i++) {
    nfts.push(await deploy(anvil, await contractArtifact("PlainNft"), [`Killed ${i}`, "KILL"]));
  }
  for (let block = 0; block < BLOCKS; block++) await fillBlock(block);
  proxy = await startRpcProxy(anvil.url, { maxBatch: ONE_RANGE, onRequest: faulty(createRandom(SEED)) });
  for (const engine of engines) {
    for (let lane = 0; lane < LANES; lane++) {
      const logUrl = engine === "SQLite" ? temporaryLogUrl() : await postgres.createDatabase();
      const random = createRandom(SEED + lanes.length + 1);
      lanes.push({ engine, logUrl, random, acknowledged: new Map(), told: new Map(), kills: 0, inFlight: 0 });
    }
  }
}, 300_000);
afterAll(async () => {
  await proxy.stop();
  await Promise.all([anvil.stop(), postgres.stop()]);
});

/** Mints in each contract, and moves one token of an earlier block. */
async function fillBlock(block: number): Promise<void> {
  await inOneBlock(anvil, async () => {
    for (const { contract } of nfts) {
      const to = anvil.accounts[block % 8] as string;
      await queue(anvil, contract, "mintMany", [to, BigInt(block * TOKENS_A_BLOCK), BigInt(TOKENS_A_BLOCK)]);
      if (block % 3 !== 2) continue;
      const old = block - 2;
      const [from, next] = [anvil.accounts[old % 8] as string, anvil.accounts[(old + 5) % 8] as string];
      await queue(anvil, contract, "move", [from, next, BigInt(old * TOKENS_A_BLOCK)]);
    }
  });
}

/** Limits the blocks per range, and spoils one answer in fifty in one of four ways. */
function faulty(random: Random) {
  return ({ method, params }: { method: string; params: readonly unknown[] }) => {
    const [filter] = params as [{ fromBlock?: string; toBlock?: string } | undefined];
    if (method === "eth_getLogs" && Number(filter?.toBlock) - Number(filter?.fromBlock) >= RANGE) {
      return { error: { code: -32602, message: `query exceeds max block range ${RANGE}` } };
    }
    switch (random.below(200)) {
      case 0:
        return { status: 429, headers: { "retry-after": "0" }, body: "slow down" };
      case 1:
        return { drop: true as const };
      case 2:
        return { truncate: 40 };
      case 3:
        return { error: { code: -32603, message: "internal error" } };
      default:
        return undefined;
    }
  };
}

const environmentOf = ({ logUrl }: Lane) => ({
  EVENT_LOG_URL: logUrl,
  RPC_URL_ETH: proxy.url,
  RPC_URLS_ONLY: "true",
  RATE_LIMIT_PER_MINUTE: "10000000",
});

const get = (url: string, path: string) => fetch(`${url}${path}`, { headers: { "x-api-key": TEST_KEY } });

/** Subscribes to all contracts and records the versions in messages. */
function subscribe(lane: Lane, url: string): WebSocket {
  const socket = new WebSocket(`${url.replace("http", "ws")}/api/v2/ws`, { headers: { "X-Api-Key": TEST_KEY } });
  socket.on("open", () => {
    for (const { address } of nfts) socket.send(JSON.stringify({ action: "subscribe", chain: "eth", address }));
  });
  socket.on("message", (data) => {
    const { address, version } = JSON.parse(String(data)) as { address?: string; version?: number };
    if (address === undefined || version === undefined) return;
    const stream = nftStream(1, address.toLowerCase() as Address);
    lane.told.set(stream, Math.max(version, lane.told.get(stream) ?? 0));
  });
  // The service is killed under the socket, so errors are expected.
  socket.on("error", () => undefined);
  return socket;
}

/** Resolves when the process is to be killed: at the start of an append, or at a random moment after. */
async function deathOf(process: WatchedProcess, random: Random): Promise<void> {
  const due = Promise.withResolvers<void>();
  const atBegin = random.below(3) > 0;
  let left = 1 + random.below(MAX_APPENDS);
  let timer: Timer | undefined;
  process.onBegin = (stream) => {
    if (!stream.startsWith("nft/")) return;
    if (!atBegin) timer ??= setTimeout(() => due.resolve(), random.below(MAX_LIFE_MS));
    if (--left <= 0) due.resolve();
  };
  const idle = setTimeout(() => due.reject(new Error(`no collection grew within ${PATIENCE_MS} ms`)), PATIENCE_MS);
  await due.promise.finally(() => {
    clearTimeout(timer);
    clearTimeout(idle);
  });
}

function writeDown(lane: Lane, process: WatchedProcess): void {
  for (const { stream, version, digests } of process.acknowledged) {
    for (const [index, digest] of digests.entries()) {
      const at = `${stream}@${version - digests.length + index + 1}`;
      // A version is acknowledged once. A second acknowledgement would mean that the first event was lost.
      expect(lane.acknowledged.get(at)).toBeUndefined();
      lane.acknowledged.set(at, digest);
    }
  }
}

/** One life: start, request, kill. Returns the next process, which was loaded meanwhile. */
async function live(lane: Lane, process: WatchedProcess): Promise<WatchedProcess> {
  await process.loaded;
  const death = deathOf(process, lane.random);
  death.catch(() => undefined);
  const url = await process.start();
  const socket = subscribe(lane, url);
  // Each life requests all contracts, because the one before may have died before it recorded the last.
  const asked = Promise.allSettled(nfts.map(({ address }) => get(url, `/api/v2/nft/${address}?limit=1`)));
  await death;
  process.kill();
  await Promise.all([process.ended, asked]);
  socket.terminate();
  lane.kills += 1;
  if (process.inFlight().length > 0) lane.inFlight += 1;
  writeDown(lane, process);
  // Every second time the next start finds the log untouched since the kill.
  if (lane.kills % 2 === 0) await checkLog(lane);
  return spawnWatched(environmentOf(lane));
}

async function eventsOf(log: Awaited<ReturnType<typeof openLog>>, stream: StreamName): Promise<Recorded[]> {
  const events: Recorded[] = [];
  for (;;) {
    const page = await log.read(stream, { from: events.length + 1 });
    if (page.length === 0) return events;
    events.push(...page);
  }
}

/** Checks that the log contains every recorded event, unchanged. */
async function checkLog({ logUrl, acknowledged, told }: Lane): Promise<void> {
  const log = await openLog(logUrl, systemClock, silentLogger);
  const names = new Set([...acknowledged.keys()].map((at) => at.slice(0, at.lastIndexOf("@"))));
  const wrong: string[] = [];
  for (const stream of [...names, ...told.keys()] as StreamName[]) {
    const events = await eventsOf(log, stream);
    if (events.length < (told.get(stream) ?? 0)) wrong.push(`${stream} ends before ${told.get(stream)}`);
    const held = new Map(events.map(({ version, event }) => [`${stream}@${version}`, event]));
    for (const [at, digest] of acknowledged) {
      if (at.slice(0, at.lastIndexOf("@")) !== stream) continue;
      const event = held.get(at);
      if (event === undefined || String(Bun.hash(encodeEvent(event))) !== digest) wrong.push(at);
    }
  }
  await log.close();
  expect(wrong).toEqual([]);
}

/** Checks that ranges are contiguous and none is repeated. */
async function checkRanges({ logUrl }: Lane): Promise<void> {
  const log = await openLog(logUrl, systemClock, silentLogger);
  for (const stream of streams()) {
    let next: number | undefined;
    for (const { event } of await eventsOf(log, stream)) {
      if (event.type !== "TransfersCommitted") continue;
      if (next !== undefined) expect({ stream, fromBlock: event.fromBlock }).toEqual({ stream, fromBlock: next });
      next = event.toBlock + 1;
    }
  }
  await log.close();
}

const idsOf = () => Array.from({ length: BLOCKS * TOKENS_A_BLOCK }, (_, id) => id);

async function ownersOf({ contract }: Deployed): Promise<string[]> {
  const owners: string[] = [];
  for (const id of idsOf()) owners.push(((await contract.getFunction("ownerOf")(id)) as string).toLowerCase());
  return owners;
}

async function listingOf(url: string, address: string): Promise<string[]> {
  const owners: string[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const from: string = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const page: { status: string; cursor: string | null; result: { token_id: string; owner_of: string }[] } =
      await eventually(
        `${address} is listed`,
        async () => {
          const body = (await (await get(url, `/api/v2/nft/${address}?limit=500${from}`)).json()) as typeof page;
          return body.status === "SYNCED" ? body : undefined;
        },
        90_000,
      );
    for (const { token_id, owner_of } of page.result) {
      expect(token_id).toBe(String(owners.length));
      owners.push(owner_of);
    }
    cursor = page.cursor;
  }
  return owners;
}

/** Kills the processes of one log in turn, then lets the last one finish and compares. */
async function play(lane: Lane, kills: number, truth: readonly string[][]): Promise<void> {
  let process = spawnWatched(environmentOf(lane));
  while (lane.kills < kills) process = await live(lane, process);
  const url = await process.start();
  for (const [index, { address }] of nfts.entries()) {
    expect(await listingOf(url, address)).toEqual(truth[index] as string[]);
  }
  process.kill();
  await process.ended;
  writeDown(lane, process);
  await checkLog(lane);
  await checkRanges(lane);
}

test(`loses no acknowledged event in ${KILLS} kills`, async () => {
  const truth = await Promise.all(nfts.map(ownersOf));
  const share = (index: number) => Math.floor((KILLS + lanes.length - 1 - index) / lanes.length);
  await Promise.all(lanes.map((lane, index) => play(lane, share(index), truth)));
  const sum = (of: (lane: Lane) => number, engine?: Engine) =>
    lanes.filter((lane) => engine === undefined || lane.engine === engine).reduce((all, lane) => all + of(lane), 0);
  const [kills, inFlight] = [sum((lane) => lane.kills), sum((lane) => lane.inFlight)];
  console.log(
    `kills ${kills} (${engines.map((engine) => `${engine} ${sum((lane) => lane.kills, engine)}`).join(", ")}), ` +
      `with an append in flight ${inFlight}, acknowledged versions checked ${sum((lane) => lane.acknowledged.size)}, ` +
      `streams told to subscribers ${sum((lane) => lane.told.size)}, KILLS_SEED=${SEED}`,
  );
  expect(kills).toBe(KILLS);
  expect(inFlight).toBeGreaterThanOrEqual(Math.floor(KILLS / 4));
  expect(sum((lane) => lane.told.size)).toBeGreaterThan(0);
}, 600_000);
