/**
 * A collection of one size, a process of its own: what appending its history takes, what hydrating it, and what the pages
 * of a walk from the middle of its listing on. In: NFTs, moves of each, turns. Out: `SizeResult` as JSON.
 */
import { transfersOf } from "../fill.ts";
import { FILLED_ADDRESS, filledLog } from "../filled-log.ts";
import { after, first, page, stillChain } from "../listing-page.ts";
import { median } from "../load.ts";

export interface SizeResult {
  readonly transfers: number;
  /** Transfers a second. */
  readonly appended: number;
  readonly hydrated: number;
  readonly pageMicroseconds: number;
}

/** Pages before those that count, and those. */
const [WARM_UP, PAGES] = [200, 400];

const [tokens, moves, turns] = process.argv.slice(2).map(Number) as [number, number, number];
const transfers = transfersOf({ tokens, moves });
const appends: number[] = [];
const hydrations: number[] = [];
const pages: number[] = [];
// Where there is more than one turn the first is for the code to get warm.
for (let turn = turns === 1 ? 0 : -1; turn < turns; turn++) {
  const filled = await filledLog({ tokens, moves });
  const { collection, ms } = await filled.hydrate();
  if (turn >= 0) {
    appends.push(filled.appendMs);
    hydrations.push(ms);
  }
  const { chain } = stillChain(collection);
  const middle = first({ part: { range: 1, totalRanges: 2 } });
  let next = after(page(collection, FILLED_ADDRESS, chain, middle));
  for (let i = -WARM_UP; i < PAGES; i++) {
    const started = performance.now();
    const from = next ?? middle;
    next = after(page(collection, FILLED_ADDRESS, chain, from));
    // To find the middle is another thing than to go on from there.
    if (i >= 0 && from !== middle) pages.push(performance.now() - started);
  }
  await filled.close();
  filled.remove();
}
const rate = (times: readonly number[]) => (transfers * 1_000) / median(times);
const result: SizeResult = {
  transfers,
  appended: rate(appends),
  hydrated: rate(hydrations),
  pageMicroseconds: median(pages) * 1_000,
};
process.stdout.write(JSON.stringify(result));
process.exit(0);
