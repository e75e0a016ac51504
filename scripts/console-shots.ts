/**
 * Takes a picture of each screen of the console, over the demo's chain, into `scripts/console-shots/`: `bun
 * scripts/console-shots.ts`. The README shows three of them.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "puppeteer-core";
import { NFT_ADDRESS, TOKEN_ADDRESS } from "../src/api/wire/examples.ts";
import { readConfig } from "../src/config.ts";
import { createLogger } from "../src/core/logger.ts";
import { startService } from "../src/service.ts";
import { startBrowser } from "./console-shots/browser.ts";
import { startAnvil } from "./local-chain/anvil.ts";
import { seedCollections } from "./local-chain/collections.ts";
import { placeMainnet } from "./local-chain/mainnet.ts";
import { seedMarket } from "./local-chain/market.ts";

const FOLDER = join(import.meta.dir, "console-shots");
const KEY = "operator-key-0123456789";
const HOURS = 27;

async function go(page: Page, place: string, condition: string): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(place)}`);
  await page.waitForFunction(condition);
}

/** Waits until all pictures in view are drawn. */
const loaded = (page: Page) => page.waitForFunction("[...document.images].every((one) => one.complete)");

const press = (page: Page, text: string) =>
  page.evaluate(
    `[...document.querySelectorAll("button")].find((one) => one.textContent.trim() === ${JSON.stringify(text)}).click()`,
  );

async function shoot(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: join(FOLDER, `${name}.png`) });
  process.stdout.write(`${name}.png\n`);
}

const folder = mkdtempSync(join(tmpdir(), "console-shots-"));
const anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - (HOURS + 1) * 3_600 });
await placeMainnet(anvil);
const market = await seedMarket(anvil, { hours: HOURS, demoAt: TOKEN_ADDRESS });
const { plain, batch, multi } = await seedCollections(anvil, { drawnAt: NFT_ADDRESS });
const service = await startService({
  config: readConfig({
    ...{ PORT: "0", OPERATOR_KEYS: KEY, EVENT_LOG_URL: `sqlite://${join(folder, "events.db")}`, RPC_URLS_ONLY: "true" },
    ...{ RPC_URL_ETH: anvil.url, METADATA_ALLOW_PRIVATE: "true", FOLLOW_EVERY_ETH: "0" },
  }),
  logger: createLogger("error"),
});
const browser = await startBrowser();
const root = `http://127.0.0.1:${service.port}`;
try {
  for (const { address } of [plain, batch, multi])
    await fetch(`${root}/api/v2/nft/${address}`, { headers: { "x-api-key": KEY } });
  const page = await browser.newPage();
  await page.setViewport({ width: 1_200, height: 860 });
  await page.goto(root);
  await page.waitForSelector("#key");
  await shoot(page, "sign-in");
  await page.type("#key", KEY);
  await page.keyboard.press("Enter");
  await page.waitForFunction(
    "[...document.querySelectorAll('tbody td')].filter((one) => one.textContent === 'complete').length === 3",
  );
  await shoot(page, "overview");
  await go(page, `/nft/eth/${plain.address}`, "document.querySelectorAll('.gallery img').length > 20");
  await loaded(page);
  await shoot(page, "collection");
  await press(page, "Holders");
  await page.waitForSelector("tbody tr");
  await shoot(page, "holders");
  await go(page, `/nft/eth/${plain.address}/5`, "document.querySelector('tbody tr')");
  await loaded(page);
  await shoot(page, "token");
  await go(page, `/price/eth/${market.demo.address}`, "document.querySelector('.amount')");
  await press(page, "Recompute here");
  await page.waitForSelector("[data-check=same]");
  await page.waitForNetworkIdle({ idleTime: 1_000 });
  await page.setViewport({ width: 1_200, height: 1_240 });
  await page.waitForSelector(".curve canvas");
  await shoot(page, "price");
  await page.setViewport({ width: 1_200, height: 860 });
  await go(page, "/price", "document.querySelectorAll('.tokens').length === 2");
  await shoot(page, "prices");
  await go(page, "/operate", "document.querySelector('tbody tr')");
  await shoot(page, "operate");
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
  await page.setViewport({ width: 390, height: 800, isMobile: true, deviceScaleFactor: 2 });
  await go(page, `/nft/eth/${plain.address}`, "document.querySelectorAll('.gallery img').length > 3");
  await loaded(page);
  await shoot(page, "phone");
  await go(page, `/nft/eth/${plain.address}?view=holders`, "document.querySelector('tbody tr')");
  await page.evaluate("document.querySelector('.tabs').scrollIntoView()");
  await shoot(page, "phone-holders");
  await go(page, "/", "document.querySelector('tbody tr')");
  await press(page, "Menu");
  await page.waitForSelector("header.open");
  await shoot(page, "phone-overview");
  await go(page, `/price/eth/${market.demo.address}`, "document.querySelector('.amount')");
  await shoot(page, "phone-price");
} finally {
  await browser.close();
  await service.stop();
  await anvil.stop();
  rmSync(folder, { recursive: true, force: true });
}
process.exit();
