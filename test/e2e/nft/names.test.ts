/**
 * Names for contracts that return none, as clients see them: from the operator's list, which is reloaded while the
 * service runs, or from the list that ships with the service. They never replace a contract's own name.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Anvil, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { contractAt, type Deployed, deploy, placeCode, transact } from "../../../scripts/local-chain/contracts.ts";
import { spawnService } from "../../support/process.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../../support/service.ts";

const ENS = "0x57f1887a8bf19b14fc0df6fd9b2acc9af147ea85";
const folder = mkdtempSync(join(tmpdir(), "names-"));
const file = join(folder, "names.txt");

let anvil: Anvil;
let bare: Deployed;
let plain: Deployed;
let service: TestService;

/** Replaces the file atomically, as an editor does. */
function write(text: string): void {
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
}

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400, slotsInAnEpoch: 2 });
  const artifact = await contractArtifact("BareNft");
  bare = await deploy(anvil, artifact);
  plain = await deploy(anvil, await contractArtifact("PlainNft"), ["Plain", "PLN"]);
  await placeCode(anvil, ENS, artifact.deployedBytecode);
  for (const contract of [bare.contract, plain.contract, contractAt(anvil, ENS, artifact.abi)]) {
    await transact(anvil, contract, "mint", [anvil.accounts[1], 1]);
  }
  await anvil.mine(6);
  write(`${plain.address},Not This,NO\n`);
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env: { NAME_LIST: file } });
  for (const address of [bare.address, plain.address, ENS]) await synced(service, address);
}, 300_000);

afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const named = async (address: string): Promise<[string, string]> => {
  const { name, symbol } = (await service.get(`/api/v2/nft/${address}`)).body.result[0];
  return [name, symbol];
};

test("keeps a contract's own name, and uses a shipped name if there is none", async () => {
  expect(await named(plain.address)).toEqual(["Plain", "PLN"]);
  expect(await named(bare.address)).toEqual(["", ""]);
  expect(await named(ENS)).toEqual(["Ethereum Name Service", "ENS"]);
});

test("reloads the operator's list, also for cached pages, and prefers it to the shipped list", async () => {
  // By now the page is in the answer cache.
  for (let i = 0; i < 3; i++) await named(bare.address);
  const { headers } = await service.get(`/api/v2/nft/${bare.address}`);
  write(`eth,${bare.address},Bare Ones,BARE\n${ENS},Names\n${plain.address},Not This,NO\n`);
  await eventually("the list is loaded", async () => ((await named(bare.address))[0] === "" ? undefined : true));
  expect(await named(bare.address)).toEqual(["Bare Ones", "BARE"]);
  expect(await named(ENS)).toEqual(["Names", ""]);
  expect(await named(plain.address)).toEqual(["Plain", "PLN"]);
  const changed = await service.get(`/api/v2/nft/${bare.address}`);
  expect(changed.headers.get("etag")).not.toBe(headers.get("etag"));
  write("");
  await eventually("the list is empty", async () => ((await named(bare.address))[0] === "" ? true : undefined));
  expect(await named(ENS)).toEqual(["Ethereum Name Service", "ENS"]);
});

test("sets no flag because of a name from a list, only because of the contract's own words", async () => {
  write(`${bare.address},claim your reward at apes.com,X\n`);
  await eventually("the list is loaded", async () => ((await named(bare.address))[0] === "" ? undefined : true));
  const record = (await service.get(`/api/v2/nft/${bare.address}`)).body.result[0];
  expect([record.name, record.possible_spam]).toEqual(["claim your reward at apes.com", "false"]);
});

test("stops the start with the reason if the list is malformed", async () => {
  const bad = join(folder, "bad.txt");
  writeFileSync(bad, `${"0x12"},Apes\n`);
  const { exited, stderr } = spawnService({
    RPC_URL_ETH: "http://127.0.0.1:9",
    RPC_URLS_ONLY: "true",
    EVENT_LOG_URL: temporaryLogUrl(),
    NAME_LIST: bad,
  });
  expect(await exited).toBe(78);
  expect(stderr()).toContain("NAME_LIST: line 1");
});
