/** Runs fifty simulated worlds, including seeds that once failed. `bun scripts/simulate.ts` runs thousands. */
import { expect, test } from "bun:test";
import { join } from "node:path";
import { MUTATIONS } from "../support/simulation/mutations.ts";

/** Seeds that once found a defect. They stay, although changes of the simulation change their worlds. */
const BAD = [
  4, 7, 9, 10, 14, 20, 24, 27, 35, 45, 62, 96, 175, 180, 195, 243, 303, 597, 754, 840, 903, 1561, 2616, 4267, 510_116,
  620_338, 4_007_110, 4_008_292, 20_067, 20_197, 20_467, 30, 192, 145, 845, 1377, 2082, 3058, 3355, 4800, 5327, 30_500,
  111, 220, 80_699, 7_000_114, 7_100_038,
];
const seeds = [...new Set([...BAD, ...Array.from({ length: 60 }, (_, index) => index + 1)])].slice(0, 50);

/** Two processes, one per core. A world leaves memory behind that is freed only when its process ends. */
const HALVES = [0, 1].map((half) => seeds.filter((_, index) => index % 2 === half));

async function run(own: readonly number[]): Promise<{ code: number; output: string }> {
  const command = [process.execPath, "scripts/simulate.ts", "--list", own.join()];
  const child = Bun.spawn(command, { cwd: join(import.meta.dir, "../.."), stdout: "pipe", stderr: "pipe" });
  const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, output: output + errors };
}

test("ends fifty simulated worlds with listings equal to the chain's truth", async () => {
  expect(seeds).toHaveLength(50);
  for (const { code, output } of await Promise.all(HALVES.map(run))) {
    // The output names the command that replays a failing seed.
    if (code !== 0) throw new Error(output);
    const counts = new Map(JSON.parse(output) as [string, number][]);
    expect(counts.get("fork")).toBeGreaterThan(0);
    expect(counts.get("crash")).toBeGreaterThan(0);
    expect(counts.get("log goes back")).toBeGreaterThan(0);
  }
}, 300_000);

test("gives the chain's prices in twelve simulated worlds of prices", async () => {
  const own = Array.from({ length: 12 }, (_, at) => at + 1).join();
  const command = [process.execPath, "scripts/simulate.ts", "--prices", "--list", own];
  const child = Bun.spawn(command, { cwd: join(import.meta.dir, "../.."), stdout: "pipe", stderr: "pipe" });
  const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  if ((await child.exited) !== 0) throw new Error(output + errors);
}, 300_000);

test("keeps every mutation applicable to the present code", async () => {
  for (const { file, find } of MUTATIONS) {
    const source = await Bun.file(join(import.meta.dir, "../..", file)).text();
    expect([file, find, source.split(find).length]).toEqual([file, find, 2]);
  }
});
