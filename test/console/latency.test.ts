/**
 * Each screen is opened with 600 ms of latency on every request, and each sentence that was ever shown is read. A sentence
 * that states a fact is shown only once the answer is there that makes it true, and is not taken back.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Browser, Page } from "puppeteer-core";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { OPERATOR_KEY, openConsole, press, shows } from "../support/console.ts";
import { type ScreenCase, type ScreenWorld, screens, startScreens } from "../support/console-screens.ts";
import { eventually, TEST_KEY } from "../support/service.ts";

const LATENCY_MS = 600;

let world: ScreenWorld;
let browser: Browser;

beforeAll(async () => {
  world = await startScreens();
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await world?.stop();
});

/** Notes each line that the page shows, with the paths of the answers that had come when it was first shown. */
const RECORDER = `
  globalThis.answered = [];
  globalThis.lines = new Map();
  const send = fetch;
  globalThis.fetch = async (url, init) => {
    const answer = await send(url, init);
    answered.push(new URL(url, location.href).pathname);
    return answer;
  };
  const note = () => {
    for (const line of document.body.innerText.split("\\n")) if (!lines.has(line)) lines.set(line, [...answered]);
  };
  addEventListener("DOMContentLoaded", () =>
    new MutationObserver(note).observe(document.body, { childList: true, subtree: true, characterData: true }));
`;

/** Has the page's messages to the socket leave so late that all answers over HTTP come first. */
const LATE_SOCKET = `
  const tell = WebSocket.prototype.send;
  WebSocket.prototype.send = function (message) { setTimeout(() => tell.call(this, message), ${4 * LATENCY_MS}); };
`;

interface ShownLine {
  readonly text: string;
  /** Paths of the answers before it. */
  readonly after: readonly string[];
}

/** Sentences of a wait. They name what is awaited, and state nothing. */
const WAITING = /^(?:Asking|Loading|Looking|Counting|Computing|Connecting)\b.*…$/;
/** What a heading and a field show before a name or a list is known: the words of the address. */
const PLACEHOLDER = /^(?:(?:Price of )?0x[0-9a-f]{4}…[0-9a-f]{4}|Token \d+…?|The collection)$/;
/** Words of a sentence that something is missing. */
const ABSENCE = /\b(?:no|none|nothing|not|never|without|0)\b|can't/i;
/** Numbers and ages move on while a screen is open. */
const steady = (line: string): string =>
  line
    .replace(/[\d.,]+/g, "0")
    .replace(/\b0 (?:s|min)\b/g, "0 s")
    .trim();
/** A line as it may go on: it grows, and a name takes the place of an address. */
const grown = (line: string): RegExp =>
  new RegExp(
    steady(line)
      .replace(/[$()*+.?[\]^{|}\\]/g, "\\$&")
      .replace(/\b0x\w+…\w+/g, ".+"),
  );

/** Opens a screen anew, as a link from elsewhere does, and reads all lines that it showed. */
async function linesOf(page: Page, { place, heading, words, button }: ScreenCase) {
  await page.goto("about:blank");
  await page.goto(`${world.root}/#${place}`);
  await shows(page, heading, "h1");
  if (button !== undefined) await press(page, button);
  await shows(page, words, "main");
  await eventually("all answers are there", async () => {
    const text = (await page.evaluate("document.body.innerText.split('\\n')")) as string[];
    return text.every((line) => !WAITING.test(line)) || undefined;
  });
  const lines = (await page.evaluate("[...lines].map(([text, after]) => ({ text, after }))")) as ShownLine[];
  const last = (await page.evaluate("document.body.innerText.split('\\n')")) as string[];
  return { lines, last };
}

/** The screens of a key of scope read that differ from an operator's. */
const READERS: readonly ScreenCase[] = [
  { place: "/", heading: /^Look something up/, words: /Drawn/ },
  { place: "/search/drawn", heading: /^Search: drawn/, words: /Known collections[\s\S]*Drawn/ },
];

/** The screens that hear the socket, and an address that nobody asked for before. */
const socketScreens = (of: ScreenWorld): readonly ScreenCase[] => [
  ...screens(of).filter(({ place }) => place.startsWith("/nft/eth/0x") && !/\?|\/\d+$/.test(place)),
  { place: `/nft/eth/0x${"56".repeat(20)}`, heading: /^Wallet 0x5656…5656/, words: /holds nothing/ },
];

const isWait = ({ text }: ShownLine): boolean =>
  text.trim() === "" || WAITING.test(text) || PLACEHOLDER.test(text.trim());
/** The facts among the lines that the screen no longer shows. */
const takenBackOf = (lines: readonly ShownLine[], last: readonly string[]): ShownLine[] =>
  lines.filter((line) => !isWait(line) && !last.some((shown) => grown(line.text).test(steady(shown))));

/** Opens a tab whose requests have latency, and which notes what it shows. */
async function openLate(key: string, script: string): Promise<Page> {
  const { page } = await openConsole(browser, "/nowhere", { root: world.root, key });
  await page.evaluateOnNewDocument(script);
  await page.emulateNetworkConditions({ offline: false, download: -1, upload: -1, latency: LATENCY_MS });
  return page;
}

test.each([
  ["a key of scope operate", OPERATOR_KEY, RECORDER, screens],
  ["a key of scope read", TEST_KEY, RECORDER, () => READERS],
  ["a late socket", OPERATOR_KEY, LATE_SOCKET + RECORDER, socketScreens],
] as const)(
  "states no fact before its answer, and takes none back, with %s",
  async (_, key, script, cases) => {
    const page = await openLate(key, script);
    const faults: unknown[] = [];
    // A page that does not exist asks nothing.
    for (const screen of cases(world).filter(({ heading }) => !heading.test("This page does not exist"))) {
      const { lines, last } = await linesOf(page, screen);
      const takenBack = takenBackOf(lines, last);
      const tooEarly = lines.filter((line) => !isWait(line) && ABSENCE.test(line.text) && line.after.length < 2);
      const isWaiting = lines.some(({ text }) => WAITING.test(text));
      if (takenBack.length + tooEarly.length > 0 || !isWaiting)
        faults.push({ place: screen.place, takenBack, tooEarly, isWaiting });
    }
    expect(faults).toEqual([]);
    await page.browserContext().close();
  },
  240_000,
);

test.each([
  ["an early socket", RECORDER],
  ["a late socket", LATE_SOCKET + RECORDER],
])("never says that a collection has nothing which is read for the first time, over %s", async (_, script) => {
  const { anvil } = world;
  const nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Fresh", "FRE"]);
  await transact(anvil, nft.contract, "mintMany", [anvil.accounts[1], 1, 3]);
  await anvil.mine(1);
  const page = await openLate(OPERATOR_KEY, script);
  const screen = { place: `/nft/eth/${nft.address}`, heading: /^Fresh/, words: /3 tokens at block/ };
  const { lines, last } = await linesOf(page, screen);
  // Its progress comes and goes.
  expect(takenBackOf(lines, last).filter(({ text }) => ABSENCE.test(text))).toEqual([]);
  expect(lines.some(({ text }) => WAITING.test(text))).toBe(true);
  await page.browserContext().close();
});
