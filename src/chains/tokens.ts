/** The tokens that may stand on the quote side of a pool, by chain. What they are, is in `chains.ts` and `connectors.ts`. */
import { type Address, toAddress } from "../core/hex.ts";
import type { Chain, ChainName, ChainToken } from "./chains.ts";
import { CONNECTORS } from "./connectors.ts";

const BY_CHAIN = new Map<ChainName, readonly ChainToken[]>(
  Object.entries(CONNECTORS).map(([chain, rows]) => [
    chain as ChainName,
    rows.map(([symbol, address, decimals]) => ({ symbol, address: toAddress(address), decimals })),
  ]),
);

/** The connectors of a chain beside its wrapped native and its stablecoins, in the order in which they are tried. */
export const connectorsOf = (chain: Chain): readonly ChainToken[] => BY_CHAIN.get(chain.name) ?? [];

/** Wrapped native, stablecoins, connectors: every token that may stand on the quote side of a pool. */
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

/** Whether a token is the wrapped native or a stablecoin: a price ends in one of these. */
export const isMoney = (chain: Chain, address: Address): boolean => setsOf(chain).money.has(address);

/** Whether a token belongs to the chain's reference tokens. */
export const isReference = (chain: Chain, address: Address): boolean => setsOf(chain).references.has(address);

/** Whether two tokens are reference tokens whose pools lead to the dollar: one of them is the native or a stablecoin. */
export const isReferencePair = (chain: Chain, a: Address, b: Address): boolean =>
  isReference(chain, a) && isReference(chain, b) && (isMoney(chain, a) || isMoney(chain, b));
