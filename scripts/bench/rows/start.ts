/** A start on a log with many collections. */
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { openLog } from "../../../src/log/open.ts";
import { startChain } from "../chain/start.ts";
import { fillMany } from "../fill.ts";
import { median } from "../load.ts";
import { type Bench, byTurns, grouped, spread } from "../row.ts";
import { startBenchService, temporaryFolder } from "../service.ts";

const MAX_MS = 1_000;
const TOKENS = 20;

interface Start {
  readonly ms: number;
  /** Collections in memory once the service is ready. */
  readonly hot: number;
}

async function startOnce(rpcUrl: string, logUrl: string): Promise<Start> {
  const started = performance.now();
  const service = await startBenchService({ rpcUrl, logUrl });
  const ready = await service.get("/health/ready");
  const ms = performance.now() - started;
  if (!ready.ok) throw new Error(`not ready: ${ready.status}`);
  const metrics = await (await service.get("/metrics")).text();
  await service.stop();
  return { ms, hot: Number(/^cache_collections (\d+)/m.exec(metrics)?.[1]) };
}

export const start: Bench = {
  name: "start",
  measure: async ({ collections, turns }) => {
    const chain = await startChain({ collections: [] });
    const [full, empty] = [temporaryFolder(), temporaryFolder()];
    try {
      const log = await openLog(full.logUrl, systemClock, silentLogger);
      await fillMany(log, collections, { chainId: 1, kind: TransferKind.erc721, tokens: TOKENS, moves: 1 });
      await log.close();
      await startOnce(chain.url, empty.logUrl);
      const { ours, floor } = await byTurns(
        turns,
        () => startOnce(chain.url, full.logUrl),
        () => startOnce(chain.url, empty.logUrl),
      );
      const [us, them] = [ours, floor].map((list) => list.map(({ ms }) => ms)) as [number[], number[]];
      const hot = Math.max(...ours.map((one) => one.hot));
      const show = (value: number) => value.toFixed(0);
      return {
        name: `Start with ${grouped(collections)} collections in the log`,
        floor: `${spread(them, show)} ms with an empty log`,
        ours: `${spread(us, show)} ms`,
        ratio: median(them) / median(us),
        reach: `ready in < ${grouped(MAX_MS)} ms, nothing hydrated`,
        passed: median(us) < MAX_MS && hot === 0,
        detail: `from the process's start to /health/ready, ${turns} turns; ${hot} collections in memory then`,
      };
    } finally {
      await chain.stop();
      full.remove();
      empty.remove();
    }
  },
};
