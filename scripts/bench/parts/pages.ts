/**
 * Reads pages of a collection of one size, each for the first time, from the middle of its listing on. Measures the
 * wait of a client over one connection, and the making of a page without a server. A process of its own. In: NFTs,
 * moves of each. Out: `PagesResult` as JSON.
 */
import { FILLED_ADDRESS, filledLog } from "../filled-log.ts";
import { after, first, LIMIT, page, stillChain } from "../listing-page.ts";
import { median } from "../load.ts";
import { KEY_HEADERS, NO_NODE, startBenchService } from "../service.ts";

export interface PagesResult {
  /** µs per page: for a client, and in this process. */
  readonly served: number;
  readonly made: number;
}

/** Pages before the measured ones, and measured pages. Small listings are read repeatedly. */
const MADE = 2_000;
const SERVED = 400;
const HALF = { range: 1, totalRanges: 2 } as const;

const [tokens, moves] = process.argv.slice(2).map(Number) as [number, number];
const filled = await filledLog({ tokens, moves });

async function madeHere(): Promise<number> {
  const { collection } = await filled.hydrate();
  const { chain } = stillChain(collection);
  const middle = first({ part: HALF });
  const times: number[] = [];
  let next = after(page(collection, FILLED_ADDRESS, chain, middle));
  for (let i = -MADE; i < MADE; i++) {
    const from = next ?? middle;
    const started = performance.now();
    const body = page(collection, FILLED_ADDRESS, chain, from);
    const took = performance.now() - started;
    next = after(body);
    // Finding the middle is not part of the measurement.
    if (i >= 0 && from !== middle) times.push(took);
  }
  return median(times) * 1_000;
}

async function served(): Promise<number> {
  const service = await startBenchService({ rpcUrl: NO_NODE, logUrl: filled.url });
  const path = `/api/v2/nft/${FILLED_ADDRESS}?limit=${LIMIT}`;
  const headers = { ...KEY_HEADERS, "accept-encoding": "identity" };
  const times: number[] = [];
  let cursor: string | null = null;
  for (let i = -SERVED; i < SERVED; i++) {
    const query: string = cursor === null ? "&range=1&totalRanges=2" : `&cursor=${cursor}`;
    // An unknown parameter makes the request unique, so that no cached answer serves it.
    const question = `${path}${query}&turn=${i}`;
    const started = performance.now();
    const text = await (await fetch(`${service.base}${question}`, { headers })).text();
    const took = performance.now() - started;
    if (cursor !== null && i >= 0) times.push(took);
    cursor = (JSON.parse(text) as { cursor: string | null }).cursor;
  }
  await service.stop();
  return median(times) * 1_000;
}

const made = await madeHere();
await filled.close();
const result: PagesResult = { made, served: await served() };
filled.remove();
process.stdout.write(JSON.stringify(result));
process.exit(0);
