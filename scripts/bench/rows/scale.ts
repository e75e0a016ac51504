/** The same work at sizes ten times apart. Equal results are a flat line. */
import { freemem } from "node:os";
import { runChild } from "../children.ts";
import { median } from "../load.ts";
import type { PagesResult } from "../parts/pages.ts";
import type { SizeResult } from "../parts/size.ts";
import type { Plot } from "../plot.ts";
import { type Bench, grouped, type Row, type Scale } from "../row.ts";
import { backfillOnce, denseCollection, startWithWarmUp } from "./backfill.ts";

const FLAT = 1.5;
/** From this size on, one turn and few moves are enough: the size of the listing matters. */
const LARGE = 10_000_000;
const MOVES = 2;
const LARGE_MOVES = 0.1;
/** The node's memory per transfer. */
const BYTES_A_LOG = 700;

type Point = readonly [size: number, value: number];

interface Line {
  readonly plot: Omit<Plot, "series">;
  readonly name: string;
  readonly unit: string;
  readonly of: string;
}

/** Ratio of the largest and the smallest value. */
const spreadOf = (points: readonly Point[]): number => {
  const values = points.map(([, value]) => value);
  return Math.max(...values) / Math.min(...values);
};

function lineRow({ plot, name, unit, of }: Line, points: readonly Point[], others: Plot["series"] = []): Row {
  const factor = spreadOf(points);
  return {
    name,
    floor: "–",
    ours: points
      .map(([, value]) => grouped(value))
      .join(", ")
      .concat(` ${unit}`),
    ratio: 1 / factor,
    reach: `flat within ${FLAT}x`,
    passed: factor <= FLAT,
    detail: `at ${points.map(([size]) => grouped(size)).join(", ")} ${of}; ${factor.toFixed(2)}x between the least and the largest`,
    plot: { ...plot, series: [{ name, points }, ...others] },
  };
}

/** Results per size, so that one measurement serves several lines. */
const known = new Map<string, Promise<SizeResult>>();

/** As many histories of `transfers` each as make `total`. */
function measureSize(transfers: number, total: number, turns: number): Promise<SizeResult> {
  const tokens = Math.round(transfers / (1 + MOVES));
  const args = [tokens, MOVES, Math.max(total, transfers), transfers >= LARGE ? 1 : turns].map(String);
  const key = args.join(" ");
  const found = known.get(key) ?? runChild<SizeResult>({ script: "parts/size.ts", args });
  known.set(key, found);
  return found;
}

export const scalePages: Bench = {
  name: "scale-pages",
  measure: async ({ pageSizes }) => {
    const [served, made]: [Point[], Point[]] = [[], []];
    for (const tokens of pageSizes) {
      const args = [tokens, tokens >= LARGE ? LARGE_MOVES : MOVES].map(String);
      const result = await runChild<PagesResult>({ script: "parts/pages.ts", args });
      served.push([tokens, result.served]);
      made.push([tokens, result.made]);
    }
    const name = "Page of 100 in the middle of a listing, never served before";
    const plot = { file: "pages", title: name, x: "NFTs", y: "µs a page" };
    const byClient = { name: "As a client sees it, of tokens whose metadata nobody asked for yet", points: served };
    const row = lineRow({ plot, name, unit: "µs", of: "NFTs" }, made, [byClient]);
    const seen = served.map(([, value]) => grouped(value)).join(", ");
    return { ...row, detail: `${row.detail}; as a client sees it, of tokens nobody looked at yet: ${seen} µs` };
  },
};

async function rateRow(scale: Scale, pick: (result: SizeResult) => number, what: "Append" | "Hydrate"): Promise<Row> {
  const points: Point[] = [];
  const { transferSizes, turns } = scale;
  const total = Math.max(...transferSizes.filter((size) => size < LARGE));
  for (const size of transferSizes) points.push([size, pick(await measureSize(size, total, turns))]);
  const name = what === "Append" ? "Appending histories to the log" : "Hydrating histories from the log";
  const plot = { file: what.toLowerCase(), title: name, x: "transfers of a history", y: "transfers/s" };
  const row = lineRow({ plot, name, unit: "transfers/s", of: "transfers" }, points);
  return {
    ...row,
    detail: `${row.detail}; as many histories of each length as are ${grouped(total)} transfers together`,
  };
}

export const scaleAppend: Bench = {
  name: "scale-append",
  measure: (scale) => rateRow(scale, ({ appended }) => appended, "Append"),
};
export const scaleHydrate: Bench = {
  name: "scale-hydrate",
  measure: (scale) => rateRow(scale, ({ hydrated }) => hydrated, "Hydrate"),
};

export const scaleBackfill: Bench = {
  name: "scale-backfill",
  measure: async (scale) => {
    const { transferSizes, turns } = scale;
    const [history, whole]: [Point[], Point[]] = [[], []];
    for (const transfers of transferSizes) {
      if (transfers * BYTES_A_LOG * 1.5 > freemem()) continue;
      const { chain, isWarm } = await startWithWarmUp(denseCollection(transfers), scale);
      const runs: { ms: number; historyMs: number }[] = [];
      try {
        for (let turn = 0; turn < (transfers >= LARGE ? 1 : turns); turn++)
          runs.push(await backfillOnce(chain, { isWarm }));
      } finally {
        await chain.stop();
      }
      const rate = (times: readonly number[]) => (transfers * 1_000) / median(times);
      history.push([transfers, rate(runs.map(({ historyMs }) => historyMs))]);
      whole.push([transfers, rate(runs.map(({ ms }) => ms))]);
    }
    const name = "Backfill, from identification to completion";
    const plot = { file: "backfill", title: "Backfill into SQLite", x: "transfers", y: "transfers/s" };
    const row = lineRow({ plot, name, unit: "transfers/s", of: "transfers" }, history, [
      { name: "From the request to the message that it is indexed", points: whole },
    ]);
    const fromRequest = whole.map(([, value]) => grouped(value)).join(", ");
    return { ...row, detail: `${row.detail}; from the request to \`indexed\` ${fromRequest}` };
  },
};
