/**
 * Prices on real Uniswap bytecode. Each price of the API is recomputed here from `getReserves` and `slot0` at its
 * block, on an archive node and through a proxy that refuses every call about past state.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { Interface } from "ethers";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy } from "../../scripts/local-chain/contracts.ts";
import { MAINNET } from "../../scripts/local-chain/mainnet.ts";
import {
  createV2Pair,
  createV3Pool,
  type Pool,
  removeV3Liquidity,
  swapV2,
  swapV3,
  type V3Position,
} from "../../scripts/local-chain/pools.ts";
import { createRandom } from "../../scripts/local-chain/random.ts";
import { type Address, toAddress } from "../../src/core/hex.ts";
import type { PriceRecord } from "../../src/prices/models.ts";
import type { Prices } from "../../src/prices/price-service.ts";
import { HandFollower, type LocalChain, pricesOf, setNextTimestamp, startLocalChain } from "../support/prices/anvil.ts";
import { parsePriceQuery, type RawPriceQuery } from "../support/prices/query.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

const ETHER = 10n ** 18n;
const USD = 10n ** 6n;
const STATE = new Interface([
  "function getReserves() view returns (uint112, uint112)",
  "function slot0() view returns (uint160)",
]);

let chain: LocalChain;
let proxy: RpcProxy;
let dollar: Pool;
let v2: Pool;
let v3: V3Position;
let onV2: Address;
let onV3: Address;
let odd: Address;
let oddPool: Pool;
/** The first block in which every pool exists. */
let ready: number;
let last: number;

const tip = async (): Promise<number> => Number(await chain.anvil.send("eth_blockNumber"));

async function read(pool: string, method: "getReserves" | "slot0", block: number): Promise<bigint[]> {
  const data = STATE.encodeFunctionData(method);
  const tag = `0x${block.toString(16)}`;
  const returned = (await chain.anvil.send("eth_call", [{ to: pool, data }, tag])) as string;
  return [...STATE.decodeFunctionResult(method, returned)] as bigint[];
}

/** The double nearest to n / d, through sixty decimal digits that the language parses exactly. */
function nearest(n: bigint, d: bigint): number {
  const places = 60 + d.toString().length;
  return Number(`${(n * 10n ** BigInt(places)) / d}e-${places}`);
}

/** US dollars for one WETH from the USDC pair's reserves, as numerator and denominator. */
async function etherUsd(block: number): Promise<[bigint, bigint]> {
  const [usdc, weth] = (await read(dollar.address, "getReserves", block)) as [bigint, bigint];
  return [usdc * ETHER, weth * USD];
}

const isFirst = (pool: Pool, token: string): boolean => pool.token0.toLowerCase() === token;

async function expectedV2(pool: Pool, token: Address, unit: bigint, block: number) {
  const [r0, r1] = (await read(pool.address, "getReserves", block)) as [bigint, bigint];
  const [own, weth] = isFirst(pool, token) ? [r0, r1] : [r1, r0];
  const [n, d] = await etherUsd(block);
  return { usd: nearest(weth * unit * n, own * ETHER * d), native: ((weth * unit) / own).toString() };
}

async function expectedV3(block: number) {
  const [sqrt] = (await read(v3.address, "slot0", block)) as [bigint];
  const [top, bottom] = isFirst(v3, onV3) ? [sqrt ** 2n, 1n << 192n] : [1n << 192n, sqrt ** 2n];
  const [n, d] = await etherUsd(block);
  return { usd: nearest(top * n, bottom * d), native: ((top * ETHER) / bottom).toString() };
}

const ask = (prices: Prices, address: Address, query: RawPriceQuery = {}): Promise<PriceRecord> =>
  prices.price({ address, ...parsePriceQuery(query) });

async function refused(prices: Prices, address: Address, query: RawPriceQuery = {}): Promise<string> {
  return ask(prices, address, query).then(
    () => "a price",
    (error: { code: string }) => error.code,
  );
}

const said = (record: PriceRecord) => ({ usd: record.usdPrice, native: record.nativePrice!.value });

beforeAll(async () => {
  chain = await startLocalChain();
  const { anvil } = chain;
  proxy = await startRpcProxy(anvil.url, {
    onRequest: ({ method, params }) => {
      if (method !== "eth_call" || params[1] === "latest") return;
      return { error: { code: -32_000, message: "missing trie node 0abc (path ) state is not available" } };
    },
  });
  onV2 = await chain.token();
  onV3 = await chain.token();
  odd = await chain.token(0);
  const weth = MAINNET.weth;
  const factory = MAINNET.uniswapV2Factory;
  dollar = await createV2Pair(anvil, {
    factory,
    tokenA: weth,
    tokenB: MAINNET.usdc,
    amountA: 1_000n * ETHER,
    amountB: 3_000_000n * USD,
  });
  v2 = await createV2Pair(anvil, {
    factory,
    tokenA: weth,
    tokenB: onV2,
    amountA: 50n * ETHER,
    amountB: 12_345n * ETHER,
  });
  v3 = await createV3Pool(anvil, {
    tokenA: weth,
    tokenB: onV3,
    fee: 3000,
    amountA: 70n * ETHER,
    amountB: 99_999n * ETHER,
  });
  oddPool = await createV2Pair(anvil, { factory, tokenA: weth, tokenB: odd, amountA: 10n * ETHER, amountB: 777n });
  ready = await tip();
  const random = createRandom(7);
  const sell = (pool: Pool, token: string, amountIn: bigint, v3Pool = false) =>
    (v3Pool ? swapV3 : swapV2)(anvil, { pool: pool.address, tokenIn: token, amountIn });
  let now = Number(((await anvil.send("eth_getBlockByNumber", ["latest", false])) as { timestamp: string }).timestamp);
  for (let round = 0; round < 15; round++) {
    now += 6_000 + random.below(4_000);
    await setNextTimestamp(anvil, now);
    await sell(dollar, weth, BigInt(1 + random.below(9)) * ETHER);
    await sell(v2, random.below(2) === 0 ? weth : onV2, BigInt(1 + random.below(5)) * ETHER);
    await sell(v3, random.below(2) === 0 ? weth : onV3, BigInt(1 + random.below(5)) * ETHER, true);
    if (round === 4) {
      await createV3Pool(anvil, {
        tokenA: weth,
        tokenB: onV3,
        fee: 3000,
        amountA: 5n * ETHER,
        amountB: 5_000n * ETHER,
        ticks: { lower: -120_000, upper: 120_000 },
      });
    }
    if (round === 8) await removeV3Liquidity(anvil, v3, v3.liquidity / 3n);
    await anvil.mine(1 + random.below(6));
  }
  last = await tip();
}, 300_000);

afterAll(async () => {
  await proxy?.stop();
  await chain?.anvil.stop();
});

describe("at the head", () => {
  test("prices v2, v3 and a token with 0 decimals with three requests to the node", async () => {
    const through = await startRpcProxy(chain.anvil.url);
    const prices = pricesOf(through.url);
    expect(said(await ask(prices, onV2))).toEqual(await expectedV2(v2, onV2, ETHER, last));
    expect(through.requests).toBeLessThanOrEqual(3);
    expect(said(await ask(prices, onV3))).toEqual(await expectedV3(last));
    expect(said(await ask(prices, odd))).toEqual(await expectedV2(oddPool, odd, 1n, last));
    expect(await ask(prices, odd)).toMatchObject({ tokenDecimals: "0", toBlock: String(last) });
    await through.stop();
  });
});

for (const node of ["an archive node", "a node that refuses past state"] as const) {
  describe(`in the past, on ${node}`, () => {
    const url = () => (node === "an archive node" ? chain.anvil.url : proxy.url);

    test("gives the exact price at a hundred random blocks", async () => {
      const prices = pricesOf(url());
      const random = createRandom(11);
      for (let index = 0; index < 100; index++) {
        const block = ready + random.below(last - ready + 1);
        const query = { to_block: String(block) };
        const record = index % 2 === 0 ? await ask(prices, onV2, query) : await ask(prices, onV3, query);
        expect(record.toBlock).toBe(String(block));
        expect(said(record)).toEqual(
          index % 2 === 0 ? await expectedV2(v2, onV2, ETHER, block) : await expectedV3(block),
        );
      }
    }, 60_000);

    test("gives the exact change over a day", async () => {
      const prices = pricesOf(url());
      const header = async (block: number) =>
        (await chain.anvil.send("eth_getBlockByNumber", [`0x${block.toString(16)}`, false])) as { timestamp: string };
      const target = Number((await header(last)).timestamp) - 86_400;
      let before = last;
      while (Number((await header(before)).timestamp) > target) before--;
      const [now, then] = [await expectedV2(v2, onV2, ETHER, last), await expectedV2(v2, onV2, ETHER, before)];
      const change = Number((await ask(prices, onV2, { include: "percent_change" }))["24hrPercentChange"]);
      expect(before).toBeGreaterThan(ready);
      expect(change).toBeCloseTo((now.usd / then.usd - 1) * 100, 9);
    });

    test("refuses a block before the pool, and a block above the head", async () => {
      const prices = pricesOf(url());
      expect(await refused(prices, onV2, { to_block: "5" })).toBe("no_price_at_block");
      expect(await refused(prices, onV2, { to_block: String(last + 1_000) })).toBe("invalid_parameter");
    });
  });
}

describe("refusals", () => {
  test("state their reason: no pool, thin pools, no token, no decimals, an exchange of another chain", async () => {
    const { anvil } = chain;
    const prices = pricesOf(anvil.url);
    const lonely = await chain.token();
    expect(await refused(prices, lonely)).toBe("no_pool");
    const thin = await chain.token();
    const factory = MAINNET.uniswapV2Factory;
    await createV2Pair(anvil, { factory, tokenA: thin, tokenB: MAINNET.usdc, amountA: ETHER, amountB: 499n * USD });
    expect(await refused(prices, thin)).toBe("low_liquidity");
    expect((await ask(prices, thin, { min_liquidity_usd: "499" })).usdPrice).toBe(499);
    expect(await refused(prices, toAddress(anvil.accounts[3]!))).toBe("not_a_token");
    expect(await refused(prices, toAddress(MAINNET.uniswapV3Factory))).toBe("not_a_token");
    const mute = await deploy(anvil, await contractArtifact("NoDecimalsToken"), []);
    expect(await refused(prices, toAddress(mute.address))).toBe("unknown_decimals");
    expect(await refused(prices, onV2, { exchange: "camelotv2" })).toBe("invalid_parameter");
    expect(await refused(prices, onV2, { exchange: "dexa_v3" })).toBe("no_pool");
  });
});

describe("while followed", () => {
  test("a warm price costs no request and equals the chain's state, read in one batch at each head", async () => {
    const { anvil } = chain;
    const through = await startRpcProxy(anvil.url);
    const follower = new HandFollower(anvil.url);
    const prices = pricesOf(through.url, follower);
    await follower.poll(prices);
    await ask(prices, onV2);
    await ask(prices, onV3);
    await anvil.mine();
    await follower.poll(prices);
    await Promise.all([ask(prices, onV2), ask(prices, onV3)]);
    through.reset();
    for (let round = 0; round < 5; round++) {
      await swapV2(anvil, { pool: v2.address, tokenIn: MAINNET.weth, amountIn: ETHER });
      await swapV3(anvil, { pool: v3.address, tokenIn: onV3, amountIn: 7n * ETHER });
      await swapV2(anvil, { pool: dollar.address, tokenIn: MAINNET.usdc, amountIn: 999n * USD });
      through.reset();
      const { requests } = through;
      await follower.poll(prices);
      const block = await tip();
      // Two tokens and the liquidity of their pools, in one batch with the block's header. The other request reads the
      // factories' logs.
      expect([through.count("eth_call"), through.count("eth_getLogs")]).toEqual([2, 1]);
      expect(through.requests - requests).toBe(2);
      through.reset();
      expect(said(await ask(prices, onV2))).toEqual(await expectedV2(v2, onV2, ETHER, block));
      expect(said(await ask(prices, onV3))).toEqual(await expectedV3(block));
      expect(through.calls).toEqual([]);
    }
    await through.stop();
  });
});
