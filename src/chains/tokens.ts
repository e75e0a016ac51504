/** The tokens that may be the quote side of a pool, by chain. Their data is in `chains.ts` and `connectors.ts`. */
import { type Address, toAddress } from "../core/hex.ts";
import type { Chain, ChainName, ChainToken } from "./chains.ts";
import { CONNECTORS } from "./connectors.ts";

const BY_CHAIN = new Map<ChainName, readonly ChainToken[]>(
  Object.entries(CONNECTORS).map(([chain, rows]) => [
    chain as ChainName,
    rows.map(([symbol, address, decimals]) => ({ symbol, address: toAddress(address), decimals })),
  ]),
);

/** The connectors of a chain besides its wrapped native coin and its stablecoins, in the order of trial. */
export const connectorsOf = (chain: Chain): readonly ChainToken[] => BY_CHAIN.get(chain.name) ?? [];

/** Wrapped native coin, stablecoins and connectors: every token that may be the quote side of a pool. */
export function referenceTokens(chain: Chain): readonly ChainToken[] {
  return [chain.wrappedNative, ...chain.stablecoins, ...connectorsOf(chain)];
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
