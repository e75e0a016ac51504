/**
 * Measures the first price of a token: time and sequential round trips, 50 ms from the node. Prints a table. Warm
 * prices are a row of `bun run bench`.
 */

import { latentProxy } from "../../test/support/latency.ts";
import { pricesOf } from "../../test/support/prices/anvil.ts";
import type { Anvil } from "../local-chain/anvil.ts";
import { contractArtifact } from "../local-chain/compile.ts";
import { deploy } from "../local-chain/contracts.ts";
import { MAINNET } from "../local-chain/mainnet.ts";
import { createV2Pair, createV3Pool } from "../local-chain/pools.ts";
import { median } from "./load.ts";
import { machine } from "./machine.ts";
import { startMarket } from "./market.ts";
import { startBenchService, temporaryFolder } from "./service.ts";

const LATENCY_MS = 50;
const COLD_TOKENS = 9;
const ETHER = 10n ** 18n;

const say = (text = ""): boolean => process.stdout.write(`${text}\n`);

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
  const folder = temporaryFolder();
  const service = await startBenchService({ rpcUrl: proxy.url, logUrl: folder.logUrl });
  const times: number[] = [];
  for (const token of tokens) {
    const started = performance.now();
    const answer = await service.get(`/api/v2/erc20/${token}/price`);
    if (answer.status !== 200) throw new Error(await answer.text());
    await answer.text();
    times.push(performance.now() - started);
  }
  await service.stop();
  folder.remove();
  // Alone, so that no poll of the follower is counted.
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

const { anvil } = await startMarket();
try {
  say(machine());
  say();
  await cold(anvil);
} finally {
  await anvil.stop();
}
