/**
 * Cases in which the arithmetic of a price is exact and judgement decides, on a chain with Uniswap's own contracts: the
 * thin dollar pool of the coin, the empty shell of yesterday, a stablecoin's pool that lags. Part of `truth.ts`.
 */
import type { Address } from "../../src/core/hex.ts";
import type { PriceRecord } from "../../src/prices/models.ts";
import { type LocalChain, pricesOf, startLocalChain } from "../../test/support/prices/anvil.ts";
import { parsePriceQuery } from "../../test/support/prices/query.ts";
import { latestTimestamp, setNextTimestamp } from "../local-chain/anvil.ts";
import { contractAt, transact } from "../local-chain/contracts.ts";
import { MAINNET } from "../local-chain/mainnet.ts";
import { createV2Pair, fund, type Pool, swapV2, V2_PAIR_ABI } from "../local-chain/pools.ts";

const ETHER = 10n ** 18n;
const USD = 10n ** 6n;
const DAY = 86_400;

/** A figure of an answer beside what is true. */
type Row = readonly [figure: string, truth: string, answer: string];

const ask = ({ anvil }: LocalChain, address: string, include = "provenance"): Promise<PriceRecord> =>
  pricesOf(anvil.url).price({ address: address.toLowerCase() as Address, ...parsePriceQuery({ include }) });

const percent = (part: number): string => `${(part * 100).toFixed(2)} %`;

async function later({ anvil }: LocalChain, seconds: number): Promise<void> {
  await setNextTimestamp(anvil, (await latestTimestamp(anvil)) + seconds);
  await anvil.mine(1);
}

const pair = (
  { anvil }: LocalChain,
  [tokenA, amountA]: readonly [string, bigint],
  [tokenB, amountB]: readonly [string, bigint],
): Promise<Pool> => createV2Pair(anvil, { factory: MAINNET.uniswapV2Factory, tokenA, amountA, tokenB, amountB });

/** A deep pool with the coin, whose only dollar pool has $60,000 a side. */
async function thinDollar(chain: LocalChain): Promise<Row[]> {
  const dollars = await pair(chain, [MAINNET.weth, 30n * ETHER], [MAINNET.usdc, 60_000n * USD]);
  const token = await chain.token();
  await pair(chain, [token, 75_000_000n * ETHER], [MAINNET.weth, 75_000n * ETHER]);
  const before = await ask(chain, token, "provenance,depth");
  const { liquidityUsd, confidence } = before.provenance!;
  const amountIn = BigInt(Math.round(Number(before.depth!.move2PercentUsd) * 1e6));
  await swapV2(chain.anvil, { pool: dollars.address, tokenIn: MAINNET.usdc, amountIn });
  const after = await ask(chain, token);
  return [
    ["liquidityUsd, the coin's dollar pool having $60,000", "60000", Number(liquidityUsd).toFixed(0)],
    ["confidence", "0.375", Number(confidence).toFixed(3)],
    [
      "move of the answer by buying the coin for move2PercentUsd",
      "2.00 %",
      percent(after.usdPrice / before.usdPrice - 1),
    ],
  ];
}

/** A pair with a dollar's worth of liquidity at a billion dollars a token until 15 minutes ago. Since then it is $1. */
async function shell(chain: LocalChain): Promise<Row[]> {
  const { anvil } = chain;
  await pair(chain, [MAINNET.weth, 1_000n * ETHER], [MAINNET.usdc, 3_000_000n * USD]);
  const token = await chain.token();
  const { address } = await pair(chain, [token, 10n ** 9n], [MAINNET.usdc, USD]);
  await later(chain, DAY + 3_600);
  await fund(anvil, token, address, 1_000_000n * ETHER);
  await fund(anvil, MAINNET.usdc, address, 1_000_000n * USD);
  await transact(anvil, contractAt(anvil, address, V2_PAIR_ABI), "sync");
  await later(chain, 900);
  const record = await ask(chain, token, "provenance,percent_change,pair");
  return [
    ["24hrPercentChange, of an empty shell a day ago", "none", record["24hrPercentChange"] ?? "none"],
    ["usdPrice24h", "none", String(record.usdPrice24h ?? "none")],
    ["twap30m", "1", Number(record.provenance!.twap30m).toFixed(4).replace(/\.0+$/, "")],
  ];
}

/** USDC and USDT share a pool of $5 million at par, and a pool of USDT and the coin with $27,800 lags by 7 %. */
async function lagging(chain: LocalChain): Promise<Row[]> {
  await pair(chain, [MAINNET.weth, 10_000n * ETHER], [MAINNET.usdc, 20_000_000n * USD]);
  await pair(chain, [MAINNET.usdc, 5_000_000n * USD], [MAINNET.usdt, 5_000_000n * USD]);
  await pair(chain, [MAINNET.weth, 15n * ETHER], [MAINNET.usdt, 27_800n * USD]);
  const { usdPrice, nativePrice, provenance } = await ask(chain, MAINNET.usdc);
  return [
    ["USDC beside a thin pool of USDT that lags by 7 %", "1", usdPrice.toFixed(4).replace(/\.0+$/, "")],
    ["its price in the coin, times 2,000", "1", (Number(nativePrice!.value) / 5e14).toFixed(4).replace(/\.0+$/, "")],
    ["confidence", "0.98", Number(provenance!.confidence).toFixed(2)],
  ];
}

/** Builds each case on a chain of its own, and prints what is answered beside what is true. */
export async function printCases(say: (text?: string) => boolean): Promise<void> {
  say("| Figure | true | answered |");
  say("|---|---|---|");
  for (const build of [thinDollar, shell, lagging]) {
    const chain = await startLocalChain();
    for (const row of await build(chain)) say(`| ${row.join(" | ")} |`);
    await chain.anvil.stop();
  }
}
