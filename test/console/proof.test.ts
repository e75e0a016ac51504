/** A proof in a real browser: asked of the service, then checked with the network off. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Browser, Page } from "puppeteer-core";
import { startBrowser } from "../../scripts/console-shots/browser.ts";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { fill, OPERATOR_KEY, openConsole, press, shows } from "../support/console.ts";
import { startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

let anvil: Anvil;
let service: TestService;
let browser: Browser;
let nft: Deployed;
let multi: Deployed;

beforeAll(async () => {
  anvil = await startAnvil();
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Plain", "PLN"]);
  await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 1]);
  multi = await deploy(anvil, await contractArtifact("MultiToken"), ["Multi", "MUL", ""]);
  await transact(anvil, multi.contract, "mint", [anvil.accounts[1], 1, 15]);
  await transact(anvil, multi.contract, "mint", [anvil.accounts[2], 1, 5]);
  service = await startTestService({
    ...{ rpcUrl: anvil.url, logUrl: temporaryLogUrl() },
    env: { OPERATOR_KEYS: OPERATOR_KEY },
  });
  for (const { address, blockNumber } of [nft, multi]) await synced(service, address, blockNumber + 1);
  browser = await startBrowser();
});

afterAll(async () => {
  await browser?.close();
  await service?.stop();
  await anvil?.stop();
});

async function proofOn({ address }: Deployed): Promise<Page> {
  const root = `http://127.0.0.1:${service.port}`;
  const { page } = await openConsole(browser, `/nft/eth/${address}/1`, { root });
  return page;
}

test("a proof is checked in the browser with the network off, against the hash that a visitor has", async () => {
  const page = await proofOn(nft);
  await press(page, "Get a proof");
  await shows(page, "Nothing is checked yet");
  await page.setOfflineMode(true);
  await press(page, "Check in this browser");
  const text = await shows(page, "Verified. On chain 1, at block");
  expect(text).toContain(`the owner of token 1 of the contract ${nft.address.toLowerCase()} is ${anvil.accounts[1]}`);
  const hash = /has the hash (0x[0-9a-f]{64})/.exec(text)?.[1] as string;
  await fill(page, 'input[placeholder="0x…, if you have it"]', `0x${"11".repeat(32)}`);
  await press(page, "Check in this browser");
  await shows(page, `and not of 0x${"11".repeat(32)}`);
  await fill(page, 'input[placeholder="0x…, if you have it"]', hash);
  await press(page, "Check in this browser");
  await shows(page, "The block's hash is the expected one.");
  await page.close();
});

test("a token with many owners is proven for one of them", async () => {
  const page = await proofOn(multi);
  await shows(page, "what an owner holds");
  await fill(page, 'input[placeholder="0x…"]', anvil.accounts[2] as string);
  await press(page, "Get a proof");
  await press(page, "Check in this browser");
  await shows(page, `${anvil.accounts[2]} holds 5 of token 1`);
  await page.close();
});
