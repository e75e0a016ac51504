/** The connectors against recorded data of the packages that they cite. */
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import data from "../../src/chains/chains.json" with { type: "json" };
import { CHAINS, CONTRACT_CHAINS } from "../../src/chains/chains.ts";
import type { ChainEntry } from "../../src/chains/entry.ts";
import { exchangesOf, isAmongTwelve } from "../../src/chains/exchanges.ts";
import { CONNECTOR_SOURCES, isMoney, isReference, isReferencePair } from "../../src/chains/tokens.ts";

/** Symbol and decimals by chain, address and source. */
type Said = Readonly<Record<string, Readonly<Record<string, Readonly<Record<string, [string, number | null]>>>>>>;

interface Recorded {
  readonly packages: Readonly<Record<string, string>>;
  readonly chains: Said;
  readonly stablecoins: Said;
}

const recorded = (await Bun.file(join(import.meta.dir, "../fixtures/connectors.json")).json()) as Recorded;
/** The contract's chains, whose connectors are compared with recorded data of their sources. */
const OWN = CONTRACT_CHAINS;
const entries = new Map((data as readonly ChainEntry[]).map((entry) => [entry.name, entry]));
const rows = OWN.flatMap((chain) => (entries.get(chain.name)!.connectors ?? []).map((row) => ({ chain, row })));

test("a stablecoin has the decimals that each publisher states, and at least two publishers unless on a testnet", () => {
  const single: string[] = [];
  for (const chain of OWN) {
    for (const { symbol, address, decimals } of chain.stablecoins) {
      const said = Object.entries(recorded.stablecoins[chain.name]![address]!);
      for (const [source, [, places]] of said) expect([symbol, source, places]).toEqual([symbol, source, decimals]);
      if (said.length < 2) single.push(`${chain.name} ${symbol}`);
    }
  }
  expect(single).toEqual(["sepolia USDC", "bsc testnet BUSD", "bsc testnet USDC", "bsc testnet USDT", "palm DAI"]);
});

describe("a connector", () => {
  test("has an address and decimals that at least two publishers state", () => {
    expect(recorded.packages).toEqual(CONNECTOR_SOURCES);
    for (const { chain, row } of rows) {
      const { symbol, address, decimals, sources: cited = [] } = row;
      expect([symbol, new Set(cited).size >= 2]).toEqual([symbol, true]);
      const said = recorded.chains[chain.name]![address]!;
      expect([symbol, Object.keys(said).sort()]).toEqual([symbol, cited.toSorted()]);
      for (const [source, [, places]] of Object.entries(said)) {
        expect([symbol, source, places ?? decimals]).toEqual([symbol, source, decimals]);
      }
    }
  });

  test("of a chain that came later names two publishers, too", () => {
    for (const { name, connectors = [] } of entries.values()) {
      if (OWN.some((chain) => chain.name === name)) continue;
      for (const { symbol, sources = [] } of connectors)
        expect([name, symbol, new Set(sources).size >= 2]).toEqual([name, symbol, true]);
    }
  });

  test("is listed once per chain, and is neither the native coin nor a stablecoin", () => {
    for (const chain of CHAINS) {
      const addresses = chain.connectors.map(({ address }) => address);
      expect(new Set(addresses).size).toBe(addresses.length);
      expect(addresses.length).toBeLessThanOrEqual(20);
      for (const address of addresses) {
        expect([isMoney(chain, address), isReference(chain, address)]).toEqual([false, true]);
        expect(isReferencePair(chain, address, chain.wrappedNative.address)).toBe(true);
        expect(addresses.some((other) => isReferencePair(chain, address, other))).toBe(false);
      }
    }
  });

  test("includes the coin of each exchange on the chain if two publishers list it", () => {
    const coins: Readonly<Record<string, string>> = {
      uniswapv2: "UNI",
      uniswapv3: "UNI",
      sushiswapv2: "SUSHI",
      pancakeswapv1: "CAKE",
      pancakeswapv2: "CAKE",
      quickswap: "QUICK",
      quickswapv2: "QUICK",
      traderjoe: "JOE",
      pangolin: "PNG",
      spookyswap: "BOO",
      vvs: "VVS",
      camelotv2: "GRAIL",
    };
    // The hosted service had prices for these chains.
    const priced = ["eth", "polygon", "bsc", "avalanche", "fantom", "cronos", "arbitrum"];
    const missing = CHAINS.filter(({ name }) => priced.includes(name)).flatMap((chain) => {
      const symbols = chain.connectors.map(({ symbol }) => symbol.replace(/\.e$/, ""));
      const own = exchangesOf(chain).filter(({ exchange }) => isAmongTwelve(exchange));
      const wanted = own.map(({ exchange }) => coins[exchange.realName]!);
      return [...new Set(wanted)].filter((coin) => !symbols.includes(coin)).map((coin) => `${chain.name} ${coin}`);
    });
    expect(missing).toEqual([]);
  });
});
