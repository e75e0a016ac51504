/**
 * The twelve exchanges on each of their chains, with real Uniswap bytecode at their factories. Each answers under each
 * of its names and by its factory with the price of its own pool, recomputed here from the pool's state.
 */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { getAddress } from "ethers";
import type { Anvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeV3Factory, queueFeeTiers } from "../../scripts/local-chain/mainnet.ts";
import type { Pool } from "../../scripts/local-chain/pools.ts";
import { CHAINS, type Chain } from "../../src/chains/chains.ts";
import { DEPLOYMENTS, type Deployment, EXCHANGES, exchangesOf, knownExchanges } from "../../src/chains/exchanges.ts";
import { type Address, toAddress } from "../../src/core/hex.ts";
import type { Prices } from "../../src/prices/price-service.ts";
import { pricesOf, unfollowed } from "../support/prices/anvil.ts";
import { createPool, newToken, placesOf, placeV2Factory, priceIn, startChain } from "../support/prices/exchanges.ts";
import { parsePriceQuery, type RawPriceQuery } from "../support/prices/query.ts";

// Real components on shared machines need more than the runner's default timeout of 5 s.
setDefaultTimeout(300_000);

const ETHER = 10n ** 18n;

const ask = (prices: Prices, address: Address, query: RawPriceQuery = {}) =>
  prices.price({ address, ...parsePriceQuery(query) });

const refusal = (
  prices: Prices,
  address: Address,
  query: RawPriceQuery,
): Promise<{ status: number; code: string; message: string }> =>
  ask(prices, address, query).then(
    () => {
      throw new Error("the request should have been refused");
    },
    (error) => error,
  );

/** Makes a pool with the native coin at 1,000 of the chain's first stablecoin, much deeper than any of the token's. */
async function makeDollar(anvil: Anvil, chain: Chain): Promise<void> {
  const coin = chain.stablecoins.find((entry) => entry.pegLostAt === undefined);
  const amounts = {
    tokenA: chain.wrappedNative.address,
    amountA: 100_000n * ETHER,
    tokenB: coin!.address,
    amountB: 100_000_000n * 10n ** BigInt(coin!.decimals),
  };
  await createPool(anvil, placesOf(chain)[0]!, amounts);
}

/** Every spelling of an exchange's name. */
function spellings({ standin, realName, displayName }: (typeof EXCHANGES)[number]): string[] {
  const spaced = realName.replace(/v(\d)$/, " v$1");
  const names = [standin, standin.toUpperCase(), standin.replace("_", "-"), standin.replace("_", "")];
  names.push(realName, realName.toUpperCase(), spaced, spaced.replace(" ", "_"), spaced.replace(" ", "-"));
  if (displayName !== "VVS Finance") names.push(displayName);
  return [...new Set(names)];
}

for (const chain of CHAINS.filter((entry) => placesOf(entry).length > 0 && entry.stablecoins.length > 0)) {
  test(`on ${chain.name} prices a token by each exchange's names and by its factory`, async () => {
    const anvil = await startChain(chain);
    try {
      await makeDollar(anvil, chain);
      const token = await newToken(anvil);
      const places = placesOf(chain);
      const pools = new Map<Address, Pool>();
      for (const [index, place] of places.entries()) {
        const amounts = {
          tokenA: chain.wrappedNative.address,
          amountA: (50n + BigInt(index)) * ETHER,
          tokenB: token,
          amountB: 777n * ETHER,
        };
        pools.set(place.factory, await createPool(anvil, place, amounts));
      }
      const prices = pricesOf(anvil.url, unfollowed, chain);
      for (const { exchange, factory } of DEPLOYMENTS.filter(
        (entry) => entry.chain === chain.name && pools.has(entry.factory),
      )) {
        const { n, d } = await priceIn(anvil, pools.get(factory)!, token);
        const first = places.find((entry) => entry.factory === factory)!.exchange.displayName;
        const expected = { nativePrice: { value: ((n * ETHER) / d).toString() }, exchangeAddress: factory };
        for (const name of spellings(exchange)) {
          expect(await ask(prices, token, { exchange: name })).toMatchObject({
            ...expected,
            exchangeName: exchange.displayName,
          });
        }
        for (const text of [factory, getAddress(factory), `0x${factory.slice(2).toUpperCase()}`]) {
          expect(await ask(prices, token, { exchange: text })).toMatchObject({ ...expected, exchangeName: first });
        }
      }
      // The default is the deepest pool, which was made last.
      const { exchange, factory } = places.at(-1)!;
      expect(await ask(prices, token)).toMatchObject({ exchangeAddress: factory, exchangeName: exchange.displayName });
      for (const exchange of EXCHANGES) {
        if (DEPLOYMENTS.some((entry) => entry.exchange === exchange && entry.chain === chain.name)) continue;
        const { code, message } = await refusal(prices, token, { exchange: exchange.standin });
        expect(code).toBe("invalid_parameter");
        expect(message).toStartWith(`exchange: ${exchange.realName} is not on ${chain.name}; there are `);
      }
    } finally {
      await anvil.stop();
    }
  });
}

test("refuses a dollar on a chain without a stablecoin, and tells the native price and every pool", async () => {
  for (const name of ["mumbai"]) {
    const chain = CHAINS.find((entry) => entry.name === name)!;
    const anvil = await startChain(chain);
    const token = await newToken(anvil);
    const native = chain.wrappedNative.address;
    const pools: { pool: string; exchange: string; reason: string; quote: string }[] = [];
    for (const place of placesOf(chain)) {
      const amounts = { tokenA: native, amountA: 50n * ETHER, tokenB: token, amountB: 777n * ETHER };
      const { address } = await createPool(anvil, place, amounts);
      pools.push({
        pool: toAddress(address),
        exchange: place.exchange.displayName,
        reason: "no_usd_price_of_quote",
        quote: native,
      });
    }
    const refused = await refusal(pricesOf(anvil.url, unfollowed, chain), token, {});
    const value = ((50n * ETHER * ETHER) / (777n * ETHER)).toString();
    expect(refused).toMatchObject({ code: "no_dollar", details: { nativePrice: { value, symbol: "MATIC" }, pools } });
    await anvil.stop();
  }
});

describe("an unlisted factory", () => {
  const eth = CHAINS[0]!;
  const places: readonly Pick<Deployment, "style" | "factory">[] = [
    { style: "v2", factory: toAddress("0x00000000000000000000000000000000000fac02") },
    { style: "v3", factory: toAddress("0x00000000000000000000000000000000000fac03") },
  ];

  for (const { style, factory } of places) {
    test(`of ${style} style is used only in requests that name it`, async () => {
      const anvil = await startChain(eth);
      try {
        if (style === "v3") {
          await placeV3Factory(anvil, factory);
          await queueFeeTiers(anvil, factory);
        } else await placeV2Factory(anvil, factory);
        await makeDollar(anvil, eth);
        const token = await newToken(anvil);
        const native = eth.wrappedNative.address;
        const amounts = { tokenA: native, amountA: 5n * ETHER, tokenB: token, amountB: 100n * ETHER };
        await createPool(anvil, exchangesOf(eth)[0]!, amounts);
        const block = Number(await anvil.send("eth_blockNumber"));
        const pool = await createPool(
          anvil,
          { style, factory },
          { ...amounts, amountA: 10_000n * ETHER, amountB: 10n * ETHER },
        );
        const prices = pricesOf(anvil.url);
        const usual = await ask(prices, token);
        expect(usual).toMatchObject({ usdPrice: 50, exchangeName: "Uniswap v2" });
        const { n, d } = await priceIn(anvil, pool, token);
        const named = {
          exchangeAddress: factory,
          exchangeName: factory,
          nativePrice: { value: ((n * ETHER) / d).toString() },
        };
        for (let round = 0; round < 2; round++) {
          expect(await ask(prices, token, { exchange: factory })).toMatchObject(named);
          expect(await ask(prices, token)).toEqual(usual);
          expect(await ask(prices, token, { exchange: MAINNET.uniswapV2Factory })).toMatchObject({ usdPrice: 50 });
        }
        expect(await refusal(prices, token, { exchange: factory, to_block: String(block) })).toMatchObject({
          code: "no_price_at_block",
        });
        // The spread compares the exchange's own pools too.
        const { provenance } = await ask(prices, token, { exchange: factory, include: "provenance" });
        expect(provenance).toMatchObject({
          spreadPercent: "0",
          route: [{ exchange: factory }, { exchange: "Uniswap v2" }],
        });
      } finally {
        await anvil.stop();
      }
    });
  }

  test("that returns a pool of another exchange for other tokens is not trusted, now or at past blocks", async () => {
    const anvil = await startChain(eth);
    try {
      await makeDollar(anvil, eth);
      const token = await newToken(anvil);
      const { address, abi } = {
        ...(await deploy(anvil, await contractArtifact("ForkedV2Factory"))),
        ...(await contractArtifact("ForkedV2Factory")),
      };
      const pair = [token, eth.wrappedNative.address].sort();
      const dollar = "0xb4e16d0168e52d35cacd2c6185b44281ec28c9dc";
      const factory = contractAt(anvil, address, abi);
      await transact(anvil, factory, "register", [...pair, dollar]);
      await transact(anvil, factory, "register", [MAINNET.usdc, MAINNET.weth, dollar]);
      const block = Number(await anvil.send("eth_blockNumber"));
      await anvil.mine();
      const prices = pricesOf(anvil.url);
      const before = await ask(prices, eth.wrappedNative.address, { include: "provenance" });
      for (const asked of [token, eth.wrappedNative.address]) {
        expect(await refusal(prices, asked, { exchange: address })).toMatchObject({ code: "no_pool" });
        const then = { exchange: address, to_block: String(block) };
        expect(await refusal(prices, asked, then)).toMatchObject({ code: "no_pool" });
      }
      expect(await ask(prices, eth.wrappedNative.address, { include: "provenance" })).toEqual(before);
      expect(before).toMatchObject({ exchangeName: "Uniswap v2" });
    } finally {
      await anvil.stop();
    }
  });

  test("that is no factory is refused with the list of known exchanges", async () => {
    const anvil = await startChain(eth);
    const prices = pricesOf(anvil.url);
    const token = await newToken(anvil);
    for (const exchange of [anvil.accounts[5]!, MAINNET.usdc]) {
      const { code, message } = await refusal(prices, token, { exchange });
      expect(code).toBe("invalid_parameter");
      expect(message).toStartWith(`exchange: one of ${knownExchanges(CHAINS).join(", ")}`);
    }
    await anvil.stop();
  });
});
