/**
 * The history of one token, newest transfer first: sender, receiver and block. Follows the links between the entries of
 * the token, so its cost is the length of the page, and the way to its block by the marks of the trails.
 */
import { hasAmounts, type TokenRef, TransferKind } from "../../events/columns.ts";
import type { Amount } from "./amounts.ts";
import type { Entry } from "./entries.ts";
import type { Ledger } from "./ledger.ts";
import { readSlice } from "./listing.ts";
import { rangeOfCode } from "./rows.ts";
import { PAUSED } from "./trails.ts";

/** A transfer of the token. Sender and receiver are indexes of the address table; 0 is the zero address. */
export interface TokenTransfer {
  readonly block: number;
  readonly from: number;
  readonly to: number;
  readonly amount: Amount;
}

export interface TokenHistory {
  readonly transfers: TokenTransfer[];
  /** Place of the next older transfer; undefined at the end. */
  readonly next: number | undefined;
}

/** Place of the newest transfer. */
export const NEWEST = -1;

/** Returns the kinds under which the ledger has this id, in the order of the kinds' codes. */
export function kindsOf({ tokens, rows }: Ledger, id: bigint): TransferKind[] {
  return Object.values(TransferKind).filter((kind) => {
    if (kind === TransferKind.range) return false;
    return tokens.findId(kind, id) >= 0 || (kind === TransferKind.erc721 && rows.rangeOf(id) >= 0);
  });
}

/**
 * Reads up to `limit` transfers of a token at or before `block`, in slices. One token may have moved a million times.
 * @param from `NEWEST`, or `next` of the page before. The ledger must hold the same blocks up to `block`
 */
export function* readHistory(
  ledger: Ledger,
  { kind, id }: TokenRef,
  { block, from, limit }: { readonly block: number; readonly from: number; readonly limit: number },
): Generator<void, TokenHistory> {
  const slot = ledger.tokens.findId(kind, id);
  if (slot < 0) return rangeHistory(ledger, ledger.rows.rangeOf(id), block);
  const isAmount = hasAmounts(kind);
  const newest = () => {
    const tail = ledger.links.tail(slot);
    return isAmount ? ledger.balances.findTransfer(slot, tail, block) : ledger.owners.find(tail, block);
  };
  let start = from === NEWEST ? newest() : from;
  for (; start === PAUSED; start = newest()) yield;
  const transfers: TokenTransfer[] = [];
  for (const { place, transfer } of isAmount ? amounts(ledger, start) : owners(ledger, start)) {
    // The range that minted the token may be younger.
    if (transfer.block > block) continue;
    if (transfers.length === limit) return { transfers, next: place };
    transfers.push(transfer);
  }
  return { transfers, next: undefined };
}

interface TransferAtPlace {
  readonly place: number;
  readonly transfer: TokenTransfer;
}

/** Places are entries; below -1 they are codes of the id range that minted the token. */
function* owners(ledger: Ledger, from: number): Generator<TransferAtPlace> {
  const { owners: entries, rows } = ledger;
  for (let place = from; place !== -1; ) {
    if (place < -1) {
      const range = rows.ranges[rangeOfCode(place)];
      if (range !== undefined) yield { place, transfer: { block: range.block, from: 0, to: range.to, amount: 1 } };
      return;
    }
    const before = entries.prev(place);
    const transfer = { block: entries.block(place), from: ledger.ownerAt(before), to: entries.to(place), amount: 1 };
    yield { place, transfer };
    place = before;
  }
}

function* amounts({ balances }: Ledger, from: number): Generator<TransferAtPlace> {
  for (let place = from; place >= 0; place = balances.prev(place)) {
    const transfer = {
      block: balances.block(place),
      from: balances.partyOf(2 * place),
      to: balances.partyOf(2 * place + 1),
      amount: balances.amount(place),
    };
    yield { place, transfer };
  }
}

/** The history of an id that never moved after its range was minted. */
function rangeHistory({ rows }: Ledger, index: number, block: number): TokenHistory {
  const range = rows.ranges[index];
  const isMinted = range !== undefined && range.block <= block;
  return { transfers: isMinted ? [{ block: range.block, from: 0, to: range.to, amount: 1 }] : [], next: undefined };
}

/** Returns the token's entry in the listing at a block; undefined while it does not exist. */
export function entryOfToken(ledger: Ledger, { kind, id }: TokenRef, block: number): Entry | undefined {
  const { tokens, rows } = ledger;
  const slot = tokens.findId(kind, id);
  const range = rows.ranges[rows.rangeOf(id)];
  const row = slot >= 0 ? ledger.rowOf(slot) : range && range.firstRow + Number(id - range.id);
  if (row === undefined) return undefined;
  const [entry] = readSlice(ledger, { block, holders: false, from: [row, 0, 0, 0], limit: 1 }).entries;
  return entry !== undefined && entry.kind === kind && BigInt(entry.id) === id ? entry : undefined;
}
