/** The screens of a collection and of a token in a real browser, against the real service on a local chain. */
import { afterAll, afterEach, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import type { Browser, Page } from "puppeteer-core";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import type { Visit } from "../support/browser.ts";
import { goTo, hashOf, OPERATOR_KEY, openConsole, press, shows, slideTo, textOf } from "../support/console.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(90_000);

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
function expectFaults(words: string): void {
  expect(visited.faults.filter((fault) => !fault.includes(words))).toEqual([]);
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
  await page.click(".gallery a");
  await shows(page, `After block ${minted + 1}`);
  await shows(page, `Owner\n${brief(account(2))}`, ".facts");
  expect(await textOf(page, ".line")).not.toContain(account(3));
  await page.goBack();
  await shows(page, account(2), ".chips");
  await shows(page, brief(account(2)), ".gallery");
  expect(await textOf(page, ".slider output")).toBe(`${minted + 1}`);
  // An address that was sent to another visitor.
  await goTo(page, `${placeOf(nft)}?block=${minted}&view=holders`);
  await shows(page, `1 owner after block ${minted}`, "[role=tabpanel]");
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
    await shows(page, name.slice(0, 60), ".gallery strong");
    await shows(page, "no picture", ".gallery .picture");
    await page.waitForFunction(`(() => {
      const box = document.querySelector(".gallery");
      const grid = box.querySelector("ul");
      const end = box.getBoundingClientRect().right - parseFloat(getComputedStyle(box).paddingRight);
      const cards = [...box.querySelectorAll("li, .card, .card *")];
      return innerWidth === ${width} && grid.scrollWidth <= box.clientWidth && cards.length > 0 &&
        cards.every((one) => one.getBoundingClientRect().right <= end + 0.5);
    })()`);
  }
});
