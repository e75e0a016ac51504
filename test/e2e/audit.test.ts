/** The self-audit on a real chain: no drift while the events tell the truth, and drift once the state is another. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { AbiCoder, keccak256, zeroPadValue } from "ethers";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { eventually, startTestService, synced, type TestService, temporaryLogUrl } from "../support/service.ts";

// Real parts, on machines that have others to serve: the runner's five seconds would kill them in the middle.
setDefaultTimeout(30_000);

/** Where OpenZeppelin's ERC721 keeps its owners: after name and symbol. */
const OWNERS_SLOT = 2;

let anvil: Anvil;
let service: TestService;
let plain: Deployed;
let multi: Deployed;

beforeAll(async () => {
  anvil = await startAnvil({ slotsInAnEpoch: 1 });
  plain = await deploy(anvil, await contractArtifact("PlainNft"), ["Audited", "AUD"]);
  multi = await deploy(anvil, await contractArtifact("MultiToken"), ["M", "M", ""]);
  await transact(anvil, plain.contract, "mintMany", [anvil.accounts[1], 0, 10]);
  await transact(anvil, multi.contract, "mint", [anvil.accounts[2], 7, 5]);
  await anvil.mine(4);
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), auditMs: 30 });
}, 30_000);

afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

async function metric(name: string): Promise<number> {
  const text = await (await service.fetch("/metrics")).text();
  return Number(new RegExp(`^${name}\\{chain="eth"\\} (\\d+)$`, "m").exec(text)?.[1] ?? Number.NaN);
}

test("holdings of both kinds are checked, and none drifts; a state that no event told of does", async () => {
  for (const { address } of [plain, multi]) await synced(service, address);
  await eventually("60 holdings were checked", async () =>
    (await metric("audit_holdings_checked_total")) >= 60 ? true : undefined,
  );
  expect(await metric("audit_drift_total")).toBe(0);
  // The owners are written over, and no event says so.
  const thief = zeroPadValue(anvil.accounts[5] as string, 32);
  for (let id = 0; id < 10; id++) {
    const slot = keccak256(AbiCoder.defaultAbiCoder().encode(["uint256", "uint256"], [id, OWNERS_SLOT]));
    await anvil.send("anvil_setStorageAt", [plain.address, slot, thief]);
  }
  await anvil.mine();
  await eventually("drift is counted", async () => ((await metric("audit_drift_total")) > 0 ? true : undefined));
});
