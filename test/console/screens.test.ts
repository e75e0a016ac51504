/**
 * Every screen of the console on a phone, in the dark, and under an accessibility checker. Each is waited for by its own
 * heading, so that no check sees the screen before.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Browser, Page } from "puppeteer-core";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import { seriousFaults } from "../support/accessibility.ts";
import { visit } from "../support/browser.ts";
import { goTo, OPERATOR_KEY, openConsole, press, shows } from "../support/console.ts";
import { startTestService, synced, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

let anvil: Anvil;
let market: Market;
let drawn: Deployed;
let badges: Deployed;
let multi: Deployed;
let service: TestService;
let empty: TestService;
let browser: Browser;

const SVG =
  '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><rect width="20" height="20" fill="red"/></svg>';
const rootOf = ({ port }: TestService): string => `http://127.0.0.1:${port}`;

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 4 * 3_600 });
  await placeMainnet(anvil);
  market = await seedMarket(anvil, { hours: 2 });
  drawn = await deploy(anvil, await contractArtifact("DrawnNft"), ["Drawn", "DRW"]);
  await transact(anvil, drawn.contract, "mintMany", [anvil.accounts[1], 1, 40]);
  badges = await deploy(anvil, await contractArtifact("Badges"), ["Badges", "BDG"]);
  await transact(anvil, badges.contract, "mint", [anvil.accounts[1], 1]);
  await transact(anvil, badges.contract, "setLocked", [1, true]);
  multi = await deploy(anvil, await contractArtifact("MultiToken"), ["Multi", "MUL", ""]);
  for (const owner of [1, 2]) await transact(anvil, multi.contract, "mint", [anvil.accounts[owner], 2n ** 255n, 9n]);
  const document = { description: "Badges of honour", image: SVG, external_link: "https://badges.example/" };
  await transact(anvil, badges.contract, "setContractURI", [`data:application/json,${JSON.stringify(document)}`]);
  const env = { OPERATOR_KEYS: OPERATOR_KEY, METADATA_ALLOW_PRIVATE: "true" };
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env });
  empty = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env });
  for (const { address } of [drawn, badges, multi]) await synced(service, address);
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await service?.stop();
  await empty?.stop();
  await anvil?.stop();
});

interface ScreenCase {
  readonly place: string;
  readonly heading: RegExp;
  /** Words of the complete screen. */
  readonly words: RegExp;
  /** A button to press first. */
  readonly button?: string;
}

function screens(): ScreenCase[] {
  const nft = `/nft/eth/${drawn.address}`;
  const nowhere = `0x${"12".repeat(20)}`;
  return [
    { place: "/", heading: /^Overview/, words: /Chains[\s\S]*Drawn/ },
    { place: nft, heading: /^Drawn/, words: /40 tokens after block/ },
    { place: nft, heading: /^Drawn/, words: /Colour 8 values/, button: "Traits" },
    { place: `${nft}?view=holders`, heading: /^Drawn/, words: /1 owner after block/ },
    { place: `${nft}?view=activity`, heading: /^Drawn/, words: /With metadata: 40 tokens[\s\S]*#40\s+minted/ },
    { place: `${nft}?view=export`, heading: /^Drawn/, words: /The file has the collection/ },
    {
      place: `${nft}/1`,
      heading: /^Edition 1$/,
      words: /Transfers, newest first[\s\S]*minted[\s\S]*0x[0-9a-f]{4}…[\s\S]*resolved/,
    },
    {
      place: `/nft/eth/${badges.address}`,
      heading: /^Badges/,
      words: /Badges of honour[\s\S]*https:\/\/badges.example/,
    },
    { place: `/nft/eth/${badges.address}/1`, heading: /^#1$/, words: /Locked\s+yes, it can't be transferred/ },
    { place: `/nft/eth/${multi.address}`, heading: /^Multi/, words: /18 in all/ },
    { place: `/nft/eth/${multi.address}?view=holders`, heading: /^Multi/, words: /2 owners after block \d+, by units/ },
    { place: `/nft/eth/${multi.address}/${2n ** 255n}`, heading: /^#5789/, words: /2 holders[\s\S]*minted/ },
    { place: `${nft}/99`, heading: /^Token 99$/, words: /no transfer of token 99 is known/ },
    { place: `/price/eth/${market.demo.address}`, heading: /Price|Demo/, words: /Recompute here/ },
    { place: `/price/eth/${drawn.address}`, heading: /./, words: /\(\w+\)/ },
    { place: "/operate", heading: /^Operate/, words: /OPERATOR_KEYS/ },
    { place: "/search/drawn", heading: /^Search: drawn/, words: /Known collections[\s\S]*Drawn/ },
    { place: `/nft/nowhere/${nowhere}`, heading: /^Collection/, words: /chain/ },
    { place: `/nft/eth/${nowhere}`, heading: /^Collection/, words: /there is no contract/ },
    { place: "/nft/eth/0x12", heading: /^This page does not exist/, words: /0x12 is no address/ },
  ];
}

/** Checks the gate, an empty service, a key that may only read, and every screen with something on it. */
async function onEveryScreen(
  prepare: (page: Page) => Promise<void>,
  check: (page: Page, name: string) => Promise<void>,
): Promise<void> {
  const gate = await visit(browser, rootOf(service));
  await gate.page.goto(`${rootOf(service)}/`);
  await shows(gate.page, "EVM data service", "h1");
  const begin = await openConsole(browser, "/", { root: rootOf(empty) });
  await shows(begin.page, "Begin here", "h2");
  const reader = await openConsole(browser, "/", { root: rootOf(service), key: TEST_KEY });
  await shows(reader.page, "Look something up", "h1");
  const all = await openConsole(browser, "/", { root: rootOf(service) });
  const opened = { gate, begin, reader };
  for (const [name, { page }] of Object.entries(opened)) {
    await prepare(page);
    await check(page, name);
  }
  await prepare(all.page);
  for (const { place, heading, words, button } of screens()) {
    await goTo(all.page, place);
    await shows(all.page, heading, "h1");
    if (button !== undefined) await press(all.page, button);
    await shows(all.page, words, "main");
    await check(all.page, `${place} ${button ?? ""}`);
  }
  for (const { page, faults } of [...Object.values(opened), all]) {
    // The browser itself writes a refused request to its console.
    expect(faults.filter((fault) => !fault.includes("the server responded with a status of"))).toEqual([]);
    await page.browserContext().close();
  }
}

test("fits a phone, and is dark where the visitor wants it", async () => {
  await onEveryScreen(
    async (page) => {
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
      await page.setViewport({ width: 360, height: 740, isMobile: true, hasTouch: true });
    },
    async (page, name) => {
      const [width, background] = (await page.evaluate(
        "[document.documentElement.scrollWidth, getComputedStyle(document.documentElement).backgroundColor]",
      )) as [number, string];
      expect([name, width, background]).toEqual([name, 360, "rgb(18, 21, 26)"]);
    },
  );
});

test.each(["light", "dark"])("passes an accessibility check on every screen, %s", async (scheme) => {
  await onEveryScreen(
    (page) => page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]),
    async (page, name) => expect([name, await seriousFaults(page)]).toEqual([name, []]),
  );
});

test("shows a collection's own picture from this service, and its link as text", async () => {
  const { page } = await openConsole(browser, `/nft/eth/${badges.address}`, { root: rootOf(service) });
  await page.waitForSelector(".details img");
  const [picture, links] = await page.$eval(".details", (about) => [
    about.querySelector("img")?.getAttribute("src"),
    about.querySelectorAll("a").length,
  ]);
  expect([picture, links]).toEqual([expect.stringMatching(/\/media\/[0-9a-f]{64}\/100$/), 0]);
  expect(picture).toStartWith(rootOf(service));
  await page.browserContext().close();
});
