/** The curve of a price, drawn by a library that loads when it is needed. Times are UTC, as everywhere. */
import { useEffect, useRef, useState } from "preact/hooks";
import type UPlot from "uplot";
import { clock, shortened } from "../parts/format.ts";
import type { CurvePoint } from "./curve-points.ts";
import "uplot/dist/uPlot.min.css";

const HEIGHT = 240;

export function Curve({ points }: { readonly points: readonly CurvePoint[] }) {
  const box = useRef<HTMLDivElement>(null);
  const [isBroken, setBroken] = useState(false);
  const prices = points.flatMap(({ usdPrice }) => usdPrice ?? []);
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    let plot: UPlot | undefined;
    const resized = () => plot?.setSize({ width: element.clientWidth, height: HEIGHT });
    const observer = new ResizeObserver(resized);
    observer.observe(element);
    // The library reads the browser's language when it loads, and fails on one that is none. Only the curve fails then.
    import("uplot").then(
      ({ default: Plot }) => {
        const data: UPlot.AlignedData = [
          points.map(({ time }) => Date.parse(time) / 1_000),
          points.map(({ usdPrice }) => usdPrice),
        ];
        if (element.isConnected) plot = new Plot(optionsFor(element, Plot), data, element);
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

const DAY_SECONDS = 86_400;

/** Times at the axis: dates over several days, else hours, and the date where a day begins. */
function timesOf(ticks: readonly number[]): string[] {
  const [first = 0, second = 0] = ticks;
  return ticks.map((tick) => {
    const [date = "", time = ""] = new Date(tick * 1_000).toISOString().split("T");
    return second - first >= DAY_SECONDS || tick % DAY_SECONDS === 0 ? date : time.slice(0, 5);
  });
}

/** The legend below the curve has the value under the pointer. */
function optionsFor(element: HTMLElement, Plot: typeof UPlot): UPlot.Options {
  const style = getComputedStyle(element);
  const [text, line, accent] = ["--quiet", "--line", "--accent"].map((name) => style.getPropertyValue(name)) as [
    string,
    string,
    string,
  ];
  const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line } };
  return {
    ...{ width: element.clientWidth, height: HEIGHT },
    tzDate: (seconds) => Plot.tzDate(new Date(seconds * 1_000), "Etc/UTC"),
    axes: [
      { ...axis, label: "UTC", labelSize: 20, values: (_plot, ticks) => timesOf(ticks) },
      { ...axis, size: 80, values: (_plot, ticks) => ticks.map((tick) => `$${tick}`) },
    ],
    series: [
      { label: "Time", value: (_plot, at) => (at == null ? "--" : clock(new Date(at * 1_000).toISOString())) },
      {
        ...{ label: "Price", stroke: accent, width: 2, points: { size: 5, fill: accent } },
        value: (_plot, price) => (price == null ? "--" : `$${shortened(String(price))}`),
      },
    ],
  };
}
