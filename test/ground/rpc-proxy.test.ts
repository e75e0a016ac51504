/**
 * The misbehaving JSON-RPC proxy: each intervention works alone and within a batch, and calls are recorded.
 */
import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { type Intervention, type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";

type Answer = { id: number; result?: unknown; error?: { code: number; message: string } };

let anvil: Anvil;
let proxy: RpcProxy;
let plan: Intervention[] = [];

const single = (method: string) => ({ jsonrpc: "2.0", id: 1, method, params: [] });
const post = async (body: unknown) => await fetch(proxy.url, { method: "POST", body: JSON.stringify(body) });
const ask = async (method: string) => (await (await post(single(method))).json()) as Answer;
const failure = async (promise: Promise<unknown>) =>
  await promise.then(
    () => undefined,
    (error: unknown) => error,
  );

beforeAll(async () => {
  anvil = await startAnvil({ chainId: 31337 });
  proxy = await startRpcProxy(anvil.url, {
    onRequest: () => plan.shift(),
    onResult: (call, result) => (call.method === "web3_clientVersion" ? "somebody else" : result),
  });
});
afterEach(() => {
  plan = [];
  proxy.reset();
});
afterAll(async () => {
  await proxy.stop();
  await anvil.stop();
});

test("passes calls on, records them and can change results", async () => {
  expect((await ask("eth_chainId")).result).toBe("0x7a69");
  expect((await ask("web3_clientVersion")).result).toBe("somebody else");
  expect((await ask("no_such")).error?.code).toBe(-32601);
  expect(proxy.calls.map((call) => call.method)).toEqual(["eth_chainId", "web3_clientVersion", "no_such"]);
  expect([proxy.count(), proxy.count("eth_chainId"), proxy.requests]).toEqual([3, 1, 3]);
});

test("answers with its own errors and results, also within batches", async () => {
  plan = [{ error: { code: -32005, message: "too many results" } }, { result: "0x1" }];
  const batch = [single("eth_getLogs"), { ...single("eth_chainId"), id: 2 }, { ...single("eth_chainId"), id: 3 }];
  expect(await (await post(batch)).json()).toEqual([
    { jsonrpc: "2.0", id: 1, error: { code: -32005, message: "too many results" } },
    { jsonrpc: "2.0", id: 2, result: "0x1" },
    { jsonrpc: "2.0", id: 3, result: "0x7a69" },
  ]);
  expect(proxy.requests).toBe(1);
});

test("answers with another status, drops connections and truncates answers", async () => {
  plan = [{ status: 429, headers: { "retry-after": "3" }, body: "slow down" }, { drop: true }, { truncate: 10 }];
  const limited = await post(single("eth_chainId"));
  expect([limited.status, limited.headers.get("retry-after"), await limited.text()]).toEqual([429, "3", "slow down"]);
  expect(await failure(ask("eth_chainId"))).toBeInstanceOf(Error);
  expect(await failure(ask("eth_chainId"))).toBeInstanceOf(Error);
  expect((await ask("eth_chainId")).result).toBe("0x7a69");
});

test("delays one call, and holds all calls", async () => {
  const gate = Promise.withResolvers<void>();
  plan = [{ delayUntil: gate.promise }];
  const order: string[] = [];
  const slow = ask("eth_chainId").then(() => order.push("slow"));
  await proxy.called(1);
  await ask("eth_blockNumber").then(() => order.push("quick"));
  gate.resolve();
  await slow;
  expect(order).toEqual(["quick", "slow"]);

  proxy.pause();
  const held = ask("eth_chainId");
  await proxy.called(2, "eth_chainId");
  proxy.resume();
  expect((await held).result).toBe("0x7a69");
});
