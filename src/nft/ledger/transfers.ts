/**
 * The transfers of a ledger as its logs gave them, newest first: those of single-owner tokens, of amounts and of id
 * ranges, merged in the order of the chain. A filter follows the list of a token, of a sender or of a receiver, so its
 * cost is the length of that list.
 */
import { hasAmounts, TransferKind } from "../../events/columns.ts";
import type { Amount } from "./amounts.ts";
import { NO_LOG } from "./balance-entries.ts";
import { kindsOf } from "./history.ts";
import type { Ledger } from "./ledger.ts";
import { type PartyIndex, RECEIVER, type Role, SENDER } from "./parties.ts";
import type { IdRange } from "./rows.ts";
import { VALUES_PER_SLICE } from "./state-codec.ts";
import { firstAbove } from "./tables.ts";
import { PAUSED } from "./trails.ts";

/** A transfer. Sender and receiver are indexes of the address table; 0 is the zero address. */
export interface Transfer {
  readonly block: number;
  /** Index of the log in its block. The transfers of a batch share it. */
  readonly logIndex: number;
  readonly from: number;
  readonly to: number;
  readonly kind: TransferKind;
  /** The first id of a range. */
  readonly id: Amount;
  /** The number of ids of a range. */
  readonly amount: Amount;
}

/** Parties are indexes of the address table. */
interface TransferCriteria {
  readonly id?: bigint | undefined;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** How many entries, transfers of amounts and ranges are still to be read. */
export type TransferPlace = readonly [owners: number, balances: number, ranges: number];

interface TransferSlice {
  readonly transfers: readonly Transfer[];
  /** The place of the older ones; undefined at the end. */
  readonly next: TransferPlace | undefined;
}

/** Transfers that one reading looks at. Its page then ends early: two large lists may have nothing in common. */
const MAX_LOOKED_AT = 100_000;

const OWNERS = 0;
const BALANCES = 1;
const RANGES = 2;
type Table = typeof OWNERS | typeof BALANCES | typeof RANGES;

/** A list of transfers in one table, newest first. Transfers are indexes of the table. */
interface List {
  readonly table: Table;
  /** The newest transfer below a bound; below 0 for none, or `PAUSED`. */
  newest(bound: number): number;
  before(transfer: number): number;
  /** True for a list of all transfers of the table. */
  readonly isWhole?: true;
}

interface TransferReading {
  readonly block: number;
  /** `next` of the page before. The ledger must hold the same blocks up to `block`. */
  readonly from: TransferPlace | undefined;
  readonly limit: number;
  /** The lowest block. Default: the first one. */
  readonly fromBlock?: number | undefined;
  /** False for a block that the page has no room for: the page ends before its first transfer of it. */
  readonly takes?: ((block: number) => boolean) | undefined;
}

/** The place of the newest transfer at or before `block`. */
function placeAt({ owners, balances, rows }: Ledger, block: number): TransferPlace {
  const ranges = firstAbove(rows.ranges.length, (range) => (rows.ranges[range] as IdRange).block > block);
  return [owners.countAt(block), balances.countAt(block), ranges];
}

/** Reads up to `limit` transfers at or before `block`, in slices. Fewer if they are far apart. */
export function* readTransfers(
  ledger: Ledger,
  filter: TransferCriteria,
  { block, from, limit, fromBlock = 0, takes = () => true }: TransferReading,
): Generator<void, TransferSlice> {
  const place = from ?? placeAt(ledger, block);
  const lists = yield* listsOf(ledger, filter);
  const heads: Head[] = [];
  for (const list of lists) {
    const bound = place[list.table];
    let at = bound === 0 ? -1 : list.newest(bound);
    for (; at === PAUSED; at = list.newest(bound)) yield;
    if (at >= 0) heads.push({ list, at, order: 0 });
  }
  const transfers: Transfer[] = [];
  for (let looked = 0; heads.length > 0; looked++) {
    if (transfers.length === limit || looked === MAX_LOOKED_AT) return { transfers, next: placeOf(heads) };
    if (looked % VALUES_PER_SLICE === VALUES_PER_SLICE - 1) yield;
    const head = newestOf(ledger, heads);
    const transfer = transferAt(ledger, head, filter.id);
    if (transfer !== undefined && transfer.block < fromBlock) break;
    if (transfer !== undefined && isMatch(transfer, filter)) {
      if (!takes(transfer.block)) return { transfers, next: placeOf(heads) };
      transfers.push(transfer);
    }
    head.at = head.list.before(head.at);
    if (head.at < 0) heads.splice(heads.indexOf(head), 1);
  }
  return { transfers, next: undefined };
}

/** A list of transfers from the oldest one on. */
interface RisingList {
  readonly table: Table;
  /** The first transfer from `from` on; `end` for none. */
  at(from: number): number;
  readonly end: number;
}

/**
 * Reads up to `limit` transfers at or before `block`, the oldest first, in slices. The lists lead from newer transfers to
 * older ones, so the rest of a token's or a party's list is gone through for each page.
 * @param from how many transfers of each table are passed
 */
export function* readTransfersUp(
  ledger: Ledger,
  filter: TransferCriteria,
  { block, from: place, limit, fromBlock = 0, takes = () => true }: TransferReading,
): Generator<void, TransferSlice> {
  const most = placeAt(ledger, block);
  const from = place ?? (fromBlock === 0 ? ([0, 0, 0] as const) : placeAt(ledger, Math.min(fromBlock - 1, block)));
  const heads: RisingHead[] = [];
  for (const list of yield* listsOf(ledger, filter)) {
    const rising = yield* risingOf(list, from[list.table], most[list.table]);
    const at = rising.at(from[list.table]);
    if (at < rising.end) heads.push({ list: rising, at, order: 0 });
  }
  const transfers: Transfer[] = [];
  /** How many transfers of each table are passed: of those without a list here, none is asked for. */
  const passed: [number, number, number] = [...from];
  for (let looked = 0; heads.length > 0; looked++) {
    if (transfers.length === limit || looked === MAX_LOOKED_AT) return { transfers, next: passed };
    if (looked % VALUES_PER_SLICE === VALUES_PER_SLICE - 1) yield;
    const head = oldestOf(ledger, heads);
    const transfer = transferAt(ledger, head, filter.id);
    if (transfer !== undefined && isMatch(transfer, filter)) {
      if (!takes(transfer.block)) return { transfers, next: passed };
      transfers.push(transfer);
    }
    passed[head.list.table] = head.at + 1;
    head.at = head.list.at(head.at + 1);
    if (head.at >= head.list.end) heads.splice(heads.indexOf(head), 1);
  }
  return { transfers, next: undefined };
}

/** @param end bound of the transfers of the table */
function* risingOf(list: List, from: number, end: number): Generator<void, RisingList> {
  const { table } = list;
  if (list.isWhole === true) return { table, at: (transfer) => Math.min(transfer, end), end };
  const members: number[] = [];
  let at = end === 0 ? -1 : list.newest(end);
  for (; at === PAUSED; at = list.newest(end)) yield;
  for (; at >= from; at = list.before(at)) {
    members.push(at);
    if (members.length % VALUES_PER_SLICE === 0) yield;
  }
  members.reverse();
  return { table, at: (transfer) => members[firstAbove(members.length, (i) => members[i]! >= transfer)] ?? end, end };
}

interface RisingHead {
  readonly list: RisingList;
  at: number;
  order: number;
}

/** The head that is first in the order of the chain. */
function oldestOf(ledger: Ledger, heads: RisingHead[]): RisingHead {
  if (heads.length === 1) return heads[0] as RisingHead;
  for (const head of heads) head.order = orderOf(ledger, head);
  return heads.reduce((a, b) => (b.order < a.order || (b.order === a.order && b.at < a.at) ? b : a));
}

/** A transfer by its table and its index there. */
interface PlacedTransfer {
  readonly list: { readonly table: Table };
  readonly at: number;
}

/** The next transfer of a list. */
interface Head {
  readonly list: List;
  at: number;
  order: number;
}

/** The head that is last in the order of the chain. */
function newestOf(ledger: Ledger, heads: Head[]): Head {
  if (heads.length === 1) return heads[0] as Head;
  for (const head of heads) head.order = orderOf(ledger, head);
  return heads.reduce((a, b) => (b.order > a.order || (b.order === a.order && b.at > a.at) ? b : a));
}

/** The number of single-owner entries and ranges before a transfer. One of amounts comes before the next such fact. */
function orderOf({ balances, rows: { ranges } }: Ledger, { list, at }: PlacedTransfer): number {
  if (list.table === BALANCES) return balances.factsBefore(at) - 0.5;
  if (list.table === RANGES) return at + (ranges[at] as IdRange).entryAt;
  return at + firstAbove(ranges.length, (range) => (ranges[range] as IdRange).entryAt > at);
}

function placeOf(heads: readonly Head[]): TransferPlace {
  const place: [number, number, number] = [0, 0, 0];
  for (const { list, at } of heads) place[list.table] = Math.max(place[list.table], at + 1);
  return place;
}

const isMatch = ({ from, to }: Transfer, filter: TransferCriteria): boolean =>
  (filter.from === undefined || filter.from === from) && (filter.to === undefined || filter.to === to);

/** @param id narrows a range to this id */
function transferAt(
  ledger: Ledger,
  { list: { table }, at }: PlacedTransfer,
  id: bigint | undefined,
): Transfer | undefined {
  const { owners, balances, rows, tokens } = ledger;
  if (table === OWNERS) {
    const [block, logIndex, slot] = [owners.block(at), owners.logIndex(at), owners.slot(at)];
    const [kind, tokenId] = [tokens.kind(slot), tokens.idAmount(slot)];
    return { block, logIndex, from: ledger.senderOf(at), to: owners.to(at), kind, id: tokenId, amount: 1 };
  }
  if (table === RANGES) {
    const range = rows.ranges[at] as IdRange;
    const { block, logIndex, to } = range;
    const ids = { kind: TransferKind.erc721, id: id ?? range.id, amount: id === undefined ? range.count : 1 };
    return { block, logIndex, from: 0, to, ...ids };
  }
  const logIndex = balances.logIndex(at);
  if (logIndex === NO_LOG) return undefined;
  const [from, to] = [balances.partyOf(2 * at), balances.partyOf(2 * at + 1)];
  const slot = balances.slotOf(at);
  const token = { kind: tokens.kind(slot), id: tokens.idAmount(slot) };
  return { block: balances.block(at), logIndex, from, to, ...token, amount: balances.amount(at) };
}

/** The shortest lists that have all transfers of the filter. */
function* listsOf(ledger: Ledger, filter: TransferCriteria): Generator<void, List[]> {
  if (filter.id !== undefined) return listsOfToken(ledger, filter.id);
  const every = (table: Table): List => ({
    table,
    newest: (bound) => bound - 1,
    before: (transfer) => transfer - 1,
    isWhole: true,
  });
  const { from, to } = filter;
  if (from === undefined && to === undefined) return [OWNERS, BALANCES, RANGES].map((table) => every(table as Table));
  // A range is one row however many ids it has, so there are few.
  const lists = [every(RANGES)];
  const { ownerParties, balanceParties } = ledger;
  for (const [table, parties] of [
    [OWNERS, ownerParties],
    [BALANCES, balanceParties],
  ] as const) {
    yield* parties.complete();
    lists.push(listOfParty(table, parties, filter));
  }
  return lists;
}

function listOfParty(table: Table, parties: PartyIndex, { from, to }: TransferCriteria): List {
  const isFromShorter =
    from !== undefined && (to === undefined || parties.count(SENDER, from) <= parties.count(RECEIVER, to));
  const role: Role = isFromShorter ? SENDER : RECEIVER;
  const address = (isFromShorter ? from : to) as number;
  return {
    table,
    newest: (bound) => parties.find(role, address, bound),
    before: (transfer) => parties.before(role, transfer),
  };
}

/** A contract may have tokens of several kinds with the same id. */
function listsOfToken(ledger: Ledger, id: bigint): List[] {
  const { tokens, links, owners, balances, rows } = ledger;
  const range = rows.rangeOf(id);
  const lists: List[] =
    range < 0 ? [] : [{ table: RANGES, newest: (bound) => (range < bound ? range : -1), before: () => -1 }];
  for (const kind of kindsOf(ledger, id)) {
    const slot = tokens.findId(kind, id);
    if (slot < 0) continue;
    const isAmount = hasAmounts(kind);
    const before = (transfer: number) => (isAmount ? balances : owners).prev(transfer);
    const newest = (bound: number) => {
      const tail = links.tail(slot);
      const block = (isAmount ? balances : owners).block(bound - 1);
      let at = isAmount ? balances.findTransfer(slot, tail, block) : owners.find(tail, block);
      while (at >= bound) at = before(at);
      return at;
    };
    lists.push({ table: isAmount ? BALANCES : OWNERS, newest, before });
  }
  return lists;
}
