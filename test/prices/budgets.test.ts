/**
 * What a question of one key may cost a node, on a real EVM behind a proxy that counts: searches back through logs, unlisted
 * factories and tokens made to be costly, and batches.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { inOneBlock } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, deploy, placeCode, queue } from "../../scripts/local-chain/contracts.ts";
import { MAINNET } from "../../scripts/local-chain/mainnet.ts";
import { createV2Pair } from "../../scripts/local-chain/pools.ts";
import { Budget } from "../../src/core/budget.ts";
import { Refusal } from "../../src/core/errors.ts";
import { type Address, toAddress } from "../../src/core/hex.ts";
import type { PriceRequest } from "../../src/prices/price-computer.ts";
import type { Prices } from "../../src/prices/price-service.ts";
import { HandFollower, type LocalChain, pricesOf, startLocalChain } from "../support/prices/anvil.ts";
import { cappedLogs, type RpcCall, type RpcProxy, type RpcProxyOptions, startRpcProxy } from "../support/rpc-proxy.ts";
import { startTestService, temporaryLogUrl } from "../support/service.ts";

setDefaultTimeout(300_000);

const ETHER = 10n ** 18n;
const factory = MAINNET.uniswapV2Factory;
const plain = { percentChange: false, provenance: false };
const BOUNDS = { calls: 100, logs: 64 };
/** Blocks that the node gives logs of in one request. */
const CAP = 10;

let chain: LocalChain;
/** A token whose pair is 1,500 blocks old, and one whose pair is of today. */
let old: Address;
let young: Address;

/** A pair of the token with the wrapped coin: ten coins. */
const pairOf = async (token: Address) =>
  createV2Pair(chain.anvil, {
    ...{ factory, tokenA: MAINNET.weth, amountA: 10n * ETHER },
    ...{ tokenB: token, amountB: 3_000n * ETHER },
  });

beforeAll(async () => {
  chain = await startLocalChain();
  const { anvil } = chain;
  await anvil.mine(1_500);
  const dollars = { tokenA: MAINNET.weth, amountA: 100n * ETHER, tokenB: MAINNET.usdc, amountB: 300_000n * 10n ** 6n };
  await createV2Pair(anvil, { factory, ...dollars });
  old = await chain.token();
  await pairOf(old);
  await anvil.send("evm_increaseTime", [90_000]);
  await anvil.mine(40);
  young = await chain.token();
  await pairOf(young);
  await anvil.mine(20);
});
afterAll(() => chain?.anvil.stop());

/** A node without old state that gives logs of a few blocks. */
const poorNode = (more: (call: RpcCall) => ReturnType<NonNullable<RpcProxyOptions["onRequest"]>> = () => undefined) =>
  startRpcProxy(chain.anvil.url, {
    onRequest(call) {
      const [filter, tag] = call.params as [{ fromBlock?: string; toBlock?: string }, string];
      if (call.method === "eth_getLogs" && Number(filter.toBlock) - Number(filter.fromBlock) >= CAP) {
        return { error: { code: -32_005, message: `query exceeds max block range ${CAP}` } };
      }
      const isOld = call.method === "eth_call" && tag !== "latest";
      return isOld ? { error: { code: -32_000, message: "missing trie node" } } : more(call);
    },
  });

async function scene(proxy: RpcProxy): Promise<{ prices: Prices; follower: HandFollower }> {
  const follower = new HandFollower(proxy.url);
  const prices = pricesOf(proxy.url, follower);
  await follower.poll(prices);
  return { prices, follower };
}

/** Asks as a key of scope `read` does. */
function ask(prices: Prices, request: PriceRequest, signal?: AbortSignal) {
  const question = new Budget({ bounds: BOUNDS, isQuestion: true, signal });
  const answer = question
    .run(() => prices.answer(request))
    .then(
      ({ record }) => record,
      (error: unknown) => error,
    );
  return { question, answer };
}

describe("a question about a block before the pool", () => {
  test("takes at most 64 requests for logs, and says how far back it searched", async () => {
    const proxy = await poorNode();
    const { prices } = await scene(proxy);
    proxy.reset();
    const { answer, question } = ask(prices, { address: old, ...plain, toBlock: 700 });
    const refused = (await answer) as Refusal;
    expect(refused).toMatchObject({ code: "no_price_at_block", retryAfter: undefined });
    expect(refused.details).toMatchObject({ searched: { toBlock: 700, fromBlock: expect.any(Number) } });
    expect(proxy.count("eth_getLogs")).toBeLessThanOrEqual(BOUNDS.logs);
    expect(proxy.count()).toBeLessThanOrEqual(BOUNDS.calls);
    expect(question.total).toBeLessThanOrEqual(BOUNDS.calls);
  });

  test("asks the node nothing more once its client is gone", async () => {
    const proxy = await poorNode();
    const { prices } = await scene(proxy);
    proxy.reset();
    const clients = Array.from({ length: 40 }, () => new AbortController());
    const asked = clients.map(
      ({ signal }, at) => ask(prices, { address: old, ...plain, toBlock: 700 + at }, signal).answer,
    );
    await proxy.called(60, "eth_getLogs");
    for (const client of clients) client.abort();
    const sent = proxy.count();
    const ended = (await Promise.all(asked)) as Error[];
    expect(new Set(ended.map(({ name }) => name))).toEqual(new Set(["AbortError"]));
    // Another client's question is answered meanwhile, and takes the only calls.
    const other = ask(prices, { address: old, ...plain });
    expect(await other.answer).toMatchObject({ usdPrice: 10 });
    // Calls that were under way arrive, at most one for each slot.
    expect(proxy.count() - sent - other.question.total).toBeLessThanOrEqual(24);
  });
});

test("a pair and its reserves at a block that is too far back are not found, and the answer says why", async () => {
  const proxy = await poorNode();
  const service = await startTestService({ rpcUrl: proxy.url, logUrl: temporaryLogUrl() });
  try {
    const { body: pool } = await service.get(`/api/v2/${old}/${MAINNET.weth}/pairAddress?exchange=uniswapv2`);
    const paths = [`${old}/${MAINNET.weth}/pairAddress?exchange=uniswapv2&`, `${pool.pairAddress}/reserves?`];
    for (const path of paths) {
      const { status, body } = await service.get(`/api/v2/${path}to_block=700`);
      expect([status, body.code]).toEqual([404, "not_found"]);
      expect(body.message).toContain(`to_block: block 700 is too far back: `);
      expect(body.message).toContain("64 requests for logs");
    }
  } finally {
    await service.stop();
    await proxy.stop();
  }
});

test("the change over a day of a token from today is left out after a few requests", async () => {
  const proxy = await poorNode();
  const { prices } = await scene(proxy);
  await ask(prices, { address: young, ...plain }).answer;
  proxy.reset();
  const { answer } = ask(prices, { address: young, ...plain, percentChange: true });
  const record = await answer;
  expect(record).toMatchObject({ usdPrice: 10 });
  expect(record).not.toHaveProperty("24hrPercentChange");
  expect(proxy.count("eth_getLogs")).toBeLessThan(BOUNDS.logs);
  expect(await ask(prices, { address: old, ...plain, percentChange: true }).answer).toMatchObject({
    "24hrPercentChange": "0",
  });
});

test("a search for announced pools goes on with the next question where the last one left it", async () => {
  const cap = 100;
  const proxy = await startRpcProxy(chain.anvil.url, {
    onRequest: cappedLogs(cap, () => ({ delayUntil: Bun.sleep(120) })),
  });
  const { prices } = await scene(proxy);
  const poolless = await chain.token();
  await chain.anvil.mine();
  const codes: string[] = [];
  while (codes.at(-1) !== "no_pool" && codes.length < 20) {
    const client = new AbortController();
    const { answer } = ask(prices, { address: poolless, ...plain }, client.signal);
    codes.push(((await answer) as Refusal).code);
    client.abort();
  }
  expect(codes.at(-1)).toBe("no_pool");
  expect(codes.slice(0, -1)).toEqual(codes.slice(1).map(() => "searching"));
  expect(codes.length).toBeGreaterThan(1);
  // Sixteen ranges by two topics, the attempts to read more at once, and a part that each question leaves.
  expect(proxy.count("eth_getLogs")).toBeLessThan(64);
});

test("a search for announced pools ends with the answer that says how far it is", async () => {
  const cap = 100;
  const held = Promise.withResolvers<void>();
  let requests = 0;
  const proxy = await startRpcProxy(chain.anvil.url, {
    onRequest: cappedLogs(cap, () => (++requests > 8 ? { delayUntil: held.promise } : undefined)),
  });
  const { prices } = await scene(proxy);
  const poolless = await chain.token();
  await chain.anvil.mine();
  const client = new AbortController();
  const { answer } = ask(prices, { address: poolless, ...plain }, client.signal);
  expect(await answer).toMatchObject({ code: "searching" });
  client.abort();
  const sent = proxy.count();
  held.resolve();
  const other = ask(prices, { address: old, ...plain });
  expect(await other.answer).toMatchObject({ usdPrice: 10 });
  expect(proxy.count() - sent).toBe(other.question.total);
});

describe("an unlisted factory", () => {
  for (const name of ["LargeAnswers", "EndlessAnswers", "TrapFactory"]) {
    test(`that is costly (${name}) costs a few calls of little gas, and no other question waits for it`, async () => {
      const proxy = await startRpcProxy(chain.anvil.url);
      const { prices } = await scene(proxy);
      await ask(prices, { address: old, ...plain }).answer;
      const { address } = await deploy(chain.anvil, await contractArtifact(name));
      proxy.reset();
      const exchange = { kind: "factory", factory: toAddress(address) } as const;
      const { answer, question } = ask(prices, { address: old, ...plain, exchange });
      expect(await answer).toBeInstanceOf(Refusal);
      expect(proxy.count()).toBeLessThan(20);
      expect(question.bytes).toBeLessThan(2 << 20);
      expect(await ask(prices, { address: old, ...plain }).answer).toMatchObject({ usdPrice: 10 });
    });
  }
});

describe("tokens made to be costly", () => {
  for (const name of ["LongNameToken", "BurningToken"]) {
    test(`are not read ahead (${name}), so that the other tokens of a head cost what they cost alone`, async () => {
      const { anvil } = chain;
      const { deployedBytecode } = await contractArtifact(name);
      const salt = name.length.toString(16).padStart(2, "0");
      const tokens = Array.from({ length: 12 }, (_, at) =>
        toAddress(`0x${salt}${(0x5000 + at).toString(16).padStart(38, "d")}`),
      );
      for (const token of tokens) await placeCode(anvil, token, deployedBytecode);
      await anvil.mine();
      const proxy = await startRpcProxy(anvil.url);
      const { prices, follower } = await scene(proxy);
      await ask(prices, { address: old, ...plain }).answer;
      for (const address of tokens) await ask(prices, { address, ...plain }).answer;
      const ahead = async () => {
        await anvil.mine();
        proxy.reset();
        const read = new Budget();
        await read.run(() => follower.poll(prices));
        return { calls: proxy.count(), bytes: read.bytes };
      };
      await ahead();
      const { calls, bytes } = await ahead();
      expect(calls).toBeLessThan(10);
      expect(bytes).toBeLessThan(64 << 10);
      expect(await ask(prices, { address: old, ...plain }).answer).toMatchObject({ usdPrice: 10 });
    });
  }
});

describe("a batch", () => {
  const batch = (prices: Prices, requests: readonly PriceRequest[]) => {
    const question = new Budget({ bounds: BOUNDS, isQuestion: true });
    question.grow(requests.length);
    return question.run(() => prices.answers(requests));
  };
  const addresses = (prefix: string) =>
    Array.from({ length: 100 }, (_, at) => toAddress(`0x${(0x100 + at).toString(16).padStart(40, prefix)}`));

  test("of a hundred addresses without code reads them together", async () => {
    const proxy = await startRpcProxy(chain.anvil.url);
    const { prices } = await scene(proxy);
    proxy.reset();
    const answers = await batch(
      prices,
      addresses("9").map((address) => ({ address, ...plain })),
    );
    expect(new Set(answers.map((one) => (one as Refusal).code))).toEqual(new Set(["not_a_token"]));
    expect(answers.map((one) => (one as Refusal).message).every((text) => text.includes("an account"))).toBe(true);
    expect(proxy.count()).toBeLessThan(12);
  });

  test("of a hundred tokens without pools searches for the announcements of all together", async () => {
    const { anvil } = chain;
    const { abi, deployedBytecode } = await contractArtifact("TestToken");
    const tokens = addresses("a");
    // The head must not move any more when they are asked about.
    await inOneBlock(anvil, async () => {
      for (const token of tokens) {
        await placeCode(anvil, token, deployedBytecode);
        await queue(anvil, contractAt(anvil, token, abi), "init", ["Poolless", "NONE", 18]);
      }
    });
    const proxy = await startRpcProxy(anvil.url);
    const { prices } = await scene(proxy);
    proxy.reset();
    const answers = await batch(
      prices,
      tokens.map((address) => ({ address, ...plain })),
    );
    expect(new Set(answers.map((one) => (one as Refusal).code))).toEqual(new Set(["no_pool"]));
    expect(proxy.count("eth_getLogs")).toBeLessThan(20);
    expect(proxy.count()).toBeLessThan(160);
  });

  test("of a hundred past questions about one block with everything is a few reads, and each answer is the one alone", async () => {
    const proxy = await startRpcProxy(chain.anvil.url);
    const { prices, follower } = await scene(proxy);
    const toBlock = follower.head()!.number - 2;
    const all = { percentChange: true, provenance: true, pair: true, depthUsd: { n: 1_000n, d: 1n } };
    const requests = Array.from({ length: 100 }, (_, at) => ({
      ...{ address: [old, young][at % 2]!, ...all, toBlock },
      minLiquidityUsd: { n: BigInt(at >> 1), d: 1n },
    }));
    proxy.reset();
    const answers = await batch(prices, requests);
    // A node without final blocks here: their headers are read again each time.
    expect(proxy.count()).toBeLessThan(600);
    const alone = pricesOf(chain.anvil.url, follower);
    for (const at of [0, 1]) {
      const { record } = await alone.answer(requests[at]!);
      expect(answers[at]).toMatchObject({ record });
    }
  });
});

test("a key evicts its own tokens first", async () => {
  const { OwnedCache } = await import("../../src/core/owned-cache.ts");
  const cache = new OwnedCache<number, string>(100);
  cache.set(-1, "honest", "one");
  for (let at = 0; at < 1_000; at++) cache.set(at, "greedy", "other");
  expect(cache.get(-1)).toBe("honest");
  expect(cache.size).toBe(100);
  expect([cache.get(900), cache.get(901)]).toEqual([undefined, "greedy"]);
  const sized = new OwnedCache<number, string>(100, ({ length }) => length);
  sized.set(-1, "x".repeat(30), "one");
  for (let at = 0; at < 50; at++) sized.set(at, "x".repeat(20), "other");
  sized.set(50, "x".repeat(101), "other");
  expect([sized.get(-1)?.length, sized.size, sized.get(46), sized.get(47)?.length]).toEqual([30, 4, undefined, 20]);
});
