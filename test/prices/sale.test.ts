/**
 * Simulated sales on anvil: hostile tokens are named with what they do, ordinary ones are not accused, on every style of
 * exchange; and what can't be known is null.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import v2Factory from "@uniswap/v2-core/build/UniswapV2Factory.json";
import customCurveHook from "@uniswap/v4-core/out/CustomCurveHook.sol/CustomCurveHook.json";
import feeHook from "@uniswap/v4-core/out/DynamicReturnFeeTestHook.sol/DynamicReturnFeeTestHook.json";
import feeTakingHook from "@uniswap/v4-core/out/FeeTakingHook.sol/FeeTakingHook.json";
import { encodeBytes32String } from "ethers";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { contractAt, deploy, placeCode, read, transact } from "../../scripts/local-chain/contracts.ts";
import { createV2Pair } from "../../scripts/local-chain/pools.ts";
import { type Chain, DEFAULT_CHAIN, MULTICALL3 } from "../../src/chains/chains.ts";
import { type Address, toAddress, ZERO_ADDRESS } from "../../src/core/hex.ts";
import { cappedByHooks, cappedBySale, hooksLimitOf, type Sale, saleOf } from "../../src/prices/depth/sale.ts";
import SALE_PROBE from "../../src/prices/depth/sale-probe.txt";
import type { Pool } from "../../src/prices/market/pools.ts";
import type { Quote } from "../../src/prices/market/quote.ts";
import { format, rational } from "../../src/prices/market/rational.ts";
import { STYLES } from "../../src/prices/styles/styles.ts";
import type { ChainReader } from "../../src/rpc/port.ts";
import { type KeptChain, keepChain } from "../support/kept-chain.ts";
import { readerOf } from "../support/prices/anvil.ts";
import { createCamelotPair, newToken } from "../support/prices/exchanges.ts";
import { quotedOver } from "../support/prices/quoted.ts";
import { type Rules, ruleArguments } from "../support/prices/ruled-tokens.ts";
import { EXCHANGES_OF_STYLES, type MadeExchange, type MadeManager } from "../support/prices/styles.ts";
import { type Intervention, type RpcCall, startRpcProxy } from "../support/rpc-proxy.ts";
import { codeOf } from "../support/solidity.ts";

const ETHER = 10n ** 18n;
const NO_TAX = { sellable: true, buyTaxPercent: "0", sellTaxPercent: "0" } as const;

let anvil: Anvil;
let chain: Chain;
let reader: ChainReader;
let native: Address;
let dollar: Address;
let coinPool: Pool;
/** The chain before the first token. */
let begun: KeptChain;
const made = new Map<string, MadeExchange>();
const STYLE_NAMES = ["Uniswap v2", "Camelot", ...EXCHANGES_OF_STYLES.map(([name]) => name)];

/** Their pools refuse a payment of which a part doesn't arrive, and so does every released router. */
const WANTING_ALL = ["Uniswap v3 and SushiSwap v3", "PancakeSwap v3", "Slipstream"];

beforeAll(async () => {
  anvil = await startAnvil();
  await placeCode(anvil, MULTICALL3, (await contractArtifact("Multicall")).deployedBytecode);
  native = await deployed("WrappedCoin");
  dollar = await newToken(anvil);
  for (const [name, make] of EXCHANGES_OF_STYLES) made.set(name, await make(anvil, native));
  made.set("Uniswap v2", await uniswapV2());
  made.set("Camelot", await camelot());
  chain = {
    ...DEFAULT_CHAIN,
    wrappedNative: { symbol: "WCOIN", address: native, decimals: 18 },
    stablecoins: [{ symbol: "USD", address: dollar, decimals: 18 }],
    connectors: [],
  };
  reader = readerOf(anvil.url, chain);
  coinPool = await poolOf("Uniswap v2", native, dollar, [2_000n, 1n]);
  // The wrapped coin's own contract pays out what a pool of the coin itself is paid with.
  await anvil.send("anvil_setBalance", [native, "0xffffffffffffffffffffffff"]);
  begun = await keepChain(anvil);
});
afterEach(async () => {
  await begun.back();
  reader = readerOf(anvil.url, chain);
});
afterAll(() => anvil.stop());

async function deployed(name: string, args: readonly unknown[] = []): Promise<Address> {
  return toAddress((await deploy(anvil, await contractArtifact(name), args)).address);
}

async function uniswapV2(): Promise<MadeExchange> {
  const { address } = await deploy(anvil, { abi: v2Factory.abi, bytecode: v2Factory.bytecode }, [anvil.accounts[0]]);
  const factory = toAddress(address);
  return {
    venue: { name: "v2", rank: 0, style: "v2", factory, fees: [3000], spacings: [], wrapped: native },
    async create({ tokenA, tokenB, price: [n, d] = [1n, 1n] }) {
      const amounts = { tokenA, tokenB, amountA: 1_000_000n * ETHER, amountB: (1_000_000n * ETHER * n) / d };
      const { address: id } = await createV2Pair(anvil, { factory, ...amounts });
      return { id: toAddress(id) } as Awaited<ReturnType<MadeExchange["create"]>>;
    },
  };
}

/** The stand-in for Camelot's, which no package ships. */
async function camelot(): Promise<MadeExchange> {
  const factory = await deployed("CamelotFactory");
  return {
    venue: { name: "Camelot", rank: 0, style: "v2-camelot", factory, fees: [], spacings: [], wrapped: native },
    async create({ tokenA, tokenB }) {
      const amounts = { tokenA, tokenB, amountA: 1_000_000n * ETHER, amountB: 1_000_000n * ETHER };
      const { address: id } = await createCamelotPair(anvil, factory, amounts);
      return { id: toAddress(id) } as Awaited<ReturnType<MadeExchange["create"]>>;
    },
  };
}

/** Makes a pool and finds it. */
async function poolOf(
  style: string,
  tokenA: Address,
  tokenB: Address,
  price: readonly [bigint, bigint] = [1n, 1n],
  stable = false,
): Promise<Pool> {
  const { create, venue } = made.get(style)!;
  const { id } = await create({ tokenA, tokenB, price, stable });
  const plan = STYLES[venue.style].find(venue, tokenA, tokenB);
  return plan.read(await reader.calls(plan.calls, "latest")).find((pool) => pool.id === id)!;
}

/** Quotes a token over these pools and that of the chain's coin. */
const quoted = (token: Address, pools: readonly Pool[], over = chain): Promise<Quote> =>
  quotedOver(reader, over, token, [...pools, coinPool]);

/** Quotes a token over a pool of Uniswap v4 with hooks. */
async function hooked(token: Address, hooks: Address, fee: number): Promise<Quote> {
  const exchange = made.get("Uniswap v4") as MadeManager;
  const { id, token0, token1 } = await exchange.create({ tokenA: token, tokenB: native, hooks, fee });
  const key = { currency0: ZERO_ADDRESS, fee, spacing: 10, hooks };
  const { name, ...venue } = exchange.venue;
  return quoted(token, [{ ...venue, exchange: name, id, key, token0, token1, fee, stableCurve: false }]);
}

const holderOf = (pool: Pool): Address => (pool.key === undefined ? (pool.id as Address) : pool.factory);

/** Makes a pool of a token, lets the token show what it is, and simulates its sale. */
async function saleOn(style: string, token: Address, isArmed = true, through = reader): Promise<Sale> {
  const pool = await poolOf(style, token, native);
  if (isArmed) {
    const { abi } = await contractArtifact("HoneypotToken");
    await transact(anvil, contractAt(anvil, token, abi), "arm", [holderOf(pool)]);
  }
  return saleOf(through, await quoted(token, [pool]));
}

test("compiles the probe to the code that the program has", async () => {
  expect(await codeOf("prices/depth/sale-probe.sol", "SaleProbe", "deployedBytecode")).toBe(SALE_PROBE);
});

describe.each(STYLE_NAMES)("on %s", (style) => {
  const refusal = (failed: "purchase" | "sale", words: string): Sale => ({
    ...{ sellable: false, buyTaxPercent: failed === "purchase" ? null : "0", sellTaxPercent: null },
    why: `the simulated ${failed} failed: ${words}`,
  });
  const noSale = (words: string) => refusal("sale", `the transfer to the pool ${words}`);

  test("accuses no ordinary token", async () => {
    expect(await saleOn(style, await newToken(anvil), false)).toEqual(NO_TAX);
    expect(await saleOn(style, await deployed("OpenZeppelinToken"), false)).toEqual(NO_TAX);
    expect(await saleOn(style, await deployed("SilentToken"))).toEqual(NO_TAX);
    const text = encodeBytes32String("DAI");
    // Solidly's pair reads the symbol as a string, and keeps its fees in a contract that such a token can't call.
    if (!style.startsWith("Solidly")) {
      expect(await saleOn(style, await deployed("CallingToken"))).toEqual(NO_TAX);
      expect(await saleOn(style, await deployed("Bytes32Token", [text, text]), false)).toEqual(NO_TAX);
    }
  });

  test("tells the taxes of both directions to the hundredth of a per cent", async () => {
    if (WANTING_ALL.includes(style)) {
      const sale = await saleOn(style, await deployed("TaxedToken", [7, 1_000]));
      const why = expect.stringMatching(
        /^the simulated sale failed: the pool or the token's transfer from it reverted/,
      );
      expect(sale).toEqual({ sellable: false, buyTaxPercent: "0.07", sellTaxPercent: null, why });
      expect(await saleOn(style, await deployed("TaxedToken", [700, 0]))).toEqual({
        ...{ sellable: true, buyTaxPercent: "7", sellTaxPercent: "0" },
        why: "the token keeps 7 % of a purchase and 0 % of a sale",
      });
      return;
    }
    expect(await saleOn(style, await deployed("TaxedToken", [100, 100]))).toEqual({
      ...{ sellable: true, buyTaxPercent: "1", sellTaxPercent: "1" },
    });
    expect(await saleOn(style, await deployed("TaxedToken", [7, 1_000]))).toEqual({
      ...{ sellable: true, buyTaxPercent: "0.07", sellTaxPercent: "10" },
      why: "the token keeps 0.07 % of a purchase and 10 % of a sale",
    });
  });

  test("names what keeps a token from being sold", async () => {
    const sale = async (name: string) => saleOn(style, await deployed(name));
    expect(await sale("BlacklistingToken")).toEqual(noSale("reverted (bot detected)"));
    expect(await sale("HoneypotToken")).toEqual(noSale("reverted (no way back)"));
    expect(await sale("FalseToken")).toEqual(noSale("returned false"));
    expect(await sale("GasTrapToken")).toEqual(noSale("reverted without a reason"));
    expect(await sale("LoudToken")).toEqual(noSale("reverted with the error 0x00000000"));
    expect(await sale("PausedToken")).toMatchObject({
      ...{ sellable: false, buyTaxPercent: null, sellTaxPercent: null },
      why: expect.stringMatching(/^the simulated purchase failed: the pool or the token's transfer from it reverted/),
    });
  });

  test("does not call a token sellable whose balances are a lie", async () => {
    const { sellable, why } = await saleOn(style, await deployed("BoastfulToken"));
    expect(sellable).not.toBe(true);
    expect(why).toMatch(/balanceOf shows more than was transferred|the transfer to the pool reverted/);
  });
});

test.each(EXCHANGES_OF_STYLES.map(([name]) => name))(
  "on %s a token that can't be bought is accused after purchases, and not after a sale",
  async (style) => {
    const { create, venue } = made.get(style)!;
    const { contract, address } = await deploy(anvil, await contractArtifact("RuledToken"), [18]);
    const token = toAddress(address);
    const { id, sell } = await create({ tokenA: token, tokenB: native, price: [1n, 1n] });
    const plan = STYLES[venue.style].find(venue, token, native);
    const pool = plan.read(await reader.calls(plan.calls, "latest")).find((one) => one.id === id)!;
    const arm = (rules: Rules) =>
      transact(anvil, contract, "arm", [holderOf(pool), ZERO_ADDRESS, ...ruleArguments(rules)]);
    await sell(native, ETHER / 1_000n);
    await arm({ Paused: 1n });
    expect(await saleOf(reader, await quoted(token, [pool]))).toMatchObject({ sellable: false });
    await arm({ Paused: 0n });
    await sell(token, ETHER / 1_000n);
    const { number } = await reader.head();
    await arm({ Paused: 1n });
    const { sellable, why } = await saleOf(reader, await quoted(token, [pool]));
    expect(sellable).toBeNull();
    expect(why).toEndWith(`but it was sold in block ${number}`);
  },
);

describe("ordinary tokens of many kinds", () => {
  const KINDS = [
    ...["Plain", "Burnable", "Capped", "FlashMint", "Pausable", "Permit", "Votes", "Payable", "Shares"],
    ...["Limited", "Blocking", "Recording", "Proxy", "Cloner"],
  ];
  /** Styles in turn: the token must not matter to any. */
  const styles = ["Uniswap v2", "Uniswap v3 and SushiSwap v3", "Uniswap v4", "Algebra 1", "PancakeSwap v3"];

  test.each(KINDS)("are not accused: %s", async (kind) => {
    for (const [at, places] of [0, 6, 8, 18].entries()) {
      const { contract, address } = await deploy(anvil, await contractArtifact(`Ordinary${kind}`), [places]);
      const token = toAddress(kind === "Cloner" ? await read<string>(contract, "clone") : address);
      // Pools with ticks don't take a token whose transfers lose a unit.
      const style = kind === "Shares" ? "Uniswap v2" : styles[(KINDS.indexOf(kind) + at) % styles.length]!;
      expect([style, places, await saleOn(style, token, false)]).toEqual([style, places, NO_TAX]);
    }
  });
});

describe("the way to the token", () => {
  test("leads over a stablecoin, which is bought with the chain's coin", async () => {
    const token = await newToken(anvil);
    const pool = await poolOf("Uniswap v3 and SushiSwap v3", token, dollar);
    expect(await saleOf(reader, await quoted(token, [pool]))).toEqual(NO_TAX);
  });

  test("leads over a connector of another style", async () => {
    const [token, connector] = [await deployed("TaxedToken", [200, 300]), await newToken(anvil)];
    const pools = [await poolOf("Uniswap v4", token, connector), await poolOf("Algebra 1", connector, dollar)];
    const { abi } = await contractArtifact("TaxedToken");
    await transact(anvil, contractAt(anvil, token, abi), "arm", [holderOf(pools[0]!)]);
    const connected = { ...chain, connectors: [{ symbol: "CON", address: connector, decimals: 18 }] };
    const sale = await saleOf(reader, await quoted(token, pools, connected));
    expect(sale).toEqual({ sellable: true, buyTaxPercent: "2", sellTaxPercent: "3" });
  });

  test("begins with a sale for the wrapped coin, and with a purchase for a stablecoin", async () => {
    expect(await saleOf(reader, await quoted(native, []))).toEqual(NO_TAX);
    const coin = await newToken(anvil);
    const pool = await poolOf("Solidly 2, as Velodrome and Aerodrome", coin, dollar, [1n, 1n], true);
    const more = { ...chain, stablecoins: [...chain.stablecoins, { symbol: "EUR", address: coin, decimals: 18 }] };
    expect(await saleOf(reader, await quoted(coin, [pool], more))).toEqual(NO_TAX);
  });

  test("accuses nothing if another token on it is hostile", async () => {
    for (const [name, failed] of [["PausedToken", 1] as const, ["HoneypotToken", 0] as const]) {
      const [token, connector] = [await newToken(anvil), await deployed(name)];
      const pools = [await poolOf("Uniswap v2", token, connector), await poolOf("Uniswap v2", connector, dollar)];
      const { abi } = await contractArtifact(name);
      await transact(anvil, contractAt(anvil, connector, abi), "arm", [holderOf(pools[failed]!)]);
      const connected = { ...chain, connectors: [{ symbol: "CON", address: connector, decimals: 18 }] };
      expect(await saleOf(reader, await quoted(token, pools, connected))).toMatchObject({
        ...{ sellable: null, buyTaxPercent: null, sellTaxPercent: null },
        why: expect.stringMatching(/^a trade with another token failed/),
      });
    }
  });
});

describe("hooks of Uniswap v4 that leave the amounts to the curve", () => {
  /** Runs before swaps, by its address. */
  const hooks = "0xb000000000000000000000000000000000000080" as Address;
  const DYNAMIC = 0x800000;

  test("are no fault while their fee is usual, and named when it takes most of a sale", async () => {
    await placeCode(anvil, hooks, feeHook.deployedBytecode.object);
    const hook = contractAt(anvil, hooks, feeHook.abi);
    const priced = await hooked(await newToken(anvil), hooks, DYNAMIC);
    await transact(anvil, hook, "setFee", [30_000]);
    expect(await saleOf(reader, priced)).toEqual(NO_TAX);
    await transact(anvil, hook, "setFee", [700_000]);
    expect(await saleOf(reader, { ...priced, market: { ...priced.market, block: await reader.head() } })).toEqual({
      ...NO_TAX,
      ...{ isLossy: true, why: "the pool pays back 9 % of what it is paid, beside the token's taxes" },
    });
  });

  test("accuse no token when they refuse the caller", async () => {
    const priced = await hooked(await newToken(anvil), hooks, DYNAMIC);
    const code = (await contractArtifact("PausedToken")).deployedBytecode;
    await placeCode(anvil, hooks, code);
    const block = await reader.head();
    expect(await saleOf(reader, { ...priced, market: { ...priced.market, block } })).toMatchObject({
      ...{ sellable: null, why: expect.stringMatching(/^the pool's hooks may want another caller/) },
    });
  });

  test("that refuse every trade, or of which none was tried, leave a confidence of one half, and are named", async () => {
    const priced = await hooked(await newToken(anvil), hooks, DYNAMIC);
    await placeCode(anvil, hooks, (await contractArtifact("PausedToken")).deployedBytecode);
    const refused = await saleOf(reader, { ...priced, market: { ...priced.market, block: await reader.head() } });
    for (const [sale, words] of [[refused, "didn't go through"] as const, [undefined, "none was tried"] as const]) {
      const reason = hooksLimitOf(priced, sale);
      expect(reason).toContain(words);
      expect(format(cappedByHooks(rational(9n, 10n), reason))).toBe("0.5");
    }
    expect(hooksLimitOf(priced, NO_TAX)).toBeUndefined();
    const plainPool = await hooked(await newToken(anvil), ZERO_ADDRESS, 500);
    expect(hooksLimitOf(plainPool, undefined)).toBeUndefined();
  });
});

describe("what can't be known is null", () => {
  const unknown = (why: string): Sale => ({ sellable: null, buyTaxPercent: null, sellTaxPercent: null, why });

  test("for pools of Uniswap v4 with hooks that may take a part or set another curve", async () => {
    const exchange = made.get("Uniswap v4") as MadeManager;
    for (const [built, flags] of [[feeTakingHook, "44"] as const, [customCurveHook, "88"] as const]) {
      const artifact = { abi: built.abi as never, bytecode: built.bytecode.object };
      const { address } = await deploy(anvil, artifact, [exchange.manager.address]);
      const hooks = `0xa0000000000000000000000000000000000000${flags}` as Address;
      await placeCode(anvil, hooks, (await anvil.send("eth_getCode", [address, "latest"])) as string);
      const sale = await saleOf(reader, await hooked(await newToken(anvil), hooks, 500));
      expect(sale).toEqual(unknown("the pool's hooks may change the amounts"));
    }
  });

  test("for past blocks, and for tokens of which a small trade is less than a hundred units", async () => {
    const token = await newToken(anvil);
    const priced = await quoted(token, [await poolOf("Uniswap v2", token, native)]);
    const past = { ...priced, market: { ...priced.market, isPast: true } };
    expect(await saleOf(reader, past)).toEqual(unknown("sales are simulated at the head only"));
    const thin = { ...priced.route!, depthUsd: rational(1n, 10n ** 16n) };
    expect(await saleOf(reader, { ...priced, route: thin })).toEqual(
      unknown("the pool is too small for a trade that moves nothing"),
    );
  });

  const isSimulation = ({ method }: RpcCall) => method === "eth_simulateV1";
  const isOverridden = (call: RpcCall) =>
    isSimulation(call) || (call.method === "eth_call" && call.params.length === 3);
  const NO_METHOD: Intervention = { error: { code: -32601, message: "the method eth_simulateV1 does not exist" } };

  test("if the node gives a call too little gas", async () => {
    const proxy = await startRpcProxy(anvil.url, {
      onRequest: (call) => (isSimulation(call) ? NO_METHOD : undefined),
    });
    const token = await deployed("GasTrapToken");
    const pool = await poolOf("Uniswap v2", token, native);
    const priced = await quoted(token, [pool]);
    const limit = ((await anvil.send("eth_getBlockByNumber", ["latest", false])) as { gasLimit: string }).gasLimit;
    await anvil.send("evm_setBlockGasLimit", ["0x400000"]);
    const sale = await saleOf(readerOf(proxy.url, chain), priced);
    await anvil.send("evm_setBlockGasLimit", [limit]);
    await proxy.stop();
    expect(sale).toEqual(unknown("the node gives too little gas, or the chain's coin can't be wrapped"));
  });

  test.each<[string, Intervention]>([
    ["by its number of parameters", { error: { code: -32602, message: "too many arguments, want at most 2" } }],
    ["in unknown words", { error: { code: -32000, message: "nein" } }],
    ["by a status", { status: 400, body: "no" }],
    ["by ignoring them", { result: "0x" }],
  ])("if the node refuses overrides %s, and the node is not asked again", async (_how, refusal) => {
    const proxy = await startRpcProxy(anvil.url, { onRequest: (call) => (isOverridden(call) ? refusal : undefined) });
    try {
      const through = readerOf(proxy.url, chain);
      const token = await newToken(anvil);
      const priced = await quoted(token, [await poolOf("Uniswap v2", token, native)]);
      const refused = unknown("the endpoints don't take state overrides");
      expect(await saleOf(through, priced)).toEqual(refused);
      proxy.reset();
      expect(await saleOf(through, priced)).toEqual(refused);
      expect(proxy.calls).toEqual([]);
    } finally {
      await proxy.stop();
    }
  });

  test.each<[string, Intervention]>([
    ["fails", { drop: true }],
    ["is silent", { delayUntil: new Promise(() => undefined) }],
  ])("if the node %s, and it is asked again the next time", async (_how, fault) => {
    let isFaulty = true;
    const proxy = await startRpcProxy(anvil.url, {
      onRequest: (call) => (isFaulty && isOverridden(call) ? fault : undefined),
    });
    try {
      const through = readerOf(proxy.url, chain);
      const token = await newToken(anvil);
      const priced = await quoted(token, [await poolOf("Uniswap v2", token, native)]);
      // The check of the chain's id goes along with the first request.
      await through.head();
      expect(await saleOf(through, priced)).toEqual(unknown("the endpoints didn't answer the simulation"));
      isFaulty = false;
      expect(await saleOf(through, priced)).toEqual(NO_TAX);
    } finally {
      await proxy.stop();
    }
  });
});

test("sells in one request, at the block of the price", async () => {
  const proxy = await startRpcProxy(anvil.url);
  try {
    const through = readerOf(proxy.url, chain);
    const token = await newToken(anvil);
    const priced = await quoted(token, [await poolOf("Uniswap v2", token, native)]);
    await through.head();
    proxy.reset();
    expect(await saleOf(through, priced)).toEqual(NO_TAX);
    expect(proxy.calls.map(({ method, params }) => [method, params[1]])).toEqual([
      ["eth_simulateV1", `0x${priced.market.block.number.toString(16)}`],
    ]);
  } finally {
    await proxy.stop();
  }
});

test("the confidence in an unsellable or taxed token is at most 0.1", () => {
  const capped = (sale: Sale, confidence = rational(9n, 10n)) => format(cappedBySale(confidence, sale));
  const unsellable: Sale = { sellable: false, buyTaxPercent: null, sellTaxPercent: null, why: "no" };
  expect(capped(unsellable)).toBe("0.1");
  expect(capped(unsellable, rational(1n, 100n))).toBe("0.01");
  expect(capped({ ...NO_TAX, sellTaxPercent: "5.01", why: "tax" })).toBe("0.1");
  expect(capped({ ...NO_TAX, buyTaxPercent: "5" })).toBe("0.9");
  expect(capped({ ...unsellable, sellable: null })).toBe("0.9");
});
