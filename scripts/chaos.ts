/**
 * Chaos: real service processes over one PostgreSQL with a streaming standby, and a chain with forks, while faults drawn
 * from a seed hit processes, PostgreSQL, the network and the nodes. Clients walk listings, ask for prices and follow
 * collections over sockets, and compare everything with the contracts. Prints the recovery from each fault. Exits with 1
 * and prints every violation with the line that repeats its seed. A seed repeats the faults, but not the exact timing.
 *
 * bun scripts/chaos.ts [--seed 1] [--seeds 1] [--seconds 120] [--replicas 3] [--only kill,failover-loss] [--rounds N]
 *   [--logs folder]
 */
import { parseArgs } from "node:util";
import { Findings } from "./chaos/findings.ts";
import { runChaos } from "./chaos/seeded-run.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    seeds: { type: "string", default: "1" },
    seconds: { type: "string", default: "120" },
    replicas: { type: "string", default: "3" },
    only: { type: "string", default: "" },
    rounds: { type: "string" },
    logs: { type: "string" },
  },
});

const findings = new Findings(console.log);
const only = values.only.split(",").filter((name) => name !== "");
const [first, count] = [Number(values.seed), Number(values.seeds)];
for (let seed = first; seed < first + count; seed++) {
  const rounds = values.rounds === undefined ? undefined : Number(values.rounds);
  const { logs } = values;
  const [seconds, replicas] = [Number(values.seconds), Number(values.replicas)];
  await runChaos({ seed, seconds, replicas, only, rounds, logs }, findings);
}

console.log(`\n${findings.markdown()}`);
const { violations } = findings;
const seeds = new Set(violations.map(({ seed }) => seed));
if (violations.length > 0) console.log(`\n${violations.length} violations`);
for (const seed of seeds) {
  const options = `--seconds ${values.seconds} --replicas ${values.replicas}`;
  const chosen = `${values.only === "" ? "" : ` --only ${values.only}`}${values.rounds ? ` --rounds ${values.rounds}` : ""}`;
  console.log(`\nbun scripts/chaos.ts --seed ${seed} ${options}${chosen}`);
  for (const { second, during, what, times } of violations.filter((one) => one.seed === seed)) {
    console.log(`  ${second} s, ${during}${times === 1 ? "" : `, ${times} times`}: ${what}`);
  }
}
process.exit(violations.length === 0 ? 0 : 1);
