/**
 * A base with launchpads on anvil: its launchpads' data, Uniswap v4 from its package, other exchanges, and hooks at their real
 * addresses, whose lowest bits say what they may do.
 */

import { type Anvil, startAnvil } from "../../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../../scripts/local-chain/compile.ts";
import { contractAt, deploy, placeCode, transact } from "../../../scripts/local-chain/contracts.ts";
import { type Chain, MULTICALL3 } from "../../../src/chains/chains.ts";
import { type Address, toAddress, ZERO_ADDRESS } from "../../../src/core/hex.ts";
import { KNOWN } from "../known-chains.ts";
import { newToken } from "./exchanges.ts";
import {
  EXCHANGES_OF_STYLES,
  type MadeExchange,
  type MadeManager,
  type MadePool,
  uniswapV4,
  type V4Wish,
} from "./styles.ts";

/** The exchange whose pools tell the dollar. */
export const PAIRS = "Solidly 2, as Velodrome and Aerodrome";
/** Of a pool whose hooks set its fee. */
const DYNAMIC = 0x800000;
const DEEP = 10n ** 24n;
/** Contracts whose getters name pools: in place of Clanker's lockers and Doppler's initializers. */
const LOCKER = toAddress("0x00000000000000000000000000000000000010c4");
const INITIALIZER = toAddress("0x0000000000000000000000000000000000001a17");

const base = KNOWN.parse("base")!;
const launchpad = (name: string) => {
  const { hooks, getters = [] } = base.launchpads!.find((one) => one.name === name)!;
  return { hooks: hooks.map(toAddress), maker: toAddress(getters[0]?.to ?? ZERO_ADDRESS) };
};
export const LAUNCHPADS = {
  clanker: launchpad("Clanker"),
  liquid: launchpad("Liquid"),
  zora: launchpad("Zora"),
  doppler: launchpad("Doppler"),
} as const;

export interface HookSettings {
  /** Millionths: the pool's fee, and what the hook takes of the paired token. */
  readonly fee?: number;
  readonly cut?: number;
  /** True for a fee that moves with the price. */
  readonly isDynamic?: boolean;
}

interface Launch extends HookSettings {
  readonly hooks: Address;
  readonly quote: Address;
  /** Quote tokens for one token, as a fraction. */
  readonly price: readonly [bigint, bigint];
  readonly wish?: Partial<V4Wish>;
  /** Default: a new one. */
  readonly token?: Address;
}

export interface Launched {
  readonly token: Address;
  readonly pool: MadePool;
  /** The five words of the pool's key. */
  readonly key: readonly unknown[];
}

export class LaunchMarket {
  readonly anvil: Anvil;
  readonly chain: Chain;
  readonly manager: MadeManager;
  readonly exchanges: ReadonlyMap<string, MadeExchange>;
  readonly native: Address;
  readonly dollar: Address;
  readonly connector: Address;

  private constructor(parts: Omit<LaunchMarket, "launch" | "settings" | "hookAt" | "named" | "place">) {
    this.anvil = parts.anvil;
    this.chain = parts.chain;
    this.manager = parts.manager;
    this.exchanges = parts.exchanges;
    this.native = parts.native;
    this.dollar = parts.dollar;
    this.connector = parts.connector;
  }

  /** Starts a chain whose coin is 2,000 dollars, and whose connector half of one. @param names exchanges beside v4 */
  static async start(names: readonly string[] = [PAIRS]): Promise<LaunchMarket> {
    const anvil = await startAnvil({ chainId: base.chainId });
    const place = async (address: string, name: string) =>
      placeCode(anvil, address, (await contractArtifact(name)).deployedBytecode);
    await place(MULTICALL3, "Multicall");
    const native = toAddress((await deploy(anvil, await contractArtifact("WrappedCoin"))).address);
    const [dollar, connector] = [await newToken(anvil), await newToken(anvil)];
    const makers = new Map(EXCHANGES_OF_STYLES);
    const exchanges = new Map<string, MadeExchange>();
    for (const name of names) exchanges.set(name, await makers.get(name)!(anvil, native));
    const manager = await uniswapV4(anvil, native);
    await place(LAUNCHPADS.clanker.maker, "LaunchFactory");
    await place(LAUNCHPADS.doppler.maker, "LaunchAirlock");
    await place(LOCKER, "LaunchLocker");
    await place(INITIALIZER, "LaunchInitializer");
    const listed = [...exchanges, ["Uniswap v4", manager] as const];
    const chain: Chain = {
      ...base,
      wrappedNative: { symbol: "WETH", address: native, decimals: 18 },
      stablecoins: [{ symbol: "USDC", address: dollar, decimals: 18 }],
      connectors: [{ symbol: "ZORA", address: connector, decimals: 18 }],
      exchanges: listed.map(([name, { venue }]) => ({
        ...{ name, style: venue.style, factory: venue.factory },
        ...{ fees: [...venue.fees], spacings: [...venue.spacings] },
      })),
    };
    const pairs = exchanges.get(PAIRS)!;
    await pairs.create({ tokenA: native, tokenB: dollar, price: [2_000n, 1n], liquidity: 10n ** 27n });
    await pairs.create({ tokenA: native, tokenB: connector, price: [4_000n, 1n], liquidity: 10n ** 27n });
    return new LaunchMarket({ anvil, chain, manager, exchanges, native, dollar, connector });
  }

  /** A launchpad's hook at an address. */
  async hookAt(hooks: Address) {
    return contractAt(this.anvil, hooks, (await contractArtifact("LaunchHook")).abi);
  }

  /** What the hook at an address does from now on. */
  async settings(hooks: Address, token: Address, { fee = 10_000, cut = 2_000, isDynamic = false }: HookSettings) {
    await transact(this.anvil, await this.hookAt(hooks), "set", [
      ...[this.manager.manager.address, token, fee, cut, isDynamic],
    ]);
  }

  /** Makes a token and its pool with a launchpad's hook, as Clanker's usually are. No getter names the pool yet. */
  async launch({ hooks, quote, price, wish = {}, token: given, ...settings }: Launch): Promise<Launched> {
    const token = given ?? (await newToken(this.anvil));
    await placeCode(this.anvil, hooks, (await contractArtifact("LaunchHook")).deployedBytecode);
    await this.settings(hooks, token, settings);
    const shape = { fee: DYNAMIC, spacing: 200, isWrapped: true, liquidity: DEEP, ...wish };
    const pool = await this.manager.create({ ...shape, tokenA: token, tokenB: quote, price, hooks });
    const currencies = shape.isWrapped ? [pool.token0, pool.token1] : [ZERO_ADDRESS, token];
    return { token, pool, key: [...currencies, shape.fee, shape.spacing, hooks] };
  }

  /** Has the getters of a launchpad name a pool. */
  async named({ token, key }: Launched, by: "clanker" | "doppler" | "zora"): Promise<void> {
    const at = async (address: Address, name: string) =>
      contractAt(this.anvil, address, (await contractArtifact(name)).abi);
    const { clanker, doppler } = LAUNCHPADS;
    if (by === "zora") await transact(this.anvil, await at(token, "NamingToken"), "setPoolKey", [key]);
    if (by === "clanker") {
      await transact(this.anvil, await at(clanker.maker, "LaunchFactory"), "launch", [token, key.at(-1), LOCKER]);
      await transact(this.anvil, await at(LOCKER, "LaunchLocker"), "lock", [token, key]);
    }
    if (by === "doppler") {
      await transact(this.anvil, await at(doppler.maker, "LaunchAirlock"), "launch", [token, key[0], INITIALIZER]);
      await transact(this.anvil, await at(INITIALIZER, "LaunchInitializer"), "create", [token, key]);
    }
  }

  /** Puts a hook of Uniswap's package at an address. */
  async place(
    hooks: Address,
    built: { readonly abi: readonly object[]; readonly bytecode: { readonly object: string } },
  ): Promise<void> {
    const bare = { abi: built.abi as Parameters<typeof contractAt>[2], bytecode: built.bytecode.object };
    const { address } = await deploy(this.anvil, bare, [this.manager.manager.address]);
    await placeCode(this.anvil, hooks, (await this.anvil.send("eth_getCode", [address, "latest"])) as string);
  }
}
