/**
 * Names, symbols and logos by chain and address, from the installed package `@uniswap/default-token-list`. Keeps only
 * the fields of price answers. The package's JSON is read once, when this module loads.
 */
import tokenList from "@uniswap/default-token-list";
import type { Address } from "../core/hex.ts";

export interface ListedToken {
  readonly name: string;
  readonly symbol: string;
  /** A URL (https or ipfs), or "" if the list has none. */
  readonly logo: string;
}

interface Entry {
  readonly chainId: number;
  readonly address: string;
  readonly name: string;
  readonly symbol: string;
  readonly logoURI?: string;
}

const key = (chainId: number, address: string): string => `${chainId}/${address.toLowerCase()}`;

const BY_KEY: ReadonlyMap<string, ListedToken> = new Map(
  (tokenList.tokens as readonly Entry[]).map((entry) => [
    key(entry.chainId, entry.address),
    { name: entry.name, symbol: entry.symbol, logo: entry.logoURI ?? "" },
  ]),
);

/** The list's entry of a token, if there is one. */
export function listedToken(chainId: number, address: Address): ListedToken | undefined {
  return BY_KEY.get(key(chainId, address));
}
