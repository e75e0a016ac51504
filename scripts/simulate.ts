/**
 * Runs the simulation until it breaks. `--seeds N [--from S] [--jobs J]`: N worlds, spread over J processes; prints how
 * often each kind of fault came about and fails when one never did, or when a seed fails, with the line that replays
 * it. `--seed S` runs one, `--list S,S,…` some. `--prices`: the worlds of prices in place of those of collections.
 * `--mutate` breaks the real code in named ways, each of which 500 seeds at most must find, or those that it names.
 */
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { FAULTS, FaultCounter } from "../test/support/simulation/fault-kinds.ts";
import { MUTATIONS, type Mutation } from "../test/support/simulation/mutations.ts";
import { simulatePrices } from "../test/support/simulation/price-world.ts";
import { simulate } from "../test/support/simulation/world.ts";

const ROOT = join(import.meta.dir, "..");
const MUTATION_SEEDS = 500;
/** Seeds per process. The memory of promises that a world leaves pending is only freed when its process ends. */
const CHUNK = 100;

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "200" },
    from: { type: "string", default: "1" },
    jobs: { type: "string", default: String(availableParallelism()) },
    seed: { type: "string" },
    mutate: { type: "boolean", default: false },
    only: { type: "string", default: "" },
    part: { type: "boolean", default: false },
    list: { type: "string", default: "" },
    prices: { type: "boolean", default: false },
  },
});
const simulated = values.prices ? simulatePrices : simulate;
const OF_PRICES = values.prices ? ["--prices"] : [];
const number = (text: string): number => {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`not a number of seeds: ${text}`);
  return value;
};

async function runOne(seed: number): Promise<void> {
  const { blocks, steps, faults } = await simulated(seed);
  const hits = [...faults.counts.values()].reduce((sum, count) => sum + count, 0);
  console.log(`seed ${seed}: ${blocks} blocks, ${steps} steps, ${hits} faults: the truth in the end`);
}

/** Some seeds in this process; the counts of faults as one line of JSON. */
async function runPart(seeds: readonly number[]): Promise<void> {
  const all = new FaultCounter();
  for (const seed of seeds) {
    try {
      all.add((await simulated(seed)).faults);
    } catch (error) {
      const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
      console.log(`seed ${seed} fails: bun scripts/simulate.ts ${[...OF_PRICES, "--seed", seed].join(" ")}\n${text}`);
      process.exit(1);
    }
  }
  console.log(JSON.stringify([...all.counts]));
}

interface Run {
  readonly ok: boolean;
  readonly output: string;
}

async function spawn(cwd: string, options: readonly string[]): Promise<Run> {
  const child = Bun.spawn([process.execPath, "scripts/simulate.ts", ...options], {
    cwd,
    stdout: "pipe",
    stderr: "pipe",
  });
  const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  const ok = (await child.exited) === 0;
  return { ok, output: ok ? output : output + errors };
}

async function runAll(from: number, count: number, jobs: number): Promise<boolean> {
  const started = performance.now();
  const all = new FaultCounter();
  let [next, ok] = [from, true];
  const end = from + count;
  const work = async () => {
    while (ok && next < end) {
      const [first, some] = [next, Math.min(CHUNK, end - next)];
      next += some;
      const part = await spawn(ROOT, ["--part", ...OF_PRICES, "--from", String(first), "--seeds", String(some)]);
      ok &&= part.ok;
      if (part.ok) all.add({ counts: new Map(JSON.parse(part.output)) } as FaultCounter);
      else console.log(part.output);
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  if (!ok) return false;
  for (const fault of FAULTS) console.log(`${String(all.counts.get(fault)).padStart(9)}  ${fault}`);
  const missing = values.prices ? [] : all.missing();
  if (missing.length > 0) console.log(`never came about: ${missing.join(", ")}`);
  console.log(`${count} seeds, ${jobs} processes, ${((performance.now() - started) / 1_000).toFixed(0)} s`);
  return missing.length === 0;
}

/** A copy of the sources with one break in it. */
async function breakCode({ file, find, replace }: Mutation): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "mutation-"));
  for (const part of ["src", "scripts", "test", "package.json", "tsconfig.json"]) {
    await cp(join(ROOT, part), join(folder, part), { recursive: true });
  }
  await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
  const path = join(folder, file);
  const source = await readFile(path, "utf8");
  if (source.split(find).length !== 2) throw new Error(`${file} does not have exactly once: ${find}`);
  await writeFile(
    path,
    source.replace(find, () => replace),
  );
  return folder;
}

async function mutate(only: string, jobs: number): Promise<boolean> {
  const queue = MUTATIONS.filter(({ name }) => name.includes(only));
  if (queue.length === 0) throw new Error(`no mutation is named ${only}`);
  let ok = true;
  const work = async () => {
    for (let mutation = queue.shift(); mutation !== undefined; mutation = queue.shift()) {
      const started = performance.now();
      const folder = await breakCode(mutation);
      const ofPrices = mutation.isOfPrices === true ? ["--prices"] : [];
      const worlds = mutation.seeds?.join(",");
      const options = worlds === undefined ? ["--part", "--seeds", String(MUTATION_SEEDS)] : ["--list", worlds];
      const run = await spawn(folder, [...options, ...ofPrices]);
      await rm(folder, { recursive: true, force: true });
      const seed = /seed (\d+) fails/.exec(run.output)?.[1];
      const seconds = ((performance.now() - started) / 1_000).toFixed(0);
      ok &&= seed !== undefined;
      const verdict =
        seed === undefined ? `NOT FOUND by ${worlds ?? `${MUTATION_SEEDS} seeds`}` : `found by seed ${seed}`;
      console.log(`${mutation.name}: ${verdict} (${seconds} s)`);
      if (!run.ok && seed === undefined) console.log(run.output);
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  return ok;
}

if (values.seed !== undefined) await runOne(number(values.seed));
else if (values.list !== "") await runPart(values.list.split(",").map(number));
else if (values.part) {
  const from = number(values.from);
  await runPart(Array.from({ length: number(values.seeds) }, (_, index) => from + index));
} else {
  const jobs = number(values.jobs);
  const run = values.mutate ? mutate(values.only, jobs) : runAll(number(values.from), number(values.seeds), jobs);
  process.exitCode = (await run) ? 0 : 1;
}
