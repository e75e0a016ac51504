/**
 * Hours of use in minutes, to see what grows: a chain with ten blocks per second and a fork every 40, clients that walk
 * pages and request present and past prices and addresses without a contract, and sockets that come, subscribe and
 * leave. Several replicas share a log in PostgreSQL; one alone uses SQLite. Prints the work done and the memory used.
 * Exits with 1 for any answer that is the service's fault (5xx), for replicas that disagree about owners in the end,
 * and for a service that does not stop cleanly.
 *
 * bun scripts/soak.ts [--minutes 5] [--replicas 1] [--only blocks,pages,strangers,prices,past,unpriced,sockets]
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import WebSocket from "ws";
import { startPostgres } from "../test/support/postgres.ts";
import { startServiceProcess } from "../test/support/process.ts";
import { eventually, TEST_KEY } from "../test/support/service.ts";
import { inOneBlock, reorg, startAnvil } from "./local-chain/anvil.ts";
import { seedCollections } from "./local-chain/collections.ts";
import { queue } from "./local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "./local-chain/mainnet.ts";
import { seedMarket } from "./local-chain/market.ts";
import { swapV2 } from "./local-chain/pools.ts";
import { createRandom } from "./local-chain/random.ts";

const MARKET_HOURS = 27;
const MINTS_A_BLOCK = 3;
/** Blocks between two swaps, blocks between two forks, and depth of a fork. */
const [SWAP_EVERY, FORK_EVERY, FORK_DEPTH] = [10, 40, 3];
const MAX_PAGE = 200;
const PAGES_A_WALK = 5;
const FIRST_MINTED = 10_000;
const REPORT_MS = 20_000;
/** Time without a message after which a client closes its socket. */
const PATIENCE_MS = 500;

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "5" },
    replicas: { type: "string", default: "1" },
    only: { type: "string", default: "" },
  },
});
const only = values.only.split(",").filter((name) => name !== "");

const random = createRandom(1);
const folder = mkdtempSync(join(tmpdir(), "soak-"));
const genesisTimestamp = Math.floor(Date.now() / 1_000) - MARKET_HOURS * 3_600 - 60;
const anvil = await startAnvil({ genesisTimestamp });
await placeMainnet(anvil);
const market = await seedMarket(anvil, { hours: MARKET_HOURS });
const collections = await seedCollections(anvil);
const addresses = Object.values(collections).map(({ address }) => address);
const seeded = Number(await anvil.send("eth_blockNumber"));
const replicas = Number(values.replicas);
const postgres = replicas > 1 ? await startPostgres() : undefined;
const logUrl = (await postgres?.createDatabase()) ?? `sqlite://${join(folder, "events.db")}`;
const startService = () =>
  startServiceProcess({
    EVENT_LOG_URL: logUrl,
    RPC_URL_ETH: anvil.url,
    RPC_URLS_ONLY: "true",
    RATE_LIMIT_PER_MINUTE: "10000000",
    CURSOR_SECRET: "of all replicas alike",
  });
const services = await Promise.all(Array.from({ length: replicas }, startService));

const done = new Map<string, number>();
const faults = new Map<string, number>();
const count = (map: Map<string, number>, name: string): void => void map.set(name, (map.get(name) ?? 0) + 1);
let isOver = false;

async function get(name: string, path: string): Promise<string | undefined> {
  const response = await random.pick(services).get(path);
  const body = await response.text();
  count(done, name);
  if (response.status < 500) return response.status === 200 ? body : undefined;
  const fault = `${name} ${response.status}`;
  if (!faults.has(fault)) console.log(`${path} → ${response.status} ${body}`);
  count(faults, fault);
  return undefined;
}

const stranger = (): string => `0x${Buffer.from(crypto.getRandomValues(new Uint8Array(20))).toString("hex")}`;
const pastBlock = (): number => random.below(seeded);

let [block, nextId] = [0, FIRST_MINTED];
async function mine(): Promise<void> {
  block++;
  if (block % FORK_EVERY === 0) await reorg(anvil, FORK_DEPTH);
  await inOneBlock(anvil, async () => {
    for (let i = 0; i < MINTS_A_BLOCK; i++) {
      await queue(anvil, collections.plain.contract, "mint", [random.pick(anvil.accounts.slice(1, 9)), nextId++]);
    }
  });
  if (block % SWAP_EVERY === 0) {
    await swapV2(anvil, { pool: market.v2.DEMO.address, tokenIn: MAINNET.weth, amountIn: 10n ** 17n });
  }
  count(done, "blocks");
}

async function walk(): Promise<void> {
  const path = `/api/v2/nft/${random.pick(addresses)}`;
  const flavour = random.pick([
    ...["", "&normalizeMetadata=true&media_items=true", "&holders=true", "&disable_total=false", "&format=hex"],
    ...["&totalRanges=3&range=1", `&as_of_block=${pastBlock()}`],
  ]);
  let body = await get("pages", `${path}?limit=${1 + random.below(MAX_PAGE)}${flavour}`);
  for (let page = 1; page < PAGES_A_WALK && body !== undefined; page++) {
    const { cursor } = JSON.parse(body) as { cursor: string | null };
    if (cursor === null) return;
    body = await get("pages", `${path}?cursor=${cursor}`);
  }
}

function price(): Promise<unknown> {
  const token = random.pick([market.demo.address, MAINNET.weth, MAINNET.usdc]);
  const floor = `min_liquidity_usd=${random.below(1_000_000)}`;
  const query = random.pick(["", "include=percent_change", "include=provenance", "exchange=uniswapv3", floor]);
  return get("prices", `/api/v2/erc20/${token}/price?${query}`);
}

async function visit(): Promise<void> {
  const socket = new WebSocket(`${random.pick(services).base.replace("http", "ws")}/api/v2/ws`, {
    headers: { "x-api-key": TEST_KEY },
  });
  const told = Promise.withResolvers<void>();
  const subscribed = [...addresses, stranger()];
  let left = subscribed.length;
  socket.on("error", told.reject);
  socket.on("message", () => --left === 0 && told.resolve());
  socket.on("open", () => {
    for (const address of subscribed) socket.send(JSON.stringify({ action: "subscribe", chain: "eth", address }));
    setTimeout(told.resolve, PATIENCE_MS);
  });
  await told.promise;
  socket.close();
  count(done, "sockets");
}

/** The kinds of work, with the ms between two runs of each. */
const WORK: Readonly<Record<string, readonly [pauseMs: number, work: () => Promise<unknown>]>> = {
  blocks: [100, mine],
  pages: [2, walk],
  strangers: [50, () => get("strangers", `/api/v2/nft/${stranger()}`)],
  prices: [20, price],
  past: [20, () => get("past", `/api/v2/erc20/${market.demo.address}/price?to_block=${pastBlock()}`)],
  unpriced: [50, () => get("unpriced", `/api/v2/erc20/${stranger()}/price`)],
  sockets: [20, visit],
};

async function repeat(name: string): Promise<void> {
  const kind = WORK[name];
  if (kind === undefined) throw new Error(`there is no ${name}, only ${Object.keys(WORK).join(", ")}`);
  const [pauseMs, work] = kind;
  while (!isOver) {
    await work().catch((error: unknown) => {
      if (!faults.has(`${name} failed`)) console.log(error);
      count(faults, `${name} failed`);
    });
    await Bun.sleep(pauseMs);
  }
}

const words = (map: Map<string, number>): string => [...map].map(([name, times]) => `${name} ${times}`).join(", ");

function report(seconds: number): void {
  const taken = services.map(({ pid }) => {
    const status = readFileSync(`/proc/${pid}/status`, "latin1");
    return (Number(/RssAnon:\s+(\d+)/.exec(status)?.[1]) / 1_024).toFixed(0);
  });
  console.log(
    `${seconds} s: ${taken.join(" + ")} MiB; ${words(done)}${faults.size === 0 ? "" : `; FAULTS ${words(faults)}`}`,
  );
}

const started = performance.now();
const working = (only.length === 0 ? Object.keys(WORK) : only).map(repeat);
const seconds = (): number => Math.round((performance.now() - started) / 1_000);
while (seconds() < Number(values.minutes) * 60) {
  await Bun.sleep(REPORT_MS);
  report(seconds());
}
isOver = true;
await Promise.all(working);

/** The owners of all tokens, as one replica answers. */
async function owners({ get: ask }: (typeof services)[number]): Promise<string> {
  const lines: string[] = [];
  for (const address of addresses) {
    for (let cursor: string | null = ""; cursor !== null; ) {
      const body = await (await ask(`/api/v2/nft/${address}?limit=500&holders=true&cursor=${cursor}`)).json();
      const page = body as { cursor: string | null; result: { token_id: string; owner_of: string; amount: string }[] };
      lines.push(
        ...page.result.map(({ token_id, owner_of, amount }) => `${address} ${token_id} ${owner_of} ${amount}`),
      );
      cursor = page.cursor;
    }
  }
  return lines.sort().join("\n");
}

await anvil.mine();
const wanted = await eventually("all of them say the same", async () => {
  const [first = "", ...others] = await Promise.all(services.map(owners));
  return others.every((other) => other === first) ? first : undefined;
});
const supply = wanted.split("\n").filter((line) => line.startsWith(collections.plain.address)).length;
console.log(`in the end ${supply} tokens of the collection that grew, by each`);
let isWell = true;
for (const service of services) {
  service.kill("SIGTERM");
  const code = await service.exited;
  isWell &&= code === 0;
  if (code !== 0) console.log(`a service ended with ${code}`);
  const complaints = service.stderr().match(/"level":"(?:warn|error)".*/g) ?? [];
  for (const complaint of complaints.slice(0, 5)) console.log(complaint.slice(0, 500));
}
await anvil.stop();
await postgres?.stop();
rmSync(folder, { recursive: true, force: true });
process.exit(isWell && faults.size === 0 ? 0 : 1);
