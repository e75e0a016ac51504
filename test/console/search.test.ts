/** A search says what an address is on a chain and what can be done with it, and never ends in nothing. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import type { Browser, Page } from "puppeteer-core";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import type { Anvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import type { Market } from "../../scripts/local-chain/market.ts";
import { seriousFaults } from "../support/accessibility.ts";
import { fill, goTo, hashOf, OPERATOR_KEY, openConsole, press, shows, startConsoleChain } from "../support/console.ts";
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
let known: Deployed;
let unread: Deployed;
let unsold: Deployed;
let feed: Deployed;
let service: TestService;
let browser: Browser;
let page: Page;

beforeAll(async () => {
  ({ anvil, market } = await startConsoleChain());
  const nft = await contractArtifact("PlainNft");
  known = await deploy(anvil, nft, ["Known", "KNO"]);
  await transact(anvil, known.contract, "mintMany", [anvil.accounts[1], 1, 3]);
  unread = await deploy(anvil, nft, ["Unread", "UNR"]);
  unsold = await deploy(anvil, await contractArtifact("TestToken"), ["Unsold", "UNS", 18]);
  feed = await deploy(anvil, await contractArtifact("PriceFeed"), []);
  const env = { OPERATOR_KEYS: OPERATOR_KEY };
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env });
  await synced(service, known.address);
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await service?.stop();
  await anvil?.stop();
});
afterEach(() => page.browserContext().close());

async function open(text: string, key = OPERATOR_KEY): Promise<void> {
  ({ page } = await openConsole(browser, "/", { root: `http://127.0.0.1:${service.port}`, key }));
  await search(text);
}

/** Searches as a visitor does. */
async function search(text: string): Promise<void> {
  await page.type("input[type=search]", text);
  await press(page, "Search");
  await shows(page, `Search: ${text}`, "h1");
}

async function follow(text: string): Promise<void> {
  await eventually(`the link ${text}`, async () => {
    const isThere = await page.evaluate(`(() => {
      const link = [...document.querySelectorAll("main a")].find((one) => one.textContent === ${JSON.stringify(text)});
      link?.click();
      return link !== undefined;
    })()`);
    return isThere === true ? true : undefined;
  });
}

const wallet = (): string => (anvil.accounts[1] as string).toLowerCase();

test("leads from a token to its price, with or without one", async () => {
  await open(market.demo.address);
  await shows(page, /eth\s+An ERC-20 token: [^(]+\(DEMO\), at \$[\d.,]+\. Go to its price/, "main ul");
  await follow("Go to its price");
  await shows(page, "Where this price comes from");
  await goTo(page, `/search/${unsold.address}`);
  await shows(page, "An ERC-20 token without a price: No pools found", "main ul");
  await follow("See what was asked");
  await shows(page, "No pools found with enough liquidity", ".failure");
});

test("leads to a collection, and to an NFT contract without having it indexed", async () => {
  await open(known.address);
  await shows(page, "An NFT collection: Known KNO. Open the collection", "main ul");
  await goTo(page, `/search/${unread.address}`);
  await shows(page, "An NFT contract that the service has not read.", "main ul");
  const asked = await service.get(`/api/collections/eth/${unread.address}`);
  expect(asked.status).toBe(404);
  await follow("Open the collection");
  await eventually("it is indexed", async () =>
    (await service.get(`/api/collections/eth/${unread.address}`)).status === 200 ? true : undefined,
  );
});

test("says of a wallet where it holds tokens, and leads there", async () => {
  await open(wallet());
  await shows(page, "A wallet: an account without code.", "main ul");
  await shows(page, /It holds tokens in 1 collection at block \d+\.\s+Known: 3 tokens/, "main ul");
  await follow("Known");
  await shows(page, "3 tokens at block");
  expect(await hashOf(page)).toContain(`owner=${wallet()}`);
});

test("says the same to a key of scope read, and looks in another collection on demand", async () => {
  await open(wallet(), TEST_KEY);
  await shows(page, /It holds tokens in 1 collection at block \d+\.\s+Known: 3 tokens/, "main ul");
  await page.type("#collection-on-eth", "0x12");
  await press(page, "Show");
  await shows(page, "The address of a collection has 0x and 40 hexadecimal digits.", "main ul");
  await fill(page, "#collection-on-eth", known.address);
  await press(page, "Show");
  await shows(page, "3 tokens at block");
});

test("says of another contract what it is not, also where it is opened as a collection", async () => {
  await open(feed.address);
  await shows(page, "A contract, but no ERC-20 token. Look for NFTs in it", "main ul");
  await follow("Look for NFTs in it");
  await shows(page, "This contract has no NFTs", "main");
  await shows(page, "A contract without NFTs, and no ERC-20 token: the service has nothing to show of it.", "main");
  await goTo(page, `/nft/eth/${unsold.address}`);
  await shows(page, "This contract has no NFTs", "main");
  await follow("See what was asked");
  await goTo(page, `/nft/eth/${wallet()}`);
  await shows(page, "A wallet: an account without code.", "main");
  await goTo(page, `/price/eth/${known.address}`);
  const text = await shows(page, "An NFT collection: Known KNO.", "main");
  expect(text).not.toContain("has not read");
  await follow("Open the collection");
  await shows(page, "3 tokens at block");
});

test("asks another chain on demand, and names the variable of one that is not enabled", async () => {
  await open(known.address);
  await page.locator("article details summary").click();
  await press(page, "polygon");
  await shows(
    page,
    /polygon\s+This server does not read polygon\. Its operator enables .* RPC_URL_POLYGON\./,
    "main ul",
  );
});

test("says that names of ENS are not resolved, and what a hash and a part of an address are", async () => {
  await open("vitalik.eth");
  const text = await shows(
    page,
    "vitalik.eth looks like a name of ENS. This service does not resolve such names",
    "main",
  );
  expect(text).toContain("in a wallet or at etherscan.io, and search for the address");
  await goTo(page, `/search/0x${"ab".repeat(32)}`);
  await shows(page, "The hash of a transaction or a block has 64 hexadecimal digits, as this has.", "main");
  await goTo(page, `/search/${known.address.slice(0, 12)}`);
  await shows(page, /An address has 40 hexadecimal digits after 0x, and this has 10\.[\s\S]*Known/, "main");
});

test("fits a phone, and passes an accessibility check", async () => {
  await open(wallet());
  await page.setViewport({ width: 360, height: 740, isMobile: true, hasTouch: true });
  for (const [text, words] of [
    [wallet(), "Known: 3 tokens"],
    [market.demo.address, "Go to its price"],
    [feed.address, "no ERC-20 token"],
    ["vitalik.eth", "name of ENS"],
  ] as const) {
    await goTo(page, `/search/${text}`);
    await shows(page, words, "main");
    await page.evaluate("document.querySelector('main details')?.setAttribute('open', '')");
    const width = await page.evaluate("document.documentElement.scrollWidth");
    expect([text, width, await seriousFaults(page)]).toEqual([text, 360, []]);
  }
});
