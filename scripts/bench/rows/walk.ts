/** A walk of a large listing, with every page made for the first time. */
import { runChild } from "../children.ts";
import { median } from "../load.ts";
import type { WalkResult } from "../parts/walk.ts";
import { type Bench, grouped } from "../row.ts";

export const walk: Bench = {
  name: "walk",
  measure: async ({ tokens }) => {
    const { pages, ours, floor } = await runChild<WalkResult>({ script: "parts/walk.ts", args: [String(tokens)] });
    const perPage = (times: readonly number[]) => (median(times) * times.length * 1_000) / pages;
    const [us, them] = [perPage(ours), perPage(floor)];
    const ratio = them / us;
    return {
      name: `Page never served before: walk of ${grouped(tokens)} NFTs, without metadata`,
      floor: `${them.toFixed(0)} µs a page`,
      ours: `${us.toFixed(0)} µs a page`,
      ratio,
      reach: ">= 0.5",
      passed: ratio >= 0.5,
      detail: `${grouped(pages)} pages of 100, ${ours.length} stretches by turns with JSON.stringify of the same pages as objects`,
    };
  },
};
