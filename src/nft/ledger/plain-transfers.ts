/**
 * The fast path of the fold: a mint of a new id, or a transfer of a single-owner token by its owner. Nearly all
 * transfers are plain, and a replay of millions of transfers is this loop: it uses numbers and typed arrays only, and
 * no call for a token whose id came in order. The ledger folds burns, anomalies and everything else.
 */
import { hasAmounts, type TransferColumns, TransferKind } from "../../events/columns.ts";
import { OWNER_ENTRY_WORDS, type OwnerHistory } from "./owners.ts";
import { CHUNK_BITS, CHUNK_MASK } from "./tables.ts";
import type { TokenLinks } from "./token-links.ts";
import type { TokenTable } from "./token-slots.ts";

interface PlainParts {
  readonly tokens: TokenTable;
  readonly links: TokenLinks;
  readonly owners: OwnerHistory;
}

/** A batch with the look-ups that were made before its fold. */
export interface Batch {
  readonly columns: TransferColumns;
  /** Index in the address table, by dictionary index. */
  readonly addresses: Int32Array;
  /** Slot of each transfer's token, -1 if it had none before the batch. */
  readonly slots: Int32Array;
}

/**
 * Folds plain transfers from `start` on; returns the index of the first one that is not plain. Ids must take one or two
 * words, and the collection must have no id ranges. The caller must still add rows for the new tokens.
 */
export function foldPlain({ columns, addresses, slots }: Batch, start: number, parts: PlainParts): number {
  const { count, kinds, blocks, logIndexes, from, to } = columns;
  const linkChunks = parts.links.chunks;
  const { owners } = parts;
  let entry = owners.count;
  let chunk = owners.room(entry);
  let at = (entry & CHUNK_MASK) * OWNER_ENTRY_WORDS;
  let i = start;
  for (; i < count; i++) {
    const kind = kinds[i] as TransferKind;
    const receiver = addresses[to[i] as number] as number;
    if (receiver === 0 || hasAmounts(kind) || kind === TransferKind.range) break;
    const sender = addresses[from[i] as number] as number;
    let slot = slots[i] as number;
    let tail = -1;
    if (slot >= 0) {
      const link = linkChunks[slot >>> CHUNK_BITS] as Int32Array;
      const here = (slot & CHUNK_MASK) * 3;
      if (link[here + 2] !== sender || sender === 0) break;
      tail = link[here + 1] as number;
      link[here + 1] = entry;
      link[here + 2] = receiver;
    } else {
      if (sender !== 0) break;
      slot = addToken(columns, i, entry, receiver, parts);
      // An earlier transfer of this batch minted the token already.
      if (slot < 0) break;
    }
    if (at >= chunk.length) {
      chunk = owners.room(entry);
      at = (entry & CHUNK_MASK) * OWNER_ENTRY_WORDS;
    }
    chunk[at] = blocks[i] as number;
    chunk[at + 1] = slot;
    chunk[at + 2] = receiver;
    chunk[at + 3] = tail;
    chunk[at + 4] = logIndexes[i] as number;
    at += OWNER_ENTRY_WORDS;
    entry++;
  }
  owners.count = entry;
  return i;
}

/** Adds a token and returns its slot, or -1 if the token exists. */
function addToken({ kinds, ids }: TransferColumns, i: number, entry: number, owner: number, parts: PlainParts): number {
  const { words, values } = ids;
  const low = (values[i * words] as number) | 0;
  const high = words === 1 ? 0 : (values[i * words + 1] as number) | 0;
  const kind = kinds[i] as TransferKind;
  if (parts.tokens.findSmall(kind, low, high) >= 0) return -1;
  parts.links.addSlot(entry, owner);
  return parts.tokens.addSmall(kind, low, high);
}
