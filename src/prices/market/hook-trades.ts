/**
 * What small trades through a pool's hooks say of its price. Hooks may give other amounts than the curve, so such a pool has
 * a price only if trades in both directions give it, the pool's fee aside. Pure.
 */
import type { Observation } from "./pools.ts";
import { compare, format, invert, minimum, ONE, type Rational, rational } from "./rational.ts";

/** A trade may get 5 % less than the price, or the price 5 % less than a trade: the bound of a last trade, too. */
const LEAST = rational(95n, 100n);

const REASONS = { refused: "hooks_refuse_trades", unknown: "hooks_not_tried" } as const;

/** How near a part is to the whole price. */
const nearness = (part: Rational): Rational => (part.n === 0n || compare(part, ONE) <= 0 ? part : invert(part));

const worstOf = (parts: readonly Rational[]): Rational => parts.map(nearness).reduce(minimum, ONE);

export interface HookDoubt {
  readonly reason: "hooks_refuse_trades" | "hooks_change_price" | "hooks_have_own_curve" | "hooks_not_tried";
  readonly numbers: Readonly<Record<string, string>>;
}

/** Why a pool with hooks has no price; undefined if trades agree with it, or if none is needed. */
export function hookDoubt({ traded, reading }: Pick<Observation, "traded" | "reading">): HookDoubt | undefined {
  if (traded === undefined) return undefined;
  if (traded.kind !== "made") return { reason: REASONS[traded.kind], numbers: {} };
  const { parts } = traded;
  const worst = worstOf(parts);
  if (compare(worst, LEAST) >= 0) return undefined;
  const off = parts.find((part) => compare(nearness(part), worst) === 0)!;
  // Without liquidity of its own the pool's hooks hold the tokens, and its state tells nothing.
  const hasOwnCurve = reading.style === "v3" && reading.liquidity === 0n;
  const reason = hasOwnCurve ? "hooks_have_own_curve" : "hooks_change_price";
  return { reason, numbers: { tradeOverPrice: format(off) } };
}

/** The part of the confidence in a price that trades with its pool leave. */
export const agreementOf = ({ traded }: Pick<Observation, "traded">): Rational =>
  traded?.kind === "made" ? worstOf(traded.parts) : ONE;
