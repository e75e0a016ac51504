/** Random holdings of a collection as of a block: what the self-audit asks the chain about. */
import type { Address } from "../core/hex.ts";
import type { TransferKind } from "../events/columns.ts";
import type { Collection } from "./collection.ts";
import { readSlice } from "./listing.ts";
import { countEntries, positionAfter } from "./places.ts";

export interface Holding {
  readonly kind: TransferKind;
  readonly id: bigint;
  readonly owner: Address;
  readonly amount: bigint;
}

/**
 * At most `count` holdings after `block`, each drawn by itself.
 * @param random a number in [0, 1)
 */
export function sampleHoldings(
  { ledger }: Collection,
  block: number,
  { count, random }: { count: number; random: () => number },
): Holding[] {
  const total = countEntries(ledger, block, true);
  const holdings: Holding[] = [];
  for (let left = Math.min(count, total); left > 0; left--) {
    const from = positionAfter(ledger, block, true, Math.floor(random() * total));
    if (from === undefined) continue;
    const [entry] = readSlice(ledger, { block, holders: true, from, limit: 1 }).entries;
    if (entry === undefined || entry.owner < 0) continue;
    const owner = ledger.addresses.hex(entry.owner) as Address;
    holdings.push({ kind: entry.kind, id: BigInt(entry.id), owner, amount: BigInt(entry.amount) });
  }
  return holdings;
}
