/**
 * Runs all benches, each beside a floor that the same run measures: `bun run bench`, in ten minutes at most. Prints
 * each row and writes it to `scripts/bench/results/`. `--quick` takes a minute with small sizes, `--full` adds the
 * largest ones, `--only backfill,price` selects some.
 */
import { BENCHES } from "./benches.ts";
import { Report } from "./report.ts";
import { SCALES } from "./scales.ts";

const args = process.argv.slice(2);
const only = args[args.indexOf("--only") + 1]?.split(",");
const wanted = args.includes("--only") ? only : undefined;
const unknown = wanted?.filter((name) => !BENCHES.some((bench) => bench.name === name)) ?? [];
if (unknown.length > 0) {
  process.stderr.write(
    `no such bench: ${unknown.join(", ")}; there are ${BENCHES.map(({ name }) => name).join(", ")}\n`,
  );
  process.exit(64);
}
const scale = args.includes("--full") ? SCALES.full : args.includes("--quick") ? SCALES.quick : SCALES.standard;
const report = new Report(
  scale,
  BENCHES.map(({ name }) => name),
  wanted === undefined,
);
for (const bench of BENCHES) {
  if (wanted?.includes(bench.name) === false) continue;
  const started = performance.now();
  try {
    report.add(bench.name, await bench.measure(scale), performance.now() - started);
  } catch (error) {
    process.exitCode = 1;
    report.fail(bench.name, error);
  }
}
report.end();
process.exit();
