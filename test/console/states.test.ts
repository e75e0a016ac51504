/** What the screens say while they know nothing, and while a request fails again and again. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Browser, HTTPRequest, Page } from "puppeteer-core";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import { goTo, OPERATOR_KEY, openConsole, shows, textOf } from "../support/console.ts";
import { eventually, startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

let service: TestService;
let browser: Browser;

beforeAll(async () => {
  const env = { OPERATOR_KEYS: OPERATOR_KEY };
  service = await startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl: temporaryLogUrl(), env });
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await service?.stop();
});

/** Opens a place whose requests of the API are answered by a function from then on. */
async function open(place: string, answer: (request: HTTPRequest) => void): Promise<Page> {
  const { page } = await openConsole(browser, place, { root: `http://127.0.0.1:${service.port}` });
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    if (request.url().includes("/api/")) answer(request);
    else void request.continue();
  });
  return page;
}

test("says that it asks before it knows anything, on each screen, and nothing else", async () => {
  const held: HTTPRequest[] = [];
  const page = await open("/nowhere", (request) => held.push(request));
  for (const [place, asking, known] of [
    ["/operate", "Asking for the keys…", "OPERATOR_KEYS"],
    ["/", "Asking for the state of the service…", "Chains"],
    ["/price", "Asking for the known tokens…", "WETH"],
    ["/search/weth", "Looking among the known tokens…", "WETH"],
  ] as const) {
    await goTo(page, place);
    const text = await shows(page, asking, "main");
    expect([place, text]).toEqual([place, expect.not.stringMatching(/\bNo |\bnone\b|\b0 |not known|can't/)]);
    const isAnswered = eventually(`${place} shows ${known}`, async () => {
      for (const request of held.splice(0)) await request.continue().catch(() => undefined);
      return (await textOf(page, "main")).includes(known) || undefined;
    });
    expect(await isAnswered).toBe(true);
  }
  await page.browserContext().close();
});

test("keeps the words of a failure while it asks again, until there is an answer", async () => {
  let isBroken = true;
  let failures = 0;
  const body = JSON.stringify({ code: "internal_error", message: "the disk is gone" });
  const page = await open("/nowhere", (request) => {
    if (!isBroken) return void request.continue();
    failures++;
    void request.respond({ status: 500, contentType: "application/json", body });
  });
  await goTo(page, "/");
  await shows(page, "The disk is gone", "main");
  await page.evaluate(`globalThis.seen = []; new MutationObserver(() => seen.push(document.querySelector("main").innerText))
    .observe(document.body, { childList: true, subtree: true, characterData: true })`);
  await eventually("it asked three times", async () => failures >= 3 || undefined);
  const others = ((await page.evaluate("seen")) as string[]).filter((text) => !text.includes("The disk is gone"));
  expect(others).toEqual([]);
  isBroken = false;
  expect(await shows(page, "Chains", "main")).not.toContain("The disk is gone");
  await page.browserContext().close();
});
