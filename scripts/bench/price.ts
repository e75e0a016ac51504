/**
 * What a price costs. Warm: the service's requests per second beside a bare `Bun.serve` of the same bytes, in turns on the
 * same machine. Cold: time and sequential round trips of a token nobody asked about, 50 ms from the node. Prints a table.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pricesOf } from "../../test/prices/support/anvil.ts";
import { latentProxy } from "../../test/support/latency.ts";
import { startServiceProcess } from "../../test/support/process.ts";
import { TEST_KEY } from "../../test/support/service.ts";
import { type Anvil, startAnvil } from "../local-chain/anvil.ts";
import { contractArtifact } from "../local-chain/compile.ts";
import { deploy } from "../local-chain/contracts.ts";
import { guardChild } from "../local-chain/guard.ts";
import { MAINNET, placeMainnet } from "../local-chain/mainnet.ts";
import { seedMarket } from "../local-chain/market.ts";
import { createV2Pair, createV3Pool } from "../local-chain/pools.ts";
import { type LoadResult, load, median } from "./load.ts";
import { machine } from "./machine.ts";

const ROUNDS = 5;
const ROUND_MS = 3_000;
const WARM_UP_MS = 1_500;
const CONNECTIONS = 32;
const LATENCY_MS = 50;
const COLD_TOKENS = 9;
const ETHER = 10n ** 18n;
const headers = { "x-api-key": TEST_KEY };

const say = (text = ""): boolean => process.stdout.write(`${text}\n`);

async function startService(rpcUrl: string) {
  const folder = mkdtempSync(join(tmpdir(), "bench-"));
  const service = await startServiceProcess({
    EVENT_LOG_URL: `sqlite://${join(folder, "events.db")}`,
    RPC_URL_ETH: rpcUrl,
    RPC_URLS_ONLY: "true",
    RATE_LIMIT_PER_MINUTE: "10000000",
  });
  const stop = async (): Promise<void> => {
    service.kill("SIGTERM");
    await service.exited;
    rmSync(folder, { recursive: true, force: true });
  };
  return { base: service.base, port: Number(new URL(service.base).port), get: service.get, stop };
}

async function startBare(body: string) {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "bare.ts")], {
    env: { PATH: process.env["PATH"] ?? "", KEY: TEST_KEY, BODY: body },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "inherit",
  });
  const guard = guardChild({ pid: child.pid, signal: "KILL" });
  const { value } = await child.stdout.getReader().read();
  const stop = async (): Promise<void> => {
    child.kill();
    await child.exited;
    guard.dismiss();
  };
  return { port: Number(new TextDecoder().decode(value)), stop };
}

function row(name: string, results: readonly LoadResult[]): string {
  const middle = (pick: (result: LoadResult) => number) => median(results.map(pick));
  const rates = results.map((result) => result.perSecond);
  const cells = [
    name.padEnd(16),
    Math.round(middle((result) => result.perSecond)).toString(),
    `${Math.round(Math.min(...rates))}–${Math.round(Math.max(...rates))}`,
    middle((result) => result.p50).toFixed(2),
    middle((result) => result.p99).toFixed(2),
  ];
  return `| ${cells.join(" | ")} |`;
}

async function warm(anvil: Anvil, token: string): Promise<void> {
  const service = await startService(anvil.url);
  const path = `/api/v2/erc20/${token}/price`;
  const body = await (await service.get(path)).text();
  const bare = await startBare(body);
  const run = (port: number, ms: number) => load({ port, path, headers, connections: CONNECTIONS, ms });
  const results: [LoadResult[], LoadResult[]] = [[], []];
  for (const { port } of [service, bare]) await run(port, WARM_UP_MS);
  for (let round = 0; round < ROUNDS; round++) {
    results[0].push(await run(service.port, ROUND_MS));
    results[1].push(await run(bare.port, ROUND_MS));
  }
  await service.stop();
  await bare.stop();
  const [ours, theirs] = results.map((list) => median(list.map((result) => result.perSecond))) as [number, number];
  say(
    `Warm price, ${body.length} bytes, ${CONNECTIONS} connections, ${ROUNDS} turns of ${ROUND_MS / 1_000} s each; medians`,
  );
  say("|                  | requests/s | of turns | p50 ms | p99 ms |");
  say("|---|---|---|---|---|");
  say(row("service", results[0]));
  say(row("bare Bun.serve", results[1]));
  say(`The service does ${((ours / theirs) * 100).toFixed(0)} % of the bare server's rate.`);
}

async function newTokens(anvil: Anvil): Promise<string[]> {
  const tokens: string[] = [];
  for (let index = 0; index < COLD_TOKENS; index++) {
    const { address } = await deploy(anvil, await contractArtifact("TestToken"), ["Cold", "COLD", 18]);
    const amounts = { tokenA: MAINNET.weth, amountA: 10n * ETHER, tokenB: address, amountB: 1_000n * ETHER };
    await createV2Pair(anvil, { factory: MAINNET.uniswapV2Factory, ...amounts });
    await createV3Pool(anvil, { fee: 3000, ...amounts });
    tokens.push(address);
  }
  return tokens;
}

async function cold(anvil: Anvil): Promise<void> {
  const tokens = await newTokens(anvil);
  const proxy = await latentProxy(anvil.url, LATENCY_MS);
  const service = await startService(proxy.url);
  const times: number[] = [];
  for (const token of tokens) {
    const started = performance.now();
    const answer = await service.get(`/api/v2/erc20/${token}/price`);
    if (answer.status !== 200) throw new Error(await answer.text());
    await answer.text();
    times.push(performance.now() - started);
  }
  await service.stop();
  // Alone, so that nothing of the follower's polls is counted.
  proxy.reset();
  const address = tokens[0]!.toLowerCase() as Parameters<ReturnType<typeof pricesOf>["price"]>[0]["address"];
  await pricesOf(proxy.url).price({ address, percentChange: false, provenance: false });
  const [first, ...later] = times.map((time) => time.toFixed(0));
  say(`Cold token, node ${LATENCY_MS} ms away: ${proxy.depth()} sequential round trips in ${proxy.requests} requests`);
  say("|                          | ms |");
  say("|---|---|");
  say(`| first token of a process | ${first} |`);
  say(`| later tokens, median     | ${median(later.map(Number))} (${later.join(", ")}) |`);
  await proxy.stop();
}

const anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 27 * 3_600 - 60 });
try {
  await placeMainnet(anvil);
  const { demo } = await seedMarket(anvil);
  say(machine());
  say();
  await warm(anvil, demo.address.toLowerCase());
  say();
  await cold(anvil);
} finally {
  await anvil.stop();
}
