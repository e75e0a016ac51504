/**
 * Every fault of `scripts/chaos.ts` once, in four worlds, within four minutes: three replicas over a PostgreSQL pair. No
 * answer is wrong, no message is lost or repeated, and the service recovers from each fault. CHAOS_SEED repeats a run.
 */
import { expect, test } from "bun:test";
import { Delivery, type PushMessage } from "../../scripts/chaos/delivery.ts";
import { FAULTS } from "../../scripts/chaos/faults.ts";
import { Findings } from "../../scripts/chaos/findings.ts";
import { runChaos } from "../../scripts/chaos/seeded-run.ts";

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

const status = (block: number, gap = false): PushMessage => ({ type: "status", version: 1, block, gap });
const transfers = (version: number, block: number, ...tokenIds: string[]): PushMessage => {
  return { type: "transfers", version, resume: `record ${version}`, block, tokenIds };
};

/** Feeds messages to the check. Returns the problems, and the ids of the transfers that are missing. */
function judged(messages: readonly PushMessage[], chain: readonly (readonly [block: number, tokenId: string])[]) {
  const delivery = new Delivery();
  delivery.connected();
  const problems = messages.map((message) => delivery.take(message)).filter((problem) => problem !== undefined);
  const missing = delivery.missing(chain.map(([block, tokenId]) => ({ block, tokenId })));
  return { problems: problems.length, missing: missing.map(({ tokenId }) => tokenId), since: delivery.since };
}

test("the check of deliveries finds a transfer that no message told", () => {
  const chain = [
    [10, "1"],
    [11, "2"],
    [12, "3"],
  ] as const;
  const complete = [status(10), transfers(2, 11, "2"), transfers(3, 12, "3")];
  expect(judged(complete, chain)).toEqual({ problems: 0, missing: [], since: "record 3" });
  expect(judged([status(10), transfers(3, 12, "3")], chain).missing).toEqual(["2"]);
  expect(judged([status(10), transfers(2, 12, "2", "3")], chain).missing).toEqual([]);
});

test("the check of deliveries finds a record that came twice, unless a gap or a reorg was announced", () => {
  const twice = [status(10), transfers(2, 11, "2"), transfers(2, 11, "2")];
  expect(judged(twice, []).problems).toBe(1);
  expect(judged([...twice.slice(0, 2), status(10, true), transfers(2, 11, "2")], []).problems).toBe(0);
  const reorged: PushMessage = { type: "reorged", version: 2, block: 10 };
  expect(judged([...twice.slice(0, 2), reorged, transfers(2, 11, "2")], []).problems).toBe(0);
});

test("the check of deliveries expects the replacement of blocks that a reorg took back", () => {
  const reorged: PushMessage = { type: "reorged", version: 4, block: 10 };
  const before = [status(10), transfers(2, 11, "2"), transfers(3, 12, "3"), reorged];
  const chain = [
    [11, "5"],
    [13, "6"],
  ] as const;
  expect(judged([...before, transfers(5, 13, "5", "6")], chain).missing).toEqual([]);
  expect(judged([...before, transfers(5, 13, "6")], chain).missing).toEqual(["5"]);
  expect(judged([...before.slice(0, 3), transfers(5, 11, "5")], chain).problems).toBe(1);
});

test("the check of deliveries finds `indexed` twice on a connection", () => {
  const indexed: PushMessage = { type: "indexed", version: 1, block: 9 };
  expect(judged([status(10), indexed], []).problems).toBe(0);
  expect(judged([status(10), indexed, indexed], []).problems).toBe(1);
});

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
