/** The page of a listing: its plan and the metadata in, the envelope with its signed cursor out. */

import { ByteWriter } from "../../core/byte-text.ts";
import type { Hash } from "../../core/hex.ts";
import type { BlockRef } from "../../events/types.ts";
import type { ContractNames } from "../collections/name-list.ts";
import type { Entry } from "../ledger/entries.ts";
import { signCursor } from "../walks/cursor.ts";
import { cutPlan, type PagePlan } from "../walks/plan.ts";
import { addRecords, type RecordFacts } from "./record.ts";

interface PageOptions {
  readonly native: boolean;
  readonly cursorSecret: string;
  /** Time of the page's block in seconds since the epoch, if it is known; the cursor carries it. */
  readonly time?: number | undefined;
  /** Fallback for an empty name or symbol. */
  readonly names?: ContractNames | undefined;
}

export interface Page {
  /** JSON in UTF-8, in a buffer that the next page overwrites: copy it before the next await. */
  readonly body: Uint8Array<ArrayBuffer>;
  readonly block: number | undefined;
  readonly hash: Hash | "";
  /** The lowest known block above it; see `Walk`. */
  readonly above: BlockRef | undefined;
  readonly finalized: boolean;
}

/** Characters of metadata that become objects between two turns of the event loop: 2 ms. */
const SLICE_CHARACTERS = 256 * 1024;

/** Returns the records of entries as objects, one for each of `facts`, in slices. */
export function* recordsOf(
  of: Parameters<typeof addRecords>[1],
  entries: readonly Entry[],
  facts: readonly RecordFacts[],
  style: { readonly native: boolean; readonly hex: boolean },
): Generator<void, object[]> {
  const records: object[] = [];
  for (let from = 0; from < facts.length; ) {
    if (from > 0) yield;
    let to = from;
    for (let characters = 0; to < facts.length && characters < SLICE_CHARACTERS; to++) {
      const { tokenUri, metadata, normalized, media } = facts[to] as RecordFacts;
      characters += tokenUri.length + metadata.length + normalized.length + media.length;
    }
    out.start();
    addRecords(out, of, entries.slice(from, to), facts.slice(from, to), style);
    records.push(...(JSON.parse(new TextDecoder().decode(out.view())) as object[]));
    from = to;
  }
  return records;
}

/** The buffer of all pages. They are written one after the other, never at the same time. */
const out = new ByteWriter();

/** Writes the page's body, with one record per element of `facts`. */
export function finishPage(whole: PagePlan, facts: readonly RecordFacts[], options: PageOptions): Page {
  const { collection, snapshot, walk, entries, next, finalized } = cutPlan(whole, facts.length);
  const { block, hash, above, page, limit, total, hex, address } = walk;
  const { native, cursorSecret, time, names } = options;
  const left = walk.left === undefined ? undefined : walk.left - entries.length;
  const number = (value: number) => (native ? String(value) : `"${value}"`);
  const status = snapshot.status === "syncing" || collection.isUnproven ? "SYNCING" : "SYNCED";
  const cursor =
    next === undefined || left === 0
      ? "null"
      : `"${signCursor({ ...walk, time, position: next, page: page + 1, left }, cursorSecret)}"`;
  out.start();
  out.text(
    `{"status":"${status}","total":${total === undefined ? "null" : number(total)},"page":${number(page)},` +
      `"page_size":${number(limit)},"cursor":${cursor},"result":`,
  );
  addRecords(out, { address, collection, names }, entries, facts, { hex, native });
  out.ascii("}");
  return { body: out.view(), block, hash, above, finalized };
}
