/** The console over a large log: the longest time for which anything a visitor does keeps the page from answering. */
import type { Page } from "puppeteer-core";
import { systemClock } from "../../../src/core/clock.ts";
import type { Address } from "../../../src/core/hex.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { openLog } from "../../../src/log/open.ts";
import { startBrowser } from "../../console-shots/browser.ts";
import { fill, fillMany } from "../fill.ts";
import { type Bench, grouped } from "../row.ts";
import { NO_NODE, startBenchService, temporaryFolder } from "../service.ts";

/** A browser reports tasks from this length on, so that none may be reported. */
const MAX_MS = 50;
const KEY = "operator-key-of-the-bench";
const LARGE = `0x${"21".repeat(20)}` as Address;
const COLLECTIONS = 200;
/** Transfers of each token after its mint. */
const MOVES = 4;
/** Places of the gallery, and blocks of the slider, that are visited. */
const PLACES = 20;

export const consoleRow: Bench = {
  name: "console",
  measure: async ({ tokens }) => {
    const folder = temporaryFolder();
    const browser = await startBrowser();
    try {
      const log = await openLog(folder.logUrl, systemClock, silentLogger);
      await fillMany(log, COLLECTIONS, { chainId: 1, kind: TransferKind.erc721, tokens: 5, moves: 1 });
      await fill(log, { chainId: 1, address: LARGE, kind: TransferKind.erc721, tokens, moves: MOVES });
      await log.close();
      const service = await startBenchService({
        rpcUrl: NO_NODE,
        logUrl: folder.logUrl,
        env: { OPERATOR_KEYS: KEY },
      });
      const page = await browser.newPage();
      await page.setViewport({ width: 1200, height: 900 });
      await page.evaluateOnNewDocument(`
        window.long = [];
        new PerformanceObserver((list) => long.push(...list.getEntries().map(({ duration }) => duration)))
          .observe({ type: "longtask", buffered: true });
      `);
      await page.goto(`${service.base}/`);
      const longest = new Map<string, number>();
      /** Notes the longest task since the last call. The browser reports those of 50 ms and more. */
      const note = async (what: string) => {
        const tasks = (await page.evaluate("long.splice(0)")) as number[];
        longest.set(what, Math.max(0, ...tasks));
      };
      await page.waitForSelector("#key");
      await assertNoticed(page);
      await page.type("#key", KEY);
      await page.keyboard.press("Enter");
      await page.waitForSelector(`tbody tr:nth-child(${COLLECTIONS - 1})`);
      await note("first page");
      await page.type("input[placeholder='Address, name or symbol']:not([aria-label])", "bench 1");
      await page.waitForNetworkIdle({ idleTime: 400 });
      await note("filter of the overview");
      await page.evaluate(`location.hash = "/nft/eth/${LARGE}"`);
      await page.waitForSelector(".gallery a", { timeout: 120_000 });
      await note("gallery");
      for (let place = 1; place <= PLACES; place++) await scrollTo(page, place / PLACES);
      await note("scrolling");
      for (let place = 1; place <= PLACES; place++) await slideTo(page, place / (PLACES + 1));
      await note("slider");
      await page.evaluate(`location.hash = "/nft/eth/${LARGE}?view=holders"`);
      await page.waitForSelector("[role=tabpanel] tbody tr:nth-child(50)", { timeout: 120_000 });
      await note("holders");
      await page.evaluate(`location.hash = "/nft/eth/${LARGE}?view=activity"`);
      await page.waitForSelector("[role=tabpanel] tbody tr:nth-child(50)", { timeout: 120_000 });
      await note("activity");
      await page.evaluate(`location.hash = "/nft/eth/${LARGE}/1"`);
      await page.waitForSelector("table[aria-label^='Transfers'] tbody tr, section tbody tr");
      await note("token");
      await page.evaluate('location.hash = "/operate"');
      await page.waitForFunction("document.querySelectorAll('main article').length >= 4");
      await note("operate");
      await service.stop();
      const all = [...longest].map(([what, ms]) => `${what} ${ms === 0 ? "below 50" : ms.toFixed(0)} ms`);
      return {
        name: `Console, ${grouped(tokens)} tokens, ${grouped(tokens * (MOVES + 1))} transfers and ${COLLECTIONS} collections`,
        floor: "–",
        ours: `longest task ${Math.max(...longest.values()) || "below 50"} ms`,
        ratio: undefined,
        reach: `none of ${MAX_MS} ms`,
        passed: Math.max(...longest.values()) < MAX_MS,
        detail: all.join("; "),
      };
    } finally {
      await browser.close();
      folder.remove();
    }
  },
};

/** @throws Error if the browser reports no long tasks, in which case all figures would be good */
async function assertNoticed(page: Page): Promise<void> {
  const busy = "setTimeout(() => { const end = performance.now() + 120; while (performance.now() < end); })";
  await page.evaluate(busy);
  await page.waitForFunction("long.some((ms) => ms > 100)", { timeout: 5_000 });
  await page.evaluate("long.splice(0)");
}

/** Scrolls the gallery to a share of its height, and waits for the tokens there. */
async function scrollTo(page: Page, share: number): Promise<void> {
  await page.evaluate(`(() => {
    const box = document.querySelector(".gallery");
    window.scrollTo(0, box.offsetTop + box.scrollHeight * ${share});
  })()`);
  await page.waitForFunction(
    "document.querySelectorAll('.gallery a').length > 20 && !document.querySelector('.waiting')",
  );
}

/** Moves the slider to a share of its width, and waits for the state after that block. */
async function slideTo(page: Page, share: number): Promise<void> {
  await page.evaluate(`(() => {
    const slider = document.querySelector("input[type=range]");
    const [min, max] = [Number(slider.min), Number(slider.max)];
    window.wanted = Math.round(min + (max - min) * ${share});
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(slider, String(wanted));
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  })()`);
  await page.waitForFunction(
    "document.querySelector('[role=tabpanel]').textContent.includes('at block ' + wanted.toLocaleString('en-US'))",
  );
}
