/**
 * Hydrates a cold collection, from its snapshot and from the log alone, in a process of its own, by turns with a bare
 * loop that decodes the same transfers from memory into typed arrays. In: the number of NFTs and of turns. Out: ms and
 * counts as JSON.
 */
import { decodeTransfers } from "../../../src/events/columns.ts";
import { type NftEvent, nftStream, type Recorded } from "../../../src/events/types.ts";
import { FILLED_ADDRESS, filledLog } from "../filled-log.ts";

export interface HydrateResult {
  readonly transfers: number;
  /** From the snapshot. */
  readonly ours: readonly number[];
  readonly fromLog: readonly number[];
  readonly floor: readonly number[];
  readonly appendMs: number;
}

const [tokens, turns] = process.argv.slice(2).map(Number) as [number, number];
const filled = await filledLog({ tokens });
const parts: Uint8Array[] = [];
for (let from = 1; ; ) {
  const page = (await filled.log.read(nftStream(1, FILLED_ADDRESS), { from })) as Recorded<NftEvent>[];
  for (const { event } of page) if (event.type === "TransfersCommitted") parts.push(event.transfers.slice());
  const last = page.at(-1);
  if (last === undefined) break;
  from = last.version + 1;
}
const decodeAll = (): { ms: number; transfers: number } => {
  const started = performance.now();
  let transfers = 0;
  for (const part of parts) transfers += decodeTransfers(part).count;
  return { ms: performance.now() - started, transfers };
};

const { transfers } = decodeAll();
// Compiles the code.
for (let i = 0; i < 2; i++) await filled.hydrate();
const snapshots = await filled.snapshot();
const [ours, fromLog, floor]: [number[], number[], number[]] = [[], [], []];
for (let turn = 0; turn < turns; turn++) {
  Bun.gc(true);
  ours.push((await filled.hydrate(snapshots)).ms);
  Bun.gc(true);
  fromLog.push((await filled.hydrate()).ms);
  Bun.gc(true);
  floor.push(decodeAll().ms);
}
await filled.close();
filled.remove();
process.stdout.write(
  JSON.stringify({ transfers, ours, fromLog, floor, appendMs: filled.appendMs } satisfies HydrateResult),
);
process.exit(0);
