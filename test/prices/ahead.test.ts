/**
 * Prices read ahead of a new head, on a real EVM: many tokens in one batch, none spoilt by a token that burns gas, and
 * none of an orphaned head.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { reorg } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, deploy, placeCode, prepare } from "../../scripts/local-chain/contracts.ts";
import { MAINNET } from "../../scripts/local-chain/mainnet.ts";
import { createV2Pair, type Pool, swapV2, V2_PAIR_ABI } from "../../scripts/local-chain/pools.ts";
import { type Address, toAddress } from "../../src/core/hex.ts";
import type { PriceRecord } from "../../src/prices/models.ts";
import type { Prices } from "../../src/prices/price-service.ts";
import { HandFollower, type LocalChain, pricesOf, startLocalChain } from "../support/prices/anvil.ts";
import { untilSearched } from "../support/prices/world.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

const ETHER = 10n ** 18n;
const plain = { percentChange: false, provenance: false };
const factory = MAINNET.uniswapV2Factory;

let chain: LocalChain;
let token: Address;
let pool: Pool;

beforeAll(async () => {
  chain = await startLocalChain();
  const { anvil } = chain;
  const dollars = { tokenA: MAINNET.weth, amountA: 100n * ETHER, tokenB: MAINNET.usdc, amountB: 300_000n * 10n ** 6n };
  await createV2Pair(anvil, { factory, ...dollars });
  token = await chain.token();
  const amounts = { tokenA: MAINNET.weth, amountA: 10n * ETHER, tokenB: token, amountB: 3_000n * ETHER };
  pool = await createV2Pair(anvil, { factory, ...amounts });
});
afterAll(() => chain?.anvil.stop());

const ask = (prices: Prices, address: Address): Promise<PriceRecord | string> =>
  untilSearched(() => prices.price({ address, ...plain })).catch(({ code }: { code: string }) => code);

describe("two hundred tokens asked about lately", () => {
  test("are read in one batch at each new head, and then cost no request", async () => {
    const { anvil } = chain;
    const { deployedBytecode } = await contractArtifact("TestToken");
    const tokens = Array.from({ length: 200 }, (_, at) =>
      toAddress(`0x${(0x1000 + at).toString(16).padStart(40, "a")}`),
    );
    for (const address of tokens) await placeCode(anvil, address, deployedBytecode);
    await anvil.mine();
    const through = await startRpcProxy(anvil.url);
    const follower = new HandFollower(anvil.url);
    const prices = pricesOf(through.url, follower);
    await follower.poll(prices);
    const expected = [...tokens.map(() => "no_pool"), 10];
    const asked = async () => {
      const answers = await Promise.all([...tokens, token].map((address) => ask(prices, address)));
      return answers.map((answer) => (typeof answer === "string" ? answer : answer.usdPrice));
    };
    expect(await asked()).toEqual(expected);
    for (let round = 0; round < 3; round++) {
      await anvil.mine();
      through.reset();
      const before = through.requests;
      await follower.poll(prices);
      // Five hundred calls fit into one state call. All state calls are in one batch; the other reads the factories' logs.
      expect([through.requests - before, through.count("eth_call")]).toEqual([2, 3]);
      through.reset();
      expect(await asked()).toEqual(expected);
      expect(through.calls).toEqual([]);
    }
    await through.stop();
  });
});

describe("tokens that burn all gas of a call", () => {
  test("change no price of another token that is read with them", async () => {
    const { anvil } = chain;
    const greedy: Address[] = [];
    for (let count = 0; count < 4; count++) {
      const { address } = await deploy(anvil, await contractArtifact("GreedyToken"), []);
      const amounts = { tokenA: MAINNET.weth, amountA: 10n * ETHER, tokenB: address, amountB: 30n * ETHER };
      await createV2Pair(anvil, { factory, ...amounts });
      greedy.push(toAddress(address));
    }
    // Go-ethereum gives a call fifty million gas unless it is configured otherwise.
    const gas = "0x2faf080";
    let isPlain = false;
    const proxy = await startRpcProxy(anvil.url, {
      onRequest: async ({ method, params }) => {
        if (method !== "eth_call" || isPlain) return;
        const [call, tag] = params as [object, string];
        const answer = anvil.send("eth_call", [{ ...call, gas }, tag]);
        return answer.then(
          (result) => ({ result }),
          ({ code, message, data }) => ({ error: { code, message, data } }),
        );
      },
    });
    const follower = new HandFollower(anvil.url);
    const warm = pricesOf(proxy.url, follower);
    await follower.poll(warm);
    const all = [...greedy, token];
    const asked = (prices: Prices) => Promise.all(all.map((address) => ask(prices, address)));
    await asked(warm);
    await anvil.mine();
    await follower.poll(warm);
    const answers = await asked(warm);
    isPlain = true;
    expect(answers).toEqual(await asked(pricesOf(proxy.url)));
    expect(answers.map((answer) => (answer as PriceRecord).usdPrice)).toEqual([1_000, 1_000, 1_000, 1_000, 10]);
    expect(answers.every((answer) => (answer as PriceRecord).toBlock === String(follower.head()?.number))).toBe(true);
    await proxy.stop();
  });
});

describe("a head that is orphaned", () => {
  test("leaves no price, neither read ahead nor at the node's newest block", async () => {
    const { anvil } = chain;
    const follower = new HandFollower(anvil.url);
    const shown = pricesOf(anvil.url, follower);
    const usd = async (prices: Prices): Promise<number> => ((await ask(prices, token)) as PriceRecord).usdPrice;
    await follower.poll(shown);
    expect(await usd(shown)).toBe(10);
    // The first server reads the swap ahead of the head that shows it. The second one reads it by a request, before.
    for (const prices of [shown, pricesOf(anvil.url, follower)]) {
      await swapV2(anvil, { pool: pool.address, tokenIn: MAINNET.weth, amountIn: 10n * ETHER });
      if (prices === shown) await follower.poll(prices);
      expect(await usd(prices)).toBeGreaterThan(35);
      const pair = contractAt(anvil, pool.address, V2_PAIR_ABI);
      const from = anvil.accounts[0]!;
      await reorg(anvil, 6, [{ block: 1, from, ...(await prepare(pair, "sync")) }]);
      await follower.poll(prices);
      const record = (await ask(prices, token)) as PriceRecord;
      expect([record.usdPrice, record.toBlock]).toEqual([10, String(follower.head()?.number)]);
    }
  });
});
