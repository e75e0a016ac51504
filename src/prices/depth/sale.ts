/**
 * Simulates the purchase and the sale of a priced token at the head, as a wallet makes them: `wallet.ts` has the
 * transactions. The word `false` is left only where `accusation.ts` finds no other way to sell. What a simulation can't
 * tell is null.
 */
import { OverBudget } from "../../core/budget.ts";
import { AppError } from "../../core/errors.ts";
import type { ChainReader } from "../../rpc/port.ts";
import { ranked, sidesOf } from "../market/market.ts";
import { depthByMove, type PoolId } from "../market/pools.ts";
import type { Quote } from "../market/quote.ts";
import {
  divide,
  format,
  minimum,
  multiply,
  powerOfTen,
  type Rational,
  rational,
  truncate,
} from "../market/rational.ts";
import { actsOnSwaps, mayChangeAmounts } from "../styles/v4.ts";
import { wayToBuy, wayToSell } from "./accusation.ts";
import { tradeFailureOf } from "./failed-trades.ts";
import type { ProbeStep } from "./legs.ts";
import { sellAsContract, sellAsWallet, toldByContract, type WalletTrades, type Way } from "./wallet.ts";

export interface Sale {
  /** Null if it can't be known. */
  readonly sellable: boolean | null;
  /** The part of a payment that doesn't arrive, in per cent to the hundredth. */
  readonly buyTaxPercent: string | null;
  readonly sellTaxPercent: string | null;
  /** Set unless the token sells and both taxes are at most 5 %. */
  readonly why?: string;
  /** True if a sale gives far less than the price, beside the taxes. */
  readonly isLossy?: true;
}

/** The part of the route's depth that is traded: small beside limits that tokens set on the size of a transfer. */
const PART = rational(1n, 1_000n);
/** Balances of rebasing tokens are rounded by a unit or two. */
const ROUNDING = 2n;
/** With fewer units, a hundredth of a per cent is less than the rounding. */
const LEAST_UNITS = 20_000n;
/** Smallest units in a trade. Pools pay nothing for a few. */
const LEAST_TRADED = 100n;
/**
 * Per cent of a purchase that a sale of all of it gives back. Fees keep little of it, unless hooks or plugins set them.
 */
const LEAST_BACK = 85n;
const MOST_TAX = rational(5n);
const CONFIDENCE_LIMIT = rational(1n, 10n);

const UNKNOWN_TAXES = { buyTaxPercent: null, sellTaxPercent: null } as const;
const unknown = (why: string): Sale => ({ sellable: null, ...UNKNOWN_TAXES, why });

/** The endpoints failed. Another attempt may tell more. */
export const UNANSWERED: Sale = unknown("the endpoints didn't answer the simulation");

/** The question may ask the node no more. */
export const UNPAID: Sale = unknown("the question takes too many calls of the node for a simulation");

/** Simulates a purchase and a sale of the quoted token at the quote's block. Never throws for an endpoint's fault. */
export async function saleOf(reader: ChainReader, quote: Quote): Promise<Sale> {
  const way = wayOf(quote);
  if (typeof way === "string") return unknown(way);
  try {
    return (await saleByWallet(reader, way)) ?? (await saleByContract(reader, way));
  } catch (error) {
    if (error instanceof AppError) return UNANSWERED;
    if (error instanceof OverBudget) return UNPAID;
    throw error;
  }
}

/** What a wallet would trade to learn whether the token sells; or the reason why that can't be simulated. */
function wayOf(quote: Quote): Way | string {
  const { market, token, usd, native, route } = quote;
  const { chain, block } = market;
  if (market.isPast) return "sales are simulated at the head only";
  const steps = stepsTo(quote);
  if (route === undefined || steps === undefined) return "no pools lead from the chain's coin to the token";
  // A hook whose trades agree with the price takes its part within the swap: the amounts that arrive tell the rest.
  const isTried = (id: PoolId) => market.states.get(id)?.traded?.kind === "made";
  if (steps.some(({ pool: { id, key } }) => key && mayChangeAmounts(key.hooks) && !isTried(id))) {
    return "the pool's hooks may change the amounts";
  }
  if (native === undefined || usd.n === 0n) return "the chain's coin has no price";
  const depthUsd = minimum(route.depthUsd, depthByMove(route.moveUsd));
  const tokens = divide(multiply(depthUsd, PART), usd);
  const amount = truncate(multiply(multiply(tokens, native), powerOfTen(chain.native.decimals)));
  const decimals = market.facts.decimals ?? 0;
  const units = truncate(multiply(tokens, powerOfTen(decimals)));
  if (amount < LEAST_TRADED || units < LEAST_TRADED) return "the pool is too small for a trade that moves nothing";
  const { chainId, wrappedNative } = chain;
  return { token, steps, wrapped: wrappedNative.address, amount, units, decimals, chainId, block };
}

/** Undefined if no endpoint simulates transactions. */
async function saleByWallet(reader: ChainReader, way: Way): Promise<Sale | undefined> {
  // Some tokens charge a fee on top of what is sent, or want a remainder left. A half leaves room for both.
  let units = way.units / 2n;
  let told = await sellAsWallet(reader, way, units);
  const bought = told && purchaseIn(told, way);
  if (bought !== undefined && !hasSold(told!, way) && bought.received < units) {
    units = bought.received / 2n;
    told = units === 0n ? told : await sellAsWallet(reader, way, units);
  }
  if (told === undefined) return undefined;
  const failure = tradeFailureOf(told, way);
  const { released } = told;
  if (failure === undefined) {
    if (released?.ok !== false) return judged(told, way);
    const why = "a simulated sale through the exchange's own router failed, and one through another router did not";
    return { ...unknown(why), ...taxesIn(told, way) };
  }
  if (bought !== undefined && released?.ok === true) {
    const why = `the exchange's own router sold it; its taxes are not measured: ${failure.why}`;
    return { sellable: true, ...taxesIn(told, way), why };
  }
  if (!failure.isAccusation) return { ...unknown(failure.why), ...taxesIn(told, way) };
  const { received } = bought ?? {};
  const { isPaid } = failure;
  const otherWay = await (received === undefined
    ? wayToBuy(reader, way)
    : wayToSell(reader, way, { received, isPaid }));
  const why = otherWay === undefined ? failure.why : `${failure.why}; but ${otherWay}`;
  return { sellable: otherWay === undefined ? false : null, ...taxesIn(told, way), why };
}

/** Only a sale that went through tells something: a token can refuse a contract, or a sale in the block of a purchase. */
async function saleByContract(reader: ChainReader, way: Way): Promise<Sale> {
  const result = await sellAsContract(reader, way);
  if (result === undefined) return unknown("the endpoints don't take state overrides");
  const told = result.ok ? toldByContract(result.data) : undefined;
  if (told === undefined) return unknown("the node gives too little gas, or the chain's coin can't be wrapped");
  const failure = tradeFailureOf(told, way);
  if (failure === undefined) return judged(told, way);
  const why = failure.isAccusation ? `${failure.why}; but no endpoint simulates transactions of a wallet` : failure.why;
  return { ...unknown(why), ...taxesIn(told, way) };
}

/** Why the confidence in the price is limited: the token can't be sold, or a sale loses more than 5 % to it. */
export function limitOf(sale: Sale): string | undefined {
  return sale.sellable === false || sale.isLossy || isTaxed(sale) ? sale.why : undefined;
}

/** Confidence in a price that only a trade could confirm, and none did. */
const UNTRIED_LIMIT = rational(1n, 2n);

/**
 * Why the confidence in a price is at most 0.5: a pool of its route has hooks that may refuse a trade or change it, and no
 * trade went through. Such a pool may stand at any price.
 * @param sale undefined if none was simulated
 */
export function hooksLimitOf({ route }: Quote, sale: Sale | undefined): string | undefined {
  const isHooked = route?.legs.some(({ pool: { key } }) => key !== undefined && actsOnSwaps(key.hooks)) === true;
  if (!isHooked || sale?.sellable === true) return undefined;
  const tried = sale === undefined ? "none was tried" : `a simulated one didn't go through: ${sale.why}`;
  return `the pool's hooks may refuse trades or change them, and ${tried}`;
}

/** Limits the confidence in a price for this reason, if there is one. */
export const cappedByHooks = (confidence: Rational, reason: string | undefined): Rational =>
  reason === undefined ? confidence : minimum(confidence, UNTRIED_LIMIT);

/** Limits the confidence in the price of such a token to 0.1. */
export const cappedBySale = (confidence: Rational, sale: Sale): Rational =>
  limitOf(sale) === undefined ? confidence : minimum(confidence, CONFIDENCE_LIMIT);

const isTaxed = ({ buyTaxPercent, sellTaxPercent }: Sale): boolean =>
  [buyTaxPercent, sellTaxPercent].some((tax) => tax !== null && Number(tax) > Number(format(MOST_TAX)));

/**
 * The trades from the wrapped coin to the token: those of the route backwards, after one from the coin if the route
 * doesn't pass it. For the wrapped coin itself, the trade of the route and back. Undefined if there is no way.
 */
function stepsTo({ market, token, route }: Quote): readonly ProbeStep[] | undefined {
  const native = market.chain.wrappedNative.address;
  const legs = route?.legs ?? [];
  if (token === native) {
    return legs.slice(0, 1).flatMap(({ pool, base, quote }) => [
      { pool, input: base, output: quote },
      { pool, input: quote, output: base },
    ]);
  }
  const passing = legs.findIndex(({ quote }) => quote === native);
  const own = passing < 0 ? legs : legs.slice(0, passing + 1);
  const steps = own.map(({ pool, base, quote }) => ({ pool, input: quote, output: base })).reverse();
  const from = steps[0]?.input;
  if (from === undefined) return undefined;
  if (from === native) return steps;
  const sides = sidesOf(market, native, (quote) => quote === from);
  const [first] = ranked(
    market,
    sides.filter(({ depth }) => depth.n > 0n),
  );
  return first && [{ pool: first.pool, input: native, output: from }, ...steps];
}

const purchaseIn = ({ trades }: WalletTrades, { steps }: Way) => trades[steps.length - 1];
const saleIn = ({ trades }: WalletTrades, { steps }: Way) => trades[steps.length];
const hasSold = (told: WalletTrades, way: Way): boolean => saleIn(told, way) !== undefined;

function taxesIn(told: WalletTrades, way: Way): Pick<Sale, "buyTaxPercent" | "sellTaxPercent"> {
  const [bought, sold] = [purchaseIn(told, way), saleIn(told, way)];
  return {
    buyTaxPercent: bought === undefined ? null : lost(bought.paid, bought.received),
    sellTaxPercent: sold === undefined ? null : lost(sold.sent, sold.arrived),
  };
}

/** Judges two trades that went through: balances that lie, a pool that pays nothing back, and taxes, in this order. */
function judged(told: WalletTrades, way: Way): Sale {
  const [bought, sold] = [purchaseIn(told, way)!, saleIn(told, way)!];
  if (bought.received > bought.paid + ROUNDING || sold.arrived > sold.sent + ROUNDING) {
    return unknown("balanceOf shows more than was transferred");
  }
  const taxes = taxesIn(told, way);
  const back = (bought.paid * sold.paid * 100n) / (bought.arrived * sold.arrived || 1n);
  if (back < LEAST_BACK) {
    // A hook or a plugin charges a large fee, or the token has moved the price within its transfer. It sold nevertheless.
    const why = `the pool pays back ${back} % of what it is paid, beside the token's taxes`;
    return { sellable: true, ...taxes, why, isLossy: true };
  }
  const passed = { sellable: true, ...taxes };
  const { buyTaxPercent, sellTaxPercent } = taxes;
  if (buyTaxPercent === null || sellTaxPercent === null) {
    return { ...passed, why: "its units are too large to tell its taxes" };
  }
  if (!isTaxed(passed)) return passed;
  return { ...passed, why: `the token keeps ${buyTaxPercent} % of a purchase and ${sellTaxPercent} % of a sale` };
}

/** The part of `sent` that did not arrive, in per cent, rounded to the hundredth; null if the units are too few for it. */
function lost(sent: bigint, arrived: bigint): string | null {
  if (sent < LEAST_UNITS) return null;
  const missing = sent - arrived;
  if (missing <= ROUNDING) return "0";
  return format(rational((missing * 10_000n + sent / 2n) / sent, 100n));
}
