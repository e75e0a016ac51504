/**
 * Measures the effect of resolving metadata on listings: 10,000 tokens on 200 hosts, a fifth of them dead (half refuse
 * connections, half stay silent), resolve while pages of this and another collection are read. Prints latencies beside
 * those of the same service at rest, in the same run.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startServiceProcess } from "../../test/support/process.ts";
import { TEST_KEY } from "../../test/support/service.ts";
import { type Anvil, startAnvil } from "../local-chain/anvil.ts";
import { seedCollections } from "../local-chain/collections.ts";
import { contractArtifact } from "../local-chain/compile.ts";
import { type Deployed, deploy, transact } from "../local-chain/contracts.ts";
import { guardChild } from "../local-chain/guard.ts";
import { placeMainnet } from "../local-chain/mainnet.ts";
import { type LoadResult, load } from "./load.ts";
import { machine } from "./machine.ts";

const TOKENS = 10_000;
const HOSTS = 200;
const DEAD = 40;
const ROUND_MS = 3_000;
/** A port without a listener. */
const CLOSED_PORT = 9;

const say = (text = ""): boolean => process.stdout.write(`${text}\n`);

async function startContent() {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "content.ts")], {
    env: {},
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  });
  const guard = guardChild({ pid: child.pid, signal: "KILL" });
  const { value } = await child.stdout.getReader().read();
  const [open = 0, silent = 0] = new TextDecoder().decode(value).trim().split(" ").map(Number);
  const stop = async (): Promise<void> => {
    child.kill();
    await child.exited;
    guard.dismiss();
  };
  return { open, silent, stop };
}

async function seed(anvil: Anvil, ports: { open: number; silent: number }): Promise<Deployed> {
  const nft = await deploy(anvil, await contractArtifact("StoryNft"), ["Ten Thousand", "TEN"]);
  const batch = 100;
  for (let first = 0; first < TOKENS; first += batch) {
    const uris = Array.from({ length: batch }, (_, i) => {
      const host = (first + i) % HOSTS;
      const port = host >= DEAD ? ports.open : host % 2 === 0 ? ports.silent : CLOSED_PORT;
      return `http://127.0.1.${host + 1}:${port}/${first + i}.json`;
    });
    await transact(anvil, nft.contract, "mintStories", [anvil.accounts[1], first, uris]);
  }
  return nft;
}

interface Page {
  readonly status: string;
  readonly result: readonly { metadata: string | null }[];
}

async function main(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "bench-"));
  const content = await startContent();
  const anvil = await startAnvil();
  await placeMainnet(anvil);
  const { plain } = await seedCollections(anvil);
  const service = await startServiceProcess({
    EVENT_LOG_URL: `sqlite://${join(folder, "events.db")}`,
    RPC_URL_ETH: anvil.url,
    RPC_URLS_ONLY: "true",
    RATE_LIMIT_PER_MINUTE: "10000000",
    METADATA_ALLOW_PRIVATE: "true",
  });
  const get = async <T>(path: string): Promise<T> =>
    (await fetch(`${service.base}${path}`, { headers: { "x-api-key": TEST_KEY } })).json() as Promise<T>;
  const outcomes = async (): Promise<Map<string, number>> => {
    const text = await (await fetch(`${service.base}/metrics`)).text();
    const lines = text.matchAll(/^metadata_outcomes_total\{.*outcome="(\w+)"\} (\d+)/gm);
    return new Map([...lines].map(([, outcome = "", count]) => [outcome, Number(count)]));
  };
  const until = async (what: () => Promise<boolean>): Promise<void> => {
    while (!(await what())) await Bun.sleep(50);
  };
  const measure = (address: string): Promise<LoadResult> =>
    load({
      port: Number(new URL(service.base).port),
      path: `/api/v2/nft/${address}?limit=100&normalizeMetadata=true`,
      headers: { "x-api-key": TEST_KEY },
      connections: 1,
      ms: ROUND_MS,
    });
  const row = (name: string, { perSecond, p50, p99 }: LoadResult) =>
    say(`| ${name} | ${Math.round(perSecond)} | ${p50.toFixed(2)} | ${p99.toFixed(2)} |`);
  try {
    const list = (address: string) => get<Page>(`/api/v2/nft/${address}?limit=100`);
    await until(async () => {
      const { status, result } = await list(plain.address);
      return status === "SYNCED" && result.every(({ metadata }) => metadata !== null);
    });
    say(machine());
    say(
      `\n${TOKENS} tokens on ${HOSTS} hosts, ${DEAD} of them dead; pages of 100 with normalised metadata, one reader\n`,
    );
    say("| listing | pages/s | p50 ms | p99 ms |\n|---|---|---|---|");
    await measure(plain.address);
    row("at rest", await measure(plain.address));
    const nft = await seed(anvil, content);
    const before = (await outcomes()).get("resolved") ?? 0;
    const started = performance.now();
    await until(async () => (await list(nft.address)).status === "SYNCED");
    row("another collection, while they resolve", await measure(plain.address));
    row("their own pages, while they resolve", await measure(nft.address));
    const resolved = (TOKENS * (HOSTS - DEAD)) / HOSTS + before;
    await until(async () => ((await outcomes()).get("resolved") ?? 0) >= resolved);
    const seconds = (performance.now() - started) / 1_000;
    row("at rest again", await measure(plain.address));
    const counts = [...(await outcomes())].map(([outcome, count]) => `${outcome} ${count}`).join(", ");
    say(`\nevery living token resolved after ${seconds.toFixed(1)} s; attempts so far: ${counts}`);
  } finally {
    service.kill("SIGTERM");
    await service.exited;
    await anvil.stop();
    await content.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

await main();
