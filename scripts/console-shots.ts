/**
 * Takes a picture of each screen of the console, over the demo's chain, into `scripts/console-shots/`: `bun
 * scripts/console-shots.ts`. The README shows three of them.
 */
import { join } from "node:path";
import type { Page } from "puppeteer-core";
import { goOnStage as go, signInToStage, startStage } from "./console-shots/stage.ts";

const FOLDER = join(import.meta.dir, "console-shots");

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

const { market, plain, browser, root, stop } = await startStage();
try {
  const page = await browser.newPage();
  await page.setViewport({ width: 1_200, height: 860 });
  await page.goto(root);
  await page.waitForSelector("#key");
  await shoot(page, "sign-in");
  await signInToStage(page);
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
  await go(page, `/price/eth/${market.demo.address}`, "document.querySelector('.curve canvas')");
  await shoot(page, "phone-price");
} finally {
  await stop();
}
process.exit();
