/**
 * What trading a size through a price's route gives at its block, to the last digit, and what it costs to move the price.
 * Where this can't be computed exactly, the reason stands in its place.
 */
import { Budget, OverBudget } from "../../core/budget.ts";
import { AppError } from "../../core/errors.ts";
import { SingleFlight } from "../../core/work.ts";
import type { ChainReader } from "../../rpc/port.ts";
import { decimalsOf, type Market, type Side } from "../market/market.ts";
import {
  absolute,
  compare,
  divide,
  format,
  minimum,
  multiply,
  ONE,
  powerOfTen,
  type Rational,
  rational,
  subtract,
  toDouble,
  truncate,
} from "../market/pools.ts";
import type { Quote } from "../market/quote.ts";
import { ArchiveWords } from "../search/archive-words.ts";
import { DOWN, type Tradable, UnknownTrade, UP } from "../styles/trade.ts";
import { type LastTrade, lastTrade } from "./last-trade.ts";
import { tradablesOf } from "./pool-reads.ts";
import { tradablesFromLogs } from "./positions.ts";
import { cappedBySale, limitOf, type Sale, saleOf, UNANSWERED, UNPAID } from "./sale.ts";
import { type SwapAmounts, simulatedSwaps } from "./simulated-swaps.ts";

/** The fields of a record. */
export type DepthFields =
  | { readonly depth: TradeAlone & Pick<Sale, "sellable" | "why"> }
  | { readonly depth: null; readonly why: string };

/** The depth of a quote, and what it says about the quote's confidence. */
interface Told {
  readonly fields: DepthFields;
  readonly sale: Sale;
  /** Returns the confidence in the price, from 0 to 1, as the simulated sale and the last trade leave it. */
  readonly limited: (confidence: Rational) => Rational;
}

/** What was read of a chain for a quote, whatever the size. */
interface Reads {
  pools?: Pools;
  sale?: Sale;
}

interface Pools {
  /** In the order of the route; or the reason why trades with one of them are not computed. */
  readonly tradables: readonly Tradable[] | UnknownTrade;
  readonly realised: LastTrade | null;
  /** The archive that alone says which trades and positions there were; undefined if none was needed. */
  readonly archive: string | undefined;
}

const STATELESS = "the node has no state of this block";
/** A last trade that is farther off the price than this says that the price is not what a trade gives. */
const OFF = rational(5n, 100n);

/** Depths of quotes. Reads a chain once for each market and route, so that further sizes are a matter of arithmetic. */
export class Depths {
  readonly #reader: ChainReader;
  readonly #reads = new WeakMap<Market, Map<string, Reads>>();
  readonly #pools = new SingleFlight<Reads, Pools>();
  readonly #sales = new SingleFlight<Reads, Sale>();

  constructor(reader: ChainReader) {
    this.#reader = reader;
  }

  /**
   * Returns the depth of a quote, or the reason why there is none, and the simulated sale beside it.
   * @param sizeUsd US dollars
   * @throws AppError `chain_unavailable`
   */
  async of(quote: Quote, sizeUsd: Rational): Promise<Told> {
    const [own, sale] = await Promise.all([this.#traded(quote, sizeUsd), this.sale(quote)]);
    const off = "off" in own ? own.off : undefined;
    const limited = (confidence: Rational) =>
      cappedBySale(off === undefined ? confidence : multiply(confidence, off.share), sale);
    if (own.depth === null) {
      // A token that can't be sold is named also where its depth can't be computed.
      return { fields: { depth: null, why: sentence([own.why, limitOf(sale)])! }, sale, limited };
    }
    const { sellable } = sale;
    const { archive } = own;
    const byArchive = archive && `only the ${archive} says which trades and positions the pools had`;
    const why = sentence([sale.why, off?.why, byArchive]);
    return { fields: { depth: { ...own.depth, sellable, ...(why === undefined ? {} : { why }) } }, sale, limited };
  }

  /** Returns the simulated sale of a quote. @throws AppError `chain_unavailable` */
  async sale(quote: Quote): Promise<Sale> {
    const reads = this.#readsOf(quote);
    let isOwn = false;
    const said = await this.#sales.run(reads, async () => {
      isOwn = true;
      const sale = reads.sale ?? (await saleOf(this.#reader, quote));
      // Another question may get an answer.
      if (sale !== UNANSWERED && sale !== UNPAID) reads.sale = sale;
      return sale;
    });
    return said === UNPAID && !isOwn ? this.sale(quote) : said;
  }

  async #traded(quote: Quote, sizeUsd: Rational): Promise<Computed> {
    try {
      const pools = await this.#poolsOf(quote);
      const size = sizeOf(quote, sizeUsd);
      const amounts = await amountsOf(this.#reader, quote, size, pools.tradables);
      const depth = computed(quote, size, { amounts, realised: pools.realised });
      return { depth, off: offPrice(quote, pools), archive: pools.archive };
    } catch (error) {
      if (error instanceof UnknownTrade || error instanceof OverBudget) return { depth: null, why: error.message };
      if (error instanceof AppError && error.code === "state_unavailable") return { depth: null, why: STATELESS };
      throw error;
    }
  }

  async #poolsOf(quote: Quote): Promise<Pools> {
    const reads = this.#readsOf(quote);
    let isOwn = false;
    const pools = await this.#pools.run(reads, async () => {
      isOwn = true;
      if (reads.pools !== undefined) return reads.pools;
      const { refusals } = Budget;
      const read = await poolsOf(this.#reader, quote);
      // Another question may pay for what is missing.
      if (Budget.refusals === refusals) reads.pools = read;
      return read;
    });
    return pools !== reads.pools && !isOwn ? this.#poolsOf(quote) : pools;
  }

  #readsOf({ market, route, nativeSide }: Quote): Reads {
    const byRoute = this.#reads.get(market) ?? new Map<string, Reads>();
    this.#reads.set(market, byRoute);
    // A request's floor decides about the native coin's pool, too, on which the size of a simulated sale depends.
    const sides = [...(route?.legs ?? []), nativeSide];
    const name = sides.map((side) => (side === undefined ? "" : `${side.pool.id} ${side.pool.factory}`)).join();
    const reads = byRoute.get(name) ?? {};
    byRoute.set(name, reads);
    return reads;
  }
}

const sentence = (parts: readonly (string | undefined)[]): string | undefined => {
  const said = parts.filter((part) => part !== undefined);
  return said.length === 0 ? undefined : said.join("; ");
};

type TradeAlone = ReturnType<typeof computed>;

type Computed =
  | { readonly depth: TradeAlone; readonly off: Off | undefined; readonly archive: string | undefined }
  | { readonly depth: null; readonly why: string };

/** How far the last trade was off the price. */
interface Off {
  /** The smaller of the two over the larger. */
  readonly share: Rational;
  readonly why: string;
}

function offPrice({ route }: Quote, { realised }: Pools): Off | undefined {
  const price = route?.legs[0]?.price;
  if (realised === null || price === undefined) return undefined;
  const isBelow = compare(realised.price, price) < 0;
  const share = isBelow ? divide(realised.price, price) : divide(price, realised.price);
  if (compare(subtract(ONE, share), OFF) <= 0) return undefined;
  const percent = toDouble(multiply(absolute(subtract(divide(realised.price, price), ONE)), rational(100n)));
  const why = `the last trade was at ${percent.toFixed(1)} % ${isBelow ? "below" : "above"} the price`;
  return { share, why };
}

/** An amount of a token's smallest units in whole tokens, exactly. */
function inWhole(amount: bigint, decimals: number): string {
  const digits = amount.toString().padStart(decimals + 1, "0");
  const places = decimals === 0 ? "" : digits.slice(-decimals).replace(/0+$/, "");
  return `${digits.slice(0, digits.length - decimals)}${places === "" ? "" : `.${places}`}`;
}

/** Resolves to the reason in place of its error. */
const orUnknown = (tradables: Promise<readonly Tradable[]>): Promise<Pools["tradables"]> =>
  tradables.catch((error: unknown) => {
    if (error instanceof UnknownTrade) return error;
    throw error;
  });

/** Reads the pools of a quote's route. @throws UnknownTrade without a route */
async function poolsOf(reader: ChainReader, { market, route }: Quote): Promise<Pools> {
  if (route === undefined) throw new UnknownTrade("no pool measures the price");
  const { block } = market;
  const { legs } = route;
  // A `Side` exists only if the decimals of both tokens are known.
  const pools = legs.map(({ pool }) => [pool, decimalsOf(market, pool)!] as const);
  const pastPoolOf = ({ pool, observation: { reading } }: Side, at: number) => ({
    ...{ pool, reading, decimals: pools[at]![1] },
  });
  const words = new ArchiveWords();
  const logs: ChainReader["logs"] = (filter) => reader.logs({ ...filter, onArchived: words.note });
  const calls: ChainReader["calls"] = (...asked) => reader.calls(...asked);
  const noting = { logs, calls, header: (number: number) => reader.header(number) };
  const [tradables, realised] = await Promise.all([
    orUnknown(
      market.factsOf === "block"
        ? tradablesOf(pools, async (calls) => (await reader.callsAtBlock(calls, block)).results)
        : tradablesFromLogs(noting, legs.map(pastPoolOf), block),
    ),
    lastTrade(noting, legs[0]!, pools[0]![1], block.number),
  ]);
  return { tradables, realised, archive: words.label };
}

/** The size of a trade in dollars and in smallest units, and the decimals of both ends of the route. */
interface Size {
  readonly sizeUsd: Rational;
  readonly tokens: bigint;
  readonly dollars: bigint;
  readonly unit: number;
  readonly quoteUnit: number;
}

/** @throws UnknownTrade for less than the smallest unit of a token, and without a pool */
function sizeOf({ market, route, usd }: Quote, sizeUsd: Rational): Size {
  if (route === undefined) throw new UnknownTrade("no pool measures the price");
  const [first, last] = [route.legs[0]!, route.legs.at(-1)!];
  const [unit, quoteUnit] = [market.decimals.get(first.base)!, market.decimals.get(last.quote)!];
  const tokens = amountOf(divide(sizeUsd, usd), unit);
  return { sizeUsd, tokens, dollars: amountOf(sizeUsd, quoteUnit), unit, quoteUnit };
}

/** What the trades give: computed, or simulated where the arithmetic is not known. @throws UnknownTrade */
async function amountsOf(
  reader: ChainReader,
  quote: Quote,
  { tokens, dollars }: Size,
  tradables: Pools["tradables"],
): Promise<SwapAmounts> {
  if (tradables instanceof UnknownTrade) {
    const simulated = await simulatedSwaps(reader, quote, { tokens, dollars });
    if (simulated === undefined) throw tradables;
    if (Object.values(simulated).includes(0n)) {
      throw new UnknownTrade(`${tradables.message}, and a simulated swap of the size did not go through`);
    }
    return simulated;
  }
  const hops = quote.route!.legs.map(({ pool, base }, at) => ({
    ...{ tradable: tradables[at]!, isToken0: pool.token0 === base },
  }));
  const { tradable, isToken0 } = hops[0]!;
  return {
    sold: hops.reduce((amount, hop) => hop.tradable.sell(amount, hop.isToken0), tokens),
    bought: hops.reduceRight((amount, hop) => hop.tradable.sell(amount, !hop.isToken0), dollars),
    given: tradable.sellDownTo(DOWN, isToken0).given,
    paid: tradable.sellDownTo(UP, !isToken0).paid,
  };
}

function computed(
  { market, route, usd }: Quote,
  { sizeUsd, tokens, unit, quoteUnit }: Size,
  { amounts, realised }: { readonly amounts: SwapAmounts } & Pick<Pools, "realised">,
) {
  const first = route!.legs[0]!;
  const { sold, bought, given, paid } = amounts;
  const worth = multiply(rational(tokens), multiply(usd, powerOfTen(quoteUnit - unit)));
  const [out, taken] = [given, paid].map((amount) =>
    divide(rational(amount), powerOfTen(market.decimals.get(first.quote)!)),
  );
  return {
    sizeUsd: format(sizeUsd),
    sell: inWhole(sold, quoteUnit),
    buy: inWhole(bought, unit),
    impactPercent: format(multiply(subtract(ONE, divide(rational(sold), worth)), rational(100n))),
    move2PercentUsd: format(multiply(minimum(out!, taken!), divide(usd, first.price))),
    realised: realised && { ...realised, price: format(realised.price) },
  };
}

/** Whole units in the smallest ones, rounded down. @throws UnknownTrade for less than one of them */
function amountOf(whole: Rational, decimals: number): bigint {
  const amount = truncate(multiply(whole, powerOfTen(decimals)));
  if (amount === 0n) throw new UnknownTrade("the size is less than the smallest unit of a token");
  return amount;
}
