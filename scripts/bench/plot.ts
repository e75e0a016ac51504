/** Draws a line over sizes as SVG, by echarts without a browser. */
import { init } from "echarts";

export interface Plot {
  /** File name without its extension. */
  readonly file: string;
  readonly title: string;
  readonly x: string;
  readonly y: string;
  readonly series: readonly { readonly name: string; readonly points: readonly (readonly [number, number])[] }[];
}

const SIZE = { width: 720, height: 400 } as const;

/** The plot as SVG; sizes on a logarithmic axis, values from 0. */
export function drawPlot({ title, x, y, series }: Plot): string {
  const chart = init(null, null, { renderer: "svg", ssr: true, ...SIZE });
  chart.setOption({
    animation: false,
    backgroundColor: "#ffffff",
    title: { text: title, left: "center" },
    // Without a browser, widths of text are estimated.
    legend: { bottom: 0, itemGap: 70 },
    grid: { left: 80, right: 30, top: 50, bottom: 75 },
    xAxis: { type: "log", name: x, nameLocation: "middle", nameGap: 28 },
    yAxis: { type: "value", name: y, min: 0 },
    series: series.map(({ name, points }) => ({ type: "line", name, data: points.map((point) => [...point]) })),
  });
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}
