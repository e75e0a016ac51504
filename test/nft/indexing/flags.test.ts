/** The flag rules: which words match, which must not, how lists override them, and the shape of an airdrop. */

import { describe, expect, test } from "bun:test";
import { CHAINS } from "../../../src/chains/chains.ts";
import type { Address } from "../../../src/core/hex.ts";
import { decodeTransfers, TransferKind } from "../../../src/events/columns.ts";
import { parseFlagList } from "../../../src/nft/collections/flag-list.ts";
import type { FlagLists } from "../../../src/nft/collections/operator-lists.ts";
import { isAirdropShaped } from "../../../src/nft/indexing/airdrop-shape.ts";
import { judge, ruleOfWords } from "../../../src/nft/indexing/word-rules.ts";
import { Ledger } from "../../../src/nft/ledger/ledger.ts";
import { NO_LISTS } from "../../support/following.ts";
import { KNOWN } from "../../support/known-chains.ts";
import { columnsOf, type ModelTransfer } from "../../support/naive-ledger.ts";
import { turnsDuring } from "../../support/turns.ts";

describe("words", () => {
  test.each([
    ["https://example.test", "url"],
    ["Rewards at usdcgift.com", "url"],
    ["$1000 at ETH-DROP.XYZ!", "url"],
    ["ｂｌｕｒｐａｓｓ．ｉｏ", "url"],
    ["ape[.]claims", "url"],
    ["a\u200bpe\u200bcoin.o\u0301rg", "url"],
    ["lidо-pass.соm", "url"],
    ["t.me/free", "url"],
    ["bit.ly/xyz", "url"],
    ["Visit our page to redeem", "visit"],
    ["Go to the vault and claim", "visit"],
    ["Claim your prize", "claim"],
    ["СLАIM FREE NFT", "claim"],
    ["Open to claim", "claim"],
    ["Claim: 500 APE", "claim"],
    ["Claim", "claim"],
    ["Summer Airdrop", "airdrop"],
    ["AIR DROP #2", "airdrop"],
    ["Giveaway", "airdrop"],
    ["5,000 USDC Voucher", "reward"],
    ["Reward of $250", "reward"],
  ])("are flagged in %s", (words, rule) => {
    expect(ruleOfWords({ name: words, symbol: "" })).toBe(`name-${rule}`);
    expect(ruleOfWords({ name: "Plain", symbol: words })).toBe(`symbol-${rule}`);
  });

  test.each(
    [
      ...[
        "",
        "Bored Ape Yacht Club",
        "CryptoPunks",
        "Art Blocks",
        "zed.run",
        "Ether.Cards",
        "Mr. Net",
        "Vol.2",
        "S.T.O.R.E",
      ],
      ...["Landclaim", "Claimants", "Proclaim", "The Reclaimed", "Airdropper", "Visitors", "Visit Mars", "Hairdrop"],
      ...[
        "Gift Horse",
        "Reward Hunters",
        "1 ETH Club",
        "$100 Bill",
        "Clément's Ærial",
        "Кошки",
        "猫。",
        "count.me.in",
        "no. 1 com",
      ],
    ].map((words) => [words]),
  )("are not flagged in %p", (words) => {
    expect(ruleOfWords({ name: words, symbol: words })).toBe("");
  });

  test("handles a hostile name quickly", () => {
    const started = performance.now();
    for (const part of ["1,", "a.", "$1 ", "visit to ", "gift ", "go to to ", "a-", "claim "]) {
      ruleOfWords({ name: part.repeat(128).slice(0, 256), symbol: "" });
    }
    expect(performance.now() - started).toBeLessThan(1_000);
  });
});

const address = `0x${"ab".repeat(20)}` as Address;
const facts = { chainId: 1, address, wordRule: "", shapeRule: "" };
const listing = (spam: boolean, verified: boolean): FlagLists => ({
  isSpam: (chainId, of) => spam && chainId === 1 && of === address,
  isVerified: (chainId, of) => verified && chainId === 1 && of === address,
});

describe("the decision", () => {
  const judged = (words: string, shape: string, lists: FlagLists) => {
    const { possibleSpam, verifiedCollection, rule } = judge({ ...facts, wordRule: words, shapeRule: shape }, lists);
    return [possibleSpam, verifiedCollection, rule];
  };

  test("sets no flag without a rule, prefers the operator's list to the rules, and sets each list's own flag", () => {
    expect(judged("", "", NO_LISTS)).toEqual([false, false, ""]);
    expect(judged("name-url", "", NO_LISTS)).toEqual([true, false, "name-url"]);
    expect(judged("name-url", "airdrop-shape", NO_LISTS)).toEqual([true, false, "name-url,airdrop-shape"]);
    expect(judged("", "", listing(true, false))).toEqual([true, false, "spam-list"]);
    expect(judged("name-url", "airdrop-shape", listing(false, true))).toEqual([false, true, "verified-list"]);
    expect(judged("", "", listing(true, true))).toEqual([true, true, "spam-list,verified-list"]);
    expect(judge({ ...facts, chainId: 56 }, listing(true, true)).rule).toBe("");
  });
});

describe("a list", () => {
  const checksummed = "0xBC4CA0EdA7647A8aB7C2061c2E118A18a936f13D";
  const lower = checksummed.toLowerCase() as Address;

  test("accepts addresses for all chains or one, comments, blank lines, either case and any line ending", () => {
    const text = `\ufeff# known\r\n\r\n${checksummed}  # apes\r\nBSC Testnet , 0x${"AB".repeat(20)}\r0x89,${lower.toUpperCase().replace("0X", "0x")}\n`;
    const { list, problems } = parseFlagList(text, KNOWN);
    expect(problems).toEqual([]);
    expect(list.size).toBe(3);
    for (const { name } of CHAINS) expect(list.find(name, lower)).toBe(true);
    expect(["bsc testnet", "bsc", "eth"].map((chain) => list.find(chain, address))).toEqual([
      true,
      undefined,
      undefined,
    ]);
    expect(parseFlagList("", KNOWN).list.size).toBe(0);
  });

  test("reports the errors of the first wrong lines with their numbers", () => {
    const wrong = checksummed.replace("BC4C", "bC4C");
    const { problems } = parseFlagList(
      `${lower}\n0x12\nmars,${lower}\n${wrong}\n${lower},eth\neth,\n1 ${lower}`,
      KNOWN,
    );
    expect(problems.map((problem) => problem.slice(0, 7))).toEqual([2, 3, 4, 5, 6, 7].map((line) => `line ${line}:`));
    expect(problems[1]).toContain("bsc testnet");
    expect(parseFlagList("x\n".repeat(1_000), KNOWN).problems.length).toBeLessThan(12);
  });
});

describe("the shape of an airdrop", () => {
  const ledgerOf = (transfers: readonly ModelTransfer[]) => {
    const ledger = new Ledger();
    ledger.apply(decodeTransfers(columnsOf(transfers)));
    return ledger;
  };
  const drop = (receivers: number, perBlock: number, kind: TransferKind): ModelTransfer[] =>
    Array.from({ length: receivers }, (_, i) => ({
      kind,
      block: Math.floor(i / perBlock),
      from: 0,
      to: i + 1,
      id: kind === TransferKind.erc1155 ? 0n : BigInt(i),
      amount: 1n,
    }));

  test.each([["ERC-721", TransferKind.erc721] as const, ["ERC-1155", TransferKind.erc1155] as const])(
    "is recognised for %s",
    async (_, kind) => {
      const shaped = (transfers: readonly ModelTransfer[]) => isAirdropShaped(ledgerOf(transfers));
      expect(await shaped(drop(400, 100, kind))).toBe(true);
      // Too few receivers, or a pace that ordinary mints reach.
      expect(await shaped(drop(150, 150, kind))).toBe(false);
      expect(await shaped(drop(400, 20, kind))).toBe(false);
      // Many tokens to a few accounts, like a batch mint for a team.
      expect(await shaped(drop(400, 100, kind).map((t) => ({ ...t, to: 1 + (t.to % 5) })))).toBe(false);
      // Tokens that were traded afterwards.
      const sold = drop(400, 100, kind)
        .slice(0, 40)
        .map((t) => ({ ...t, block: 9, from: t.to, to: 1_000 + t.to }));
      expect(await shaped([...drop(400, 100, kind), ...sold])).toBe(false);
    },
  );

  test("is searched for in slices in a long history", async () => {
    const all = drop(140_000, 100, TransferKind.erc1155);
    const ledger = new Ledger();
    for (let at = 0; at < all.length; at += 500) ledger.apply(decodeTransfers(columnsOf(all.slice(at, at + 500))));
    const { value, turns } = await turnsDuring(() => isAirdropShaped(ledger));
    expect(value).toBe(true);
    expect(turns).toBeGreaterThanOrEqual(4);
  });

  test("is not seen in an id range to one receiver", async () => {
    expect(
      await isAirdropShaped(ledgerOf([{ kind: TransferKind.range, block: 0, from: 0, to: 1, id: 0n, amount: 900n }])),
    ).toBe(false);
    expect(await isAirdropShaped(new Ledger())).toBe(false);
  });
});
