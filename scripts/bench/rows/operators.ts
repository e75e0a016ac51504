/** Status and lists for operators, over a log with many collections. */
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { openLog } from "../../../src/log/open.ts";
import { fillMany } from "../fill.ts";
import { median, percentile } from "../load.ts";
import { type Bench, grouped } from "../row.ts";
import { NO_NODE, startBenchService, temporaryFolder } from "../service.ts";

const MAX_MS = 50;
const TOKENS = 5;
const ASKED = 200;
const KEY = "operator-key-of-the-bench";
const PATHS = ["/api/status", "/api/collections?limit=500"] as const;

export const operators: Bench = {
  name: "operators",
  measure: async ({ collections }) => {
    const folder = temporaryFolder();
    try {
      const log = await openLog(folder.logUrl, systemClock, silentLogger);
      await fillMany(log, collections, { chainId: 1, kind: TransferKind.erc721, tokens: TOKENS, moves: 1 });
      await log.close();
      const env = { OPERATOR_KEYS: KEY };
      const service = await startBenchService({ rpcUrl: NO_NODE, logUrl: folder.logUrl, env });
      const ask = async (path: string): Promise<number> => {
        const started = performance.now();
        const response = await fetch(`${service.base}${path}`, { headers: { "x-api-key": KEY } });
        await response.arrayBuffer();
        if (!response.ok) throw new Error(`${path}: ${response.status}`);
        return performance.now() - started;
      };
      const first = await ask(PATHS[0]);
      const times = new Map<string, number[]>(PATHS.map((path) => [path, []]));
      for (let turn = 0; turn < ASKED; turn++) {
        for (const path of PATHS) times.get(path)?.push(await ask(path));
      }
      const metrics = await (await service.get("/metrics")).text();
      const hot = Number(/^cache_collections (\d+)/m.exec(metrics)?.[1]);
      await service.stop();
      const shown = [...times].map(([path, list]) => {
        return `${path} ${median(list).toFixed(1)} ms (p99 ${percentile(list, 99).toFixed(1)})`;
      });
      return {
        name: `Status and list of ${grouped(collections)} collections`,
        floor: "–",
        ours: shown.join(", "),
        ratio: undefined,
        reach: `median <= ${MAX_MS} ms, nothing hydrated`,
        passed: [...times.values()].every((list) => median(list) <= MAX_MS) && hot === 0,
        detail: `${ASKED} times each; the first status, which reads all headlines, ${first.toFixed(0)} ms; ${hot} in memory`,
      };
    } finally {
      folder.remove();
    }
  },
};
