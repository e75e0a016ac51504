/**
 * Makes a local chain with id 1 look like Ethereum mainnet where it matters to prices: the well-known tokens,
 * Multicall3 and the factories of the exchanges, as real bytecode at their real addresses. Out: `MAINNET`, the
 * addresses, and `placeMainnet`. Pools are made by pools.ts.
 */
import v2Factory from "@uniswap/v2-core/build/UniswapV2Factory.json";
import weth9 from "@uniswap/v2-periphery/build/WETH9.json";
import v3Factory from "@uniswap/v3-core/artifacts/contracts/UniswapV3Factory.sol/UniswapV3Factory.json";
import { encodeBytes32String } from "ethers";
import { type Anvil, inOneBlock, quantity } from "./anvil.ts";
import { contractArtifact } from "./compile.ts";
import { contractAt, deploy, placeCode, placeSlot, queue } from "./contracts.ts";

/** Where things are on Ethereum mainnet. */
export const MAINNET = {
  weth: "0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2",
  usdc: "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
  usdt: "0xdAC17F958D2ee523a2206206994597C13D831ec7",
  dai: "0x6B175474E89094C44Da98b954EedeAC495271d0F",
  wbtc: "0x2260FAC5E5542a773Aa44fBCfeDf7C193bc2C599",
  multicall3: "0xcA11bde05977b3631167028862bE2a173976CA11",
  uniswapV2Factory: "0x5C69bEe701ef814a2B6a3EDD4B1652CB9cc5aA6f",
  sushiswapV2Factory: "0xC0AEe478e3658e2610c5F7A4A2E1777cE9e4f2Ac",
  pancakeswapV2Factory: "0x1097053Fd2ea711dad45caCcc45EfF7548fCB362",
  uniswapV3Factory: "0x1F98431c8aD98523631AE4a59f267346ea31F984",
} as const;

/** Not on mainnet: a helper that pays for v3 liquidity and swaps, at an unused address. */
export const V3_OPERATOR = "0x00000000000000000000000000000000000F3333";

const TOKENS = [
  { address: MAINNET.usdc, name: "USD Coin", symbol: "USDC", decimals: 6 },
  { address: MAINNET.usdt, name: "Tether USD", symbol: "USDT", decimals: 6 },
  { address: MAINNET.dai, name: "Dai Stablecoin", symbol: "DAI", decimals: 18 },
  { address: MAINNET.wbtc, name: "Wrapped BTC", symbol: "WBTC", decimals: 8 },
] as const;

const FEE_TIERS = [
  { fee: 100, tickSpacing: 1 },
  { fee: 500, tickSpacing: 10 },
  { fee: 3000, tickSpacing: 60 },
  { fee: 10000, tickSpacing: 200 },
] as const;

// A billion ether, so that wrapping never runs dry.
const FIRST_ACCOUNT_WEI = 10n ** 27n;

/**
 * Places everything named in `MAINNET`. The first account becomes rich, owns the factories and may mint any token but
 * WETH. Takes two blocks, so a reorg must not reach below the block that is the head afterwards.
 */
export async function placeMainnet(anvil: Anvil): Promise<void> {
  const owner = anvil.accounts[0]!;
  await anvil.send("anvil_setBalance", [owner, quantity(FIRST_ACCOUNT_WEI)]);

  await placeWeth(anvil);
  await placeCode(anvil, MAINNET.multicall3, (await contractArtifact("Multicall")).deployedBytecode);
  await placeCode(anvil, V3_OPERATOR, (await contractArtifact("V3Operator")).deployedBytecode);

  await placeCode(anvil, MAINNET.uniswapV2Factory, v2Factory.evm.deployedBytecode.object);
  await placeSlot(anvil, MAINNET.uniswapV2Factory, 1, owner); // feeToSetter
  const forked = (await contractArtifact("ForkedV2Factory")).deployedBytecode;
  await placeCode(anvil, MAINNET.sushiswapV2Factory, forked);
  await placeCode(anvil, MAINNET.pancakeswapV2Factory, forked);
  await placeV3Factory(anvil, MAINNET.uniswapV3Factory);

  const token = await contractArtifact("TestToken");
  for (const { address } of TOKENS) await placeCode(anvil, address, token.deployedBytecode);
  await inOneBlock(anvil, async () => {
    for (const { address, name, symbol, decimals } of TOKENS) {
      await queue(anvil, contractAt(anvil, address, token.abi), "init", [name, symbol, decimals]);
    }
    await queueFeeTiers(anvil, MAINNET.uniswapV3Factory);
  });
}

/** WETH9 keeps name, symbol and decimals in its first three slots, which its constructor would have written. */
async function placeWeth(anvil: Anvil): Promise<void> {
  await placeCode(anvil, MAINNET.weth, weth9.evm.deployedBytecode.object);
  await placeSlot(anvil, MAINNET.weth, 0, shortString("Wrapped Ether"));
  await placeSlot(anvil, MAINNET.weth, 1, shortString("WETH"));
  await placeSlot(anvil, MAINNET.weth, 2, 18n);
}

/**
 * The v3 factory knows its own address as an immutable and refuses to work anywhere else. So it is created somewhere
 * and that address is replaced in its runtime code. Its owner, the first account, is in slot 3.
 */
export async function placeV3Factory(anvil: Anvil, at: string): Promise<void> {
  const { address } = await deploy(anvil, v3Factory);
  const code = (await anvil.send("eth_getCode", [address, "latest"])) as string;
  const [from, to] = [address, at].map((text) => text.slice(2).toLowerCase().padStart(64, "0"));
  if (!code.includes(from!)) throw new Error("the v3 factory does not hold its own address");
  await placeCode(anvil, at, code.replaceAll(from!, to!));
  await placeSlot(anvil, at, 3, anvil.accounts[0]!);
}

/** Queues the tiers that Uniswap's v3 factories have, for use inside `inOneBlock`. */
export async function queueFeeTiers(anvil: Anvil, v3: string): Promise<void> {
  const factory = contractAt(anvil, v3, v3Factory.abi);
  for (const { fee, tickSpacing } of FEE_TIERS) await queue(anvil, factory, "enableFeeAmount", [fee, tickSpacing]);
}

/** How Solidity stores a string of at most 31 bytes in one slot: the bytes, then twice their number. */
function shortString(text: string): string {
  return encodeBytes32String(text).slice(0, -2) + (text.length * 2).toString(16).padStart(2, "0");
}
