/**
 * Endpoints that omit logs, on a real chain: each mode of verification finds the omissions that it promises to find
 * before anything is appended. Also endpoints that throttle, hang, vanish or use sockets: the service continues with
 * the others.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { type Anvil, inOneBlock, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, queue, transact } from "../../scripts/local-chain/contracts.ts";
import { createRandom } from "../../scripts/local-chain/random.ts";
import { readConfig } from "../../src/config.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { type NftEvent, nftStream } from "../../src/events/types.ts";
import { openLog } from "../../src/log/open.ts";
import { startService } from "../../src/service.ts";
import { type RpcCall, type RpcProxy, type RpcProxyOptions, startRpcProxy } from "../support/rpc-proxy.ts";
import {
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
  walkListing,
} from "../support/service.ts";

/** Number of blocks with one log of the contract each, and number of blocks with many. */
const LONE = 600;
const DENSE = 30;
const DENSE_LOGS = 150;

interface WireLog {
  readonly blockNumber: string;
  readonly logIndex: string;
}
interface WireReceipt {
  readonly logs: readonly WireLog[];
}
type Drops = (log: WireLog) => boolean;

let anvil: Anvil;
let nft: Deployed;
let truth: WireLog[];
let salt = 0;
/** Everything a test started. It is stopped after the test. */
const started: { stop(): Promise<void> }[] = [];

/** Drops one log in a thousand, the same ones in every answer. */
const isDropped: Drops = ({ blockNumber, logIndex }) =>
  Bun.hash(`${salt} ${Number(blockNumber)} ${Number(logIndex)}`) % 1_000n === 0n;
/** The owner to which a token is minted. All tokens of one transaction have the same owner. */
function ownerOf(id: number): string {
  const first = id < LONE ? id : id - ((id - LONE) % (DENSE_LOGS / 2));
  return anvil.accounts[first % 8] as string;
}
/** True if the log is the only one in its block. */
const isLone = ({ blockNumber }: WireLog) => truth.filter((log) => log.blockNumber === blockNumber).length === 1;

beforeAll(async () => {
  // The genesis is in the past, so the follower considers every block overdue and never waits for the next one.
  anvil = await startAnvil({ slotsInAnEpoch: 1, genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Checked", "CHECK"]);
  for (let block = 0; block < DENSE; block++) {
    const first = LONE + block * DENSE_LOGS;
    await inOneBlock(anvil, async () => {
      for (let half = 0; half < 2; half++) {
        const id = first + half * (DENSE_LOGS / 2);
        await queue(anvil, nft.contract, "mintMany", [ownerOf(id), BigInt(id), BigInt(DENSE_LOGS / 2)]);
      }
    });
    for (let id = (block * LONE) / DENSE; id < ((block + 1) * LONE) / DENSE; id++) {
      await transact(anvil, nft.contract, "mint", [ownerOf(id), BigInt(id)]);
    }
  }
  await anvil.mine(4);
  const filter = { fromBlock: "0x0", toBlock: "latest", address: nft.address };
  truth = (await anvil.send("eth_getLogs", [filter])) as WireLog[];
  // Changes the salt until both kinds of drop occur.
  const dropped = () => truth.filter(isDropped);
  while (dropped().filter(isLone).length < 2 || dropped().filter((log) => !isLone(log)).length < 2) salt++;
}, 300_000);
afterAll(() => anvil.stop());
afterEach(async () => {
  for (const one of started.splice(0).reverse()) await one.stop();
});

async function proxyOf(options: RpcProxyOptions, target = anvil.url): Promise<RpcProxy> {
  const proxy = await startRpcProxy(target, options);
  started.push(proxy);
  return proxy;
}

const refuseReceipts = ({ method }: RpcCall) =>
  method === "eth_getBlockReceipts"
    ? { error: { code: -32601, message: "the method eth_getBlockReceipts does not exist" } }
    : undefined;

/** A node that omits logs, and may refuse receipts or give incomplete ones. */
function droppingProxy(drops: Drops, receipts: "honest" | "refused" | "cut" = "honest"): Promise<RpcProxy> {
  return proxyOf({
    onRequest: (call) => (receipts === "refused" ? refuseReceipts(call) : undefined),
    onResult: ({ method }, result) => {
      if (method === "eth_getLogs") return (result as WireLog[]).filter((log) => !drops(log));
      if (method !== "eth_getBlockReceipts" || receipts !== "cut") return result;
      return (result as WireReceipt[]).map((receipt) => ({ ...receipt, logs: receipt.logs.slice(1) }));
    },
  });
}

interface Run {
  readonly service: TestService;
  readonly logUrl: string;
}

async function run(rpcUrl: string, env: Record<string, string> = {}): Promise<Run> {
  const logUrl = temporaryLogUrl();
  const service = await startTestService({ rpcUrl, logUrl, env });
  started.push(service);
  return { service, logUrl };
}

async function eventsOf(logUrl: string, address = nft.address): Promise<NftEvent[]> {
  const log = await openLog(logUrl, systemClock, silentLogger);
  const events = await log.read(nftStream(1, address.toLowerCase() as Address), { limit: 10_000 });
  await log.close();
  return events.map(({ event }) => event as NftEvent);
}

/**
 * Number of transfers in the log. Ranges never overlap, so a transfer missing at first cannot have been added later.
 */
async function transfersIn(logUrl: string): Promise<number> {
  let count = 0;
  let next = 0;
  for (const event of await eventsOf(logUrl)) {
    if (event.type !== "TransfersCommitted") continue;
    expect(event.fromBlock).toBeGreaterThanOrEqual(next);
    next = event.toBlock + 1;
    count += event.count;
  }
  return count;
}

async function metric(service: TestService, name: string): Promise<number> {
  const text = await (await service.fetch("/metrics")).text();
  const lines = text.split("\n").filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}

async function expectTruth({ service, logUrl }: Run): Promise<void> {
  await synced(service, nft.address);
  const records = await walkListing(service, nft.address, "limit=500");
  const ids = records.map(({ token_id }) => Number(token_id)).sort((a, b) => a - b);
  expect(ids).toEqual(Array.from({ length: LONE + DENSE * DENSE_LOGS }, (_, id) => id));
  for (const { token_id, owner_of } of records) expect(owner_of).toBe(ownerOf(Number(token_id)));
  expect(await transfersIn(logUrl)).toBe(truth.length);
}

describe("an endpoint that omits one log in a thousand", () => {
  test("is detected by VERIFY=headers for every drop that leaves a block without a log", async () => {
    const proxy = await droppingProxy(isDropped);
    const { service, logUrl } = await run(proxy.url, { VERIFY: "headers" });
    await synced(service, nft.address);
    const lone = truth.filter(isDropped).filter(isLone).length;
    const dense = truth.filter(isDropped).length - lone;
    expect(await transfersIn(logUrl)).toBe(truth.length - dense);
    expect(await metric(service, "rpc_missed_logs_total")).toBe(lone);
  });

  test("is detected by VERIFY=receipts for every drop", async () => {
    const proxy = await droppingProxy(isDropped);
    const own = await run(proxy.url, { VERIFY: "receipts" });
    await expectTruth(own);
    expect(await metric(own.service, "rpc_missed_logs_total")).toBe(truth.filter(isDropped).length);
  });

  test("is detected by VERIFY=receipts even if its drops vary", async () => {
    const random = createRandom(7);
    let dropped = 0;
    const proxy = await droppingProxy(() => {
      const drop = random.below(1_000) === 0;
      if (drop) dropped++;
      return drop;
    });
    const own = await run(proxy.url, { VERIFY: "receipts" });
    await expectTruth(own);
    expect(dropped).toBeGreaterThan(0);
    expect(await metric(own.service, "rpc_missed_logs_total")).toBeGreaterThan(0);
  });

  test("is corrected by a second, honest endpoint if there are no receipts", async () => {
    const liar = await droppingProxy(isDropped, "refused");
    const honest = await slowUrl({ onRequest: refuseReceipts });
    const own = await run(`${liar.url},${honest}`, { VERIFY: "receipts" });
    await expectTruth(own);
    expect(liar.count("eth_getLogs")).toBeGreaterThan(0);
    expect(await metric(own.service, "rpc_missed_logs_total")).toBeGreaterThan(0);
  }, 300_000);

  test("is not believed if its receipts contradict the header's bloom", async () => {
    const liar = await droppingProxy(isDropped, "cut");
    const own = await run(`${liar.url},${await slowUrl()}`, { VERIFY: "receipts" });
    await expectTruth(own);
    expect(liar.count("eth_getBlockReceipts")).toBeGreaterThan(0);
    expect(await metric(own.service, "rpc_lies_total")).toBeGreaterThan(0);
  });

  test("makes indexing fail without an append if no other endpoint is honest", async () => {
    const liar = await droppingProxy(isDropped, "cut");
    const { service, logUrl } = await run(liar.url, { VERIFY: "receipts" });
    await service.get(`/api/v2/nft/${nft.address}`);
    const doubted = await eventually("the first block is in doubt", async () =>
      (await eventsOf(logUrl)).find(({ type }) => type === "LogsDoubted"),
    );
    expect(doubted).toMatchObject({ reason: expect.stringContaining("receipts match the block's header") });
    expect(await transfersIn(logUrl)).toBe(0);
  });

  test("is detected at the head in any mode if a block lacks its only log", async () => {
    const emitter = await deploy(anvil, await contractArtifact("Emitter"));
    await transact(anvil, emitter.contract, "emitTransfers", [1, 1, anvil.accounts[1], anvil.accounts[0]]);
    await anvil.mine(4);
    let from = Number.POSITIVE_INFINITY;
    const proxy = await droppingProxy(({ blockNumber }) => Number(blockNumber) >= from);
    const { service } = await run(proxy.url);
    await synced(service, emitter.address);
    from = Number(await anvil.send("eth_blockNumber")) + 1;
    await transact(anvil, emitter.contract, "emitTransfers", [2, 1, anvil.accounts[1], anvil.accounts[0]]);
    const { body } = await synced(service, emitter.address, from);
    expect(body.result.map(({ token_id }: { token_id: string }) => token_id)).toEqual(["1", "2"]);
    expect(await metric(service, "rpc_missed_logs_total")).toBe(1);
  });
});

/** The URL of an honest node that answers later than all others here, so that the other endpoint is called first. */
async function slowUrl(options: RpcProxyOptions = {}): Promise<string> {
  const onRequest: RpcProxyOptions["onRequest"] = async (call, index) => {
    // Checks of single blocks go to one given endpoint hundreds of times and don't affect its rank, so they are not
    // delayed.
    const settles = JSON.stringify(call.params).includes("blockHash") || call.method === "eth_getBlockReceipts";
    return (await options.onRequest?.(call, index)) ?? (settles ? undefined : { delayUntil: Bun.sleep(100) });
  };
  return (await proxyOf({ onRequest })).url;
}

/** Deploys a separate collection, so that no test waits for another's history. */
async function small(): Promise<Deployed> {
  const emitter = await deploy(anvil, await contractArtifact("Emitter"));
  await transact(anvil, emitter.contract, "emitTransfers", [0, 1, anvil.accounts[1], anvil.accounts[0]]);
  await anvil.mine(4);
  return emitter;
}

/** Mints one more token at the head. Resolves with its block. */
async function another({ contract }: Deployed, id: number): Promise<number> {
  const args = [id, 1, anvil.accounts[1], anvil.accounts[0]];
  return Number((await transact(anvil, contract, "emitTransfers", args)).blockNumber);
}

interface Relay {
  readonly url: string;
  readonly connections: number;
  /** Closes every connection. */
  cut(): void;
  stop(): Promise<void>;
}

/** Relays bytes to and from the node's socket. */
function startRelay(): Relay {
  type Side = { other: Bun.Socket<Side> | undefined; waiting: Buffer[] };
  const open = new Set<Bun.Socket<Side>>();
  let connections = 0;
  const handlers: Bun.SocketHandler<Side> = {
    data: ({ data }, bytes) => {
      if (data.other === undefined) data.waiting.push(Buffer.from(bytes));
      else data.other.write(bytes);
    },
    close: (socket) => {
      open.delete(socket);
      socket.data.other?.end();
    },
  };
  const listener = Bun.listen<Side>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      ...handlers,
      open: (socket) => {
        connections++;
        open.add(socket);
        socket.data = { other: undefined, waiting: [] };
        const data: Side = { other: socket, waiting: [] };
        const connecting = Bun.connect<Side>({ hostname: "127.0.0.1", port: anvil.port, data, socket: handlers });
        connecting.then((node) => {
          for (const bytes of socket.data.waiting) node.write(bytes);
          socket.data.other = node;
        });
      },
    },
  });
  const cut = () => {
    for (const socket of open) socket.terminate();
  };
  return {
    url: `ws://127.0.0.1:${listener.port}`,
    get connections() {
      return connections;
    },
    cut,
    stop: async () => {
      listener.stop(true);
    },
  };
}

describe("endpoints of different kinds", () => {
  test("over http and ws complement each other", async () => {
    const nft = await small();
    const proxy = await startRpcProxy(anvil.url);
    const { service } = await run(`${proxy.url},${anvil.wsUrl}`);
    await synced(service, nft.address);
    expect(proxy.requests).toBeGreaterThan(0);
    await proxy.stop();
    await synced(service, nft.address, await another(nft, 1));
    const text = await (await service.fetch("/metrics")).text();
    expect(text).toMatch(/rpc_requests_total\{endpoint="eth#1",method="\w+",outcome="ok"\}/);
    expect(text).toMatch(/rpc_requests_total\{endpoint="eth#2",method="\w+",outcome="ok"\}/);
    expect(text).not.toContain("127.0.0.1");
  });

  test("replace each other when the better one goes down", async () => {
    const nft = await small();
    const quick = await startRpcProxy(anvil.url);
    const { service } = await run(`${quick.url},${await slowUrl()}`);
    await synced(service, nft.address);
    await quick.stop();
    await synced(service, nft.address, await another(nft, 1));
    const text = await (await service.fetch("/metrics")).text();
    expect(text).toMatch(/rpc_requests_total\{endpoint="eth#1",method="\w+",outcome="transient"\}/);
  });

  test("over a socket reconnect after it dies", async () => {
    const nft = await small();
    const relay = startRelay();
    started.push(relay);
    const { service } = await run(relay.url);
    await synced(service, nft.address);
    for (let round = 1; round <= 3; round++) {
      relay.cut();
      await synced(service, nft.address, await another(nft, round));
    }
    expect(relay.connections).toBeGreaterThanOrEqual(4);
  });

  test("over a socket announce blocks, which do not wait for the poll", async () => {
    // Twelve seconds between blocks, as on Ethereum, with the newest block now.
    const slow = await startAnvil({ slotsInAnEpoch: 1, genesisTimestamp: Math.floor(Date.now() / 1_000) - 200 });
    started.push(slow);
    await slow.send("anvil_setBlockTimestampInterval", [12]);
    const emitter = await deploy(slow, await contractArtifact("Emitter"));
    const emit = (id: number) =>
      transact(slow, emitter.contract, "emitTransfers", [id, 1, slow.accounts[1], slow.accounts[0]]);
    await emit(0);
    await slow.mine(16);
    const every = { FOLLOW_EVERY_ETH: "0" };
    const env = { RPC_URL_ETH: slow.wsUrl, RPC_URLS_ONLY: "true", API_KEYS: TEST_KEY, PORT: "0", ...every };
    const config = readConfig({ ...env, EVENT_LOG_URL: temporaryLogUrl() });
    // The minimum time between polls is that of production: one second.
    const service = await startService({ config, logger: silentLogger });
    started.push(service);
    const listed = async () => {
      const path = `${service.url}/api/v2/nft/${emitter.address}`;
      const answer = await fetch(path, { headers: { "x-api-key": TEST_KEY } });
      return (await answer.json()) as { status: string; total: number; result: unknown[] };
    };
    await eventually("the collection is listed", async () => ((await listed()).status === "SYNCED" ? true : undefined));
    await emit(1);
    await eventually(
      "the announced block is listed",
      async () => ((await listed()).result.length === 2 ? true : undefined),
      4_000,
    );
  });

  test("are left alone for their Retry-After if there is no other, and replaced if there is one", async () => {
    const nft = await small();
    const asked: number[] = [];
    const throttled = (seconds: number) =>
      proxyOf({
        onRequest: ({ method }) => {
          if (method !== "eth_getLogs") return undefined;
          asked.push(performance.now());
          if (asked.length > 1) return undefined;
          return { status: 429, headers: { "retry-after": String(seconds) }, body: "slow down" };
        },
      });
    const alone = await run((await throttled(2)).url);
    await synced(alone.service, nft.address);
    expect((asked[1] as number) - (asked[0] as number)).toBeGreaterThanOrEqual(1_990);

    asked.length = 0;
    // Longer than any wait for the collection here.
    const both = await run(`${(await throttled(60)).url},${await slowUrl()}`);
    await synced(both.service, nft.address);
    expect(asked.length).toBe(1);
  });

  test("answer the requests that another one leaves hanging", async () => {
    const nft = await small();
    let hangs = false;
    const never = new Promise<void>(() => undefined);
    const proxy = await proxyOf({ onRequest: () => (hangs ? { delayUntil: never } : undefined) });
    const { service } = await run(`${proxy.url},${await slowUrl()}`);
    await synced(service, nft.address);
    hangs = true;
    await synced(service, nft.address, await another(nft, 1));
    expect(await metric(service, "rpc_hedged_requests_total")).toBeGreaterThan(0);
  });
});
