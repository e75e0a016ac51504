/** A row of the table: what was measured, beside which floor, and whether that is as good as it has to be. */
import { median } from "./load.ts";
import type { Plot } from "./plot.ts";

export interface Row {
  readonly name: string;
  /** What the floor came to, and the service, in words with a unit. */
  readonly floor: string;
  readonly ours: string;
  /**
   * The service as a part of the floor, 1 where both are equal, more where it is the better; undefined without a floor.
   */
  readonly ratio: number | undefined;
  /** What has to be reached, in words. */
  readonly reach: string;
  readonly passed: boolean;
  readonly detail: string;
  readonly plot?: Plot;
}

/** How large everything is. */
export interface Scale {
  readonly name: "quick" | "standard" | "full";
  /** Turns of each contender; the median counts. */
  readonly turns: number;
  /** Transfers that the service has read before a backfill counts; 0: a fresh process is measured. */
  readonly warmUp: number;
  /** Transfers of the backfill rows. */
  readonly transfers: number;
  /** Transfers of the sparse history and the blocks that it lies in. */
  readonly sparse: { readonly transfers: number; readonly blocks: number };
  readonly postgresTransfers: number;
  /** Transfers of the fresh process's collections, those that the warm one has read before, and turns of both. */
  readonly fresh: { readonly sizes: readonly number[]; readonly warmUp: number; readonly turns: number };
  /** NFTs of the listing that is walked, kept in memory and hydrated. */
  readonly tokens: number;
  /** The longest history of a collection that has to fit a given memory. */
  readonly largestTokens: number;
  /** Collections in the log of the start. */
  readonly collections: number;
  readonly sockets: number;
  /** Load in ms, for what is measured under load, and short turns of it to one of `turns`. */
  readonly loadMs: number;
  readonly shortTurns: number;
  /** Looks at a page in which it does not change before it is measured. */
  readonly settledLooks: number;
  /** Sizes of the plots: NFTs, and transfers. */
  readonly pageSizes: readonly number[];
  readonly transferSizes: readonly number[];
}

export interface Bench {
  /** For `--only`. */
  readonly name: string;
  measure(scale: Scale): Promise<Row>;
}

/** Runs both by turns, now one first and now the other, so that what else the machine does befalls both. */
export async function byTurns<A, B>(
  turns: number,
  ours: (turn: number) => Promise<A>,
  floor: (turn: number) => Promise<B>,
): Promise<{ ours: A[]; floor: B[] }> {
  const results: { ours: A[]; floor: B[] } = { ours: [], floor: [] };
  for (let turn = 0; turn < turns; turn++) {
    if (turn % 2 === 0) results.ours.push(await ours(turn));
    results.floor.push(await floor(turn));
    if (turn % 2 === 1) results.ours.push(await ours(turn));
  }
  return results;
}

/** Whole numbers with spaces between thousands. */
export function grouped(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, " ");
}

/** The least, the median and the largest of some values. */
export function spread(values: readonly number[], show: (value: number) => string): string {
  return `${show(median(values))} (${show(Math.min(...values))} to ${show(Math.max(...values))})`;
}
