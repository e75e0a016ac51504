/** A row of the table: the service beside its floor, and the target. */
import { median } from "./load.ts";
import type { Plot } from "./plot.ts";

export interface Row {
  readonly name: string;
  /** Results of the floor and of the service, with units. */
  readonly floor: string;
  readonly ours: string;
  /**
   * The service relative to the floor: 1 if equal, more if the service is better; undefined without a floor.
   */
  readonly ratio: number | undefined;
  /** The target, in words. */
  readonly reach: string;
  readonly passed: boolean;
  readonly detail: string;
  readonly plot?: Plot;
}

/** The sizes of a run. */
export interface Scale {
  readonly name: "quick" | "standard" | "full";
  /** Turns of each contender, of which the median counts. */
  readonly turns: number;
  /** Transfers that the service reads before a measured backfill; 0 measures a fresh process. */
  readonly warmUp: number;
  /** Transfers of the backfill rows. */
  readonly transfers: number;
  /** Transfers of the sparse history, and its number of blocks. */
  readonly sparse: { readonly transfers: number; readonly blocks: number };
  readonly postgresTransfers: number;
  /** Transfers of the fresh process's collections, transfers that the warm one has read before, and turns of both. */
  readonly fresh: { readonly sizes: readonly number[]; readonly warmUp: number; readonly turns: number };
  /** NFTs of the listing that is walked, measured in memory and hydrated. */
  readonly tokens: number;
  /** The longest history that must fit a given memory. */
  readonly largestTokens: number;
  /** Collections in the log at a start. */
  readonly collections: number;
  readonly sockets: number;
  /** Ms of load per measurement, and short turns per one of `turns`. */
  readonly loadMs: number;
  readonly shortTurns: number;
  /** Reads of a page without a change before it is measured. */
  readonly settledLooks: number;
  /** Ms for which a quiet collection is followed. */
  readonly followMs: number;
  /** Sizes of the plots: NFTs, and transfers. */
  readonly pageSizes: readonly number[];
  readonly transferSizes: readonly number[];
}

export interface Bench {
  /** For `--only`. */
  readonly name: string;
  measure(scale: Scale): Promise<Row>;
}

/** Runs both contenders by turns with alternating order, so that other load affects both. */
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

/** Formats whole numbers with spaces between thousands. */
export function grouped(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, " ");
}

/** The minimum, the median and the maximum. */
export function spread(values: readonly number[], show: (value: number) => string): string {
  return `${show(median(values))} (${show(Math.min(...values))} to ${show(Math.max(...values))})`;
}
