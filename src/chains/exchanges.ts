/**
 * The twelve values of the `exchange` parameter and where each is deployed. The contract's neutral stand-ins map one to
 * one to real names (the hosted service's parameter list of May 2023). Factories and init code hashes come from
 * packages; those with a pool in `test/fixtures` were verified by CREATE2.
 */
import { type Address, type Hash, parseAddress, toAddress, toHash } from "../core/hex.ts";
import type { Chain, ChainName } from "./chains.ts";

/** How a factory's pools are found, read and priced. */
export type PoolStyle =
  | "v2"
  | "v2-camelot"
  | "v3"
  | "slipstream"
  | "algebra-v1"
  | "algebra-integral"
  | "solidly-v1"
  | "solidly-v2"
  | "v4";

interface Exchange {
  /** The contract's stand-in, e.g. `dexa_v2`. */
  readonly standin: string;
  /** The hosted service's own value, e.g. `uniswapv2`. */
  readonly realName: string;
  readonly displayName: string;
  /** Place in the contract's list, which breaks ties. */
  readonly rank: number;
}

export interface Deployment {
  readonly exchange: Exchange;
  readonly chain: ChainName;
  readonly style: PoolStyle;
  readonly factory: Address;
  /** Keccak-256 of the pool's creation code, for CREATE2. */
  readonly initCodeHash: Hash;
  /** v3: the fee tiers. v2: the one swap fee. In hundredths of a basis point; empty if each pair sets its own. */
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

/** In the contract's order, which is also the order of deployment checks and of ties. */
export const EXCHANGES: readonly Exchange[] = NAMES.map(([standin, realName, displayName], rank) => ({
  standin,
  realName,
  displayName,
  rank,
}));

/** True for an exchange of the contract's own list, which `POOLS=contract` restricts prices to. */
export const isAmongTwelve = ({ rank }: Pick<Exchange, "rank">): boolean => rank < NAMES.length;

/** The fee tiers that every v3 factory of the list has. */
const V3_TIERS = [100, 500, 3000, 10_000] as const;

type Row = readonly [chain: ChainName, factory: string];

function deployments(
  standin: string,
  style: PoolStyle,
  fees: readonly number[],
  initCodeHash: string,
  rows: readonly Row[],
): Deployment[] {
  const exchange = EXCHANGES.find((entry) => entry.standin === standin)!;
  return rows.map(([chain, factory]) => ({
    exchange,
    chain,
    style,
    factory: toAddress(factory),
    initCodeHash: toHash(initCodeHash),
    fees,
  }));
}

/** Every known deployment on the twelve chains, by exchange. */
export const DEPLOYMENTS: readonly Deployment[] = [
  ...deployments("dexa_v2", "v2", [3_000], "0x96e8ac4277198ff8b6f785478aa9a39f403cb768dd02cbee326c3e7da348845f", [
    ["eth", "0x5c69bee701ef814a2b6a3edd4b1652cb9cc5aa6f"],
    ["goerli", "0x5c69bee701ef814a2b6a3edd4b1652cb9cc5aa6f"],
    ["sepolia", "0xf62c03e08ada871a0beb309762e260a7a6a880e6"],
    ["polygon", "0x9e5a52f57b3038f1b8eee45f28b3c1967e22799c"],
    ["bsc", "0x8909dc15e40173ff4699343b6eb8132c65e18ec6"],
    ["avalanche", "0x9e5a52f57b3038f1b8eee45f28b3c1967e22799c"],
    ["arbitrum", "0xf1d7cc64fb4452f05c498126312ebe29f30fbcf9"],
  ]),
  ...deployments("dexa_v3", "v3", V3_TIERS, "0xe34f199b19b2b4f47f68442619d555527d244f78a3297ea89325f843f87b8b54", [
    ["eth", "0x1f98431c8ad98523631ae4a59f267346ea31f984"],
    ["goerli", "0x1f98431c8ad98523631ae4a59f267346ea31f984"],
    ["sepolia", "0x0227628f3f023bb0b980b67d528571c95c6dac1c"],
    ["polygon", "0x1f98431c8ad98523631ae4a59f267346ea31f984"],
    ["mumbai", "0x1f98431c8ad98523631ae4a59f267346ea31f984"],
    ["bsc", "0xdb1d10011ad0ff90774d0c6bb92e5c5c8b4461f7"],
    ["avalanche", "0x740b1c1de25031c31ff4fc9a62f554a55cdc1bad"],
    ["arbitrum", "0x1f98431c8ad98523631ae4a59f267346ea31f984"],
  ]),
  ...deployments("dexb_v2", "v2", [3_000], "0xe18a34eb0e04b04f7a0ac29a6e80748dca96319b42c54d679cb821dca90c6303", [
    ["eth", "0xc0aee478e3658e2610c5f7a4a2e1777ce9e4f2ac"],
    ["goerli", "0xc35dadb65012ec5796536bd9864ed8773abc74c4"],
    ["polygon", "0xc35dadb65012ec5796536bd9864ed8773abc74c4"],
    ["mumbai", "0xc35dadb65012ec5796536bd9864ed8773abc74c4"],
    ["bsc", "0xc35dadb65012ec5796536bd9864ed8773abc74c4"],
    ["bsc testnet", "0xc35dadb65012ec5796536bd9864ed8773abc74c4"],
    ["avalanche", "0xc35dadb65012ec5796536bd9864ed8773abc74c4"],
    ["fantom", "0xc35dadb65012ec5796536bd9864ed8773abc74c4"],
    ["arbitrum", "0xc35dadb65012ec5796536bd9864ed8773abc74c4"],
    ["palm", "0xc35dadb65012ec5796536bd9864ed8773abc74c4"],
    ["sepolia", "0x734583f62bb6ace3c9ba9bd5a53143ca2ce8c55a"],
  ]),
  ...deployments("dexc_v1", "v2", [2_000], "0xd0d4c4cd0848c93cb4fd1f498d7013ee6bfb25783ea21593d5834f5d250ece66", [
    ["bsc", "0xbcfccbde45ce874adcb698cc183debcf17952812"],
  ]),
  ...deployments("dexc_v2", "v2", [2_500], "0x00fb7f630766e6a796048ea87d01acd3068e8ff67d078148a3fa3f4a84f69bd5", [
    ["bsc", "0xca143ce32fe78f1f7019d7d551a6402fc5350c73"],
  ]),
  ...deployments("dexc_v2", "v2", [2_500], "0x57224589c67f3f30a6b0d7a1b54cf3153ab84563bc609ef41dfb34f8b2974d2d", [
    ["eth", "0x1097053fd2ea711dad45caccc45eff7548fcb362"],
    ["goerli", "0x1097053fd2ea711dad45caccc45eff7548fcb362"],
    ["sepolia", "0x1bdc540deb9ed1fa29964deeccc524a8f5e2198e"],
    ["arbitrum", "0x02a84c1b3bbd7401a5f7fa98a384ebc70bb5749e"],
  ]),
  ...deployments("dexc_v2", "v2", [2_500], "0xd0d4c4cd0848c93cb4fd1f498d7013ee6bfb25783ea21593d5834f5d250ece66", [
    ["bsc testnet", "0x6725f303b657a9451d8ba641348b6761a6cc7a17"],
  ]),
  ...deployments("dexd", "v2", [3_000], "0x96e8ac4277198ff8b6f785478aa9a39f403cb768dd02cbee326c3e7da348845f", [
    ["polygon", "0x5757371414417b8c6caad45baef941abc7d3ab32"],
    ["mumbai", "0xc3550497e591ac6ed7a7e03ffc711cfb7412e57f"],
  ]),
  ...deployments("dexd_v2", "v2", [3_000], "0x96e8ac4277198ff8b6f785478aa9a39f403cb768dd02cbee326c3e7da348845f", [
    ["polygon", "0x5757371414417b8c6caad45baef941abc7d3ab32"],
    ["mumbai", "0xc3550497e591ac6ed7a7e03ffc711cfb7412e57f"],
  ]),
  ...deployments("dexe", "v2", [3_000], "0x0bbca9af0511ad1a1da383135cf3a8d2ac620e549ef9f6ae3a4c33c2fed0af91", [
    ["avalanche", "0x9ad6c38be94206ca50bb0d90783181662f0cfa10"],
  ]),
  ...deployments("dexf", "v2", [3_000], "0x40231f6b438bce0797c9ada29b718a87ea0a5cea3fe9a771abdd76bd41a3e545", [
    ["avalanche", "0xefa94de7a4656d787667c749f7e1223d71e9fd88"],
  ]),
  ...deployments("dexg", "v2", [2_000], "0xcdf2deca40a0bd56de8e3ce5c7df6727e5b1bf2ac96f283fa9c4b3e6b42ea9d2", [
    ["fantom", "0x152ee697f2e276fa89e96742e9bb9ab1f2e61be3"],
  ]),
  ...deployments("dexh", "v2", [3_000], "0xa77ee1cc0f39570ddde947459e293d7ebc2c30ff4e8fc45860afdcb2c2d3dc17", [
    ["cronos", "0x3b44b2a187a7b3824131f8db5a74194d0a42fc15"],
  ]),
  ...deployments("dexi_v2", "v2-camelot", [], "0xa856464ae65f7619087bc369daaf7e387dae1e5af69cfa7935850ebf754b04c1", [
    ["arbitrum", "0x6eccab422d763ac031210895c81787e87b43a652"],
  ]),
];

const squeeze = (text: string): string => text.toLowerCase().replace(/[-_ ]/g, "");

const BY_ALIAS: ReadonlyMap<string, Exchange> = new Map([
  ...EXCHANGES.flatMap((exchange): [string, Exchange][] => [
    [squeeze(exchange.standin), exchange],
    [exchange.realName, exchange],
    // The display name in answers.
    [squeeze(exchange.displayName), exchange],
  ]),
  // Documents of 2022 wrote the name without the version.
  ["sushiswap", EXCHANGES.find((exchange) => exchange.realName === "sushiswapv2")!] as const,
]);

/**
 * Resolves a value of `exchange`: a stand-in, a real or display name (any case; `-`, `_` and spaces ignored), or a
 * factory's address (EIP-55 checked if in mixed case). Undefined if it is none of these.
 */
export function parseExchange(text: string): ExchangeChoice | undefined {
  const factory = parseAddress(text);
  if (factory !== undefined) return { kind: "factory", factory };
  const exchange = BY_ALIAS.get(squeeze(text));
  return exchange === undefined ? undefined : { kind: "listed", exchange };
}

/** The real names, for error messages. */
export const KNOWN_EXCHANGES: readonly string[] = EXCHANGES.map((exchange) => exchange.realName);

/** An exchange's deployment on a chain; undefined if there is none. */
export function deploymentOf(exchange: Exchange, chain: Chain): Deployment | undefined {
  return DEPLOYMENTS.find((entry) => entry.exchange === exchange && entry.chain === chain.name);
}

/** A chain's deployments in the contract's order, one per factory: the first stand-in with that factory. */
export function exchangesOf(chain: Chain): readonly Deployment[] {
  const seen = new Set<Address>();
  return DEPLOYMENTS.filter((entry) => {
    if (entry.chain !== chain.name || seen.has(entry.factory)) return false;
    seen.add(entry.factory);
    return true;
  });
}
