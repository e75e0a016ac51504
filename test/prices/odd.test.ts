/**
 * Odd pools and odd tokens on a real EVM: pairs on Camelot's curves, decimals that are missing, absurd or many, tokens
 * that keep fees or shrink balances, proxies, the wrapped native coin and the stablecoins, one of them depegged.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { encodeBytes32String, Interface } from "ethers";
import type { Anvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, deploy, placeCode, read, transact } from "../../scripts/local-chain/contracts.ts";
import { createV3Pool, fund, type Pool, V2_PAIR_ABI } from "../../scripts/local-chain/pools.ts";
import { CHAINS, type Chain, MULTICALL3 } from "../../src/chains/chains.ts";
import { type Deployment, exchangesOf } from "../../src/chains/exchanges.ts";
import { type Address, toAddress } from "../../src/core/hex.ts";
import type { Prices } from "../../src/prices/price-service.ts";
import { pricesOf, unfollowed } from "../support/prices/anvil.ts";
import { camelotPair, createCamelotPair, createPool, newToken, startChain } from "../support/prices/exchanges.ts";
import { parsePriceQuery, type RawPriceQuery } from "../support/prices/query.ts";
import { startRpcProxy } from "../support/rpc-proxy.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

const ETHER = 10n ** 18n;
const USD = 10n ** 6n;

const ask = (prices: Prices, address: Address, query: RawPriceQuery = {}) =>
  prices.price({ address, ...parsePriceQuery(query) });

interface Refused {
  readonly code: string;
  readonly details: unknown;
}

const refusal = (prices: Prices, address: Address, query: RawPriceQuery = {}): Promise<Refused> =>
  ask(prices, address, query).then(
    () => {
      throw new Error("the request should have been refused");
    },
    (error) => error,
  );

describe("Camelot's pairs", () => {
  const arbitrum = CHAINS.find((chain) => chain.name === "arbitrum")!;
  const factory = exchangesOf(arbitrum).find((entry) => entry.style === "v2-camelot")!.factory;
  const usdc = arbitrum.stablecoins[0]!.address;
  let anvil: Anvil;
  let token: Address;
  let pair: Pool;

  beforeAll(async () => {
    anvil = await startChain(arbitrum);
    token = await newToken(anvil);
    const amounts = { tokenA: token, amountA: 900_000n * ETHER, tokenB: usdc, amountB: 400_000n * USD };
    pair = await createCamelotPair(anvil, factory, amounts);
  });
  afterAll(() => anvil.stop());

  /** Price of a sliver of the token in millionths of a dollar, as the pair itself would pay without its fee. */
  async function paid(sliver: bigint): Promise<number> {
    const contract = await camelotPair(anvil, pair.address);
    const kept = await read<bigint>(
      contract,
      pair.token0.toLowerCase() === token ? "token0FeePercent" : "token1FeePercent",
    );
    // An amount of which the sliver is left after the fee.
    const amount = (sliver * 100_000n) / (100_000n - kept);
    return Number(await read<bigint>(contract, "getAmountOut", [amount, token])) / (Number(sliver) / 1e12);
  }

  /** The slope of x³y + y³x = k at reserves in whole tokens, as a quotient of the two derivatives. */
  function slope(x: bigint, y: bigint): number {
    const along = (a: bigint, b: bigint) => a * a * a + 3n * a * b * b;
    // d(x³y + xy³)/dx over d(x³y + xy³)/dy.
    return Number((along(y, x) * 10n ** 40n) / along(x, y)) / 1e40;
  }

  test("with a fee per direction are priced by their reserves", async () => {
    await transact(anvil, await camelotPair(anvil, pair.address), "set", [false, 200, 700]);
    const prices = pricesOf(anvil.url, unfollowed, arbitrum);
    const record = await ask(prices, token, { include: "provenance" });
    expect(record).toMatchObject({ exchangeName: "Camelot V2", exchangeAddress: factory });
    expect(record.usdPrice).toBe(4 / 9);
    // The higher fee of the two directions, in hundredths of a basis point.
    expect(record.provenance!.route[0]).toMatchObject({ fee: 7_000, reserve0: expect.any(String) });
    expect(await paid(10n ** 18n)).toBeCloseTo(record.usdPrice, 5);
  });

  for (const node of ["an archive node", "a node that refuses past state"]) {
    test(`on the stable curve are priced by its slope, with a past block requested first, on ${node}`, async () => {
      const contract = await camelotPair(anvil, pair.address);
      await transact(anvil, contract, "set", [true, 40, 40]);
      const block = Number(await anvil.send("eth_blockNumber"));
      const proxy = await startRpcProxy(anvil.url, {
        onRequest: ({ method, params }) =>
          node !== "an archive node" && method === "eth_call" && params[1] !== "latest" && Number(params[1]) < block + 2
            ? { error: { code: -32_000, message: "missing trie node" } }
            : undefined,
      });
      const [reserve0, reserve1] = await read<bigint[]>(contract, "getReserves");
      const isFirst = pair.token0.toLowerCase() === token;
      const [own, other] = isFirst ? [reserve0!, reserve1!] : [reserve1!, reserve0!];
      const expected = slope(own, other * 10n ** 12n);
      expect(await paid(10n ** 19n)).toBeCloseTo(expected, 4);
      await fund(anvil, token, pair.address, 50_000n * ETHER);
      await transact(anvil, contract, "sell", [token, anvil.accounts[0]]);
      const [after0, after1] = await read<bigint[]>(contract, "getReserves");
      const now = isFirst ? slope(after0!, after1! * 10n ** 12n) : slope(after1!, after0! * 10n ** 12n);
      await anvil.mine();
      const prices = pricesOf(proxy.url, unfollowed, arbitrum);
      const then = await ask(prices, token, { to_block: String(block), include: "provenance" });
      expect(then.usdPrice).toBeCloseTo(expected, 13);
      expect(then.usdPrice).not.toBeCloseTo(4 / 9, 2);
      expect(then.provenance!.route[0]).toMatchObject({ stableCurve: true });
      const head = await ask(prices, token);
      expect(head.usdPrice).toBeCloseTo(now, 13);
      expect(head.usdPrice).toBeLessThan(then.usdPrice);
      await proxy.stop();
    });
  }
});

describe("on Ethereum", () => {
  const eth: Chain = CHAINS[0]!;
  const weth = eth.wrappedNative.address;
  const [usdc, usdt, dai] = eth.stablecoins.map((coin) => coin.address) as [Address, Address, Address];
  const wbtc = eth.connectors[0]!.address;
  const [uni2, uni3] = exchangesOf(eth) as unknown as [Deployment, Deployment];
  let anvil: Anvil;
  let prices: Prices;

  const made = async (name: string, args: unknown[] = []): Promise<Address> =>
    toAddress((await deploy(anvil, await contractArtifact(name), args)).address);
  /** Makes a v2 pair of a token with five ether at 2,000 dollars. */
  const withEther = (tokenA: Address, amountA: bigint, amountB = 5n * ETHER) =>
    createPool(anvil, uni2, { tokenA, amountA, tokenB: weth, amountB });

  beforeAll(async () => {
    anvil = await startChain(eth);
    const dollar = { tokenA: weth, amountA: 1_000n * ETHER, tokenB: usdc, amountB: 2_000_000n * USD };
    await createPool(anvil, uni2, dollar);
    prices = pricesOf(anvil.url);
  });
  afterAll(() => anvil.stop());

  test("reads name and symbol as bytes32", async () => {
    const token = await made("Bytes32Token", [encodeBytes32String("Maker"), encodeBytes32String("MKR")]);
    await withEther(token, 10n * ETHER);
    expect(await ask(prices, token)).toMatchObject({ tokenName: "Maker", tokenSymbol: "MKR", usdPrice: 1_000 });
  });

  test("prices tokens of 0 to 77 decimals alike, on v2 and v3", async () => {
    for (const decimals of [0, 1, 36, 77]) {
      const token = await newToken(anvil, decimals);
      // Reserves on v2 have 112 bits: a thousandth of a token with 36 decimals fits, a whole token with 77 doesn't.
      const amount = decimals > 33 ? 10n ** 33n : 1_000n * 10n ** BigInt(decimals);
      const whole = decimals > 33 ? 10 ** (33 - decimals) : 1_000;
      await withEther(token, amount);
      const { usdPrice, tokenDecimals } = await ask(prices, token);
      expect([tokenDecimals, usdPrice / (10_000 / whole)]).toEqual([String(decimals), expect.closeTo(1, 12)]);
    }
    const token = await newToken(anvil, 36);
    await createPool(anvil, uni3, { tokenA: token, amountA: 10n ** 36n, tokenB: weth, amountB: 5n * ETHER });
    const record = await ask(prices, token);
    expect(record.usdPrice).toBeCloseTo(10_000, 3);
    expect(record.usdPriceFormatted).not.toContain("e");
    // More than the 127 bits that amounts of Uniswap v4 have.
    const cheap = await newToken(anvil, 36);
    await createPool(anvil, uni3, { tokenA: cheap, amountA: 10n ** 42n, tokenB: weth, amountB: 50n * ETHER });
    const { depth } = await ask(prices, cheap, { include: "depth" });
    // A hundredth of the pool, a two-thousandth of the coin's, and their fees.
    expect(Number(depth!.sell)).toBeCloseTo(986, 0);
    expect(Number(depth!.buy)).toBeCloseTo(9_861.5, -1);
  });

  test("finds a pool of any v3 fee tier", async () => {
    for (const fee of uni3.fees) {
      const token = await newToken(anvil);
      const amounts = { tokenA: token, amountA: 100n * ETHER, tokenB: dai, amountB: 5_000n * ETHER };
      const { address } = await createV3Pool(anvil, { ...amounts, fee });
      const { provenance, usdPrice } = await ask(prices, token, { include: "provenance" });
      expect(provenance!.route[0]).toMatchObject({ pool: toAddress(address), fee });
      expect(usdPrice).toBeCloseTo(50, 9);
    }
    expect(uni3.fees).toEqual([100, 500, 3_000, 10_000]);
  });

  test("refuses missing, reverting or absurd decimals with a code of its own", async () => {
    const tokens = [await made("NoDecimalsToken"), await made("MuteDecimalsToken")];
    for (const decimals of [78n, 255n, 256n, 2n ** 255n]) tokens.push(await made("AbsurdDecimalsToken", [decimals]));
    for (const token of tokens) {
      expect(await refusal(prices, token)).toMatchObject({
        code: "unknown_decimals",
        details: { pools: [] },
      });
    }
  });

  test("refuses contracts that are no token, and says so", async () => {
    const listing = (address: string) => `its listing is GET /api/v2/nft/${address}?chain=eth`;
    const delegated = toAddress(`0x${"5d".repeat(20)}`);
    await placeCode(anvil, delegated, `0xef0100${MULTICALL3.slice(2)}`);
    const contract = () => "is a contract without a total supply, so no ERC-20 token";
    const cases: [Address, (address: string) => string][] = [
      [await made("PlainNft", ["N", "N"]), (address) => `is an NFT contract (ERC-721); ${listing(address)}`],
      [await made("MultiToken", ["M", "M", "uri"]), (address) => `is an NFT contract (ERC-1155); ${listing(address)}`],
      [toAddress(anvil.accounts[4]!), () => "is an account without code"],
      [delegated, () => "is an account without code"],
      [await made("PriceFeed"), contract],
      [uni3.factory, contract],
      [MULTICALL3, contract],
    ];
    for (const [address, what] of cases) {
      const message = `${address} ${what(address)}`;
      expect(await refusal(prices, address)).toMatchObject({ code: "not_a_token", message });
      expect(await refusal(prices, address, { to_block: "1" })).toMatchObject({ code: "not_a_token", message });
    }
  });

  test("prices a contract of NFTs that is a token, too, if it has a pool", async () => {
    const token = await made("HybridToken");
    const message = `${token} is an NFT contract (ERC-721); its listing is GET /api/v2/nft/${token}?chain=eth`;
    expect(await refusal(prices, token)).toMatchObject({ code: "not_a_token", message });
    expect(await refusal(prices, token, { exchange: "uniswapv3" })).toMatchObject({ code: "not_a_token", message });
    const before = Number(await anvil.send("eth_blockNumber"));
    await withEther(token, 10n * ETHER);
    expect(await ask(prices, token)).toMatchObject({ tokenName: "Hybrid", tokenDecimals: "18", usdPrice: 1_000 });
    expect(await refusal(prices, token, { exchange: "uniswapv3" })).toMatchObject({ code: "no_pool" });
    expect(await refusal(prices, token, { to_block: String(before) })).toMatchObject({ code: "no_price_at_block" });
  });

  test("prices a token with a transfer fee by the amount that arrived", async () => {
    const token = await made("FeeToken", ["Fee", "FEE", 1_000]);
    const pool = await withEther(token, 1_000n * ETHER);
    const contract = contractAt(anvil, token, (await contractArtifact("FeeToken")).abi);
    await transact(anvil, contract, "mint", [anvil.accounts[0], 100n * ETHER]);
    await transact(anvil, contract, "transfer", [pool.address, 100n * ETHER]);
    await transact(anvil, contractAt(anvil, pool.address, V2_PAIR_ABI), "sync");
    expect((await ask(prices, token)).usdPrice).toBe(10_000 / 1_090);
  });

  test("counts only the real balance of a token if balances shrink without an event", async () => {
    const token = await made("RebasingToken");
    await withEther(token, 1_000n * ETHER);
    const before = await ask(prices, token, { include: "provenance" });
    expect(before.provenance!.liquidityUsd).toBe("10000");
    await transact(anvil, contractAt(anvil, token, (await contractArtifact("RebasingToken")).abi), "rebase", [10]);
    const after = await ask(prices, token, { include: "provenance" });
    expect(after.usdPrice).toBe(10);
    expect(after.provenance!.liquidityUsd).toBe("1000");
    await transact(anvil, contractAt(anvil, token, (await contractArtifact("RebasingToken")).abi), "rebase", [1]);
    expect(await refusal(prices, token)).toMatchObject({
      code: "low_liquidity",
      details: { pools: [{ reason: "low_liquidity", liquidityUsd: "100", minLiquidityUsd: "500" }] },
    });
  });

  test("prices a proxy like its token", async () => {
    const { abi } = await contractArtifact("TestToken");
    const implementation = await newToken(anvil);
    const call = new Interface(abi as string[]).encodeFunctionData("init", ["Proxied", "PRX", 9]);
    const token = await made("TokenProxy", [implementation, call]);
    await withEther(token, 10n * 10n ** 9n);
    expect(await ask(prices, token)).toMatchObject({ tokenName: "Proxied", tokenDecimals: "9", usdPrice: 1_000 });
  });

  test("gives a listed token its own name and the list's logo, and another token no logo", async () => {
    await createPool(anvil, uni2, { tokenA: wbtc, amountA: 10n ** 9n, tokenB: weth, amountB: 150n * ETHER });
    const listed = { name: "Bitcoin", symbol: "BTC", logo: "https://logos.example/wbtc.png" };
    const found = (_chainId: number, address: Address) => (address === wbtc ? listed : undefined);
    expect(await ask(pricesOf(anvil.url, unfollowed, eth, found), wbtc)).toMatchObject({
      tokenName: "Wrapped BTC",
      tokenSymbol: "WBTC",
      tokenLogo: listed.logo,
      usdPrice: 30_000,
    });
    const token = await newToken(anvil);
    await withEther(token, 10n * ETHER);
    expect(await ask(prices, token)).toMatchObject({ tokenName: "Demo", tokenSymbol: "DEMO", tokenLogo: "" });
  });

  test("names the exchange of the first pool for a route over a connector", async () => {
    const token = await newToken(anvil);
    const sushi = exchangesOf(eth).find((entry) => entry.exchange.realName === "sushiswapv2")!;
    await createPool(anvil, sushi, { tokenA: token, amountA: 100n * ETHER, tokenB: wbtc, amountB: 10n ** 8n });
    const record = await ask(pricesOf(anvil.url), token, { include: "provenance" });
    expect(record).toMatchObject({ usdPrice: 300, exchangeName: "Sushiswap v2", exchangeAddress: sushi.factory });
    expect(record.provenance!.route.map((leg) => leg.exchange)).toEqual(["Sushiswap v2", "Uniswap v2", "Uniswap v2"]);
  });

  test("prices the wrapped native coin and each stablecoin, uses a depegged one's real price, and does not quote in it", async () => {
    const lone = await ask(prices, usdc, { include: "provenance" });
    expect(lone).toMatchObject({ usdPrice: 1, nativePrice: { value: String(ETHER / 2_000n) } });
    expect(lone.provenance).toMatchObject({ confidence: "0", route: [] });
    expect(await ask(prices, weth)).toMatchObject({ usdPrice: 2_000, nativePrice: { value: String(ETHER) } });
    await createPool(anvil, uni2, { tokenA: usdt, amountA: 1_001_000n * USD, tokenB: usdc, amountB: 1_000_000n * USD });
    await createPool(anvil, uni2, { tokenA: dai, amountA: 900_000n * ETHER, tokenB: weth, amountB: 360n * ETHER });
    const token = await newToken(anvil);
    const quoted = await createPool(anvil, uni2, {
      tokenA: token,
      amountA: 1_000n * ETHER,
      tokenB: dai,
      amountB: 5_000n * ETHER,
    });
    const fresh = pricesOf(anvil.url);
    expect((await ask(fresh, usdt)).usdPrice).toBe(1_000 / 1_001);
    expect((await ask(fresh, usdc)).usdPrice).toBe(1.001);
    expect((await ask(fresh, dai)).usdPrice).toBe(0.8);
    expect((await ask(fresh, weth)).usdPrice).toBe(2_000);
    // A token that trades only against the depegged coin is priced through its real price.
    expect((await ask(fresh, token)).usdPrice).toBe(4);
    expect(await refusal(fresh, token, { min_liquidity_usd: "5000" })).toMatchObject({
      code: "low_liquidity",
      details: {
        pools: [
          { pool: toAddress(quoted.address), reason: "quote_depegged", quote: dai, quoteUsd: "0.8" },
          { pool: toAddress(quoted.address), reason: "low_liquidity", liquidityUsd: "4000", minLiquidityUsd: "5000" },
        ],
      },
    });
  });
});
