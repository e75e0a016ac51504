/** Many calls, and many codes, by one `eth_call` without a contract: the answers that each call gets alone. */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { type Anvil, type AnvilError, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy } from "../../scripts/local-chain/contracts.ts";
import { type Address, toAddress } from "../../src/core/hex.ts";
import { costlyAmong, deploylessGetters } from "../../src/rpc/call-batches.ts";
import { selectorOf } from "../../src/rpc/calls.ts";
import MANY_CALLS from "../../src/rpc/many-calls.txt";
import MANY_CODES from "../../src/rpc/many-codes.txt";
import MANY_GETTERS from "../../src/rpc/many-getters.txt";
import { readerOf } from "../support/prices/anvil.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";
import { codeOf } from "../support/solidity.ts";

setDefaultTimeout(300_000);

let anvil: Anvil;
let nft: Address;

beforeAll(async () => {
  anvil = await startAnvil({});
  nft = toAddress((await deploy(anvil, await contractArtifact("PlainNft"), ["Deployless", "DEP"])).address);
});
afterAll(() => anvil.stop());

test("compiles to the code that the program has", async () => {
  expect(await codeOf("rpc/deployless.sol", "ManyCalls", "bytecode")).toBe(MANY_CALLS);
  expect(await codeOf("rpc/deployless.sol", "ManyCodes", "bytecode")).toBe(MANY_CODES);
  expect(await codeOf("rpc/deployless.sol", "ManyGetters", "bytecode")).toBe(MANY_GETTERS);
});

test("answers many calls on a chain without Multicall3 by a few requests, like each call alone", async () => {
  const proxy = await startRpcProxy(anvil.url);
  const reader = readerOf(proxy.url);
  const calls = Array.from({ length: 600 }, (_, at) => ({
    to: at % 3 === 0 ? toAddress(`0x${(at + 1).toString(16).padStart(40, "e")}`) : nft,
    data: selectorOf(["name()", "symbol()", "nothing()"][at % 3]!),
  }));
  const together = await reader.calls(calls, "latest");
  expect(proxy.count("eth_call")).toBeLessThan(20);
  const alone = await Promise.all(calls.slice(0, 6).map(async (one) => (await reader.calls([one], "latest"))[0]!));
  expect(together.slice(0, 6)).toEqual(alone);
  expect(together).toHaveLength(600);
  expect(together[1]).toMatchObject({ ok: true });
  expect(together[2]).toMatchObject({ ok: false });
});

test("sends no more codes than thousands of calls need by their length", async () => {
  const proxy = await startRpcProxy(anvil.url);
  const reader = readerOf(proxy.url);
  await reader.calls([{ to: nft, data: selectorOf("name()") }], "latest");
  // 232 bytes each, of the 49,152 that a node accepts.
  const calls = Array.from({ length: 2_400 }, () => ({ to: nft, data: selectorOf("symbol()") }));
  const before = proxy.count("eth_call");
  const results = await reader.calls(calls, "latest");
  expect(results.every(({ ok, data }) => ok && data === results[0]!.data)).toBe(true);
  expect(proxy.count("eth_call") - before).toBeLessThanOrEqual(20);
});

test("tells codes of many addresses by one request: none, a delegation, a contract", async () => {
  const proxy = await startRpcProxy(anvil.url);
  const reader = readerOf(proxy.url);
  const [account, delegated] = [toAddress(`0x${"1f".repeat(20)}`), toAddress(`0x${"2f".repeat(20)}`)];
  await anvil.send("anvil_setCode", [delegated, `0xef0100${"ab".repeat(20)}`]);
  const codes = await reader.codes([account, delegated, nft, nft, account]);
  expect(codes[0]).toEqual({ bytes: 0, start: "000000" });
  expect(codes[1]).toEqual({ bytes: 23, start: "ef0100" });
  expect(codes[2]?.bytes).toBeGreaterThan(1_000);
  expect(codes.slice(3)).toEqual([codes[2]!, codes[0]!]);
  expect([proxy.count("eth_call"), proxy.count("eth_getCode")]).toEqual([1, 0]);
  // A node that doesn't run creation code is asked for each code.
  const plain = await startRpcProxy(anvil.url, {
    onRequest: ({ method }) =>
      method === "eth_call" ? { error: { code: -32_602, message: "missing to" } } : undefined,
  });
  expect(await readerOf(plain.url).codes([account, delegated, nft, nft, account])).toEqual(codes);
  expect(plain.count("eth_getCode")).toBe(5);
});

test("bounds getters where one of them takes all gas, and gives those that need more what they need", async () => {
  const proxy = await startRpcProxy(anvil.url);
  const reader = readerOf(proxy.url);
  const [burning, heavy] = await Promise.all(
    ["BurningToken", "HeavyToken"].map(async (name) =>
      toAddress((await deploy(anvil, await contractArtifact(name))).address),
    ),
  );
  const getter = (to: Address, signature: string) => ({ to, data: selectorOf(signature), isGetter: true });
  const calls = [
    ...[getter(heavy!, "decimals()"), getter(burning!, "symbol()"), getter(nft, "name()"), getter(burning!, "name()")],
    ...Array.from({ length: 40 }, () => getter(nft, "symbol()")),
    ...[getter(burning!, "symbol()"), getter(heavy!, "symbol()")],
  ];
  const results = await reader.calls(calls, "latest");
  expect(BigInt(results[0]!.data)).toBe(18n);
  expect([results[1]!.ok, results[2]!.ok, results[3]!.ok, results[44]!.ok, results[45]!.ok]).toEqual([
    ...[false, true, true, false, true],
  ]);
  expect(results.slice(4, 44).every(({ ok, data }) => ok && data === results[4]!.data)).toBe(true);
  expect([reader.isCostly(burning!), reader.isCostly(heavy!), reader.isCostly(nft)]).toEqual([true, true, false]);
  const before = proxy.count();
  expect(BigInt((await reader.calls(calls, "latest"))[0]!.data)).toBe(18n);
  expect(proxy.count() - before).toBeLessThan(6);
});

test("tells of a getter that the others left little gas that it needed more", async () => {
  const burning = toAddress((await deploy(anvil, await contractArtifact("BurningToken"))).address);
  const symbol = { to: burning, data: selectorOf("symbol()") };
  const data = deploylessGetters([symbol, symbol, symbol, { to: nft, data: selectorOf("none()") }], 2_000_000, 4_096);
  const reverted = anvil.send("eth_call", [{ data, gas: "0x4c4b40" }, "latest"]);
  const found = await reverted.catch((error: AnvilError) => error.data as string);
  expect(costlyAmong(found as string)).toEqual({ burning: [0, 1, 2], long: [] });
});

test("asks without a bound on gas where the endpoint refuses one, and remembers it", async () => {
  const proxy = await startRpcProxy(anvil.url, {
    onRequest({ method, params }) {
      const [{ gas } = {}] = params as [{ gas?: string }?];
      if (method !== "eth_call" || gas === undefined) return undefined;
      return {
        error: { code: -32_000, message: `Transaction gas limit is ${Number(gas)} and exceeds block gas limit` },
      };
    },
  });
  const reader = readerOf(proxy.url);
  const calls = Array.from({ length: 20 }, () => ({ to: nft, data: selectorOf("symbol()"), isGetter: true }));
  const results = await reader.calls(calls, "latest");
  expect(results.every(({ ok, data }) => ok && data === results[0]!.data)).toBe(true);
  expect(proxy.count("eth_call")).toBeLessThan(10);
  const before = proxy.count();
  expect(await reader.calls(calls, "latest")).toEqual(results);
  expect(proxy.count() - before).toBe(1);
});
