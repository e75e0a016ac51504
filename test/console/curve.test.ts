/** The curve of a price has a gap where nobody read a price, and a line elsewhere. */
import { expect, test } from "bun:test";
import { curvePoints } from "../../src/console/price/curve-points.ts";

const timeOf = (block: number): string => new Date(block * 1_000).toISOString();
const point = (block: number, usdPrice: number | null = block) => ({
  ...{ block, time: timeOf(block), usdPrice, pool: null, origin: "stored" as const },
});
const series = (...blocks: readonly number[]) => ({
  ...{ chain: "eth", address: `0x${"12".repeat(20)}`, result: blocks.map((block) => point(block)) },
});

const shown = (of: Parameters<typeof curvePoints>[0]) => curvePoints(of).map(({ usdPrice }) => usdPrice);

test("a series without gaps is one line", () => {
  expect(shown(series(10, 20, 30))).toEqual([10, 20, 30]);
  expect(shown({ ...series(10, 20, 30), gaps: [{ fromBlock: 1, toBlock: 9 }] })).toEqual([10, 20, 30]);
});

test("a gap between two points breaks the line between them, and only there", () => {
  const gaps = [
    { fromBlock: 1, toBlock: 9 },
    { fromBlock: 21, toBlock: 29 },
  ];
  const points = curvePoints({ ...series(10, 20, 30, 40), gaps });
  expect(points.map(({ usdPrice }) => usdPrice)).toEqual([10, 20, null, 30, 40]);
  expect(points[2]?.time).toBe(timeOf(25));
});

test("a block without a price is a gap itself", () => {
  const result = [point(10), point(20, null), point(30)];
  expect(shown({ ...series(), result })).toEqual([10, null, 30]);
});
