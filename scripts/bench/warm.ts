/**
 * One warm answer of the service under load, beside a bare server of the same bytes and headers. Runs many short turns
 * and compares each with its neighbour: for a second or so, the placement of client and server on cores changes the
 * rate of one connection by a factor of three.
 */
import { startBareServer } from "./bare-server.ts";
import { load, median } from "./load.ts";
import { byTurns, grouped, type Row, type Scale, spread } from "./row.ts";
import { type BenchService, KEY_HEADERS } from "./service.ts";

export interface WarmOptions {
  readonly name: string;
  readonly path: string;
  readonly connections: number;
  readonly reach: number;
  /** Largest ratio of the service's p99 to the bare server's; not checked if undefined. */
  readonly maxP99?: number;
}

/** Turns are shorter than those of `Scale` by this factor, and there are more of them. */
const SHORTER = 4;

export async function warmRow(
  service: BenchService,
  { name, path, connections, reach, maxP99 }: WarmOptions,
  { turns: fewer, loadMs, shortTurns }: Scale,
): Promise<Row> {
  const turns = fewer * shortTurns + 1;
  const bare = await startBareServer(await service.get(path));
  try {
    const ms = loadMs / SHORTER;
    const run = (port: number) => load({ port, path, headers: KEY_HEADERS, connections, ms });
    for (let i = 0; i < SHORTER * 2; i++) for (const { port } of [service, bare]) await run(port);
    const { ours, floor } = await byTurns(
      turns,
      () => run(service.port),
      () => run(bare.port),
    );
    const [us, them] = [ours, floor].map((list) => list.map(({ perSecond }) => perSecond)) as [number[], number[]];
    const [ourP99, theirP99] = [ours, floor].map((list) => median(list.map(({ p99 }) => p99))) as [number, number];
    const ratio = median(us.map((rate, turn) => rate / (them[turn] as number)));
    const p99Ratio = median(ours.map(({ p99 }, turn) => p99 / (floor[turn]?.p99 as number)));
    return {
      name,
      floor: `${spread(them, grouped)} requests/s`,
      ours: `${spread(us, grouped)} requests/s`,
      ratio,
      reach: maxP99 === undefined ? `>= ${reach}` : `>= ${reach}, p99 within ${maxP99}x`,
      passed: ratio >= reach && (maxP99 === undefined || p99Ratio <= maxP99),
      detail:
        `${grouped(bare.bytes)} bytes, ${connections} connections, ${turns} turns of ${ms} ms, the ratios of neighbours; ` +
        `p99 ${ourP99.toFixed(2)} ms beside ${theirP99.toFixed(2)} ms, ${p99Ratio.toFixed(2)}x`,
    };
  } finally {
    await bare.stop();
  }
}
