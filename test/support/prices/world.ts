/** A small Ethereum with a dollar: WETH, USDC, USDT, DAI and WBTC at their addresses, and prices over it. */

import { CHAINS } from "../../../src/chains/chains.ts";
import { exchangesOf } from "../../../src/chains/exchanges.ts";
import type { SharedWork } from "../../../src/core/budget.ts";
import type { Clock } from "../../../src/core/clock.ts";
import type { Address } from "../../../src/core/hex.ts";
import type { PriceRecord } from "../../../src/prices/models.ts";
import { createPrices, type PriceLimits, type Prices } from "../../../src/prices/price-service.ts";
import type { FindListedToken } from "../../../src/prices/token-lists.ts";
import { MemoryLog } from "../memory-log.ts";
import { addressOf, FakeChain, type FakeFollower, type FakePool } from "./fake-chain.ts";
import { parsePriceQuery, type RawPriceQuery } from "./query.ts";

export const eth = CHAINS[0]!;
export const WETH = eth.wrappedNative.address;
export const [USDC, USDT, DAI] = eth.stablecoins.map((coin) => coin.address) as [Address, Address, Address];
export const WBTC = eth.connectors[0]!.address;
const factory = (realName: string): Address =>
  exchangesOf(eth).find((entry) => entry.exchange.realName === realName)!.factory;
export const UNI2 = factory("uniswapv2");
export const UNI3 = factory("uniswapv3");
export const SUSHI = factory("sushiswapv2");
export const TOKEN = addressOf("token");

export class ManualClock implements Clock {
  ms = 0;
  now(): number {
    return 1_700_000_000_000 + this.ms;
  }
  monotonic(): number {
    return this.ms;
  }
  random(): number {
    return 0.5;
  }
  async sleep(ms: number): Promise<void> {
    this.ms += ms;
  }
  after(): () => void {
    return () => undefined;
  }
}

/** Places the reference tokens and one more. */
export function placeTokens(chain: FakeChain): void {
  for (const coin of [eth.wrappedNative, ...eth.stablecoins, ...eth.connectors]) {
    chain.token({ address: coin.address, name: coin.symbol, symbol: coin.symbol, decimals: coin.decimals });
  }
  chain.token({ address: TOKEN, name: "Token", symbol: "TKN", decimals: 18 });
}

/** Repeats a question while it is refused because pools are searched for. */
export async function untilSearched<T>(ask: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if ((error as { code?: unknown }).code !== "searching") throw error;
    }
    // The manual clock's waits end at once. A search goes on in the next turns of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
  }
}

export class World {
  readonly chain = new FakeChain();
  readonly log = new MemoryLog();
  readonly clock = new ManualClock();
  readonly follower: FakeFollower;
  readonly prices: Prices;

  constructor(limits: Partial<PriceLimits> = {}, listed: FindListedToken = () => undefined) {
    const { chain, log, clock } = this;
    this.follower = chain.follower(() => this.prices);
    placeTokens(chain);
    this.prices = createPrices({ chain: eth, reader: chain, log, view: this.follower, clock, limits, listed });
  }

  /** Prices of a new process on the same chain and log, with empty memory. */
  restarted(more: { readonly shared?: SharedWork } = {}): Prices {
    const { chain, log, clock, follower } = this;
    return createPrices({ chain: eth, reader: chain, log, view: follower, clock, ...more });
  }

  /** Makes a v2 pool with whole amounts of two tokens. */
  pair(a: Address, amountA: bigint, b: Address, amountB: bigint, factoryAddress: Address = UNI2): FakePool {
    const pool = this.chain.pool({ factory: factoryAddress, style: "v2", fee: 3000, tokens: [a, b] });
    this.setPair(pool, a, amountA, amountB);
    return pool;
  }

  /** Sets the reserves in whole tokens, `a` first. */
  setPair(pool: FakePool, a: Address, amountA: bigint, amountB: bigint): void {
    const other = pool.token0 === a ? pool.token1 : pool.token0;
    const rawA = amountA * 10n ** BigInt(this.chain.tokens.get(a)!.decimals!);
    const rawB = amountB * 10n ** BigInt(this.chain.tokens.get(other)!.decimals!);
    if (pool.token0 === a) this.chain.sync(pool, rawA, rawB);
    else this.chain.sync(pool, rawB, rawA);
  }

  /** Asks again, as clients do, while pools are searched for. */
  price(address: Address, query: RawPriceQuery = {}): Promise<PriceRecord> {
    return untilSearched(() => this.prices.price({ address, ...parsePriceQuery(query) }));
  }

  /** Returns the code and details of a refusal. */
  async refusal(
    address: Address,
    query: RawPriceQuery = {},
  ): Promise<{ code: string; message: string; details: unknown }> {
    try {
      await this.price(address, query);
    } catch (error) {
      const { code, message, details } = error as {
        code: string;
        message: string;
        details: unknown;
      };
      return { code, message, details };
    }
    throw new Error("the request should have been refused");
  }
}

/** A world with WETH at $2,000, from a v2 pool with $2m of USDC. */
export function dollarWorld(limits: Partial<PriceLimits> = {}, listed?: FindListedToken): World & { dollar: FakePool } {
  const world = new World(limits, listed);
  const dollar = world.pair(WETH, 1_000n, USDC, 2_000_000n);
  return Object.assign(world, { dollar });
}
