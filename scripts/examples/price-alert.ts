/**
 * Prints a line when a token's price in US dollars crosses a bound. The service tells each change of the price over the
 * socket, so a crossing is seen at its block. Outages are waited out.
 *
 *     SERVICE_KEY=… bun scripts/examples/price-alert.ts 0x1f9840a85d5af5bf1d1762f925bdaddc4201f984 --above 12 --below 8
 */
import { setTimeout as pause } from "node:timers/promises";
import { type Client, type Contract, ServiceError } from "../../src/client/index.ts";
import { runExample, UsageError } from "./command-line.ts";

const USAGE = `usage: SERVICE_KEY=… bun scripts/examples/price-alert.ts ADDRESS [--above USD] [--below USD]
  Prints a line each time the price crosses a bound, and at the start if it is beyond one. Ctrl-C ends it.
  Further options: --chain eth, --url URL`;

/** Wait for a service that is not there, in ms. */
const RETRY_MS = 2_000;
const MAX_USD = 1e15;

export interface AlertOptions {
  readonly client: Client;
  readonly token: Contract;
  /** US dollars. */
  readonly above?: number;
  readonly below?: number;
  /** Ends the alerts. */
  readonly signal?: AbortSignal;
  /** Called with the first price. */
  readonly onFirst?: (price: PriceAt) => void;
  /** Called when the price can't be read for now. */
  readonly onOutage?: (error: ServiceError) => void;
}

export interface PriceAt {
  readonly usdPrice: number;
  readonly symbol: string;
  readonly block: string;
}

export interface PriceAlert extends PriceAt {
  readonly side: "above" | "below";
  readonly bound: number;
}

/**
 * Yields an alert each time the price gets beyond a bound. A price that is beyond one at the start counts, because it
 * may have crossed while the program did not run.
 * @throws ServiceError if the token has no price at the start, or the service refuses the question
 */
export async function* priceAlerts(options: AlertOptions): AsyncGenerator<PriceAlert> {
  const { above = Number.POSITIVE_INFINITY, below = Number.NEGATIVE_INFINITY, onFirst } = options;
  let isFirst = true;
  let last: "above" | "below" | "between" = "between";
  for await (const price of priceReadings(options)) {
    if (isFirst) onFirst?.(price);
    isFirst = false;
    const side = price.usdPrice > above ? "above" : price.usdPrice < below ? "below" : "between";
    if (side !== last && side !== "between")
      yield { ...price, side, bound: (side === "above" ? options.above : options.below) as number };
    last = side;
  }
}

/** Yields the price, and then each change of it, until the signal aborts. */
async function* priceReadings(options: AlertOptions): AsyncGenerator<PriceAt> {
  const { client, token, signal, onOutage } = options;
  const query = { ...(token.chain === undefined ? {} : { chain: token.chain }), ...(signal ? { signal } : {}) };
  const isOver = () => signal?.aborted === true;
  let hasPrice = false;
  while (!isOver()) {
    try {
      const { usdPrice, tokenSymbol: symbol, toBlock } = await client.price(token.address, query);
      hasPrice = true;
      yield { usdPrice, symbol, block: toBlock };
      for await (const message of client.subscribeToPrice(token.address, query)) {
        // A token can lose its liquidity for a while.
        if (message.type !== "price" || message.usdPrice === null) continue;
        yield { usdPrice: message.usdPrice, symbol, block: String(message.block) };
      }
    } catch (error) {
      if (isOver()) return;
      if (!(error instanceof ServiceError) || !isPassing(error, hasPrice)) throw error;
      onOutage?.(error);
    }
    await pause(RETRY_MS, undefined, signal ? { signal } : {}).catch(() => undefined);
  }
}

/** True for an error that may be over soon. A token that had a price can lose its liquidity for a while. */
const isPassing = ({ status }: ServiceError, hasPrice: boolean): boolean =>
  status === 0 || status === 429 || status >= 500 || (status === 404 && hasPrice);

if (import.meta.main) {
  await runExample(USAGE, ["above", "below"], async (line) => {
    const [above, below] = ["above", "below"].map((name) => line.number(name, { min: 0, max: MAX_USD }));
    if (above === undefined && below === undefined) throw new UsageError(`--above or --below is missing\n${USAGE}`);
    if (above !== undefined && below !== undefined && above < below)
      throw new UsageError("--above must not be less than --below");
    const alerts = priceAlerts({
      client: line.client,
      token: { chain: line.chain, address: line.address(0, "ADDRESS") },
      signal: line.signal,
      ...(above === undefined ? {} : { above }),
      ...(below === undefined ? {} : { below }),
      onFirst: ({ symbol, usdPrice, block }) => console.error(`watching ${symbol}: $${usdPrice} at block ${block}`),
      onOutage: ({ message }) => console.error(`no price for now: ${message}`),
    });
    for await (const { symbol, usdPrice, side, bound, block } of alerts)
      console.log(`${new Date().toISOString()} ${symbol} is at $${usdPrice}, ${side} $${bound}, at block ${block}`);
  });
}
