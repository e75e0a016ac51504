/**
 * Runs the simulation until it breaks: `--seeds N [--from S]` worlds, side by side in worker processes; prints how often
 * each kind of fault came about and fails when one never did. A failing seed prints the line that replays it.
 * `--seed S` runs one. `--mutate` breaks the real code in named ways, each of which some seed must find.
 */
import { parseArgs } from "node:util";
import { FAULTS, FaultCounter } from "../test/simulation/faults.ts";
import { simulate } from "../test/simulation/world.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "200" },
    from: { type: "string", default: "1" },
    seed: { type: "string" },
    mutate: { type: "boolean", default: false },
  },
});

async function runOne(seed: number): Promise<void> {
  const { blocks, steps, faults } = await simulate(seed);
  const hits = [...faults.counts.values()].reduce((sum, count) => sum + count, 0);
  console.log(`seed ${seed}: ${blocks} blocks, ${steps} steps, ${hits} faults: the truth in the end`);
}

async function runSome(from: number, count: number): Promise<void> {
  const started = performance.now();
  const all = new FaultCounter();
  for (let seed = from; seed < from + count; seed++) {
    try {
      all.add((await simulate(seed)).faults);
    } catch (error) {
      console.log(`seed ${seed} fails: bun scripts/simulate.ts --seed ${seed}`);
      console.log(error instanceof Error ? (error.stack ?? error.message) : String(error));
      process.exit(1);
    }
  }
  for (const fault of FAULTS) console.log(`${String(all.counts.get(fault)).padStart(9)}  ${fault}`);
  console.log(`${count} seeds in ${((performance.now() - started) / 1_000).toFixed(1)} s`);
}

if (values.seed !== undefined) await runOne(Number(values.seed));
else await runSome(Number(values.from), Number(values.seeds));
