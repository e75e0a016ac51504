/**
 * Every screen of the console on a phone, in the dark, and under an accessibility checker. Each is waited for by its own
 * heading, so that no check sees the screen before.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Browser, Page } from "puppeteer-core";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import { seriousFaults } from "../support/accessibility.ts";
import { visit } from "../support/browser.ts";
import { goTo, openConsole, press, shows } from "../support/console.ts";
import { SCREENS_ENV, type ScreenWorld, screens, startScreens } from "../support/console-screens.ts";
import { startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

let world: ScreenWorld;
let empty: TestService;
let browser: Browser;

beforeAll(async () => {
  world = await startScreens();
  empty = await startTestService({ rpcUrl: world.anvil.url, logUrl: temporaryLogUrl(), env: SCREENS_ENV });
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await empty?.stop();
  await world?.stop();
});

/** Checks the gate, an empty service, a key that may only read, and every screen with something on it. */
async function onEveryScreen(
  prepare: (page: Page) => Promise<void>,
  check: (page: Page, name: string) => Promise<void>,
): Promise<void> {
  const gate = await visit(browser, world.root);
  await gate.page.goto(`${world.root}/`);
  await shows(gate.page, "EVM data service", "h1");
  const begin = await openConsole(browser, "/", { root: `http://127.0.0.1:${empty.port}` });
  await shows(begin.page, "Begin here", "h2");
  const reader = await openConsole(browser, "/", { root: world.root, key: TEST_KEY });
  await shows(reader.page, "Look something up", "h1");
  const all = await openConsole(browser, "/", { root: world.root });
  const opened = { gate, begin, reader };
  for (const [name, { page }] of Object.entries(opened)) {
    await prepare(page);
    await check(page, name);
  }
  await prepare(all.page);
  for (const { place, heading, words, button } of screens(world)) {
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
      expect([name, await widerThanScreen(page)]).toEqual([name, []]);
      const rows = await page.$$eval("header", (headers) => headers.map((header) => header.clientHeight));
      expect([name, rows.every((height) => height < 60)]).toEqual([name, true]);
    },
  );
});

/** The elements that a visitor has to scroll sideways for, also inside of a box. */
const widerThanScreen = (page: Page) =>
  page.evaluate(`[...document.querySelectorAll("body *")].filter((one) => {
    const { left, right, width } = one.getBoundingClientRect();
    return width > 0 && left > -9000 && (right > innerWidth + 0.5 || left < -0.5);
  }).map((one) => one.outerHTML.slice(0, 120))`);

test.each([
  ["light", 1200],
  ["dark", 1200],
  ["light", 390],
  ["dark", 390],
])("passes an accessibility check on every screen, %s, at %i pixels", async (scheme, width) => {
  await onEveryScreen(
    async (page) => {
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await page.setViewport({ width, height: 800, isMobile: width < 600, hasTouch: width < 600 });
    },
    async (page, name) => expect([name, await seriousFaults(page)]).toEqual([name, []]),
  );
});

test("shows a collection's own picture from this service, and its link as text", async () => {
  const { page } = await openConsole(browser, `/nft/eth/${world.badges.address}`, { root: world.root });
  await page.waitForSelector(".details img");
  const [picture, links] = await page.$eval(".details", (about) => [
    about.querySelector("img")?.getAttribute("src"),
    about.querySelectorAll("a").length,
  ]);
  expect([picture, links]).toEqual([expect.stringMatching(/\/media\/[0-9a-f]{64}\/100$/), 0]);
  expect(picture).toStartWith(world.root);
  await page.browserContext().close();
});

/** Opens a place on a phone. */
async function onPhone(place: string, deviceScaleFactor = 1): Promise<Page> {
  const { page } = await openConsole(browser, place, { root: world.root });
  await page.setViewport({ width: 390, height: 800, isMobile: true, hasTouch: true, deviceScaleFactor });
  return page;
}

test("keeps navigation and sign-out in a menu on a phone, which a navigation closes", async () => {
  const page = await onPhone("/");
  await shows(page, "Overview", "h1");
  const shown = () =>
    page.$$eval("header a, header input, header button", (all) =>
      all.filter((one) => one.getBoundingClientRect().width > 0).map((one) => one.textContent?.trim()),
    );
  expect(await shown()).toEqual(["EVM data", "", "Menu"]);
  await press(page, "Menu");
  expect(await page.$eval(".menu", (button) => button.getAttribute("aria-expanded"))).toBe("true");
  expect(await shown()).toEqual(["EVM data", "Overview", "Prices", "Operate", "", "Sign out", "Menu"]);
  await page.locator("nav a[href='#/price']").click();
  await shows(page, "Prices", "h1");
  await page.waitForSelector("header:not(.open)");
  expect(await shown()).toEqual(["EVM data", "", "Menu"]);
  await page.browserContext().close();
});

test("makes a card of each row of a table on a phone, with the titles of its columns", async () => {
  const page = await onPhone(`/nft/eth/${world.multi.address}?view=holders`);
  await shows(page, "2 owners at block", "main");
  await page.waitForSelector("tbody tr");
  const cells = () =>
    page.evaluate(`[...document.querySelectorAll("tbody tr")].map((row) => [...row.cells].map((cell) =>
      [getComputedStyle(cell).display, getComputedStyle(cell, "::before").content]))`);
  const titles = ["Rank", "Owner", "Token ids", "Amount", "Share"];
  const card = titles.map((title) => ["flow-root", `"${title}"`]);
  expect(await cells()).toEqual([card, card]);
  const heads = () => page.$eval("thead", (head) => head.getBoundingClientRect().right > 0);
  expect(await heads()).toBe(false);
  await page.setViewport({ width: 1200, height: 800 });
  // The browser loads a page anew that is no longer on a phone.
  await page.waitForFunction("innerWidth === 1200 && document.querySelector('tbody tr')");
  const row = titles.map(() => ["table-cell", "none"]);
  expect(await cells()).toEqual([row, row]);
  expect(await heads()).toBe(true);
  await page.browserContext().close();
});

test.each([1, 2, 3])("asks for pictures of at least their shown pixels on a screen of density %i", async (density) => {
  const page = await onPhone(`/nft/eth/${world.drawn.address}`, density);
  await page.waitForFunction("document.querySelector('.gallery img')?.currentSrc");
  const [shown, taken] = (await page.$eval(".gallery img", (one) => {
    const picture = one as unknown as { width: number; currentSrc: string };
    return [picture.width, Number(picture.currentSrc.split("/").at(-1))];
  })) as [number, number];
  const [fitting = 500] = [100, 250, 500].filter((size) => size >= shown * density);
  expect([density, taken]).toEqual([density, fitting]);
  await page.browserContext().close();
});

test("scrolls a gallery with the page, and Back finds it where it was", async () => {
  const page = await onPhone(`/nft/eth/${world.drawn.address}`);
  await shows(page, "40 tokens at block", "main");
  await page.waitForSelector(".gallery a");
  const boxes = await page.evaluate(`[...document.querySelectorAll(".gallery, .gallery *")]
    .filter((one) => /auto|scroll/.test(getComputedStyle(one).overflowY)).length`);
  expect(boxes).toBe(0);
  const inView = () =>
    page.evaluate(`[...document.querySelectorAll(".gallery a")].filter((one) => {
      const { top, bottom } = one.getBoundingClientRect();
      return top >= 0 && bottom <= innerHeight;
    }).map((one) => one.getAttribute("href").split("/").at(-1).split("?")[0])`) as Promise<string[]>;
  await page.evaluate("document.querySelector('.gallery').scrollIntoView({ block: 'end' })");
  await page.waitForFunction("document.querySelector('.gallery li:last-child a[href$=\"/40\"]')");
  expect((await page.$$(".gallery li")).length).toBeLessThan(30);
  const before = await inView();
  expect(before).toContain("40");
  // A change of the block replaces the entry of the history.
  await page.evaluate(`location.replace(location.hash + "?block=" + document.querySelector("[type=number]").value)`);
  await shows(page, "40 tokens at block", "main");
  const scrolled = await page.evaluate("scrollY");
  expect(scrolled).toBeGreaterThan(1_000);
  await page.locator(".gallery a[href*='/39?']").click();
  await shows(page, "Edition 39", "h1");
  expect(await page.evaluate("scrollY")).toBe(0);
  await page.goBack();
  await shows(page, "40 tokens at block", "main");
  await page.waitForFunction(`scrollY === ${scrolled}`);
  await page.waitForFunction("document.querySelector('.gallery a[href*=\"/40?\"]')");
  expect(await inView()).toEqual(before);
  await page.browserContext().close();
});
