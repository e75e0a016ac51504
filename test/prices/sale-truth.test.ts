/**
 * The probe's word about a token, beside what a plain account meets that buys and sells the same token through the released
 * routers of Uniswap v2 and v3.
 */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import v2Factory from "@uniswap/v2-core/build/UniswapV2Factory.json";
import v2Router from "@uniswap/v2-periphery/build/UniswapV2Router02.json";
import v3Router from "@uniswap/v3-periphery/artifacts/contracts/SwapRouter.sol/SwapRouter.json";
import { type Contract, Interface, id, keccak256 } from "ethers";
import { type Anvil, quantity, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { type Deployed, deploy, placeCode, type Receipt, read, transact } from "../../scripts/local-chain/contracts.ts";
import { createV2Pair } from "../../scripts/local-chain/pools.ts";
import { type Chain, DEFAULT_CHAIN, MULTICALL3 } from "../../src/chains/chains.ts";
import { type Address, toAddress } from "../../src/core/hex.ts";
import { type Sale, saleOf } from "../../src/prices/depth/sale.ts";
import SALE_PROBE from "../../src/prices/depth/sale-probe.txt";
import type { Pool } from "../../src/prices/market/pools.ts";
import type { Venue } from "../../src/prices/styles/style.ts";
import { STYLES } from "../../src/prices/styles/styles.ts";
import type { ChainReader } from "../../src/rpc/port.ts";
import { type KeptChain, keepChain } from "../support/kept-chain.ts";
import { readerOf } from "../support/prices/anvil.ts";
import { newToken } from "../support/prices/exchanges.ts";
import { quotedOver } from "../support/prices/quoted.ts";
import { KINDS, type Kind, ruleArguments } from "../support/prices/ruled-tokens.ts";
import { EXCHANGES_OF_STYLES, type MadeExchange } from "../support/prices/styles.ts";
import { type RpcProxy, startRpcProxy } from "../support/rpc-proxy.ts";

const ETHER = 10n ** 18n;
const GWEI = 10n ** 9n;
const DEPTH = 1_000_000n * ETHER;
/** About what the probe trades. */
const SPENT = 500n * ETHER;
const [SMALLER, LARGER] = [64n, 16n];
const ALL = (1n << 256n) - 1n;
/** A wallet's patience: two weeks, and some blocks. */
const PATIENCE = { blocks: 70, seconds: 1_209_600 } as const;

let anvil: Anvil;
let chain: Chain;
let reader: ChainReader;
let native: Address;
let coinPool: Pool;
let factory: Address;
let routers: { readonly v2: Deployed; readonly v3: Deployed };
let v3: MadeExchange;
let withoutMethod: RpcProxy;
/** The chain before the first token. */
let begun: KeptChain;

beforeAll(async () => {
  anvil = await startAnvil({ extraArgs: ["--prune-history"] });
  withoutMethod = await startRpcProxy(anvil.url, {
    onRequest: ({ method }) =>
      method === "eth_simulateV1" ? { error: { code: -32601, message: "method not found" } } : undefined,
  });
  await placeCode(anvil, MULTICALL3, (await contractArtifact("Multicall")).deployedBytecode);
  native = toAddress((await deploy(anvil, await contractArtifact("WrappedCoin"))).address);
  const dollar = await newToken(anvil);
  const { abi, bytecode } = v2Factory;
  factory = toAddress((await deploy(anvil, { abi, bytecode }, [anvil.accounts[0]])).address);
  v3 = await EXCHANGES_OF_STYLES[0]![1](anvil, native);
  routers = {
    v2: await deploy(anvil, { abi: v2Router.abi, bytecode: v2Router.bytecode }, [factory, native]),
    v3: await deploy(anvil, v3Router, [v3.venue.factory, native]),
  };
  chain = {
    ...DEFAULT_CHAIN,
    wrappedNative: { symbol: "WCOIN", address: native, decimals: 18 },
    stablecoins: [{ symbol: "USD", address: dollar, decimals: 18 }],
    connectors: [],
  };
  reader = readerOf(anvil.url, chain);
  coinPool = await pairOf(native, dollar);
  await anvil.send("anvil_setBalance", [native, quantity(1n << 100n)]);
  begun = await keepChain(anvil);
});
afterEach(async () => {
  await begun.back();
  reader = readerOf(anvil.url, chain);
});
afterAll(async () => {
  await withoutMethod.stop();
  await anvil.stop();
});

async function found(venue: Venue, token: Address, other: Address): Promise<Pool> {
  const plan = STYLES[venue.style].find(venue, token, other);
  return plan.read(await reader.calls(plan.calls, "latest"))[0]!;
}

async function pairOf(tokenA: Address, tokenB: Address): Promise<Pool> {
  await createV2Pair(anvil, { factory, tokenA, tokenB, amountA: DEPTH, amountB: DEPTH });
  const venue = { name: "v2", rank: 0, style: "v2", factory, fees: [3_000], spacings: [], wrapped: native } as const;
  return found(venue, tokenA, tokenB);
}

async function poolOf(token: Address, on: "v2" | "v3"): Promise<Pool> {
  if (on === "v2") return pairOf(token, native);
  await v3.create({ tokenA: token, tokenB: native });
  return found(v3.venue, token, native);
}

/** An account without code, with coins, that sends transactions at a usual gas price. */
class Wallet {
  readonly address: string;
  readonly #on: "v2" | "v3";
  readonly #token: Contract;
  readonly #pool: Pool;

  constructor(name: string, on: "v2" | "v3", token: Contract, pool: Pool) {
    this.address = `0x${id(name).slice(-40)}`;
    this.#on = on;
    this.#token = token;
    this.#pool = pool;
  }

  async fund(): Promise<void> {
    await anvil.send("anvil_setBalance", [this.address, quantity(1n << 90n)]);
  }

  async #send(to: string, data: string, value = 0n): Promise<boolean> {
    const sent = { from: this.address, to, data, value: quantity(value), gas: "0x1c9c380", gasPrice: quantity(GWEI) };
    const { status } = (await anvil.send("eth_sendTransactionSync", [sent])) as Receipt;
    return status === "0x1";
  }

  async #trade(method: string, args: readonly unknown[], value?: bigint): Promise<boolean> {
    const { contract, address } = routers[this.#on];
    return this.#send(address, contract.interface.encodeFunctionData(method, args), value);
  }

  #swap(input: string, output: string, amount: bigint, value?: bigint): Promise<boolean> {
    const { address: me } = this;
    if (this.#on === "v3") {
      return this.#trade("exactInputSingle", [[input, output, this.#pool.fee, me, ALL, amount, 0n, 0n]], value);
    }
    const path = [input, output];
    if (value !== undefined) {
      return this.#trade("swapExactETHForTokensSupportingFeeOnTransferTokens", [0n, path, me, ALL], value);
    }
    return this.#trade("swapExactTokensForETHSupportingFeeOnTransferTokens", [amount, 0n, path, me, ALL]);
  }

  async buys(amount: bigint): Promise<boolean> {
    return this.#swap(native, await this.#token.getAddress(), amount, amount);
  }

  async #holds(): Promise<bigint> {
    return read<bigint>(this.#token, "balanceOf", [this.address]);
  }

  /** Sells a part of what it holds. */
  async sells(part: bigint): Promise<boolean> {
    return this.#sellsUnits((await this.#holds()) / part);
  }

  /** Sells the whole tokens that it holds. */
  async sellsWhole(): Promise<boolean> {
    const held = await this.#holds();
    return this.#sellsUnits(held - (held % ETHER));
  }

  /** Approves and sells. An unlimited approval is tried first, then an exact one. */
  async #sellsUnits(amount: bigint): Promise<boolean> {
    const token = await this.#token.getAddress();
    for (const approved of [ALL, amount]) {
      const approval = new Interface(["function approve(address,uint256)"]).encodeFunctionData("approve", [
        routers[this.#on].address,
        approved,
      ]);
      await this.#send(token, approval);
      if (amount > 0n && (await this.#swap(token, native, amount))) return true;
    }
    return false;
  }
}

/** What a plain account meets: whether it sells after a purchase, and whether it ever can. */
interface Truth {
  readonly isSold: boolean;
  readonly isEverSold: boolean;
}

async function wait(): Promise<void> {
  await anvil.mine(PATIENCE.blocks);
  await anvil.send("evm_increaseTime", [PATIENCE.seconds]);
  await anvil.mine();
}

async function truthOf({ name }: Kind, on: "v2" | "v3", token: Contract, pool: Pool): Promise<Truth> {
  const buyer = new Wallet(`${name} ${on} buyer`, on, token, pool);
  await buyer.fund();
  if (await buyer.buys(SPENT)) {
    const isSold = (await buyer.sells(1n)) || (await buyer.sells(2n)) || (await buyer.sellsWhole());
    if (isSold) return { isSold, isEverSold: true };
    await wait();
    return { isSold, isEverSold: (await buyer.sells(2n)) || (await buyer.sells(SMALLER)) };
  }
  // Another account was given some, and the buyer buys less.
  const holder = new Wallet(`${name} ${on} holder`, on, token, pool);
  await holder.fund();
  await transact(anvil, token, "mint", [holder.address, 100n * ETHER]);
  await wait();
  const buysAndSells = async (spent: bigint) => (await buyer.buys(spent)) && (await buyer.sells(1n));
  const isEverSold =
    (await holder.sells(2n)) || (await buysAndSells(SPENT / SMALLER)) || (await buysAndSells(SPENT * LARGER));
  return { isSold: false, isEverSold };
}

/** Makes a token of this kind with a pool, and lets it follow its rules from now on. */
async function armedToken(kind: Kind, on: "v2" | "v3") {
  const { contract, address } = await deploy(anvil, await contractArtifact("RuledToken"), [18]);
  const token = toAddress(address);
  const pool = await poolOf(token, on);
  if (kind.gathered !== undefined) await transact(anvil, contract, "gather", [kind.gathered]);
  await transact(anvil, contract, "arm", [pool.id, routers[on].address, ...ruleArguments(kind.rules)]);
  if (kind.isSoldByListed) {
    const listed = new Wallet(`${kind.name} ${on} listed`, on, contract, pool);
    await listed.fund();
    await transact(anvil, contract, "mint", [listed.address, ETHER]);
    await transact(anvil, contract, "list", [listed.address]);
    expect(await listed.sells(1n)).toBe(true);
  }
  // The first trial must not be in the one block that suits.
  const { BlockStep } = kind.rules;
  if (BlockStep !== undefined && (await reader.head()).number % Number(BlockStep) > 90) await anvil.mine(20);
  return { token, contract, pool };
}

interface Comparison {
  readonly sale: Sale;
  /** The word over a node that simulates no transactions. */
  readonly bySingleCall: Sale;
  readonly truth: Truth;
}

async function comparison(kind: Kind, on: "v2" | "v3"): Promise<Comparison> {
  const { token, contract, pool } = await armedToken(kind, on);
  const priced = await quotedOver(reader, chain, token, [pool, coinPool]);
  const sale = await saleOf(reader, priced);
  const bySingleCall = await saleOf(readerOf(withoutMethod.url, chain), priced);
  return { sale, bySingleCall, truth: await truthOf(kind, on, contract, pool) };
}

/** A pool of Uniswap v3 has no router that the token could sell its fees through. */
const ON_V3 = KINDS.filter(
  ({ rules }) => !("SellsFeesBefore" in rules || "SellsFeesAfter" in rules || "BurnsFromPool" in rules),
);

describe.each([["v2", KINDS] as const, ["v3", ON_V3] as const])(
  "on Uniswap %s, a real account agrees about",
  (on, kinds) => {
    test.each(kinds.map((kind) => [kind.name, kind] as const))("a token with: %s", async (_name, kind) => {
      const { sale, bySingleCall, truth } = await comparison(kind, on);
      if (sale.sellable === true) expect(truth.isSold).toBe(true);
      if (sale.sellable === false) expect(truth.isEverSold).toBe(false);
      if (sale.sellable !== true) expect(sale.why).toBeString();
      if (bySingleCall.sellable === true) expect(truth.isSold).toBe(true);
      else expect([bySingleCall.sellable, bySingleCall.why]).toEqual([null, expect.any(String)]);
      expect(sale.sellable).toBe(on === "v3" && kind.saysOnV3 !== undefined ? kind.saysOnV3 : kind.says);
    });
  },
);

test.each(["v2", "v3"] as const)(
  "a token is not accused that only a router sells that traded of late, on %s",
  async (on) => {
    const kind = { name: "unnamed router", rules: { KnownRouterOnly: 1n, NamesNoRouter: 1n }, says: null };
    const { token, contract, pool } = await armedToken(kind, on);
    const buyer = new Wallet(`early buyer on ${on}`, on, contract, pool);
    await buyer.fund();
    expect(await buyer.buys(SPENT)).toBe(true);
    const { sellable, why } = await saleOf(reader, await quotedOver(reader, chain, token, [pool, coinPool]));
    expect(sellable).toBeNull();
    expect(why).toEndWith("but one through a router that the token knows went through");
  },
);

describe.each(["v2", "v3"] as const)("a token on %s does not know the simulation", (on) => {
  test("by the hash of the router's code, in several transactions and in a single call", async () => {
    const kind = { name: "known code", rules: { CallersOfCode: BigInt(keccak256(`0x${SALE_PROBE}`)) }, says: false };
    const { sale, bySingleCall, truth } = await comparison(kind, on);
    expect([sale.sellable, bySingleCall.sellable, truth.isEverSold]).toEqual([false, null, false]);
  });

  test("by many coins of the seller", async () => {
    const { token, pool } = await armedToken({ name: "coins", rules: { SellersWithCoins: ETHER }, says: null }, on);
    const { sellable } = await saleOf(reader, await quotedOver(reader, chain, token, [pool, coinPool]));
    expect(sellable).not.toBe(true);
  });
});
