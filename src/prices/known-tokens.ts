/**
 * Finds ERC-20 tokens by address, symbol or name: the tokens in the entries of the chains, and those in the operator's lists.
 * A token that is in neither has its names in its contract only, so a client finds it by its whole address.
 */
import type { Chain } from "../chains/chains.ts";
import { referenceTokens } from "../chains/tokens.ts";
import { runInSlices } from "../core/turns.ts";
import { singleFlight } from "../core/work.ts";
import type { KnownToken } from "./models.ts";
import { TokenIndex } from "./token-index.ts";
import type { ListedTokens } from "./token-list.ts";
import type { TokenLists } from "./token-lists.ts";

interface TokenSources {
  readonly chains: readonly Chain[];
  readonly lists: Pick<TokenLists, "all" | "find" | "current">;
}

/** The tokens of the chains' entries, then those of the lists. */
function* tokensOf({ chains, lists }: TokenSources): Generator<KnownToken> {
  for (const chain of chains) {
    for (const { address, symbol } of referenceTokens(chain)) {
      const name = lists.find(chain.chainId, address)?.name ?? null;
      yield { chain: chain.name, address, symbol, name };
    }
  }
  const byId = new Map(chains.map((chain) => [chain.chainId, chain.name]));
  for (const { chainId, address, symbol, name } of lists.all()) {
    const chain = byId.get(chainId);
    if (chain !== undefined) yield { chain, address, symbol, name };
  }
}

/** Keeps an index of the known tokens. Makes it anew after a list has changed. */
export class TokenFinder {
  readonly #sources: TokenSources;
  #index: TokenIndex | undefined;
  /** The lists that the index was made of. */
  #indexed: readonly ListedTokens[] = [];
  readonly #make = singleFlight(async () => {
    const { current } = this.#sources.lists;
    const index = await runInSlices(TokenIndex.make(tokensOf(this.#sources)));
    this.#index = index;
    this.#indexed = current;
  });

  constructor(sources: TokenSources) {
    this.#sources = sources;
  }

  /** Returns the index of the current lists. After a change, calls wait for the new index, for less than a second. */
  async index(): Promise<TokenIndex> {
    for (;;) {
      const { current } = this.#sources.lists;
      if (this.#index !== undefined && current.every((list, at) => list === this.#indexed[at])) return this.#index;
      await this.#make();
    }
  }
}
