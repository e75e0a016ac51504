/** Makes pages of a listing as the route does, without metadata, in this process. */

import type { Address } from "../../src/core/hex.ts";
import type { BlockRef } from "../../src/events/types.ts";
import type { Collection } from "../../src/nft/collections/collection.ts";
import { finishPage } from "../../src/nft/listings/pages.ts";
import { NO_METADATA } from "../../src/nft/listings/record.ts";
import { type FirstPage, openCursor, type PageFrom } from "../../src/nft/walks/cursor.ts";
import { planPage } from "../../src/nft/walks/plan.ts";
import type { PageChain } from "../../src/nft/walks/snapshot.ts";

export const LIMIT = 100;
export const SECRET = "a secret of the bench";

/** Longer than the envelope before the first record. */
const HEAD_BYTES = 1_024;
const decoder = new TextDecoder();

/** A chain whose head is the collection's last block. */
export function stillChain({ end }: Collection): { chain: PageChain; end: BlockRef } {
  if (end === undefined) throw new Error("the collection is empty");
  const chain = { version: 0, head: () => end, finalized: () => end, header: () => undefined, isCanonical: () => true };
  return { chain, end };
}

/** The body of one page, in memory that the next page overwrites. */
export function page(
  collection: Collection,
  address: Address,
  chain: PageChain,
  from: PageFrom,
): Uint8Array<ArrayBuffer> {
  const plan = planPage({ chainId: 1, address }, collection, chain, from);
  const facts = plan.entries.map(() => NO_METADATA);
  return finishPage(plan, facts, { native: false, cursorSecret: SECRET }).body;
}

/** A copy of the body, as it is cached and sent. */
export const keep = (body: Uint8Array<ArrayBuffer>): Blob => new Blob([body]);

/** The origin of the next page, as its cursor gives it; undefined after the last page. */
export function after(body: Uint8Array): PageFrom | undefined {
  const start = decoder.decode(body.subarray(0, HEAD_BYTES));
  const text = /"cursor":(?:null|"([^"]+)")/.exec(start)?.[1];
  if (text === undefined) return undefined;
  const cursor = openCursor(text, SECRET);
  if (cursor === undefined) throw new Error("the cursor does not open");
  return { cursor };
}

/** A first page of `LIMIT` records with further parameters. */
export const first = (fields: Partial<FirstPage> = {}): { first: FirstPage } => ({
  first: {
    limit: LIMIT,
    hex: false,
    holders: false,
    withTotal: false,
    asOfBlock: undefined,
    part: undefined,
    ...fields,
  },
});
