/** Simulated sales through the routers that exchanges have released, by their real bytecode at their real addresses. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import v2Router from "@uniswap/v2-periphery/build/UniswapV2Router02.json";
import v3Router from "@uniswap/v3-periphery/artifacts/contracts/SwapRouter.sol/SwapRouter.json";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployable, deploy, placeCode, transact } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { createV2Pair, createV3Pool } from "../../scripts/local-chain/pools.ts";
import { type Address, toAddress } from "../../src/core/hex.ts";
import { type Sale, saleOf } from "../../src/prices/depth/sale.ts";
import type { Pool } from "../../src/prices/market/pools.ts";
import { STYLES } from "../../src/prices/styles/styles.ts";
import { readerOf } from "../support/prices/anvil.ts";
import { quotedOver } from "../support/prices/quoted.ts";
import { type Rules, ruleArguments } from "../support/prices/ruled-tokens.ts";
import { eth, USDC, WETH } from "../support/prices/world.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";

const ROUTERS = {
  v2: "0x7a250d5630b4cf539739df2c5dacb4c659f2488d",
  v3: "0xe592427a0aece92de3edee1f18e0157c05861564",
} as const;
const NO_TAX = { sellable: true, buyTaxPercent: "0", sellTaxPercent: "0" } as const;
const ON = 1n;
const AMOUNT = 10n ** 24n;

let anvil: Anvil;
let coinPool: Pool;

beforeAll(async () => {
  anvil = await startAnvil();
  await placeMainnet(anvil);
  await place(ROUTERS.v2, { abi: v2Router.abi, bytecode: v2Router.bytecode }, MAINNET.uniswapV2Factory);
  await place(ROUTERS.v3, v3Router, MAINNET.uniswapV3Factory);
  const amounts = { amountA: AMOUNT, amountB: 2_000n * 10n ** 12n };
  await createV2Pair(anvil, { factory: MAINNET.uniswapV2Factory, tokenA: WETH, tokenB: USDC, ...amounts });
  coinPool = await found("v2", USDC);
});
afterAll(() => anvil.stop());

/** Puts a router with its constants at its address on mainnet. */
async function place(address: string, router: Deployable, factory: string): Promise<void> {
  const made = await deploy(anvil, router, [factory, MAINNET.weth]);
  await placeCode(anvil, address, (await anvil.send("eth_getCode", [made.address, "latest"])) as string);
}

async function found(style: "v2" | "v3", token: Address): Promise<Pool> {
  const factory = toAddress(style === "v2" ? MAINNET.uniswapV2Factory : MAINNET.uniswapV3Factory);
  const plan = STYLES[style].find(
    { name: style, rank: 0, style, factory, fees: [3_000], spacings: [], wrapped: WETH },
    token,
    WETH,
  );
  return plan.read(await readerOf(anvil.url).calls(plan.calls, "latest"))[0]!;
}

async function saidOf(style: "v2" | "v3", rules: Rules, url = anvil.url): Promise<Sale> {
  const { contract, address } = await deploy(anvil, await contractArtifact("RuledToken"), [18]);
  const token = toAddress(address);
  const pair = { tokenA: token, tokenB: WETH, amountA: AMOUNT, amountB: AMOUNT };
  if (style === "v2") await createV2Pair(anvil, { ...pair, factory: MAINNET.uniswapV2Factory });
  else await createV3Pool(anvil, { ...pair, fee: 3_000 });
  const pool = await found(style, token);
  if (rules.SellsFeesBefore !== undefined) await transact(anvil, contract, "gather", [10n ** 20n]);
  await transact(anvil, contract, "arm", [pool.id, ROUTERS[style], ...ruleArguments(rules)]);
  const reader = readerOf(url);
  return saleOf(reader, await quotedOver(reader, eth, token, [pool, coinPool]));
}

for (const style of ["v2", "v3"] as const) {
  test(`a token that only the known router may sell is sellable on ${style}, though it doesn't name the router`, async () => {
    const { sellable, why } = await saidOf(style, { KnownRouterOnly: ON, NamesNoRouter: ON });
    expect(sellable).toBe(true);
    expect(why).toStartWith("the exchange's own router sold it; its taxes are not measured");
  });

  test(`a token that the known router can't sell is not called sellable on ${style}`, async () => {
    const { sellable, why } = await saidOf(style, { BansKnownRouter: ON });
    expect(sellable).toBeNull();
    expect(why).toStartWith("a simulated sale through the exchange's own router failed");
  });

  test(`an ordinary token is sold through both routers on ${style}, in one request`, async () => {
    const proxy = await startRpcProxy(anvil.url);
    try {
      expect(await saidOf(style, {}, proxy.url)).toEqual(NO_TAX);
      expect(proxy.calls.filter(({ method }) => method === "eth_simulateV1")).toHaveLength(1);
    } finally {
      await proxy.stop();
    }
  });

  test(`a token that can't be sold is accused on ${style}`, async () => {
    expect((await saidOf(style, { SalesClosed: ON })).sellable).toBe(false);
  });
}

test("taxes are measured beside the router's sale, fees that the token sells within it included", async () => {
  const taxes = { buyTaxPercent: "3", sellTaxPercent: "4" };
  expect(await saidOf("v2", { BuyTax: 300n, SellTax: 400n })).toEqual({ sellable: true, ...taxes });
  expect(await saidOf("v2", { BuyTax: 300n, SellTax: 400n, SellsFeesBefore: ON })).toEqual({
    sellable: true,
    ...taxes,
  });
  expect(await saidOf("v2", { BuyTax: 8_000n })).toMatchObject({ sellable: true, buyTaxPercent: "80" });
});

test("a token that rests after a sale is sellable, with unknown taxes", async () => {
  expect(await saidOf("v2", { RestAfterSale: 10n })).toMatchObject({ sellable: true, sellTaxPercent: null });
});

test("a contract at the router's address that is not of the factory says nothing", async () => {
  const code = (await anvil.send("eth_getCode", [ROUTERS.v2, "latest"])) as string;
  await placeCode(anvil, ROUTERS.v2, (await anvil.send("eth_getCode", [ROUTERS.v3, "latest"])) as string);
  expect(await saidOf("v2", {})).toEqual(NO_TAX);
  await placeCode(anvil, ROUTERS.v2, "0x");
  expect(await saidOf("v2", {})).toEqual(NO_TAX);
  await placeCode(anvil, ROUTERS.v2, code);
});
