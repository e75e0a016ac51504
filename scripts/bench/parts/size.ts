/**
 * A history of one length, a process of its own: what appending it takes, and what hydrating it. In: NFTs, moves of each,
 * turns. Out: `SizeResult` as JSON.
 */
import { transfersOf } from "../fill.ts";
import { filledLog } from "../filled-log.ts";
import { median } from "../load.ts";

export interface SizeResult {
  readonly transfers: number;
  /** Transfers a second. */
  readonly appended: number;
  readonly hydrated: number;
}

/** NFTs of the log that the code gets warm with, whatever the size is that counts: a small one would not do. */
const WARM_UP_TOKENS = 50_000;

const [tokens, moves, turns] = process.argv.slice(2).map(Number) as [number, number, number];
const transfers = transfersOf({ tokens, moves });
const appends: number[] = [];
const hydrations: number[] = [];
for (let turn = -1; turn < turns; turn++) {
  const filled = await filledLog({ tokens: turn < 0 ? WARM_UP_TOKENS : tokens, moves });
  if (turn < 0) for (let i = 0; i < 3; i++) await filled.hydrate();
  Bun.gc(true);
  const { ms } = await filled.hydrate();
  if (turn >= 0) {
    appends.push(filled.appendMs);
    hydrations.push(ms);
  }
  await filled.close();
  filled.remove();
}
const rate = (times: readonly number[]) => (transfers * 1_000) / median(times);
const result: SizeResult = { transfers, appended: rate(appends), hydrated: rate(hydrations) };
process.stdout.write(JSON.stringify(result));
process.exit(0);
