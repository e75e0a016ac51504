/**
 * The projection of one collection: a pure fold over its stream. `initialState` and `evolve` are its whole interface.
 * It reads no clock, node or log, so a replay gives the same state everywhere.
 */
import { InvariantError, invariant } from "../../core/errors.ts";
import { decodeTransfers, sliceColumns, type TransferColumns } from "../../events/columns.ts";
import type {
  BlockRef,
  BlocksReverted,
  ContractDestroyed,
  ContractIdentified,
  ContractRenamed,
  NftEvent,
  Recorded,
  TransfersCommitted,
} from "../../events/types.ts";
import { Ledger } from "../ledger/ledger.ts";

type IndexStatus =
  /** Requested; not identified yet, or its backfill is running. */
  | "syncing"
  /** Complete and current to the followed head. */
  | "synced"
  /** Has code but is not an NFT contract: nothing to index. */
  | "not_nft"
  /** Has neither code nor NFT logs. */
  | "not_a_contract";

/** A contract that was destroyed before the present one came to its address. */
export interface EarlierLife {
  /** Block at whose end the code was gone. */
  readonly until: number;
  /** Version of the chain's stream when that was recorded; 0 if no page was served before. */
  readonly chainVersion: number;
  /** Its tokens up to that block. */
  readonly ledger: Ledger;
}

export interface Collection {
  version: number;
  /** Version of the event since which the collection is indexed anew; 0 if it never was. Earlier events don't count. */
  base: number;
  /** Version of the newest event that took blocks back. Since then older blocks may list other tokens than before. */
  rewrittenAt: number;
  /** True if it is not indexed any more, until a client requests it again. */
  isRemoved: boolean;
  /** Checksum of the event of that version; 0 before the first. */
  checksum: number;
  status: IndexStatus;
  identified: ContractIdentified | undefined;
  /** Newest folded block; undefined before the first. */
  end: BlockRef | undefined;
  /** Version of the chain's stream at which its end was recorded; 0 if a backfill read it, which reads final blocks. */
  chainVersion: number;
  /**
   * Block at which the backfill completed. A reorg below it moves it back to the common ancestor, and a later
   * completion replaces it.
   */
  completed: BlockRef | undefined;
  /** True until the history that an archive told is compared with the contract: pages say that it is being indexed. */
  isUnproven: boolean;
  /** Version and checksum of the event by which it was complete: `IndexingCompleted`, or the proof of an archive's history. */
  completedVersion: number;
  completedChecksum: number;
  /**
   * Time when the contract was identified or requested, in ms since the epoch: the next identification waits from it.
   */
  identifiedAt: number;
  /** The last failed attempt to index, until one succeeds, with version and checksum of its event. */
  failure: { reason: string; attempt: number; retryAt: number; version: number; checksum: number } | undefined;
  /** The block whose logs the nodes contradict themselves about, and how. Until then the collection is not synced. */
  inDoubt: { block: number; reason: string } | undefined;
  /** The block at which the contract names other owners than its logs, until its blocks are read again, and which. */
  ownersInDoubt: { block: number; reason: string } | undefined;
  possibleSpam: boolean;
  verifiedCollection: boolean;
  /** Ids of the rules behind the flags, "" for none. */
  flagRule: string;
  /** `ledger` holds the transfers after the last of them. `until` rises. */
  readonly earlier: EarlierLife[];
  ledger: Ledger;
}

/** Returns the life that ended last at or before a block; undefined if none had ended. */
export const endedLife = ({ earlier }: Collection, block: number): EarlierLife | undefined =>
  earlier.findLast(({ until }) => until <= block);

/** Returns the collection with the ledger of the contract that was at the address after a block. */
export function collectionAt(collection: Collection, block: number | undefined): Collection {
  const life = block === undefined ? undefined : collection.earlier.find(({ until }) => block < until);
  // The other fields stay those of the collection, whatever is folded meanwhile.
  return life === undefined ? collection : Object.create(collection, { ledger: { value: life.ledger } });
}

/** @param base version of the event since which the collection is indexed anew. The fold starts there */
export function initialState(base = 0): Collection {
  return {
    version: Math.max(0, base - 1),
    base,
    rewrittenAt: 0,
    isRemoved: false,
    checksum: 0,
    status: "syncing",
    identified: undefined,
    end: undefined,
    chainVersion: 0,
    completed: undefined,
    isUnproven: false,
    completedVersion: 0,
    completedChecksum: 0,
    identifiedAt: 0,
    failure: undefined,
    inDoubt: undefined,
    ownersInDoubt: undefined,
    possibleSpam: false,
    verifiedCollection: false,
    flagRule: "",
    earlier: [],
    ledger: new Ledger(),
  };
}

/**
 * Folds one event into the state, in place: copying a collection of a million tokens for each transfer is too slow.
 * @param version of the event; a version folded before is skipped
 * @param time when the event was recorded, in ms since the epoch
 * @param checksum of the record; 0 for an event that is in no log
 * @throws InvariantError on a gap in versions or in block ranges
 */
export function evolve(state: Collection, event: NftEvent, version: number, time: number, checksum = 0): void {
  for (const _ of evolveInSlices(state, { event, version, time, checksum }, Number.POSITIVE_INFINITY));
}

type FoldedRecord = Pick<Recorded<NftEvent>, "event" | "version" | "time" | "checksum">;

/**
 * Like `evolve`, at most `most` transfers per slice. At each yield the state reads as before the event, at any block up
 * to its end. If the caller abandons the fold, it must not fold further events into this state.
 */
export function* evolveInSlices(state: Collection, recorded: FoldedRecord, most: number): Generator<void> {
  const { event, version, checksum } = recorded;
  if (version <= state.version) return;
  invariant(version === state.version + 1, "an event is missing", { version, after: state.version });
  if (event.type === "TransfersCommitted") yield* addTransfers(state, event, most);
  else change(state, event, recorded);
  state.version = version;
  state.checksum = checksum;
}

function* addTransfers(state: Collection, event: TransfersCommitted, most: number): Generator<void> {
  const expected = state.end === undefined ? state.identified?.startBlock : state.end.number + 1;
  invariant(event.fromBlock === expected, "a block range does not start at the last end + 1", {
    fromBlock: event.fromBlock,
    expected,
  });
  invariant(event.toBlock >= event.fromBlock, "a block range is empty", { toBlock: event.toBlock });
  if (event.count > 0) {
    // Reading a long list, decoding it and starting its fold take a slice each.
    if (event.count > most) yield;
    const columns = decodeTransfers(event.transfers);
    if (event.count > most) yield;
    yield* applyToLives(state, columns, most);
  }
  state.end = { number: event.toBlock, hash: event.toHash };
  state.chainVersion = event.chainVersion ?? 0;
  state.failure = undefined;
  if (state.inDoubt !== undefined && event.toBlock >= state.inDoubt.block) state.inDoubt = undefined;
}

/** Transfers in the block of a contract's end are its own. */
function* applyToLives(state: Collection, columns: TransferColumns, most: number): Generator<void> {
  const { count, blocks } = columns;
  let from = 0;
  for (const { until, ledger } of state.earlier) {
    let to = from;
    while (to < count && (blocks[to] as number) <= until) to++;
    if (to > from) yield* ledger.applySlices(sliceColumns(columns, from, to), most);
    from = to;
  }
  if (from < count) yield* state.ledger.applySlices(from === 0 ? columns : sliceColumns(columns, from, count), most);
}

function rename(state: Collection, { name, symbol }: ContractRenamed): void {
  if (state.identified !== undefined) state.identified = { ...state.identified, name, symbol };
}

function destroy(state: Collection, { block, chainVersion }: ContractDestroyed, version: number): void {
  invariant((state.end?.number ?? -1) <= block, "the history does not end at the contract's end", { block });
  state.earlier.push({ until: block, chainVersion: chainVersion ?? 0, ledger: state.ledger });
  state.ledger = new Ledger();
  state.rewrittenAt = version;
  state.chainVersion = chainVersion ?? state.chainVersion;
}

function revert(state: Collection, { ancestor, chainVersion, rejoins }: BlocksReverted, version: number): void {
  state.rewrittenAt = version;
  // A contract's end is final, so it stays.
  for (const { ledger } of state.earlier) ledger.revert(ancestor.number);
  state.ledger.revert(ancestor.number);
  state.chainVersion = chainVersion ?? state.chainVersion;
  if (state.end !== undefined && state.end.number > ancestor.number) state.end = ancestor;
  if (state.completed !== undefined && state.completed.number > ancestor.number) state.completed = ancestor;
  // It is not current to the head again until it has rejoined.
  if (rejoins === true && state.status === "synced") state.status = "syncing";
}

function beginAnew(
  state: Collection,
  isRemoved: boolean,
  { version, time }: Pick<FoldedRecord, "version" | "time">,
): void {
  Object.assign(state, initialState(version), { isRemoved, identifiedAt: time });
}

function fail(
  state: Collection,
  event: Extract<NftEvent, { readonly type: "IndexingFailed" | "LogsDoubted" }>,
  at: Pick<FoldedRecord, "version" | "checksum">,
): void {
  state.failure = { reason: event.reason, attempt: event.attempt, retryAt: event.retryAt, ...at };
  if (event.type === "IndexingFailed") return;
  state.inDoubt = { block: event.block, reason: event.reason };
  if (state.status === "synced") state.status = "syncing";
}

/** The history of an archive is compared with the contract, and the collection is complete by this event. */
function endProof(state: Collection, { version, checksum }: Pick<FoldedRecord, "version" | "checksum">): void {
  if (state.isUnproven) [state.completedVersion, state.completedChecksum] = [version, checksum];
  state.isUnproven = false;
}

function change(
  state: Collection,
  event: Exclude<NftEvent, TransfersCommitted>,
  { version, time, checksum }: FoldedRecord,
): void {
  switch (event.type) {
    case "IndexingRequested":
      // A repeated request must not start a second identification while one is running.
      state.identifiedAt = time;
      return;
    case "ContractIdentified":
      state.identified = event;
      state.identifiedAt = time;
      state.failure = undefined;
      state.status = event.kind === "nft" ? "syncing" : event.kind;
      return;
    case "ContractRenamed":
      rename(state, event);
      return;
    case "BlocksReverted":
      revert(state, event, version);
      return;
    case "ContractDestroyed":
      destroy(state, event, version);
      return;
    case "IndexingCompleted":
      state.status = "synced";
      state.completed = { number: event.block, hash: event.hash };
      state.isUnproven = event.isUnproven === true;
      [state.completedVersion, state.completedChecksum] = [version, checksum];
      state.failure = undefined;
      return;
    case "IndexingFailed":
    case "LogsDoubted":
      fail(state, event, { version, checksum });
      return;
    case "OwnersDoubted":
      state.ownersInDoubt = { block: event.block, reason: event.reason };
      return;
    case "OwnersSettled":
      state.ownersInDoubt = undefined;
      return;
    case "HistoryProven":
      endProof(state, { version, checksum });
      return;
    case "IndexingStalled":
      return;
    case "ReindexRequested":
    case "CollectionRemoved":
      beginAnew(state, event.type === "CollectionRemoved", { version, time });
      return;
    case "FlagsChanged":
      state.possibleSpam = event.possibleSpam;
      state.verifiedCollection = event.verifiedCollection;
      state.flagRule = event.rule;
      return;
    default:
      throw new InvariantError(`not an event of an NFT stream: ${(event as { type: string }).type}`);
  }
}

/** True if all transfers are read, and those that an archive told were compared with the contract: `SYNCED` on pages. */
export const isComplete = ({ status, isUnproven }: Pick<Collection, "status" | "isUnproven">): boolean =>
  status === "synced" && !isUnproven;

/** The ledgers of all lives, the present one last. */
export const ledgersOf = ({ earlier, ledger }: Collection): Ledger[] => [...earlier.map((life) => life.ledger), ledger];

/** The number of transfers of all lives. */
export const transfersOf = (collection: Collection): number =>
  ledgersOf(collection).reduce((sum, { owners, balances }) => sum + owners.count + balances.count, 0);

/** Memory of the about 150 objects of a collection, without columns: measured over 20,000 empty ones. */
const OBJECTS_BYTES = 8_192;

/** Approximate memory of the state in bytes, for eviction. */
export const sizeOf = ({ earlier, ledger }: Collection): number =>
  earlier.reduce((bytes, life) => bytes + OBJECTS_BYTES + life.ledger.bytes, OBJECTS_BYTES + ledger.bytes);
