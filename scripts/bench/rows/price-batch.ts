/** First prices of a hundred tokens by one batch, 50 ms from the node. */
import { toAddress } from "../../../src/core/hex.ts";
import { latentProxy } from "../../../test/support/latency.ts";
import { pricesOf } from "../../../test/support/prices/anvil.ts";
import type { Anvil } from "../../local-chain/anvil.ts";
import { contractArtifact } from "../../local-chain/compile.ts";
import { deploy } from "../../local-chain/contracts.ts";
import { MAINNET } from "../../local-chain/mainnet.ts";
import { createV2Pair } from "../../local-chain/pools.ts";
import { median } from "../load.ts";
import { startMarket } from "../market.ts";
import { type Bench, spread } from "../row.ts";
import { KEY_HEADERS, startBenchService, temporaryFolder } from "../service.ts";

const LATENCY_MS = 50;
const MAX_ROUND_TRIPS = 4;
const TOKENS = 100;
const TURNS = 3;
const ETHER = 10n ** 18n;

async function newTokens(anvil: Anvil, count: number): Promise<string[]> {
  const tokens: string[] = [];
  for (let index = 0; index < count; index++) {
    const { address } = await deploy(anvil, await contractArtifact("TestToken"), ["Cold", "COLD", 18]);
    const amounts = { tokenA: MAINNET.weth, amountA: 10n * ETHER, tokenB: address, amountB: 1_000n * ETHER };
    await createV2Pair(anvil, { factory: MAINNET.uniswapV2Factory, ...amounts });
    tokens.push(address);
  }
  return tokens;
}

export const priceBatch: Bench = {
  name: "price-batch",
  measure: async () => {
    const { anvil } = await startMarket();
    const tokens = await newTokens(anvil, TOKENS * TURNS);
    const proxy = await latentProxy(anvil.url, LATENCY_MS);
    try {
      const [times, depths, requests]: [number[], number[], number[]] = [[], [], []];
      for (let turn = 0; turn < TURNS; turn++) {
        const folder = temporaryFolder();
        const service = await startBenchService({ rpcUrl: proxy.url, logUrl: folder.logUrl });
        const own = tokens.slice(turn * TOKENS, (turn + 1) * TOKENS);
        const started = performance.now();
        const answer = await fetch(`${service.base}/api/v2/erc20/prices?chain=eth`, {
          ...{ method: "POST", headers: { ...KEY_HEADERS, "content-type": "application/json" } },
          body: JSON.stringify({ tokens: own.map((token_address) => ({ token_address })) }),
        });
        const priced = (await answer.json()) as unknown[];
        times.push(performance.now() - started);
        await service.stop();
        folder.remove();
        if (answer.status !== 200 || priced.length !== TOKENS) throw new Error(`${answer.status}, ${priced.length}`);
        // Alone, so that no poll of a follower is counted.
        const alone = await latentProxy(anvil.url, LATENCY_MS);
        const questions = own.map((token) => ({ address: toAddress(token), percentChange: false, provenance: false }));
        await pricesOf(alone.url).answers(questions);
        depths.push(alone.depth());
        requests.push(alone.requests);
        await alone.stop();
      }
      return {
        name: `First prices of ${TOKENS} tokens by one batch, the node ${LATENCY_MS} ms away`,
        floor: "–",
        ours: `${Math.max(...depths)} round trips, ${median(times).toFixed(0)} ms`,
        ratio: undefined,
        reach: `<= ${MAX_ROUND_TRIPS} round trips`,
        passed: Math.max(...depths) <= MAX_ROUND_TRIPS,
        detail:
          `a new process each time: ${spread(times, (ms) => `${ms.toFixed(0)} ms`)}, ` +
          `${spread(requests, String)} HTTP requests to the node`,
      };
    } finally {
      await proxy.stop();
      await anvil.stop();
    }
  },
};
