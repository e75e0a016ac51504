/** The curve of a price, drawn by a library that loads when it is needed. */
import { useEffect, useRef, useState } from "preact/hooks";
import type UPlot from "uplot";
import type { SeriesPoint } from "../../client/index.ts";
import { clock } from "../parts/format.ts";
import "uplot/dist/uPlot.min.css";

const HEIGHT = 220;

export function Curve({ points }: { readonly points: readonly SeriesPoint[] }) {
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
