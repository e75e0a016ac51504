/**
 * Tokens by chain: the connectors through which a token without a direct pool is priced, and the tokens that may be the
 * quote side of a pool. Each connector has two publishers.
 */
import type { Address } from "../core/hex.ts";
import type { Chain, ChainToken } from "./chains.ts";

/** Sources of addresses and decimals. Sepolia, Mumbai, Palm and BSC testnet have no candidate with two publishers. */
export const CONNECTOR_SOURCES = {
  uniswap: "npm @uniswap/default-token-list 22.21.0",
  sushi: "npm @sushiswap/default-token-list 43.3.0",
  quickswap: "npm quickswap-default-token-list 1.2.59",
  pancake: "npm @pancakeswap/tokens 0.9.1",
  joe: "npm @traderjoe-xyz/sdk 5.0.16",
  pangolin: "npm @pangolindex/sdk 5.8.8",
  aave: "npm @bgd-labs/aave-address-book 4.44.22",
  ledger: "npm @ledgerhq/cryptoassets 11.0.0",
  beefy: "npm blockchain-addressbook 0.54.111",
  factor: "npm @factordao/tokenlist 1.2.4",
  swapkit: "npm @swapkit/tokens 2.4.0",
  "beefy-2026": "npm @beefyfinance/blockchain-addressbook 0.59.18",
} as const;

/** Wrapped native coin, stablecoins and connectors: every token that may be the quote side of a pool. */
export function referenceTokens(chain: Chain): readonly ChainToken[] {
  return [chain.wrappedNative, ...chain.stablecoins, ...chain.connectors];
}

interface TokenSets {
  readonly money: ReadonlySet<Address>;
  readonly references: ReadonlySet<Address>;
}

const SETS = new WeakMap<Chain, TokenSets>();

function setsOf(chain: Chain): TokenSets {
  const kept = SETS.get(chain);
  if (kept !== undefined) return kept;
  const money = new Set([chain.wrappedNative, ...chain.stablecoins].map(({ address }) => address));
  const sets = { money, references: new Set(referenceTokens(chain).map(({ address }) => address)) };
  SETS.set(chain, sets);
  return sets;
}

/** True if a token is the wrapped native coin or a stablecoin: every price route ends in one of these. */
export const isMoney = (chain: Chain, address: Address): boolean => setsOf(chain).money.has(address);

/** True if a token belongs to the chain's reference tokens. */
export const isReference = (chain: Chain, address: Address): boolean => setsOf(chain).references.has(address);

/** True if both are reference tokens and one is the native coin or a stablecoin, so that a pool leads to the dollar. */
export const isReferencePair = (chain: Chain, a: Address, b: Address): boolean =>
  isReference(chain, a) && isReference(chain, b) && (isMoney(chain, a) || isMoney(chain, b));
