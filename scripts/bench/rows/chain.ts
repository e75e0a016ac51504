/** The limit of the synthetic node itself. If it were not far above any client's rate, every row would measure it. */
import { startChain } from "../chain/start.ts";
import { median } from "../load.ts";
import { type Bench, byTurns, grouped, spread } from "../row.ts";
import { denseCollection, foldOnce, PER_BLOCK } from "./backfill.ts";

/** Logs per answer, as in most answers of a backfill. */
const LOGS = 10_000;

export const chainMaximum: Bench = {
  name: "chain",
  measure: async ({ transfers, turns }) => {
    const chain = await startChain({ collections: [denseCollection(transfers)] });
    try {
      const blocks = LOGS / PER_BLOCK;
      const ranges = Array.from({ length: Math.ceil(transfers / LOGS) }, (_, i) => {
        const from = chain.firstBlock + i * blocks;
        return [from, from + blocks - 1] as const;
      });
      await foldOnce(chain, { ranges });
      const { ours, floor } = await byTurns(
        turns,
        () => foldOnce(chain, { ranges, unread: true }),
        () => foldOnce(chain, { ranges }),
      );
      const rates = (list: readonly { ms: number }[]) => list.map(({ ms }) => (transfers * 1_000) / ms);
      const [node, client] = [rates(ours), rates(floor)];
      const ratio = median(node) / median(client);
      const mib = (median(ours.map(({ bytes, ms }) => (bytes * 1_000) / ms)) / 2 ** 20).toFixed(0);
      return {
        name: "The synthetic node's own maximum",
        floor: `${spread(client, grouped)} logs/s parsed and folded`,
        ours: `${spread(node, grouped)} logs/s sent`,
        ratio,
        reach: "far above the floor of a backfill: >= 2",
        passed: ratio >= 2,
        detail: `${mib} MiB/s in answers of ${grouped(LOGS)} logs, read and thrown away`,
      };
    } finally {
      await chain.stop();
    }
  },
};
