/** Quotes a token at a chain's head over pools that the test has made, from one read of the node. */
import type { Chain } from "../../../src/chains/chains.ts";
import type { Address } from "../../../src/core/hex.ts";
import type { Pool } from "../../../src/prices/market/pools.ts";
import { type Quote, quote } from "../../../src/prices/market/quote.ts";
import { rational } from "../../../src/prices/market/rational.ts";
import { planMarket } from "../../../src/prices/search/discovery.ts";
import type { ChainReader } from "../../../src/rpc/port.ts";

export async function quotedOver(
  reader: ChainReader,
  chain: Chain,
  token: Address,
  pools: readonly Pool[],
): Promise<Quote> {
  const plan = planMarket(chain, [token], pools);
  const { header, results } = await reader.callsAtHead(plan.calls);
  const { reads, facts, decimals } = plan.read(results);
  const place = { block: header.number, blockHash: header.hash, timestamp: header.timestamp };
  const states = reads.flatMap(({ pool, reading, balance0, balance1 }) =>
    reading === undefined ? [] : [[pool.id, { reading, balance0: balance0!, balance1: balance1!, ...place }] as const],
  );
  const market = {
    ...{ chain, block: header, pools: reads.map(({ pool }) => pool), states: new Map(states) },
    ...{ facts: facts.get(token)!, decimals, factsOf: "block" as const, isPast: false },
  };
  return quote(market, { token, floor: rational(1n), accepts: () => true, isNamed: false, isPast: false });
}
