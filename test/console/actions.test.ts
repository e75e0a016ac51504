/** The actions of the console where their objects are, and the tokens that the prices begin with, in a real browser. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import type { Browser, Page } from "puppeteer-core";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import type { Anvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import type { Market } from "../../scripts/local-chain/market.ts";
import { COLLECTION_WORDS } from "../../src/status-words.ts";
import type { Visit } from "../support/browser.ts";
import {
  goTo,
  hashOf,
  OPERATOR_KEY,
  openConsole,
  press,
  shows,
  startConsoleChain,
  textOf,
} from "../support/console.ts";
import {
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

let anvil: Anvil;
let market: Market;
let service: TestService;
let browser: Browser;
let visited: Visit;

beforeAll(async () => {
  ({ anvil, market } = await startConsoleChain());
  const env = { OPERATOR_KEYS: OPERATOR_KEY, RPC_URL_POLYGON: anvil.url };
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

async function open(place: string, key = OPERATOR_KEY): Promise<Page> {
  visited = await openConsole(browser, place, { root: `http://127.0.0.1:${service.port}`, key });
  return visited.page;
}

/** Forgets that the browser wrote refused requests of these statuses to its own list. */
function expectRefusals(...statuses: readonly number[]): void {
  const isExpected = (fault: string) => statuses.some((status) => fault.includes(`status of ${status}`));
  expect(visited.faults.filter((fault) => !isExpected(fault))).toEqual([]);
  visited = { ...visited, faults: [] };
}

async function collectionOf(count: number, name: string): Promise<Deployed> {
  const nft = await deploy(anvil, await contractArtifact("PlainNft"), [name, "ACT"]);
  await transact(anvil, nft.contract, "mintMany", [anvil.accounts[1], 1, count]);
  return nft;
}

/** Waits until the service has all of a collection, with the outcome of its metadata. */
async function settled(nft: Deployed, count: number): Promise<void> {
  await synced(service, nft.address, Number(await anvil.send("eth_blockNumber")));
  await eventually("its metadata was tried", async () => {
    const { body } = await service.get(`/api/collections/eth/${nft.address}`);
    return body.metadata.failed === count || undefined;
  });
}

const statusOf = async ({ address }: Deployed): Promise<string> =>
  (await service.get(`/api/collections/eth/${address}`)).body.status;

/** Clicks an action that asks first, then its answer. */
async function answer(page: Page, label: string, isConfirmed: boolean): Promise<void> {
  if ((await page.$(".actions:not([open])")) !== null) await page.locator(".actions summary").click();
  await page.locator(`[aria-label='${label}']`).click();
  await shows(page, "Sure?", ".confirm");
  await page.locator(`[aria-label='${isConfirmed ? `${label}, confirmed` : `Cancel: ${label}`}']`).click();
}

test("indexes a contract from the overview although others are listed, and links to it", async () => {
  const first = await collectionOf(2, "Earlier");
  await synced(service, first.address);
  const nft = await collectionOf(3, "Later");
  const page = await open("/");
  await shows(page, "Earlier", "table");
  await shows(page, "Index a collection", "h2");
  await page.type("#first", "not an address");
  await press(page, "Index");
  await shows(page, "An address has 0x and 40 hexadecimal digits.", "main form");
  await page.$eval("#first", (field) => (field as unknown as { select(): void }).select());
  await page.type("#first", nft.address);
  await press(page, "Index");
  await shows(page, "Requested.", "main form");
  await shows(page, "is new", "main");
  await shows(page, new RegExp(`Later[\\s\\S]*${COLLECTION_WORDS.following.word}`), "main");
  await press(page, "Index");
  await shows(page, `was known: ${COLLECTION_WORDS.following.word}`, "main");
  await page.locator("[aria-label='Requested contracts'] a").click();
  await shows(page, "3 tokens at block");
});

test("refreshes, reindexes and exports a collection on its page, and asks before what costs a history", async () => {
  const nft = await collectionOf(3, "Acted on");
  await settled(nft, 3);
  const page = await open(`/nft/eth/${nft.address}`);
  await shows(page, "3 tokens at block");
  const sent: string[] = [];
  page.on("request", (request) => {
    if (["POST", "DELETE"].includes(request.method()))
      sent.push(`${request.method()} ${new URL(request.url()).pathname}`);
  });
  const path = `/api/collections/eth/${nft.address}`;
  await press(page, "Refresh metadata");
  await shows(page, "The metadata of all tokens is fetched again.", "[aria-label=Actions]");
  await answer(page, "Reindex the collection", false);
  expect(sent).toEqual([`POST ${path}/refresh`]);
  await answer(page, "Reindex the collection", true);
  await shows(page, "The collection is indexed again.", "[aria-label=Actions]");
  expect(sent).toEqual([`POST ${path}/refresh`, `POST ${path}/reindex`]);
  await shows(page, "3 tokens at block");
  await page.locator("[aria-label=Actions] a").click();
  await shows(page, "The file has the collection at block", "[role=tabpanel]");
  expect(await hashOf(page)).toBe(`#/nft/eth/${nft.address}?view=export`);
  // A page of the gallery that was under way when the collection began anew.
  expectRefusals(409);
});

test("removes a collection on its own page, and asks for no listing that would have it indexed again", async () => {
  const nft = await collectionOf(3, "Removed");
  await settled(nft, 3);
  const page = await open(`/nft/eth/${nft.address}`);
  await shows(page, "3 tokens at block");
  const session = await page.createCDPSession();
  await session.send("Network.enable");
  const messages: string[] = [];
  session.on("Network.webSocketFrameReceived", ({ response }) => messages.push(response.payloadData));
  const { promise: moved, resolve: release } = Promise.withResolvers<void>();
  await page.setRequestInterception(true);
  page.on("request", async (request) => {
    if (request.method() === "DELETE") await moved;
    await request.continue();
  });
  await page.waitForNetworkIdle({ idleTime: 1_600 });
  const asked = visited.requests.length;
  await answer(page, "Remove the collection", true);
  // While the request is under way, a token is minted, which has an open page look at its newest block.
  await page.waitForFunction("document.querySelector('.gallery') === null");
  await transact(anvil, nft.contract, "mint", [anvil.accounts[2], 4n]);
  await eventually("the page hears of it", async () => messages.some((one) => one.includes("transfers")) || undefined);
  release();
  await shows(page, "An operator removed this collection");
  expect(await page.$$(".gallery, .slider, [aria-label=Actions]")).toHaveLength(0);
  await page.waitForNetworkIdle({ idleTime: 1_600 });
  expect(visited.requests.slice(asked).filter((path) => path.startsWith("/api/v2/nft/"))).toEqual([]);
  expect(await statusOf(nft)).toBe("removed");
  await goTo(page, "/");
  await shows(page, /Removed[\s\S]*removed/, "table");
});

test("shows a key of scope read which scope the actions need, and lets it export", async () => {
  const nft = await collectionOf(2, "Read only");
  await settled(nft, 2);
  const page = await open(`/nft/eth/${nft.address}`, TEST_KEY);
  await page.locator(".actions summary").click();
  await shows(page, "need a key of scope operate", "[aria-label=Actions]");
  const buttons = await page.$$eval("[aria-label=Actions] button", (all) =>
    all.map((one) => [one.textContent, (one as unknown as { disabled: boolean }).disabled]),
  );
  expect(buttons).toEqual([
    ["Refresh metadata", true],
    ["Reindex", true],
    ["Remove", true],
  ]);
  await page.locator("[aria-label=Actions] a").click();
  await shows(page, "The file has the collection at block");
  await press(page, "csv");
  await shows(page, "Saved eth-");
  // Its overview opens any collection, on any enabled chain.
  await goTo(page, "/");
  await shows(page, "need a key of scope operate", "main");
  await page.type("#first", nft.address);
  await press(page, "Open");
  await shows(page, "2 tokens at block");
  expectRefusals(403);
});

test("offers the same menu of enabled chains wherever a chain is asked for", async () => {
  const menusAt = async (page: Page, place: string, count: number): Promise<string[][]> => {
    await goTo(page, place);
    return eventually(`${place} has ${count} menus`, async () => {
      const menus =
        (await page.evaluate(`[...document.querySelectorAll("label")].filter((one) => one.innerText === "Chain")
        .map((one) => [...document.getElementById(one.htmlFor).options].map((option) => option.value))`)) as string[][];
      return menus.length === count && menus.every((menu) => menu.length > 1) ? menus : undefined;
    });
  };
  const page = await open("/");
  const menus = [
    ...(await menusAt(page, "/", 1)),
    ...(await menusAt(page, "/price", 2)),
    ...(await menusAt(page, `/price/eth/${market.demo.address}`, 1)),
    ...(await menusAt(page, "/operate", 2)),
  ];
  expect(menus).toEqual(Array(6).fill(["eth", "polygon"]));
  expect(visited.faults).toEqual([]);
  await page.browserContext().close();
  const reader = await open("/price", TEST_KEY);
  expect(await menusAt(reader, "/price", 2)).toEqual(Array(2).fill(["eth", "polygon"]));
  expect(await menusAt(reader, "/", 1)).toEqual([["eth", "polygon"]]);
  expectRefusals(403);
});

test("begins the prices with the known tokens of a chain and with those that were looked at last", async () => {
  const demo = market.demo.address.toLowerCase();
  const page = await open("/price");
  const known = await shows(page, /WETH[\s\S]*UNI/, "[aria-label='Known tokens']");
  expect(known).not.toContain("WPOL");
  expect(await textOf(page)).not.toContain("Recently viewed");
  await goTo(page, "/price/polygon");
  await shows(page, "WPOL", "[aria-label='Known tokens']");
  await goTo(page, "/price");
  await shows(page, "WETH", "[aria-label='Known tokens']");
  await page.select("#known-chain", "polygon");
  await shows(page, "WPOL", "[aria-label='Known tokens']");
  await page.type("#known-text", "nothing at all");
  await shows(page, "Enter its address above", "main");
  // Tokens are kept once their price was shown.
  await page.type("#token", demo);
  await press(page, "Show");
  await shows(page, "Demo Token", "h1");
  await goTo(page, "/price");
  await shows(page, /DEMO eth\s+Demo Token/, "[aria-label='Recently viewed tokens']");
  await page.locator("[aria-label='Known tokens'] a").click();
  await shows(page, "WETH", "h1 small");
  await goTo(page, "/price");
  await page.reload();
  const seen = await shows(page, /WETH[\s\S]*DEMO/, "[aria-label='Recently viewed tokens']");
  expect(seen.match(/DEMO eth/g)).toHaveLength(1);
  // Another release may have kept something else.
  for (const other of ["{", '{"a":1}', '[null,{"chain":"eth","address":"x","symbol":"X"}]']) {
    await page.evaluate(`localStorage.setItem("evm-data-tokens:/", ${JSON.stringify(other)})`);
    await page.reload();
    await shows(page, "WETH", "[aria-label='Known tokens']");
    expect(await textOf(page)).not.toContain("Recently viewed");
  }
});
