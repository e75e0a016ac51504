/**
 * A recorded case on polygon: at block 15,175,663 the only usable pool of WETH is QuickSwap's with QUICK. The market is
 * rebuilt with real bytecode, so its pairs have their polygon addresses.
 */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Anvil } from "../../scripts/local-chain/anvil.ts";
import { contractAt, transact } from "../../scripts/local-chain/contracts.ts";
import { fund, type Pool, V2_PAIR_ABI } from "../../scripts/local-chain/pools.ts";
import { exchangesOf } from "../../src/chains/exchanges.ts";
import { type Address, toAddress } from "../../src/core/hex.ts";
import type { PriceRecord } from "../../src/prices/models.ts";
import { KNOWN } from "../support/known-chains.ts";
import { pricesOf, unfollowed } from "../support/prices/anvil.ts";
import { createPool, startChain } from "../support/prices/exchanges.ts";
import { parsePriceQuery, type RawPriceQuery } from "../support/prices/query.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

const BLOCK = 15_175_663;
const ETHER = 10n ** 18n;
const polygon = KNOWN.parse("polygon")!;
const wmatic = polygon.wrappedNative.address;
const connector = (symbol: string): Address => polygon.connectors.find((entry) => entry.symbol === symbol)!.address;
const weth = connector("WETH");
const quick = connector("QUICK (old)");
const usdc = polygon.stablecoins.find(({ symbol }) => symbol === "USDC.e")!.address;
const quickswap = exchangesOf(polygon).find(({ exchange }) => exchange.realName === "quickswap")!;

/** From QuickSwap's list: github.com/QuickSwap/interface, src/state/stake/hooks.ts, fields `tokens` and `pair`. */
const PAIRS = {
  wethQuick: toAddress("0x1bd06b96dd42ada85fdd0795f3b4a79db914add5"),
  usdcQuick: toAddress("0x1f1e4c845183ef6d50e9609f16f6f9cae43bc9cb"),
  maticUsdc: toAddress("0x6e7a5fafcec6bb1e78bae2a1f0b612012bf14827"),
};

let anvil: Anvil;
let link: Pool;

const numberNow = async (): Promise<number> => Number(await anvil.send("eth_blockNumber"));

beforeAll(async () => {
  anvil = await startChain(polygon, { firstBlock: BLOCK - 60 });
  const pair = (tokenA: Address, amountA: bigint, tokenB: Address, amountB: bigint): Promise<Pool> =>
    createPool(anvil, quickswap, { tokenA, amountA, tokenB, amountB });
  // QUICK is $500, WETH 5 QUICK, MATIC $1.25.
  const made = [
    await pair(usdc, 1_000_000n * 10n ** 6n, quick, 2_000n * ETHER),
    await pair(wmatic, 400_000n * ETHER, usdc, 500_000n * 10n ** 6n),
  ];
  link = await pair(weth, 400n * ETHER, quick, 2_000n * ETHER);
  expect([link, ...made].map(({ address }) => toAddress(address))).toEqual(Object.values(PAIRS));
  // WETH's own pools with a stablecoin and with the native coin are far below the floor of $150.
  await pair(weth, ETHER / 100n, usdc, 20n * 10n ** 6n);
  await pair(weth, ETHER / 100n, wmatic, 16n * ETHER);
  await anvil.mine(BLOCK - (await numberNow()));
  expect(await numberNow()).toBe(BLOCK);
});
afterAll(() => anvil.stop());

const ask = (url: string, query: RawPriceQuery): Promise<PriceRecord> =>
  pricesOf(url, unfollowed, polygon).price({ address: weth, ...parsePriceQuery(query) });

const EXPECTED = {
  usdPrice: 2_500,
  exchangeName: "Quickswap",
  nativePrice: { value: String(2_000n * ETHER), symbol: "POL" },
  toBlock: String(BLOCK),
};

describe("WETH on polygon at block 15,175,663", () => {
  test("is priced by its pool with QUICK", async () => {
    expect(await ask(anvil.url, {})).toMatchObject(EXPECTED);
    expect(await ask(anvil.url, { exchange: "quickswap" })).toMatchObject(EXPECTED);
  });

  test("keeps that price at later blocks, on a node with archive state and on one without", async () => {
    await anvil.mine(500);
    await fund(anvil, quick, link.address, 2_000n * ETHER);
    await transact(anvil, contractAt(anvil, link.address, V2_PAIR_ABI), "sync");
    const proxy = await startRpcProxy(anvil.url, {
      onRequest: ({ method, params }) =>
        method === "eth_call" && params[1] !== "latest"
          ? { error: { code: -32_000, message: "missing trie node" } }
          : undefined,
    });
    for (const url of [anvil.url, proxy.url]) {
      expect(await ask(url, { to_block: String(BLOCK) })).toMatchObject(EXPECTED);
    }
    await proxy.stop();
    expect(await ask(anvil.url, {})).toMatchObject({ usdPrice: 5_000 });
  });
});
