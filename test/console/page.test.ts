/** The page of the console and its files: small, made on demand, on any path, and gone if the operator wishes. */
import { afterEach, expect, test } from "bun:test";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import { visit } from "../support/browser.ts";
import { eventually, startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

const KEY = "operator-key-0123456789";
const MOST_SCRIPT_BYTES = 120 * 1_024;

let service: TestService;
const start = async (env: Record<string, string> = {}) => {
  service = await startTestService({
    rpcUrl: "http://127.0.0.1:9/",
    logUrl: temporaryLogUrl(),
    env: { OPERATOR_KEYS: KEY, ...env },
  });
};
afterEach(() => service.stop());

test("serves a page without inline script, and files of less than 120 KB", async () => {
  await start();
  const page = await service.fetch("/");
  const policy = page.headers.get("content-security-policy") ?? "";
  for (const part of ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"])
    expect(policy).toContain(part);
  expect(policy).not.toContain("unsafe");
  expect(await page.text()).not.toMatch(/<script[^>]*>[^<]|<style| on\w+=| style=/);
  const script = await service.fetch("/console/app.js", {
    headers: { "accept-encoding": "gzip" },
    decompress: false,
  } as RequestInit);
  expect(script.headers.get("content-encoding")).toBe("gzip");
  expect((await script.arrayBuffer()).byteLength).toBeLessThan(MOST_SCRIPT_BYTES);
  const etag = script.headers.get("etag") as string;
  expect((await service.fetch("/console/app.js", { headers: { "if-none-match": etag } })).status).toBe(304);
  expect((await service.fetch("/console/other.js")).status).toBe(404);
});

test("has an icon of its own on each page, without a request", async () => {
  await start();
  for (const path of ["/", "/swagger"]) {
    const [, icon] = /<link rel="icon"[^>]* href="data:image\/svg\+xml,([^"]+)">/.exec(
      await (await service.fetch(path)).text(),
    ) as RegExpExecArray;
    expect(decodeURIComponent(icon as string)).toMatch(/^<svg .*<\/svg>$/);
  }
  const browser = await startBrowser();
  try {
    const { page, faults } = await visit(browser, `http://127.0.0.1:${service.port}`);
    await page.goto(`http://127.0.0.1:${service.port}/`);
    await page.waitForFunction("document.querySelector('.mark')?.naturalWidth > 0");
    expect(faults).toEqual([]);
  } finally {
    await browser.close();
  }
});

test("CONSOLE=off leads to the API's document", async () => {
  await start({ CONSOLE: "off" });
  const answer = await service.fetch("/", { redirect: "manual" });
  expect([answer.status, answer.headers.get("location")]).toEqual([302, "/swagger"]);
  expect((await service.fetch("/console/app.js")).status).toBe(404);
});

test("EXPLORER_LINKS=off leaves the addresses of block explorers out", async () => {
  const explorers = async () => /data-explorers="([^"]*)"/.exec(await (await service.fetch("/")).text())?.[1];
  await start();
  expect(await explorers()).toContain("&quot;eth&quot;:&quot;https://etherscan.io&quot;");
  await service.stop();
  await start({ EXPLORER_LINKS: "off" });
  expect(await explorers()).toBe("{}");
});

test("works below the path of PUBLIC_URL, and for a key that may only read", async () => {
  await start({ PUBLIC_URL: "https://data.example/evm" });
  const browser = await startBrowser();
  try {
    const root = `http://127.0.0.1:${service.port}`;
    const { page, faults, requests } = await visit(browser, root);
    const isSignedIn = async (key: string, words: string) => {
      await page.goto(`${root}/evm`);
      await page.waitForSelector("#key");
      await page.type("#key", key);
      await page.keyboard.press("Enter");
      await eventually(`it shows ${words}`, async () =>
        ((await page.evaluate("document.body.innerText")) as string).includes(words) ? true : undefined,
      );
      await page.evaluate("sessionStorage.clear()");
    };
    await isSignedIn(KEY, "Chains");
    expect(requests.every((path) => path.startsWith("/evm"))).toBe(true);
    expect(faults).toEqual([]);
    await isSignedIn(TEST_KEY, "Look something up");
    // The browser itself writes a refused request to its console.
    expect(faults.filter((fault) => !fault.includes("status of 403"))).toEqual([]);
  } finally {
    await browser.close();
  }
});

test("asks for the status once a second while it is open, and for nothing while it can't be seen", async () => {
  await start();
  const browser = await startBrowser();
  try {
    const root = `http://127.0.0.1:${service.port}`;
    const { page, requests } = await visit(browser, root);
    // The test runs the page's pauses of a second itself.
    await page.evaluateOnNewDocument(`
      const [repeat, end] = [setInterval, clearInterval];
      window.due = [];
      window.setInterval = (run, ms) => (ms === 1000 ? (due.push(run), run) : repeat(run, ms));
      window.clearInterval = (timer) => {
        if (typeof timer === "function") due = due.filter((one) => one !== timer);
        else end(timer);
      };
    `);
    await page.goto(`${root}/`);
    await page.waitForSelector("#key");
    await page.type("#key", KEY);
    await page.keyboard.press("Enter");
    const asked = () => requests.filter((path) => path === "/api/status").length;
    const isWaiting = () =>
      eventually("it waits a second", async () => ((await page.evaluate("due.length")) === 1 ? true : undefined));
    await isWaiting();
    // One to sign in, and the first look.
    expect(asked()).toBe(2);
    for (let turn = 3; turn <= 5; turn++) {
      await page.evaluate("due[0]()");
      await eventually("it asked once more", async () => (asked() === turn ? true : undefined));
      await isWaiting();
      expect(asked()).toBe(turn);
    }
    const beSeen = (state: string) =>
      page.evaluate(`Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true })`);
    await beSeen("hidden");
    await page.evaluate("due[0]()");
    await page.evaluate(`fetch("health/live").then(() => true)`);
    expect(asked()).toBe(5);
    await beSeen("visible");
    await page.evaluate(`document.dispatchEvent(new Event("visibilitychange", { bubbles: true }))`);
    await eventually("it asks at once", async () => (asked() === 6 ? true : undefined));
    await isWaiting();
    expect(asked()).toBe(6);
  } finally {
    await browser.close();
  }
});
