/**
 * The behaviour of the local chain, anvil: its blocks, times, reorgs, filters and old states. Other tests rely on it,
 * so these tests show first if a new version of anvil changes it.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { id, toBeHex } from "ethers";
import {
  type Anvil,
  AnvilError,
  inOneBlock,
  latestTimestamp,
  quantity,
  reorg,
  setNextTimestamp,
  setTimestampInterval,
  startAnvil,
} from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, prepare, queue, receiptOf, transact } from "../../scripts/local-chain/contracts.ts";

type Block = {
  hash: string;
  parentHash: string;
  number: string;
  timestamp: string;
  logsBloom: string;
  transactions: string[];
};
type Log = { topics: string[]; blockNumber: string; logIndex: string };

const TRANSFER = id("Transfer(address,address,uint256)");
const word = (value: number) => toBeHex(value, 32);

let anvil: Anvil;
let emitter: Deployed;

const block = async (tag: string | number) =>
  (await anvil.send("eth_getBlockByNumber", [typeof tag === "number" ? quantity(tag) : tag, false])) as Block;
const height = async () => Number(await anvil.send("eth_blockNumber"));
const getLogs = async (filter: object) => (await anvil.send("eth_getLogs", [filter])) as Log[];
const emitRaw = async (topics: string[]) => await transact(anvil, emitter.contract, "emitRaw", [topics, "0x"]);

beforeAll(async () => {
  anvil = await startAnvil({ slotsInAnEpoch: 1 });
  await anvil.mine(3);
  emitter = await deploy(anvil, await contractArtifact("Emitter"));
}, 300_000);
afterAll(async () => await anvil.stop());

describe("blocks", () => {
  test("hold one transaction each, or many in the order sent", async () => {
    const before = await height();
    await emitRaw([word(1)]);
    expect(await height()).toBe(before + 1);

    await inOneBlock(anvil, async () => {
      for (let at = 0; at < 30; at++) await queue(anvil, emitter.contract, "emitRaw", [[word(at)], "0x"]);
    });
    expect(await height()).toBe(before + 2);
    const logs = await getLogs({ fromBlock: "latest", toBlock: "latest" });
    expect(logs.map((log) => [Number(log.topics[0]), Number(log.logIndex)])).toEqual(
      Array.from({ length: 30 }, (_, at) => [at, at]),
    );
  });

  test("trail the head as finalized and safe by two blocks and one, with one slot per epoch", async () => {
    const head = await height();
    expect(Number((await block("finalized")).number)).toBe(head - 2);
    expect(Number((await block("safe")).number)).toBe(head - 1);
  });

  test("have timestamps that can be set, and that can advance by a fixed step per block", async () => {
    const start = await latestTimestamp(anvil);
    await setNextTimestamp(anvil, start + 3600);
    await anvil.mine();
    expect(await latestTimestamp(anvil)).toBe(start + 3600);
    await setTimestampInterval(anvil, 12);
    await anvil.mine(3);
    expect(await latestTimestamp(anvil)).toBe(start + 3636);
    await setTimestampInterval(anvil, undefined);
  });
});

describe("reorg", () => {
  test("replaces blocks at the same height and forgets their transactions", async () => {
    await emitRaw([word(1)]);
    const ancestor = await block("latest");
    const dropped = [await emitRaw([word(2)]), await emitRaw([word(3)])];
    const old = await block("latest");

    await reorg(anvil, 2);
    const [first, second] = [await block(Number(ancestor.number) + 1), await block("latest")];
    expect([first.parentHash, second.parentHash]).toEqual([ancestor.hash, first.hash]);
    expect([second.number, second.hash === old.hash]).toEqual([old.number, false]);
    expect(await anvil.send("eth_getBlockByHash", [old.hash, false])).toBeNull();
    for (const receipt of dropped) expect(await receiptOf(anvil, receipt.transactionHash)).toBeUndefined();
  });

  test("changes the hashes of empty blocks", async () => {
    await anvil.mine(2);
    const old = await block("latest");
    await reorg(anvil, 2);
    expect((await block("latest")).hash).not.toBe(old.hash);
  });

  test("puts replacement transactions at the requested heights, from any sender", async () => {
    await anvil.mine(3);
    const from = "0x00000000000000000000000000000000000a11ce";
    const call = await prepare(emitter.contract, "emitTransfers", [7, 2, from, from]);
    await reorg(anvil, 3, [{ block: 1, from, ...call }]);
    const head = await height();
    const counts = [];
    for (let number = head - 2; number <= head; number++) counts.push((await block(number)).transactions.length);
    expect(counts).toEqual([0, 1, 0]);
    expect(await getLogs({ fromBlock: quantity(head - 1), toBlock: "latest" })).toHaveLength(2);
  });
});

describe("logs", () => {
  test("match a null in a filter even if the log lacks that topic, unlike on other nodes", async () => {
    const from = quantity((await height()) + 1);
    for (const topics of [[], [TRANSFER], [TRANSFER, word(1)], [TRANSFER, word(1), word(2), word(3)]])
      await emitRaw(topics);
    const topicCounts = async (topics: unknown[]) =>
      (await getLogs({ fromBlock: from, toBlock: "latest", topics })).map((log) => log.topics.length);
    expect(await topicCounts([])).toEqual([0, 1, 2, 4]);
    expect(await topicCounts([TRANSFER, null, null, null])).toEqual([1, 2, 4]);
    expect(await topicCounts([[TRANSFER, word(9)], null, word(2)])).toEqual([4]);
  });

  test("are cut at the head, or refused if the range starts above it", async () => {
    const head = await height();
    expect(await getLogs({ fromBlock: "latest", toBlock: quantity(head + 100) })).toHaveLength(1);
    const beyond = await getLogs({ fromBlock: quantity(head + 50), toBlock: quantity(head + 100) }).catch(
      (error: unknown) => error,
    );
    expect(beyond).toBeInstanceOf(AnvilError);
  });

  test("set bits in the block's bloom", async () => {
    expect(BigInt((await block("latest")).logsBloom) > 0n).toBe(true);
    expect(BigInt((await block(1)).logsBloom)).toBe(0n);
  });

  test("fit by the thousand into one block", async () => {
    await inOneBlock(anvil, async () => {
      const [from, to] = anvil.accounts;
      for (let part = 0; part < 4; part++)
        await queue(anvil, emitter.contract, "emitTransfers", [part * 1000, 1000, from, to]);
    });
    expect(await getLogs({ fromBlock: "latest", toBlock: "latest" })).toHaveLength(4000);
  });
});

describe("old states", () => {
  test("return code and storage at any block", async () => {
    const codeAt = async (number: number) =>
      (await anvil.send("eth_getCode", [emitter.address, quantity(number)])) as string;
    expect(await codeAt(emitter.blockNumber - 1)).toBe("0x");
    expect((await codeAt(emitter.blockNumber)).length).toBeGreaterThan(1000);

    const supports = emitter.contract.getFunction("supportsInterface");
    const before = await height();
    await transact(anvil, emitter.contract, "setInterface", ["0x80ac58cd", true]);
    expect(await supports("0x80ac58cd", { blockTag: before })).toBe(false);
    expect(await supports("0x80ac58cd")).toBe(true);
  });
});

test("a contract can destroy itself before Cancun", async () => {
  const old = await startAnvil({ hardfork: "shanghai" });
  try {
    const { address, contract } = await deploy(old, await contractArtifact("Destructible"));
    await transact(old, contract, "mint", [old.accounts[1], 1]);
    await transact(old, contract, "destroy");
    expect(await old.send("eth_getCode", [address, "latest"])).toBe("0x");
    expect(await old.send("eth_getLogs", [{ fromBlock: "0x0", address }])).toHaveLength(1);
  } finally {
    await old.stop();
  }
});

test("the node ends with the process that started it, even if that process is killed", async () => {
  const module = new URL("../../scripts/local-chain/anvil.ts", import.meta.url).pathname;
  const script = `const { startAnvil } = await import(${JSON.stringify(module)});
    console.log((await startAnvil()).url);
    setInterval(() => {}, 1000);`;
  const parent = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe", stderr: "inherit" });
  const { value } = await parent.stdout.getReader().read();
  const url = new TextDecoder().decode(value).trim();
  parent.kill("SIGKILL");
  // Waits until the port stops answering. The test's own timeout is the bound.
  for (let alive = true; alive; )
    alive = await fetch(url, { method: "POST" }).then(
      () => true,
      () => false,
    );
});
