/**
 * Nine tenths of a pool bought and sold back, within one block and across two. Price, average, provenance and
 * confidence of the answer are recomputed here from the pool's reserves and the blocks' times.
 */
import { afterAll, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { inOneBlock, latestTimestamp, setNextTimestamp } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, queue } from "../../scripts/local-chain/contracts.ts";
import { MAINNET } from "../../scripts/local-chain/mainnet.ts";
import { createV2Pair, fund, type Pool, V2_PAIR_ABI } from "../../scripts/local-chain/pools.ts";
import { type Address, toAddress } from "../../src/core/hex.ts";
import type { PriceRecord } from "../../src/prices/models.ts";
import type { Prices } from "../../src/prices/price-service.ts";
import { HandFollower, type LocalChain, pricesOf, startLocalChain } from "../support/prices/anvil.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

const ETHER = 10n ** 18n;
const USD_PER_ETHER = 3_000;
const WINDOW = 1_800;
const BOUGHT = 900n * ETHER;

let chain: LocalChain;
let token: Address;
let pool: Pool;
/** The first block with the pool. */
let made: number;

const tag = (block: number): string => `0x${block.toString(16)}`;
const tip = async (): Promise<number> => Number(await chain.anvil.send("eth_blockNumber"));

async function headerAt(block: number): Promise<{ time: number; hash: string }> {
  const found = (await chain.anvil.send("eth_getBlockByNumber", [tag(block), false])) as {
    timestamp: string;
    hash: string;
  };
  return { time: Number(found.timestamp), hash: found.hash };
}

/** The pool's reserves of WETH and of the token. */
async function reservesAt(block: number): Promise<[weth: bigint, own: bigint]> {
  const returned = (await chain.anvil.send("eth_call", [
    { to: pool.address, data: "0x0902f1ac" },
    tag(block),
  ])) as string;
  const [r0, r1] = [0, 1].map((index) => BigInt(`0x${returned.slice(2 + index * 64, 66 + index * 64)}`)) as [
    bigint,
    bigint,
  ];
  return pool.token0.toLowerCase() === token ? [r1, r0] : [r0, r1];
}

async function usdAt(block: number): Promise<number> {
  const [weth, own] = await reservesAt(block);
  return (Number(weth) / Number(own)) * USD_PER_ETHER;
}

/** Weighs each block's price by the seconds to the next block, over the half hour that ends with the newest block. */
async function averageAt(last: number): Promise<number> {
  const end = (await headerAt(last)).time;
  let sum = 0;
  let until = end;
  for (let block = last - 1; until > end - WINDOW; block--) {
    const from = Math.max((await headerAt(block)).time, end - WINDOW);
    sum += (await usdAt(block)) * (until - from);
    until = from;
  }
  return sum / WINDOW;
}

async function contracts() {
  const { anvil } = chain;
  const { abi } = await contractArtifact("TestToken");
  const pair = contractAt(anvil, pool.address, V2_PAIR_ABI);
  return { anvil, pair, own: contractAt(anvil, token, abi), weth: contractAt(anvil, MAINNET.weth, abi) };
}

const amounts = (out: bigint, ofToken: boolean): bigint[] =>
  (pool.token0.toLowerCase() === token) === ofToken ? [out, 0n] : [0n, out];

/** Buys 900 of the 1,000 tokens for 903 WETH, which raises the price a hundredfold. */
async function buy(): Promise<void> {
  const { anvil, pair, weth } = await contracts();
  await queue(anvil, weth, "transfer", [pool.address, 903n * ETHER]);
  await queue(anvil, pair, "swap", [...amounts(BOUGHT, true), anvil.accounts[0], "0x"]);
}

async function sellBack(): Promise<void> {
  const { anvil, pair, own } = await contracts();
  await queue(anvil, own, "transfer", [pool.address, BOUGHT]);
  await queue(anvil, pair, "swap", [...amounts(BOUGHT, false), anvil.accounts[0], "0x"]);
}

/** Mines all transactions that `fill` queues as one block, twelve seconds after the last. */
async function block(fill: () => Promise<void>): Promise<number> {
  await setNextTimestamp(chain.anvil, (await latestTimestamp(chain.anvil)) + 12);
  await inOneBlock(chain.anvil, fill);
  return tip();
}

const seen = (prices: Prices): Promise<PriceRecord> =>
  prices.price({ address: token, percentChange: false, provenance: true });

/** Compares everything in the answer with the pool itself. */
async function check(record: PriceRecord): Promise<void> {
  const last = await tip();
  const [weth, own] = await reservesAt(last);
  const usd = await usdAt(last);
  const { provenance } = record as Required<PriceRecord>;
  expect(record.toBlock).toBe(String(last));
  expect(record.usdPrice / usd).toBeCloseTo(1, 12);
  expect(Number(provenance.twap30m) / (await averageAt(last))).toBeCloseTo(1, 9);
  const [leg] = provenance.route;
  const [reserve0, reserve1] = pool.token0.toLowerCase() === token ? [own, weth] : [weth, own];
  expect(leg).toMatchObject({ pool: toAddress(pool.address), reserve0: String(reserve0), reserve1: String(reserve1) });
  expect((await headerAt(leg!.block)).hash).toBe(leg!.blockHash);
  const depth = (Number(weth) / 1e18) * USD_PER_ETHER;
  expect(Number(provenance.liquidityUsd) / depth).toBeCloseTo(1, 12);
  expect(Number(provenance.confidence) / (depth / (depth + 100_000))).toBeCloseTo(1, 12);
}

const NODES = ["followed", "asked each time", "asked each time of a node that refuses past state"] as const;

/** Starts prices over the chain in one of three ways. They learn of new blocks accordingly. */
async function watch(node: (typeof NODES)[number]) {
  const proxy = await startRpcProxy(chain.anvil.url, {
    onRequest: ({ method, params }) =>
      node === NODES[2] && method === "eth_call" && params[1] !== "latest"
        ? { error: { code: -32_000, message: "missing trie node" } }
        : undefined,
  });
  const follower = node === "followed" ? new HandFollower(chain.anvil.url) : undefined;
  const prices = pricesOf(proxy.url, follower);
  const poll = async () => follower?.poll(prices);
  await poll();
  await seen(prices);
  await chain.anvil.mine();
  await poll();
  const ask = async (): Promise<PriceRecord> => {
    await poll();
    const record = await seen(prices);
    await check(record);
    return record;
  };
  return { ask, stop: () => proxy.stop() };
}

beforeEach(async () => {
  chain ??= await startLocalChain();
  const { anvil } = chain;
  token = await chain.token();
  const factory = MAINNET.uniswapV2Factory;
  const dollar = {
    tokenA: MAINNET.weth,
    amountA: 10_000n * ETHER,
    tokenB: MAINNET.usdc,
    amountB: 30_000_000n * 10n ** 6n,
  };
  if (made === undefined) await createV2Pair(anvil, { factory, ...dollar });
  const amount = { tokenA: MAINNET.weth, amountA: 100n * ETHER, tokenB: token, amountB: 1_000n * ETHER };
  pool = await createV2Pair(anvil, { factory, ...amount });
  made = await tip();
  await fund(anvil, MAINNET.weth, anvil.accounts[0]!, 2_000n * ETHER);
  await setNextTimestamp(anvil, (await latestTimestamp(anvil)) + WINDOW + 60);
  await anvil.mine();
});
afterAll(() => chain?.anvil.stop());

describe.each(NODES)("nine tenths of a pool, %s", (node) => {
  test("bought and sold back in one block leave only the fees in the price", async () => {
    const { ask, stop } = await watch(node);
    const before = await ask();
    const at = await block(async () => {
      await buy();
      await sellBack();
    });
    const after = await ask();
    // 903 WETH in, 900 out, so three stay in the pool.
    expect(after.usdPrice / before.usdPrice).toBeCloseTo(1.03, 12);
    expect(after.provenance!.twap30m).toBe(before.provenance!.twap30m);
    // 100 WETH, then 103, against a reference trade of $100,000.
    expect(before.provenance!.confidence).toBe("0.75");
    expect(Number(after.provenance!.confidence)).toBeCloseTo(309 / 409, 12);
    if (node === "followed") expect(after.provenance!.route[0]!.block).toBe(at);
    await stop();
  });

  test("bought in one block and sold back in the next show in the first price, and in the average by one block's share", async () => {
    const { ask, stop } = await watch(node);
    const before = await ask();
    const at = await block(buy);
    const pushed = await ask();
    expect(pushed.usdPrice / before.usdPrice).toBeGreaterThan(99);
    // The changed price has lasted for no time yet, so the average shows the difference at once.
    expect(pushed.provenance!.twap30m).toBe(before.provenance!.twap30m);
    expect(pushed.provenance!.route[0]!.block).toBe(at);
    await block(sellBack);
    const restored = await ask();
    expect(restored.usdPrice / before.usdPrice).toBeCloseTo(1.03, 12);
    const share = 12 / WINDOW;
    const moved = Number(restored.provenance!.twap30m) / before.usdPrice - 1;
    expect(moved).toBeCloseTo((pushed.usdPrice / before.usdPrice - 1) * share, 9);
    await stop();
  });
});
