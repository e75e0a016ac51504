/**
 * Transfers of ether that have logs (EIP-7708, live on Sepolia since October 2026), on a real chain: logs of the system's
 * address in the form of ERC-20's `Transfer`, before the other logs of their transactions. Code at that address emits them,
 * and is there only meanwhile, because no node of the tests has the fork.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { AbiCoder, concat, id } from "ethers";
import { type Anvil, inOneBlock, quantity, startAnvil, TRANSACTION_GAS } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, queue } from "../../scripts/local-chain/contracts.ts";
import { SYSTEM_ADDRESS } from "../../src/core/hex.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";
import {
  type Body,
  eventually,
  startTestService,
  synced,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";
import { connect } from "../support/socket.ts";

const OPERATOR = "operator-key-of-the-test";
const AS_OPERATOR = { "x-api-key": OPERATOR };
/** The burn log of older drafts. */
const BURNED = "0xcc16f5dbb4873280815c1ee09dbd06736cffcc184412cf7a71a0fdb75d397ca5";
/** LOG3 of the third word of the input, with the topics Transfer and the first two words; then LOG2 of the same. */
const EMITTER = concat([
  ...["0x602060406000" /* size, from, to */, "0x37" /* CALLDATACOPY */],
  ...["0x602035", "0x600035", "0x7f", id("Transfer(address,address,uint256)"), "0x60206000", "0xa3"],
  ...["0x600035", "0x7f", BURNED, "0x60206000", "0xa2", "0x00"],
]);

let anvil: Anvil;
let node: RpcProxy;
let service: TestService;
let nft: Deployed;
let kitties: Deployed;

/** A transfer of ether with its log. */
async function queueEther(from: string, to: string, value: bigint): Promise<void> {
  const data = AbiCoder.defaultAbiCoder().encode(["address", "address", "uint256"], [from, to, value]);
  const gas = quantity(TRANSACTION_GAS);
  await anvil.send("eth_sendTransaction", [{ from, to, value: quantity(value), gas, gasPrice: "0x0" }]);
  await anvil.send("eth_sendTransaction", [{ from, to: SYSTEM_ADDRESS, data, gas, gasPrice: "0x0" }]);
}

/** Blocks in which transfers of ether stand before, between and behind those of tokens. */
async function mineMixed(blocks: number, first: number): Promise<void> {
  const [alice, bob] = anvil.accounts.slice(1, 3) as [string, string];
  await anvil.send("anvil_setCode", [SYSTEM_ADDRESS, EMITTER]);
  for (let block = first; block < first + blocks; block++) {
    await inOneBlock(anvil, async () => {
      await queueEther(alice, bob, BigInt(block + 1));
      await queue(anvil, nft.contract, "mint", [alice, block]);
      await queueEther(bob, alice, 7n);
      await queue(anvil, nft.contract, "move", [alice, bob, block]);
      await queue(anvil, kitties.contract, "breed", [alice, 1]);
      await queueEther(alice, bob, 1n);
    });
  }
  await anvil.send("anvil_setCode", [SYSTEM_ADDRESS, "0x"]);
  await anvil.mine(1);
}

beforeAll(async () => {
  anvil = await startAnvil({ slotsInAnEpoch: 1 });
  nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Between", "BTW"]);
  kitties = await deploy(anvil, await contractArtifact("Kitties"));
  await mineMixed(10, 0);
  await anvil.mine(4);
  node = await startRpcProxy(anvil.url);
  service = await startTestService({
    ...{ rpcUrl: node.url, logUrl: temporaryLogUrl() },
    env: { OPERATOR_KEYS: OPERATOR, VERIFY: "receipts" },
  });
}, 300_000);

afterAll(async () => {
  await service?.stop();
  await node?.stop();
  await anvil?.stop();
});

test("the emitter of ether's logs is no contract at once, and the node is not asked", async () => {
  node.reset();
  const { status, body } = await service.get(`/api/v2/nft/${SYSTEM_ADDRESS}`);
  expect([status, body.code]).toEqual([404, "not_a_contract"]);
  const socket = await connect(service);
  socket.send({ action: "subscribe", chain: "eth", address: SYSTEM_ADDRESS });
  expect((await socket.next("failed"))["code"]).toBe("not_a_contract");
  socket.socket.close();
  expect(node.calls.filter(({ method }) => method === "eth_getLogs" || method === "eth_getCode")).toEqual([]);
});

test("an operator's request for the emitter searches no logs", async () => {
  node.reset();
  await service.get(`/api/v2/nft/${SYSTEM_ADDRESS}`, AS_OPERATOR);
  await eventually("the verdict is recorded", async () => {
    const { status, body } = await service.get(`/api/v2/nft/${SYSTEM_ADDRESS}`, AS_OPERATOR);
    return status === 404 && body.code === "not_a_contract" ? true : undefined;
  });
  expect(node.count("eth_getLogs")).toBe(0);
  // The emitter does have logs of ERC-20's form.
  const logs = (await anvil.send("eth_getLogs", [{ address: SYSTEM_ADDRESS, fromBlock: "0x0" }])) as Body[];
  expect(logs.filter(({ topics }) => topics.length === 3).length).toBeGreaterThan(20);
});

test("the emitter is no token with a price", async () => {
  const { status, body } = await service.get(`/api/v2/erc20/${SYSTEM_ADDRESS}/price`);
  expect([status, body.code]).toEqual([404, "not_a_token"]);
});

test("tokens are listed and followed among transfers of ether, with the true indexes of their logs", async () => {
  const bob = anvil.accounts[2]?.toLowerCase();
  const ownersAfter = async (count: number) => {
    const head = Number(await anvil.send("eth_blockNumber"));
    const rows = (await synced(service, nft.address, head)).body.result;
    expect(rows.map((row: Body) => [row.token_id, row.owner_of])).toEqual(
      Array.from({ length: count }, (_, token) => [String(token), bob]),
    );
    const bred = (await synced(service, kitties.address, head)).body.result;
    expect(bred.length).toBe(count);
  };
  await ownersAfter(10);
  await mineMixed(5, 10);
  await ownersAfter(15);
  const { body } = await service.get(`/api/collections/eth/${nft.address}/transfers?limit=500`, AS_OPERATOR);
  const real = (await anvil.send("eth_getLogs", [{ address: nft.address, fromBlock: "0x0" }])) as Body[];
  const place = (one: Body) => `${Number(one.blockNumber ?? one.block)}:${Number(one.logIndex)}`;
  expect(body.result.map(place).sort()).toEqual(real.map(place).sort());
  // The logs of ether shift those of the tokens.
  expect(real.some((one) => Number(one.logIndex) > 1)).toBe(true);
  const metrics = await (await service.fetch("/metrics")).text();
  expect(/^rpc_lies_total\{[^}]*\} (\d+)$/m.exec(metrics)?.[1] ?? "0").toBe("0");
});
