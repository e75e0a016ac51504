/**
 * Draws random holdings of a collection as of a block, which the self-audit compares with the chain. It draws rows and
 * transfers by number, so it never walks a listing of holders.
 */
import type { Address } from "../core/hex.ts";
import { TransferKind } from "../events/columns.ts";
import type { Amount } from "./amount.ts";
import type { Collection } from "./collection.ts";
import type { Ledger } from "./ledger.ts";
import { readSlice } from "./listing.ts";
import { countEntries, positionAfter } from "./places.ts";

export interface Holding {
  readonly kind: TransferKind;
  readonly id: bigint;
  readonly owner: Address;
  readonly amount: bigint;
}

interface Drawn {
  readonly kind: TransferKind;
  readonly id: Amount;
  readonly owner: number;
  readonly amount: Amount;
}

/** Transfers tried per draw, to find a receiver that still holds something. */
const MAX_TRIES = 8;

/**
 * At most `count` holdings after `block`, drawn independently.
 * @param random returns a number in [0, 1)
 */
export function sampleHoldings(
  { ledger }: Collection,
  block: number,
  { count, random }: { count: number; random: () => number },
): Holding[] {
  const tokens = countEntries(ledger, block, false);
  const holdings: Holding[] = [];
  for (let left = Math.min(count, tokens + ledger.balances.countAt(block)); left > 0; left--) {
    const from = positionAfter(ledger, block, false, Math.floor(random() * tokens));
    if (from === undefined) continue;
    const [entry] = readSlice(ledger, { block, holders: false, from, limit: 1 }).entries;
    const drawn = entry === undefined || entry.owner >= 0 ? entry : drawAmount(ledger, block, random);
    if (drawn === undefined) continue;
    const { kind, id, owner, amount } = drawn;
    holdings.push({ kind, id: BigInt(id), owner: ledger.addresses.hex(owner) as Address, amount: BigInt(amount) });
  }
  return holdings;
}

/** The tokens that the log has of a collection. The self-audit searches for tokens that it misses. */
export interface ToldTokens {
  /** Number of tokens in the listing. */
  readonly listed: number;
  /** Number of tokens that the log ever had, burned ones included. */
  readonly told: number;
  /** True if the log ever had the token. */
  readonly tells: (id: bigint) => boolean;
}

/** The tokens that the log has, with the listing as of `block`. Undefined if all of them are ERC-1155 tokens. */
export function toldTokens({ ledger }: Collection, block: number): ToldTokens | undefined {
  const { tokens, rows, owners } = ledger;
  if (rows.count > 0 && owners.count === 0 && rows.ranges.length === 0) return undefined;
  const kinds = Object.values(TransferKind);
  return {
    listed: countEntries(ledger, block, false),
    told: rows.count,
    tells: (id) => rows.rangeOf(id) >= 0 || kinds.some((kind) => tokens.findId(kind, id) >= 0),
  };
}

/** A random holding of any ERC-1155 token. Holders of one token have no numbers, so draw a transfer instead. */
function drawAmount({ tokens, balances }: Ledger, block: number, random: () => number): Drawn | undefined {
  const transfers = balances.countAt(block);
  for (let left = MAX_TRIES; left > 0; left--) {
    const holding = balances.receiverOf(Math.floor(random() * transfers));
    if (holding < 0) continue;
    const amount = balances.heldAfter(balances.entryAt(holding, block));
    if (amount === 0) continue;
    const id = tokens.idAmount(balances.holdingSlot(holding));
    return { kind: TransferKind.erc1155, id, owner: balances.holdingOwner(holding), amount };
  }
  return undefined;
}
