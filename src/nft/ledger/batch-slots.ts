/**
 * Finds the slots of all tokens of a batch of transfers, before the batch is folded. Works in passes, because a look-up
 * mostly waits for memory and independent reads overlap.
 */
import type { TransferColumns, TransferKind } from "../../events/columns.ts";
import { homeIn } from "./hash-index.ts";
import type { IdRun } from "./id-runs.ts";
import { CHUNK_BITS, CHUNK_MASK, type Slot, type WordTable } from "./tables.ts";
import { hashId } from "./token-search.ts";
import type { TokenTable } from "./token-slots.ts";

/** A token that is not looked up yet. */
const UNKNOWN = -2;

/** Written, never read: without a use of their values the compiler would remove the reads. */
const SINK = new Int32Array(1);

/** Kinds and ids of a batch; an id takes one or two signed words. */
interface Ids {
  readonly kinds: Uint8Array;
  readonly words: number;
  readonly values: Int32Array;
}

/** The slot of each transfer's token, -1 if it has none yet. Ids must take one or two words. */
export function slotsOf({ count, kinds, ids }: TransferColumns, tokens: TokenTable, links: WordTable): Int32Array {
  const values = new Int32Array(ids.values.buffer, ids.values.byteOffset, ids.values.length);
  const batch = { kinds, words: ids.words, values };
  const slots = new Int32Array(count);
  const { last } = tokens.runs;
  if (last === undefined) slots.fill(UNKNOWN);
  const unknown = last === undefined ? count : searchRun(batch, last, slots);
  if (unknown > 0) {
    if (tokens.runs.count > 1) searchRuns(batch, tokens, slots);
    searchIndex(batch, tokens, slots);
  }
  touch(links.chunks, slots);
  return slots;
}

/** Sets the slots of the ids in a run; returns the number of ids outside it. */
function searchRun({ kinds, words, values }: Ids, run: IdRun, slots: Int32Array): number {
  const { low, high, count, kind, firstSlot } = run;
  let unknown = 0;
  for (let i = 0; i < slots.length; i++) {
    const offset = ((values[i * words] as number) - low) | 0;
    const top = words === 1 ? 0 : (values[i * words + 1] as number);
    const isHere = offset >= 0 && offset < count && top === high && kinds[i] === kind;
    slots[i] = isHere ? firstSlot + offset : UNKNOWN;
    if (!isHere) unknown++;
  }
  return unknown;
}

function searchRuns({ kinds, words, values }: Ids, { runs }: TokenTable, slots: Int32Array): void {
  for (let i = 0; i < slots.length; i++) {
    if (slots[i] !== UNKNOWN) continue;
    const top = words === 1 ? 0 : (values[i * words + 1] as number);
    const slot = runs.find(kinds[i] as number, values[i * words] as number, top);
    if (slot >= 0) slots[i] = slot;
  }
}

function searchIndex({ kinds, words, values }: Ids, tokens: TokenTable, slots: Int32Array): void {
  const { shards, mask, bits, seed } = tokens.index;
  const hashes = new Int32Array(slots.length);
  for (let i = 0; i < slots.length; i++) {
    if (slots[i] !== UNKNOWN) continue;
    const top = words === 1 ? 0 : (values[i * words + 1] as number);
    hashes[i] = hashId(seed, kinds[i] as number, values[i * words] as number, top);
  }
  let touched = 0;
  for (let i = 0; i < slots.length; i++) {
    if (slots[i] !== UNKNOWN) continue;
    const hash = hashes[i] as number;
    const places = shards[(hash >>> 24) & mask] as Int32Array;
    touched |= places[homeIn(places, hash)] as number;
  }
  SINK[0] = touched;
  const rowMask = (1 << bits) - 1;
  for (let i = 0; i < slots.length; i++) {
    if (slots[i] !== UNKNOWN) continue;
    const hash = hashes[i] as number;
    const tag = hash << bits;
    const places = shards[(hash >>> 24) & mask] as Int32Array;
    let place = homeIn(places, hash);
    let stored = places[place] as number;
    while (stored !== 0 && (stored ^ tag) >>> bits !== 0) {
      if (++place === places.length) place = 0;
      stored = places[place] as number;
    }
    // A candidate: the first row with the same stored hash bits. `verify` compares its id.
    slots[i] = stored === 0 ? -1 : ~(stored & rowMask) - 1;
  }
  verify({ kinds, words, values }, tokens, slots);
}

/** Replaces candidates, stored as -2 - row - 1, by slots. */
function verify({ kinds, words, values }: Ids, tokens: TokenTable, slots: Int32Array): void {
  const { chunks } = tokens.ids;
  for (let i = 0; i < slots.length; i++) {
    if ((slots[i] as number) >= -1) continue;
    const slot = ~((slots[i] as number) + 1) - 1;
    const chunk = chunks[slot >>> CHUNK_BITS] as Int32Array;
    const at = (slot & CHUNK_MASK) * 2;
    const low = values[i * words] as number;
    const high = words === 1 ? 0 : (values[i * words + 1] as number);
    const isRight = chunk[at] === low && chunk[at + 1] === high && tokens.mark(slot as Slot) === kinds[i];
    slots[i] = isRight ? slot : tokens.findSmall(kinds[i] as TransferKind, low, high);
  }
}

/** Prefetches the owners that the fold reads next. */
function touch(links: readonly Int32Array[], slots: Int32Array): void {
  let touched = 0;
  for (let i = 0; i < slots.length; i++) {
    const slot = slots[i] as number;
    if (slot >= 0) touched |= (links[slot >>> CHUNK_BITS] as Int32Array)[(slot & CHUNK_MASK) * 3 + 2] as number;
  }
  SINK[0] = touched;
}
