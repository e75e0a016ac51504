/** The hosted service's own client, unmodified, against a running service: its two operations of prices with all their parameters. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import Moralis from "moralis";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { type Market, seedMarket } from "../../scripts/local-chain/market.ts";
import { startTestService, TEST_KEY, type TestService, temporaryLogUrl } from "../support/service.ts";

let anvil: Anvil;
let market: Market;
let service: TestService;

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 27 * 3_600 - 60 });
  await placeMainnet(anvil);
  market = await seedMarket(anvil);
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl() });
  await Moralis.start({ apiKey: TEST_KEY, evmApiBaseUrl: `http://127.0.0.1:${service.port}/api/v2` });
}, 300_000);
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

test("lets getTokenPrice parse every field of the answer", async () => {
  const address = market.demo.address;
  const { result, raw } = await Moralis.EvmApi.token.getTokenPrice({
    address,
    chain: "0x1",
    include: "percent_change",
  });
  const plain = (await service.get(`/api/v2/erc20/${address}/price?include=percent_change`)).body;
  expect(raw as unknown).toEqual(plain);
  // The client treats the value as whole coins, here as with the hosted service.
  expect(result.nativePrice?.toString()).toBe(`${plain.nativePrice.value}${"0".repeat(18)}`);
  expect(plain.nativePrice).toMatchObject({ decimals: 18, name: "Ether", symbol: "ETH" });
  expect(result.usdPrice).toBe(plain.usdPrice);
  expect(result.exchangeAddress?.lowercase).toBe(MAINNET.uniswapV2Factory.toLowerCase());
  expect(result.exchangeName).toBe("Uniswap v2");
  expect(Number(plain["24hrPercentChange"])).not.toBe(0);
});

test("lets getTokenPrice name an exchange and a block", async () => {
  const address = market.demo.address;
  const toBlock = Number(await anvil.send("eth_blockNumber")) - 20;
  for (const exchange of ["uniswapv2", "uniswapv3"] as const) {
    const { raw } = await Moralis.EvmApi.token.getTokenPrice({ address, exchange, toBlock });
    const plain = (await service.get(`/api/v2/erc20/${address}/price?exchange=${exchange}&to_block=${toBlock}`)).body;
    expect(raw as unknown).toEqual(plain);
    expect(plain).toMatchObject({ toBlock: String(toBlock), exchangeName: `Uniswap ${exchange.slice(-2)}` });
  }
});

test("lets getMultipleTokenPrices ask for many tokens, with an exchange and a block each", async () => {
  const tokenAddress = market.demo.address;
  const toBlock = String(Number(await anvil.send("eth_blockNumber")) - 20);
  const tokens = [
    { tokenAddress },
    { tokenAddress: anvil.accounts[5]! },
    { tokenAddress: MAINNET.usdc },
    { tokenAddress, exchange: "uniswapv3", toBlock },
  ];
  const { result, raw } = await Moralis.EvmApi.token.getMultipleTokenPrices(
    { chain: "0x1", include: "percent_change" },
    { tokens },
  );
  const plain = async (address: string, query = "") =>
    (await service.get(`/api/v2/erc20/${address}/price?include=percent_change${query}`)).body;
  expect(raw as unknown).toEqual([
    await plain(tokenAddress),
    await plain(MAINNET.usdc),
    await plain(tokenAddress, `&exchange=uniswapv3&to_block=${toBlock}`),
  ]);
  expect(result.map((one) => [one.tokenSymbol, one.exchangeName, one.toBlock === toBlock])).toEqual([
    ["DEMO", "Uniswap v2", false],
    ["USDC", "Uniswap v2", false],
    ["DEMO", "Uniswap v3", true],
  ]);
});

test("shows the pair in the client's own fields", async () => {
  const include = "pair" as "percent_change";
  const tokens = [{ tokenAddress: market.demo.address }];
  const [price] = (await Moralis.EvmApi.token.getMultipleTokenPrices({ chain: "0x1", include }, { tokens })).result;
  expect(price?.pairAddress).toBe(market.v2.DEMO.address.toLowerCase());
  expect(Number(price?.pairTotalLiquidityUsd)).toBeGreaterThan(1_000_000);
});

test("passes the message of a refusal to the client", async () => {
  const asked = Moralis.EvmApi.token.getTokenPrice({ address: anvil.accounts[5]! });
  await expect(asked).rejects.toThrow(`${anvil.accounts[5]!.toLowerCase()} is an account without code`);
  const { address } = await deploy(anvil, await contractArtifact("TestToken"), ["Unsold", "UNS", 18]);
  const unsold = Moralis.EvmApi.token.getTokenPrice({ address });
  await expect(unsold).rejects.toThrow("No pools found with enough liquidity, to calculate the price");
});
