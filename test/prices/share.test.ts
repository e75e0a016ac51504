/**
 * The share of tokens without a direct pool that have a price, in markets built from the pairs that exchanges list. It
 * is counted with the connectors of earlier releases, alone and with every listed token in the log, and with the
 * current ones.
 */

import { expect, test } from "bun:test";
import { join } from "node:path";
import type { Chain } from "../../src/chains/chains.ts";
import { exchangesOf } from "../../src/chains/exchanges.ts";
import { isMoney, referenceTokens } from "../../src/chains/tokens.ts";
import type { Address, Hash } from "../../src/core/hex.ts";
import { dollarOf, type Market } from "../../src/prices/market/market.ts";
import type { Observation, Pool } from "../../src/prices/market/pools.ts";
import { floorOf } from "../../src/prices/market/quote.ts";
import { rank } from "../../src/prices/market/ranking.ts";
import { KNOWN } from "../support/known-chains.ts";
import { addressOf } from "../support/prices/fake-chain.ts";

interface Listed {
  readonly pairs: readonly (readonly [string, string])[];
}

const FIXTURE = join(import.meta.dir, "../fixtures/listed-pairs.json");
const listed = (await Bun.file(FIXTURE).json()) as Readonly<Record<"polygon" | "bsc", Listed>>;

/** The connectors of the last release that routed through any token of its log. */
const EARLIER = { polygon: ["WETH", "WBTC"], bsc: ["BTCB", "ETH"] } as const;
/** A million whole tokens on each side of each pair, so that depth decides nothing. */
const HELD = 10n ** 24n;

const symbolsOf = ({ pairs }: Listed): string[] => [...new Set(pairs.flat())];

function addressIn(chain: Chain, symbol: string): Address {
  return referenceTokens(chain).find((token) => token.symbol === symbol)?.address ?? addressOf(symbol);
}

/** The chain's dollar, from the native coin and the first stablecoin of the list, and all listed pairs. */
function marketOf(chain: Chain, list: Listed): Market {
  const { factory, exchange } = exchangesOf(chain)[0]!;
  const block = { number: 1, hash: `0x${"1".repeat(64)}` as Hash, timestamp: 1_650_000_000 };
  const pools = list.pairs.map((pair): Pool => {
    const [token0, token1] = pair.map((symbol) => addressIn(chain, symbol)).sort() as [Address, Address];
    const { displayName, rank: place } = exchange;
    const id = addressOf(`${token0} ${token1}`);
    return {
      id,
      factory,
      style: "v2",
      fee: 3000,
      token0,
      token1,
      exchange: displayName,
      rank: place,
      stableCurve: false,
    };
  });
  const reading = { style: "v2", reserve0: HELD, reserve1: HELD } as const;
  const state: Observation = { reading, block: 1, blockHash: block.hash, timestamp: block.timestamp };
  return {
    chain,
    block,
    pools,
    states: new Map(pools.map((pool) => [pool.id, state])),
    decimals: new Map(symbolsOf(list).map((symbol) => [addressIn(chain, symbol), 18])),
    facts: { name: "", symbol: "", decimals: 18, kind: "erc20" },
    factsOf: "block",
    isPast: false,
  };
}

function share(name: "polygon" | "bsc") {
  const chain = KNOWN.parse(name)!;
  const list = listed[name];
  const market = marketOf(chain, list);
  const floor = floorOf(market);
  const dollar = dollarOf(market, floor);
  const tokens = symbolsOf(list).map((symbol) => addressIn(chain, symbol));
  const isPriced = (connectors: readonly Address[]) => (token: Address) =>
    rank(market, dollar, { isNamed: false, token, floor, accepts: () => true, connectors }).usable.length > 0;
  const others = tokens.filter((token) => !isMoney(chain, token));
  const indirect = others.filter((token) => !isPriced([])(token));
  const priced = (connectors: readonly Address[]): number => indirect.filter(isPriced(connectors)).length;
  return {
    tokens: others.length,
    withoutDirectPool: indirect.length,
    earlierListAlone: priced(EARLIER[name].map((symbol) => addressIn(chain, symbol))),
    earlierWithEveryTokenAsked: priced(tokens),
    fixedList: priced(chain.connectors.map(({ address }) => address)),
  };
}

test("prices 47 of 49 in QuickSwap's list on polygon, where earlier releases priced 28 when fresh and 47 at best", () => {
  expect(share("polygon")).toEqual({
    tokens: 77,
    // The other two trade only with a token that has no direct pool either.
    withoutDirectPool: 49,
    earlierListAlone: 28,
    earlierWithEveryTokenAsked: 47,
    fixedList: 47,
  });
});

test("prices 6 of 6 in PancakeSwap's list on BSC, where earlier releases priced none when fresh and 6 at best", () => {
  expect(share("bsc")).toEqual({
    tokens: 106,
    withoutDirectPool: 6,
    earlierListAlone: 0,
    earlierWithEveryTokenAsked: 6,
    fixedList: 6,
  });
});
