/** A visitor finds the one thing that they came for: a token, its holders, its facts, a wallet, a price of the past. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import type { Browser, Page } from "puppeteer-core";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import type { Visit } from "../support/browser.ts";
import { fill, goTo, hashOf, OPERATOR_KEY, openConsole, press, shows, textOf } from "../support/console.ts";
import { type ScreenWorld, startScreens } from "../support/console-screens.ts";
import { eventually, synced, TEST_KEY } from "../support/service.ts";

const LARGE = 3_000;
const HUGE = 2n ** 255n;
/** An emoji of three with its joiners, and a Persian word with its own. */
const NAME = "Crew 👩\u200d👩\u200d👧 می\u200cخواهم";
const LONG_NAME = "The very long name of a token ".repeat(12).trim();

let world: ScreenWorld;
let large: Deployed;
let story: Deployed;
let browser: Browser;
let visited: Visit;

const account = (at: number): string => (world.anvil.accounts[at] as string).toLowerCase();
const placeOf = ({ address }: Deployed): string => `/nft/eth/${address}`;

beforeAll(async () => {
  world = await startScreens();
  const { anvil, service } = world;
  large = await deploy(anvil, await contractArtifact("PlainNft"), ["Large", "LRG"]);
  for (let first = 1; first <= LARGE; first += 500)
    await transact(anvil, large.contract, "mintMany", [account(1), first, 500]);
  story = await deploy(anvil, await contractArtifact("StoryNft"), ["Story", "STO"]);
  const documentOf = (name: string) => ({
    ...{ name, description: "A film", external_url: "https://story.example/1" },
    ...{ image: "ipfs://bafy/1.png", animation_url: "https://media.example/film.mp4?size=1" },
  });
  const stories = [NAME, LONG_NAME].map(
    (name) => `data:application/json,${encodeURIComponent(JSON.stringify(documentOf(name)))}`,
  );
  await transact(anvil, story.contract, "mintStories", [account(1), 1, stories]);
  await transact(anvil, large.contract, "burn", [2_000n]);
  for (const { address } of [large, story]) await synced(service, address);
  await eventually("the stories are known", async () => {
    const { body } = await service.get(`/api/v2/nft/${story.address}?normalizeMetadata=true`);
    return body.result.every((one: { metadata: unknown }) => one.metadata !== null) || undefined;
  });
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await world?.stop();
});
afterEach(async () => {
  // The browser itself writes a refused request to its console.
  expect(visited.faults.filter((fault) => !fault.includes("the server responded with a status of"))).toEqual([]);
  await visited.page.browserContext().close();
});

async function open(place: string, key = OPERATOR_KEY): Promise<Page> {
  visited = await openConsole(browser, place, { root: world.root, key });
  return visited.page;
}

const search = async (page: Page, text: string) => {
  await fill(page, "input[type=search]", text);
  await page.keyboard.press("Enter");
};

test("the search finds a token that was priced here and is on no list", async () => {
  const { address } = world.market.demo;
  const found = async () => (await world.service.get("/api/tokens?text=demo t")).body.result;
  expect(await found()).toEqual([]);
  await world.service.get(`/api/v2/erc20/${address}/price`);
  const token = { chain: "eth", address, symbol: "DEMO", name: "Demo Token" };
  await eventually("its price is in the log", async () => ((await found()).length > 0 ? true : undefined));
  expect(await found()).toEqual([token]);
  expect((await world.service.get(`/api/tokens?text=${address}`)).body.result).toEqual([token]);
  const page = await open("/", TEST_KEY);
  await search(page, "demo t");
  await shows(page, "Demo Token", "[aria-label='ERC-20 tokens']");
});

test("a token of thousands is two actions away, also by a huge or a hexadecimal id", async () => {
  const page = await open(placeOf(large));
  await page.waitForSelector("#token-id");
  await page.type("#token-id", "2731");
  await page.keyboard.press("Enter");
  await shows(page, "#2731", "h1");
  await shows(page, `Owner\n${account(1).slice(0, 6)}`, "dl");
  for (const id of [`${HUGE}`, `0x${HUGE.toString(16)}`]) {
    await goTo(page, placeOf(world.multi));
    await page.waitForSelector("#token-id");
    await page.type("#token-id", id);
    await page.keyboard.press("Enter");
    await shows(page, "Supply\n18", "dl");
    expect(await hashOf(page)).toBe(`#${placeOf(world.multi)}/${HUGE}`);
  }
  await goTo(page, placeOf(large));
  await page.waitForSelector("#token-id");
  await page.type("#token-id", "ape");
  await page.keyboard.press("Enter");
  await shows(page, "A token id is a whole number.");
});

test("a token leads to those before and after it, by number, or as the gallery had them", async () => {
  const page = await open(`${placeOf(large)}/2731`);
  await shows(page, "← #2730", ".neighbours");
  await page.locator(".neighbours a:last-child").click();
  await shows(page, "#2732", "h1");
  await goTo(page, `${placeOf(large)}/1`);
  await shows(page, "#1", "h1");
  expect(await shows(page, "#2 →", ".neighbours")).not.toContain("←");
  await goTo(page, placeOf(large));
  await page.locator(".gallery a[href$='/3']").click();
  await shows(page, "#3", "h1");
  expect(await textOf(page, ".neighbours")).toMatch(/← #2\s+#4 →/);
  await goTo(page, `${placeOf(world.multi)}/${HUGE}`);
  await shows(page, "2 holders");
  expect(await page.$(".neighbours")).toBeNull();
});

test("the search takes links of markets and explorers, a chain with an address, and an address with an id", async () => {
  const page = await open("/");
  for (const text of [
    `https://opensea.io/assets/ethereum/${large.address}/2731`,
    `https://etherscan.io/nft/${large.address}/2731`,
    `https://eth.blockscout.com/token/${large.address}/instance/2731`,
    `eth:${large.address}/2731`,
  ]) {
    await goTo(page, "/");
    await shows(page, "Overview", "h1");
    await search(page, text);
    await shows(page, "#2731", "h1");
    expect(await hashOf(page)).toBe(`#${placeOf(large)}/2731`);
    // The search leaves no step of its own behind.
    await page.goBack();
    await shows(page, "Overview", "h1");
  }
  await search(page, `${large.address}/2731`);
  await shows(page, "An NFT collection: Large LRG. Open its token 2731", "main ul");
  await search(page, `https://etherscan.io/token/${world.market.demo.address}`);
  await shows(page, /An ERC-20 token: [^(]+\(DEMO\), at/, "main ul");
  await search(page, "https://opensea.io/collection/large");
  await shows(page, "Large", "table");
});

test("a key of scope read gets a list of collections, which a text narrows", async () => {
  const page = await open("/", TEST_KEY);
  for (const name of ["Large", "Story"]) await shows(page, name, "[aria-label=Collections]");
  await page.type("#known-collections", "stor");
  await eventually("the others are gone", async () => {
    const text = await textOf(page, "[aria-label=Collections]");
    return (text.includes("Story") && !text.includes("Large")) || undefined;
  });
  await search(page, "drawn");
  await shows(page, "Drawn", "[aria-label=Collections]");
});

test("the holders of one id of many come from their route, with their shares", async () => {
  const page = await open(`${placeOf(world.multi)}/${HUGE}`);
  await shows(page, "2 holders");
  const rows = await textOf(page, "[aria-label=Holders]");
  for (const owner of [1, 2]) expect(rows).toMatch(new RegExp(`${account(owner)}\\s+9\\s+50%`));
  const asked = visited.requests.filter((path) => path.includes(`/tokens/${HUGE}/`));
  expect(asked.some((path) => path.includes("/holders?"))).toBe(true);
});

test("a token's page has its contract, its standard, its traits with their shares, and links to the same trait", async () => {
  const page = await open(`${placeOf(world.drawn)}/1`);
  await shows(page, /Contract\s+0x[\s\S]*Standard\s+ERC721/, "dl");
  await shows(page, "12.5% of the collection", ".attributes");
  expect(await page.title()).toBe("Edition 1 · Drawn · EVM data service");
  await page.locator(".attributes a").click();
  await shows(page, "5 tokens at block");
  await shows(page, /^Colour:/, ".chips");
});

test("a token's page has what its metadata names: description, original, its own page, and a film that waits to be played", async () => {
  const page = await open(`${placeOf(story)}/1`);
  await shows(page, "A film", ".details");
  const facts = await textOf(page, ".details dl");
  expect(facts).toContain("Original picture\nipfs.io");
  expect(await page.$eval(".details a[title='ipfs://bafy/1.png']", (link) => link.getAttribute("href"))).toBe(
    "https://ipfs.io/ipfs/bafy/1.png",
  );
  expect(facts).toContain("Its own page\nstory.example");
  expect(await page.$eval(".details a[href^='https://story.example']", (link) => link.getAttribute("rel"))).toContain(
    "noreferrer",
  );
  expect(visited.faults).toEqual([]);
  await page.setRequestInterception(true);
  const wanted = new Promise<string>((resolve) => {
    page.on("request", (request) => {
      if (!request.url().startsWith("https://media.example/")) return void request.continue();
      resolve(request.url());
      void request.respond({ status: 404 });
    });
  });
  await press(page, "Play the video from media.example");
  // The page's policy lets the film in: the browser asks for it.
  expect(await wanted).toBe("https://media.example/film.mp4?size=1");
  expect(visited.faults.filter((fault) => !/media\.example|status of 404/.test(fault))).toEqual([]);
  visited = { ...visited, faults: [] };
});

test("a burned token says in which block, and fetches nothing in the background", async () => {
  const page = await open(`${placeOf(large)}/2000`);
  const { body } = await world.service.get(`/api/collections/eth/${large.address}/tokens/2000`);
  await shows(page, `Burned in block ${body.history[0].block}.`);
  expect(await textOf(page, "main")).not.toContain("in the background");
});

test("a name keeps its joiners, and a long one stands on two lines until its whole is asked for", async () => {
  const page = await open(`${placeOf(story)}/1`);
  await shows(page, NAME, "h1");
  await page.setViewport({ width: 390, height: 800, isMobile: true, hasTouch: true });
  await goTo(page, `${placeOf(story)}/2`);
  await shows(page, "The very long name", "h1");
  const lines = async () =>
    (await page.evaluate(`(() => {
      const heading = document.querySelector("h1");
      return Math.round(heading.clientHeight / parseFloat(getComputedStyle(heading).lineHeight));
    })()`)) as number;
  expect(await lines()).toBe(2);
  await press(page, "Whole name");
  await eventually("the whole name stands there", async () => (await lines()) > 4 || undefined);
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(390);
});

test("an account is titled as a wallet, says what it holds, and leaves no row in the list of collections", async () => {
  const page = await open(`/nft/eth/${account(1)}`);
  await shows(page, "Wallet 0x", "h1");
  await shows(page, /It holds tokens in \d collections at block [\d,]+\.[\s\S]*Large: 2,999 tokens/, "main");
  expect(await page.title()).toMatch(/^Wallet 0x/);
  await goTo(page, "/");
  const rows = await shows(page, "Large", "[aria-label=Collections]");
  expect(rows).not.toMatch(/unnamed|no contract/);
});

test("on a phone the pictures come before the buttons of an operator, which stand in a menu", async () => {
  const page = await open(placeOf(world.drawn));
  await page.setViewport({ width: 390, height: 800, isMobile: true, hasTouch: true });
  await page.waitForSelector(".gallery img");
  const isSeen = () => page.$eval("[aria-label=Actions]", (actions) => actions.checkVisibility());
  expect(await isSeen()).toBe(false);
  await page.locator(".actions summary").click();
  await eventually("the buttons are there", async () => (await isSeen()) || undefined);
});

test("a price of the past has its block's time, the curve stands right below it, and the pointer reads it in UTC", async () => {
  const page = await open(`/price/eth/${world.market.demo.address}`);
  await shows(page, /[1-9]\d* of 25 blocks have a price/);
  await page.waitForSelector(".curve canvas");
  expect(await page.title()).toBe("Demo Token DEMO · EVM data service");
  const order = (await page.evaluate(`[".amount", ".curve", "dl", ".route"].map((part) =>
    document.querySelector(part).getBoundingClientRect().top)`)) as number[];
  expect(order).toEqual([...order].sort((a, b) => a - b));
  const over = await (await page.$(".curve .u-over"))?.boundingBox();
  await page.mouse.move((over?.x ?? 0) + (over?.width ?? 0) - 5, (over?.y ?? 0) + 50);
  await shows(page, /Time\s*\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC\s*Price\s*\$[\d.,]+/, ".curve .u-legend");
  await page.select("#span", "all that is stored");
  await shows(page, /[1-9]\d* of \d+ blocks have a price/);
  const timeOf = async (number: number) => {
    const header = await world.anvil.send("eth_getBlockByNumber", [`0x${number.toString(16)}`, false]);
    return Number((header as { timestamp: string }).timestamp) * 1_000;
  };
  // Local blocks may share a second, and a time is that of the last of them.
  let block = Number(await world.anvil.send("eth_blockNumber")) - 1;
  while ((await timeOf(block)) === (await timeOf(block + 1))) block--;
  const time = new Date(await timeOf(block)).toISOString();
  await page.type("#at", time.slice(0, 19));
  await page.keyboard.press("Enter");
  await shows(page, `Block ${block}, ${time.slice(0, 19).replace("T", " ")} UTC`, "main");
});
