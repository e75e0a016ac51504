/**
 * The cost of a price: sequential round trips to the node for a cold token, with and without Multicall3. A proxy with
 * latency counts them as the longest chain of calls that wait for each other.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Anvil } from "../../scripts/local-chain/anvil.ts";
import { placeCode } from "../../scripts/local-chain/contracts.ts";
import { CHAINS, MULTICALL3 } from "../../src/chains/chains.ts";
import { exchangesOf } from "../../src/chains/exchanges.ts";
import type { Address } from "../../src/core/hex.ts";
import { roundProxy } from "../support/latency.ts";
import { pricesOf } from "../support/prices/anvil.ts";
import { createPool, newToken, startChain } from "../support/prices/exchanges.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

const ETHER = 10n ** 18n;
const eth = CHAINS[0]!;
const weth = eth.wrappedNative.address;

let anvil: Anvil;
let direct: Address;
let connected: Address;

beforeAll(async () => {
  anvil = await startChain(eth);
  const [uni2, uni3] = exchangesOf(eth);
  const usdc = eth.stablecoins[0]!.address;
  const wbtc = eth.connectors[0]!.address;
  direct = await newToken(anvil);
  connected = await newToken(anvil);
  for (const place of [uni2!, uni3!]) {
    await createPool(anvil, place, { tokenA: weth, amountA: 1_000n * ETHER, tokenB: usdc, amountB: 2n * 10n ** 12n });
    await createPool(anvil, place, { tokenA: weth, amountA: 9n * ETHER, tokenB: direct, amountB: 9n * ETHER });
  }
  await createPool(anvil, uni2!, { tokenA: weth, amountA: 150n * ETHER, tokenB: wbtc, amountB: 10n ** 9n });
  await createPool(anvil, uni2!, { tokenA: connected, amountA: 100n * ETHER, tokenB: wbtc, amountB: 10n ** 8n });
});
afterAll(() => anvil.stop());

const plain = { percentChange: false, provenance: false };

describe("a cold token behind 50 ms of latency", () => {
  test("takes two round trips with Multicall3, including the one for the head", async () => {
    for (const address of [direct, connected]) {
      const proxy = await roundProxy(anvil.url, 50);
      const { usdPrice } = await pricesOf(proxy.url).price({ address, ...plain });
      expect(usdPrice).toBeGreaterThan(0);
      expect(proxy.depth()).toBe(2);
      await proxy.stop();
    }
  });

  test("takes at most three if the node refuses all state except the newest", async () => {
    const proxy = await roundProxy(anvil.url, 50, ({ method, params }) =>
      method === "eth_call" && params[1] !== "latest"
        ? { error: { code: -32_000, message: "missing trie node" } }
        : undefined,
    );
    await pricesOf(proxy.url).price({ address: direct, ...plain });
    expect(proxy.depth()).toBeLessThanOrEqual(3);
    await proxy.stop();
  });

  test("takes three in batches without Multicall3, once its absence is known", async () => {
    const proxy = await roundProxy(anvil.url, 50);
    const prices = pricesOf(proxy.url);
    const expected = await pricesOf(anvil.url).price({ address: direct, ...plain });
    await placeCode(anvil, MULTICALL3, "0x");
    await prices.price({ address: connected, ...plain });
    proxy.reset();
    expect(await prices.price({ address: direct, ...plain })).toEqual(expected);
    expect(proxy.depth()).toBe(3);
    await proxy.stop();
  });
});
