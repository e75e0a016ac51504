/**
 * Compares prices with the truth, on a market of every style built on a local EVM with an oracle contract that says what
 * each token is worth: how many tokens have a price, how far it is off, and how far a push of so many dollars moves it.
 * For `POOLS=contract` and for all exchanges. Prints tables; `bun scripts/bench/truth.ts [tokens] [seed]`.
 *
 * The market is harsh on purpose. A token's true venue is of a random style, within a fee of the truth; beside it lie thin
 * pools up to a third off, and slivers of concentrated liquidity that pose as deep, up to a half off.
 */
import { type Chain, DEFAULT_CHAIN, MULTICALL3 } from "../../src/chains/chains.ts";
import { systemClock } from "../../src/core/clock.ts";
import type { Address } from "../../src/core/hex.ts";
import { createPrices } from "../../src/prices/price-service.ts";
import { MemoryLog } from "../../test/support/memory-log.ts";
import { readerOf, unfollowed } from "../../test/support/prices/anvil.ts";
import { newToken } from "../../test/support/prices/exchanges.ts";
import { EXCHANGES_OF_STYLES, type MadeExchange, type MadePool } from "../../test/support/prices/styles.ts";
import { untilSearched } from "../../test/support/prices/world.ts";
import { startAnvil } from "../local-chain/anvil.ts";
import { contractArtifact } from "../local-chain/compile.ts";
import { deploy, placeCode, read, transact } from "../local-chain/contracts.ts";
import { createRandom } from "../local-chain/random.ts";
import { machine } from "./machine.ts";
import { printCases } from "./truth-cases.ts";

const [count = 60, seed = 1] = process.argv.slice(2).map(Number);
const ETHER = 10n ** 18n;
/** Of the venues, the names that the contract's list has. */
const CONTRACT_NAMES: Readonly<Record<string, string>> = { "Uniswap v3 and SushiSwap v3": "Uniswap v3" };
const PUSHES = [1_000, 10_000, 100_000] as const;
const say = (text = ""): boolean => process.stdout.write(`${text}\n`);
const random = createRandom(seed);

const anvil = await startAnvil();
await placeCode(anvil, MULTICALL3, (await contractArtifact("Multicall")).deployedBytecode);
const [native, dollar] = [await newToken(anvil), await newToken(anvil)];
const oracle = (await deploy(anvil, await contractArtifact("TruthOracle"))).contract;
const venues: [string, MadeExchange][] = [];
for (const [name, make] of EXCHANGES_OF_STYLES) venues.push([name, await make(anvil, native)]);
const chain: Chain = {
  ...DEFAULT_CHAIN,
  wrappedNative: { symbol: "WETH", address: native, decimals: 18 },
  stablecoins: [{ symbol: "USDC", address: dollar, decimals: 18 }],
  connectors: [],
  exchanges: venues.map(([name, { venue }]) => ({
    ...{ name: CONTRACT_NAMES[name] ?? name, style: venue.style, factory: venue.factory },
    ...{ fees: [...venue.fees], spacings: [...venue.spacings] },
  })),
};

/** Liquidity at which each side of a pool over all prices is worth so many dollars, at a price in dollars. */
const liquidityFor = (usd: number, price: number): bigint =>
  BigInt(Math.round((usd / Math.sqrt(price)) * 1e9)) * 10n ** 9n;
const asFraction = (price: number): readonly [bigint, bigint] => [BigInt(Math.round(price * 1e9)), 10n ** 9n];

async function poolAt(
  [, exchange]: [string, MadeExchange],
  token: Address,
  price: number,
  usd: number,
): Promise<MadePool> {
  return exchange.create({
    tokenA: token,
    tokenB: dollar,
    price: asFraction(price),
    liquidity: liquidityFor(usd, price),
  });
}

interface Listed {
  readonly token: Address;
  readonly venue: string;
}

const listed: Listed[] = [];
/** Pools by token and exchange: each exchange has one pool of a pair here. */
const pools = new Map<string, MadePool>();
const between = (low: number, high: number): number => low + (random.below(10_000) / 10_000) * (high - low);
await venues[1]![1].create({ tokenA: native, tokenB: dollar, price: [2_000n, 1n], liquidity: 10n ** 27n });
for (let index = 0; index < count; index++) {
  const token = await newToken(anvil);
  const truth = between(0.05, 40);
  await transact(anvil, oracle, "set", [token, BigInt(Math.round(truth * 1e9)) * 10n ** 9n]);
  const order = venues.map((venue) => ({ venue, at: random.below(1_000_000) })).sort((a, b) => a.at - b.at);
  const [first, second, third, fourth] = order.map(({ venue }) => venue);
  const own = [await poolAt(first!, token, truth * between(0.998, 1.002), between(200_000, 3_000_000))] as const;
  pools.set(`${token} ${CONTRACT_NAMES[first![0]] ?? first![0]}`, own[0]);
  // Most tokens have a smaller pool elsewhere, which the contract's list may be the only one to know.
  const other = await poolAt(second!, token, truth * between(0.99, 1.01), between(20_000, 200_000));
  pools.set(`${token} ${CONTRACT_NAMES[second![0]] ?? second![0]}`, other);
  const thin = await poolAt(third!, token, truth * between(0.67, 1.33), between(600, 5_000));
  pools.set(`${token} ${CONTRACT_NAMES[third![0]] ?? third![0]}`, thin);
  if (!fourth![0].startsWith("Solidly")) {
    const sliver = await fourth![1].create({
      tokenA: token,
      tokenB: dollar,
      price: asFraction(truth * between(0.5, 1.5)),
      liquidity: 0n,
    });
    const now = await sliver.truth();
    const tick = now.style === "v3" ? Math.floor(now.tick / 600) * 600 : 0;
    await sliver.mint(tick, tick + 600, liquidityFor(between(1_000_000, 5_000_000), truth));
    pools.set(`${token} ${CONTRACT_NAMES[fourth![0]] ?? fourth![0]}`, sliver);
  }
  listed.push({ token, venue: first![0] });
}

const pricesOn = (which: "all" | "contract") =>
  createPrices({
    chain,
    reader: readerOf(anvil.url, chain),
    log: new MemoryLog(),
    view: unfollowed,
    clock: systemClock,
    pools: which,
  });
const priceOf = (which: "all" | "contract", address: Address) =>
  untilSearched(() => pricesOn(which).price({ address, percentChange: false, provenance: true })).catch(
    () => undefined,
  );

const percent = (value: number): string => `${(value * 100).toFixed(2)} %`;
const at = (values: readonly number[], part: number): number =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * part))] ?? Number.NaN;

say(`${count} tokens, seed ${seed}; ${machine()}`);
say();
say("| Pools      | tokens priced | median off | worst off |");
say("|---|---|---|---|");
for (const which of ["contract", "all"] as const) {
  const off: number[] = [];
  for (const { token } of listed) {
    const truth = Number(await read<bigint>(oracle, "priceOf", [token])) / Number(ETHER);
    const price = await priceOf(which, token);
    if (price !== undefined) off.push(Math.abs(price.usdPrice / truth - 1));
  }
  say(`| \`${which}\` | ${off.length} of ${count} | ${percent(at(off, 0.5))} | ${percent(at(off, 1))} |`);
}
say();
say("How far selling so many dollars' worth into the pool of the answer moves the answer:");
say();
say(`| Pools      | ${PUSHES.map((usd) => `${usd} dollars, median (worst)`).join(" | ")} |`);
say(`|---|${PUSHES.map(() => "---").join("|")}|`);
for (const which of ["contract", "all"] as const) {
  const row: string[] = [];
  for (const usd of PUSHES) {
    const moves: number[] = [];
    for (const { token } of listed.slice(0, 20)) {
      const before = await priceOf(which, token);
      const pool = before && pools.get(`${token} ${before.exchangeName}`);
      if (before === undefined || pool === undefined) continue;
      const state = await anvil.send("evm_snapshot");
      await pool.sell(token, BigInt(Math.round((usd / before.usdPrice) * 1e9)) * 10n ** 9n);
      const after = await priceOf(which, token);
      if (after !== undefined) moves.push(Math.abs(after.usdPrice / before.usdPrice - 1));
      await anvil.send("evm_revert", [state]);
    }
    row.push(`${percent(at(moves, 0.5))} (${percent(at(moves, 1))})`);
  }
  say(`| \`${which}\` | ${row.join(" | ")} |`);
}
await anvil.stop();
say();
say("Cases in which judgement decides:");
say();
await printCases(say);
process.exit(0);
