/** GET /api/v2/erc20/:address/price: parameters to the price service of the chain. */
import type { Chain } from "../chains/chains.ts";
import { LIMITS } from "../config.ts";
import type { Clock } from "../core/clock.ts";
import { ApiError } from "../core/errors.ts";
import { within } from "../core/within.ts";
import { parsePriceQuery } from "../prices/query.ts";
import type { Prices } from "../prices/service.ts";
import { answerHeaders, notEnabled } from "./nft.ts";
import { addressOf, chainOf, parseQueryString } from "./query.ts";
import { type RouteAnswer, readyAnswer } from "./ready.ts";
import { jsonHeaders } from "./respond.ts";

export interface PriceRouteDeps {
  pricesOf(chain: Chain): Prices | undefined;
  isHalted(chain: Chain): boolean;
  readonly clock: Clock;
}

export function createPriceRoute(deps: PriceRouteDeps): (search: string, address: string) => Promise<RouteAnswer> {
  return async (search, addressText) => {
    const query = parseQueryString(search);
    const address = addressOf(addressText);
    const chain = chainOf(query);
    const parameters = parsePriceQuery(query);
    const prices = deps.pricesOf(chain);
    if (prices === undefined) throw notEnabled(chain);
    const { body, asOf, finality } = await inTime(prices.answer({ address, ...parameters }), chain, deps.clock);
    const facts = { block: asOf.number, hash: asOf.hash, time: asOf.timestamp, finalized: finality === "finalized" };
    const isHalted = deps.isHalted(chain);
    const answer = readyAnswer(body, 200, jsonHeaders(answerHeaders(facts, isHalted)));
    const still = prices.stillCurrent({ address, ...parameters }, asOf);
    return { answer, isCurrent: still && (() => deps.isHalted(chain) === isHalted && still()) };
  };
}

/** What comes while the client can still be told. What does not is worked on: who asks again shares it. @throws ApiError 503 */
async function inTime<T>(answering: Promise<T>, { name }: Chain, clock: Clock): Promise<T> {
  const answered = await within(clock, LIMITS.answerMs, answering);
  if (answered !== undefined) return answered.value;
  const message = `${name} did not answer within ${LIMITS.answerMs / 1_000} seconds; try again later`;
  throw new ApiError(503, "chain_unavailable", message, { headers: { "retry-after": "5" } });
}
