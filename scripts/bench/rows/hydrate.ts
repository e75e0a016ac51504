/** Hydration of a cold collection: from its snapshot, and from the log alone. */
import { runChild } from "../children.ts";
import { median } from "../load.ts";
import type { HydrateResult } from "../parts/hydrate.ts";
import { type Bench, grouped, spread } from "../row.ts";

const LEAST_PER_SECOND = 5_000_000;

export const hydrate: Bench = {
  name: "hydrate",
  measure: async ({ tokens, turns }) => {
    const args = [String(tokens), String(turns)];
    const result = await runChild<HydrateResult>({ script: "parts/hydrate.ts", args });
    const rates = (times: readonly number[]) => times.map((ms) => (result.transfers * 1_000) / ms);
    const [us, fromLog, them] = [rates(result.ours), rates(result.fromLog), rates(result.floor)];
    const ratio = median(us) / median(them);
    return {
      name: "Hydration of a cold collection, from its snapshot",
      floor: `${spread(them, grouped)} transfers/s`,
      ours: `${spread(us, grouped)} transfers/s`,
      ratio,
      reach: `>= 0.5, >= ${grouped(LEAST_PER_SECOND)} transfers/s`,
      passed: ratio >= 0.5 && median(fromLog) >= LEAST_PER_SECOND,
      detail:
        `${grouped(tokens)} NFTs, ${grouped(result.transfers)} transfers, ${turns} turns; from the log alone, as the first ` +
        `time, ${spread(fromLog, grouped)} transfers/s; floor: the bytes of the transfers decoded into typed arrays`,
    };
  },
};
