/**
 * Exchanges of every style on anvil, from the bytecode of their packages or from their sources compiled here; and pools
 * in them that can be moved at random and tell their own state by their own ABI.
 */

import algebraFactory from "@cryptoalgebra/core/artifacts/contracts/AlgebraFactory.sol/AlgebraFactory.json";
import algebraPool from "@cryptoalgebra/core/artifacts/contracts/AlgebraPool.sol/AlgebraPool.json";
import algebraDeployer from "@cryptoalgebra/core/artifacts/contracts/AlgebraPoolDeployer.sol/AlgebraPoolDeployer.json";
import integralFactory from "@cryptoalgebra/integral-core/artifacts/contracts/AlgebraFactory.sol/AlgebraFactory.json";
import integralPool from "@cryptoalgebra/integral-core/artifacts/contracts/AlgebraPool.sol/AlgebraPool.json";
import integralDeployer from "@cryptoalgebra/integral-core/artifacts/contracts/AlgebraPoolDeployer.sol/AlgebraPoolDeployer.json";
import integral125Factory from "@cryptoalgebra/integral-core-1.2.5/artifacts/contracts/AlgebraFactory.sol/AlgebraFactory.json";
import integral125Pool from "@cryptoalgebra/integral-core-1.2.5/artifacts/contracts/AlgebraPool.sol/AlgebraPool.json";
import integral125Deployer from "@cryptoalgebra/integral-core-1.2.5/artifacts/contracts/AlgebraPoolDeployer.sol/AlgebraPoolDeployer.json";
import pancakeFactory from "@pancakeswap/v3-core/artifacts/contracts/PancakeV3Factory.sol/PancakeV3Factory.json";
import pancakePool from "@pancakeswap/v3-core/artifacts/contracts/PancakeV3Pool.sol/PancakeV3Pool.json";
import uniswapFactory from "@uniswap/v3-core/artifacts/contracts/UniswapV3Factory.sol/UniswapV3Factory.json";
import uniswapPool from "@uniswap/v3-core/artifacts/contracts/UniswapV3Pool.sol/UniswapV3Pool.json";
import poolManager from "@uniswap/v4-core/out/PoolManager.sol/PoolManager.json";
import liquidityRouter from "@uniswap/v4-core/out/PoolModifyLiquidityTest.sol/PoolModifyLiquidityTest.json";
import swapRouter from "@uniswap/v4-core/out/PoolSwapTest.sol/PoolSwapTest.json";
import { AbiCoder, type Contract, getCreate2Address, getCreateAddress, type InterfaceAbi, keccak256 } from "ethers";
import { type Anvil, quantity } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import {
  contractAt,
  type Deployable,
  type Deployed,
  deploy,
  placeCode,
  read,
  transact,
} from "../../../scripts/local-chain/contracts.ts";
import type { Random } from "../../../scripts/local-chain/random.ts";
import type { PoolStyle } from "../../../src/chains/exchanges.ts";
import { type Address, toAddress, ZERO_ADDRESS } from "../../../src/core/hex.ts";
import type { PoolId, Reading } from "../../../src/prices/market/pools.ts";
import type { Venue } from "../../../src/prices/styles/style.ts";

export interface MadePool {
  readonly id: PoolId;
  readonly token0: Address;
  readonly token1: Address;
  /** Swaps, adds or removes a random amount. */
  move(random: Random): Promise<void>;
  /** Puts so much liquidity in a range of ticks; for concentrated pools. */
  mint(lower: number, upper: number, liquidity: bigint): Promise<void>;
  /** Sells a token into the pool. */
  sell(token: Address, amount: bigint): Promise<void>;
  /** The state, by the contract's own ABI. */
  truth(): Promise<Reading>;
}

export interface PoolWish {
  readonly tokenA: Address;
  readonly tokenB: Address;
  /** Raw units of B for one raw unit of A, as a fraction. */
  readonly price?: readonly [bigint, bigint];
  /** Of a position over all prices; for pairs the root of the reserves' product. */
  readonly liquidity?: bigint;
  readonly stable?: boolean;
  /** Another fee than usual, or the spacing of a pool that is named by it; for v3 and Slipstream. */
  readonly tier?: { readonly named: number; readonly spacing: number };
}

export interface MadeExchange {
  readonly venue: Venue;
  create(wish: PoolWish): Promise<MadePool>;
}

type MakeExchange = (anvil: Anvil, wrapped: Address) => Promise<MadeExchange>;

const MAX_TICK = 887_272;
const [LOWEST, HIGHEST] = [4295128740n, 1461446703485210103287273052203988822378723970341n];
const MUCH = 10n ** 60n;
export const SOME_LIQUIDITY = 10n ** 24n;

const venue = (style: PoolStyle, factory: string, wrapped: Address, settings: Partial<Venue> = {}): Venue => ({
  ...{ name: style, rank: 0, style, factory: toAddress(factory), fees: [], spacings: [], wrapped },
  ...settings,
});

function squareRoot(value: bigint): bigint {
  let root = 1n << BigInt(Math.ceil(value.toString(2).length / 2));
  for (let next = (root + value / root) >> 1n; next < root; next = (root + value / root) >> 1n) root = next;
  return root;
}

const inOrder = ({ tokenA, tokenB, price: [n, d] = [1n, 1n] }: PoolWish) => {
  const isFirst = tokenA < tokenB;
  const [token0, token1] = isFirst ? [tokenA, tokenB] : [tokenB, tokenA];
  const [over, under] = isFirst ? [n, d] : [d, n];
  return { token0, token1, sqrtPriceX96: squareRoot((over << 192n) / under) };
};

const testToken = async (anvil: Anvil, token: string) =>
  contractAt(anvil, token, (await contractArtifact("TestToken")).abi);

const give = async (anvil: Anvil, token: string, to: string, amount: bigint) =>
  transact(anvil, await testToken(anvil, token), "mint", [to, amount]);

/** How a kind of concentrated pool is called. */
interface Concentrated {
  readonly style: PoolStyle;
  readonly pool: InterfaceAbi;
  readonly slot: "slot0" | "globalState";
  readonly spacing: number;
  /** Arguments of `mint` and `burn` before and after the common ones. */
  readonly mint: (caller: string) => readonly unknown[];
  readonly burn: readonly unknown[];
  readonly settings?: Partial<Venue>;
  /** Makes a pool and returns its address. */
  readonly make: (
    token0: Address,
    token1: Address,
    sqrtPriceX96: bigint,
    named: number | undefined,
  ) => Promise<{ readonly address: string; readonly isInitialized: boolean }>;
}

async function concentrated(anvil: Anvil, factory: string, wrapped: Address, how: Concentrated): Promise<MadeExchange> {
  const caller = await deploy(anvil, await contractArtifact("PoolCaller"));
  const run = async (pool: Contract, method: string, args: readonly unknown[]) => {
    const data = pool.interface.encodeFunctionData(method, args);
    await transact(anvil, caller.contract, "run", [await pool.getAddress(), data]);
  };
  return {
    venue: venue(how.style, factory, wrapped, how.settings),
    async create(wish) {
      const { token0, token1, sqrtPriceX96 } = inOrder(wish);
      const { address, isInitialized } = await how.make(token0, token1, sqrtPriceX96, wish.tier?.named);
      const spacing = wish.tier?.spacing ?? how.spacing;
      const pool = contractAt(anvil, address, how.pool);
      if (!isInitialized) await transact(anvil, pool, "initialize", [sqrtPriceX96]);
      for (const token of [token0, token1]) await give(anvil, token, caller.address, MUCH);
      const edge = Math.floor(MAX_TICK / spacing) * spacing;
      const mint = (lower: number, upper: number, liquidity: bigint) =>
        run(pool, "mint", [...how.mint(caller.address), lower, upper, liquidity, "0x"]);
      const burn = (lower: number, upper: number, liquidity: bigint) =>
        run(pool, how.burn.length === 0 ? "burn(int24,int24,uint128)" : "burn", [lower, upper, liquidity, ...how.burn]);
      const sell = (token: Address, amount: bigint) => {
        const isFirst = token === token0;
        return run(pool, "swap", [caller.address, isFirst, amount, isFirst ? LOWEST : HIGHEST, "0x"]);
      };
      const truth = async (): Promise<Reading> => {
        const [slot, liquidity] = [await read<bigint[]>(pool, how.slot), await read<bigint>(pool, "liquidity")];
        return { style: "v3", sqrtPriceX96: BigInt(slot[0]!), liquidity: BigInt(liquidity), tick: Number(slot[1]!) };
      };
      const { liquidity = SOME_LIQUIDITY } = wish;
      if (liquidity > 0n) await mint(-edge, edge, liquidity);
      const minted: [number, number, bigint][] = [];
      return {
        ...{ id: toAddress(address), token0, token1, mint, sell, truth },
        move: (random) => moveConcentrated(random, spacing, { mint, burn, sell, truth, minted, token0, token1 }),
      };
    },
  };
}

interface Moved {
  readonly mint: MadePool["mint"];
  readonly burn: MadePool["mint"];
  readonly sell: MadePool["sell"];
  readonly truth: MadePool["truth"];
  readonly minted: [number, number, bigint][];
  readonly token0: Address;
  readonly token1: Address;
}

async function moveConcentrated(random: Random, spacing: number, pool: Moved): Promise<void> {
  const kind = random.below(10);
  const position = pool.minted[random.below(pool.minted.length)];
  if (kind < 2 && position !== undefined) {
    pool.minted.splice(pool.minted.indexOf(position), 1);
    return pool.burn(...position);
  }
  if (kind < 4) {
    const now = await pool.truth();
    const tick = now.style === "v3" ? now.tick : 0;
    const middle = Math.floor(tick / spacing) + random.below(41) - 20;
    const [lower, upper] = [(middle - 1 - random.below(30)) * spacing, (middle + 1 + random.below(30)) * spacing];
    const made: [number, number, bigint] = [lower, upper, 10n ** BigInt(20 + random.below(5))];
    pool.minted.push(made);
    return pool.mint(...made);
  }
  return pool.sell(
    random.pick([pool.token0, pool.token1]),
    10n ** BigInt(15 + random.below(9)) * BigInt(1 + random.below(9)),
  );
}

const uniswapLike =
  (
    how: Omit<Concentrated, "make" | "mint" | "burn" | "slot" | "spacing">,
    factoryOf: (anvil: Anvil) => Promise<Contract>,
  ): MakeExchange =>
  async (anvil, wrapped) => {
    const factory = await factoryOf(anvil);
    return concentrated(anvil, await factory.getAddress(), wrapped, {
      ...{ ...how, slot: "slot0", spacing: 10, mint: (caller) => [caller], burn: [] },
      make: async (token0, token1, _price, fee = 500) => {
        await transact(anvil, factory, "createPool", [token0, token1, fee]);
        return { address: await read<string>(factory, "getPool", [token0, token1, fee]), isInitialized: false };
      },
    });
  };

const uniswapV3 = uniswapLike(
  { style: "v3", pool: uniswapPool.abi, settings: { fees: [100, 500, 3000, 10_000] } },
  async (anvil) => (await deploy(anvil, uniswapFactory)).contract,
);

const pancakeV3 = uniswapLike(
  { style: "v3", pool: pancakePool.abi, settings: { fees: [100, 500, 2500, 10_000] } },
  async (anvil) => {
    const deployer = await deploy(anvil, await contractArtifact("PancakeDeployer"), [pancakePool.bytecode]);
    return (await deploy(anvil, pancakeFactory, [deployer.address])).contract;
  },
);

const slipstream: MakeExchange = async (anvil, wrapped) => {
  const zero = await deploy(anvil, await contractArtifact("ZeroAnswers"));
  const implementation = await deploy(anvil, await contractArtifact("SlipstreamPool"));
  const built = await contractArtifact("SlipstreamFactory");
  const { contract: factory, address } = await deploy(anvil, built, [
    zero.address,
    zero.address,
    implementation.address,
  ]);
  return concentrated(anvil, address, wrapped, {
    ...{ style: "slipstream", pool: (await contractArtifact("SlipstreamPool")).abi, slot: "slot0", spacing: 50 },
    ...{ mint: (caller) => [caller], burn: [], settings: { spacings: [1, 50, 100, 200, 2000] } },
    make: async (token0, token1, sqrtPriceX96, spacing = 50) => {
      await transact(anvil, factory, "createPool", [token0, token1, spacing, sqrtPriceX96]);
      return { address: await read<string>(factory, "getPool", [token0, token1, spacing]), isInitialized: true };
    },
  });
};

/** Of the released pool's creation code, as the factory has it (Algebra 1.0 and 1.1). */
const ALGEBRA_POOL_HASH = "0x6ec6c9c8091d160c0aa74b2b14ba9c1717e95093bd3ac085cee99a49aab294a4";

const algebraV1: MakeExchange = async (anvil, wrapped) => {
  const deployer = await deploy(anvil, algebraDeployer);
  const { contract: factory, address } = await deploy(anvil, algebraFactory, [deployer.address, anvil.accounts[5]]);
  await transact(anvil, deployer.contract, "setFactory", [address]);
  return concentrated(anvil, address, wrapped, {
    ...{ style: "algebra-v1", pool: algebraPool.abi, slot: "globalState", spacing: 60 },
    ...{ mint: (caller) => [caller, caller], burn: [] },
    make: async (token0, token1) => {
      await transact(anvil, factory, "createPool", [token0, token1]);
      const made = await read<string>(factory, "poolByPair", [token0, token1]);
      // The package's build has other creation code than the released one, by whose hash the factory names the pool to
      // the contract with its observations.
      const observer = await read<string>(contractAt(anvil, made, algebraPool.abi), "dataStorageOperator");
      const salt = keccak256(AbiCoder.defaultAbiCoder().encode(["address", "address"], [token0, token1]));
      const named = getCreate2Address(deployer.address, salt, ALGEBRA_POOL_HASH).slice(2).toLowerCase();
      const code = (await anvil.send("eth_getCode", [observer, "latest"])) as string;
      await placeCode(anvil, observer, code.replaceAll(named, made.slice(2).toLowerCase()));
      return { address: made, isInitialized: false };
    },
  });
};

const integral =
  (built: { readonly factory: Deployable; readonly deployer: Deployable; readonly pool: InterfaceAbi }): MakeExchange =>
  async (anvil, wrapped) => {
    const [maker = ""] = anvil.accounts;
    const nonce = Number(await anvil.send("eth_getTransactionCount", [maker, "latest"]));
    // Each of the two names the other in its constructor.
    const deployer = await deploy(anvil, built.deployer, [getCreateAddress({ from: maker, nonce: nonce + 1 })]);
    const { contract: factory, address } = await deploy(anvil, built.factory, [deployer.address]);
    return concentrated(anvil, address, wrapped, {
      ...{ style: "algebra-integral", pool: built.pool, slot: "globalState", spacing: 60 },
      ...{ mint: (caller) => [caller, caller], burn: ["0x"] },
      make: async (token0, token1) => {
        await transact(anvil, factory, "createPool", [token0, token1, "0x"]);
        return { address: await read<string>(factory, "poolByPair", [token0, token1]), isInitialized: false };
      },
    });
  };

/** Both versions of Solidly, with the pair of the second one. */
const solidly =
  (style: "solidly-v1" | "solidly-v2"): MakeExchange =>
  async (anvil, wrapped) => {
    const isFirst = style === "solidly-v1";
    const implementation = await deploy(anvil, await contractArtifact("SolidlyPair"));
    const built = await contractArtifact(isFirst ? "SolidlyV1Factory" : "SolidlyFactory");
    const { contract: factory, address } = await deploy(anvil, built, [implementation.address]);
    return {
      venue: venue(style, address, wrapped, { fees: isFirst ? [3000] : [] }),
      async create(wish) {
        const { token0, token1, sqrtPriceX96 } = inOrder(wish);
        const { liquidity = SOME_LIQUIDITY, stable = false } = wish;
        await transact(anvil, factory, isFirst ? "createPair" : "createPool(address,address,bool)", [
          token0,
          token1,
          stable,
        ]);
        const id = toAddress(
          await read<string>(factory, isFirst ? "getPair" : "getPool(address,address,bool)", [token0, token1, stable]),
        );
        const pair = contractAt(anvil, id, (await contractArtifact("SolidlyPair")).abi);
        const add = async (amount0: bigint, amount1: bigint) => {
          await give(anvil, token0, id, amount0);
          await give(anvil, token1, id, amount1);
          await transact(anvil, pair, "mint", [anvil.accounts[0]]);
        };
        const sell = async (token: Address, amount: bigint) => {
          await give(anvil, token, id, amount);
          const out = await read<bigint>(pair, "getAmountOut", [amount, token]);
          await transact(anvil, pair, "swap", [...(token === token0 ? [0n, out] : [out, 0n]), anvil.accounts[0], "0x"]);
        };
        const truth = async (): Promise<Reading> => {
          const [reserve0, reserve1] = await read<[bigint, bigint]>(pair, "getReserves");
          return { style: "v2", reserve0, reserve1 };
        };
        if (liquidity > 0n) await add((liquidity << 96n) / sqrtPriceX96, (liquidity * sqrtPriceX96) >> 96n);
        return {
          ...{ id, token0, token1, sell, truth },
          mint: () => Promise.reject(new Error("a pair has no ticks")),
          async move(random) {
            const now = await truth();
            if (now.style !== "v2") return;
            const part = BigInt(2 + random.below(1000));
            if (random.below(5) === 0) return add(now.reserve0 / part + 1n, now.reserve1 / part + 1n);
            const isZero = random.below(2) === 0;
            await sell(isZero ? token0 : token1, (isZero ? now.reserve0 : now.reserve1) / part + 1_000n);
          },
        };
      },
    };
  };

export interface V4Wish extends PoolWish {
  readonly fee?: number;
  readonly spacing?: number;
  readonly hooks?: string;
  /** True for a pool of the wrapped coin as a token. */
  readonly isWrapped?: boolean;
}

export interface MadeManager extends MadeExchange {
  readonly manager: Deployed;
  create(wish: V4Wish): Promise<MadePool>;
}

/** Uniswap v4. A pool with the wrapped coin is one with the coin itself, unless `isWrapped` is set. */
export async function uniswapV4(anvil: Anvil, wrapped: Address): Promise<MadeManager> {
  const [maker = ""] = anvil.accounts;
  const code = (built: { readonly abi: unknown; readonly bytecode: { readonly object: string } }): Deployable => ({
    abi: built.abi as InterfaceAbi,
    bytecode: built.bytecode.object,
  });
  const manager = await deploy(anvil, code(poolManager), [maker]);
  const positions = await deploy(anvil, code(liquidityRouter), [manager.address]);
  const trades = await deploy(anvil, code(swapRouter), [manager.address]);
  return {
    venue: venue("v4", manager.address, wrapped),
    manager,
    async create(wish) {
      const { fee = 500, spacing = 10, hooks = ZERO_ADDRESS } = wish;
      const hasCoin = wish.isWrapped !== true;
      const coin = (token: Address): Address => (token === wrapped && hasCoin ? ZERO_ADDRESS : token);
      const { token0, token1, sqrtPriceX96 } = inOrder({
        ...wish,
        tokenA: coin(wish.tokenA),
        tokenB: coin(wish.tokenB),
      });
      const key = [token0, token1, fee, spacing, hooks];
      const types = ["address", "address", "uint24", "int24", "address"];
      const id = keccak256(AbiCoder.defaultAbiCoder().encode(types, key)) as PoolId;
      await transact(anvil, manager.contract, "initialize", [key, sqrtPriceX96]);
      for (const token of [token0, token1]) {
        if (token === ZERO_ADDRESS) continue;
        await give(anvil, token, maker, MUCH);
        for (const { address } of [positions, trades])
          await transact(anvil, await testToken(anvil, token), "approve", [address, MUCH]);
      }
      const value = token0 === ZERO_ADDRESS ? 10n ** 24n : 0n;
      if (value > 0n) await anvil.send("anvil_setBalance", [maker, quantity(10n ** 30n)]);
      const change = async (lower: number, upper: number, delta: bigint) => {
        const method = "modifyLiquidity((address,address,uint24,int24,address),(int24,int24,int256,bytes32),bytes)";
        const salt = `0x${"0".repeat(64)}`;
        await transact(anvil, positions.contract, method, [key, [lower, upper, delta, salt], "0x"], { value });
      };
      const sell = async (token: Address, amount: bigint) => {
        const isFirst = coin(token) === token0;
        const sent = isFirst ? value : 0n;
        const swap = [isFirst, -amount, isFirst ? LOWEST : HIGHEST];
        await transact(anvil, trades.contract, "swap", [key, swap, [false, false], "0x"], { value: sent });
      };
      const truth = async (): Promise<Reading> => {
        const base = BigInt(keccak256(AbiCoder.defaultAbiCoder().encode(["bytes32", "uint256"], [id, 6])));
        const slot = async (offset: bigint) =>
          BigInt(
            await read<string>(manager.contract, "extsload(bytes32)", [
              `0x${(base + offset).toString(16).padStart(64, "0")}`,
            ]),
          );
        const [slot0, liquidity] = [await slot(0n), await slot(3n)];
        const tick = Number(BigInt.asIntN(24, slot0 >> 160n));
        return { style: "v3", sqrtPriceX96: slot0 & ((1n << 160n) - 1n), liquidity, tick };
      };
      const edge = Math.floor(MAX_TICK / spacing) * spacing;
      const { liquidity = SOME_LIQUIDITY } = wish;
      if (liquidity > 0n) await change(-edge, edge, liquidity);
      const minted: [number, number, bigint][] = [];
      const burn = (lower: number, upper: number, amount: bigint) => change(lower, upper, -amount);
      return {
        ...{ id, token0: token0 === ZERO_ADDRESS ? wrapped : token0, token1, mint: change, sell, truth },
        move: (random) =>
          moveConcentrated(random, spacing, { mint: change, burn, sell, truth, minted, token0, token1 }),
      };
    },
  };
}

/** Every style by name, with the releases whose events or states differ. */
export const EXCHANGES_OF_STYLES: readonly (readonly [name: string, make: MakeExchange])[] = [
  ["Uniswap v3 and SushiSwap v3", uniswapV3],
  ["PancakeSwap v3", pancakeV3],
  ["Slipstream", slipstream],
  ["Algebra 1", algebraV1],
  [
    "Algebra Integral 1.2.10",
    integral({ factory: integralFactory, deployer: integralDeployer, pool: integralPool.abi }),
  ],
  [
    "Algebra Integral 1.2.5",
    integral({ factory: integral125Factory, deployer: integral125Deployer, pool: integral125Pool.abi }),
  ],
  ["Solidly 1", solidly("solidly-v1")],
  ["Solidly 2, as Velodrome and Aerodrome", solidly("solidly-v2")],
  ["Uniswap v4", uniswapV4],
];
