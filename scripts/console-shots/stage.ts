/** The console over the demo's chain in a real browser, for the scripts that show or measure it. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "puppeteer-core";
import { readConfig } from "../../src/config.ts";
import { NFT_ADDRESS, TOKEN_ADDRESS } from "../../src/core/examples.ts";
import { createLogger } from "../../src/core/logger.ts";
import { startService } from "../../src/service.ts";
import { startAnvil } from "../local-chain/anvil.ts";
import { seedCollections } from "../local-chain/collections.ts";
import { placeMainnet } from "../local-chain/mainnet.ts";
import { seedMarket } from "../local-chain/market.ts";
import { startBrowser } from "./browser.ts";

export const STAGE_KEY = "operator-key-0123456789";
const HOURS = 27;

/** Starts the chain, the service and the browser, and has the collections indexed. The caller stops them. */
export async function startStage() {
  const folder = mkdtempSync(join(tmpdir(), "console-stage-"));
  const anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - (HOURS + 1) * 3_600 });
  await placeMainnet(anvil);
  const market = await seedMarket(anvil, { hours: HOURS, demoAt: TOKEN_ADDRESS });
  const collections = await seedCollections(anvil, { drawnAt: NFT_ADDRESS });
  const service = await startService({
    config: readConfig({
      ...{ PORT: "0", OPERATOR_KEYS: STAGE_KEY, EVENT_LOG_URL: `sqlite://${join(folder, "events.db")}` },
      ...{ RPC_URLS_ONLY: "true", RPC_URL_ETH: anvil.url, METADATA_ALLOW_PRIVATE: "true", FOLLOW_EVERY_ETH: "0" },
    }),
    logger: createLogger("error"),
  });
  const browser = await startBrowser();
  const root = `http://127.0.0.1:${service.port}`;
  for (const { address } of [collections.plain, collections.batch, collections.multi])
    await fetch(`${root}/api/v2/nft/${address}`, { headers: { "x-api-key": STAGE_KEY } });
  const stop = async () => {
    await browser.close();
    await service.stop();
    await anvil.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  return { anvil, market, ...collections, browser, root, stop };
}

/** Signs in where the page asks for the key. */
export async function signInToStage(page: Page): Promise<void> {
  await page.waitForSelector("#key");
  await page.type("#key", STAGE_KEY);
  await page.keyboard.press("Enter");
  await page.waitForFunction(
    "[...document.querySelectorAll('tbody td')].filter((one) => one.textContent === 'complete').length === 3",
  );
}

/** Goes to a place of the console, and waits until a condition holds there. */
export async function goOnStage(page: Page, place: string, condition: string): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(place)}`);
  await page.waitForFunction(condition);
}
