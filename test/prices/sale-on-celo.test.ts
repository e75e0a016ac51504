/** Simulated sales on a chain whose coin is a token itself, with Celo's precompile: nothing can be wrapped there. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import v2Factory from "@uniswap/v2-core/build/UniswapV2Factory.json";
import { type Anvil, quantity, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy, placeCode, transact } from "../../scripts/local-chain/contracts.ts";
import { createV2Pair } from "../../scripts/local-chain/pools.ts";
import { CHAINS, type Chain, MULTICALL3 } from "../../src/chains/chains.ts";
import { type Address, toAddress } from "../../src/core/hex.ts";
import { type Sale, saleOf } from "../../src/prices/depth/sale.ts";
import type { Pool } from "../../src/prices/market/pools.ts";
import { STYLES } from "../../src/prices/styles/styles.ts";
import { readerOf } from "../support/prices/anvil.ts";
import { newToken } from "../support/prices/exchanges.ts";
import { quotedOver } from "../support/prices/quoted.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";

const NO_TAX = { sellable: true, buyTaxPercent: "0", sellTaxPercent: "0" } as const;
const celo = CHAINS.find(({ name }) => name === "celo")!;
const coin = celo.wrappedNative.address;

let anvil: Anvil;
let chain: Chain;
let factory: Address;
let coinPool: Pool;

beforeAll(async () => {
  anvil = await startAnvil({ chainId: celo.chainId, extraArgs: ["--celo"] });
  await placeCode(anvil, MULTICALL3, (await contractArtifact("Multicall")).deployedBytecode);
  await placeCode(anvil, coin, (await contractArtifact("CoinToken")).deployedBytecode);
  await anvil.send("anvil_setBalance", [anvil.accounts[0], quantity(1n << 100n)]);
  const { abi, bytecode } = v2Factory;
  factory = toAddress((await deploy(anvil, { abi, bytecode }, [anvil.accounts[0]])).address);
  const dollar = await newToken(anvil);
  chain = { ...celo, stablecoins: [{ symbol: "USD", address: dollar, decimals: 18 }], connectors: [] };
  coinPool = await pairWithCoin(dollar);
});
afterAll(() => anvil.stop());

async function pairWithCoin(token: Address): Promise<Pool> {
  const amounts = { amountA: 10n ** 24n, amountB: 10n ** 24n };
  await createV2Pair(anvil, { factory, tokenA: token, tokenB: coin, ...amounts });
  const venue = { name: "v2", rank: 0, style: "v2", factory, fees: [3_000], spacings: [], wrapped: coin } as const;
  const plan = STYLES.v2.find(venue, token, coin);
  return plan.read(await readerOf(anvil.url, chain).calls(plan.calls, "latest"))[0]!;
}

/** The word about a token, from a node with `eth_simulateV1` and from one without. */
async function saidOf(token: Address, own: readonly Pool[] = []): Promise<readonly Sale[]> {
  const pools = [...own, coinPool];
  const proxy = await startRpcProxy(anvil.url, {
    onRequest: ({ method }) =>
      method === "eth_simulateV1" ? { error: { code: -32601, message: "method not found" } } : undefined,
  });
  try {
    const readers = [anvil.url, proxy.url].map((url) => readerOf(url, chain));
    return await Promise.all(
      readers.map(async (reader) => saleOf(reader, await quotedOver(reader, chain, token, pools))),
    );
  } finally {
    await proxy.stop();
  }
}

test("finds a token sellable that is bought for the coin", async () => {
  const token = await newToken(anvil);
  expect(await saidOf(token, [await pairWithCoin(token)])).toEqual([NO_TAX, NO_TAX]);
});

test("finds the coin itself sellable", async () => {
  expect(await saidOf(coin)).toEqual([NO_TAX, NO_TAX]);
});

test("accuses a token that can't be sold, but not by a node that simulates no transactions", async () => {
  const { contract, address } = await deploy(anvil, await contractArtifact("HoneypotToken"));
  const token = toAddress(address);
  const pool = await pairWithCoin(token);
  await transact(anvil, contract, "arm", [pool.id]);
  expect((await saidOf(token, [pool])).map(({ sellable }) => sellable)).toEqual([false, null]);
});
