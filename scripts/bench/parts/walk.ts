/**
 * A walk of a whole listing, a process of its own: each page is made once, by the cursor of the one before. After each
 * stretch of pages their records, ready as objects, are serialised with `JSON.stringify`. In: the number of NFTs. Out: the
 * ms of both for each stretch, as JSON.
 */
import { openCursor } from "../../../src/nfts/cursor.ts";
import { FILLED_ADDRESS, filledLog } from "../filled-log.ts";
import { first, LIMIT, page, SECRET, stillChain } from "../listing-page.ts";

export interface WalkResult {
  readonly pages: number;
  readonly ours: readonly number[];
  readonly floor: readonly number[];
}

const tokens = Number(process.argv[2]);
const PAGES_A_STRETCH = Math.max(20, Math.min(200, Math.floor(tokens / LIMIT / 10)));

const filled = await filledLog({ tokens });
const { collection } = await filled.hydrate();
const { chain } = stillChain(collection);
const result = { pages: 0, ours: [] as number[], floor: [] as number[] };
let serialised = 0;
for (let cursor: string | null = ""; cursor !== null; ) {
  const bodies: string[] = [];
  const started = performance.now();
  while (bodies.length < PAGES_A_STRETCH && cursor !== null) {
    const opened: ReturnType<typeof openCursor> = cursor === "" ? undefined : openCursor(cursor, SECRET);
    const body: string = page(collection, FILLED_ADDRESS, chain, opened === undefined ? first() : { cursor: opened });
    bodies.push(body);
    const at: number = body.indexOf('"cursor":') + 9;
    cursor = body.startsWith("null", at) ? null : body.slice(at + 1, body.indexOf('"', at + 1));
  }
  const made = performance.now();
  const ready = bodies.map((body) => JSON.parse(body) as unknown);
  const parsed = performance.now();
  for (const one of ready) serialised += JSON.stringify(one).length;
  const ended = performance.now();
  result.pages += bodies.length;
  if (bodies.length < PAGES_A_STRETCH) continue;
  result.ours.push(made - started);
  result.floor.push(ended - parsed);
}
if (serialised < tokens * 100) throw new Error("the pages are too short");
await filled.close();
filled.remove();
process.stdout.write(JSON.stringify(result satisfies WalkResult));
process.exit(0);
