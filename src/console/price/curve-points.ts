/** The points of a curve: the prices of a series, with gaps where nobody read one. */
import type { PriceSeries } from "../../client/index.ts";

export interface CurvePoint {
  /** ISO time. */
  readonly time: string;
  /** Null where none is known: the curve has a gap there. */
  readonly usdPrice: number | null;
}

/** The points, and one without a price in each gap between them, so that no line leads over what nobody read. */
export function curvePoints({ result, gaps = [] }: PriceSeries): readonly CurvePoint[] {
  return result.flatMap((point, at) => {
    const before = result[at - 1];
    const isGap =
      before !== undefined && gaps.some(({ fromBlock, toBlock }) => fromBlock < point.block && toBlock > before.block);
    if (!isGap) return [point];
    const middle = (Date.parse(before.time) + Date.parse(point.time)) / 2;
    return [{ time: new Date(middle).toISOString(), usdPrice: null }, point];
  });
}
