/**
 * Finds ERC-20 tokens by address, symbol or name: those that the chains' entries name, and those of the operator's lists. A
 * token that is in neither is found by its whole address only, because its names are in its contract.
 */
import type { Chain } from "../chains/chains.ts";
import { referenceTokens } from "../chains/tokens.ts";
import type { KnownToken } from "./models.ts";
import type { TokenLists } from "./token-lists.ts";

interface TokenSources {
  readonly chains: readonly Chain[];
  readonly lists: Pick<TokenLists, "all" | "find">;
}

/**
 * Returns up to `limit` tokens. Tokens with the text as their symbol come first, then tokens of the chains' entries.
 * @param text in lower case; part of the address, the symbol or the name
 */
export function findTokens({ chains, lists }: TokenSources, text: string, limit: number): KnownToken[] {
  const found = new Map<string, KnownToken>();
  const take = (token: KnownToken): void => {
    const { address, symbol, name } = token;
    if (![address, symbol, name].some((part) => part?.toLowerCase().includes(text))) return;
    const key = `${token.chain}/${address}`;
    if (!found.has(key)) found.set(key, token);
  };
  for (const chain of chains) {
    for (const { address, symbol } of referenceTokens(chain)) {
      const name = lists.find(chain.chainId, address)?.name ?? null;
      take({ chain: chain.name, address, symbol, name });
    }
  }
  const byId = new Map(chains.map((chain) => [chain.chainId, chain.name]));
  for (const { chainId, address, symbol, name } of lists.all()) {
    const chain = byId.get(chainId);
    if (chain !== undefined) take({ chain, address, symbol, name });
  }
  const isSymbol = ({ symbol }: KnownToken) => Number(symbol.toLowerCase() === text);
  return [...found.values()].sort((a, b) => isSymbol(b) - isSymbol(a)).slice(0, limit);
}
