import { describe, expect, test } from "bun:test";
import { CHAINS, chainById, DEFAULT_CHAIN, dollarsAt, envSuffix, parseChain } from "../../src/chains/chains.ts";
import { isReference, referenceTokens } from "../../src/chains/tokens.ts";

describe("the chain selector", () => {
  test("accepts the twelve chains by name and by code, in any case", () => {
    expect(CHAINS.map((chain) => [chain.name, chain.code])).toEqual([
      ["eth", "0x1"],
      ["goerli", "0x5"],
      ["sepolia", "0xaa36a7"],
      ["polygon", "0x89"],
      ["mumbai", "0x13881"],
      ["bsc", "0x38"],
      ["bsc testnet", "0x61"],
      ["avalanche", "0xa86a"],
      ["fantom", "0xfa"],
      ["palm", "0x2a15c308d"],
      ["cronos", "0x19"],
      ["arbitrum", "0xa4b1"],
    ]);
    for (const chain of CHAINS) {
      expect(Number(chain.code)).toBe(chain.chainId);
      expect(chainById(chain.chainId)).toBe(chain);
      for (const text of [chain.name, chain.code, chain.name.toUpperCase(), `0x${chain.code.slice(2).toUpperCase()}`]) {
        expect(parseChain(text)).toBe(chain);
      }
    }
    expect(DEFAULT_CHAIN.name).toBe("eth");
  });

  test("refuses any other text", () => {
    for (const text of ["", "1", "0x01", "ethereum", "bsc_testnet", " eth", "0x2", "constructor", "__proto__"]) {
      expect(parseChain(text)).toBeUndefined();
    }
  });

  test("gives each chain a name for its environment variables", () => {
    expect(CHAINS.map(envSuffix)).toContain("BSC_TESTNET");
    expect(envSuffix(DEFAULT_CHAIN)).toBe("ETH");
  });
});

describe("tokens", () => {
  test("have distinct addresses on each chain", () => {
    for (const chain of CHAINS) {
      const addresses = referenceTokens(chain).map((token) => token.address);
      expect(new Set(addresses).size).toBe(addresses.length);
      expect(addresses.every((address) => isReference(chain, address))).toBe(true);
    }
  });

  test("count as dollars only before the moment at which they lost their peg", () => {
    const fantom = parseChain("fantom")!;
    expect(dollarsAt(fantom, 1_688_601_599)).toHaveLength(6);
    expect(dollarsAt(fantom, 1_688_601_600).map((coin) => coin.symbol)).toEqual([
      "axlUSDC",
      "USDC (Stargate/LayerZero)",
      "USDT (Stargate/LayerZero)",
    ]);
  });
});
