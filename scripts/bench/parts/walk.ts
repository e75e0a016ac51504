/**
 * Walks a whole listing, in a process of its own: makes each page once, by the cursor of the previous one. After each
 * stretch of pages, serialises their records from prepared objects with `JSON.stringify`. In: the number of NFTs. Out:
 * the ms of both for each stretch, as JSON.
 */
import { FILLED_ADDRESS, filledLog } from "../filled-log.ts";
import { after, first, keep, LIMIT, page, stillChain } from "../listing-page.ts";

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
for (let next: ReturnType<typeof after> = first(); next !== undefined; ) {
  const bodies: Blob[] = [];
  // Collect the other contender's garbage first.
  Bun.gc(true);
  const started = performance.now();
  while (bodies.length < PAGES_A_STRETCH && next !== undefined) {
    const body = page(collection, FILLED_ADDRESS, chain, next);
    bodies.push(keep(body));
    next = after(body);
  }
  const made = performance.now();
  const ready = (await Promise.all(bodies.map((body) => body.json()))) as unknown[];
  Bun.gc(true);
  const parsed = performance.now();
  // Kept like the pages, because touching new memory costs both contenders.
  const texts = ready.map((one) => JSON.stringify(one));
  const ended = performance.now();
  for (const text of texts) serialised += text.length;
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
