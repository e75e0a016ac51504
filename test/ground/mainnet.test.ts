/**
 * The chain that `placeMainnet` prepares: tokens, Multicall3 and factories answer at their real addresses, and pools
 * created there get the addresses they have on Ethereum mainnet. On top of it, the demo's collections and market.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Interface } from "ethers";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { seedCollections } from "../../scripts/local-chain/collections.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, deploy, read } from "../../scripts/local-chain/contracts.ts";
import { MAINNET, placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { seedMarket } from "../../scripts/local-chain/market.ts";
import {
  createV2Pair,
  createV3Pool,
  removeV3Liquidity,
  swapV2,
  swapV3,
  V2_PAIR_ABI,
  V3_POOL_ABI,
} from "../../scripts/local-chain/pools.ts";

const ETHER = 10n ** 18n;
const DOLLAR = 10n ** 6n;
const USDC_WETH = { tokenA: MAINNET.usdc, tokenB: MAINNET.weth, amountA: 3_000_000n * DOLLAR, amountB: 1_000n * ETHER };

let anvil: Anvil;

beforeAll(async () => {
  anvil = await startAnvil();
  await placeMainnet(anvil);
}, 300_000);
afterAll(async () => await anvil.stop());

test("the tokens return their real names, symbols and decimals", async () => {
  const abi = (await contractArtifact("TestToken")).abi;
  const described = async (address: string) => {
    const token = contractAt(anvil, address, abi);
    return [await read(token, "name"), await read(token, "symbol"), await read(token, "decimals")];
  };
  expect(await described(MAINNET.weth)).toEqual(["Wrapped Ether", "WETH", 18n]);
  expect(await described(MAINNET.usdc)).toEqual(["USD Coin", "USDC", 6n]);
  expect(await described(MAINNET.usdt)).toEqual(["Tether USD", "USDT", 6n]);
  expect(await described(MAINNET.dai)).toEqual(["Dai Stablecoin", "DAI", 18n]);
  expect(await described(MAINNET.wbtc)).toEqual(["Wrapped BTC", "WBTC", 8n]);
});

test("Multicall3 runs several calls and lets some of them fail", async () => {
  const multicall = contractAt(anvil, MAINNET.multicall3, (await contractArtifact("Multicall")).abi);
  const token = new Interface((await contractArtifact("TestToken")).abi);
  const results = await read<[boolean, string][]>(multicall, "aggregate3", [
    [
      [MAINNET.usdc, true, token.encodeFunctionData("decimals")],
      [MAINNET.usdc, true, "0xdeadbeef"],
      [MAINNET.multicall3, false, multicall.interface.encodeFunctionData("getBlockNumber")],
    ],
  ]);
  expect(results.map(([success]) => success)).toEqual([true, false, true]);
  expect(BigInt(results[2]![1])).toBe(BigInt((await anvil.send("eth_blockNumber")) as string));
});

describe("pools get their mainnet addresses", () => {
  test("on Uniswap v2", async () => {
    const { address } = await createV2Pair(anvil, { factory: MAINNET.uniswapV2Factory, ...USDC_WETH });
    expect(address).toBe("0xB4e16d0168e52d35CaCD2c6185b44281Ec28C9Dc");
    const pair = contractAt(anvil, address, V2_PAIR_ABI);
    const out = await swapV2(anvil, { pool: address, tokenIn: MAINNET.weth, amountIn: ETHER });
    expect(Number(out) / 1e6).toBeCloseTo(2988.02, 1);
    const [reserve0, reserve1] = await read<bigint[]>(pair, "getReserves");
    expect([reserve0, reserve1]).toEqual([USDC_WETH.amountA - out, USDC_WETH.amountB + ETHER]);
  });

  test("on forks of Uniswap v2", async () => {
    const sushi = await createV2Pair(anvil, { factory: MAINNET.sushiswapV2Factory, ...USDC_WETH });
    expect(sushi.address).toBe("0x397FF1542f962076d0BFE58eA045FfA2d347ACa0");
    const pair = contractAt(anvil, sushi.address, V2_PAIR_ABI);
    expect(await read<string>(pair, "factory")).toBe(MAINNET.sushiswapV2Factory);
    expect(
      await swapV2(anvil, { pool: sushi.address, tokenIn: MAINNET.usdc, amountIn: 3000n * DOLLAR }),
    ).toBeGreaterThan(0n);
    const pancake = await createV2Pair(anvil, { factory: MAINNET.pancakeswapV2Factory, ...USDC_WETH });
    expect(pancake.address).not.toBe(sushi.address);
  });

  test("on Uniswap v3", async () => {
    const position = await createV3Pool(anvil, { fee: 500, ...USDC_WETH });
    expect(position.address).toBe("0x88e6A0c2dDD26FEEb64F039a2c41296FcB3f5640");
    const pool = contractAt(anvil, position.address, V3_POOL_ABI);
    const etherPrice = async () => {
      const [sqrtPriceX96] = await read<[bigint]>(pool, "slot0");
      return 1e12 / (Number(sqrtPriceX96) / 2 ** 96) ** 2;
    };
    expect(await etherPrice()).toBeCloseTo(3000, 6);
    await swapV3(anvil, { pool: position.address, tokenIn: MAINNET.weth, amountIn: 10n * ETHER });
    expect(await etherPrice()).toBeCloseTo(2940.9, 0);

    const tick = Number((await read<bigint[]>(pool, "slot0"))[1]);
    const narrow = await createV3Pool(anvil, {
      fee: 500,
      ...USDC_WETH,
      ticks: { lower: tick - 600, upper: tick + 600 },
    });
    expect(await read<bigint>(pool, "liquidity")).toBe(position.liquidity + narrow.liquidity);
    await removeV3Liquidity(anvil, narrow);
    expect(await read<bigint>(pool, "liquidity")).toBe(position.liquidity);
  });

  test("exist for every fee tier of Uniswap v3", async () => {
    for (const [fee, address] of [
      [100, "0xE0554a476A092703abdB3Ef35c80e0D76d32939F"],
      [3000, "0x8ad599c3A0ff1De082011EFDDc58f1908eb6e6D8"],
      [10000, "0x7BeA39867e4169DBe237d55C8242a8f2fcDcc387"],
    ] as const) {
      expect((await createV3Pool(anvil, { fee, ...USDC_WETH })).address).toBe(address);
    }
  });

  test("sell a token that keeps a fee on transfer", async () => {
    const fee = await deploy(anvil, await contractArtifact("FeeToken"), ["Fee", "FEE", 100]);
    const { address } = await createV2Pair(anvil, {
      factory: MAINNET.uniswapV2Factory,
      tokenA: fee.address,
      tokenB: MAINNET.weth,
      amountA: 1000n * ETHER,
      amountB: 1000n * ETHER,
    });
    expect(await swapV2(anvil, { pool: address, tokenIn: fee.address, amountIn: ETHER })).toBeGreaterThan(0n);
  });
});

describe("the demo", () => {
  test("leaves its collections with the recorded owners", async () => {
    const { plain, batch, multi } = await seedCollections(anvil);
    for (const { contract, owners } of [plain, batch]) {
      for (const [id, owner] of [...owners].filter((_, at) => at % 10 === 0)) {
        expect((await read<string>(contract, "ownerOf", [id])).toLowerCase()).toBe(owner);
      }
    }
    for (const [id, holders] of multi.balances) {
      const total = [...holders.values()].reduce((sum, amount) => sum + amount, 0n);
      expect(await read<bigint>(multi.contract, "totalSupply(uint256)", [id])).toBe(total);
      const [owner, amount] = [...holders][0] ?? [anvil.accounts[0], 0n];
      expect(await read<bigint>(multi.contract, "balanceOf", [owner, id])).toBe(amount);
    }
    const uri = await read<string>(plain.contract, "tokenURI", [[...plain.owners.keys()][0]]);
    expect(JSON.parse(decodeURIComponent(uri.slice("data:application/json,".length)))).toMatchObject({
      description: "A token of the local demo",
    });
  });

  test("trades on the market for more than 25 hours of chain time", async () => {
    const fresh = await startAnvil({ genesisTimestamp: 1_700_000_000 });
    try {
      await placeMainnet(fresh);
      const { from, to, v2, v3 } = await seedMarket(fresh);
      expect(to - from).toBeGreaterThan(25 * 3600);
      expect([v2.USDC.address, v3.USDC.address]).toEqual([
        "0xB4e16d0168e52d35CaCD2c6185b44281Ec28C9Dc",
        "0x88e6A0c2dDD26FEEb64F039a2c41296FcB3f5640",
      ]);
      const [dollars = 0n, ether = 0n] = await read<bigint[]>(
        contractAt(fresh, v2.USDC.address, V2_PAIR_ABI),
        "getReserves",
      );
      const price = (Number(dollars) * 1e12) / Number(ether);
      expect(price).toBeGreaterThan(3050);
      expect(price).toBeLessThan(4500);
    } finally {
      await fresh.stop();
    }
  });
});
