/**
 * Prices, search and the operator's changes in a real browser: what a visitor may enter, and that the lines for a shell do
 * what the screens do.
 */

import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import type { Browser, Page } from "puppeteer-core";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import { NFT_ADDRESS } from "../../src/core/examples.ts";
import { PROGRAM } from "../../src/core/program.ts";
import type { Visit } from "../support/browser.ts";
import { fill, goTo, hashOf, OPERATOR_KEY, openConsole, press, shows } from "../support/console.ts";
import {
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

const ROOT = new URL("../..", import.meta.url).pathname;

let anvil: Anvil;
let market: Market;
let nft: Deployed;
let service: TestService;
let browser: Browser;
let visited: Visit;

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 8 * 3_600 });
  await placeMainnet(anvil);
  market = await seedMarket(anvil, { hours: 4 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Service", "SRV"]);
  await transact(anvil, nft.contract, "mintMany", [anvil.accounts[1], 1, 5]);
  const env = { OPERATOR_KEYS: OPERATOR_KEY };
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env });
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await service?.stop();
  await anvil?.stop();
});
afterEach(async () => {
  expect(visited.faults).toEqual([]);
  await visited.page.browserContext().close();
});

async function open(place: string, key?: string): Promise<Page> {
  const root = `http://127.0.0.1:${service.port}`;
  visited = await openConsole(browser, place, { root, ...(key === undefined ? {} : { key }) });
  return visited.page;
}

const pricePlace = () => `/price/eth/${market.demo.address.toLowerCase()}`;
const timeOf = async (block: number): Promise<number> =>
  Number(
    ((await anvil.send("eth_getBlockByNumber", [`0x${block.toString(16)}`, false])) as { timestamp: string }).timestamp,
  );

test("prices at a block or at a time, keeps the block in the address, and refuses anything else in words", async () => {
  const page = await open(pricePlace());
  await shows(page, "Where this price comes from");
  const head = Number(await anvil.send("eth_blockNumber"));
  const past = head - 12;
  const choose = async (text: string) => {
    await fill(page, "#at", text);
    await press(page, "Go");
  };
  for (const wrong of ["abc", "-3", "12.5", "2026-13-45"]) {
    await choose(wrong);
    await shows(page, "Enter the number of a block, or a time");
    expect(await hashOf(page)).not.toContain("block=");
  }
  await choose(String(past));
  await eventually("the block is in the address", async () =>
    (await hashOf(page)).endsWith(`?block=${past}`) ? true : undefined,
  );
  const { body } = await service.get(`/api/v2/erc20/${market.demo.address}/price?to_block=${past}`);
  await shows(page, `$${body.usdPriceFormatted}`);

  await page.goto("about:blank");
  await page.goBack();
  await shows(page, `$${body.usdPriceFormatted}`);
  expect(await page.$eval("#at", (input) => (input as { value?: string }).value)).toBe(String(past));

  // Several blocks may have the same time: the last one counts.
  const seconds = await timeOf(past - 40);
  let last = past - 40;
  while ((await timeOf(last + 1)) <= seconds) last++;
  await choose(new Date(seconds * 1_000).toISOString().slice(0, 19).replace("T", " "));
  await eventually("the block of that time is chosen", async () =>
    (await hashOf(page)).endsWith(`?block=${last}`) ? true : undefined,
  );
});

test("names the coins of a route, with units and each pool's share of the depth", async () => {
  const page = await open(pricePlace());
  await shows(page, "Where this price comes from");
  const text = await shows(page, /1 DEMO = [\d.,]+ WETH/, ".route");
  expect(text).toMatch(/holds [\d.,]+ (?:DEMO|WETH) and [\d.,]+ (?:DEMO|WETH)/);
  const shares = [...text.matchAll(/([\d.]+)% of the route's depth/g)].map(([, share]) => Number(share));
  expect(shares.length).toBe(2);
  expect(shares.reduce((sum, share) => sum + share, 0)).toBeCloseTo(100, 0);
  expect(text).not.toMatch(/0x[0-9a-f]{4}…/);
});

test("tells why each pool is refused", async () => {
  const poor = await deploy(anvil, await contractArtifact("TestToken"), ["Unsold", "UNS", 18]);
  const page = await open(`/price/eth/${poor.address.toLowerCase()}`);
  await shows(page, /no_pool|No pools found/);
  visited = { ...visited, faults: visited.faults.filter((fault) => !fault.includes("status of 404")) };
});

test("finds ERC-20 tokens by symbol, also with a key of scope read, and offers it no request that it may not make", async () => {
  const page = await open("/search/usdc", TEST_KEY);
  await shows(page, "USDC");
  await goTo(page, "/search/0x2260fac5e5542a773aa44fbcfedf7c193bc2c599");
  await shows(page, "WBTC");
  // Each line is a request that the screen sent, so this key may make it.
  const lines = await linesOf(page);
  expect(lines.filter((line) => line.includes("/api/tokens?")).length).toBeGreaterThan(0);
  for (const line of lines) expect([line, await send(line, TEST_KEY)]).not.toEqual([line, 403]);
  await goTo(page, "/operate");
  await shows(page, "This key has scope read");
  // A key of scope read learns its scope by one refusal.
  const refusals = visited.faults.filter((fault) => fault.includes("status of 403"));
  // The search asks if the address is a collection. The browser itself writes the 404 to its console.
  const answers = visited.faults.filter((fault) => fault.includes("status of 404"));
  expect(visited.faults).toEqual([...refusals.slice(0, 1), ...answers]);
  visited = { ...visited, faults: [] };
});

test("a chain with an endpoint of another one says so on each of its screens, with the variable", async () => {
  const other = await startAnvil({ chainId: 5 });
  const env = { OPERATOR_KEYS: OPERATOR_KEY };
  const wrong = await startTestService({ rpcUrl: other.url, logUrl: temporaryLogUrl(), env });
  try {
    for (const place of [`/nft/eth/${nft.address.toLowerCase()}`, pricePlace()]) {
      visited = await openConsole(browser, place, { root: `http://127.0.0.1:${wrong.port}` });
      await shows(visited.page, "eth can't be read: its endpoints are of another chain. Correct RPC_URL_ETH.");
      // The refusals that the screen shows are also in the browser's own list.
      visited = { ...visited, faults: visited.faults.filter((fault) => !/50[03]/.test(fault)) };
      if (place !== pricePlace()) await visited.page.browserContext().close();
    }
  } finally {
    await wrong.stop();
    await other.stop();
  }
});

test("an empty service offers a choice of chains, and the examples of the documents", async () => {
  const empty = await startTestService({
    rpcUrl: anvil.url,
    logUrl: temporaryLogUrl(),
    env: { OPERATOR_KEYS: OPERATOR_KEY },
  });
  try {
    visited = await openConsole(browser, "/", { root: `http://127.0.0.1:${empty.port}` });
    const { page } = visited;
    await shows(page, "Begin here");
    await shows(page, "Or try an example");
    expect(await page.$eval("#first-chain", (select) => (select as { value?: string }).value)).toBe("eth");
    expect(await page.$$eval("main ul a", (links) => links.map((link) => link.getAttribute("href")))).toContain(
      `#/nft/eth/${NFT_ADDRESS}`,
    );
    await page.browserContext().close();
    visited = await openConsole(browser, `/?try=eth:${nft.address}`, { root: `http://127.0.0.1:${empty.port}` });
    await shows(visited.page, "The link that you opened suggests");
  } finally {
    await empty.stop();
  }
});

test("indexes a list, changes a collection, removes it after a question, and shows the endpoints", async () => {
  const page = await open("/operate");
  await page.type("#list", `${nft.address}\nnot an address`);
  await press(page, "Index");
  await shows(page, "Line 2 is no address");
  await fill(page, "#list", nft.address);
  await press(page, "Index");
  await shows(page, "1 requested.");
  await synced(service, nft.address);
  await page.type("#which", nft.address);
  await page.locator("[aria-label='Reindex the collection']").click();
  await page.locator("[aria-label='Reindex the collection, confirmed']").click();
  await shows(page, "The collection is indexed again.");
  const { body } = await service.get(`/api/collections/eth/${nft.address}`);
  expect(["indexing", "joining", "following", "requested"]).toContain(body.status);
  await page.locator("[aria-label='Remove the collection']").click();
  await page.locator("[aria-label='Cancel: Remove the collection']").click();
  await synced(service, nft.address);
  await page.locator("[aria-label='Remove the collection']").click();
  await page.locator("[aria-label='Remove the collection, confirmed']").click();
  await eventually("the collection is removed", async () => {
    const described = await service.get(`/api/collections/eth/${nft.address}`);
    return described.body.status === "removed" ? true : undefined;
  });
  await shows(page, "eth_getBlockByNumber");
});

test("adds a key with a rate, shows the line for it, and says when the rate is none", async () => {
  const page = await open("/operate");
  await page.type("#name", "slow");
  await page.type("#rate", "fast");
  expect(
    await page.$eval("main form button[type=submit]", (button) => (button as { disabled?: boolean }).disabled),
  ).toBe(true);
  await fill(page, "#rate", "7");
  const root = `http://127.0.0.1:${service.port}`;
  const line = `curl -X POST -H "X-API-Key: $KEY" -d '{"name":"slow","scope":"read","requestsPerMinute":7}' '${root}/api/keys'`;
  const showsLine = () =>
    eventually("the line is shown", async () => (await linesOf(page)).includes(line) || undefined);
  // What the button would send, and then what the screen has sent.
  await showsLine();
  await press(page, "Add");
  await page.waitForSelector(".made code");
  await showsLine();
  const { body } = await service.get("/api/keys", { "x-api-key": OPERATOR_KEY });
  expect(body.result.find(({ name }: { name: string }) => name === "slow").requestsPerMinute).toBe(7);
});

/** The words of a line, as a shell sees them. */
function wordsOf(line: string, key: string): string[] {
  const shell = Bun.spawnSync(["sh", "-c", `set -- ${line}\nprintf '%s\\n' "$@"`], { env: { KEY: key } });
  return shell.stdout.toString().trimEnd().split("\n");
}

/** The lines for a shell on a screen. Closed parts have no visible text. */
async function linesOf(page: Page): Promise<readonly string[]> {
  const texts = await page.$$eval(".curl pre", (all) => all.map((one) => one.textContent ?? ""));
  return texts.flatMap((text) => text.split("\n")).filter((line) => line !== "");
}

/** Sends a line that begins with `curl`. Returns the status. */
async function send(line: string, key = OPERATOR_KEY): Promise<number> {
  const words = wordsOf(line.replace(/^curl /, ""), key);
  const after = (flag: string) => (words.includes(flag) ? words[words.indexOf(flag) + 1] : undefined);
  const [name = "", value = ""] = (after("-H") ?? "").split(": ");
  const body = after("-d");
  const response = await fetch(words.at(-1) as string, {
    method: after("-X") ?? "GET",
    headers: { [name]: value },
    ...(body === undefined ? {} : { body }),
  });
  await response.body?.cancel();
  return response.status;
}

test("shows lines for a shell that work as they stand", async () => {
  await service.get(`/api/v2/nft/${nft.address}`);
  await synced(service, nft.address);
  const places = ["/", `${pricePlace()}?block=${await anvil.send("eth_blockNumber").then(Number)}`, "/search/weth"];
  const page = await open("/");
  const lines = new Set<string>();
  for (const place of places) {
    await goTo(page, place);
    await eventually(`${place} has lines`, async () => ((await linesOf(page)).length > 0 ? true : undefined));
    if (place.startsWith("/price")) await shows(page, /blocks have a price/);
    for (const line of await linesOf(page)) lines.add(line);
  }
  await goTo(page, "/operate");
  await shows(page, "and on the command line");
  await page.type("#name", "made-by-a-line");
  await page.type("#list", nft.address);
  await page.type("#which", nft.address);
  for (const text of await page.$$eval("code, .curl pre", (all) => all.map((one) => one.textContent ?? "")))
    for (const line of text.split("\n")) if (line.startsWith("SERVICE_KEY=") && !line.includes("<")) lines.add(line);
  const curls = [...lines].filter((line) => line.startsWith("curl"));
  expect(curls.length).toBeGreaterThan(4);
  for (const line of curls) expect([line, await send(line)]).toEqual([line, 200]);
  const commands = [...lines].filter((line) => line.startsWith("SERVICE_KEY=") && !line.includes("--watch"));
  expect(commands.length).toBeGreaterThan(6);
  for (const command of commands) {
    const words = wordsOf(command.slice(command.indexOf(` ${PROGRAM} `) + PROGRAM.length + 2), OPERATOR_KEY);
    const child = Bun.spawn([process.execPath, `${ROOT}src/main.ts`, ...words], {
      env: { PATH: process.env["PATH"] ?? "", SERVICE_KEY: OPERATOR_KEY },
      stdout: "pipe",
      stderr: "pipe",
    });
    const error = await new Response(child.stderr).text();
    expect([command, await child.exited, error]).toEqual([command, 0, error]);
  }
});

test("writes the space in a chain's name so that curl takes the address", async () => {
  const page = await open(`/price/base%20sepolia/${market.demo.address}`);
  await shows(page, "base sepolia is not enabled");
  const curl = (await linesOf(page)).find((line) => line.includes("/price?")) ?? "";
  expect(curl).toContain("chain=base+sepolia");
  expect(await send(curl)).toBe(400);
  // The browser reports the refusal.
  visited = { ...visited, faults: visited.faults.filter((fault) => !fault.includes("400")) };
});
