/** The prices of the past at evenly spaced blocks: those that the service has stored at once, then those that it computes. */
import { useState } from "preact/hooks";
import type { Client, PriceSeries, SeriesPoint } from "../../client/index.ts";
import { Choice } from "../parts/fields.tsx";
import { clock, whole } from "../parts/format.ts";
import { AddressLink } from "../parts/identifier.tsx";
import { StatusLine } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import { Table } from "../parts/table.tsx";
import type { Where } from "../state/place.ts";
import { useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import { Curve } from "./curve.tsx";
import { curvePoints } from "./curve-points.ts";

const SPANS = [
  { name: "a day", value: 24 },
  { name: "7 days", value: 168 },
  { name: "30 days", value: 720 },
  { name: "a year", value: 8_760 },
  { name: "all that is stored", value: Number.POSITIVE_INFINITY },
];
const COUNTS = [25, 50, 100, 200].map((value) => ({ value, name: `${value} blocks` }));
const HOUR_MS = 3_600_000;

interface HistoryOptions extends Where {
  /** ISO time of the shown price: the curve ends there. */
  readonly until: string;
  readonly onBlock: (block: number) => void;
}

export function PastPrices({ chain, address, until, onBlock }: HistoryOptions) {
  const { client } = useSession();
  const [hours, setHours] = useState(24);
  const [points, setPoints] = useState(25);
  const ask = async (stored: boolean, signal: AbortSignal) => {
    const from = await beginOf(client, { chain, address, until, hours }, signal);
    return client.priceSeries({ chain, address }, { from, to: until, points, stored, signal });
  };
  const key = [chain, address, hours, until, points];
  const stored = useQuery(["stored series", ...key], (signal) => ask(true, signal));
  const all = useQuery(["series", ...key], (signal) => ask(false, signal));
  const shown = all.kind === "loading" && stored.kind === "ready" ? stored : all;
  return (
    <section aria-label="Price history">
      <QueryView of={shown} loading="Computing the prices of these blocks…">
        {(series) => <Points series={series} isComplete={shown === all} {...{ chain, onBlock }} />}
      </QueryView>
      <div class="row">
        <Choice id="span" label="Over" value={hours} options={SPANS} onChoose={setHours} />
        <Choice id="points" label="at" value={points} options={COUNTS} onChoose={setPoints} />
      </div>
    </section>
  );
}

/** Where the range begins: the given hours before its end, or the first block that has a stored price. */
async function beginOf(
  client: Client,
  { chain, address, until, hours }: Omit<HistoryOptions, "onBlock"> & { readonly hours: number },
  signal: AbortSignal,
): Promise<string | number> {
  if (Number.isFinite(hours)) return new Date(Math.max(0, Date.parse(until) - hours * HOUR_MS)).toISOString();
  const { gaps, toBlock } = await client.priceSeries({ chain, address }, { from: 0, to: until, stored: true, signal });
  const [before] = gaps ?? [];
  return before?.fromBlock === 0 ? Math.min(before.toBlock + 1, toBlock ?? 0) : 0;
}

interface PointsOptions extends Pick<HistoryOptions, "chain" | "onBlock"> {
  readonly series: PriceSeries;
  /** False while only the stored points are known. */
  readonly isComplete: boolean;
}

function Points({ series, isComplete, ...options }: PointsOptions) {
  const { result: points } = series;
  const known = points.filter(({ usdPrice }) => usdPrice !== null);
  return (
    <>
      {known.length > 1 ? <Curve points={curvePoints(series)} /> : null}
      <StatusLine>
        {isComplete
          ? `${known.length} of ${points.length} blocks have a price`
          : "Computing the prices that are not stored…"}
      </StatusLine>
      {points.length === 0 ? null : (
        <details>
          <summary>As a table</summary>
          <PointTable points={points} {...options} />
        </details>
      )}
    </>
  );
}

const PointTable = ({
  points,
  chain,
  onBlock,
}: Pick<HistoryOptions, "chain" | "onBlock"> & { readonly points: readonly SeriesPoint[] }) => (
  <Table
    label="Prices"
    columns={[
      {
        title: "Block",
        cell: ({ block }) => (
          <button type="button" onClick={() => onBlock(block)} aria-label={`Show the price at block ${block}`}>
            {whole(block)}
          </button>
        ),
      },
      { title: "Time", cell: ({ time }) => clock(time) },
      { title: "Dollars", isNumber: true, cell: ({ usdPrice }) => usdPrice ?? "–" },
      { title: "Pool", cell: ({ pool }) => (pool === null ? "–" : <AddressLink value={pool} chain={chain} />) },
    ]}
    rows={points}
    keyOf={({ block }) => block}
    none={null}
  />
);
