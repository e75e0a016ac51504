/** The depth of a warm price, for sizes that were not asked for before, beside the price alone. */
import { median, percentile } from "../load.ts";
import { startMarket } from "../market.ts";
import type { Bench } from "../row.ts";
import { startBenchService, temporaryFolder } from "../service.ts";

const MAX_MS = 2;
const QUESTIONS = { quick: 100, standard: 1_000, full: 1_000 } as const;

export const priceDepth: Bench = {
  name: "price-depth",
  measure: async ({ name }) => {
    const { anvil, market } = await startMarket();
    const folder = temporaryFolder();
    try {
      const service = await startBenchService({ rpcUrl: anvil.url, logUrl: folder.logUrl });
      const path = `/api/v2/erc20/${market.demo.address.toLowerCase()}/price`;
      const ask = async (query: string): Promise<number> => {
        const started = performance.now();
        const answer = await service.get(`${path}${query}`);
        const text = await answer.text();
        if (answer.status !== 200 || (query !== "" && !text.includes('"sellable":true'))) throw new Error(text);
        return performance.now() - started;
      };
      const first = await ask("?include=depth");
      const [depths, prices]: [number[], number[]] = [[], []];
      for (let at = 1; at <= QUESTIONS[name]; at++) {
        depths.push(await ask(`?include=depth&size_usd=${at}`));
        prices.push(await ask(""));
      }
      await service.stop();
      const ms = (value: number): string => `${value.toFixed(2)} ms`;
      const p50 = median(depths);
      return {
        name: "Depth of a warm price, another size each time",
        floor: `the price alone: p50 ${ms(median(prices))}`,
        ours: `p50 ${ms(p50)}, p99 ${ms(percentile(depths, 99))}`,
        ratio: median(prices) / p50,
        reach: `p50 <= ${MAX_MS} ms`,
        passed: p50 <= MAX_MS,
        detail: `${depths.length} questions, one after the other, two pools on the way; the first one of a head ${ms(first)}`,
      };
    } finally {
      await anvil.stop();
      folder.remove();
    }
  },
};
