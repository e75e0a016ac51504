/**
 * A chain whose answers may be old says so on each of its screens: what is wrong, the reason, and the way out with a
 * command. `doctor` and `status` say it in the same words.
 */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Browser, Page } from "puppeteer-core";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import { type Anvil, reorg, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { type ChainTrouble, troubleText, wayOutOf } from "../../src/chains/trouble.ts";
import { PROGRAM } from "../../src/core/program.ts";
import { seriousFaults } from "../support/accessibility.ts";
import { runCli } from "../support/cli.ts";
import { goTo, hides, OPERATOR_KEY, openConsole, shows } from "../support/console.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import {
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

/** A log of a contract that nobody asked for. */
const STRANGE_LOG = {
  address: `0x${"ee".repeat(20)}`,
  topics: [`0x${"ab".repeat(32)}`],
  data: "0x",
  transactionHash: `0x${"cd".repeat(32)}`,
  transactionIndex: "0x0",
  logIndex: "0x0",
};

let anvil: Anvil;
let other: Anvil;
let browser: Browser;
let nft: Deployed;
let logUrl: string;
let service: TestService | undefined;
const proxies: RpcProxy[] = [];

beforeAll(async () => {
  other = await startAnvil({ chainId: 5 });
  browser = await startBrowser();
});
afterAll(async () => {
  await browser?.close();
  await other?.stop();
});

beforeEach(async () => {
  // All blocks but the newest two are final.
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400, slotsInAnEpoch: 1 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["State", "STA"]);
  await anvil.mine(20);
  await transact(anvil, nft.contract, "mintMany", [anvil.accounts[1], 1, 5]);
  await anvil.mine(5);
  logUrl = temporaryLogUrl();
});
afterEach(async () => {
  await service?.stop();
  service = undefined;
  await Promise.all([anvil.stop(), ...proxies.splice(0).map((proxy) => proxy.stop())]);
});

const rootOf = ({ port }: TestService): string => `http://127.0.0.1:${port}`;
const places = () => [`/nft/eth/${nft.address}`, `/nft/eth/${nft.address}/1`, `/price/eth/${nft.address}`];
const height = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));

/** Starts the service, and waits until it lists the collection at the newest block, unless the chain can't be read. */
async function serve(rpcUrl: string, isRead = true): Promise<TestService> {
  service = await startTestService({ rpcUrl, logUrl, env: { OPERATOR_KEYS: OPERATOR_KEY } });
  if (isRead) await synced(service, nft.address, await height());
  return service;
}

interface EndpointState {
  readonly label: string;
  readonly state: string;
}

/** Waits until the status has these states of the endpoints of eth. @param before runs before each look */
const endpointsAre = (running: TestService, states: readonly string[], before?: () => Promise<unknown>) =>
  eventually(`the endpoints are ${states}`, async () => {
    await before?.();
    const { body } = await running.get("/api/status", { "x-api-key": OPERATOR_KEY });
    const found = body.chains[0].endpoints.map(({ state }: EndpointState) => state);
    return Bun.deepEquals(found, states) ? true : undefined;
  });

/** Expects the trouble, its way out and its command on a screen. Returns the text of the notice. */
async function showsTrouble(page: Page, trouble: ChainTrouble): Promise<string> {
  const { text, next } = wayOutOf("eth", trouble, PROGRAM);
  const notice = await shows(page, `${troubleText("eth", trouble)}. ${text}`, "section[role=alert]");
  expect(notice).toContain(`${next.why} ${next.command}`);
  return notice;
}

/** Expects the trouble on each screen of the chain, and the reasons. */
async function onEachScreen(
  running: TestService,
  trouble: ChainTrouble,
  { key = OPERATOR_KEY, reasons = [] }: { readonly key?: string; readonly reasons?: readonly string[] },
): Promise<void> {
  const { page } = await openConsole(browser, "/", { root: rootOf(running), key });
  for (const place of places()) {
    await goTo(page, place);
    await showsTrouble(page, trouble);
    for (const reason of reasons) await shows(page, reason, "section[role=alert]");
  }
  await page.browserContext().close();
}

/** Expects the same words from `doctor`, and from `status` of the running service. */
async function expectSameWords(running: TestService, trouble: ChainTrouble, rpcUrls: string): Promise<void> {
  const { text } = wayOutOf("eth", trouble, PROGRAM);
  const env = { EVENT_LOG_URL: logUrl, RPC_URLS_ONLY: "true", RPC_URL_ETH: rpcUrls, PORT: "0" };
  const doctor = await runCli(["doctor"], env);
  expect(doctor.out).toContain(`chain: ${troubleText("eth", trouble)}\n    ${text}`);
  const status = await runCli(["status", "--url", rootOf(running)], { SERVICE_KEY: OPERATOR_KEY });
  expect(status.out).toContain(`  ${troubleText("eth", trouble)}. ${text}\n`);
}

describe("a chain", () => {
  test("that is halted says so to both scopes, with the block and the command, and `doctor` does", async () => {
    const running = await serve(anvil.url);
    const head = await height();
    await reorg(anvil, 12);
    await anvil.mine(3);
    await eventually("the chain is halted", async () => {
      const answer = await running.get(`/api/v2/nft/${nft.address}`);
      return answer.headers.get("x-chain-status") === "halted" ? true : undefined;
    });
    const reasons = [`The newest block that is shown is ${head} of `, "bun scripts/forget-chain.ts eth"];
    await onEachScreen(running, "halted", { reasons });
    await onEachScreen(running, "halted", { key: TEST_KEY });
    await expectSameWords(running, "halted", anvil.url);
  });

  test("with an endpoint of another chain names that chain, and `doctor` does", async () => {
    await (await serve(anvil.url)).stop();
    const running = await serve(other.url, false);
    const reasons = ["eth#1: it is of chain 5", "Correct RPC_URL_ETH. Then restart the service."];
    await onEachScreen(running, "wrong_chain", { reasons });
    await onEachScreen(running, "wrong_chain", { key: TEST_KEY });
    // Each of these asks on its own. A code of a chain stands for its name.
    for (const place of [`/price/eth/${anvil.accounts[3]}`, `/nft/0x1/${nft.address}`]) {
      const { page } = await openConsole(browser, place, { root: rootOf(running), key: TEST_KEY });
      await showsTrouble(page, "wrong_chain");
      await goTo(page, `/search/${anvil.accounts[4]}`);
      await shows(page, troubleText("eth", "wrong_chain"), "main ul");
      await page.browserContext().close();
    }
    await expectSameWords(running, "wrong_chain", other.url);
  });

  test("that no endpoint reaches says so, names the fault, and stops when an endpoint answers", async () => {
    let isDown = false;
    const proxy = await startRpcProxy(anvil.url, {
      onRequest: () => (isDown ? { status: 502, body: "no upstream" } : undefined),
    });
    proxies.push(proxy);
    const running = await serve(proxy.url);
    isDown = true;
    await endpointsAre(running, ["failed"]);
    await onEachScreen(running, "unreachable", { reasons: ["eth#1: the endpoint answered HTTP 502: no upstream"] });
    await expectSameWords(running, "unreachable", proxy.url);
    const { page } = await openConsole(browser, places()[2] as string, { root: rootOf(running), key: TEST_KEY });
    await showsTrouble(page, "unreachable");
    isDown = false;
    await endpointsAre(running, ["available"]);
    await goTo(page, places()[0] as string);
    await hides(page, "eth can't be read");
    await page.browserContext().close();
  });

  test("whose one endpoint lags while the other one lies is behind, and `doctor` says so", async () => {
    let frozen: unknown;
    let isLying = false;
    const lagging = await startRpcProxy(anvil.url, {
      onRequest: ({ method, params }) =>
        frozen !== undefined && method === "eth_getBlockByNumber" && params[0] === "latest"
          ? { result: frozen }
          : undefined,
    });
    const lying = await startRpcProxy(anvil.url, {
      onResult: ({ method, params }, result) => {
        if (!isLying || method !== "eth_getLogs") return result;
        const { toBlock, blockHash = `0x${"ba".repeat(32)}` } = params[0] as { toBlock?: string; blockHash?: string };
        return [{ ...STRANGE_LOG, blockNumber: toBlock ?? "0x1", blockHash }];
      },
    });
    proxies.push(lagging, lying);
    const running = await serve(`${lagging.url},${lying.url}`);
    frozen = await anvil.send("eth_getBlockByNumber", [`0x${((await height()) - 3).toString(16)}`, false]);
    isLying = true;
    let id = 99;
    // One block is not enough: its logs may be read from the endpoint that lags, if the other one is slow just then.
    await endpointsAre(running, ["behind", "lied"], () =>
      transact(anvil, nft.contract, "mint", [anvil.accounts[1], id++]),
    );
    await onEachScreen(running, "behind", { reasons: ["eth#1: another endpoint has newer blocks"] });
    await expectSameWords(running, "behind", lagging.url);
  });
});

describe("the notice", () => {
  test("copies its command, fits a phone, and passes an accessibility check", async () => {
    await (await serve(anvil.url)).stop();
    const running = await serve(other.url, false);
    const { page } = await openConsole(browser, "/", { root: rootOf(running) });
    await page.setViewport({ width: 360, height: 740, isMobile: true, hasTouch: true });
    // The overview has the words on the card of the chain.
    await shows(page, troubleText("eth", "wrong_chain"), ".cards");
    for (const place of ["/", ...places()]) {
      await goTo(page, place);
      if (place !== "/") await showsTrouble(page, "wrong_chain");
      const width = await page.evaluate("document.documentElement.scrollWidth");
      expect([place, width, await seriousFaults(page)]).toEqual([place, 360, []]);
    }
    await page.evaluate(`
      window.copied = [];
      Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => void copied.push(text) } });
    `);
    await page.locator("section[role=alert] .copy").click();
    await page.waitForSelector("section[role=alert] .copy.done");
    expect(await page.evaluate("copied")).toEqual([`${PROGRAM} doctor`]);
    await page.browserContext().close();
  });
});
