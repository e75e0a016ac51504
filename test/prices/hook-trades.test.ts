/** What small trades through a pool's hooks say of its price, at the bounds. */
import { describe, expect, test } from "bun:test";
import { agreementOf, hookDoubt } from "../../src/prices/market/hook-trades.ts";
import type { HookTrade } from "../../src/prices/market/pools.ts";
import { rational, toDouble } from "../../src/prices/market/rational.ts";

const seen = (traded: HookTrade | undefined, liquidity = 1n) => ({
  ...(traded === undefined ? {} : { traded }),
  reading: { style: "v3", sqrtPriceX96: 1n << 96n, liquidity, tick: 0 } as const,
});
const made = (...parts: readonly (readonly [bigint, bigint])[]): HookTrade => ({
  kind: "made",
  parts: parts.map(([n, d]) => rational(n, d)),
});

describe("a pool with hooks", () => {
  test("has a price if no trade is needed, or both directions are within 5 % of it", () => {
    for (const traded of [undefined, made(), made([1n, 1n], [95n, 100n]), made([100n, 95n], [99n, 100n])])
      expect(hookDoubt(seen(traded))).toBeUndefined();
  });

  test("has none if one direction is further off, below or above", () => {
    for (const [traded, tradeOverPrice] of [
      [made([1n, 1n], [9_499n, 10_000n]), "0.9499"],
      [made([11n, 10n], [1n, 1n]), "1.1"],
      [made([1n, 1n], [0n, 1n]), "0"],
    ] as const)
      expect(hookDoubt(seen(traded))).toEqual({ reason: "hooks_change_price", numbers: { tradeOverPrice } });
  });

  test("without liquidity of its own has a curve of its own, if it trades at another price", () => {
    expect(hookDoubt(seen(made([1n, 7n], [7n, 1n]), 0n))?.reason).toBe("hooks_have_own_curve");
  });

  test("says whether it refused, or was not tried", () => {
    expect(hookDoubt(seen({ kind: "refused" }))).toEqual({ reason: "hooks_refuse_trades", numbers: {} });
    expect(hookDoubt(seen({ kind: "unknown" }))).toEqual({ reason: "hooks_not_tried", numbers: {} });
  });

  test("leaves the confidence the part of the worse direction", () => {
    expect(toDouble(agreementOf(seen(made([98n, 100n], [100n, 96n]))))).toBe(0.96);
    expect(toDouble(agreementOf(seen(undefined)))).toBe(1);
  });
});
