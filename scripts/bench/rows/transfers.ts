/** Pages of a long list of transfers: the newest, a walk, and those of senders with few of them. */
import { startChain } from "../chain/start.ts";
import { median, percentile } from "../load.ts";
import { type Bench, grouped } from "../row.ts";
import { startBenchService, temporaryFolder, untilIndexed } from "../service.ts";
import { BENCH_ADDRESS, denseCollection } from "./backfill.ts";

const MAX_MS = 5;
const PAGES = 400;
const ROUTE = `/api/collections/eth/${BENCH_ADDRESS}/transfers?limit=100&times=true`;

interface Page {
  readonly result: readonly { readonly from: string; readonly time: string | null }[];
  readonly cursor: string | null;
}

export const transfers: Bench = {
  name: "transfers",
  measure: async ({ transfers: count }) => {
    const chain = await startChain({ collections: [denseCollection(count)] });
    const folder = temporaryFolder();
    try {
      const service = await startBenchService({ rpcUrl: chain.url, logUrl: folder.logUrl });
      await untilIndexed(service, BENCH_ADDRESS);
      const ask = async (query: string): Promise<{ page: Page; ms: number }> => {
        const started = performance.now();
        const page = (await (await service.get(`${ROUTE}${query}`)).json()) as Page;
        return { page, ms: performance.now() - started };
      };
      const pages: number[] = [];
      const senders = new Set<string>();
      // The first walk reads the headers.
      for (const isMeasured of [false, true]) {
        let cursor: string | null = "";
        for (let i = 0; i < PAGES && cursor !== null; i++) {
          const { page, ms }: { page: Page; ms: number } = await ask(cursor === "" ? "" : `&cursor=${cursor}`);
          if (page.result.some(({ time }) => time === null)) throw new Error("a time is missing");
          for (const { from } of page.result) senders.add(from);
          if (isMeasured) pages.push(ms);
          cursor = page.cursor;
        }
      }
      const [first, ...rest] = [...senders];
      const building = (await ask(`&from=${first}`)).ms;
      const sparse: number[] = [];
      for (const sender of rest.slice(0, PAGES)) {
        const { cursor, result } = (await ask(`&from=${sender}`)).page;
        if (cursor === null && result.length < 100) sparse.push((await ask(`&from=${sender}`)).ms);
      }
      if (sparse.length < 20) throw new Error("too few senders have few transfers");
      await service.stop();
      const shown = (list: readonly number[]) =>
        `${median(list).toFixed(1)} ms (p99 ${percentile(list, 99).toFixed(1)})`;
      return {
        name: `Page of 100 of ${grouped(count)} transfers, newest first; of a sender with less than 100`,
        floor: "–",
        ours: `${shown(pages)}; ${shown(sparse)}`,
        ratio: undefined,
        reach: `median <= ${MAX_MS} ms`,
        passed: median(pages) <= MAX_MS && median(sparse) <= MAX_MS,
        detail: `${pages.length} pages of a walk with times, ${sparse.length} senders; the first filter, which makes the lists, ${building.toFixed(0)} ms`,
      };
    } finally {
      await chain.stop();
      folder.remove();
    }
  },
};
