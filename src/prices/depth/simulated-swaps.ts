/**
 * Lets the pools themselves compute swaps, because some decide their fee within the swap, which `depth.ts` can't compute. One
 * `eth_call` on overridden state begins each swap, and reverts it when the pool asks for its payment.
 */
import { AppError } from "../../core/errors.ts";
import type { Address } from "../../core/hex.ts";
import { selectorOf, wordOf } from "../../rpc/calls.ts";
import type { ChainReader } from "../../rpc/port.ts";
import type { Side } from "../market/market.ts";
import { squareRoot } from "../market/pools.ts";
import type { Quote } from "../market/quote.ts";
import type { Rational } from "../market/rational.ts";
import { abiWords, signedWord } from "../styles/abi.ts";
import { STYLES } from "../styles/styles.ts";
import { DOWN, UP } from "../styles/trade.ts";
import { legWordsOf } from "./legs.ts";
// Compiled in the same way as `sale-probe.sol`.
import SWAP_QUOTER from "./swap-quoter.txt";
import { addressFrom } from "./wallet.ts";

/** Amounts in smallest units. Zero stands for a simulated swap that reverted. */
export interface SwapAmounts {
  readonly sold: bigint;
  readonly bought: bigint;
  /** Quote tokens that the first pool pays until the price has fallen by 2 %, and takes until it has risen by 2 %. Zero for a pair. */
  readonly given: bigint;
  readonly paid: bigint;
}

const LEG = "(uint8,address,address,address,uint256,(address,address,uint24,int24,address))";
const MEASURE = selectorOf(`measure(${LEG}[],uint256,${LEG}[],uint256,uint160,uint160)`);
const WORDS_OF_HEAD = 6;
const WORDS_OF_LEG = 10;

/** True if swaps with a pool can be simulated. A pair without a quote of its own is computed, so its fee must be known. */
function canSimulate({ pool }: Side): boolean {
  const { sale, exact } = STYLES[pool.style];
  return sale !== "reserves" || (exact !== undefined && exact.refusal?.(pool) === undefined);
}

/** Returns the root of a pool's price at which the sold token has fallen to n/d of its price now, or just below. */
function limitOf(root: bigint, { n, d }: Rational, isToken0: boolean): bigint {
  return isToken0 ? squareRoot((root * root * n) / d) : squareRoot((root * root * d - 1n) / n) + 1n;
}

/**
 * Simulates the sale of an amount of the token over the quote's route, a purchase for an amount of dollars, and both moves of
 * the price by 2 %.
 * @returns undefined if a pool can't tell, or no endpoint answers on overridden state
 */
export async function simulatedSwaps(
  reader: ChainReader,
  { market, route }: Quote,
  { tokens, dollars }: { readonly tokens: bigint; readonly dollars: bigint },
): Promise<SwapAmounts | undefined> {
  const legs = route?.legs ?? [];
  const [first] = legs;
  const reading = first?.observation.reading;
  if (first === undefined || reading === undefined || !legs.every(canSimulate)) return undefined;
  const isToken0 = first.pool.token0 === first.base;
  // A pair has no root of a price to swap to.
  const root = reading.style === "v3" ? reading.sqrtPriceX96 : 0n;
  const limits = [limitOf(root, DOWN, isToken0), limitOf(root, UP, !isToken0)].map(signedWord);
  const wordsOf = ({ pool }: Side, input: Address, output: Address) =>
    legWordsOf({ pool, input, output }, [wordOf(pool.fee)]);
  const sale = legs.map((leg) => wordsOf(leg, leg.base, leg.quote));
  const purchase = legs.toReversed().map((leg) => wordsOf(leg, leg.quote, leg.base));
  const saleAt = WORDS_OF_HEAD * 32;
  const purchaseAt = saleAt + (1 + WORDS_OF_LEG * legs.length) * 32;
  const head = [wordOf(saleAt), signedWord(tokens), wordOf(purchaseAt), signedWord(dollars), ...limits];
  const data = [MEASURE, ...head, ...[sale, purchase].flatMap((one) => [wordOf(one.length), ...one])].join("");
  const to = addressFrom(market.block.hash);
  const accounts = { [to]: { code: `0x${SWAP_QUOTER}`, balance: 0n } };
  const call = reader.callOverridden({ from: to, to, data, accounts }, market.block.number);
  // If no endpoint answers, the caller reports why it could not compute the amounts itself.
  const result = await call.catch((error: unknown) => {
    if (error instanceof AppError) return undefined;
    throw error;
  });
  const [sold, bought, given, paid] = (result?.ok ? abiWords(result.data, 4) : undefined) ?? [];
  if (sold === undefined || bought === undefined || given === undefined || paid === undefined) return undefined;
  return { sold, bought, given, paid };
}
