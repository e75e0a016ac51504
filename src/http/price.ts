/** GET /api/v2/erc20/:address/price: parameters to the price service of the chain. */
import type { Chain } from "../chains/chains.ts";
import { parsePriceQuery } from "../prices/query.ts";
import type { Prices } from "../prices/service.ts";
import { answerHeaders, notEnabled } from "./nft.ts";
import { addressOf, chainOf, parseQueryString } from "./query.ts";
import { type RouteAnswer, readyAnswer } from "./ready.ts";
import { jsonHeaders } from "./respond.ts";

export interface PriceRouteDeps {
  pricesOf(chain: Chain): Prices | undefined;
  isHalted(chain: Chain): boolean;
}

export function createPriceRoute(deps: PriceRouteDeps): (search: string, address: string) => Promise<RouteAnswer> {
  return async (search, addressText) => {
    const query = parseQueryString(search);
    const address = addressOf(addressText);
    const chain = chainOf(query);
    const parameters = parsePriceQuery(query);
    const prices = deps.pricesOf(chain);
    if (prices === undefined) throw notEnabled(chain);
    const { body, asOf, finality } = await prices.answer({ address, ...parameters });
    const facts = { block: asOf.number, hash: asOf.hash, finalized: finality === "finalized" };
    const isHalted = deps.isHalted(chain);
    const answer = readyAnswer(body, 200, jsonHeaders(answerHeaders(facts, isHalted)));
    const still = prices.stillCurrent({ address, ...parameters }, asOf);
    return { answer, isCurrent: still && (() => deps.isHalted(chain) === isHalted && still()) };
  };
}
