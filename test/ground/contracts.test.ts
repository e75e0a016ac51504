/**
 * The contracts of test/contracts behave as their comments say: the events they emit, the number of topics, and their
 * answers to calls. The indexer's tests rely on these shapes.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { AbiCoder, concat, Interface, id, toBeHex } from "ethers";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { compileContracts, contractArtifact } from "../../scripts/local-chain/compile.ts";
import {
  contractAt,
  type Deployed,
  deploy,
  isRevert,
  type Receipt,
  read,
  transact,
} from "../../scripts/local-chain/contracts.ts";

let anvil: Anvil;
let alice: string;
let bob: string;

const make = async (name: string, args: readonly unknown[] = []) =>
  await deploy(anvil, await contractArtifact(name), args);
/** The logs of a receipt as event names and arguments, with addresses in lower case. */
const eventsOf = ({ contract }: Deployed, receipt: Receipt) =>
  receipt.logs.map((log) => {
    const parsed = contract.interface.parseLog(log);
    return [parsed?.name, ...(parsed?.args.toArray(true) ?? []).map(plain)];
  });
const plain = (value: unknown): unknown => {
  if (typeof value === "string") return value.toLowerCase();
  return Array.isArray(value) ? value.map(plain) : value;
};
const topicCounts = (receipt: Receipt) => receipt.logs.map((log) => log.topics.length);
const ZERO = `0x${"00".repeat(20)}`;

beforeAll(async () => {
  anvil = await startAnvil();
  [, alice = "", bob = ""] = anvil.accounts;
}, 300_000);
afterAll(async () => await anvil.stop());

test("compiling a second time only reads the cache", async () => {
  const artifacts = await compileContracts();
  expect(Object.keys(artifacts)).toContain("PlainNft");
  expect(artifacts["NftProxy"]?.bytecode).toStartWith("0x");
  expect(await compileContracts()).toBe(artifacts);
});

describe("ERC-721", () => {
  test("PlainNft mints one token, mints many, moves and burns", async () => {
    const nft = await make("PlainNft", ["Plain", "PLN"]);
    expect(topicCounts(await transact(anvil, nft.contract, "mintMany", [alice, 5, 3]))).toEqual([4, 4, 4]);
    const moved = await transact(anvil, nft.contract, "transferFrom", [alice, bob, 6], { from: alice });
    expect(eventsOf(nft, moved)).toEqual([["Transfer", alice, bob, 6n]]);
    expect(eventsOf(nft, await transact(anvil, nft.contract, "burn", [5]))).toEqual([["Transfer", alice, ZERO, 5n]]);
    expect(await read<string>(nft.contract, "tokenURI", [6])).toBe("");
    await transact(anvil, nft.contract, "setBaseURI", ["ipfs://x/", ".json"]);
    expect(await read<string>(nft.contract, "tokenURI", [6])).toBe("ipfs://x/6.json");
    const burnt = await read(nft.contract, "ownerOf", [5]).catch((error: unknown) => error);
    expect(isRevert(burnt)).toBe(true);
  });

  test("BatchNft and ConsecutiveNft number tokens from 0, and ConsecutiveNft announces them by ERC-2309", async () => {
    const batch = await make("BatchNft", ["Batch", "BAT"]);
    expect(eventsOf(batch, await transact(anvil, batch.contract, "mint", [alice, 2]))).toEqual([
      ["Transfer", ZERO, alice, 0n],
      ["Transfer", ZERO, alice, 1n],
    ]);
    const consecutive = await make("ConsecutiveNft", ["Consecutive", "CON", bob, 1000]);
    const filter = { fromBlock: "0x0", address: consecutive.address };
    const logs = (await anvil.send("eth_getLogs", [filter])) as Receipt["logs"];
    expect(logs.map((log) => plain(consecutive.contract.interface.parseLog(log)?.args.toArray()))).toEqual([
      [0n, 999n, ZERO, bob],
    ]);
    expect(await read<string>(consecutive.contract, "ownerOf", [999]).then(plain)).toBe(bob);
    const more = await transact(anvil, consecutive.contract, "mint", [alice, 1]);
    expect(eventsOf(consecutive, more)).toEqual([["Transfer", ZERO, alice, 1000n]]);
  });

  test("NftProxy answers from its own storage with the implementation's code", async () => {
    const implementation = await make("ProxiedNft");
    const initialize = new Interface((await contractArtifact("ProxiedNft")).abi).encodeFunctionData("initialize", [
      "P",
      "Q",
    ]);
    const proxy = await make("NftProxy", [implementation.address, initialize]);
    const nft = contractAt(anvil, proxy.address, (await contractArtifact("ProxiedNft")).abi);
    await transact(anvil, nft, "mint", [alice, 1]);
    expect([await read<string>(nft, "name"), await read<string>(implementation.contract, "name")]).toEqual(["P", ""]);
    expect(await read<boolean>(nft, "supportsInterface", ["0x80ac58cd"])).toBe(true);
  });
});

test("MultiToken accepts repeated ids and zero amounts, and reports supplies", async () => {
  const multi = await make("MultiToken", ["Multi", "MUL", "ipfs://x/{id}"]);
  const minted = await transact(anvil, multi.contract, "mintBatch", [alice, [1, 1, 2], [3, 4, 0]]);
  expect(eventsOf(multi, minted)).toEqual([
    ["TransferBatch", anvil.accounts[0], ZERO, alice, [1n, 1n, 2n], [3n, 4n, 0n]],
  ]);
  expect(topicCounts(await transact(anvil, multi.contract, "mint", [bob, 1, 5]))).toEqual([4]);
  await transact(anvil, multi.contract, "burnBatch", [alice, [1], [2]]);
  await transact(anvil, multi.contract, "burn", [bob, 1, 1]);
  expect(await read<bigint>(multi.contract, "totalSupply(uint256)", [1])).toBe(9n);
});

describe("contracts outside the standards", () => {
  test("Kitties index no parameter and deny ERC-721", async () => {
    const kitties = await make("Kitties");
    expect(topicCounts(await transact(anvil, kitties.contract, "breed", [alice, 1]))).toEqual([1, 1]);
    const moved = await transact(anvil, kitties.contract, "transfer", [bob, 1], { from: alice });
    expect(eventsOf(kitties, moved)).toEqual([["Transfer", alice, bob, 1n]]);
    expect(await read<boolean>(kitties.contract, "supportsInterface", ["0x80ac58cd"])).toBe(false);
  });

  test("Punks announce ordinary sales correctly, but hide the buyer of an accepted bid", async () => {
    const punks = await make("Punks");
    expect(eventsOf(punks, await transact(anvil, punks.contract, "setInitialOwners", [alice, 0, 2]))).toEqual([
      ["Assign", alice, 0n],
      ["Assign", alice, 1n],
    ]);
    const given = await transact(anvil, punks.contract, "transferPunk", [bob, 1], { from: alice });
    expect(eventsOf(punks, given)).toEqual([
      ["Transfer", alice, bob, 1n],
      ["PunkTransfer", alice, bob, 1n],
    ]);
    await transact(anvil, punks.contract, "offerPunkForSale", [0, 7], { from: alice });
    const bought = await transact(anvil, punks.contract, "buyPunk", [0], { from: bob, value: 7n });
    expect(eventsOf(punks, bought)).toEqual([
      ["Transfer", alice, bob, 1n],
      ["PunkNoLongerForSale", 0n],
      ["PunkBought", 0n, 7n, alice, bob],
    ]);
    await transact(anvil, punks.contract, "enterBidForPunk", [0], { from: alice, value: 9n });
    const accepted = await transact(anvil, punks.contract, "acceptBidForPunk", [0, 9], { from: bob });
    expect(eventsOf(punks, accepted)).toEqual([
      ["Transfer", bob, alice, 1n],
      ["PunkBought", 0n, 0n, bob, ZERO],
    ]);
    expect(await read<string>(punks.contract, "punkIndexToAddress", [0]).then(plain)).toBe(alice);
  });

  test.each([
    ["ThreeTopicNft", [3]],
    ["BareNft", [4]],
    ["Bytes32Nft", [4]],
    ["Hybrid", [4, 4]],
  ])("%s emits logs with %p topics", async (name, topics) => {
    const nft = await make(name);
    expect(topicCounts(await transact(anvil, nft.contract, "mint", [alice, 1]))).toEqual(topics);
    await transact(anvil, nft.contract, "transferFrom", [alice, bob, 1], { from: alice });
    expect(await read<string>(nft.contract, "ownerOf", [1]).then(plain)).toBe(bob);
    await transact(anvil, nft.contract, "burn", [1]);
  });
});

describe("Emitter", () => {
  test("emits every kind of transfer and any packed logs", async () => {
    const emitter = await make("Emitter");
    const emit = async (method: string, args: unknown[]) =>
      eventsOf(emitter, await transact(anvil, emitter.contract, method, args));
    expect(await emit("emitTransfers", [8, 2, alice, bob])).toEqual([
      ["Transfer", alice, bob, 8n],
      ["Transfer", alice, bob, 9n],
    ]);
    expect(await emit("emitSingle", [bob, alice, bob, 1, 2])).toEqual([["TransferSingle", bob, alice, bob, 1n, 2n]]);
    expect(await emit("emitBatch", [bob, alice, bob, [1], [2, 3]])).toEqual([
      ["TransferBatch", bob, alice, bob, [1n], [2n, 3n]],
    ]);
    expect(await emit("emitConsecutive", [1, 9, ZERO, bob])).toEqual([["ConsecutiveTransfer", 1n, 9n, ZERO, bob]]);

    const topic = id("Anything()");
    const one = concat(["0x02", topic, toBeHex(5, 32), toBeHex(3, 4), "0xabcdef"]);
    const none = concat(["0x00", toBeHex(1, 4), "0x99"]);
    const { logs } = await transact(anvil, emitter.contract, "emitLogs", [concat([one, none])]);
    expect(logs.map(({ topics, data }) => [topics, data])).toEqual([
      [[topic, toBeHex(5, 32)], "0xabcdef"],
      [[], "0x99"],
    ]);
  });

  test("answers a call with the configured bytes, and reverts without them", async () => {
    const emitter = await make("Emitter");
    const token = contractAt(anvil, emitter.address, ["function name() view returns (string)"]);
    const refused = await read(token, "name").catch((error: unknown) => error);
    expect(isRevert(refused)).toBe(true);
    const answer = AbiCoder.defaultAbiCoder().encode(["string"], ["Liar"]);
    await transact(anvil, emitter.contract, "setAnswer", ["0x06fdde03", answer]);
    expect(await read<string>(token, "name")).toBe("Liar");
  });
});

test("the ERC-20 contracts have bytes32 names, no decimals, or a fee on transfer", async () => {
  const word = (text: string) => `0x${Buffer.from(text).toString("hex").padEnd(64, "0")}`;
  const maker = await make("Bytes32Token", [word("Maker"), word("MKR")]);
  expect(await read<string>(maker.contract, "symbol")).toBe(word("MKR"));
  const bare = await make("NoDecimalsToken");
  expect(bare.contract.interface.getFunction("decimals")).toBeNull();
  const fee = await make("FeeToken", ["Fee", "FEE", 100]);
  await transact(anvil, fee.contract, "mint", [alice, 1000]);
  await transact(anvil, fee.contract, "transfer", [bob, 1000], { from: alice });
  expect(await read<bigint>(fee.contract, "balanceOf", [bob])).toBe(990n);
  const token = await make("TestToken", ["Test", "TST", 6]);
  const again = await transact(anvil, token.contract, "init", ["Other", "OTH", 1]).catch((error: unknown) => error);
  expect(again).toBeInstanceOf(Error);
});
