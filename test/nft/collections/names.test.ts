/** Names for contracts that return none: the operator's file, and a few that ship with the service. */

import { describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CHAINS, Chains } from "../../../src/chains/chains.ts";
import { systemClock } from "../../../src/core/clock.ts";
import type { Address, Hash } from "../../../src/core/hex.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { KNOWN_NAMES, knownName } from "../../../src/nft/collections/known-names.ts";
import { parseNameList } from "../../../src/nft/collections/name-list.ts";
import { ListFiles } from "../../../src/nft/collections/operator-lists.ts";
import { KNOWN } from "../../support/known-chains.ts";

const APES = "0xBC4CA0EdA7647A8aB7C2061c2E118A18a936f13D";
const lower = APES.toLowerCase() as Address;
const other = `0x${"ab".repeat(20)}` as Address;

test("lists name a contract of a development chain, whose id is read from its node after them", async () => {
  const folder = mkdtempSync(join(tmpdir(), "lists-"));
  const write = async (file: string, text: string) => {
    await Bun.write(join(folder, file), text);
    return { key: file, path: join(folder, file) };
  };
  const chains = new Chains({ hasLocal: true });
  const lists = new ListFiles({
    ...{ chains, clock: systemClock, logger: silentLogger, maxBytes: 1_000, pollMs: 1_000 },
    spam: await write("spam", `local,${lower}`),
    verified: await write("verified", `local,${other}`),
    names: await write("names", `local,${lower},Apes,BAYC`),
  });
  expect(await lists.load()).toEqual([]);
  const { chainId } = chains.placeLocal(`0x${"5a".repeat(32)}` as Hash)!;
  expect([lists.isSpam(chainId, lower), lists.isVerified(chainId, other)]).toEqual([true, true]);
  expect(lists.namesOf(chainId, lower)).toEqual({ name: "Apes", symbol: "BAYC" });
  expect(lists.isSpam(1, lower)).toBeFalse();
  rmSync(folder, { recursive: true });
});

describe("a list of names", () => {
  test("accepts a chain, an address, a name and a symbol, of which chain and symbol are optional", () => {
    const text = `\ufeff# known\r\n\r\n${APES}, Bored Apes , BAYC\r\n0x89,${lower},Apes on Polygon\n${other},Punk #1`;
    const { list, problems } = parseNameList(text, KNOWN);
    expect(problems).toEqual([]);
    expect(list.size).toBe(3);
    for (const { name } of CHAINS.filter((chain) => chain.chainId !== 137)) {
      expect(list.find(name, lower)).toEqual({ name: "Bored Apes", symbol: "BAYC" });
    }
    expect(list.find("polygon", lower)).toEqual({ name: "Apes on Polygon", symbol: "" });
    expect(list.find("eth", other)).toEqual({ name: "Punk #1", symbol: "" });
    expect(list.find("eth", `0x${"cd".repeat(20)}` as Address)).toBeUndefined();
  });

  test("accepts quoted values with commas, as spreadsheets write them", () => {
    const { list, problems } = parseNameList(`${other},"Apes, ""bored"" ones","A,B"`, KNOWN);
    expect([problems, list.find("eth", other)]).toEqual([[], { name: 'Apes, "bored" ones', symbol: "A,B" }]);
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
