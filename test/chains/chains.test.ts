import { describe, expect, test } from "bun:test";
import { chainOrDefault } from "../../src/api/wire/parameters.ts";
import data from "../../src/chains/chains.json" with { type: "json" };
import {
  CHAINS,
  Chains,
  CONTRACT_CHAINS,
  DEFAULT_CHAIN,
  dollarsAt,
  pricedToken,
  takenBy,
} from "../../src/chains/chains.ts";
import { checkChains } from "../../src/chains/entry.ts";
import { parseExchange } from "../../src/chains/exchanges.ts";
import { isReference, referenceTokens } from "../../src/chains/tokens.ts";
import { envSuffix } from "../../src/chains/trouble.ts";
import { CHAIN_NAMES } from "../../src/client/chain-names.ts";
import { toAddress, ZERO_ADDRESS } from "../../src/core/hex.ts";
import { parseClientMessage } from "../../src/push/client-messages.ts";
import { KNOWN } from "../support/known-chains.ts";

describe("the chain selector", () => {
  test("accepts the twelve chains by name and by code, in any case", () => {
    expect(CONTRACT_CHAINS.map((chain) => [chain.name, chain.code])).toEqual([
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
      expect(KNOWN.byId(chain.chainId)).toBe(chain);
      for (const text of [chain.name, chain.code, chain.name.toUpperCase(), `0x${chain.code.slice(2).toUpperCase()}`]) {
        expect(KNOWN.parse(text)).toBe(chain);
      }
    }
    expect(DEFAULT_CHAIN.name).toBe("eth");
  });

  test("refuses any other text", () => {
    for (const text of [
      "",
      "2",
      "01",
      "0x01",
      "eip155:",
      "eip155:01",
      "eip155:0x1",
      " eth",
      "0x2",
      "constructor",
      "__proto__",
    ]) {
      expect(KNOWN.parse(text)).toBeUndefined();
    }
  });

  test("takes ids in decimal and by CAIP-2, and the names that people type, none of two chains", () => {
    const names: Record<string, string> = {
      ...{ ethereum: "eth", mainnet: "eth", matic: "polygon", bnb: "bsc", avax: "avalanche", op: "optimism" },
      ...{ arb: "arbitrum", "arbitrum one": "arbitrum", bsc_testnet: "bsc testnet", Ethereum: "eth", FTM: "fantom" },
    };
    for (const [text, name] of Object.entries(names)) expect([text, KNOWN.parse(text)?.name]).toEqual([text, name]);
    for (const chain of CHAINS) {
      for (const text of [`${chain.chainId}`, `eip155:${chain.chainId}`, `EIP155:${chain.chainId}`]) {
        expect(KNOWN.parse(text)).toBe(chain);
      }
    }
    const all = CHAINS.flatMap(({ name, aliases = [], code, chainId }) => [name, ...aliases, code, `${chainId}`]);
    expect(all.filter((text, at) => all.indexOf(text) !== at)).toEqual([]);
  });

  test("is an operator's entry for the default chain where a request or a message names none", () => {
    const [entry] = checkChains(JSON.stringify(data.slice(0, 1)), takenBy).entries;
    const chains = new Chains({ added: [{ ...entry!, chainId: 1_337, exchanges: [] }] });
    const replaced = chains.parse("eth")!;
    expect(replaced.chainId).toBe(1_337);
    expect(chainOrDefault.parse([], "chain", chains)).toBe(replaced);
    const message = JSON.stringify({ action: "subscribe", address: ZERO_ADDRESS });
    expect(parseClientMessage(message, chains)).toMatchObject({ chain: replaced });
    expect(chains.isInContract(replaced)).toBeTrue();
  });

  test("prices the placeholders of a native coin as the wrapped coin, and nothing else", () => {
    const [eth, polygon, zksync] = ["eth", "polygon", "zksync"].map((name) => KNOWN.parse(name)!);
    const ofPolygon = toAddress(`0x${"1010".padStart(40, "0")}`);
    const ofZksync = toAddress(`0x${"800a".padStart(40, "0")}`);
    for (const chain of CHAINS) {
      for (const address of [toAddress(`0x${"e".repeat(40)}`), ZERO_ADDRESS]) {
        expect(pricedToken(chain, address)).toBe(chain.wrappedNative.address);
      }
    }
    expect(pricedToken(polygon!, ofPolygon)).toBe(polygon!.wrappedNative.address);
    expect(pricedToken(zksync!, ofZksync)).toBe(zksync!.wrappedNative.address);
    for (const address of [ofPolygon, ofZksync]) expect(pricedToken(eth!, address)).toBe(address);
  });

  test("gives each chain a name for its environment variables", () => {
    expect(CHAINS.map(({ name }) => envSuffix(name))).toContain("BSC_TESTNET");
    expect(envSuffix(DEFAULT_CHAIN.name)).toBe("ETH");
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
    const fantom = KNOWN.parse("fantom")!;
    expect(dollarsAt(fantom, 1_688_601_599)).toHaveLength(6);
    expect(dollarsAt(fantom, 1_688_601_600).map((coin) => coin.symbol)).toEqual([
      "axlUSDC",
      "USDC (Stargate/LayerZero)",
      "USDT (Stargate/LayerZero)",
    ]);
  });
});

describe("the built-in data", () => {
  test("have the form that an operator's file has, with names and ids of their own", () => {
    const { entries, problems } = checkChains(JSON.stringify(data), takenBy);
    expect(problems).toEqual([]);
    expect(entries).toHaveLength(CHAINS.length);
  });

  test("have the chains of today beside the contract's", () => {
    const names = CHAINS.slice(CONTRACT_CHAINS.length).map(({ name }) => name);
    for (const name of [
      "base",
      "optimism",
      "gnosis",
      "linea",
      "scroll",
      "zksync",
      "blast",
      "mantle",
      "unichain",
      "sonic",
    ])
      expect(names).toContain(name);
    for (const name of ["ronin", "celo", "berachain", "monad", "polygon amoy", "base sepolia"])
      expect(names).toContain(name);
    expect([KNOWN.parse("op")?.name, KNOWN.parse("0x2105")?.name, KNOWN.parse("XDAI")?.name]).toEqual([
      ...["optimism", "base", "gnosis"],
    ]);
  });

  test("give a client the names of all of them", () => {
    expect(CHAIN_NAMES).toEqual(Object.fromEntries(CHAINS.map(({ code, name }) => [code, name])));
  });

  test("name pools of Uniswap v4 and Solidly as their exchanges do", () => {
    expect(parseExchange("Aerodrome", KNOWN.all)).toMatchObject({
      kind: "listed",
      exchange: { displayName: "Aerodrome" },
    });
    expect(parseExchange("uniswap-v4", KNOWN.all)).toMatchObject({ exchange: { displayName: "Uniswap v4" } });
  });
});
