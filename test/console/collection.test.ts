/** The screens of a collection and of a token in a real browser, against the real service on a local chain. */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "puppeteer-core";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import type { Visit } from "../support/browser.ts";
import { goTo, hashOf, hides, OPERATOR_KEY, openConsole, press, shows, slideTo, textOf } from "../support/console.ts";
import {
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

let anvil: Anvil;
let service: TestService;
let browser: Browser;
let root: string;
/** The visit of the running test. Its faults are asserted after each one. */
let visited: Visit;

beforeAll(async () => {
  anvil = await startAnvil();
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env: ENV });
  root = `http://127.0.0.1:${service.port}`;
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await service?.stop();
  await anvil?.stop();
});
afterEach(async () => {
  expect(visited.faults).toEqual([]);
  await visited.page.browserContext().close();
});

const ENV = { OPERATOR_KEYS: OPERATOR_KEY, METADATA_ALLOW_PRIVATE: "true" };

async function open(place: string, at: { readonly root?: string; readonly key?: string } = {}): Promise<Page> {
  visited = await openConsole(browser, place, { root, ...at });
  return visited.page;
}

/** Forgets faults with these words: the browser itself writes a refused request to its console. */
function expectFaults(words: string | RegExp): void {
  const isExpected = (fault: string) => (typeof words === "string" ? fault.includes(words) : words.test(fault));
  expect(visited.faults.filter((fault) => !isExpected(fault))).toEqual([]);
  visited = { ...visited, faults: [] };
}

const account = (at: number): string => anvil.accounts[at] as string;
const brief = (address: string): string => `${address.slice(0, 6)}…${address.slice(-4)}`;
const placeOf = ({ address }: Deployed): string => `/nft/eth/${address}`;
const headBlock = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));

/** Deploys a collection with `count` tokens of the first account, and waits until the service has it. */
async function collectionOf(count: number, { contract = "PlainNft", name = "Moving" } = {}): Promise<Deployed> {
  const nft = await deploy(anvil, await contractArtifact(contract), [name, "SYM"]);
  for (let first = 1; first <= count; first += 500)
    await transact(anvil, nft.contract, "mintMany", [account(1), first, Math.min(500, count - first + 1)]);
  await synced(service, nft.address, await headBlock());
  return nft;
}

test("keeps block, view and filter in the address, and opens a token at the chosen block", async () => {
  const nft = await collectionOf(3);
  const minted = await headBlock();
  await transact(anvil, nft.contract, "move", [account(1), account(2), 1n]);
  await transact(anvil, nft.contract, "move", [account(2), account(3), 1n]);
  await synced(service, nft.address, minted + 2);
  const page = await open(placeOf(nft));
  await shows(page, brief(account(3)), ".gallery");
  await slideTo(page, minted + 1);
  await shows(page, brief(account(2)), ".gallery");
  expect(await hashOf(page)).toBe(`#${placeOf(nft)}?block=${minted + 1}`);
  await page.type("#owner", account(2));
  await press(page, "Filter");
  await shows(page, account(2), ".chips");
  await shows(page, "1 token ", "[role=tabpanel] [role=status].quiet");
  // The token is the one of that block, and Back finds the gallery as it was.
  await page.locator(".gallery a").click();
  await shows(page, `At block ${minted + 1}`);
  await shows(page, `Owner\n${brief(account(2))}`, "dl");
  const moved = await shows(page, /minted/, "table");
  expect(moved).toContain(brief(account(2)));
  expect(moved).not.toContain(brief(account(3)));
  await page.goBack();
  await shows(page, account(2), ".chips");
  await shows(page, brief(account(2)), ".gallery");
  expect(await textOf(page, ".slider output")).toBe(`${minted + 1}`);
  // An address that was sent to another visitor.
  await goTo(page, `${placeOf(nft)}?block=${minted}&view=holders`);
  await shows(page, `1 owner at block ${minted}`, "[role=tabpanel]");
  await press(page, "Activity");
  await eventually(
    "the view is in the address",
    async () => (await hashOf(page)).endsWith("view=activity") || undefined,
  );
  await press(page, "Newest");
  await eventually("the block is not", async () => !(await hashOf(page)).includes("block=") || undefined);
  await goTo(page, `${placeOf(nft)}?block=99999`);
  await shows(page, "The service has not read block 99,999 yet");
});

test("keeps the columns of the gallery inside its box, with long names and without pictures", async () => {
  const nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Long", "LONG"]);
  const name = "W".repeat(64);
  const start = `data:application/json,${encodeURIComponent(`{"name":"${name}`)}`;
  await transact(anvil, nft.contract, "setBaseURI", [start, encodeURIComponent('"}')]);
  await transact(anvil, nft.contract, "mintMany", [account(1), 1, 30]);
  await eventually("all tokens have metadata", async () => {
    const { body } = await synced(service, nft.address, 0, "&normalizeMetadata=true");
    const named = body.result.filter((one: { normalized_metadata: unknown }) => one.normalized_metadata !== "");
    return named.length === 30 || undefined;
  });
  const page = await open(placeOf(nft));
  for (const width of [1200, 375]) {
    await page.setViewport({ width, height: 800 });
    await shows(page, /^W+…W*1$/, ".gallery strong");
    await shows(page, "no picture", ".gallery .picture");
    await page.waitForFunction(`(() => {
      const box = document.querySelector(".gallery");
      const grid = box.querySelector("ul");
      const end = box.getBoundingClientRect().right - parseFloat(getComputedStyle(box).paddingRight);
      const cards = [...box.querySelectorAll("li, .token, .token *")];
      return innerWidth === ${width} && grid.scrollWidth <= box.clientWidth && cards.length > 0 &&
        cards.every((one) => one.getBoundingClientRect().right <= end + 0.5);
    })()`);
  }
});

/** Presses a format of the export, and returns the lines of the file that the browser saves. */
async function exported(page: Page, format: string, block: number): Promise<readonly string[]> {
  const folder = mkdtempSync(join(tmpdir(), "console-export-"));
  const session = await page.createCDPSession();
  await session.send("Browser.setDownloadBehavior", {
    ...{ behavior: "allow", downloadPath: folder, eventsEnabled: true },
    ...(page.browserContext().id === undefined ? {} : { browserContextId: page.browserContext().id as string }),
  });
  try {
    await press(page, format);
    const saved = new RegExp(`Saved (\\S+-${block}\\.${format})\\.`);
    const path = join(folder, saved.exec(await shows(page, saved))?.[1] ?? "");
    return await eventually("the file is saved", async () => {
      // The runtime keeps the size of a file that it has looked at, and the browser makes it before it writes.
      const file = Bun.file(path);
      if (!(await file.exists())) return undefined;
      const lines = (await file.text()).split("\n").filter((line) => line.trim() !== "");
      return lines.length > 0 ? lines : undefined;
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test("exports the block that the page shows", async () => {
  const nft = await collectionOf(3);
  const minted = await headBlock();
  await transact(anvil, nft.contract, "mint", [account(2), 4n]);
  await synced(service, nft.address, minted + 1);
  const page = await open(`${placeOf(nft)}?view=export`);
  await shows(page, `The file has the collection at block ${minted + 1}.`);
  const lines = await exported(page, "jsonl", minted + 1);
  const owners = lines.map((line) => {
    const { token_id: id, owner_of: owner } = JSON.parse(line) as { token_id: string; owner_of: string };
    return [id, owner];
  });
  expect(owners).toEqual([...["1", "2", "3"].map((id) => [id, account(1)]), ["4", account(2)]]);
  await slideTo(page, minted);
  await shows(page, `The file has the collection at block ${minted}.`);
  expect(await exported(page, "csv", minted)).toHaveLength(1 + 3);
});

test("shows the line for a program in place of a file that may have more than 100 MB", async () => {
  const nft = await collectionOf(2);
  const page = await open("/");
  // A collection of this size takes minutes to make. The page gets it from the listing.
  await page.setRequestInterception(true);
  page.on("request", async (request) => {
    if (!request.url().includes(`/api/v2/nft/${nft.address}?`)) return void request.continue();
    const answer = await fetch(request.url(), { headers: { "x-api-key": OPERATOR_KEY } });
    const body = JSON.stringify({ ...((await answer.json()) as object), total: "500000" });
    const headers = Object.fromEntries([...answer.headers].filter(([name]) => name.startsWith("x-")));
    await request.respond({ status: answer.status, headers, body });
  });
  await goTo(page, `${placeOf(nft)}?view=export`);
  await shows(page, "The file may have more than 100 MB");
  expect(await textOf(page, "[role=tabpanel] > pre")).toContain(
    `curl -OJ -H "X-API-Key: $KEY" '${root}/api/collections/eth/${nft.address}/export?format=csv&holders=false&as_of_block=`,
  );
});

test("shows no progress where there is none", async () => {
  const page = await open(`/nft/eth/0x${"12".repeat(20)}`);
  await shows(page, "A wallet: an account without code.", "main");
  const assertNone = async () => {
    expect(await textOf(page)).not.toMatch(/Waiting for the first blocks|reads this contract's history|0 %/);
    expect(await page.$$("[role=progressbar]")).toHaveLength(0);
  };
  await assertNone();
  for (const chain of ["polygon", "nowhere"]) {
    await goTo(page, `/nft/${chain}/0x${"12".repeat(20)}`);
    await shows(page, /chain/i, ".failure");
    await assertNone();
  }
  expectFaults("status of 40");
});

test("keeps the holders of the newest block up to date", async () => {
  const nft = await collectionOf(3);
  const page = await open(`${placeOf(nft)}?view=holders`);
  await shows(page, "1 owner at block", "[role=tabpanel]");
  await transact(anvil, nft.contract, "move", [account(1), account(4), 2n]);
  const block = await headBlock();
  await shows(page, `2 owners at block ${block}`, "[role=tabpanel]");
  await shows(page, new RegExp(`2\\s+${account(4)}\\s+1\\s+33.33%`), "table");
});

const changeOf = ({ address }: Deployed, method: string, path = "") =>
  service.fetch(`/api/collections/eth/${address}${path}`, { method, headers: { "x-api-key": OPERATOR_KEY } });

test("says that a collection is indexed again", async () => {
  const nft = await collectionOf(3);
  const page = await open(placeOf(nft));
  await shows(page, "3 tokens at block");
  // A local chain is read within a few milliseconds, so the page notes what it shows.
  await page.evaluate(`globalThis.seen = []; new MutationObserver(() => seen.push(document.body.innerText))
    .observe(document.body, { childList: true, subtree: true, characterData: true })`);
  await changeOf(nft, "POST", "/reindex");
  await eventually("the page says it", async () => {
    const seen = (await page.evaluate("seen")) as string[];
    return seen.some((text) => text.includes("An operator has this collection indexed again")) || undefined;
  });
  await shows(page, "3 tokens at block");
  // A page of the gallery that was under way when the collection began anew.
  expectFaults("status of 409");
});

test("says that a collection was removed, and does not have it indexed again by itself", async () => {
  const nft = await collectionOf(3);
  await eventually("its metadata was tried", async () => {
    const { body } = await service.get(`/api/collections/eth/${nft.address}`);
    return body.metadata.failed === 3 || undefined;
  });
  const page = await open(placeOf(nft));
  await shows(page, "3 tokens at block");
  // A listing that is under way would have the collection indexed again.
  await page.waitForNetworkIdle({ idleTime: 1_600 });
  await changeOf(nft, "DELETE");
  await shows(page, "An operator removed this collection");
  expect(await page.$$(".gallery, .slider")).toHaveLength(0);
  const { body } = await service.get(`/api/collections/eth/${nft.address}`);
  expect(body.status).toBe("removed");
  await press(page, "Index it again");
  await shows(page, "3 tokens at block");
  expectFaults("status of 409");
});

test("says that the connection is lost, and goes on when the service is back", async () => {
  const logUrl = temporaryLogUrl();
  const nft = await collectionOf(3);
  let other = await startTestService({ rpcUrl: anvil.url, logUrl, env: ENV });
  try {
    await synced(other, nft.address);
    const page = await open(placeOf(nft), { root: `http://127.0.0.1:${other.port}` });
    await shows(page, "3 tokens at block");
    await other.stop();
    await shows(page, "The connection to the service is lost");
    await transact(anvil, nft.contract, "mint", [account(2), 4n]);
    other = await startTestService({ rpcUrl: anvil.url, logUrl, env: { ...ENV, PORT: String(other.port) } });
    await hides(page, "The connection to the service is lost");
    await shows(page, "4 tokens at block");
    await transact(anvil, nft.contract, "mint", [account(2), 5n]);
    await shows(page, "5 tokens at block");
    // A service that starts closes connections, and answers a request in flight with a 503.
    expectFaults(/net::ERR_|status of 503/);
    await page.goto("about:blank");
  } finally {
    await other.stop();
  }
});

test("opens the metadata of a token as it was known at each attempt", async () => {
  const nft = await deploy(anvil, await contractArtifact("StoryNft"), ["Story", "STO"]);
  const story = (name: string, mood: string) =>
    `data:application/json,${encodeURIComponent(
      JSON.stringify({ name, attributes: [{ trait_type: "Mood", value: mood }] }),
    )}`;
  await transact(anvil, nft.contract, "mintStories", [account(1), 1, [story("Before", "calm")]]);
  await synced(service, nft.address, await headBlock());
  /** Waits until the attempts found so many different documents. Returns the attempts, newest first. */
  const attempts = (documents: number) =>
    eventually(`${documents} documents were found`, async () => {
      const { body } = await service.get(`/api/collections/eth/${nft.address}/tokens/1`);
      const hashes = new Set((body.metadata ?? []).map(({ hash }: { hash: string | null }) => hash));
      return hashes.size === documents && !hashes.has(null) ? body.metadata : undefined;
    });
  await attempts(1);
  await transact(anvil, nft.contract, "setStory", [1n, story("After", "wild")]);
  await synced(service, nft.address, await headBlock());
  const page = await open(`${placeOf(nft)}/1`);
  await shows(page, "Before", "h1");
  await press(page, "Refresh metadata");
  const [newest, oldest] = await attempts(2);
  await page.reload();
  await shows(page, "After", "h1");
  const shown = async (at: number) => {
    // By the element, not by its place: pictures that arrive meanwhile move it.
    await page.$eval(`.happenings li:nth-child(${at}) button`, (button) =>
      (button as unknown as { click(): void }).click(),
    );
    return shows(page, /Mood/, `.happenings li:nth-child(${at}) .known`);
  };
  const then = await shown(2);
  expect(then).toMatch(/Before\s+Mood\s*calm/);
  expect(then).toContain('"name": "Before"');
  expect(await shown(1)).toContain('"name": "After"');
  expect(visited.requests.filter((path) => path.includes("metadata_as_of"))).toEqual(
    [oldest, newest].map(
      ({ time }) => `/api/collections/eth/${nft.address}/tokens/1?limit=1&metadata_as_of=${encodeURIComponent(time)}`,
    ),
  );
});

test("names the rule of a flag, and the reasons of all failed metadata, and tries the failed tokens again", async () => {
  const nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Claim your prize", "PRZ"]);
  await transact(anvil, nft.contract, "mintMany", [account(1), 1, 30]);
  await eventually("all tokens failed", async () => {
    await synced(service, nft.address);
    const { body } = await service.get(`/api/collections/eth/${nft.address}`);
    return body.metadata.failed === 30 || undefined;
  });
  const page = await open(`${placeOf(nft)}?view=activity`);
  await shows(page, "possible spam (rule name-claim)", ".heading");
  await shows(page, "With metadata: 0 tokens. Failed: 30 tokens.", "[role=tabpanel]");
  await shows(page, /no uri 30 tokens/, "[role=tabpanel] ul");
  const asked = page.waitForRequest((request) => request.url().endsWith("/refresh"));
  await press(page, "Try the failed ones again");
  const ids = (JSON.parse((await asked).postData() ?? "{}") as { tokenIds: string[] }).tokenIds;
  expect(ids.map(Number).sort((a, b) => a - b)).toEqual(Array.from({ length: 30 }, (_, at) => at + 1));
  await shows(page, "The metadata of 30 tokens is fetched again.");
  await page.browserContext().close();
  // A key of scope read sees the same, without the buttons.
  const reader = await open(`${placeOf(nft)}?view=activity`, { key: TEST_KEY });
  await shows(reader, /no uri 30 tokens/, "[role=tabpanel] ul");
  expect(await textOf(reader)).not.toContain("Try the failed ones again");
  expectFaults("status of 403");
});

test("counts a filtered list to its end", async () => {
  const nft = await collectionOf(3);
  await transact(anvil, nft.contract, "move", [account(1), account(5), 2n]);
  const block = await headBlock();
  await synced(service, nft.address, block);
  const page = await open(`${placeOf(nft)}?owner=${account(1)}`);
  await shows(page, `2 tokens at block ${block}`, "[role=tabpanel]");
});

test("names the tab of the browser and moves the focus to the heading, and its tabs follow the arrow keys", async () => {
  const nft = await collectionOf(3, { name: "Titled" });
  const page = await open(placeOf(nft));
  const title = (words: string) => page.waitForFunction(`document.title === ${JSON.stringify(words)}`);
  await title("Titled SYM · EVM data service");
  await shows(page, "3 tokens at block");
  await page.locator(".gallery a").click();
  await page.waitForFunction("document.activeElement?.tagName === 'H1'");
  await title("#1 · Titled · EVM data service");
  await page.goBack();
  await title("Titled SYM · EVM data service");
  await shows(page, "3 tokens at block");
  const tabs = () =>
    page.evaluate(`[...document.querySelectorAll("[role=tab]")].map((one) => [one.textContent, one.getAttribute("aria-selected"),
      one.tabIndex, one === document.activeElement, document.getElementById(one.getAttribute("aria-controls"))?.getAttribute("role")])`);
  const row = (names: readonly string[], chosen: string) =>
    names.map((name) => [name, String(name === chosen), name === chosen ? 0 : -1, name === chosen, "tabpanel"]);
  const names = ["Gallery", "Holders", "Activity", "Export"];
  await page.focus("[role=tab]");
  const steps = [
    ["ArrowRight", "Holders"],
    ["End", "Export"],
    ["ArrowRight", "Gallery"],
    ["ArrowLeft", "Export"],
    ["Home", "Gallery"],
  ] as const;
  for (const [key, chosen] of steps) {
    await page.keyboard.press(key);
    await page.waitForFunction(
      `document.querySelector("[aria-selected=true]")?.textContent === ${JSON.stringify(chosen)}`,
    );
    expect(await tabs()).toEqual(row(names, chosen));
  }
});

test("says what is wrong with an address that leads nowhere", async () => {
  const page = await open("/nft/eth/0x1234");
  await shows(page, "0x1234 is no address of a contract.", "main");
  await goTo(page, "/nonsense/more");
  await shows(page, 'The console has no screen "nonsense/more".', "main");
  expect(await textOf(page, "h1")).toBe("This page does not exist");
});

test("shortens the addresses of holders on a phone", async () => {
  const nft = await collectionOf(3);
  const page = await open(`${placeOf(nft)}?view=holders`);
  await page.setViewport({ width: 375, height: 740, isMobile: true, hasTouch: true });
  await shows(page, new RegExp(`1\\s+${brief(account(1))}\\s+3\\s+100%`), "table");
  const height = await page.evaluate(`document.querySelector("tbody code").getBoundingClientRect().height`);
  expect(height).toBeLessThan(30);
});

test("lists the transfers of a collection and of a token, and links their owners, on a phone as well", async () => {
  const nft = await collectionOf(2, { name: "Travelling" });
  await transact(anvil, nft.contract, "move", [account(1), account(2), 1n]);
  const { transactionHash: hash } = await transact(anvil, nft.contract, "move", [account(2), account(3), 1n]);
  const block = await headBlock();
  await synced(service, nft.address, block);
  const { timestamp } = (await anvil.send("eth_getBlockByNumber", ["latest", false])) as { timestamp: string };
  const time = new Date(Number(timestamp) * 1_000).toISOString().slice(0, 19).replace("T", " ");
  const page = await open(`${placeOf(nft)}?view=activity`);
  const rows = () =>
    page.evaluate(`[...document.querySelectorAll("table tbody tr")].map((row) =>
      [...row.cells].map((cell) => cell.innerText.trim()))`) as Promise<string[][]>;
  for (const width of [1200, 360]) {
    await page.setViewport({ width, height: 740, isMobile: width < 600, hasTouch: width < 600 });
    await goTo(page, `${placeOf(nft)}?view=activity`);
    await shows(page, /#1\s/, "table");
    const shown = await eventually("all rows are there", async () => {
      const found = await rows();
      return found.length === 4 ? found : undefined;
    });
    expect(shown[0]).toEqual([`${time} UTC`, String(block), "#1", brief(account(2)), brief(account(3)), "1"]);
    expect(shown[1]?.slice(1)).toEqual([String(block - 1), "#1", brief(account(1)), brief(account(2)), "1"]);
    expect(shown.slice(2).map((row) => row.slice(2))).toEqual(
      ["#2", "#1"].map((id) => [id, "minted", brief(account(1)), "1"]),
    );
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
    await page.locator("table tbody tr a").click();
    await shows(page, brief(hash), "table");
    expect((await rows())[0]?.slice(2)).toEqual([brief(account(2)), brief(account(3)), "1", brief(hash)]);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
    const explorers = await page.$$eval(".explorer", (all) => all.map((one) => one.getAttribute("href")));
    expect(explorers).toContain(`https://etherscan.io/tx/${hash}`);
    expect(explorers).toContain(`https://etherscan.io/address/${account(3)}`);
  }
  // The keyboard shows the whole address, and the link leads to what its owner holds.
  await page.focus("table tbody a");
  await page.keyboard.press("Tab");
  await shows(page, account(2), "table");
  await page.locator(`button[aria-label="Copy ${account(3)}"]`).click();
  await page.waitForSelector(".copy.done[aria-label=Copied]");
  await page.locator(`table a[href*="owner=${account(3)}"]`).click();
  await shows(page, account(3), ".chips");
  await shows(page, `1 token at block ${block}`, "[role=tabpanel]");
});

test("tells the ids of an ERC-1155 apart, and shows holders with amounts", async () => {
  const multi = await deploy(anvil, await contractArtifact("MultiToken"), ["Multi", "MUL", ""]);
  // Ids with a type in their high bits have a long common beginning.
  const [one, other] = [(1n << 255n) + (1n << 128n), (1n << 255n) + (2n << 128n)];
  await transact(anvil, multi.contract, "mint", [account(1), one, 70n]);
  await transact(anvil, multi.contract, "mint", [account(2), one, 30n]);
  await transact(anvil, multi.contract, "mint", [account(1), other, 1n]);
  await transact(anvil, multi.contract, "mint", [account(1), 7n, 5n]);
  await transact(anvil, multi.contract, "mint", [account(3), 7n, 200n]);
  const minted = await headBlock();
  await transact(anvil, multi.contract, "burn", [account(2), one, 29n]);
  await synced(service, multi.address, minted + 1);
  const page = await open(placeOf(multi));
  const cut = (id: bigint) => new RegExp(`#${String(id).slice(0, 4)}\\d*…\\d*${String(id).slice(-4)}\n`);
  const text = await shows(page, "#7\nsupply 205", ".gallery");
  for (const id of [one, other]) expect(text).toMatch(cut(id));
  expect(text).toContain("supply 71");
  expect(text).not.toContain(String(one));
  const cutAgain = `[...document.querySelectorAll(".gallery strong")].filter((one) => one.scrollWidth > one.clientWidth).length`;
  expect(await page.evaluate(cutAgain)).toBe(0);
  // The keyboard gets the whole id.
  await page.focus(".gallery a");
  await page.keyboard.press("Tab");
  await page.keyboard.down("Shift");
  await page.keyboard.press("Tab");
  await page.keyboard.up("Shift");
  await shows(page, `#${one}`, ".gallery");
  const [card, whole] = await page.$eval(".gallery a", (link) =>
    [link, link.querySelector(".full-id")].map((part) => part?.getBoundingClientRect().bottom ?? 0),
  );
  expect(whole).toBeLessThanOrEqual(card as number);

  await press(page, "Holders");
  await shows(page, "3 owners at block");
  expect(await textOf(page, "thead")).toMatch(/Rank\s+Owner\s+Token ids\s+Amount\s+Share/);
  const rows = new RegExp(`1\\s+${account(3)}\\s+1\\s+200\\s[\\s\\S]*2\\s+${account(1)}\\s+3\\s+76\\s`, "i");
  await shows(page, rows, "tbody");

  await goTo(page, `/nft/eth/${multi.address}/${one}`);
  await shows(page, "2 holders", "main");
  await shows(page, new RegExp(`1\\s+${account(1)}\\s+70\\s+98.59%\\s+2\\s+${account(2)}\\s+1\\s+1.41%`, "i"), "tbody");
  await shows(page, "Supply\n71", "dl");
  await goTo(page, `/nft/eth/${multi.address}/${one}?block=${minted}`);
  await shows(page, new RegExp(`2\\s+${account(2)}\\s+30\\s+30%`, "i"), "tbody");
  await page.setViewport({ width: 360, height: 740, isMobile: true, hasTouch: true });
  for (const place of ["?view=holders", `/${one}`, ""]) {
    await goTo(page, `${placeOf(multi)}${place}`);
    await shows(page, /supply|200|70/, "main");
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(360);
  }
});

test("names a token with amounts, with its id beside the number in circulation", async () => {
  const claims = await deploy(anvil, await contractArtifact("Claims"));
  await transact(anvil, claims.contract, "mint", [account(1), 7n, 5n]);
  await transact(anvil, claims.contract, "mint", [account(3), 7n, 200n]);
  await transact(anvil, claims.contract, "mint", [account(3), 8n, 1n]);
  for (const [id, name] of [
    [7n, "Sword"],
    [8n, "Shield"],
  ])
    await transact(anvil, claims.contract, "setTokenURI", [id, `data:application/json,{"name":"${name}"}`]);
  await eventually("it has the names", async () => {
    const { body } = await synced(service, claims.address, 0, "&normalizeMetadata=true");
    return /Sword.*Shield/.test(JSON.stringify(body.result)) || undefined;
  });
  const page = await open(placeOf(claims));
  await shows(page, `Sword\n#7 · supply 205\nno picture\nShield\n#8 · ${brief(account(3))}`, ".gallery");
  await goTo(page, `${placeOf(claims)}/7`);
  await shows(page, new RegExp(`1\\s+${account(3)}\\s+200\\s+97.56%\\s+2\\s+${account(1)}\\s+5`, "i"), "tbody");
});

test("lists the holders of a token, also of one with more than 10,000 transfers, and at a block of the past", async () => {
  const multi = await deploy(anvil, await contractArtifact("MultiToken"), ["Busy", "BSY", ""]);
  const batches = async (count: number) => {
    for (let batch = 0; batch < count; batch++)
      await transact(anvil, multi.contract, "mintBatch", [account(1), Array(500).fill(7n), Array(500).fill(1n)]);
    await synced(service, multi.address, await headBlock());
  };
  await batches(3);
  const page = await open(`${placeOf(multi)}/7`);
  await shows(page, new RegExp(`1\\s+${account(1)}\\s+1,500\\s+100%`, "i"), "tbody");
  const before = await headBlock();
  await batches(18);
  await page.reload();
  await shows(page, new RegExp(`1\\s+${account(1)}\\s+10,500\\s+100%`, "i"), "tbody");
  await goTo(page, `${placeOf(multi)}/7?block=${before}`);
  await shows(page, new RegExp(`1\\s+${account(1)}\\s+1,500\\s+100%`, "i"), "tbody");
});
