/** Metrics of a replica, as a scrape gives them. */
import type { BenchService } from "../service.ts";

/** Values by series, such as `cache_reads_total{outcome="hit"}`. */
export async function countersOf(service: Pick<BenchService, "get">): Promise<ReadonlyMap<string, number>> {
  const text = await (await service.get("/metrics")).text();
  const lines = [...text.matchAll(/^([a-z_]+(?:\{[^}]*\})?) (\S+)$/gm)];
  return new Map(lines.map(([, series, value]) => [series as string, Number(value)]));
}

export const sumOfCounters = (all: readonly ReadonlyMap<string, number>[], name: string): number =>
  all.reduce((sum, counters) => sum + (counters.get(name) ?? 0), 0);
