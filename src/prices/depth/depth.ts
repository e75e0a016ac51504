/**
 * What trading a size through a price's route gives at its block, to the last digit, and what it costs to move the price.
 * Where this can't be computed exactly, the reason stands in its place.
 */
import { Budget, OverBudget } from "../../core/budget.ts";
import { AppError } from "../../core/errors.ts";
import { SingleFlight } from "../../core/work.ts";
import type { Call, ChainReader } from "../../rpc/port.ts";
import { decimalsOf, type Market, type Side } from "../market/market.ts";
import type { Quote } from "../market/quote.ts";
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
} from "../market/rational.ts";
import { ArchiveWords } from "../search/archive-words.ts";
import { BeyondRead, DOWN, type Tradable, UnknownTrade, UP } from "../styles/trade.ts";
import { type LastTrade, lastTrade } from "./last-trade.ts";
import { tradablesOf } from "./pool-reads.ts";
import { tradablesFromLogs } from "./positions.ts";
import { cappedBySale, limitOf, type Sale, saleOf, UNANSWERED, UNPAID } from "./sale.ts";
import { simulatedSwaps } from "./simulated-swaps.ts";

/** The fields of a record. */
export type DepthFields =
  | { readonly depth: TradeAlone & Pick<Sale, "sellable" | "why"> }
  | { readonly depth: null; readonly why: string };

/** The depth of a quote, and what it says about the quote's confidence. */
interface DepthAnswer {
  readonly fields: DepthFields;
  readonly sale: Sale;
  /** Returns the confidence in the price, from 0 to 1, as the simulated sale and the last trade leave it. */
  readonly limited: (confidence: Rational) => Rational;
}

/** What was read of a chain for a quote, whatever the size. */
interface Reads {
  readonly pools: PoolReads;
  sale?: Sale;
}

/** The pools with the ticks near their prices, and with all of them. */
type PoolReads = { [reach in "near" | "far"]?: ReachRead };

interface ReachRead {
  pools?: Pools;
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
  readonly #pools = new SingleFlight<ReachRead, Pools>();
  readonly #sales = new SingleFlight<Reads, Sale>();

  constructor(reader: ChainReader) {
    this.#reader = reader;
  }

  /**
   * Returns the depth of a quote, or the reason why there is none, and the simulated sale beside it.
   * @param sizeUsd US dollars
   * @throws AppError `chain_unavailable`
   */
  async of(quote: Quote, sizeUsd: Rational): Promise<DepthAnswer> {
    const [own, sale] = await Promise.all([this.#computed(quote, sizeUsd), this.sale(quote)]);
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
    const why = sentence([own.why, sale.why, off?.why, byArchive]);
    return { fields: { depth: { ...own.depth, sellable, ...(why === undefined ? {} : { why }) } }, sale, limited };
  }

  /** Tells the trades of a size by the ticks near the price, and by all of them if it runs beyond. */
  async #computed(quote: Quote, sizeUsd: Rational): Promise<Computed> {
    const near = await tradedOrNot(this.#reader, quote, sizeUsd, this.#poolsOf(quote, "near"));
    if (!near.isBeyond || quote.market.factsOf !== "block") return near;
    const far = await tradedOrNot(this.#reader, quote, sizeUsd, this.#poolsOf(quote, "far"));
    // What the budget or the node doesn't give is no worse than what is there.
    return far.depth === null && near.depth !== null ? near : far;
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

  async #poolsOf(quote: Quote, reach: keyof PoolReads): Promise<Pools> {
    const reads = this.#readsOf(quote).pools;
    const read = reads[reach] ?? {};
    reads[reach] = read;
    let isOwn = false;
    const pools = await this.#pools.run(read, async () => {
      isOwn = true;
      if (read.pools !== undefined) return read.pools;
      const { refusals } = Budget;
      const found = await poolsOf(this.#reader, quote, reach === "far" ? reads.near?.pools : undefined);
      // Another question may pay for what is missing.
      if (Budget.refusals === refusals) read.pools = found;
      return found;
    });
    return pools !== read.pools && !isOwn ? this.#poolsOf(quote, reach) : pools;
  }

  #readsOf({ market, route, nativeSide }: Quote): Reads {
    const byRoute = this.#reads.get(market) ?? new Map<string, Reads>();
    this.#reads.set(market, byRoute);
    // A request's floor decides about the native coin's pool, too, on which the size of a simulated sale depends.
    const sides = [...(route?.legs ?? []), nativeSide];
    const name = sides.map((side) => (side === undefined ? "" : `${side.pool.id} ${side.pool.factory}`)).join();
    const reads = byRoute.get(name) ?? { pools: {} };
    byRoute.set(name, reads);
    return reads;
  }
}

const sentence = (parts: readonly (string | undefined)[]): string | undefined => {
  const said = parts.filter((part) => part !== undefined);
  return said.length === 0 ? undefined : said.join("; ");
};

/** What trades of a size give. Decimals as text; null for a direction that is not known. */
interface TradeAlone {
  readonly sizeUsd: string;
  readonly sell: string | null;
  readonly buy: string | null;
  readonly impactPercent: string | null;
  readonly move2PercentUsd: string;
  readonly realised: (Omit<LastTrade, "price"> & { readonly price: string }) | null;
}

type Computed = {
  /** Why a direction, or all of it, is not known. */
  readonly why: string | undefined;
  /** True if a trade runs beyond what was read of a pool. */
  readonly isBeyond: boolean;
} & (
  | { readonly depth: TradeAlone; readonly off: Off | undefined; readonly archive: string | undefined }
  | { readonly depth: null; readonly why: string }
);

async function tradedOrNot(
  reader: ChainReader,
  quote: Quote,
  sizeUsd: Rational,
  pools: Promise<Pools>,
): Promise<Computed> {
  try {
    const known = await pools;
    const size = sizeOf(quote, sizeUsd);
    const { tradables } = known;
    const trades =
      tradables instanceof UnknownTrade
        ? await simulatedTrades(reader, quote, size, tradables)
        : computedTrades(quote, size, tradables);
    const { depth, why } = told(quote, size, trades, known.realised);
    const isBeyond = [trades.sold, trades.bought].some((side) => side instanceof BeyondRead);
    if (depth === null) return { depth, why: why!, isBeyond };
    return { depth, why, isBeyond, off: offPrice(quote, known), archive: known.archive };
  } catch (error) {
    if (error instanceof UnknownTrade || error instanceof OverBudget) {
      return { depth: null, why: error.message, isBeyond: false };
    }
    if (error instanceof AppError && error.code === "state_unavailable") {
      return { depth: null, why: STATELESS, isBeyond: false };
    }
    throw error;
  }
}

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

/**
 * Reads the pools of a quote's route.
 * @param near set for a read of all ticks, in place of those near the price; its other findings stay
 * @throws UnknownTrade without a route
 */
async function poolsOf(reader: ChainReader, { market, route }: Quote, near: Pools | undefined): Promise<Pools> {
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
  const read = async (calls: readonly Call[]) => (await reader.callsAtBlock(calls, block)).results;
  if (near !== undefined) return { ...near, tradables: await orUnknown(tradablesOf(pools, read, true)) };
  const [tradables, realised] = await Promise.all([
    orUnknown(
      market.factsOf === "block" ? tradablesOf(pools, read) : tradablesFromLogs(noting, legs.map(pastPoolOf), block),
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

/** @throws UnknownTrade without a pool */
function sizeOf({ market, route, usd }: Quote, sizeUsd: Rational): Size {
  if (route === undefined) throw new UnknownTrade("no pool measures the price");
  const [first, last] = [route.legs[0]!, route.legs.at(-1)!];
  const [unit, quoteUnit] = [market.decimals.get(first.base)!, market.decimals.get(last.quote)!];
  const tokens = truncate(multiply(divide(sizeUsd, usd), powerOfTen(unit)));
  return { sizeUsd, tokens, dollars: truncate(multiply(sizeUsd, powerOfTen(quoteUnit))), unit, quoteUnit };
}

/** What both trades of a size give in smallest units, each by itself: one may end where the other goes on. */
interface Trades {
  readonly sold: bigint | UnknownTrade;
  readonly bought: bigint | UnknownTrade;
  /** US dollars that move the answer by 2 %. */
  readonly move: Rational;
}

/** @throws UnknownTrade if no trade of any size can be computed */
function computedTrades(quote: Quote, { tokens, dollars }: Size, tradables: readonly Tradable[]): Trades {
  const hops = quote.route!.legs.map(({ pool, base }, at) => ({
    ...{ tradable: tradables[at]!, isToken0: pool.token0 === base },
  }));
  const costs = quote.route!.legs.map((leg, at) => {
    const { tradable, isToken0 } = hops[at]!;
    const out = tradable.sellDownTo(DOWN, isToken0).given;
    const { paid } = tradable.sellDownTo(UP, !isToken0);
    return inDollars(quote, leg, minimum(rational(out), rational(paid)));
  });
  return {
    sold: knownOrNot(() => hops.reduce((amount, hop) => hop.tradable.sell(amount, hop.isToken0), traded(tokens))),
    bought: knownOrNot(() =>
      hops.reduceRight((amount, hop) => hop.tradable.sell(amount, !hop.isToken0), traded(dollars)),
    ),
    move: costs.reduce(minimum),
  };
}

/**
 * What the pools themselves say, where trades with one of them are not computed. A first pool that is no pair tells what moves its
 * price; the read of the market has told it of the others.
 * @throws UnknownTrade `reason` if they don't say it either
 */
async function simulatedTrades(
  reader: ChainReader,
  quote: Quote,
  { tokens, dollars }: Size,
  reason: UnknownTrade,
): Promise<Trades> {
  traded(tokens);
  traded(dollars);
  const swaps = await simulatedSwaps(reader, quote, { tokens, dollars });
  if (swaps === undefined) throw reason;
  const { sold, bought, given, paid } = swaps;
  const failed = new UnknownTrade(`${reason.message}, and a simulated swap of the size did not go through`);
  const { legs } = quote.route!;
  const [first] = legs;
  const isPair = first!.observation.reading.style === "v2";
  if (!isPair && (given === 0n || paid === 0n)) throw failed;
  const measured = (leg: Side) =>
    inDollars(quote, leg, multiply(leg.move, powerOfTen(quote.market.decimals.get(leg.quote)!)));
  const own = isPair ? measured(first!) : inDollars(quote, first!, minimum(rational(given), rational(paid)));
  return {
    sold: sold === 0n ? failed : sold,
    bought: bought === 0n ? failed : bought,
    move: [own, ...legs.slice(1).map(measured)].reduce(minimum),
  };
}

/** An amount of a leg's quote token, in its smallest units, in US dollars at the prices of the route. */
function inDollars({ market, route, usd }: Quote, { quote }: Pick<Side, "quote">, amount: Rational): Rational {
  const { legs } = route!;
  const at = legs.findIndex((leg) => leg.quote === quote);
  const price = legs.slice(0, at + 1).reduce((product, leg) => multiply(product, leg.price), ONE);
  return multiply(divide(amount, powerOfTen(market.decimals.get(quote)!)), divide(usd, price));
}

/** Writes the fields of both trades. Null if neither is known. */
function told(
  { usd }: Quote,
  { sizeUsd, tokens, unit, quoteUnit }: Size,
  { sold, bought, move }: Trades,
  realised: LastTrade | null,
): { readonly depth: TradeAlone | null; readonly why: string | undefined } {
  if (sold instanceof UnknownTrade && bought instanceof UnknownTrade) return { depth: null, why: sold.message };
  const worth = multiply(rational(tokens), multiply(usd, powerOfTen(quoteUnit - unit)));
  const impact = (given: bigint) => multiply(subtract(ONE, divide(rational(given), worth)), rational(100n));
  const depth = {
    sizeUsd: format(sizeUsd),
    sell: sold instanceof UnknownTrade ? null : inWhole(sold, quoteUnit),
    buy: bought instanceof UnknownTrade ? null : inWhole(bought, unit),
    impactPercent: sold instanceof UnknownTrade ? null : format(impact(sold)),
    move2PercentUsd: format(move),
    realised: realised && { ...realised, price: format(realised.price) },
  };
  if (sold instanceof UnknownTrade) return { depth, why: `no sale: ${sold.message}` };
  return { depth, why: bought instanceof UnknownTrade ? `no purchase: ${bought.message}` : undefined };
}

/** Returns the reason in place of an amount that is not known. */
function knownOrNot(trade: () => bigint): bigint | UnknownTrade {
  try {
    return trade();
  } catch (error) {
    if (error instanceof UnknownTrade) return error;
    throw error;
  }
}

/** An amount to trade. @throws UnknownTrade for less than the smallest unit of a token */
function traded(amount: bigint): bigint {
  if (amount === 0n) throw new UnknownTrade("the size is less than the smallest unit of a token");
  return amount;
}
