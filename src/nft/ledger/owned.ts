/**
 * The (token, owner) pairs of one owner after a block, in the order of all pairs. The lists of what the owner received tell
 * where its pairs may be, so a reading costs the length of these lists. The ids of a range are their minter's until they
 * move.
 */
import { type Entry, type EntryVisitor, HolderScan, initialScanState } from "./entries.ts";
import type { Ledger } from "./ledger.ts";
import { type PartyIndex, RECEIVER } from "./parties.ts";
import type { IdRange, Position } from "./rows.ts";
import { firstAbove } from "./tables.ts";
import { PAUSED } from "./trails.ts";

/** Members of a list that are passed over, and pairs that are looked at, per slice: about a millisecond. */
const [PASSED_PER_SLICE, PAIRS_PER_SLICE] = [16_384, 512] as const;
/** Pairs that one reading looks at. Its page then ends early, and its cursor goes on. */
const MAX_LOOKED_AT = 1_000_000;

interface OwnedOptions {
  readonly block: number;
  readonly from: Position;
  readonly limit: number;
  /** A further condition. */
  readonly matches: (entry: Entry) => boolean;
}

interface OwnedPairs {
  readonly entries: readonly Entry[];
  /** The place of each entry, then that of the next one; none at the end. */
  readonly places: readonly Position[];
}

/**
 * Reads up to `limit` pairs of an owner that match, from a place on, in slices. Fewer if they are far apart. The caller must
 * have completed the lists of receivers, but for those of small tables.
 * @param owner index of the address table
 */
export function* readOwned(
  ledger: Ledger,
  owner: number,
  { block, from, limit, matches }: OwnedOptions,
): Generator<void, OwnedPairs> {
  const entries: Entry[] = [];
  const places: Position[] = [];
  const visit: EntryVisitor = (place, read) => {
    const entry = read();
    if (!matches(entry)) return true;
    places.push(place);
    if (entries.length < limit) entries.push(entry);
    return true;
  };
  const scan = new HolderScan(ledger, block, from, visit, { seen: initialScanState(), most: PAIRS_PER_SLICE });
  let looked = 0;
  for (const { place, range } of membersOf(ledger, block, from, yield* listsOf(ledger, owner, block, from))) {
    scan.moveTo(place);
    // A step looks at one pair: all of the member, or one id of a range.
    do {
      if (looked === MAX_LOOKED_AT) return { entries, places: [...places, scan.position] };
      if (++looked % PAIRS_PER_SLICE === 0) yield;
      while (scan.step() === "paused") yield;
    } while (range !== undefined && places.length <= limit && scan.position[1] === range);
    if (places.length > limit) break;
  }
  return { entries, places };
}

/** What an owner received, each list in the order of the chain: entries, ranges and holdings. */
interface ReceivedLists {
  readonly entries: Int32Array;
  readonly ranges: readonly number[];
  readonly holdings: Int32Array;
}

function* listsOf(ledger: Ledger, owner: number, block: number, from: Position): Generator<void, ReceivedLists> {
  const { owners, balances, rows, ownerParties, balanceParties } = ledger;
  const [entry, firstRange, , holding] = from;
  const isAny = () => true;
  const entries = yield* receivedBy(ownerParties, owner, { from: entry, to: owners.countAt(block), isMember: isAny });
  // A holding has the number of the transfer that created it.
  const isHolding = (transfer: number) => balances.nextHolding(transfer) === transfer;
  const transfers = { from: holding, to: balances.countAt(block), isMember: isHolding };
  const holdings = yield* receivedBy(balanceParties, owner, transfers);
  const ranges: number[] = [];
  for (let range = firstRange; range < rows.ranges.length; range++) {
    const { to, block: at } = rows.ranges[range] as IdRange;
    if (at > block) break;
    if (to === owner) ranges.push(range);
    if (range % PASSED_PER_SLICE === PASSED_PER_SLICE - 1) yield;
  }
  return { entries, ranges, holdings };
}

interface MemberFilter {
  /** Bounds of the transfers. */
  readonly from: number;
  readonly to: number;
  isMember(transfer: number): boolean;
}

/** The transfers to an address that are wanted, in the order of the chain. */
function* receivedBy(
  index: PartyIndex,
  owner: number,
  { from, to, isMember }: MemberFilter,
): Generator<void, Int32Array> {
  if (index.isScanned) return index.scan(owner, from, to).filter(isMember);
  const received = new Int32Array(Math.min(to, index.count(RECEIVER, owner)));
  let start = received.length;
  if (start === 0) return received;
  let at = index.find(RECEIVER, owner, to);
  for (; at === PAUSED; at = index.find(RECEIVER, owner, to)) yield;
  /** Takes one slice of members. The list goes from the newest to the oldest one. */
  const take = () => {
    for (let left = PASSED_PER_SLICE; left > 0 && at >= from; left--) {
      if (isMember(at)) received[--start] = at;
      at = index.before(RECEIVER, at);
    }
  };
  for (; at >= from; yield) take();
  return received.subarray(start);
}

/** A pair, or the pairs of a range, and the place from which a scan steps to them. */
interface Member {
  readonly place: Position;
  readonly range?: number;
}

/** Merges the lists in the order of a scan of pairs. */
function* membersOf(ledger: Ledger, block: number, from: Position, received: ReceivedLists): Generator<Member> {
  const { balances, rows } = ledger;
  const { entries, ranges, holdings } = received;
  const rangesBefore = (isAfter: (range: IdRange, index: number) => boolean): number =>
    firstAbove(rows.ranges.length, (index) => isAfter(rows.ranges[index] as IdRange, index));
  /** The place of a fact of single-owner tokens: all holdings that appeared before it are passed. */
  const placeOf = (entry: number, range: number, offset: number): Position => {
    const holding = firstAbove(balances.count, (transfer) => balances.factsBefore(transfer) > entry + range);
    return [entry, range, offset, balances.nextHolding(holding)];
  };
  let [e, r, h] = [0, 0, 0];
  while (e < entries.length || r < ranges.length || h < holdings.length) {
    const entry = entries[e] ?? Number.POSITIVE_INFINITY;
    const before = rangesBefore(({ entryAt, block: at }) => entryAt > entry || at > block);
    const range = ranges[r] ?? Number.POSITIVE_INFINITY;
    const holding = holdings[h];
    // Facts of single-owner tokens before each one. A holding comes before the fact of its number.
    const entryFacts = entry + before;
    const rangeFacts = range + (rows.ranges[range]?.entryAt ?? 0);
    const facts = holding === undefined ? Number.POSITIVE_INFINITY : balances.factsBefore(holding);
    if (holding !== undefined && facts <= Math.min(entryFacts, rangeFacts)) {
      h++;
      const passed = rangesBefore(({ entryAt }, index) => entryAt + index >= facts);
      yield { place: [facts - passed, passed, 0, holding] };
    } else if (rangeFacts < entryFacts) {
      r++;
      const offset = range === from[1] ? from[2] : 0;
      yield { place: placeOf((rows.ranges[range] as IdRange).entryAt, range, offset), range };
    } else {
      e++;
      yield { place: placeOf(entry, before, 0) };
    }
  }
}
