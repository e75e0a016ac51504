/**
 * Appends and hydrates histories of one length, in a process of its own. The number of histories is chosen so that all
 * lengths have the same total of transfers; periodic work, such as moving the WAL into the file, then weighs the same.
 * In: NFTs of a history, moves of each, transfers in all, turns. Out: `SizeResult` as JSON.
 */

import { systemClock } from "../../../src/core/clock.ts";
import type { Address } from "../../../src/core/hex.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { openLog } from "../../../src/log/open.ts";
import { HotCollections } from "../../../src/nft/collections/hot-collections.ts";
import { fill, transfersOf } from "../fill.ts";
import { median } from "../load.ts";
import { temporaryFolder } from "../service.ts";

export interface SizeResult {
  /** Transfers per second. */
  readonly appended: number;
  readonly hydrated: number;
}

const CHAIN_ID = 1;
/** Addresses of the same length for every history, so that events have the same size. */
const HOLDERS = 30_000;
const addressOf = (index: number): Address => `0x${(index + 1).toString(16).padStart(40, "0")}` as Address;

/** Appends the histories to a fresh log and hydrates each. Returns the ms of both. */
async function turn(tokens: number, moves: number, histories: number): Promise<{ append: number; hydrate: number }> {
  const folder = temporaryFolder();
  const log = await openLog(folder.logUrl, systemClock, silentLogger);
  const common = { chainId: CHAIN_ID, kind: TransferKind.erc721, tokens, moves, people: HOLDERS / tokens };
  let [append, hydrate] = [0, 0];
  for (let i = 0; i < histories; i++) append += await fill(log, { ...common, address: addressOf(i) });
  Bun.gc(true);
  for (let i = 0; i < histories; i++) {
    const projections = new HotCollections({ log, logger: silentLogger, maxBytes: 2 ** 35 });
    const started = performance.now();
    await projections.get(CHAIN_ID, addressOf(i));
    hydrate += performance.now() - started;
    projections.close();
  }
  await log.close();
  folder.remove();
  return { append, hydrate };
}

const [tokens, moves, total, turns] = process.argv.slice(2).map(Number) as [number, number, number, number];
const each = transfersOf({ tokens, moves });
const histories = Math.max(1, Math.round(total / each));
const times: { append: number; hydrate: number }[] = [];
// With several turns, the first one compiles the code.
for (let i = turns === 1 ? 0 : -1; i < turns; i++) {
  const one = await turn(tokens, moves, histories);
  if (i >= 0) times.push(one);
}
const rate = (list: readonly number[]) => (each * histories * 1_000) / median(list);
const result: SizeResult = {
  appended: rate(times.map(({ append }) => append)),
  hydrated: rate(times.map(({ hydrate }) => hydrate)),
};
process.stdout.write(JSON.stringify(result));
process.exit(0);
