/** The prices of the past, as the service computes them at evenly spaced blocks. Each point is the answer for its block. */
import { useState } from "preact/hooks";
import type { SeriesPoint, SeriesQuery } from "../../client/index.ts";
import { Choice } from "../parts/fields.tsx";
import { clock, whole } from "../parts/format.ts";
import { AddressLink } from "../parts/identifier.tsx";
import { Panel, StatusLine } from "../parts/parts.tsx";
import { QueryView } from "../parts/query-view.tsx";
import { Table } from "../parts/table.tsx";
import type { Where } from "../state/place.ts";
import { useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import { Curve } from "./curve.tsx";

const SPANS = [
  { name: "24 hours", value: 24 },
  { name: "7 days", value: 168 },
  { name: "30 days", value: 720 },
];
const COUNTS = [25, 50, 100, 200].map((value) => ({ value, name: `${value} blocks` }));
const HOUR_MS = 3_600_000;

interface HistoryOptions extends Where {
  /** ISO time of the shown price: the curve ends there. */
  readonly until: string;
  readonly onBlock: (block: number) => void;
}

export function HistoryPanel({ chain, address, until, onBlock }: HistoryOptions) {
  const { client } = useSession();
  const [hours, setHours] = useState(24);
  const [points, setPoints] = useState(25);
  const from = new Date(Math.max(0, Date.parse(until) - hours * HOUR_MS)).toISOString();
  const range = { from, to: until, points };
  const ask = (query: SeriesQuery) => client.priceSeries({ chain, address }, { ...range, ...query });
  const key = [chain, address, from, until, points];
  // What the service has stored comes at once, and the rest once the service has read it from the chain.
  const stored = useQuery(["stored series", ...key], (signal) => ask({ stored: true, signal }));
  const all = useQuery(["series", ...key], (signal) => ask({ signal }));
  const isAsking = all.kind === "loading" || (all.kind === "ready" && all.isRefreshing);
  const shown = isAsking && stored.kind === "ready" ? stored : all;
  return (
    <Panel title="Price history">
      <div class="row">
        <Choice id="span" label="Over" value={hours} options={SPANS} onChoose={setHours} />
        <Choice id="points" label="at" value={points} options={COUNTS} onChoose={setPoints} />
      </div>
      <QueryView of={shown} loading="Computing the prices of these blocks…">
        {({ result }) => <Points points={result} isComplete={shown === all} {...{ chain, onBlock }} />}
      </QueryView>
    </Panel>
  );
}

interface PointsOptions extends Pick<HistoryOptions, "chain" | "onBlock"> {
  readonly points: readonly SeriesPoint[];
  /** False while only the stored points are known. */
  readonly isComplete: boolean;
}

function Points({ points, isComplete, ...options }: PointsOptions) {
  const known = points.filter(({ usdPrice }) => usdPrice !== null);
  return (
    <>
      <StatusLine>
        {isComplete
          ? `${known.length} of ${points.length} blocks have a price`
          : `Computing… ${known.length} of ${points.length} are stored`}
      </StatusLine>
      {known.length > 1 ? <Curve points={known} /> : null}
      {points.length === 0 ? null : (
        <details>
          <summary>As a table</summary>
          <PointTable points={points} {...options} />
        </details>
      )}
    </>
  );
}

const PointTable = ({ points, chain, onBlock }: Omit<PointsOptions, "isComplete">) => (
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
