/** The page at `/swagger` in a real browser: its colours, and how long it keeps a key. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import type { Browser, Page } from "puppeteer-core";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import { type Visit, visit } from "../support/browser.ts";
import { startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

let service: TestService;
let browser: Browser;
let visited: Visit;
let url: string;

beforeAll(async () => {
  service = await startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl: temporaryLogUrl() });
  url = `http://127.0.0.1:${service.port}/swagger`;
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await service?.stop();
});
beforeEach(async () => {
  visited = await visit(browser, new URL(url).origin);
});
afterEach(async () => {
  expect(visited.faults).toEqual([]);
  await visited.page.browserContext().close();
});

async function open(page: Page): Promise<void> {
  await page.goto(url);
  await page.waitForSelector(".opblock");
}

const prefer = (page: Page, value: string) => page.emulateMediaFeatures([{ name: "prefers-color-scheme", value }]);
const background = (page: Page) => page.evaluate("getComputedStyle(document.documentElement).backgroundColor");
const kept = (page: Page) =>
  page.evaluate("[sessionStorage, localStorage].map((storage) => Object.values(storage))") as Promise<string[][]>;

test("is dark where the system is, follows its changes, and has text in contrast to its ground", async () => {
  const { page } = visited;
  await prefer(page, "dark");
  await open(page);
  expect(await background(page)).toBe("rgb(28, 32, 34)");
  await page.locator(".opblock-summary-control").click();
  await page.waitForSelector(".opblock-body .parameters");
  await page.evaluate(await Bun.file(Bun.resolveSync("axe-core/axe.min.js", import.meta.dir)).text());
  const found = await page.evaluate(`axe.run({ runOnly: ["color-contrast"] }).then(({ violations }) =>
    violations.flatMap(({ nodes }) => nodes.map(({ html, any }) => html.slice(0, 200) + " " + any[0].message)))`);
  expect(found).toEqual([]);
  await prefer(page, "light");
  await page.waitForFunction("!document.documentElement.classList.contains('dark-mode')");
  expect(await background(page)).not.toBe("rgb(28, 32, 34)");
});

test("shows the examples of optional parameters without filling them in", async () => {
  await open(visited.page);
  const path = `["/api/v2/nft/{address}"].get.parameters`;
  const parameters = (await visited.page.evaluate(`ui.getState().toJS().spec.json.paths${path}`)) as {
    readonly required: boolean;
    readonly description: string;
  }[];
  expect(parameters.length).toBeGreaterThan(5);
  for (const { required, description, ...rest } of parameters) {
    expect([required, "example" in rest]).toEqual([required, required]);
    if (!required) expect(description).toContain("Example: ");
  }
});

test("keeps the key for the tab, until it is logged out", async () => {
  const { page } = visited;
  await page.evaluateOnNewDocument(
    `sessionStorage.length || localStorage.setItem("authorized", "of an earlier release")`,
  );
  await open(page);
  await page.click(".btn.authorize");
  await page.waitForSelector("#api_key_value");
  await page.type("#api_key_value", TEST_KEY);
  await page.click(".auth-btn-wrapper .authorize");
  await page.waitForSelector(".auth-btn-wrapper [aria-label='Remove authorization']");
  expect(await kept(page)).toEqual([[TEST_KEY], []]);
  await open(page);
  await page.waitForSelector(".btn.authorize.locked");
  expect(await page.evaluate("ui.getState().toJS().auth.authorized.ApiKeyAuth.value")).toBe(TEST_KEY);
  await page.click(".btn.authorize");
  await page.waitForSelector(".auth-btn-wrapper [aria-label='Remove authorization']");
  await page.click(".auth-btn-wrapper [aria-label='Remove authorization']");
  await page.waitForSelector("#api_key_value");
  expect(await kept(page)).toEqual([[], []]);
});
