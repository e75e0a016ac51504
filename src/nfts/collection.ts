/**
 * The projection of one collection: a pure fold over its stream. `initialState` and `evolve` are all there is to it;
 * nothing here reads a clock, a node or the log, so replay gives the same state everywhere.
 */
import { InvariantError, invariant } from "../core/errors.ts";
import { decodeTransfers } from "../events/columns.ts";
import type { BlockRef, ContractIdentified, NftEvent, TransfersCommitted } from "../events/types.ts";
import { Ledger } from "./ledger.ts";

export type CollectionStatus =
  /** Asked for, not identified or still being read. */
  | "syncing"
  /** Complete; current to the followed head. */
  | "synced"
  /** Code, but no NFT: nothing to index. */
  | "not_nft"
  /** Neither code nor an NFT log. */
  | "not_a_contract";

export interface Collection {
  version: number;
  status: CollectionStatus;
  identified: ContractIdentified | undefined;
  /** Newest block whose transfers are in; undefined before the first. */
  end: BlockRef | undefined;
  /** Version of the chain's stream that must be folded before what is held here is shown. */
  chainVersion: number;
  /**
   * Where the backfill completed, and the version that said so. A reorg below it takes it back to the ancestor, a later
   * completion replaces it.
   */
  completed: BlockRef | undefined;
  completedVersion: number;
  /** When the contract was identified, or asked to be: when to ask again is counted from here. */
  identifiedAt: number;
  /** Of the last attempt to read on, until one succeeds, and the version that said so. */
  failure: { reason: string; attempt: number; retryAt: number; version: number } | undefined;
  possibleSpam: boolean;
  verifiedCollection: boolean;
  /** The rule behind the flags, "" for none. */
  flagRule: string;
  readonly ledger: Ledger;
}

export function initialState(): Collection {
  return {
    version: 0,
    status: "syncing",
    identified: undefined,
    end: undefined,
    chainVersion: 0,
    completed: undefined,
    completedVersion: 0,
    identifiedAt: 0,
    failure: undefined,
    possibleSpam: false,
    verifiedCollection: false,
    flagRule: "",
    ledger: new Ledger(),
  };
}

/**
 * Folds one event into the state, in place: a collection of a million tokens is not copied for a transfer.
 * @param version of the event; one that was folded before is passed over, a gap is an error
 * @param time ms since the epoch when it was recorded
 * @throws InvariantError on a gap in versions or in block ranges
 */
export function evolve(state: Collection, event: NftEvent, version: number, time: number): void {
  for (const _ of evolving(state, { event, version, time }, Number.POSITIVE_INFINITY));
}

/**
 * As `evolve`, at most `most` transfers at a time. Whenever it yields, the state reads as before the event, as of any block
 * up to its end; one left half-way must not be folded on.
 */
export function* evolving(
  state: Collection,
  { event, version, time }: { event: NftEvent; version: number; time: number },
  most: number,
): Generator<void> {
  if (version <= state.version) return;
  invariant(version === state.version + 1, "an event is missing", { version, after: state.version });
  if (event.type === "TransfersCommitted") yield* addTransfers(state, event, most);
  else change(state, event, version, time);
  state.version = version;
}

function* addTransfers(state: Collection, event: TransfersCommitted, most: number): Generator<void> {
  const expected = state.end === undefined ? state.identified?.startBlock : state.end.number + 1;
  invariant(event.fromBlock === expected, "a block range does not start at the last end + 1", {
    fromBlock: event.fromBlock,
    expected,
  });
  invariant(event.toBlock >= event.fromBlock, "a block range is empty", { toBlock: event.toBlock });
  if (event.count > 0) {
    // To read a long list, to decode it and to begin with it are a slice each.
    if (event.count > most) yield;
    const columns = decodeTransfers(event.transfers);
    if (event.count > most) yield;
    yield* state.ledger.applySlices(columns, most);
  }
  state.end = { number: event.toBlock, hash: event.toHash };
  state.chainVersion = event.chainVersion ?? state.chainVersion;
  state.failure = undefined;
}

function change(state: Collection, event: Exclude<NftEvent, TransfersCommitted>, version: number, time: number): void {
  switch (event.type) {
    case "IndexingRequested":
      // One request under way is enough, however often it is asked meanwhile.
      state.identifiedAt = time;
      return;
    case "ContractIdentified":
      state.identified = event;
      state.identifiedAt = time;
      state.failure = undefined;
      state.status = event.kind === "nft" ? "syncing" : event.kind;
      return;
    case "BlocksReverted":
      state.ledger.revert(event.ancestor.number);
      state.chainVersion = event.chainVersion ?? state.chainVersion;
      if (state.end !== undefined && state.end.number > event.ancestor.number) state.end = event.ancestor;
      if (state.completed !== undefined && state.completed.number > event.ancestor.number) {
        state.completed = event.ancestor;
      }
      // Until it has joined again it is not current to the head, whatever the head is.
      if (event.rejoins === true && state.status === "synced") state.status = "syncing";
      return;
    case "IndexingCompleted":
      state.status = "synced";
      state.completed = { number: event.block, hash: event.hash };
      state.completedVersion = version;
      state.failure = undefined;
      return;
    case "IndexingFailed":
      state.failure = { reason: event.reason, attempt: event.attempt, retryAt: event.retryAt, version };
      return;
    case "IndexingStalled":
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

/** The objects that a collection is made of, some 150: measured over 20,000 empty ones, without their columns. */
const OBJECTS_BYTES = 8_192;

/** Bytes the state takes in memory, near enough to evict by. */
export const sizeOf = (state: Collection): number => OBJECTS_BYTES + state.ledger.bytes;
