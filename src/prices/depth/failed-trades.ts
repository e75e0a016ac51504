/** Says of a simulated trade that failed which part of it did, by whom, and whether that speaks against the token. */
import { ZERO_ADDRESS } from "../../core/hex.ts";
import { selectorOf } from "../../rpc/calls.ts";
import { abiWord, textAnswer } from "../styles/abi.ts";
import type { WalletTrades, Way } from "./wallet.ts";

const MAX_REASON = 120;

const PAYMENT_REFUSED = selectorOf("PaymentRefused(bool,bytes)");
const WRAPPED_ERROR = selectorOf("WrappedError(address,bytes4,bytes,bytes)");
const ERROR_TEXT = selectorOf("Error(string)");

export interface TradeFailure {
  readonly why: string;
  /** True if it speaks against the token, and not against another one or the pool's hooks. */
  readonly isAccusation: boolean;
  /** True if the pool refused, and not the token's transfer to it. */
  readonly isPaid: boolean;
}

/** The trade that failed; undefined if all went through. */
export function tradeFailureOf(told: WalletTrades, way: Way): TradeFailure | undefined {
  const { trades, reason, isApproval } = told;
  const { steps } = way;
  if (trades.length > steps.length) return undefined;
  const isPayment = isPaymentRefused(reason);
  const isSale = trades.length === steps.length;
  const isPurchase = trades.length === steps.length - 1;
  const other = (why: string): TradeFailure => ({ why, isAccusation: false, isPaid: !isPayment });
  if (isApproval) {
    return {
      why: `the token refuses to be approved: it reverted${errorWords(reason)}`,
      isAccusation: true,
      isPaid: true,
    };
  }
  const words = refusalWords(reason);
  const { hooks = ZERO_ADDRESS } = steps.at(-1)?.pool.key ?? {};
  if (hooks !== ZERO_ADDRESS && (isSale || isPurchase) && !isPayment) {
    return other(`the pool's hooks may want another caller: ${words}`);
  }
  // A purchase is paid in another token.
  if (way.token === way.wrapped || !(isSale || (isPurchase && !isPayment))) {
    return other(`a trade with another token failed: ${words}`);
  }
  return {
    why: `the simulated ${isSale ? "sale" : "purchase"} failed: ${words}`,
    isAccusation: true,
    isPaid: !isPayment,
  };
}

/** True if the input token refused to pay the pool. */
const isPaymentRefused = (reason: string): boolean => reason.startsWith(PAYMENT_REFUSED);

/** Says which part of a trade failed, and the reason that the contract gave. */
function refusalWords(reason: string): string {
  if (!isPaymentRefused(reason)) return `the pool or the token's transfer from it reverted${errorWords(reason)}`;
  if (argumentOf(reason, 0) !== 1n) return "the transfer to the pool returned false";
  return `the transfer to the pool reverted${errorWords(bytesArgument(reason, 1))}`;
}

/** The reason in revert data, as a continuation of "reverted". */
function errorWords(error: string): string {
  // Uniswap v4 wraps the errors of tokens and hooks.
  const data = error.startsWith(WRAPPED_ERROR) ? bytesArgument(error, 2) : error;
  if (data === "0x") return " without a reason";
  if (!data.startsWith(ERROR_TEXT)) return ` with the error ${data.slice(0, 10)}`;
  return ` (${(textAnswer({ ok: true, data: `0x${data.slice(10)}` }) ?? "").slice(0, MAX_REASON)})`;
}

const argumentOf = (data: string, index: number): bigint | undefined => abiWord(`0x${data.slice(10)}`, index);

/** Decodes a `bytes` argument of an error, as far as the probe kept it. */
function bytesArgument(data: string, index: number): string {
  const place = Number(argumentOf(data, index) ?? 0n) / 32;
  const length = Number(argumentOf(data, place) ?? 0n);
  const start = 10 + (place + 1) * 64;
  return `0x${data.slice(start, start + length * 2)}`;
}
