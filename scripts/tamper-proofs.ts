/**
 * Forges proofs: `bun scripts/tamper-proofs.ts [--proofs 1000] [--changes 20] [--seed 1] [--no-bytes] [--write]`. Changes every
 * byte of one proof of each kind of contract, and makes seeded changes in each of many proofs. Exits with 1 if one was
 * taken for another proof. Prints sizes and times as a table, which `--write` keeps in `bench/results/proofs.md`.
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { StateDocument } from "../src/proof/verifier/document.ts";
import { verifyProof } from "../src/proof/verifier/verify.ts";
import { type ProofCase, proverOver, startProofWorld, type TestProver } from "../test/support/proofs.ts";
import { faultOf, tampered, withChangedByte } from "../test/support/tamper.ts";
import { createRandom } from "./local-chain/random.ts";

const PAGE = join(import.meta.dir, "bench/results/proofs.md");
/** Slots that the far token of the 721A reads back, where every byte is changed. */
const FAR = 24;
/** Verifications of which the time is told. */
const TIMED = 15;

const { values } = parseArgs({
  options: {
    proofs: { type: "string", default: "1000" },
    changes: { type: "string", default: "20" },
    seed: { type: "string", default: "1" },
    "no-bytes": { type: "boolean", default: false },
    write: { type: "boolean", default: false },
  },
});
const [proofs, changes, seed] = [values.proofs, values.changes, values.seed].map(Number) as [number, number, number];

interface Made {
  readonly name: string;
  readonly document: StateDocument;
  readonly text: string;
  readonly trips: number;
  readonly ms: number;
}

async function make(tested: TestProver, { name, kind, subject }: ProofCase, block: number): Promise<Made> {
  tested.requests();
  const started = performance.now();
  const document = await tested.prover.prove({ kind, subject, block, hash: undefined });
  const ms = performance.now() - started;
  return { name, document, text: JSON.stringify(document), trips: tested.requests(), ms };
}

/** Milliseconds of verifications, median and worst. */
async function timesOf(text: string): Promise<readonly [number, number]> {
  const times: number[] = [];
  for (let run = 0; run < TIMED; run++) {
    const started = performance.now();
    await verifyProof(text);
    times.push(performance.now() - started);
  }
  times.sort((a, b) => a - b);
  return [times[times.length >> 1] as number, times.at(-1) as number];
}

const faults: string[] = [];
let forged = 0;

async function tryChange(made: Made, changed: string, how: string): Promise<void> {
  forged++;
  const fault = await faultOf(made.text, changed);
  if (fault !== undefined) faults.push(`${made.name}, ${how}: ${fault}`);
}

const world = await startProofWorld(proofs, FAR);
const tested = proverOver(world.anvil.url);
const block = Number(await world.anvil.send("eth_blockNumber"));
const random = createRandom(seed);
const kinds = new Map<string, Made>();
// The first one starts the thread.
await make(tested, world.cases[0] as ProofCase, block);
for (const one of world.cases) if (!kinds.has(one.name)) kinds.set(one.name, await make(tested, one, block));

const lines = [
  "| Kind of contract | Document | Round trips | Made in | Verified in, median and worst | Changed bytes |",
  "|---|---|---|---|---|---|",
];
const bytes = (text: string) => `${(text.length / 1_000).toFixed(1)} KB`;
const ms = (value: number) => `${value.toFixed(1)} ms`;
for (const made of kinds.values()) {
  const [median, worst] = await timesOf(made.text);
  if (!values["no-bytes"]) {
    for (let at = 0; at < made.text.length; at++) {
      await tryChange(made, withChangedByte(made.text, at, 1 + random.below(94)), `byte ${at}`);
    }
  }
  const count = values["no-bytes"] ? "–" : made.text.length.toLocaleString("en");
  lines.push(
    `| ${made.name} | ${bytes(made.text)} | ${made.trips} | ${ms(made.ms)} | ${ms(median)}, ${ms(worst)} | ${count} |`,
  );
  console.log(lines.at(-1));
}

const others = [...kinds.values()].map(({ document }) => document);
const sizes: number[] = [];
for (let at = 0; at < proofs; at++) {
  const made = await make(tested, world.cases[at % world.cases.length] as ProofCase, block);
  sizes.push(made.text.length);
  for (let change = 0; change < changes; change++) {
    await tryChange(made, tampered(made.text, others, random), `proof ${at}, change ${change}`);
  }
}
tested.close();
await world.stop();

sizes.sort((a, b) => a - b);
const total = `${forged.toLocaleString("en")} changed documents, ${faults.length} taken for another one. ${proofs.toLocaleString("en")} proofs with ${changes} seeded changes each: median ${bytes("x".repeat(sizes[sizes.length >> 1] ?? 0))}, largest ${bytes("x".repeat(sizes.at(-1) ?? 0))}.`;
console.log(["", ...lines, "", total, ...faults.slice(0, 20)].join("\n"));
if (values.write) {
  const head = `# Proofs\n\n\`bun scripts/tamper-proofs.ts --write\`, seed ${seed}, on a local chain, two shared cores. Times include no network.\n`;
  await Bun.write(PAGE, [head, ...lines, "", total, ""].join("\n"));
}
process.exitCode = faults.length === 0 ? 0 : 1;
