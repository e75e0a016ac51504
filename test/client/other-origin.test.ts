/** A page of another origin that reads the service by the client, in a real browser. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import type { Browser } from "puppeteer-core";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { type Collections, seedCollections } from "../../scripts/local-chain/collections.ts";
import { placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import {
  type Body,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

/** Reads one of each kind, and writes what it read where the test finds it. */
const PAGE = `<!doctype html><html lang="en"><title>Shop</title><link rel="icon" href="data:,"><pre></pre>
<script type="module">
import { Client } from "/client.js";
const { url, key, address, token } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
const all = async (rows) => { const read = []; for await (const row of rows) read.push(row); return read; };
const show = (value) => { document.querySelector("pre").textContent = JSON.stringify(value); };
try {
  const client = new Client({ url, key });
  const contract = { chain: "eth", address };
  const subscription = client.subscribeToPrice(token);
  const live = (async () => { for await (const message of subscription) if (message.type === "price") return message; })();
  show({
    holders: await all(client.holders(contract)),
    traits: await client.traits(contract),
    transfers: await all(client.hosted.transfers(address)),
    curve: await client.priceSeries({ chain: "eth", address: token }, { points: 3 }),
    live: await live,
  });
  client.close();
} catch (error) { show({ error: String(error) }); }
</script></html>`;

let anvil: Anvil;
let collections: Collections;
let market: Market;
let service: TestService;
let browser: Browser;
let shop: ReturnType<typeof Bun.serve>;

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 28 * 3_600, slotsInAnEpoch: 2 });
  await placeMainnet(anvil);
  market = await seedMarket(anvil);
  collections = await seedCollections(anvil);
  await anvil.mine(6);
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
  await synced(service, collections.plain.address);
  const entry = join(import.meta.dir, "../../src/client/index.ts");
  const { outputs } = await Bun.build({ entrypoints: [entry], target: "browser", format: "esm" });
  const script = await outputs[0]?.text();
  shop = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    routes: {
      "/": () => new Response(PAGE, { headers: { "content-type": "text/html; charset=utf-8" } }),
      "/client.js": () => new Response(script, { headers: { "content-type": "text/javascript" } }),
    },
  });
  browser = await startBrowser();
}, 180_000);
afterAll(async () => {
  await browser?.close();
  await shop?.stop(true);
  await service?.stop();
  await anvil?.stop();
});

test("shows holders, traits, transfers, a price curve and a live price, and reaches nothing of operators", async () => {
  const address = collections.plain.address.toLowerCase();
  const token = market.demo.address.toLowerCase();
  const page = await browser.newPage();
  const faults: string[] = [];
  page.on("console", (message) => void faults.push(message.text()));
  page.on("pageerror", (error) => void faults.push(String(error)));
  const url = `http://127.0.0.1:${service.port}`;
  await page.goto(`http://127.0.0.1:${shop.port}/#${new URLSearchParams({ url, key: TEST_KEY, address, token })}`);
  await page.waitForFunction(`document.querySelector("pre").textContent !== ""`, { timeout: 120_000 });
  const shown: Body = JSON.parse((await page.evaluate(`document.querySelector("pre").textContent`)) as string);
  expect(shown.error).toBeUndefined();
  expect(faults).toEqual([]);

  const held = new Map<string, number>();
  for (const owner of collections.plain.owners.values()) {
    held.set(owner.toLowerCase(), (held.get(owner.toLowerCase()) ?? 0) + 1);
  }
  const holders = shown.holders.map((holder: Body) => [holder.owner, Number(holder.tokens)]);
  expect(new Map(holders)).toEqual(held);
  const { body: traits } = await service.get(`/api/collections/eth/${address}/traits`);
  expect(shown.traits).toMatchObject(traits);
  const last = new Map<string, string>();
  for (const { token_id, to_address } of shown.transfers) if (!last.has(token_id)) last.set(token_id, to_address);
  for (const [id, owner] of collections.plain.owners) expect(last.get(`${id}`)).toBe(owner.toLowerCase());
  const { body: price } = await service.get(`/api/v2/erc20/${token}/price`);
  expect(shown.live.usdPrice).toBe(price.usdPrice);
  expect(shown.curve.result).toHaveLength(3);
  expect(shown.curve.result.at(-1).usdPrice).toBe(price.usdPrice);

  const operated = await page.evaluate(
    `fetch("${url}/api/collections/eth/${address}", { method: "DELETE", headers: { "x-api-key": "${TEST_KEY}" } })
      .then(({ status }) => status, ({ name }) => name)`,
  );
  expect(operated).toBe("TypeError");
}, 180_000);
