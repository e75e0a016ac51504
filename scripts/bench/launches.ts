/**
 * A market of tokens like those of base today: pairs, pools at old and new fee tiers, Slipstream, launch pools of Uniswap v4
 * with static and dynamic hooks, custom curves. Asks for each token's first price in a new process behind an endpoint that
 * answers no wide search through logs, and prints a table: the price or why there is none, with the round trips and node
 * calls. `bun scripts/bench/launches.ts`.
 */
import customCurveHook from "@uniswap/v4-core/out/CustomCurveHook.sol/CustomCurveHook.json";
import { type Address, toAddress } from "../../src/core/hex.ts";
import { latentProxy } from "../../test/support/latency.ts";
import { pricesOf, unfollowed } from "../../test/support/prices/anvil.ts";
import { newToken } from "../../test/support/prices/exchanges.ts";
import { LAUNCHPADS, LaunchMarket, PAIRS } from "../../test/support/prices/launches.ts";
import { untilSearched } from "../../test/support/prices/world.ts";
import { contractArtifact } from "../local-chain/compile.ts";
import { contractAt, deploy, transact } from "../local-chain/contracts.ts";

const V3 = "Uniswap v3 and SushiSwap v3";
const PANCAKE = "PancakeSwap v3";
const SLIPSTREAM = "Slipstream";
const ODD_HOOK = toAddress("0x5555555555555555555555555555555555550044");
const CURVE_HOOK = toAddress("0x7777777777777777777777777777777777770488");
/** Dollars of each token. */
const WORTH = 40;
const LATENCY_MS = 20;
const say = (text = ""): boolean => process.stdout.write(`${text}\n`);

const ETHER = 10n ** 18n;
const MORE = ["Solidly 1", "Algebra 1", "Algebra Integral 1.2.10"];
const market = await LaunchMarket.start([PAIRS, V3, PANCAKE, SLIPSTREAM, ...MORE]);
const { anvil, native, dollar, connector, manager } = market;
const { clanker, liquid, zora, doppler } = LAUNCHPADS;
const rows: (readonly [kind: string, token: Address])[] = [];

interface Pooled {
  /** The exchange adds the tier first if it is new. */
  readonly tier?: { readonly named: number; readonly spacing: number; readonly isNew?: boolean };
  /** Default: a new one of 18 decimals. */
  readonly token?: Address;
  readonly quote?: Address;
  /** Raw units of the quote token for a raw one, as a fraction. Default: what the token is worth. */
  readonly price?: readonly [bigint, bigint];
  readonly liquidity?: bigint;
  readonly stable?: boolean;
}

async function deployed(name: string, args: readonly unknown[] = []): Promise<Address> {
  return toAddress((await deploy(anvil, await contractArtifact(name), args)).address);
}

/** Makes a token with one pool at an exchange. */
async function pooled(kind: string, exchange: string, { tier, token: given, quote = dollar, ...more }: Pooled = {}) {
  const made = market.exchanges.get(exchange)!;
  if (tier?.isNew === true) {
    const isByFee = made.venue.style === "v3";
    const method = isByFee ? "enableFeeAmount" : "enableTickSpacing";
    const factory = contractAt(anvil, made.venue.factory, [
      `function ${method}(${isByFee ? "uint24,int24" : "int24,uint24"})`,
    ]);
    await transact(anvil, factory, method, [tier.named, isByFee ? tier.spacing : 3_000]);
  }
  const token = given ?? (await newToken(anvil));
  const perQuote = quote === native ? 50n : 1n;
  const price =
    quote === connector ? ([80n, 1n] as const) : ([BigInt(WORTH) / (quote === native ? 40n : 1n), perQuote] as const);
  const wish = { tokenA: token, tokenB: quote, price, ...more };
  await made.create({ ...wish, ...(tier === undefined ? {} : { tier: { named: tier.named, spacing: tier.spacing } }) });
  rows.push([kind, token]);
}

/** Makes a token with a launch pool, worth a fiftieth of the coin, which getters name. */
async function launched(
  kind: string,
  wish: Partial<Parameters<LaunchMarket["launch"]>[0]> & { readonly hooks: Address },
  by?: "clanker" | "doppler" | "zora",
) {
  const made = await market.launch({ quote: native, price: [1n, 50n], ...wish });
  if (by !== undefined) await market.named(made, by);
  rows.push([kind, made.token]);
}

/** Asks in a new process, again while pools are searched for. @param hasLogs true behind an endpoint with all logs */
async function firstOf(token: Address, hasLogs: boolean) {
  const proxy = await latentProxy(anvil.url, LATENCY_MS, ({ method, params }) => {
    const { fromBlock, toBlock } = (params[0] ?? {}) as { fromBlock?: string; toBlock?: string };
    const isWide = !hasLogs && method === "eth_getLogs" && Number(toBlock) - Number(fromBlock) >= 3;
    return isWide ? { error: { code: -32_602, message: "query exceeds max block range 3" } } : undefined;
  });
  const prices = pricesOf(proxy.url, unfollowed, market.chain);
  const asked = () => prices.price({ address: token, percentChange: false, provenance: false });
  const answer = await (hasLogs ? untilSearched(asked) : asked()).then(
    ({ usdPrice }) => `$${usdPrice.toFixed(2)}`,
    ({
      code,
      details,
    }: {
      code: string;
      details?: { pools?: readonly { reason: string; tradeOverPrice?: string }[] };
    }) => {
      const [pool] = details?.pools ?? [];
      const part = pool?.tradeOverPrice === undefined ? "" : ` (${Number(pool.tradeOverPrice).toFixed(2)} of it)`;
      return `${code}${pool === undefined ? ", no pool named" : `, ${pool.reason}${part}`}`;
    },
  );
  const counts = [proxy.depth(), proxy.count("eth_call"), proxy.count("eth_getLogs"), proxy.count()];
  await proxy.stop();
  return { answer, counts };
}

await pooled("pair", PAIRS);
await pooled("pair with the coin", PAIRS, { quote: native });
await pooled("pair with a connector", PAIRS, { quote: connector });
await pooled("pair on the stable curve, $1", PAIRS, { stable: true, price: [1n, 1n] });
await pooled("pair with $20", PAIRS, { liquidity: 3n * ETHER });
await pooled("pair of Solidly 1", "Solidly 1");
await pooled("pair, 6 decimals", PAIRS, { token: await newToken(anvil, 6), price: [40n * 10n ** 12n, 1n] });
await pooled("pair, taxed 1 % and 6 %", PAIRS, { token: await deployed("TaxedToken", [100, 600]) });
await pooled("pair, rebasing", PAIRS, { token: await deployed("RebasingToken") });
await pooled("pair, hybrid (ERC-404)", PAIRS, { token: await deployed("HybridToken") });
rows.push(["hybrid without a pool", await deployed("HybridToken")]);
rows.push(["NFTs alone", await deployed("PlainNft", ["N", "N"])]);
await pooled("Uniswap v3, 0.05 %", V3);
await pooled("Uniswap v3, 0.05 %, with the coin", V3, { quote: native });
await pooled("Uniswap v3, 1 %, with a connector", V3, { quote: connector, tier: { named: 10_000, spacing: 200 } });
await pooled("Uniswap v3, an empty shell", V3, { liquidity: 0n });
await pooled("Uniswap v3, 0.03 % since 2025", V3, { tier: { named: 300, spacing: 6, isNew: true } });
await pooled("Uniswap v3, 0.02 % since 2025, with the coin", V3, {
  ...{ quote: native, tier: { named: 200, spacing: 4, isNew: true } },
});
await pooled("Uniswap v3, 0.175 %, a fork's", V3, { tier: { named: 1_750, spacing: 35, isNew: true } });
const both = await newToken(anvil);
const thin = { token: both, price: [3n, 1n], liquidity: 10n ** 21n } as const;
await pooled("", V3, thin);
rows.pop();
await pooled("two of Uniswap v3: a thin one at $3, and 500 times as deep at 0.03 %", V3, {
  ...{ token: both, tier: { named: 300, spacing: 6 }, liquidity: 5n * 10n ** 23n },
});
await pooled("PancakeSwap v3, 0.05 %", PANCAKE);
await pooled("PancakeSwap v3, 2 %", PANCAKE, { tier: { named: 20_000, spacing: 400, isNew: true } });
await pooled("Slipstream, 50", SLIPSTREAM);
await pooled("Slipstream, 50, with the coin", SLIPSTREAM, { quote: native });
await pooled("Slipstream, 31, new", SLIPSTREAM, { tier: { named: 31, spacing: 31, isNew: true } });
await pooled("Algebra 1", "Algebra 1");
await pooled("Algebra Integral", "Algebra Integral 1.2.10", { quote: native });
const plain = await newToken(anvil);
await manager.create({ tokenA: plain, tokenB: dollar, price: [BigInt(WORTH), 1n] });
rows.push(["Uniswap v4 without hooks", plain]);
const bare = await newToken(anvil);
await manager.create({ tokenA: bare, tokenB: native, price: [1n, 50n], isWrapped: false });
rows.push(["Uniswap v4 without hooks, in the coin itself", bare]);
const [fixed, moving, fixed2, moving2] = clanker.hooks as [Address, Address, Address, Address];
await launched("Clanker, static fee", { hooks: fixed }, "clanker");
await launched(
  "Clanker, dynamic fee, spacing 60",
  { hooks: moving, isDynamic: true, wish: { spacing: 60 } },
  "clanker",
);
await launched("Clanker, static, in dollars", { hooks: fixed2, quote: dollar, price: [BigInt(WORTH), 1n] }, "clanker");
await launched("Liquid (fork of Clanker)", { hooks: liquid.hooks[0]! });
const airlock = doppler.hooks.find((one) => one.endsWith("6544"))!;
await launched("Doppler, in the coin itself", { hooks: airlock, wish: { isWrapped: false, spacing: 30 } }, "doppler");
const token = await deployed("NamingToken", ["Naming", "NAME", 18]);
const zoraHook = zora.hooks.find((one) => one.endsWith("1040"))!;
await launched("Zora, in ZORA", { token, hooks: zoraHook, quote: connector, price: [80n, 1n] }, "zora");
await launched("Clanker's hook takes 30 %", { hooks: moving2, cut: 300_000 });
await launched("Liquid's hook takes 40 %", { hooks: liquid.hooks[1]!, cut: 400_000 });
await launched("Clanker's hook, static, spacing 200, no getter", { hooks: fixed });
await launched("unknown hook with an honest cut", { hooks: ODD_HOOK, cut: 2_000 });
await market.place(CURVE_HOOK, customCurveHook);
const curved = await newToken(anvil);
await manager.create({ tokenA: curved, tokenB: dollar, price: [BigInt(WORTH), 1n], hooks: CURVE_HOOK, liquidity: 0n });
rows.push(["custom curve", curved]);
rows.push(["no pool at all", await newToken(anvil)]);
rows.push(["an account", toAddress(anvil.accounts[5]!)]);

say(
  `${rows.length} tokens. Each is worth $${WORTH}, but for the custom curve's and the stable pair's $1. Each line is a new process, ${LATENCY_MS} ms from its node.`,
);
say();
say("| token's only pool | first answer | round trips | eth_call | eth_getLogs | calls | with all logs |");
say("|---|---|---|---|---|---|---|");
for (const [kind, address] of rows) {
  const { answer, counts } = await firstOf(address, false);
  const { answer: other } = await firstOf(address, true);
  say(`| ${kind} | ${answer} | ${counts.join(" | ")} | ${other === answer ? "the same" : other} |`);
}
await anvil.stop();
process.exit(0);
