/** A proof of an owner: round trips and bytes to make it, and the time to verify it where nothing is loaded yet. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bundleConsole } from "../../../src/api/console-page.ts";
import { type ProofCase, proverOver, startProofWorld } from "../../../test/support/proofs.ts";
import { startBrowser } from "../../console-shots/browser.ts";
import { startChild } from "../children.ts";
import { median } from "../load.ts";
import type { Bench } from "../row.ts";

const TURNS = 5;
const [MAX_TRIPS, MAX_MS, MAX_BYTES] = [2, 150, 25_000];

export const proofsRow: Bench = {
  name: "proofs",
  measure: async () => {
    const { text, trips } = await plainProof();
    const [bun, browser] = [await inBun(text), await inBrowser(text)].map(medians) as [Cold, Cold];
    return {
      name: "Proof of an ERC-721's owner, and the first verification of a process",
      floor: "–",
      ours: `${trips} round trips, ${(text.length / 1_000).toFixed(1)} KB, ${bun[1].toFixed(0)} ms in Bun, ${browser[1].toFixed(0)} ms in a browser`,
      ratio: undefined,
      reach: `≤ ${MAX_TRIPS}, ≤ ${MAX_BYTES / 1_000} KB, ≤ ${MAX_MS} ms`,
      passed: trips <= MAX_TRIPS && text.length <= MAX_BYTES && Math.max(bun[1], browser[1]) <= MAX_MS,
      detail: `medians of ${TURNS}; before it the verifier is loaded, in ${bun[0].toFixed(0)} and ${browser[0].toFixed(0)} ms`,
    };
  },
};

/** Ms of loading the verifier, and of its first verification. */
type Cold = readonly [load: number, verify: number];

const medians = (turns: readonly Cold[]): Cold => [
  median(turns.map(([load]) => load)),
  median(turns.map(([, verify]) => verify)),
];

async function plainProof(): Promise<{ readonly text: string; readonly trips: number }> {
  const world = await startProofWorld();
  const tested = proverOver(world.anvil.url);
  const block = Number(await world.anvil.send("eth_blockNumber"));
  const { kind, subject } = world.cases.find(({ name }) => name === "ERC721") as ProofCase;
  const prove = () => tested.prover.prove({ kind, subject, block, hash: undefined });
  // The first one starts the thread, and asks for the chain's id.
  await prove();
  tested.requests();
  const text = JSON.stringify(await prove());
  const trips = tested.requests();
  tested.close();
  await world.stop();
  return { text, trips };
}

async function inBun(text: string): Promise<Cold[]> {
  const folder = mkdtempSync(join(tmpdir(), "proof-"));
  const file = join(folder, "proof.json");
  await Bun.write(file, text);
  const times: Cold[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    const child = await startChild({ script: "parts/verify-proof.ts", args: [file] });
    times.push(JSON.parse(child.line) as Cold);
    await child.stop();
  }
  rmSync(folder, { recursive: true, force: true });
  return times;
}

async function inBrowser(text: string): Promise<Cold[]> {
  const script = (await bundleConsole())["proof.js"];
  const server = Bun.serve({
    port: 0,
    fetch: ({ url }) =>
      url.endsWith(".js")
        ? new Response(script, { headers: { "content-type": "text/javascript" } })
        : new Response("<!doctype html>", { headers: { "content-type": "text/html" } }),
  });
  const browser = await startBrowser();
  const times: Cold[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    const context = await browser.createBrowserContext();
    const page = await context.newPage();
    await page.goto(`http://127.0.0.1:${server.port}/`);
    const run = `(async (text) => {
      const started = performance.now();
      const { verifyProof } = await import("/proof.js");
      const loaded = performance.now();
      await verifyProof(text);
      return [loaded - started, performance.now() - loaded];
    })(${JSON.stringify(text)})`;
    times.push((await page.evaluate(run)) as Cold);
    await context.close();
  }
  await browser.close();
  await server.stop(true);
  return times;
}
