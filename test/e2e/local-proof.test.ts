/** Proofs on a development chain: they have the id that its contracts see, and not the one that the service gives it. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { verifyProof } from "../../src/proof/verifier/verify.ts";
import { eventually, startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

let anvil: Anvil;
let service: TestService;
let nft: Deployed;

beforeAll(async () => {
  anvil = await startAnvil({ chainId: 31_337 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Plain", "PLN"]);
  await transact(anvil, nft.contract, "mint", [anvil.accounts[1], 1]);
  service = await startTestService({
    ...{ rpcUrl: "http://127.0.0.1:9", logUrl: temporaryLogUrl() },
    env: { RPC_URL_LOCAL: anvil.url, RPC_URL_ETH: "off" },
  });
  await eventually("it is synced", async () => {
    const { body } = await service.get(`/api/v2/nft/${nft.address}?chain=local`);
    return body.status === "SYNCED" && body.result.length === 1 ? true : undefined;
  });
});

afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

test("an owner and a transfer are proven on the chain of the node's own id", async () => {
  for (const query of ["", "?proves=transfer"]) {
    const { status, body } = await service.get(`/api/collections/local/${nft.address}/tokens/1/proof${query}`);
    expect([status, (await verifyProof(body)).block.chainId]).toEqual([200, 31_337]);
  }
});
