/** Many sockets that wait for one collection. */
import { TEST_KEY } from "../../../test/support/service.ts";
import { startChain } from "../chain/start.ts";
import { startChild } from "../children.ts";
import { timeOf } from "../log-facts.ts";
import { residentBytes } from "../machine.ts";
import type { SocketsResult } from "../parts/sockets.ts";
import { type Bench, grouped } from "../row.ts";
import { startBenchService, temporaryFolder } from "../service.ts";
import { BENCH_ADDRESS, denseCollection } from "./backfill.ts";

const MAX_MS = 1_000;
const TRANSFERS = 5_000;

export const sockets: Bench = {
  name: "sockets",
  measure: async ({ sockets: count }) => {
    const chain = await startChain({ collections: [denseCollection(TRANSFERS)] });
    const folder = temporaryFolder();
    try {
      await chain.hold();
      const service = await startBenchService({ rpcUrl: chain.url, logUrl: folder.logUrl });
      const before = residentBytes(service.pid);
      const args = [String(service.port), TEST_KEY, BENCH_ADDRESS, String(count)];
      const client = await startChild({ script: "parts/sockets.ts", args });
      const perSocket = (residentBytes(service.pid) - before) / count;
      await chain.release();
      const { first, last, told } = JSON.parse(await client.next) as SocketsResult;
      await client.stop();
      await service.stop();
      const completed = await timeOf(folder.logUrl, BENCH_ADDRESS, "IndexingCompleted");
      const ms = last - completed;
      return {
        name: `${grouped(count)} sockets subscribed, one \`indexed\``,
        floor: "–",
        ours: `all told within ${ms} ms`,
        ratio: undefined,
        reach: `<= ${grouped(MAX_MS)} ms`,
        passed: told === count && ms <= MAX_MS,
        detail:
          `from the append of the completion to the last message read; the first came after ${first - completed} ms; ` +
          `${(perSocket / 1_024).toFixed(1)} KiB of the service's memory per socket`,
      };
    } finally {
      await chain.stop();
      folder.remove();
    }
  },
};
