/**
 * The console as a visitor uses it: a real browser against the real service on a real chain. No screen may ask another
 * origin, write an error, or violate its content security policy.
 */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import type { Browser, Page } from "puppeteer-core";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import { type Anvil, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, prepare, read, transact } from "../../scripts/local-chain/contracts.ts";
import { placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import type { Visit } from "../support/browser.ts";
import { OPERATOR_KEY, openConsole, openGate, press, shows, signIn, slideTo, textOf } from "../support/console.ts";
import { latentProxy } from "../support/latency.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

const KEY = OPERATOR_KEY;
const LARGE = 5_000;
const [ATTACK_NAME, ATTACK_TRAIT] = ['<img src=x onerror="alert(1)">', "</li><script>alert(2)</script>"];

let anvil: Anvil;
let market: Market;
let large: Deployed;
let hostile: Deployed;
let service: TestService;
let browser: Browser;
let root: string;
/** The visit of the running test. Its faults are asserted after each one. */
let visited: Visit;

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 8 * 3_600 });
  await placeMainnet(anvil);
  market = await seedMarket(anvil, { hours: 4 });
  large = await deploy(anvil, await contractArtifact("PlainNft"), ["Large", "LRG"]);
  for (let first = 1; first <= LARGE; first += 500)
    await transact(anvil, large.contract, "mintMany", [anvil.accounts[1], first, 500]);
  hostile = await deploy(anvil, await contractArtifact("PlainNft"), [ATTACK_NAME, "‮</title>"]);
  await transact(anvil, hostile.contract, "setBaseURI", hostileMetadata());
  await transact(anvil, hostile.contract, "mintMany", [anvil.accounts[1], 1, 3]);
  const env = { OPERATOR_KEYS: KEY, METADATA_ALLOW_PRIVATE: "true" };
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env });
  root = `http://127.0.0.1:${service.port}`;
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

/** Metadata whose texts and drawing attack the page. */
function hostileMetadata(): [string, string] {
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(3)"><script>alert(4)</script><rect width="9" height="9"/></svg>`;
  const rest = {
    description: ATTACK_NAME,
    image: `data:image/svg+xml;base64,${btoa(svg)}`,
    attributes: [{ trait_type: ATTACK_TRAIT, value: ATTACK_NAME }],
  };
  const start = `{"name":"${ATTACK_NAME.replaceAll('"', '\\"')} `;
  const end = `",${JSON.stringify(rest).slice(1)}`;
  return [`data:application/json,${encodeURIComponent(start)}`, encodeURIComponent(end)];
}

/** Opens a place of the console, signed in unless `isOut`. */
async function open(place: string, { isOut = false, at = root, key = KEY } = {}): Promise<Page> {
  visited = isOut ? await openGate(browser, place, at) : await openConsole(browser, place, { root: at, key });
  return visited.page;
}

const countOf = async (page: Page, selector: string): Promise<number> => (await page.$$(selector)).length;
const nftPlace = ({ address }: Deployed) => `/nft/eth/${address}`;

test("tells nothing of the data without a key, refuses a wrong one, and keeps the right one in this tab only", async () => {
  const page = await open("/", { isOut: true });
  const asked = () => visited.requests.filter((path) => path.startsWith("/api"));
  expect(asked()).toEqual([]);
  expect(await textOf(page)).toContain("API key");
  await signIn(page);
  await shows(page, "Overview");
  await page.reload();
  await shows(page, "Chains");
  const stored = await page.evaluate("[document.cookie, localStorage.length, sessionStorage.length, location.href]");
  expect(stored).toEqual(["", 0, 1, `${root}/#/`]);
  expect(visited.requests.filter((path) => path.includes(KEY))).toEqual([]);
  await press(page, "Sign out");
  await page.waitForSelector("#key");
  expect(await page.evaluate("sessionStorage.length")).toBe(0);
});

test("refuses a wrong key in words", async () => {
  const page = await open("/", { isOut: true });
  await page.type("#key", "wrong-key-0123456789");
  await page.keyboard.press("Enter");
  await page.waitForSelector("[role=alert]");
  expect(await textOf(page, "[role=alert]")).toContain("key");
  // The browser itself writes a refused request to its console.
  expect(visited.faults.filter((fault) => !fault.includes("status of 401"))).toEqual([]);
  visited = { ...visited, faults: [] };
});

test("says what to do first, then moves a bar until the requested contract is done", async () => {
  await anvil.mine(400);
  const proxy = await latentProxy(anvil.url, 400, ({ method, params }) => {
    if (method !== "eth_getLogs") return undefined;
    const { fromBlock, toBlock } = params[0] as { fromBlock: string; toBlock: string };
    const isWide = Number(toBlock) - Number(fromBlock) >= 10;
    return isWide
      ? { error: { code: -32_000, message: "block range is too large, the limit is 10 blocks" } }
      : undefined;
  });
  const empty = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl(), env: { OPERATOR_KEYS: KEY } });
  try {
    const page = await open("/", { at: `http://127.0.0.1:${empty.port}` });
    await shows(page, "Begin here");
    await page.type("#first", large.address);
    await press(page, "Index");
    await page.waitForSelector("[role=progressbar]");
    // The page itself notes where the bar was: a busy machine may look at it too rarely.
    await page.evaluate(`
      window.seen = [];
      const note = () => {
        const now = document.querySelector("[role=progressbar]")?.getAttribute("aria-valuenow");
        if (now != null && now !== seen.at(-1)) seen.push(now);
      };
      note();
      new MutationObserver(note).observe(document.body, { subtree: true, childList: true, attributes: true });
    `);
    await page.waitForFunction("document.body.innerText.includes('complete')", { timeout: 60_000 });
    const seen = new Set((await page.evaluate("seen")) as string[]);
    expect(seen.size).toBeGreaterThan(2);
    await page.goto("about:blank");
  } finally {
    await empty.stop();
    await proxy.stop();
  }
});

test("pages a gallery of five thousand tokens, of which only those in view are elements", async () => {
  await synced(service, large.address);
  const page = await open(nftPlace(large));
  await shows(page, "5,000 tokens");
  await shows(page, "#1\n");
  const end = await page.evaluate(`(() => {
    window.scrollTo(0, document.documentElement.scrollHeight);
    return document.querySelector(".gallery").scrollHeight;
  })()`);
  expect(end).toBeGreaterThan(100_000);
  await shows(page, `#${LARGE}\n`, ".gallery");
  expect(await countOf(page, ".gallery li")).toBeLessThan(100);
  // A transfer replaces what is shown, at the place that is shown.
  await transact(anvil, large.contract, "move", [anvil.accounts[1], anvil.accounts[2], BigInt(LARGE)]);
  const receiver = anvil.accounts[2] as string;
  await shows(page, `#${LARGE}\n${receiver.slice(0, 6)}…${receiver.slice(-4)}`, ".gallery");
  await transact(anvil, large.contract, "move", [anvil.accounts[2], anvil.accounts[1], BigInt(LARGE)]);
  // A token leads to its own page.
  await page.locator(".gallery a").click();
  await shows(page, "Transfers, newest first");
  await shows(page, new RegExp(`minted\\s+${brief(anvil.accounts[1] as string)}`), "table");
});

test("shows the owners that the contract had at a block of the past", async () => {
  const nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Moving", "MOV"]);
  await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 7n]);
  const owners: string[] = [];
  const first = Number(await anvil.send("eth_blockNumber"));
  for (let step = 0; step < 6; step++) {
    owners.push((await read<string>(nft.contract, "ownerOf", [7n])).toLowerCase());
    await transact(anvil, nft.contract, "move", [anvil.accounts[step + 1], anvil.accounts[step + 2], 7n]);
  }
  await synced(service, nft.address, first + 6);
  const page = await open(nftPlace(nft));
  await shows(page, brief(anvil.accounts[7] as string), ".gallery");
  for (const [step, owner] of owners.entries()) {
    await slideTo(page, first + step);
    await shows(page, brief(owner), ".gallery");
    const time = Number(
      ((await anvil.send("eth_getBlockByNumber", [`0x${(first + step).toString(16)}`, false])) as { timestamp: string })
        .timestamp,
    );
    await shows(page, new Date(time * 1_000).toISOString().slice(0, 19).replace("T", " "), ".slider");
  }
});

const brief = (address: string) => `${address.slice(0, 6)}…${address.slice(-4)}`;

test("shows transfers and a reorganisation as they happen", async () => {
  const nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Live", "LIV"]);
  await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 7n]);
  await anvil.mine(1);
  const page = await open(nftPlace(nft));
  await shows(page, "1 NFT", "main");
  await press(page, "Activity");
  await shows(page, /#7\s+minted\s/, "table");
  await shows(page, /With metadata: 0 tokens\. Failed: 1 token\.[\s\S]*no uri 1 token/);
  const { blockNumber } = await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 8n]);
  const receiver = brief(anvil.accounts[1] as string);
  await shows(page, new RegExp(`UTC\\s+${Number(blockNumber)}\\s+#8\\s+minted\\s+${receiver}\\s+1\\s`), "table");
  await shows(page, "2 NFTs", ".heading");

  const mint = await prepare(nft.contract, "mint", [anvil.accounts[2], 9n]);
  await reorg(anvil, 1, [{ ...mint, block: 0, from: anvil.accounts[0] as string }]);
  await anvil.mine(1);
  await shows(page, "The chain was reorganised", ".happenings");
  expect(await shows(page, /#9\s+minted\s[\s\S]*#7\s+minted\s/, "table")).not.toContain("#8");
  await press(page, "Gallery");
  const text = await shows(page, "#9\n", ".gallery");
  expect(text).not.toContain("#8\n");
});

test("recomputes a price to its last digit, and tells why another token has none", async () => {
  const page = await open(`/price/eth/${market.demo.address}`);
  await shows(page, "Demo Token");
  await press(page, "Recompute here");
  await page.waitForSelector("[data-check=same]");
  const { usdPriceFormatted } = (await service.get(`/api/v2/erc20/${market.demo.address}/price`)).body;
  expect(await textOf(page, "[data-check]")).toContain(`$${usdPriceFormatted} (`);
  // What a holder would get for a thousand dollars of it.
  const trade = await shows(page, /A simulated sale\s+went through/);
  const { depth } = (await service.get(`/api/v2/erc20/${market.demo.address}/price?include=depth`)).body;
  expect(trade).toContain(`, ${Number(depth.impactPercent).toFixed(2)}% less`);
  // The price for people, and below it all its digits.
  const [rounded, exact] = [await textOf(page, ".amount"), await textOf(page, ".exact")];
  expect(rounded).toMatch(/^\$[\d,]*\.?\d{0,6}$/);
  expect(Number(rounded.replace(/[$,]/g, ""))).toBeCloseTo(Number(usdPriceFormatted), 4);
  expect([exact, exact.length > rounded.length]).toEqual([`exactly $${usdPriceFormatted}`, true]);
  // The curve of the hours before, and the price at a block of it.
  await shows(page, /[1-9]\d* of 25 blocks have a price/);
  await page.waitForSelector(".curve canvas");
  await page.locator("details:has(table) summary").click();
  const chosen = await textOf(page, "tr:nth-child(20) button");
  await page.locator("tr:nth-child(20) button").click();
  await shows(page, `Block ${chosen}, `);
  await press(page, "Recompute here");
  await page.waitForSelector("[data-check=same]");
  const { address } = await deploy(anvil, await contractArtifact("TestToken"), ["Unsold", "UNS", 18]);
  await anvil.mine(1);
  await page.evaluate(`location.hash = "/price/eth/${address}"`);
  await shows(page, "No pools found with enough liquidity");
  // The browser itself writes a refused request to its console.
  expect(visited.faults.filter((fault) => !fault.includes("status of 404"))).toEqual([]);
  visited = { ...visited, faults: [] };
});

test("adds and revokes keys, and forgets a key that is revoked", async () => {
  const page = await open("/operate");
  await shows(page, "OPERATOR_KEYS#1");
  await page.type("#name", "visitor");
  await page.select("#scope", "operate");
  await press(page, "Add");
  await page.waitForSelector(".made code");
  const key = await textOf(page, ".made code");
  expect(key).toHaveLength(43);
  await page.browserContext().close();
  const other = await open("/operate", { key });
  await shows(other, "visitor");
  await other.locator("[aria-label='Revoke visitor']").click();
  await other.locator("[aria-label='Revoke visitor, confirmed']").click();
  await other.waitForSelector("#key");
  expect(await other.evaluate("sessionStorage.length")).toBe(0);
  expect(visited.faults.filter((fault) => !fault.includes("status of 401"))).toEqual([]);
  visited = { ...visited, faults: [] };
});

test("filters by owner, shows holders with their shares, and saves an export", async () => {
  const page = await open(nftPlace(large));
  await shows(page, "5,000 tokens");
  await page.type("#owner", anvil.accounts[3] as string);
  await press(page, "Filter");
  await shows(page, "0 tokens at block");
  await press(page, "Holders");
  await shows(page, new RegExp(`1\\s+${anvil.accounts[1]}\\s+5,000\\s+100%`), "table");
  await press(page, "Export");
  await press(page, "csv");
  await shows(page, "Saved eth-");
});

test("renders hostile names, traits and drawings as text and as a harmless picture", async () => {
  await synced(service, hostile.address);
  await eventually("its previews are made", async () => {
    const { body } = await service.get(`/api/v2/nft/${hostile.address}?media_items=true`);
    return body.result.every((one: { media: { status: string } }) => one.media.status === "success") ? true : undefined;
  });
  const page = await open(nftPlace(hostile));
  await shows(page, ATTACK_NAME, "h1");
  await page.waitForSelector(".gallery img");
  await press(page, "Traits");
  await shows(page, ATTACK_TRAIT, ".traits");
  await page.locator(".gallery a").click();
  await shows(page, "Transfers, newest first");
  await shows(page, ATTACK_TRAIT, ".attributes");
  expect(await countOf(page, "main script, main img:not(.picture), svg")).toBe(0);
});

test("can be used with the keyboard alone", async () => {
  await synced(service, large.address);
  const page = await open("/", { isOut: true });
  const focused = () =>
    page.evaluate(
      "(document.activeElement?.textContent || document.activeElement?.placeholder || '').trim()",
    ) as Promise<string>;
  const tabTo = (text: string) =>
    eventually(`the focus is on ${text}`, async () => {
      if ((await focused()) === text) return true;
      await page.keyboard.press("Tab");
      return undefined;
    });
  await page.waitForFunction("document.activeElement?.id === 'key'");
  await page.keyboard.type(KEY);
  await page.keyboard.press("Enter");
  await shows(page, "Large");
  await tabTo("Skip to the content");
  await page.keyboard.press("Enter");
  await tabTo("Large");
  await page.keyboard.press("Enter");
  await shows(page, "5,000 tokens");
  await eventually("the focus is on the slider", async () => {
    if ((await page.evaluate("document.activeElement?.type")) === "range") return true;
    await page.keyboard.press("Tab");
    return undefined;
  });
  await page.keyboard.press("Home");
  await shows(page, "500 tokens at block");
  await tabTo("Gallery");
  await page.keyboard.press("ArrowRight");
  await shows(page, "1 owner at block");
});
