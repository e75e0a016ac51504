/**
 * The values of the `exchange` parameter, and the exchanges of each chain. The contract has twelve; its neutral stand-ins
 * map one to one to real names (the hosted service's parameter list of May 2023). Others are those of the chains' data,
 * under their own names. Factories and init code hashes come from packages; those with a pool in `test/fixtures` were
 * verified by CREATE2.
 */
import { type Address, type Hash, parseAddress } from "../core/hex.ts";
import { CHAINS, type Chain } from "./chains.ts";
import type { PoolStyle } from "./styles.ts";

export type { PoolStyle } from "./styles.ts";

interface Exchange {
  /** The contract's stand-in, e.g. `dexa_v2`; of others the name again. */
  readonly standin: string;
  /** The hosted service's own value, e.g. `uniswapv2`. */
  readonly realName: string;
  readonly displayName: string;
  /** Place in the list, which breaks ties. */
  readonly rank: number;
}

export interface Deployment {
  readonly exchange: Exchange;
  readonly chain: string;
  readonly style: PoolStyle;
  readonly factory: Address;
  /** Makes the pools, where it is not the factory. */
  readonly deployer?: Address;
  /** Keccak-256 of the pool's creation code, for CREATE2, where it is known. */
  readonly initCodeHash?: Hash;
  /** The fee tiers, or the one fee of all pools, in hundredths of a basis point; empty if each pool sets its own. */
  readonly fees: readonly number[];
  /** The tick spacings of an exchange that names its pools by them. */
  readonly spacings?: readonly number[];
}

/** An exchange or a factory, as the `exchange` parameter names it. */
export type ExchangeChoice =
  | { readonly kind: "listed"; readonly exchange: Exchange }
  | { readonly kind: "factory"; readonly factory: Address };

const NAMES: readonly (readonly [standin: string, realName: string, displayName: string])[] = [
  ["dexa_v2", "uniswapv2", "Uniswap v2"],
  ["dexa_v3", "uniswapv3", "Uniswap v3"],
  ["dexb_v2", "sushiswapv2", "Sushiswap v2"],
  ["dexc_v1", "pancakeswapv1", "PancakeSwap v1"],
  ["dexc_v2", "pancakeswapv2", "PancakeSwap v2"],
  ["dexd", "quickswap", "Quickswap"],
  ["dexd_v2", "quickswapv2", "Quickswap v2"],
  ["dexe", "traderjoe", "TraderJoe"],
  ["dexf", "pangolin", "Pangolin"],
  ["dexg", "spookyswap", "SpookySwap"],
  ["dexh", "vvs", "VVS Finance"],
  ["dexi_v2", "camelotv2", "Camelot V2"],
];

const squeeze = (text: string): string => text.toLowerCase().replace(/[-_ ]/g, "");

/** The contract's own, in its order, which is also the order of deployment checks and of ties. */
export const EXCHANGES: readonly Exchange[] = NAMES.map(([standin, realName, displayName], rank) => ({
  standin,
  realName,
  displayName,
  rank,
}));

/** True for an exchange of the contract's own list, which `POOLS=contract` restricts prices to. */
export const isAmongTwelve = ({ rank }: Pick<Exchange, "rank">): boolean => rank < EXCHANGES.length;

/** An exchange that has only the name in the data. */
function exchangeOf(name: string, rank: number): Exchange {
  const squeezed = squeeze(name);
  return { standin: squeezed, realName: squeezed, displayName: name, rank };
}

interface Registry {
  /** The contract's exchanges, then those of the chains' data in its order. */
  readonly all: readonly Exchange[];
  readonly byAlias: ReadonlyMap<string, Exchange>;
}

/** By the list of chains that each was made of. */
const REGISTRIES = new WeakMap<readonly Chain[], Registry>();

/** The exchanges of some chains. An operator may spell a name otherwise, as `Uniswap V3`, and means the same exchange. */
function registryOf(chains: readonly Chain[]): Registry {
  const kept = REGISTRIES.get(chains);
  if (kept !== undefined) return kept;
  const all: Exchange[] = [];
  const byAlias = new Map<string, Exchange>();
  const add = (exchange: Exchange) => {
    all.push(exchange);
    // The display name is that of answers.
    const { standin, realName, displayName } = exchange;
    for (const text of [standin, realName, displayName]) byAlias.set(squeeze(text), exchange);
  };
  EXCHANGES.forEach(add);
  // Documents of 2022 wrote the name without the version.
  byAlias.set("sushiswap", EXCHANGES.find((exchange) => exchange.realName === "sushiswapv2")!);
  for (const { name } of chains.flatMap(({ exchanges }) => exchanges))
    if (!byAlias.has(squeeze(name))) add(exchangeOf(name, all.length));
  const registry = { all, byAlias };
  REGISTRIES.set(chains, registry);
  return registry;
}

const BUILT_IN = registryOf(CHAINS);

/** By chain, in the order of exchanges. */
const DEPLOYED = new WeakMap<Chain, readonly Deployment[]>();

function deploymentsOn(chain: Chain): readonly Deployment[] {
  const kept = DEPLOYED.get(chain);
  if (kept !== undefined) return kept;
  // An exchange that only the operator's entry has comes after the built-in ones, in the order of the entry.
  const own = chain.exchanges.map(
    ({ name, codeHash, fees = [], style, factory, deployer, spacings }, at): Deployment => ({
      ...{
        exchange: BUILT_IN.byAlias.get(squeeze(name)) ?? exchangeOf(name, BUILT_IN.all.length + at),
        chain: chain.name,
        style,
        factory: factory as Address,
        fees,
      },
      ...(deployer === undefined ? {} : { deployer: deployer as Address }),
      ...(codeHash === undefined ? {} : { initCodeHash: codeHash as Hash }),
      ...(spacings === undefined ? {} : { spacings }),
    }),
  );
  const sorted = own.sort((a, b) => a.exchange.rank - b.exchange.rank);
  DEPLOYED.set(chain, sorted);
  return sorted;
}

/** Every built-in deployment, by exchange. */
export const DEPLOYMENTS: readonly Deployment[] = CHAINS.flatMap(deploymentsOn).sort(
  (a, b) => a.exchange.rank - b.exchange.rank,
);

/**
 * Resolves a value of `exchange`: a stand-in, a real or display name (any case; `-`, `_` and spaces ignored), or a
 * factory's address (EIP-55 checked if in mixed case). Undefined if it is none of these.
 * @param chains all that the process knows
 */
export function parseExchange(text: string, chains: readonly Chain[]): ExchangeChoice | undefined {
  const factory = parseAddress(text);
  if (factory !== undefined) return { kind: "factory", factory };
  const exchange = registryOf(chains).byAlias.get(squeeze(text));
  return exchange === undefined ? undefined : { kind: "listed", exchange };
}

/** The real names of the exchanges of some chains, for error messages. */
export const knownExchanges = (chains: readonly Chain[]): readonly string[] =>
  registryOf(chains).all.map(({ realName }) => realName);

/** An exchange's deployment on a chain; undefined if there is none. */
export function deploymentOf(exchange: Exchange, chain: Chain): Deployment | undefined {
  return deploymentsOn(chain).find((entry) => entry.exchange.realName === exchange.realName);
}

/** A chain's deployments in the order of exchanges, one per factory: the first name with that factory. */
export function exchangesOf(chain: Chain): readonly Deployment[] {
  const seen = new Set<Address>();
  return deploymentsOn(chain).filter(({ factory }) => {
    if (seen.has(factory)) return false;
    seen.add(factory);
    return true;
  });
}
