/** The parameters of a price, parsed as the route does. */

import { PRICE_QUERY, priceParameters } from "../../../src/api/routes/price-parameters.ts";
import { parseQuery } from "../../../src/api/wire/parameters.ts";
import { KNOWN } from "../known-chains.ts";

/** A query string. A repeated parameter is a list. */
export type RawPriceQuery = Readonly<Record<string, string | readonly string[] | undefined>>;

/** @throws Refusal that names the parameter */
export function parsePriceQuery(raw: RawPriceQuery) {
  const search = new URLSearchParams();
  for (const [name, given] of Object.entries(raw)) {
    for (const text of [given ?? []].flat()) search.append(name, text);
  }
  return priceParameters(parseQuery(search.toString(), PRICE_QUERY, KNOWN));
}
