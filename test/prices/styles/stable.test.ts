/** The depth of pairs on the stable curve: what they give while their price moves, in reserves of a constant product. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { depth, type Observation } from "../../../src/prices/market/pools.ts";
import { toDouble } from "../../../src/prices/market/rational.ts";

const stable = { stableCurve: true };
const UNIT = 10n ** 18n;

const observation = (reserve0: bigint, reserve1: bigint): Observation => ({
  reading: { style: "v2", reserve0, reserve1 },
  ...{ block: 1, blockHash: `0x${"1".repeat(64)}` as Observation["blockHash"], timestamp: 0 },
});

const sidesOf = (x: number, y: number, decimals = { decimals0: 18, decimals1: 18 }) => {
  const raw = (whole: number, places: number) => BigInt(Math.round(whole * 1e6)) * 10n ** BigInt(places - 6);
  const sides = depth(stable, observation(raw(x, decimals.decimals0), raw(y, decimals.decimals1)), decimals)!;
  return [toDouble(sides.side0), toDouble(sides.side1)] as const;
};

/** In doubles, by steps along the curve: what leaves one side while the price moves by 2 %. */
function modelled(x: number, y: number): readonly [number, number] {
  const slope = (a: number, b: number) => (b * (3 * a * a + b * b)) / (a * (a * a + 3 * b * b));
  const k = x ** 3 * y + y ** 3 * x;
  const yAt = (a: number) => {
    let [low, high] = [0, (k / a) ** (1 / 3) + k / a ** 3];
    for (let i = 0; i < 200; i++) {
      const middle = (low + high) / 2;
      if (a ** 3 * middle + middle ** 3 * a < k) low = middle;
      else high = middle;
    }
    return high;
  };
  const equivalent = 1 - 1 / Math.sqrt(1.02);
  const xFor = (wanted: number) => {
    let [low, high] = [x / 1e6, x * 1e6];
    for (let i = 0; i < 300; i++) {
      const middle = Math.sqrt(low * high);
      if (slope(middle, yAt(middle)) > wanted) low = middle;
      else high = middle;
    }
    return high;
  };
  const now = slope(x, y);
  const [fewer, more] = [xFor(now * 1.02), xFor(now / 1.02)];
  return [Math.min(x, (x - fewer) / equivalent), Math.min(y, (y - yAt(more)) / equivalent)];
}

test("is the reserve of a pair in balance, whatever the decimals", () => {
  expect(sidesOf(1_000_000, 1_000_000)).toEqual([1_000_000, 1_000_000]);
  expect(sidesOf(1_000_000, 900_000, { decimals0: 6, decimals1: 18 })).toEqual([1_000_000, 900_000]);
});

test("is half of the longer reserve of a pair that was pushed far away", () => {
  const [side0, side1] = sidesOf(10_000_000, 10_000);
  expect(side1).toBeLessThan(10_001);
  expect(side0).toBeLessThan(5_100_000);
});

test("equals a walk along the curve", () => {
  fc.assert(
    fc.property(
      fc.double({ min: 1, max: 1e7, noNaN: true }),
      fc.double({ min: 0.02, max: 50, noNaN: true }),
      (x, ratio) => {
        const [whole, other] = [Math.round(x * 1e6) / 1e6, Math.round(x * ratio * 1e6) / 1e6];
        fc.pre(other >= 0.5);
        const [told, model] = [sidesOf(whole, other), modelled(whole, other)];
        for (const side of [0, 1] as const) expect(told[side] / model[side]).toBeCloseTo(1, 4);
      },
    ),
    { numRuns: 1_000 },
  );
});

test("has no side without a reserve", () => {
  const sides = depth(stable, observation(0n, UNIT), { decimals0: 18, decimals1: 18 })!;
  expect([toDouble(sides.side0), toDouble(sides.side1)]).toEqual([0, 0]);
});
