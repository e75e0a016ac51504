import { describe, expect, test } from "bun:test";
import { AbiCoder, getCreate2Address, keccak256, solidityPackedKeccak256 } from "ethers";
import { CHAINS, Chains } from "../../src/chains/chains.ts";
import { DEPLOYMENTS, deploymentOf, EXCHANGES, exchangesOf, parseExchange } from "../../src/chains/exchanges.ts";
import { toAddress } from "../../src/core/hex.ts";
import knownPools from "../fixtures/known-pools.json";
import { KNOWN } from "../support/known-chains.ts";

interface KnownPool {
  readonly standin: string;
  readonly chain: string;
  readonly pool: string;
  readonly tokens: readonly string[];
  readonly fee?: number;
}

describe("deployments", () => {
  test.each(knownPools as readonly KnownPool[])("$standin on $chain creates pool $pool by CREATE2", (known) => {
    const deployment = DEPLOYMENTS.find(
      (entry) => entry.exchange.standin === known.standin && entry.chain === known.chain,
    )!;
    const [token0, token1] = known.tokens.map((token) => token.toLowerCase()).sort() as [string, string];
    const salt =
      known.fee === undefined
        ? solidityPackedKeccak256(["address", "address"], [token0, token1])
        : keccak256(AbiCoder.defaultAbiCoder().encode(["address", "address", "uint24"], [token0, token1, known.fee]));
    expect(toAddress(getCreate2Address(deployment.factory, salt, deployment.initCodeHash!))).toBe(
      toAddress(known.pool),
    );
    if (known.fee !== undefined) expect(deployment.fees).toContain(known.fee);
  });

  test("exist for each of the twelve exchanges, once per chain, on known chains only", () => {
    for (const exchange of EXCHANGES) expect(DEPLOYMENTS.some((entry) => entry.exchange === exchange)).toBe(true);
    const keys = DEPLOYMENTS.map((entry) => `${entry.exchange.displayName} ${entry.chain}`);
    expect(new Set(keys).size).toBe(keys.length);
    expect(DEPLOYMENTS.every((entry) => KNOWN.parse(entry.chain) !== undefined)).toBe(true);
  });

  test("with two names for one factory are listed once", () => {
    const polygon = exchangesOf(KNOWN.parse("polygon")!);
    expect(polygon.map((entry) => entry.exchange.realName)).toEqual([
      ...["uniswapv2", "uniswapv3", "sushiswapv2", "quickswap"],
      ...["uniswapv4", "sushiswapv3", "quickswapv3"],
    ]);
    const [quickswap, quickswapV2] = ["quickswap", "quickswapv2"].map(
      (name) => deploymentOf(EXCHANGES.find((entry) => entry.realName === name)!, KNOWN.parse("polygon")!)!,
    );
    expect(quickswap!.factory).toBe(quickswapV2!.factory);
  });

  test("are listed for every chain in the documented order", () => {
    for (const chain of CHAINS) {
      const ranks = exchangesOf(chain).map((entry) => entry.exchange.rank);
      expect(ranks).toEqual([...ranks].sort((a, b) => a - b));
    }
  });
});

describe("the exchange parameter", () => {
  test("accepts stand-ins, real names and display names, in any case and without regard to separators", () => {
    for (const exchange of EXCHANGES) {
      const spellings = [exchange.standin, exchange.realName, exchange.realName.toUpperCase(), exchange.displayName];
      for (const text of spellings) {
        expect(parseExchange(text, KNOWN.all)).toEqual({ kind: "listed", exchange });
      }
    }
    const sushi = { kind: "listed", exchange: EXCHANGES[2]! } as const;
    for (const text of ["sushiswap", "Sushi-Swap", "sushiswap_v2", "dexb-V2"])
      expect(parseExchange(text, KNOWN.all)).toEqual(sushi);
  });

  test("accepts a factory's address, but not with a wrong checksum", () => {
    const factory = "0x5C69bEe701ef814a2B6a3EDD4B1652CB9cc5aA6f";
    expect(parseExchange(factory, KNOWN.all)).toEqual({ kind: "factory", factory: toAddress(factory) });
    expect(parseExchange(factory.replace("C69b", "c69b"), KNOWN.all)).toBeUndefined();
  });

  test("names one exchange on all chains, however an operator's entries spell it", () => {
    const added = ["Uniswap V3", "Land-Swap", "landswap"].map((name, at) => ({
      ...{ name: `land ${at}`, chainId: 424_242 + at, blockSeconds: 2, finalityDepth: 16 },
      native: { name: "Acre", symbol: "ACR", decimals: 18 },
      wrappedNative: { symbol: "WACR", address: `0x${"1a".repeat(20)}`, decimals: 18 },
      exchanges: [{ name, style: "v3" as const, factory: `0x${"3c".repeat(20)}` }],
    }));
    const chains = new Chains({ added });
    const factoryOn = (text: string, chain: string) => {
      const choice = parseExchange(text, chains.all);
      return choice?.kind === "listed" && deploymentOf(choice.exchange, chains.parse(chain)!)?.factory;
    };
    expect(parseExchange("uniswapv3", chains.all)).toEqual({ kind: "listed", exchange: EXCHANGES[1]! });
    expect(factoryOn("uniswapv3", "eth")).toBe(deploymentOf(EXCHANGES[1]!, CHAINS[0]!)!.factory);
    for (const [text, chain] of [
      ["uniswapv3", "land 0"],
      ["landswap", "land 1"],
      ["Land Swap", "land 2"],
    ] as const)
      expect(factoryOn(text, chain)).toBe(toAddress(`0x${"3c".repeat(20)}`));
  });

  test("refuses any other text", () => {
    for (const text of ["", "uniswap", "dexa", "dexa_v4", "0x12", "constructor"])
      expect(parseExchange(text, KNOWN.all)).toBeUndefined();
  });
});
