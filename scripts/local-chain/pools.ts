/**
 * Makes and uses pools of Uniswap v2 (and its forks) and v3 on a chain prepared by `placeMainnet`. Tokens are minted,
 * or wrapped, as needed. Everything resolves once mined. All amounts are raw integers of the token's smallest unit.
 */
import v2Factory from "@uniswap/v2-core/build/UniswapV2Factory.json";
import v2Pair from "@uniswap/v2-core/build/UniswapV2Pair.json";
import weth9 from "@uniswap/v2-periphery/build/WETH9.json";
import v3Factory from "@uniswap/v3-core/artifacts/contracts/UniswapV3Factory.sol/UniswapV3Factory.json";
import v3Pool from "@uniswap/v3-core/artifacts/contracts/UniswapV3Pool.sol/UniswapV3Pool.json";
import { getAddress, getCreate2Address, solidityPackedKeccak256 } from "ethers";
import type { Anvil } from "./anvil.ts";
import { contractArtifact } from "./compile.ts";
import { contractAt, placeCode, placeSlot, read, transact } from "./contracts.ts";
import { MAINNET, V3_OPERATOR } from "./mainnet.ts";

/** ABIs of the packages, for tests that read pools or decode their events. */
export const V2_PAIR_ABI = v2Pair.abi;
export const V3_POOL_ABI = v3Pool.abi;

export interface Pool {
  address: string;
  /** The token with the lower address. */
  token0: string;
  token1: string;
}

export interface V2PairOptions {
  /** One of the three v2 factories of `MAINNET`. */
  factory: string;
  tokenA: string;
  tokenB: string;
  amountA: bigint;
  amountB: bigint;
}

export interface V3PoolOptions {
  /** Default: Uniswap's of `MAINNET`. */
  factory?: string;
  tokenA: string;
  tokenB: string;
  /** Hundredths of a basis point: 100, 500, 3000 or 10000. */
  fee: number;
  /** At most so much of each is put in. Without `sqrtPriceX96` they also say the price: both are worth the same. */
  amountA: bigint;
  amountB: bigint;
  /** Initial price of token0 in token1; read only when the pool is new. */
  sqrtPriceX96?: bigint;
  /** Default: the full range. Rounded to the tick spacing. */
  ticks?: { lower: number; upper: number };
}

export interface V3Position extends Pool {
  liquidity: bigint;
  lower: number;
  upper: number;
}

export interface SwapOptions {
  pool: string;
  tokenIn: string;
  amountIn: bigint;
  /** The receiver. Default: the first account. */
  to?: string;
}

// Creation code of the forks' pairs, by factory. A pair of a factory not named here is created by the factory itself.
const FORK_INIT_CODE_HASHES: Record<string, string> = {
  [MAINNET.sushiswapV2Factory]: "0xe18a34eb0e04b04f7a0ac29a6e80748dca96319b42c54d679cb821dca90c6303",
  [MAINNET.pancakeswapV2Factory]: "0x57224589c67f3f30a6b0d7a1b54cf3153ab84563bc609ef41dfb34f8b2974d2d",
};

const MAX_TICK = 887272;
// The prices at the ends of the whole range, which a swap may not reach.
const MIN_SQRT_PRICE = 4295128739n;
const MAX_SQRT_PRICE = 1461446703485210103287273052203988822378723970342n;

/** Gives `to` some of a token: WETH is wrapped, a test token is minted. */
export async function fund(anvil: Anvil, token: string, to: string, amount: bigint): Promise<void> {
  if (getAddress(token) === MAINNET.weth) {
    const weth = contractAt(anvil, token, weth9.abi);
    await transact(anvil, weth, "deposit", [], { value: amount });
    await transact(anvil, weth, "transfer", [to, amount]);
  } else {
    await transact(anvil, await testToken(anvil, token), "mint", [to, amount]);
  }
}

/** Creates the pair unless it is there, at the address it has on mainnet, and adds liquidity to it. */
export async function createV2Pair(anvil: Anvil, options: V2PairOptions): Promise<Pool> {
  const [token0, token1] = sortTokens(options.tokenA, options.tokenB);
  const factory = contractAt(anvil, getAddress(options.factory), v2Factory.abi);
  let address = await read<string>(factory, "getPair", [token0, token1]);
  if (BigInt(address) === 0n) {
    const initCodeHash = FORK_INIT_CODE_HASHES[getAddress(options.factory)];
    if (initCodeHash === undefined) await transact(anvil, factory, "createPair", [token0, token1]);
    else await placeForkedPair(anvil, { factory: getAddress(options.factory), token0, token1, initCodeHash });
    address = await read<string>(factory, "getPair", [token0, token1]);
  }
  await fund(anvil, options.tokenA, address, options.amountA);
  await fund(anvil, options.tokenB, address, options.amountB);
  await transact(anvil, contractAt(anvil, address, v2Pair.abi), "mint", [anvil.accounts[0]]);
  return { address, token0, token1 };
}

/** Sells `amountIn` to a v2 pair at its price less 0.3 %. Resolves with the amount received. */
export async function swapV2(anvil: Anvil, { pool, tokenIn, amountIn, to }: SwapOptions): Promise<bigint> {
  const pair = contractAt(anvil, pool, v2Pair.abi);
  const zeroForOne = getAddress(await read<string>(pair, "token0")) === getAddress(tokenIn);
  const [reserve0, reserve1] = await read<[bigint, bigint]>(pair, "getReserves");
  const [reserveIn, reserveOut] = zeroForOne ? [reserve0, reserve1] : [reserve1, reserve0];
  await fund(anvil, tokenIn, pool, amountIn);
  // The received amount counts, because the token may keep a fee.
  const balance = await read<bigint>(await testToken(anvil, tokenIn), "balanceOf", [pool]);
  const afterFee = (balance - reserveIn) * 997n;
  const out = (afterFee * reserveOut) / (reserveIn * 1000n + afterFee);
  const amounts = zeroForOne ? [0n, out] : [out, 0n];
  await transact(anvil, pair, "swap", [...amounts, to ?? anvil.accounts[0], "0x"]);
  return out;
}

/** Creates and initializes the pool unless it is there, at the address it has on mainnet, and adds liquidity to it. */
export async function createV3Pool(anvil: Anvil, options: V3PoolOptions): Promise<V3Position> {
  const [token0, token1] = sortTokens(options.tokenA, options.tokenB);
  const inOrder = token0 === getAddress(options.tokenA);
  const amount0 = inOrder ? options.amountA : options.amountB;
  const amount1 = inOrder ? options.amountB : options.amountA;
  const factory = contractAt(anvil, options.factory ?? MAINNET.uniswapV3Factory, v3Factory.abi);
  let address = await read<string>(factory, "getPool", [token0, token1, options.fee]);
  if (BigInt(address) === 0n) {
    await transact(anvil, factory, "createPool", [token0, token1, options.fee]);
    address = await read<string>(factory, "getPool", [token0, token1, options.fee]);
    const sqrtPriceX96 = options.sqrtPriceX96 ?? squareRoot((amount1 << 192n) / amount0);
    await transact(anvil, contractAt(anvil, address, v3Pool.abi), "initialize", [sqrtPriceX96]);
  }

  const pool = contractAt(anvil, address, v3Pool.abi);
  const spacing = Number(await read<bigint>(pool, "tickSpacing"));
  const lower = Math.ceil((options.ticks?.lower ?? -MAX_TICK) / spacing) * spacing;
  const upper = Math.floor((options.ticks?.upper ?? MAX_TICK) / spacing) * spacing;
  const [sqrtPriceX96] = await read<[bigint]>(pool, "slot0");
  const liquidity = liquidityFor({ sqrtPriceX96, lower, upper, amount0, amount1 });
  // The pool rounds up what it asks for, and our estimate is in floating point.
  await fund(anvil, token0, V3_OPERATOR, (amount0 * 1001n) / 1000n + 1n);
  await fund(anvil, token1, V3_OPERATOR, (amount1 * 1001n) / 1000n + 1n);
  await transact(anvil, await v3Operator(anvil), "mint", [address, lower, upper, liquidity]);
  return { address, token0, token1, liquidity, lower, upper };
}

/** Takes liquidity (default: all of it) of a position of `createV3Pool` out again. */
export async function removeV3Liquidity(
  anvil: Anvil,
  { address, lower, upper, liquidity }: V3Position,
  amount: bigint = liquidity,
): Promise<void> {
  await transact(anvil, await v3Operator(anvil), "burn", [address, lower, upper, amount]);
}

/** Sells `amountIn` to a v3 pool, as far as its liquidity goes. */
export async function swapV3(anvil: Anvil, { pool, tokenIn, amountIn, to }: SwapOptions): Promise<void> {
  const zeroForOne =
    getAddress(await read<string>(contractAt(anvil, pool, v3Pool.abi), "token0")) === getAddress(tokenIn);
  const limit = zeroForOne ? MIN_SQRT_PRICE + 1n : MAX_SQRT_PRICE - 1n;
  await fund(anvil, tokenIn, V3_OPERATOR, amountIn);
  const recipient = to ?? anvil.accounts[0];
  await transact(anvil, await v3Operator(anvil), "swap", [pool, zeroForOne, amountIn, limit, recipient]);
}

/** Both addresses with checksum, the lower one first. */
export function sortTokens(tokenA: string, tokenB: string): [string, string] {
  const [a, b] = [getAddress(tokenA), getAddress(tokenB)];
  return BigInt(a) < BigInt(b) ? [a, b] : [b, a];
}

/**
 * A fork's pair: Uniswap's own pair code with the storage that its constructor and `initialize` would have left, at the
 * address that follows from the fork's creation code.
 */
async function placeForkedPair(
  anvil: Anvil,
  pair: { factory: string; token0: string; token1: string; initCodeHash: string },
): Promise<void> {
  const salt = solidityPackedKeccak256(["address", "address"], [pair.token0, pair.token1]);
  const address = getCreate2Address(pair.factory, salt, pair.initCodeHash);
  await placeCode(anvil, address, v2Pair.evm.deployedBytecode.object);
  await placeSlot(anvil, address, 5, pair.factory);
  await placeSlot(anvil, address, 6, pair.token0);
  await placeSlot(anvil, address, 7, pair.token1);
  await placeSlot(anvil, address, 12, 1n); // unlocked
  const forked = contractAt(anvil, pair.factory, (await contractArtifact("ForkedV2Factory")).abi);
  await transact(anvil, forked, "register", [pair.token0, pair.token1, address]);
}

async function testToken(anvil: Anvil, address: string) {
  return contractAt(anvil, address, (await contractArtifact("TestToken")).abi);
}

async function v3Operator(anvil: Anvil) {
  return contractAt(anvil, V3_OPERATOR, (await contractArtifact("V3Operator")).abi);
}

/** The most liquidity that both amounts allow in a range. Fifteen digits are exact, which is enough to fill a pool. */
function liquidityFor(position: {
  sqrtPriceX96: bigint;
  lower: number;
  upper: number;
  amount0: bigint;
  amount1: bigint;
}): bigint {
  const [low, high] = [position.lower, position.upper].map((tick) => 1.0001 ** (tick / 2)) as [number, number];
  const price = Math.min(Math.max(Number(position.sqrtPriceX96) / 2 ** 96, low), high);
  const by0 = price < high ? (Number(position.amount0) * price * high) / (high - price) : Number.POSITIVE_INFINITY;
  const by1 = price > low ? Number(position.amount1) / (price - low) : Number.POSITIVE_INFINITY;
  return BigInt(Math.floor(Math.min(by0, by1)));
}

function squareRoot(value: bigint): bigint {
  if (value < 2n) return value;
  let root = 1n << BigInt(Math.ceil(value.toString(2).length / 2));
  for (let next = (root + value / root) >> 1n; next < root; next = (root + value / root) >> 1n) root = next;
  return root;
}
