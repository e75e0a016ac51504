/**
 * Gives a chain prepared by `placeMainnet` a market: WETH against three stablecoins and against a demo token, on v2 and
 * v3, with more than a day of swaps that drift in one direction, so that prices, liquidity and 24-hour changes exist.
 * Out: the pools and the demo token.
 */
import { type Anvil, latestTimestamp, setNextTimestamp } from "./anvil.ts";
import { contractArtifact } from "./compile.ts";
import { type Deployed, deploy, placeCopy } from "./contracts.ts";
import { MAINNET } from "./mainnet.ts";
import { createV2Pair, createV3Pool, type Pool, type SwapOptions, swapV2, swapV3 } from "./pools.ts";
import { createRandom } from "./random.ts";

export interface Market {
  /** An ERC-20 of 18 decimals that trades only against WETH. */
  demo: Deployed;
  /** Pools by the symbol of the token that WETH trades against. */
  v2: Record<Ticker, Pool>;
  v3: Record<Ticker, Pool>;
  /** Timestamps of the first and the last swap. */
  from: number;
  to: number;
}

type Ticker = "USDC" | "USDT" | "DAI" | "DEMO";

export interface MarketOptions {
  seed?: number;
  /** How long swaps go on, in hours of chain time. Default 27, so that the swaps themselves span 26. */
  hours?: number;
  /** Address of the demo token. Default: a new one. */
  demoAt?: string;
}

const ETHER = 10n ** 18n;
const HOUR = 3600;
// Each side of a pool in WETH, and the initial price of one WETH.
const DEPTH_WETH = 5_000n;
const USD_PER_ETHER = 3_000n;
const DEMO_PER_ETHER = 1_500n; // so DEMO starts at two dollars

/**
 * Makes the pools and swaps every two hours, starting at the chain's latest timestamp and moving it on by `hours`. To
 * end in the present, start the chain with a `genesisTimestamp` that lies as far back. Takes two to three seconds.
 */
export async function seedMarket(anvil: Anvil, { seed = 1, hours = 27, demoAt }: MarketOptions = {}): Promise<Market> {
  const deployed = await deploy(anvil, await contractArtifact("TestToken"), ["Demo Token", "DEMO", 18]);
  const demo = demoAt === undefined ? deployed : await placeCopy(anvil, deployed, demoAt);
  const listed = [
    { symbol: "USDC", token: MAINNET.usdc, unit: 10n ** 6n, perEther: USD_PER_ETHER, fee: 500 },
    { symbol: "USDT", token: MAINNET.usdt, unit: 10n ** 6n, perEther: USD_PER_ETHER, fee: 500 },
    { symbol: "DAI", token: MAINNET.dai, unit: ETHER, perEther: USD_PER_ETHER, fee: 3000 },
    { symbol: "DEMO", token: demo.address, unit: ETHER, perEther: DEMO_PER_ETHER, fee: 3000 },
  ] as const;

  const v2: Partial<Record<Ticker, Pool>> = {};
  const v3: Partial<Record<Ticker, Pool>> = {};
  for (const { symbol, token, unit, perEther, fee } of listed) {
    const amounts = { amountA: DEPTH_WETH * perEther * unit, amountB: DEPTH_WETH * ETHER };
    const pair = { factory: MAINNET.uniswapV2Factory, tokenA: token, tokenB: MAINNET.weth, ...amounts };
    v2[symbol] = await createV2Pair(anvil, pair);
    v3[symbol] = await createV3Pool(anvil, { tokenA: token, tokenB: MAINNET.weth, fee, ...amounts });
  }

  const random = createRandom(seed);
  const from = await latestTimestamp(anvil);
  const to = from + hours * HOUR;
  for (let at = from + HOUR; at <= to; at += 2 * HOUR) {
    await setNextTimestamp(anvil, at);
    for (const { symbol, token, unit, perEther } of listed) {
      // Sells 5 to 25 WETH, and buys more than that with dollars: so ether gets dearer, and DEMO gets cheaper.
      const sold = BigInt(5 + random.below(20));
      const bought = symbol === "DEMO" ? sold / 2n : sold * 2n;
      const swaps: [Pool, (anvil: Anvil, options: SwapOptions) => Promise<unknown>][] = [
        [v2[symbol]!, swapV2],
        [v3[symbol]!, swapV3],
      ];
      for (const [{ address: pool }, swap] of swaps) {
        await swap(anvil, { pool, tokenIn: MAINNET.weth, amountIn: sold * ETHER });
        await swap(anvil, { pool, tokenIn: token, amountIn: bought * perEther * unit });
      }
    }
  }
  const complete = (pools: Partial<Record<Ticker, Pool>>) => pools as Record<Ticker, Pool>;
  return { demo, v2: complete(v2), v3: complete(v3), from: from + HOUR, to: await latestTimestamp(anvil) };
}
