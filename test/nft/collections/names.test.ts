/** Names for contracts that return none: the operator's file, and a few that ship with the service. */

import { describe, expect, test } from "bun:test";
import { CHAINS } from "../../../src/chains/chains.ts";
import type { Address } from "../../../src/core/hex.ts";
import { KNOWN_NAMES, knownName } from "../../../src/nft/collections/known-names.ts";
import { parseNameList } from "../../../src/nft/collections/name-list.ts";
import { KNOWN } from "../../support/known-chains.ts";

const APES = "0xBC4CA0EdA7647A8aB7C2061c2E118A18a936f13D";
const lower = APES.toLowerCase() as Address;
const other = `0x${"ab".repeat(20)}` as Address;

describe("a list of names", () => {
  test("accepts a chain, an address, a name and a symbol, of which chain and symbol are optional", () => {
    const text = `\ufeff# known\r\n\r\n${APES}, Bored Apes , BAYC\r\n0x89,${lower},Apes on Polygon\n${other},Punk #1`;
    const { list, problems } = parseNameList(text, KNOWN);
    expect(problems).toEqual([]);
    expect(list.size).toBe(3);
    for (const { chainId } of CHAINS.filter((chain) => chain.chainId !== 137)) {
      expect(list.find(chainId, lower)).toEqual({ name: "Bored Apes", symbol: "BAYC" });
    }
    expect(list.find(137, lower)).toEqual({ name: "Apes on Polygon", symbol: "" });
    expect(list.find(1, other)).toEqual({ name: "Punk #1", symbol: "" });
    expect(list.find(1, `0x${"cd".repeat(20)}` as Address)).toBeUndefined();
  });

  test("accepts quoted values with commas, as spreadsheets write them", () => {
    const { list, problems } = parseNameList(`${other},"Apes, ""bored"" ones","A,B"`, KNOWN);
    expect([problems, list.find(1, other)]).toEqual([[], { name: 'Apes, "bored" ones', symbol: "A,B" }]);
  });

  test("reports the errors of wrong lines with their numbers", () => {
    const lines = [
      `${lower}`,
      `mars,${lower},Apes`,
      "0x12,Apes",
      `${lower},`,
      `${lower},Apes,B,C`,
      `${lower},"Apes`,
      `${lower},${"x".repeat(257)}`,
      `${lower},a\u0007b`,
    ];
    const { problems } = parseNameList(lines.join("\n"), KNOWN);
    expect(problems.map((problem) => problem.slice(0, 7))).toEqual(lines.map((_, index) => `line ${index + 1}:`));
    expect(problems[1]).toContain("bsc testnet");
    expect(parseNameList("x\n".repeat(1_000), KNOWN).problems.length).toBeLessThan(12);
  });
});

test("every shipped name cites a source", () => {
  expect(knownName(1, "0xb47e3cd837ddf8e4c57f05d70ab865de6e193bbb" as Address)?.name).toBe("CryptoPunks");
  expect(knownName(1, "0x57f1887a8bf19b14fc0df6fd9b2acc9af147ea85" as Address)?.symbol).toBe("ENS");
  expect(knownName(137, "0x57f1887a8bf19b14fc0df6fd9b2acc9af147ea85" as Address)).toBeUndefined();
  for (const { address, source, chains } of KNOWN_NAMES) {
    expect(address).toMatch(/^0x[0-9a-f]{40}$/);
    expect(source).toMatch(/^https:\/\//);
    for (const chainId of chains) expect(CHAINS.some((chain) => chain.chainId === chainId)).toBe(true);
  }
});
