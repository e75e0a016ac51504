/** Warm pages while many cold collections are requested at once, as after a restart. */
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { openLog } from "../../../src/log/open.ts";
import { fillMany, transfersOf } from "../fill.ts";
import { median } from "../load.ts";
import { type Bench, grouped, spread } from "../row.ts";
import { type BenchService, NO_NODE, startBenchService, temporaryFolder } from "../service.ts";
import { STEADY_PER_SECOND, steadyP99 } from "../steady-p99.ts";

const COLLECTIONS = 100;
/** A collection has this many times fewer tokens than `Scale.tokens`. */
const SMALLER = 50;
const MOVES = 2;
const LOOKS = 50;
/** Our own target: a hundred hydrations should not be noticeable. */
const MAX_MS = 25;

const pathOf = (collection: number): string =>
  `/api/v2/nft/0x${(collection + 1).toString(16).padStart(40, "0")}?limit=100`;

/** Requests every collection except the warm one at once. Returns the ms until the last answer. */
async function askForAll(service: BenchService): Promise<number> {
  const started = performance.now();
  const ask = async (index: number): Promise<void> => {
    const answer = await service.get(pathOf(index + 1));
    if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`);
    await answer.arrayBuffer();
  };
  await Promise.all(Array.from({ length: COLLECTIONS }, (_, index) => ask(index)));
  return performance.now() - started;
}

export const pageWhileCold: Bench = {
  name: "page-while-cold",
  measure: async ({ turns, tokens, loadMs }) => {
    const folder = temporaryFolder();
    const [idle, busy, loading]: [number[], number[], number[]] = [[], [], []];
    const size = { tokens: tokens / SMALLER, moves: MOVES };
    try {
      const log = await openLog(folder.logUrl, systemClock, silentLogger);
      await fillMany(log, COLLECTIONS + 1, { chainId: 1, kind: TransferKind.erc721, ...size });
      await log.close();
      for (let turn = 0; turn < turns; turn++) {
        const env = { SNAPSHOT_DIR: "off" };
        const service = await startBenchService({ rpcUrl: NO_NODE, logUrl: folder.logUrl, env });
        for (let look = 0; look < LOOKS; look++) await (await service.get(pathOf(0))).arrayBuffer();
        await steadyP99(service, pathOf(0), loadMs);
        idle.push(await steadyP99(service, pathOf(0), loadMs));
        const measured = steadyP99(service, pathOf(0), loadMs);
        loading.push(await askForAll(service));
        busy.push(await measured);
        await service.stop();
      }
    } finally {
      folder.remove();
    }
    const ms = (value: number) => value.toFixed(2);
    return {
      name: `p99 of warm pages at ${STEADY_PER_SECOND} requests/s while ${COLLECTIONS} cold collections are read`,
      floor: `${spread(idle, ms)} ms`,
      ours: `${spread(busy, ms)} ms`,
      ratio: median(idle) / median(busy),
      reach: `<= ${MAX_MS} ms`,
      passed: median(busy) <= MAX_MS,
      detail:
        `${grouped(transfersOf(size))} transfers each, all asked for at once, without snapshots; the last page came after ` +
        `${spread(loading, (value) => value.toFixed(0))} ms; ${turns} turns of ${loadMs} ms`,
    };
  },
};
