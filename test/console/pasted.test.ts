/** The search reads an address, its chain and a token's id out of whatever a visitor pastes. */
import { describe, expect, test } from "bun:test";
import { cutInside, plain } from "../../src/console/parts/format.ts";
import { pastedAddress, searchedWords } from "../../src/console/search/pasted.ts";

const A = "0xbc4ca0eda7647a8ab7c2061c2e118a18a936f13d";
/** As explorers write it. */
const MIXED = "0xBC4CA0EdA7647A8aB7C2061c2E118A18a936f13D";
const HUGE = (2n ** 255n + 7n).toString();

describe("a pasted text", () => {
  test.each([
    [`https://opensea.io/assets/ethereum/${A}/5`, "eth", "5"],
    [`https://opensea.io/item/matic/${A}/${HUGE}`, "polygon", HUGE],
    [`https://opensea.io/assets/${A}/5?tab=activity`, undefined, "5"],
    [`https://etherscan.io/token/${MIXED}?a=5`, "eth", "5"],
    [`https://etherscan.io/nft/${A}/5`, "eth", "5"],
    [`https://etherscan.io/address/${A}#code`, "eth", undefined],
    [`https://sepolia.etherscan.io/token/${A}`, "sepolia", undefined],
    [`https://optimistic.etherscan.io/token/${A}?a=5#inventory`, "optimism", "5"],
    [`https://testnet.bscscan.com/token/${A}`, undefined, undefined],
    [`https://basescan.org/token/${A}?a=5`, "base", "5"],
    [`https://polygonscan.com/token/${A}?a=0x${"12".repeat(20)}`, "polygon", undefined],
    [`https://eth.blockscout.com/token/${A}/instance/5`, "eth", "5"],
    [`https://base.blockscout.com/token/${A}?tab=inventory`, "base", undefined],
    [`https://looksrare.org/collections/${A}/5`, undefined, "5"],
    [`https://rarible.com/token/polygon/${A}:5`, "polygon", "5"],
    [`https://rarible.com/token/${A}:5`, undefined, "5"],
    [`https://blur.io/eth/asset/${A}/5`, "eth", "5"],
    [`https://magiceden.io/item-details/ethereum/${A}/5`, "eth", "5"],
    [`https://zapper.xyz/nft/base/${A}/5`, "base", "5"],
    [`https://app.uniswap.org/explore/tokens/arbitrum/${A}`, "arbitrum", undefined],
    [`${A}/5`, undefined, "5"],
    [`${A}`, undefined, undefined],
    [`base:${A}`, "base", undefined],
    [`polygon:${MIXED}/0`, "polygon", "0"],
    [`eip155:137/erc721:${A}/5`, "polygon", "5"],
    [` ${A} `, undefined, undefined],
  ])("%s", (text, chain, id) => {
    expect(pastedAddress(text)).toEqual({ address: A, chain, id });
  });

  test("names no address if it has a hash, a part of one, or words", () => {
    for (const text of [`https://etherscan.io/tx/0x${"ab".repeat(32)}`, A.slice(0, 20), "ape", "vitalik.eth"])
      expect([text, pastedAddress(text)]).toEqual([text, undefined]);
  });

  test("has the words of a market's link to a collection, and else its own", () => {
    expect(searchedWords("https://opensea.io/collection/boredapeyachtclub?tab=items")).toBe("boredapeyachtclub");
    expect(searchedWords("bored ape")).toBe("bored ape");
  });
});

describe("a name", () => {
  const [ZWJ, ZWNJ] = ["\u200d", "\u200c"];
  const FAMILY = ["👩", "👩", "👧"].join(ZWJ);

  test("keeps the joiners of emoji and of Persian", () => {
    expect(plain(`Crew ${FAMILY}`)).toBe(`Crew ${FAMILY}`);
    expect(plain(`می${ZWNJ}خواهم`)).toBe(`\u2068می${ZWNJ}خواهم\u2069`);
  });

  test("has no character that turns its neighbours or ends the line", () => {
    expect(plain("a\u202eb\u2066c\u061cd\ne")).toBe("a·b·c·d·e");
  });

  test("is cut between letters as people count them", () => {
    expect(plain(FAMILY.repeat(3), 2)).toBe(`${FAMILY.repeat(2)}…`);
    expect(cutInside(FAMILY.repeat(9), 5)).toBe(`${FAMILY.repeat(2)}…${FAMILY.repeat(2)}`);
  });
});
