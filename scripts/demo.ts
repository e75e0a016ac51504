/**
 * The demo: starts a local EVM with Uniswap, stablecoins and three collections with a history, then the service as
 * `start` runs it, and acts as a first user. Prints each request as a curl line with its answer. Keeps running unless
 * `--once` is given. Exits with 1 if an answer is not as expected.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import WebSocket from "ws";
import { startAnvil } from "./local-chain/anvil.ts";
import { seedCollections } from "./local-chain/collections.ts";
import { guardChild } from "./local-chain/guard.ts";
import { placeMainnet } from "./local-chain/mainnet.ts";
import { seedMarket } from "./local-chain/market.ts";

const MARKET_HOURS = 27;
const once = process.argv.includes("--once");
/** True after Ctrl-C or SIGTERM. */
let isInterrupted = false;

function say(text = ""): void {
  process.stdout.write(`${text}\n`);
}

/** Starts the service in a process of its own. Reads its key and address from what it prints at the first start. */
async function startServiceProcess(rpcUrl: string, folder: string) {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "../src/main.ts")], {
    // Its default log is ./data/events.db: a folder of its own keeps the demo's chain out of a real one.
    cwd: folder,
    env: {
      PATH: process.env["PATH"] ?? "",
      RPC_URL_ETH: rpcUrl,
      RPC_URLS_ONLY: "true",
      PORT: process.env["PORT"] ?? "0",
      LOG_LEVEL: "warn",
    },
    stdin: "ignore",
    stdout: "inherit",
    stderr: "pipe",
  });
  const guard = guardChild({ pid: child.pid, signal: "TERM" });
  const { promise, resolve, reject } = Promise.withResolvers<{ base: string; key: string }>();
  const reading = (async () => {
    let text = "";
    const decoder = new TextDecoder();
    for await (const bytes of child.stderr) {
      const chunk = decoder.decode(bytes, { stream: true });
      process.stderr.write(chunk);
      text += chunk;
      const key = /API key,.*:\s+([A-Za-z0-9._~-]{8,128})/.exec(text)?.[1];
      const base = /serving (\S+)\/api\/v2/.exec(text)?.[1];
      if (key !== undefined && base !== undefined) resolve({ base, key });
      text = text.slice(-4_000);
    }
    reject(new Error("the service ended before it was ready"));
  })();
  const { base, key } = await promise;
  const stop = async () => {
    child.kill("SIGTERM");
    await child.exited;
    await reading.catch(() => undefined);
    guard.dismiss();
  };
  return { base, key, stop };
}

interface Page {
  status: string;
  total: string | null;
  cursor: string | null;
  result: { token_id: string; owner_of: string; amount: string; name: string }[];
}

/** A client that prints its requests as curl lines. */
function createClient(base: string, key: string) {
  return async function get<T>(path: string): Promise<T> {
    say(`\n$ curl -s -H 'X-API-Key: ${key}' '${base}${path}'`);
    const started = performance.now();
    const response = await fetch(`${base}${path}`, { headers: { "x-api-key": key } });
    const body = await response.text();
    const shown = body.length > 700 ? `${body.slice(0, 700)} … (${body.length} bytes)` : body;
    say(`${shown}\n  → ${response.status} in ${(performance.now() - started).toFixed(1)} ms`);
    if (response.status !== 200) throw new Error(`${path} answered ${response.status}`);
    return JSON.parse(body) as T;
  };
}

/** Subscribes and resolves when the collection has finished indexing. */
function indexed(base: string, key: string, address: string): Promise<void> {
  const url = `${base.replace(/^http/, "ws")}/api/v2/ws`;
  say(`\n$ npx wscat -H 'X-API-Key: ${key}' -c ${url}`);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const socket = new WebSocket(url, { headers: { "x-api-key": key } });
  socket.on("open", () => {
    const message = JSON.stringify({ action: "subscribe", chain: "eth", address });
    say(`> ${message}`);
    socket.send(message);
  });
  socket.on("message", (data) => {
    say(`< ${String(data)}`);
    const { type } = JSON.parse(String(data)) as { type: string };
    if (type === "failed" || type === "error") reject(new Error(String(data)));
    if (type === "indexed") {
      socket.close();
      resolve();
    }
  });
  socket.on("error", reject);
  socket.on("close", () => reject(new Error("the socket was closed before the collection was indexed")));
  return promise;
}

/** The part of a token's record with metadata and media. */
interface Pictured {
  normalized_metadata: { name: string | null };
  media: { status: string; media_collection: { low: { url: string } } | null };
}

/** Requests the first token until its preview exists. The request makes the service create it. */
async function pictured(get: <T>(path: string) => Promise<T>, path: string): Promise<Pictured> {
  for (let tries = 0; tries < 100; tries++) {
    const [record] = (await get<{ result: Pictured[] }>(path)).result;
    if (record?.media.status === "success") return record;
    await Bun.sleep(200);
  }
  throw new Error("no preview was made");
}

function check(condition: boolean, what: string): void {
  if (!condition) throw new Error(`not as expected: ${what}`);
  say(`  ✓ ${what}`);
}

async function main(): Promise<void> {
  const started = performance.now();
  const folder = mkdtempSync(join(tmpdir(), "evm-demo-"));
  const closers: (() => Promise<void> | void)[] = [() => rmSync(folder, { recursive: true, force: true })];
  let closing: Promise<void> | undefined;
  // With `bun run`, Ctrl-C arrives twice. The second one waits for the same end.
  const close = () => {
    closing ??= (async () => {
      for (let closer = closers.pop(); closer !== undefined; closer = closers.pop()) await closer();
    })();
    return closing;
  };
  const endWith = (code: number) => {
    isInterrupted = true;
    close().finally(() => process.exit(code));
  };
  process.on("SIGINT", () => endWith(0));
  process.on("SIGTERM", () => endWith(143));
  try {
    say("Starting a local EVM with chain id 1: Uniswap v2 and v3, WETH, USDC, USDT, DAI at their mainnet addresses …");
    const genesisTimestamp = Math.floor(Date.now() / 1_000) - MARKET_HOURS * 3_600 - 60;
    const anvil = await startAnvil({ genesisTimestamp });
    closers.push(() => anvil.stop());
    await placeMainnet(anvil);
    const market = await seedMarket(anvil, { hours: MARKET_HOURS });
    const { plain, batch, multi } = await seedCollections(anvil);
    say(`  ready in ${((performance.now() - started) / 1_000).toFixed(1)} s: ${anvil.url}`);

    say("\nStarting the service as `bun run start` does, with RPC_URL_ETH set to it …");
    const service = await startServiceProcess(anvil.url, folder);
    closers.push(service.stop);
    const get = createClient(service.base, service.key);

    say("\n── A collection that is new to the service ───────────────────────────────────────────");
    const path = `/api/v2/nft/${plain.address}?chain=eth&limit=100&disable_total=false`;
    check((await get<Page>(path)).status === "SYNCING", "the answer comes at once, its indexing has started");
    await indexed(service.base, service.key, plain.address);
    const first = await get<Page>(path);
    say(`  the first page was available ${((performance.now() - started) / 1_000).toFixed(1)} s after the demo began`);
    check(first.status === "SYNCED" && first.result.length === 100, "the first page of 100");
    const second = await get<Page>(`/api/v2/nft/${plain.address}?chain=eth&cursor=${first.cursor}`);
    check(second.result.length === 100, "the second page, by the first one's cursor");
    check(first.total === String(plain.owners.size), `the total, ${plain.owners.size}`);
    const owned = [...first.result, ...second.result];
    check(
      owned.every(({ token_id, owner_of }) => plain.owners.get(BigInt(token_id)) === owner_of),
      "every owner is the contract's own ownerOf",
    );

    say("\n── ERC721A, and ERC-1155 ─────────────────────────────────────────────────────────────");
    for (const [name, address] of [
      ["ERC721A", batch.address],
      ["ERC-1155", multi.address],
    ] as const) {
      await indexed(service.base, service.key, address);
      const page = await get<Page>(`/api/v2/nft/${address}?limit=2&disable_total=false`);
      check(page.result.length === 2, `${name}: ${page.total} tokens`);
    }

    say("\n── Metadata: fetched in the background, never delaying the listing ────────────────────");
    const records = `/api/v2/nft/${plain.address}?limit=1&normalizeMetadata=true&media_items=true`;
    const { normalized_metadata: known, media } = await pictured(get, records);
    check(known.name?.startsWith("Edition ") === true, `its name is ${known.name}, resolved from the token's URI`);
    const preview = await fetch(media.media_collection?.low.url ?? "");
    check(preview.headers.get("content-type") === "image/webp", "its picture, drawn in SVG on chain, has previews");

    say("\n── What is a token worth? ────────────────────────────────────────────────────────────");
    const price = await get<{ usdPrice: number; "24hrPercentChange"?: string }>(
      `/api/v2/erc20/${market.demo.address}/price?chain=eth&include=percent_change`,
    );
    check(price.usdPrice > 0, `one DEMO is $${price.usdPrice}`);
    check(price["24hrPercentChange"] !== undefined, `${price["24hrPercentChange"]} % in 24 hours`);
    await get(`/api/v2/erc20/${market.demo.address}/price?chain=eth`);

    if (once) {
      say("\nDone.");
      return;
    }
    const offers = [plain, batch, multi].map(({ address }) => `try=eth:${address}`);
    say("\n── In a browser ──────────────────────────────────────────────────────────────────────");
    say("Open the console, and sign in with the key. It offers the three collections and the token.");
    say(`  ${service.base}/#/?${[...offers, `try=eth:${market.demo.address}:price`].join("&")}`);
    say(`  key: ${service.key}`);
    say(`\nEverything keeps running: try the lines above, or ${service.base}/swagger with the same key.`);
    say("Ctrl-C ends the demo.");
    await new Promise(() => undefined);
  } finally {
    await close();
  }
}

await main().then(
  () => isInterrupted || process.exit(0),
  (error: unknown) => {
    // An interrupted step fails. The signal's handler ends the process.
    if (isInterrupted) return;
    say(`\nThe demo failed: ${error instanceof Error ? error.message : String(error)}`);
    process.exit(1);
  },
);
