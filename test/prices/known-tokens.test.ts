/**
 * The search for tokens by a text: the index answers as a scan of all lists would, and a search of many tokens lets the
 * event loop go on.
 */
import { describe, expect, test } from "bun:test";
import { CHAINS } from "../../src/chains/chains.ts";
import { referenceTokens } from "../../src/chains/tokens.ts";
import type { Address } from "../../src/core/hex.ts";
import { runInSlices } from "../../src/core/turns.ts";
import { TokenFinder } from "../../src/prices/known-tokens.ts";
import type { KnownToken } from "../../src/prices/models.ts";
import { TokenIndex } from "../../src/prices/token-index.ts";
import type { ListedToken, ListedTokens } from "../../src/prices/token-list.ts";

const chains = CHAINS.filter(({ chainId }) => [1, 137].includes(chainId));

/** Numbers from 0 to `below`, the same in each run. */
function dice(seed: number) {
  let state = seed;
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const address = (n: number): Address => `0x${n.toString(16).padStart(4, "0").repeat(10)}` as Address;

/** Lists that share many tokens under different names. */
function randomLists(seed: number): ListedTokens[] {
  const roll = dice(seed);
  const word = (length: number) => Array.from({ length }, () => "abİΣß😀 $0"[roll(9)] ?? "").join("");
  return Array.from({ length: 4 }, () => {
    const list = new Map<string, ListedToken>();
    for (let n = 0; n < 700; n++) {
      const of = roll(20) === 0 ? referenceTokens(chains[0]!)[0]!.address : address(roll(1_200));
      const [symbol, name] = [word(roll(4)), word(roll(9))].map((text) => text.toWellFormed().replaceAll("\ufffd", ""));
      list.set(`${[1, 137, 7][roll(3)]}/${of}`, { symbol: symbol!, name: name!, logo: "" });
    }
    return list;
  });
}

/** The lists as `TokenLists` shows them. */
const listsOf = (current: ListedTokens[]) => ({
  current,
  find: (chainId: number, of: Address) => current.map((list) => list.get(`${chainId}/${of}`)).find(Boolean),
  *all() {
    for (const list of current) {
      for (const [place, token] of list) {
        const [chainId, of] = place.split("/") as [string, Address];
        yield { ...token, chainId: Number(chainId), address: of };
      }
    }
  },
});

/** The answer by its definition: a scan of all tokens. */
function scan(lists: ReturnType<typeof listsOf>, text: string, limit: number): KnownToken[] {
  const found = new Map<string, KnownToken>();
  const take = (token: KnownToken) => {
    const parts = [token.address, token.symbol, token.name];
    if (!parts.some((part) => part?.toLowerCase().includes(text))) return;
    const key = `${token.chain}/${token.address}`;
    if (!found.has(key)) found.set(key, token);
  };
  for (const chain of chains) {
    for (const { address: of, symbol } of referenceTokens(chain)) {
      take({ chain: chain.name, address: of, symbol, name: lists.find(chain.chainId, of)?.name ?? null });
    }
  }
  for (const { chainId, address: of, symbol, name } of lists.all()) {
    const chain = chains.find((one) => one.chainId === chainId);
    if (chain !== undefined) take({ chain: chain.name, address: of, symbol, name });
  }
  const isSymbol = ({ symbol }: KnownToken) => Number(symbol.toLowerCase() === text);
  return [...found.values()].sort((a, b) => isSymbol(b) - isSymbol(a)).slice(0, limit);
}

const token = (n: number, symbol: string, name: string): KnownToken => ({
  ...{ chain: "eth", address: `0x${n.toString(16).padStart(40, "0")}`, symbol, name },
});

/** The answer of a search, and its number of slices. */
function searched(index: TokenIndex, text: string, limit: number): { found: KnownToken[]; slices: number } {
  const search = index.search(text, limit);
  for (let slices = 1; ; slices++) {
    const { done, value } = search.next();
    if (done === true) return { found: value, slices };
  }
}

describe("the search for tokens", () => {
  test.each([1, 2, 3])("answers as a scan of all lists does, with the random lists %d", async (seed) => {
    const lists = listsOf(randomLists(seed));
    const index = await new TokenFinder({ chains, lists }).index();
    const roll = dice(seed + 100);
    const all = [...lists.all()];
    const texts = [
      "",
      "a",
      "0",
      "x",
      "0x",
      "weth",
      "usd",
      "a\n",
      "\ud83d",
      "😀",
      "a😀".slice(0, 2),
      "i̇",
      "zzz",
      "a".repeat(100),
    ];
    for (let n = 0; n < 50; n++) {
      const { address: of, symbol, name } = all[roll(all.length)]!;
      const word = [of, symbol, name][roll(3)]!.toLowerCase();
      const from = roll(word.length);
      texts.push(word, word.slice(from), word.slice(from, from + 1 + roll(4)));
    }
    for (const text of texts) {
      for (const limit of [3, 500]) {
        expect([text, searched(index, text, limit).found]).toEqual([text, scan(lists, text, limit)]);
      }
    }
  });

  test("follows a change of the lists, also one that comes while its index is made", async () => {
    const lists = { ...listsOf([]), current: [new Map([[`1/${address(1)}`, { symbol: "A", name: "One", logo: "" }]])] };
    const shown = {
      ...lists,
      get current() {
        return lists.current;
      },
      all: () => listsOf(lists.current).all(),
    };
    const finder = new TokenFinder({ chains, lists: shown });
    const making = finder.index();
    lists.current = [new Map([[`1/${address(1)}`, { symbol: "A", name: "Two", logo: "" }]])];
    const names = (index: TokenIndex) => searched(index, address(1), 10).found.map(({ name }) => name);
    expect(names(await making)).toEqual(["Two"]);
    expect(await finder.index()).toBe(await making);
    lists.current = [new Map([[`1/${address(1)}`, { symbol: "A", name: "Three", logo: "" }]])];
    expect(names(await finder.index())).toEqual(["Three"]);
  });

  test("takes one slice among many tokens, and is made in many slices", () => {
    const making = TokenIndex.make(Array.from({ length: 20_000 }, (_, n) => token(n, `S${n}`, `Name of ${n}`)));
    let slices = 1;
    let made = making.next();
    for (; made.done !== true; made = making.next()) slices++;
    expect(slices).toBeGreaterThan(20);
    for (const [text, count] of [
      ["e", 500],
      ["name of 19999", 1],
      ["no such", 0],
      ["", 500],
    ] as const) {
      expect(searched(made.value, text, 500)).toMatchObject({ slices: 1, found: { length: count } });
    }
  });

  test("ends in slices if hostile lists have the text at each token, but another token of its place is shown", async () => {
    // The second list's tokens have the text as their symbol, the first one's in their names: none comes first.
    const names = Array.from({ length: 10_000 }, (_, n) => token(n, "x", `the usd ${n}`));
    const symbols = Array.from({ length: 10_000 }, (_, n) => token(n, "USD", ""));
    const index = await runInSlices(TokenIndex.make([...names, ...symbols]));
    const { found, slices } = searched(index, "usd", 500);
    expect(found).toEqual(names.slice(0, 500));
    expect(slices).toBeGreaterThan(4);
  });
});
