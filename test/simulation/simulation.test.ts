/** Fifty worlds at every test run, those that once failed among them; thousands by `bun scripts/simulate.ts`. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { MUTATIONS } from "./mutations.ts";

// Real parts, on machines that have others to serve: the runner's five seconds would kill them in the middle.
setDefaultTimeout(30_000);

/** Seeds that found a fault, kept for good although the world they draw changes with the simulation. */
const BAD = [
  4, 7, 9, 10, 14, 20, 24, 27, 35, 45, 62, 96, 175, 180, 195, 243, 303, 597, 754, 840, 1561, 4267, 510_116, 620_338,
];
const seeds = [...new Set([...BAD, ...Array.from({ length: 60 }, (_, index) => index + 1)])].slice(0, 50);

/** Two processes, as there are cores; a world leaves much behind, which ends with its process. */
const HALVES = [0, 1].map((half) => seeds.filter((_, index) => index % 2 === half));

async function run(own: readonly number[]): Promise<{ code: number; output: string }> {
  const command = [process.execPath, "scripts/simulate.ts", "--list", own.join()];
  const child = Bun.spawn(command, { cwd: join(import.meta.dir, "../.."), stdout: "pipe", stderr: "pipe" });
  const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, output: output + errors };
}

test("fifty simulated worlds end with the truth", async () => {
  expect(seeds).toHaveLength(50);
  for (const { code, output } of await Promise.all(HALVES.map(run))) {
    // A failing seed says by which line it is replayed.
    if (code !== 0) throw new Error(output);
    const counts = new Map(JSON.parse(output) as [string, number][]);
    expect(counts.get("fork")).toBeGreaterThan(0);
    expect(counts.get("crash")).toBeGreaterThan(0);
  }
}, 180_000);

test("every named break is one of the code as it is", async () => {
  for (const { file, find } of MUTATIONS) {
    const source = await Bun.file(join(import.meta.dir, "../..", file)).text();
    expect([file, find, source.split(find).length]).toEqual([file, find, 2]);
  }
});
