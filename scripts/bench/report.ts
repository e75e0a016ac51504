/**
 * Writes the table of a run: prints each row, and rewrites `results/` after it, so that finished rows are never lost.
 * Quick and full runs have folders of their own.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { messageOf } from "../../src/core/errors.ts";
import { machine } from "./machine.ts";
import { drawPlot } from "./plot.ts";
import type { Row, Scale } from "./row.ts";

const RESULTS = join(import.meta.dir, "results");

interface Written extends Omit<Row, "plot"> {
  readonly bench: string;
  readonly scale: Scale["name"];
  /** The machine and its load at the end. */
  readonly machine: string;
  readonly seconds: number;
  readonly plotFile: string | undefined;
}

const mark = (passed: boolean): string => (passed ? "yes" : "**no**");

export class Report {
  readonly #scale: Scale;
  readonly #order: readonly string[];
  readonly #folder: string;
  readonly #rows: Written[];

  /**
   * @param order of the benches in the table
   * @param isWhole true if every bench runs; otherwise rows of the previous run stay unless they are replaced
   */
  constructor(scale: Scale, order: readonly string[], isWhole: boolean) {
    this.#scale = scale;
    this.#order = order;
    this.#folder = scale.name === "standard" ? RESULTS : join(RESULTS, scale.name);
    this.#rows = isWhole ? [] : readRows(this.#folder);
    mkdirSync(this.#folder, { recursive: true });
    process.stdout.write(`${machine()}\n\n`);
  }

  add(bench: string, { plot, ...row }: Row, ms: number): void {
    const { name: scale } = this.#scale;
    const plotFile = plot === undefined ? undefined : `${plot.file}.svg`;
    if (plot !== undefined) writeFileSync(join(this.#folder, `${plot.file}.svg`), drawPlot(plot));
    const written: Written = { bench, ...row, scale, machine: machine(), seconds: Math.round(ms / 1_000), plotFile };
    const before = this.#rows.findIndex((one) => one.bench === bench);
    if (before < 0) this.#rows.push(written);
    else this.#rows[before] = written;
    this.#rows.sort((a, b) => this.#order.indexOf(a.bench) - this.#order.indexOf(b.bench));
    const ratio = row.ratio === undefined ? "" : `, ratio ${row.ratio.toFixed(2)}`;
    process.stdout.write(
      `${row.passed ? "reached" : "MISSED "}  ${row.name}: ${row.ours}, floor ${row.floor}${ratio} (${row.reach})\n` +
        `         ${row.detail} [${bench}, ${written.seconds} s]\n`,
    );
    this.#write();
  }

  fail(bench: string, error: unknown): void {
    process.stdout.write(`FAILED   ${bench}: ${messageOf(error)}\n`);
    if (error instanceof Error) process.stderr.write(`${error.stack}\n`);
  }

  end(): void {
    const missed = this.#rows.filter(({ passed }) => !passed).length;
    process.stdout.write(`\n${this.#rows.length} rows, ${missed} missed; ${machine()}\n`);
  }

  #write(): void {
    const lines = this.#rows.map(({ name, floor, ours, ratio, reach, passed, detail, scale }) => {
      const cells = [name, floor, ours, ratio?.toFixed(2) ?? "–", reach, mark(passed), `${detail} (${scale})`];
      return `| ${cells.join(" | ")} |`;
    });
    const plots = this.#rows.flatMap(({ name, plotFile }) =>
      plotFile === undefined ? [] : [`![${name}](${plotFile})`],
    );
    const text = [
      "# Benchmarks",
      "",
      "Made by `bun run bench`. Each row was measured beside its floor, by turns, in the same run; medians, and the least and largest of the turns.",
      "",
      `${new Date().toISOString()}; ${machine()}`,
      "",
      "| | floor | service | ratio | to reach | reached | detail |",
      "|---|---|---|---|---|---|---|",
      ...lines,
      "",
      ...plots,
    ];
    writeFileSync(join(this.#folder, "results.md"), `${text.join("\n").trimEnd()}\n`);
    writeFileSync(join(this.#folder, "results.json"), `${JSON.stringify(this.#rows, null, 2)}\n`);
  }
}

function readRows(folder: string): Written[] {
  try {
    return JSON.parse(readFileSync(join(folder, "results.json"), "utf8")) as Written[];
  } catch {
    return [];
  }
}
