/**
 * Random holdings of a collection as of a block: what the self-audit asks the chain about. Drawn by what can be found by
 * number, rows and transfers, so that no listing of holders is walked for it.
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

/** Transfers looked at for one whose receiver still holds something. */
const MAX_TRIES = 8;

/**
 * At most `count` holdings after `block`, each drawn by itself.
 * @param random a number in [0, 1)
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

/** The log's account of a collection's tokens: the self-audit looks for tokens that are missing in it. */
export interface ToldTokens {
  /** Tokens in the listing, and tokens the log ever told of. */
  readonly listed: number;
  readonly told: number;
  readonly tells: (id: bigint) => boolean;
}

/** The tokens the log tells of, up to and after `block`; undefined where all it has are of ERC-1155. */
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

/** Some holding of an ERC-1155 token: a token with many holders has them in no order that could be drawn from. */
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
