/**
 * Every fault of `scripts/chaos.ts` once, in four worlds, within four minutes: three replicas over a PostgreSQL pair. No
 * answer is wrong, no message is lost or repeated, and the service recovers from each fault. CHAOS_SEED repeats a run.
 */
import { expect, test } from "bun:test";
import { FAULTS } from "../../scripts/chaos/faults.ts";
import { Findings } from "../../scripts/chaos/findings.ts";
import { runChaos } from "../../scripts/chaos/run.ts";

const SEED = Number(process.env["CHAOS_SEED"] ?? 1);
/** The time for the faults of one world. It ends earlier, once each of them was there. */
const SECONDS = 120;
const REPLICAS = 3;
const GROUPS = [
  ["kill", "stop", "session-storm", "disk-full", "pair"],
  ["partition-cut", "partition-silent", "partition-deaf", "partition-half-closed", "partition-delayed"],
  ["node-down", "node-hung", "node-stuck", "node-lying", "partition-all"],
  ["failover-loss", "failover", "failover-clock", "restart-fast", "restart-immediate", "partition-long"],
];

test("every fault belongs to a group", () => {
  expect(GROUPS.flat().sort()).toEqual(Object.keys(FAULTS).sort());
});

for (const [at, only] of GROUPS.entries()) {
  const seed = SEED + at;
  test(`survives ${only.join(", ")} (seed ${seed})`, async () => {
    const findings = new Findings(console.log);
    await runChaos({ seed, seconds: SECONDS, replicas: REPLICAS, only, rounds: only.length }, findings);
    console.log(findings.markdown());
    expect(findings.violations).toEqual([]);
    expect(findings.faults.sort()).toEqual([...only].sort());
    expect(findings.total("walks verified")).toBeGreaterThan(0);
    expect(findings.total("messages")).toBeGreaterThan(0);
  }, 300_000);
}
