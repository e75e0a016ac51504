/**
 * The fold of `verify` for prices: each stored price is computed again from the states stored with it, and compared with the
 * figures that were answered.
 */
import type { Chains } from "../chains/chains.ts";
import {
  type PriceBookEvent,
  type PriceEvent,
  parseStream,
  priceBookStream,
  type StreamName,
} from "../events/types.ts";
import type { EventLog } from "../log/event-log.ts";
import { confidence } from "../prices/market/quote.ts";
import { toDouble } from "../prices/market/rational.ts";
import { PriceBook } from "../prices/stored/price-book.ts";
import { PriceHistory } from "../prices/stored/price-history.ts";
import { nativeUnits, storedQuote } from "../prices/stored/stored-quotes.ts";
import type { Folding } from "./folding.ts";

/** Folds the heads at which prices were read. */
export function bookFolding(): Folding {
  const book = new PriceBook();
  return {
    fold: ({ event, version }) => book.evolve(event as PriceBookEvent, version),
    end: () => ` heads=${book.size} last=${book.last ?? "none"}`,
  };
}

/** Folds the prices of a token. */
export function priceFolding(log: EventLog, stream: StreamName, chains: Chains): Folding {
  const history = new PriceHistory();
  return {
    fold: ({ event, version }) => history.evolve(event as PriceEvent, version),
    end: async () => {
      const { agreeing, alone } = await recomputed(log, stream, history, chains);
      const without = alone === 0 ? "" : ` without-head=${alone}`;
      return history.size === 0 ? "" : ` prices=${history.size} recomputed=${agreeing}${without}`;
    },
  };
}

/** @throws Error naming the block of a price that differs from what its states give */
async function recomputed(log: EventLog, stream: StreamName, history: PriceHistory, chains: Chains) {
  const parsed = parseStream(stream);
  const chain = chains.byId(parsed.chainId);
  const counts = { agreeing: 0, alone: 0 };
  if (history.size === 0 || chain === undefined || !("address" in parsed)) return counts;
  const book = await bookOf(log, parsed.chainId);
  for (let row = 0; row < history.size; row++) {
    const price = history.price(row);
    const head = book.headAt(price.block);
    const facts = history.factsOf(row);
    // Its block was never shown, is lost, or was thinned out.
    if (head === undefined || head.hash !== price.hash || facts === undefined) {
      counts.alone++;
      continue;
    }
    const at = { chain, token: parsed.address, facts, pools: history.pools, head, coinPools: book.pools };
    const quote = storedQuote(price, at);
    if (quote === undefined)
      throw new Error(`the price at block ${price.block} rests on an exchange that is not known`);
    const figures = [toDouble(quote.usd), nativeUnits(quote), toDouble(confidence(quote))];
    const stored = [price.usd, price.native, price.confidence];
    if (figures.some((figure, at) => figure !== stored[at])) {
      throw new Error(`the price at block ${price.block} is ${stored[0]}, and its states give ${figures[0]}`);
    }
    counts.agreeing++;
  }
  return counts;
}

/** The newest book that was read, since all tokens of a chain need it. */
const books = new WeakMap<EventLog, { readonly chainId: number; readonly book: PriceBook }>();

async function bookOf(log: EventLog, chainId: number): Promise<PriceBook> {
  const kept = books.get(log);
  if (kept?.chainId === chainId) return kept.book;
  const book = new PriceBook();
  for (;;) {
    const page = await log.read(priceBookStream(chainId), { from: book.version + 1 });
    if (page.length === 0) break;
    for (const { event, version } of page) book.evolve(event as PriceBookEvent, version);
  }
  books.set(log, { chainId, book });
  return book;
}
