/** Readings of a large collection by every route that goes through it: whether one of them stops the event loop. */
import { runChild } from "../children.ts";
import type { Reading } from "../parts/readings.ts";
import { type Bench, grouped } from "../row.ts";

const MAX_BLOCK_MS = 10;

export const readings: Bench = {
  name: "readings",
  measure: async ({ tokens }) => {
    const measured = await runChild<Reading[]>({ script: "parts/readings.ts", args: [String(tokens)] });
    const longest = (reading: Reading) => Math.max(reading.first.blockMs, reading.next.blockMs);
    const worst = measured.toSorted((a, b) => longest(b) - longest(a))[0] as Reading;
    const shown = measured.map(
      ({ name, first, next }) => `${name} ${first.busyMs.toFixed(0)} ms, then ${next.busyMs.toFixed(0)} ms`,
    );
    return {
      name: `Readings of ${grouped(tokens)} NFTs: the longest stop of the event loop`,
      floor: "–",
      ours: `${longest(worst).toFixed(1)} ms (${worst.name})`,
      ratio: undefined,
      reach: `<= ${MAX_BLOCK_MS} ms`,
      passed: longest(worst) <= MAX_BLOCK_MS,
      detail: `time of the serving thread, of the first reading and of the next one: ${shown.join("; ")}`,
    };
  },
};
