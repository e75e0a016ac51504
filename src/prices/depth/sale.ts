/**
 * Simulates the purchase and the sale of a priced token at the head, by one `eth_call` in which an empty address has the
 * code of `sale-probe.sol` and some coins. It trades with the pools of the route themselves, so it needs neither a router
 * nor a token's storage. What it can't tell is null.
 */
import { keccak256 } from "ethers";
import { OverBudget } from "../../core/budget.ts";
import { AppError } from "../../core/errors.ts";
import { type Address, toAddress, ZERO_ADDRESS } from "../../core/hex.ts";
import { addressWord, selectorOf, wordOf } from "../../rpc/calls.ts";
import type { CallResult, ChainReader } from "../../rpc/port.ts";
import { ranked, sidesOf } from "../market/market.ts";
import {
  depthByMove,
  divide,
  format,
  minimum,
  multiply,
  type Pool,
  powerOfTen,
  type Rational,
  rational,
  truncate,
} from "../market/pools.ts";
import type { Quote } from "../market/quote.ts";
import { abiWord, abiWords, textAnswer } from "../styles/abi.ts";
import { poolContract, type Style } from "../styles/style.ts";
import { STYLES } from "../styles/styles.ts";
import { actsOnSwaps, mayChangeAmounts } from "../styles/v4.ts";
// The runtime code by solc 0.8.37 over its IR with 200 runs, for the EVM of Paris, without metadata. A test compiles it anew.
import SALE_PROBE from "./sale-probe.txt";

export interface Sale {
  /** Null if it can't be known. */
  readonly sellable: boolean | null;
  /** The part of a payment that doesn't arrive, in per cent to the hundredth. */
  readonly buyTaxPercent: string | null;
  readonly sellTaxPercent: string | null;
  /** Set unless the token sells and both taxes are at most 5 %. */
  readonly why?: string;
}

/** A trade with one pool. */
interface Step {
  readonly pool: Pool;
  readonly input: Address;
  readonly output: Address;
}

/** What was sent and what arrived, in both directions, in the tokens' smallest units. */
interface Trade {
  readonly sent: bigint;
  readonly arrived: bigint;
  readonly paid: bigint;
  readonly received: bigint;
}

/** The order of the probe's `Kind`. */
const KINDS: readonly Style["sale"][] = ["reserves", "quoted", "callback", "manager"];

/** The part of the route's depth that is traded: small beside limits that tokens set on the size of a transfer. */
const PART = rational(1n, 1_000n);
/** Balances of rebasing tokens are rounded by a unit or two. */
const ROUNDING = 2n;
/** With fewer units, a hundredth of a per cent is less than the rounding. */
const LEAST_UNITS = 20_000n;
/** Smallest units in a trade. Pools pay nothing for a few. */
const LEAST_TRADED = 100n;
/**
 * Per cent of a purchase that a sale of all of it gives back. Fees keep little of it, unless hooks or plugins set them; the
 * probe asks pairs for a tenth less than is due.
 */
const LEAST_BACK = 85n;
const MOST_TAX = rational(5n);
const CONFIDENCE_LIMIT = rational(1n, 10n);
const MAX_REASON = 120;

const RUN = selectorOf("run(address,uint256,(uint8,address,address,address,(address,address,uint24,int24,address))[])");
const PAYMENT_REFUSED = selectorOf("PaymentRefused(bool,bytes)");
const WRAPPED_ERROR = selectorOf("WrappedError(address,bytes4,bytes,bytes)");
const ERROR_TEXT = selectorOf("Error(string)");

const unknown = (why: string): Sale => ({ sellable: null, buyTaxPercent: null, sellTaxPercent: null, why });

/** The endpoints failed. Another attempt may tell more. */
export const UNANSWERED: Sale = unknown("the endpoints didn't answer the simulation");

/** The question may ask the node no more. */
export const UNPAID: Sale = unknown("the question takes too many calls of the node for a simulation");

/** Simulates a purchase and a sale of the quoted token at the quote's block. Never throws for an endpoint's fault. */
export async function saleOf(reader: ChainReader, quote: Quote): Promise<Sale> {
  const { market, token, usd, native, route } = quote;
  const { chain, block } = market;
  if (market.isPast) return unknown("sales are simulated at the head only");
  const steps = stepsTo(quote);
  if (route === undefined || steps === undefined) return unknown("no pools lead from the chain's coin to the token");
  if (steps.some(({ pool: { key } }) => key && mayChangeAmounts(key.hooks))) {
    return unknown("the pool's hooks may change the amounts");
  }
  if (native === undefined || usd.n === 0n) return unknown("the chain's coin has no price");
  const depthUsd = minimum(route.depthUsd, depthByMove(route.moveUsd));
  const tokens = divide(multiply(depthUsd, PART), usd);
  const amount = truncate(multiply(multiply(tokens, native), powerOfTen(chain.native.decimals)));
  const units = truncate(multiply(tokens, powerOfTen(market.facts.decimals ?? 0)));
  if (amount < LEAST_TRADED || units < LEAST_TRADED)
    return unknown("the pool is too small for a trade that moves nothing");
  // A contract can't know the hash of the block that it runs in, so no token recognises the address.
  const to = addressFrom(`${block.hash}${token.slice(2)}`);
  const accounts = { [to]: { code: `0x${SALE_PROBE}`, balance: amount } };
  const data = dataOf(chain.wrappedNative.address, amount, steps);
  try {
    const result = await reader.callOverridden({ from: addressFrom(to), to, data, accounts }, block.number);
    if (result === undefined) return unknown("the endpoints don't take state overrides");
    return toldBy(result, steps, token === chain.wrappedNative.address);
  } catch (error) {
    if (error instanceof AppError) return UNANSWERED;
    if (error instanceof OverBudget) return UNPAID;
    throw error;
  }
}

const addressFrom = (hex: string): Address => toAddress(`0x${keccak256(hex).slice(26)}`);

/** Why the confidence in the price is limited: the token can't be sold, or keeps more than 5 % of a transfer. */
export function limitOf(sale: Sale): string | undefined {
  return sale.sellable === false || isTaxed(sale) ? sale.why : undefined;
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
 * doesn't pass it. For the wrapped coin itself, the trade of the route. Undefined if there is no way.
 */
function stepsTo({ market, token, route }: Quote): readonly Step[] | undefined {
  const native = market.chain.wrappedNative.address;
  const legs = route?.legs ?? [];
  if (token === native) return legs.slice(0, 1).map(({ pool, base, quote }) => ({ pool, input: base, output: quote }));
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

const amountWord = (amount: bigint): string => amount.toString(16).padStart(64, "0");

function dataOf(wrapped: Address, amount: bigint, steps: readonly Step[]): `0x${string}` {
  const legs = steps.flatMap(({ pool, input, output }) => {
    const { key = { currency0: ZERO_ADDRESS, fee: 0, spacing: 0, hooks: ZERO_ADDRESS } } = pool;
    return [
      wordOf(KINDS.indexOf(STYLES[pool.style].sale)),
      ...[pool.key === undefined ? poolContract(pool) : pool.factory, input, output].map(addressWord),
      ...[addressWord(key.currency0), addressWord(pool.token1)],
      ...[wordOf(key.fee), wordOf(key.spacing), addressWord(key.hooks)],
    ];
  });
  const head = [addressWord(wrapped), amountWord(amount), wordOf(3 * 32), wordOf(steps.length)];
  return `${RUN}${[...head, ...legs].join("")}` as `0x${string}`;
}

/** What the probe returned: the trades up to the first one that failed, and its revert data. */
interface Told {
  readonly trades: readonly Trade[];
  readonly reason: string;
}

function tradesIn(data: string): Told | undefined {
  const [at, reasonAt] = abiWords(data, 2) ?? [];
  if (at !== 64n || reasonAt === undefined || reasonAt > BigInt(data.length)) return undefined;
  const place = Number(reasonAt) / 32;
  // The trades lie before the revert data, after their number.
  const words = (abiWords(data, place) ?? []).slice(3);
  const trades = Array.from({ length: words.length / 4 }, (_, index) => {
    const [sent = 0n, arrived = 0n, paid = 0n, received = 0n] = words.slice(index * 4);
    return { sent, arrived, paid, received };
  });
  const start = 2 + (place + 1) * 64;
  return { trades, reason: `0x${data.slice(start, start + Number(abiWord(data, place) ?? 0n) * 2)}` };
}

/** Judges the trades: a failed one, balances that lie, a pool that pays nothing back, and taxes, in this order. */
function toldBy(result: CallResult, steps: readonly Step[], isWrapped: boolean): Sale {
  const told = result.ok ? tradesIn(result.data) : undefined;
  if (told === undefined) return unknown("the node gives too little gas, or the chain's coin can't be wrapped");
  const { trades } = told;
  // The wrapped coin is there from the beginning, so it is sold first.
  const [bought, sold] = isWrapped ? [1, 0] : [steps.length - 1, steps.length];
  const [purchase, sale] = [trades[bought], trades[sold]];
  const taxes = {
    buyTaxPercent: purchase === undefined ? null : lost(purchase.paid, purchase.received),
    sellTaxPercent: sale === undefined ? null : lost(sale.sent, sale.arrived),
  };
  if (purchase === undefined || sale === undefined) return { ...failureOf(told, steps, isWrapped), ...taxes };
  if (purchase.received > purchase.paid + ROUNDING || sale.arrived > sale.sent + ROUNDING) {
    return unknown("balanceOf shows more than was transferred");
  }
  const back = (purchase.paid * sale.paid * 100n) / (purchase.arrived * sale.arrived || 1n);
  if (back < LEAST_BACK) {
    const why = `the pool pays back ${back} % of what it is paid, beside the token's taxes`;
    return { sellable: false, ...taxes, why };
  }
  const passed = { sellable: true, ...taxes };
  const { buyTaxPercent, sellTaxPercent } = taxes;
  if (buyTaxPercent === null || sellTaxPercent === null) {
    return { ...passed, why: "its units are too large to tell its taxes" };
  }
  if (!isTaxed(passed)) return passed;
  return { ...passed, why: `the token keeps ${buyTaxPercent} % of a purchase and ${sellTaxPercent} % of a sale` };
}

/** Says whether the trade that failed speaks against the token, against another one, or against the pool's hooks. */
function failureOf({ trades, reason }: Told, steps: readonly Step[], isWrapped: boolean) {
  const words = wordsOf(reason);
  const isPayment = reason.startsWith(PAYMENT_REFUSED);
  const isSale = trades.length === steps.length;
  const isPurchase = trades.length === steps.length - 1;
  const { hooks = ZERO_ADDRESS } = steps.at(-1)?.pool.key ?? {};
  if (hooks !== ZERO_ADDRESS && (isSale || isPurchase) && !isPayment) {
    return unknown(`the pool's hooks may want another caller: ${words}`);
  }
  // A purchase is paid in another token.
  if (isWrapped || !(isSale || (isPurchase && !isPayment)))
    return unknown(`a trade with another token failed: ${words}`);
  // A token that rests after a purchase refuses the sale for that block.
  const failed = isSale ? "sale in the block of the purchase" : "purchase";
  return { sellable: false, why: `the simulated ${failed} failed: ${words}` };
}

/** The part of `sent` that did not arrive, in per cent, rounded to the hundredth; null if the units are too few for it. */
function lost(sent: bigint, arrived: bigint): string | null {
  if (sent < LEAST_UNITS) return null;
  const missing = sent - arrived;
  if (missing <= ROUNDING) return "0";
  return format(rational((missing * 10_000n + sent / 2n) / sent, 100n));
}

/** Says which part of a trade failed, and the reason that the contract gave. */
function wordsOf(reason: string): string {
  if (!reason.startsWith(PAYMENT_REFUSED)) return `the pool or the token's transfer from it reverted${textOf(reason)}`;
  if (argumentOf(reason, 0) !== 1n) return "the transfer to the pool returned false";
  return `the transfer to the pool reverted${textOf(bytesArgument(reason, 1))}`;
}

const argumentOf = (data: string, index: number): bigint | undefined => abiWord(`0x${data.slice(10)}`, index);

/** Decodes a `bytes` argument of an error, as far as the probe kept it. */
function bytesArgument(data: string, index: number): string {
  const place = Number(argumentOf(data, index) ?? 0n) / 32;
  const length = Number(argumentOf(data, place) ?? 0n);
  const start = 10 + (place + 1) * 64;
  return `0x${data.slice(start, start + length * 2)}`;
}

function textOf(error: string): string {
  // Uniswap v4 wraps the errors of tokens and hooks.
  const data = error.startsWith(WRAPPED_ERROR) ? bytesArgument(error, 2) : error;
  if (data === "0x") return " without a reason";
  if (!data.startsWith(ERROR_TEXT)) return ` with the error ${data.slice(0, 10)}`;
  return ` (${(textAnswer({ ok: true, data: `0x${data.slice(10)}` }) ?? "").slice(0, MAX_REASON)})`;
}
