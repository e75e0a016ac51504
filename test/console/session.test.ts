/** How long a browser keeps a key: in a tab, in the tabs of one service, or on a device. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import type { Browser, Page } from "puppeteer-core";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import type { Visit } from "../support/browser.ts";
import { goTo, OPERATOR_KEY, openGate, press, shows, signIn, textOf } from "../support/console.ts";
import { startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

let service: TestService;
let browser: Browser;
let root: string;
let visited: Visit;

beforeAll(async () => {
  const env = { OPERATOR_KEYS: OPERATOR_KEY };
  service = await startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl: temporaryLogUrl(), env });
  root = `http://127.0.0.1:${service.port}`;
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await service?.stop();
});
beforeEach(async () => {
  visited = await openGate(browser, "/", root);
});
afterEach(async () => {
  await visited.page.browserContext().close();
});

/** Opens another tab that has the storage of the visit. */
async function newTab(place = "/"): Promise<Page> {
  const page = await visited.page.browserContext().newPage();
  await page.goto(`${root}/#${place}`);
  return page;
}

/** The keys that the storages of a tab hold: of the tab, and of the device. */
const kept = (page: Page) =>
  page.evaluate("[sessionStorage, localStorage].map((storage) => Object.values(storage))") as Promise<string[][]>;

async function signInRemembered(page: Page, key?: string): Promise<void> {
  await page.click("input[type=checkbox]");
  await signIn(page, key);
}

const atGate = (page: Page) => page.waitForSelector("#key");
const signedIn = (page: Page) => page.waitForSelector("header");

test("gives the session to a new tab, and to a tab that waits at the gate", async () => {
  const waiting = await newTab();
  await atGate(waiting);
  await signIn(visited.page);
  await signedIn(waiting);
  const later = await newTab("/price");
  await signedIn(later);
  for (const page of [visited.page, waiting, later]) expect(await kept(page)).toEqual([[OPERATOR_KEY], []]);
  // The tab has a session of its own now: it needs no other tab.
  for (const page of [visited.page, waiting]) await page.goto("about:blank");
  await later.reload();
  await signedIn(later);
});

test("ends a session that is not remembered with its last tab", async () => {
  await signIn(visited.page);
  const empty = await visited.page.browserContext().newPage();
  await visited.page.close();
  await empty.goto(`${root}/`);
  await atGate(empty);
  expect(await kept(empty)).toEqual([[], []]);
});

test("signs out in all tabs, and forgets a remembered key", async () => {
  await signInRemembered(visited.page);
  const other = await newTab();
  await signedIn(other);
  await press(visited.page, "Sign out");
  for (const page of [visited.page, other]) {
    await atGate(page);
    expect(await kept(page)).toEqual([[], []]);
  }
  await other.reload();
  await atGate(other);
});

test("keeps a remembered key when all tabs are closed, and says beforehand what that means", async () => {
  expect(await textOf(visited.page, "form label:has(input)")).toMatch(/this browser keeps the key until you sign out/);
  await signInRemembered(visited.page);
  const empty = await visited.page.browserContext().newPage();
  await visited.page.close();
  await empty.goto(`${root}/`);
  await signedIn(empty);
  expect(await kept(empty)).toEqual([[OPERATOR_KEY], [OPERATOR_KEY]]);
  // Other users of the browser's program have a storage of their own.
  const stranger = await openGate(browser, "/", root);
  expect(await kept(stranger.page)).toEqual([[], []]);
  await stranger.page.browserContext().close();
});

test.each(["open", "closed"])("forgets a remembered key that is revoked while the console is %s", async (state) => {
  const operator = { "x-api-key": OPERATOR_KEY, "content-type": "application/json" };
  const body = JSON.stringify({ name: state, scope: "operate" });
  const added = await service.fetch("/api/keys", { method: "POST", headers: operator, body });
  const { key } = (await added.json()) as { key: string };
  await signInRemembered(visited.page, key);
  const page = await newTab();
  await signedIn(page);
  expect(await kept(page)).toEqual([[key], [key]]);
  await visited.page.goto("about:blank");
  const again = state === "open" ? page : await page.browserContext().newPage();
  if (state === "closed") await page.close();
  await service.fetch(`/api/keys/${state}`, { method: "DELETE", headers: operator });
  if (state === "closed") await again.goto(`${root}/`);
  await atGate(again);
  await shows(again, "key", "[role=alert]");
  expect(await kept(again)).toEqual([[], []]);
});

test("has the key in no link and in no address that it asks or shows", async () => {
  await signInRemembered(visited.page);
  const { page, requests } = visited;
  for (const [place, words] of [
    ["/", "Chains"],
    ["/price", "Price"],
    ["/operate", "OPERATOR_KEYS"],
    [`/nft/eth/0x${"12".repeat(20)}`, "0x1212…1212"],
  ] as const) {
    await goTo(page, place);
    await shows(page, words, "main");
    expect(await page.evaluate("document.documentElement.outerHTML + location.href")).not.toContain(OPERATOR_KEY);
  }
  expect(requests.length).toBeGreaterThan(5);
  expect(requests.filter((path) => path.includes(OPERATOR_KEY))).toEqual([]);
});

test("fits a phone", async () => {
  await visited.page.setViewport({ width: 360, height: 740, isMobile: true, hasTouch: true });
  expect(await visited.page.evaluate("document.documentElement.scrollWidth")).toBe(360);
});
