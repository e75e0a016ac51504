/** The curve of a price, as the service computes it at evenly spaced blocks. Each point is the answer for its block. */
import { useEffect, useRef, useState } from "preact/hooks";
import type UPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { SeriesPoint } from "../client/index.ts";
import { clock, whole } from "./format.ts";
import { useAnswer, useSession } from "./hooks.ts";
import { Address, Curl, Failure, Panel, Scroll } from "./parts.tsx";

const HEIGHT = 220;
const SPANS = [
  { name: "24 hours", hours: 24 },
  { name: "7 days", hours: 168 },
  { name: "30 days", hours: 720 },
] as const;
const POINTS = [25, 50, 100, 200] as const;
const HOUR_MS = 3_600_000;

interface CurveOptions {
  readonly chain: string;
  readonly address: string;
  /** ISO time of the shown price: the curve ends there. */
  readonly until: string;
  readonly onBlock: (block: number) => void;
}

export function CurvePanel({ chain, address, until, onBlock }: CurveOptions) {
  const { client } = useSession();
  const [hours, setHours] = useState<number>(SPANS[0].hours);
  const [points, setPoints] = useState<number>(POINTS[0]);
  const from = new Date(Math.max(0, Date.parse(until) - hours * HOUR_MS)).toISOString();
  const range = { from, to: until, points };
  const inputs = [chain, address, from, until, points];
  // What the service has stored comes at once, and the rest once the service has read it from the chain.
  const stored = useAnswer(
    (signal) => client.priceSeries({ chain, address }, { ...range, stored: true, signal }),
    inputs,
  );
  const all = useAnswer((signal) => client.priceSeries({ chain, address }, { ...range, signal }), inputs);
  const { error, isLoading } = all;
  const result = (isLoading ? stored.value : all.value)?.result ?? [];
  const known = result.filter(({ usdPrice }) => usdPrice !== null);
  return (
    <Panel title="The price before">
      <p class="row">
        <label for="span">Over</label>
        <select id="span" value={hours} onChange={({ currentTarget }) => setHours(Number(currentTarget.value))}>
          {SPANS.map((one) => (
            <option key={one.name} value={one.hours}>
              {one.name}
            </option>
          ))}
        </select>
        <label for="points">at</label>
        <select id="points" value={points} onChange={({ currentTarget }) => setPoints(Number(currentTarget.value))}>
          {POINTS.map((count) => (
            <option key={count} value={count}>
              {count} blocks
            </option>
          ))}
        </select>
        <span role="status" class="quiet">
          {isLoading
            ? `Computing… ${known.length} of ${result.length} are stored`
            : `${known.length} of ${result.length} blocks have a price`}
        </span>
      </p>
      <Failure error={error} />
      {known.length > 1 ? <Curve points={known} /> : null}
      {result.length === 0 ? null : (
        <details>
          <summary>As a table</summary>
          <PointTable points={result} onBlock={onBlock} />
        </details>
      )}
      <Curl requests={[{ path: `/api/prices/${chain}/${address}/series?from=${from}&to=${until}&points=${points}` }]} />
    </Panel>
  );
}

function Curve({ points }: { readonly points: readonly SeriesPoint[] }) {
  const box = useRef<HTMLDivElement>(null);
  const [isBroken, setBroken] = useState(false);
  const prices = points.map(({ usdPrice }) => usdPrice as number);
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const style = getComputedStyle(element);
    const [text, line] = [style.getPropertyValue("--quiet"), style.getPropertyValue("--line")];
    const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
    let plot: UPlot | undefined;
    const options: UPlot.Options = {
      ...{ width: element.clientWidth, height: HEIGHT, legend: { show: false } },
      axes: [axis, { ...axis, size: 80, values: (_plot, ticks) => ticks.map((tick) => `$${tick}`) }],
      series: [{}, { stroke: style.getPropertyValue("--accent"), width: 2 }],
    };
    const data: UPlot.AlignedData = [points.map(({ time }) => Date.parse(time) / 1_000), prices];
    const resized = () => plot?.setSize({ width: element.clientWidth, height: HEIGHT });
    const observer = new ResizeObserver(resized);
    observer.observe(element);
    // The library reads the browser's language when it loads, and fails on one that is none. Only the curve fails then.
    import("uplot").then(
      ({ default: Plot }) => {
        if (element.isConnected) plot = new Plot(options, data, element);
      },
      () => setBroken(true),
    );
    return () => {
      observer.disconnect();
      plot?.destroy();
    };
  }, [points]);
  if (isBroken) return <p class="quiet">The curve can't be drawn in this browser. The table has its points.</p>;
  const [first, last] = [points[0], points.at(-1)];
  const label = `Price from ${clock(first?.time ?? "")} to ${clock(last?.time ?? "")}, between $${Math.min(...prices)} and $${Math.max(...prices)}`;
  return <div class="curve" ref={box} role="img" aria-label={label} />;
}

function PointTable({ points, onBlock }: { readonly points: readonly SeriesPoint[] } & Pick<CurveOptions, "onBlock">) {
  return (
    <Scroll label="Prices">
      <table>
        <thead>
          <tr>
            <th scope="col">Block</th>
            <th scope="col">Time</th>
            <th scope="col" class="number">
              Dollars
            </th>
            <th scope="col">Pool</th>
          </tr>
        </thead>
        <tbody>
          {points.map(({ block, time, usdPrice, pool }) => (
            <tr key={block}>
              <td>
                <button type="button" onClick={() => onBlock(block)} aria-label={`Show the price at block ${block}`}>
                  {whole(block)}
                </button>
              </td>
              <td>{clock(time)}</td>
              <td class="number">{usdPrice ?? "–"}</td>
              <td>{pool === null ? "–" : <Address value={pool} />}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}
