/**
 * What one question's end, or its spent budget, does to another question, and what odd tokens cost their own price. On a
 * real EVM behind a proxy.
 */
import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy, placeCode } from "../../scripts/local-chain/contracts.ts";
import { MAINNET } from "../../scripts/local-chain/mainnet.ts";
import { createV2Pair } from "../../scripts/local-chain/pools.ts";
import { Budget } from "../../src/core/budget.ts";
import { Refusal } from "../../src/core/errors.ts";
import { type Address, toAddress } from "../../src/core/hex.ts";
import type { Requester } from "../../src/core/work.ts";
import type { PriceRequest } from "../../src/prices/price-computer.ts";
import type { Prices } from "../../src/prices/price-service.ts";
import { HandFollower, type LocalChain, pricesOf, startLocalChain } from "../support/prices/anvil.ts";
import { cappedLogs, type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";

setDefaultTimeout(300_000);

const ETHER = 10n ** 18n;
const factory = MAINNET.uniswapV2Factory;
const plain = { percentChange: false, provenance: false };
const BOUNDS = { calls: 100, logs: 64 };
const ONE: Requester = { key: "one", isOperator: false };
const OTHER: Requester = { key: "other", isOperator: false };

let chain: LocalChain;
let priced: Address;

const pairOf = async (token: Address) =>
  createV2Pair(chain.anvil, {
    ...{ factory, tokenA: MAINNET.weth, amountA: 10n * ETHER },
    ...{ tokenB: token, amountB: 3_000n * ETHER },
  });

beforeAll(async () => {
  chain = await startLocalChain();
  const { anvil } = chain;
  await anvil.mine(400);
  const dollars = { tokenA: MAINNET.weth, amountA: 100n * ETHER, tokenB: MAINNET.usdc, amountB: 300_000n * 10n ** 6n };
  await createV2Pair(anvil, { factory, ...dollars });
  priced = await chain.token();
  await pairOf(priced);
  await anvil.mine(20);
});
afterAll(() => chain?.anvil.stop());

async function scene(proxy: RpcProxy): Promise<{ prices: Prices; follower: HandFollower }> {
  const follower = new HandFollower(proxy.url);
  const prices = pricesOf(proxy.url, follower);
  await follower.poll(prices);
  return { prices, follower };
}

interface Asking {
  readonly requester?: Requester;
  readonly signal?: AbortSignal;
  readonly bounds?: { readonly calls: number; readonly logs: number };
}

/** Asks as a key of scope `read` does. */
function ask(prices: Prices, request: PriceRequest, { requester = ONE, signal, bounds = BOUNDS }: Asking = {}) {
  const question = new Budget({ bounds, isQuestion: true, signal });
  return question
    .run(() => prices.answer(request, requester))
    .then(
      ({ record }) => record as unknown,
      (error: unknown) => error,
    );
}

test("a token whose unknown functions take all gas has a price, the second time, too", async () => {
  const { anvil } = chain;
  const token = toAddress((await deploy(anvil, await contractArtifact("OldToken"))).address);
  await pairOf(token);
  await anvil.mine();
  const proxy = await startRpcProxy(anvil.url);
  const { prices, follower } = await scene(proxy);
  const answers: unknown[] = [];
  for (let at = 0; at < 3; at++) {
    answers.push(await ask(prices, { address: token, ...plain }));
    await anvil.mine();
    await follower.poll(prices);
  }
  expect(answers).toMatchObject(answers.map(() => ({ usdPrice: 10 })));
});

test("a token whose getter takes more gas than usual has a price beside one that burns its gas", async () => {
  const { anvil } = chain;
  const heavy = toAddress((await deploy(anvil, await contractArtifact("HeavyToken"))).address);
  await pairOf(heavy);
  const burning = ["b", "c", "d"].map((digit) => toAddress(`0x${digit.repeat(40)}`));
  const { deployedBytecode } = await contractArtifact("BurningToken");
  for (const token of burning) await placeCode(anvil, token, deployedBytecode);
  await anvil.mine();
  const { prices } = await scene(await startRpcProxy(anvil.url));
  const question = new Budget({ bounds: BOUNDS, isQuestion: true });
  question.grow(4);
  const requests = [...burning, heavy].map((address) => ({ address, ...plain }));
  const answer = (await question.run(() => prices.answers(requests, ONE))).at(-1);
  expect(answer).toMatchObject({ record: { usdPrice: 10 } });
});

/** A token without a pool, whose search for announced pools is complete at an earlier head. */
async function searchedToken(proxy: RpcProxy) {
  const token = await chain.token();
  await chain.anvil.mine(2);
  const { prices, follower } = await scene(proxy);
  expect(await ask(prices, { address: token, ...plain })).toMatchObject({ code: "no_pool" });
  // So many blocks that the factories are asked again, and their logs between are not read.
  await chain.anvil.mine(600);
  await follower.poll(prices);
  return { token, prices };
}

test("the end of one key's question leaves the read of a tail to the other key that waits for it", async () => {
  let hold: Promise<void> | undefined;
  const proxy = await startRpcProxy(chain.anvil.url, {
    onRequest: ({ method, params }) => {
      const [filter] = params as [{ topics?: unknown[] } | undefined];
      const isOfTokens = method === "eth_getLogs" && (filter?.topics?.length ?? 0) > 1;
      return isOfTokens && hold !== undefined ? { delayUntil: hold } : undefined;
    },
  });
  const { token, prices } = await searchedToken(proxy);
  const held = Promise.withResolvers<void>();
  hold = held.promise;
  proxy.reset();
  const client = new AbortController();
  const first = ask(prices, { address: token, ...plain }, { signal: client.signal });
  await proxy.called(1, "eth_getLogs");
  const second = ask(prices, { address: token, ...plain }, { requester: OTHER });
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
  client.abort();
  held.resolve();
  expect(await first).toMatchObject({ name: "AbortError" });
  expect(await second).toMatchObject({ code: "no_pool" });
});

test("the rest of a read counts on the key that waits for it, once the client that began it is gone", async () => {
  const { anvil } = chain;
  const token = await chain.token();
  await pairOf(token);
  await anvil.mine();
  const proxy = await startRpcProxy(anvil.url);
  const { prices } = await scene(proxy);
  const client = new AbortController();
  const began = new Budget({ bounds: BOUNDS, isQuestion: true, signal: client.signal });
  const waits = new Budget({ bounds: BOUNDS, isQuestion: true, signal: new AbortController().signal });
  proxy.reset();
  proxy.pause();
  const first = began.run(() => prices.answer({ address: token, ...plain }, ONE)).catch((error: unknown) => error);
  await proxy.called(1);
  const second = waits.run(() => prices.answer({ address: token, ...plain }, OTHER));
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
  client.abort();
  const spent = began.total;
  proxy.resume();
  expect((await second).record).toMatchObject({ usdPrice: 10 });
  expect(await first).toMatchObject({ name: "AbortError" });
  expect([began.total, waits.total > 0]).toEqual([spent, true]);
});

test("the end of a key's batch leaves its items to another question of the key that waits for one of them", async () => {
  const proxy = await startRpcProxy(chain.anvil.url);
  const { prices, follower } = await scene(proxy);
  const block = follower.head()!.number;
  const requests = [block - 1, block - 2].map((toBlock) => ({ address: priced, ...plain, toBlock }));
  const client = new AbortController();
  const question = new Budget({ bounds: BOUNDS, isQuestion: true, signal: client.signal });
  question.grow(2);
  proxy.reset();
  proxy.pause();
  const batch = question
    .run(() => prices.answers(requests, ONE))
    .then(
      () => undefined,
      (error: unknown) => error,
    );
  await proxy.called(1);
  const alone = ask(prices, requests[0]!);
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
  client.abort();
  proxy.resume();
  expect(await batch).toMatchObject({ name: "AbortError" });
  expect(await alone).toMatchObject({ usdPrice: 10 });
});

test("clients that leave early don't use up the requests of a search that other keys wait for", async () => {
  const cap = 100;
  const proxy = await startRpcProxy(chain.anvil.url, {
    onRequest: cappedLogs(cap, () => ({ delayUntil: Bun.sleep(20) })),
  });
  const token = await chain.token();
  await chain.anvil.mine(2);
  const { prices } = await scene(proxy);
  for (let at = 0; at < 80; at++) {
    const client = new AbortController();
    const answer = ask(prices, { address: token, ...plain }, { signal: client.signal });
    const before = proxy.count("eth_getLogs");
    await Promise.race([answer, proxy.called(before + (at === 0 ? 6 : 2), "eth_getLogs")]);
    client.abort();
    await answer;
  }
  let said = (await ask(prices, { address: token, ...plain }, { requester: OTHER })) as Refusal;
  for (let tries = 0; said.code === "searching" && tries < 20; tries++) {
    said = (await ask(prices, { address: token, ...plain }, { requester: OTHER })) as Refusal;
  }
  expect(said.code).toBe("no_pool");
  expect(said.details?.["searched"]).toBeUndefined();
});

test("a past price that the budget can't pay says which bound ended it, and names no block that wasn't searched", async () => {
  const { prices, follower } = await scene(await startRpcProxy(chain.anvil.url));
  const request = { address: priced, ...plain, toBlock: follower.head()!.number - 3 };
  const codes: string[] = [];
  for (let calls = 1; calls < 100; calls++) {
    const answer = (await ask(prices, request, { bounds: { calls, logs: 64 } })) as Refusal;
    if (!(answer instanceof Refusal)) break;
    codes.push(answer.code);
    const why = `the question takes more than ${calls} calls of the node`;
    expect(answer.details?.["searched"]).toEqual({ why });
  }
  expect(new Set(codes)).toEqual(new Set(["no_price_at_block"]));
});

test("a figure that the budget can't pay leaves the price", async () => {
  const proxy = await startRpcProxy(chain.anvil.url);
  const asked = async (more: Partial<PriceRequest>, calls: number) => {
    const { prices } = await scene(proxy);
    return ask(prices, { address: priced, ...plain, ...more }, { bounds: { calls, logs: 64 } });
  };
  let least = 1;
  while (!("usdPrice" in ((await asked({}, least)) as object))) least++;
  const figures = { percentChange: true, provenance: true, depthUsd: { n: 1_000n, d: 1n } };
  for (const [name, value] of Object.entries(figures)) {
    for (let calls = least; calls < least + 24; calls++) {
      const answer = await asked({ [name]: value }, calls);
      expect({ name, calls, answer }).toMatchObject({ name, calls, answer: { usdPrice: 10 } });
    }
  }
});
