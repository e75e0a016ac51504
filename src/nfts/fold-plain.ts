/**
 * The fold of what nearly all transfers of single-owner tokens are: a mint of an id nobody had, or a transfer by the
 * owner to somebody else. A file of its own since a replay of millions is this loop: numbers and typed arrays only, no
 * call for a token whose id came in order. Burns, what should not be possible and all else is left to the ledger.
 */
import { type TransferColumns, TransferKind } from "../events/columns.ts";
import type { TokenLinks } from "./links.ts";
import type { OwnerHistory } from "./owners.ts";
import type { TokenTable } from "./tokens.ts";
import { CHUNK_BITS, CHUNK_MASK } from "./word-table.ts";

export interface PlainParts {
  readonly tokens: TokenTable;
  readonly links: TokenLinks;
  readonly owners: OwnerHistory;
}

/** A batch, and what was found out about it ahead of the fold. */
export interface Batch {
  readonly columns: TransferColumns;
  /** Index of each address of the dictionary. */
  readonly addresses: Int32Array;
  /** Slot of each transfer's token, -1 where there was none. */
  readonly slots: Int32Array;
}

/**
 * Folds transfers from `start` on, whose ids take one or two words, while they are plain; returns the first that is not.
 * The collection must have no id ranges. New tokens still have to be given their rows.
 */
export function foldPlain({ columns, addresses, slots }: Batch, start: number, parts: PlainParts): number {
  const { count, kinds, blocks, from, to } = columns;
  const linkChunks = parts.links.table.chunks;
  const { table } = parts.owners;
  let entry = table.count;
  let chunk = table.room(entry);
  let at = (entry & CHUNK_MASK) * 4;
  let i = start;
  for (; i < count; i++) {
    const kind = kinds[i] as TransferKind;
    const receiver = addresses[to[i] as number] as number;
    if (receiver === 0 || kind === TransferKind.erc1155 || kind === TransferKind.range) break;
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
      // Somebody mints what this batch has minted before.
      if (slot < 0) break;
    }
    if (at >= chunk.length) {
      chunk = table.room(entry);
      at = (entry & CHUNK_MASK) * 4;
    }
    chunk[at] = blocks[i] as number;
    chunk[at + 1] = slot;
    chunk[at + 2] = receiver;
    chunk[at + 3] = tail;
    at += 4;
    entry++;
  }
  table.count = entry;
  return i;
}

/** The slot of a new token, or -1 when it is not new. */
function addToken({ kinds, ids }: TransferColumns, i: number, entry: number, owner: number, parts: PlainParts): number {
  const { words, values } = ids;
  const low = (values[i * words] as number) | 0;
  const high = words === 1 ? 0 : (values[i * words + 1] as number) | 0;
  const kind = kinds[i] as TransferKind;
  if (parts.tokens.findSmall(kind, low, high) >= 0) return -1;
  parts.links.add(entry, owner);
  return parts.tokens.addSmall(kind, low, high);
}
