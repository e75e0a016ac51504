/**
 * The headline of an NFT stream: the facts that a worker needs to go on, folded from the stream's events and stored on its
 * row.
 */
import type { Chain } from "../../chains/chains.ts";
import type { Address, Hash } from "../../core/hex.ts";
import type {
  ContractIdentified,
  HistoryProven,
  NftEvent,
  TransferForm,
  TransfersCommitted,
} from "../../events/types.ts";
import type { Headline } from "../../log/event-log.ts";

export type IndexingStage =
  /** Requested, not identified yet. */
  | "requested"
  /** Identified; the history is being read. */
  | "backfilling"
  /** The history is read up to a final block, and the chain's follower is due to take over. */
  | "joining"
  | "following"
  | "not_nft"
  | "not_a_contract"
  /** Not indexed any more, until a client requests it again. */
  | "removed";

/**
 * The facts of a collection that operators see. Times are in ms since the epoch. A fact is null as long as it is not
 * known: headlines of older releases lack them, and the follower counts such collections in the background.
 */
interface Summary {
  readonly name: string | null;
  readonly symbol: string | null;
  /** `ERC721`, `ERC1155` or `ERC6909`, whichever the transfers are of. */
  readonly standard: string | null;
  /** Head at the identification. Progress is measured up to it. */
  readonly target: number | null;
  /** Transfers in the stream. After a reorg, the follower counts them again. */
  readonly transfers: number | null;
  /** Tokens that existed when the collection was last counted: after the backfill, and after a tenth more transfers. */
  readonly nfts: number | null;
  /** Bytes of the stream's events, without indexes. */
  readonly bytes: number | null;
  /** Calls to endpoints for identification, backfill and join, over all attempts. */
  readonly calls: number | null;
  readonly requestedAt: number | null;
  /** Time of the last completion. */
  readonly finishedAt: number | null;
  /** Message of the last failure, or the step that makes no progress; null after a success. */
  readonly lastError: string | null;
  /** Time, first block and transfers at the start of the current attempt's backfill, and time of its last progress. */
  readonly runAt: number | null;
  readonly runBlock: number | null;
  readonly runTransfers: number | null;
  readonly movedAt: number | null;
}

/** `archives` is "" if the node told all of the history. The counts of the proof are as in `HistoryProven`. */
export interface IndexState extends Summary, Omit<HistoryProven, "type" | "block"> {
  readonly status: IndexingStage;
  /** The last block that an archive told; null if none did, or an older release indexed it. */
  readonly archivedTo: number | null;
  /**
   * Newest final block up to which the contract was searched for NFT logs. Null if it was not, or by a release that ended
   * the search of an ERC-20 early.
   */
  readonly searched: number | null;
  /** Version of the event since which the collection is indexed anew; 0 if it never was. */
  readonly base: number;
  readonly forms: readonly TransferForm[];
  readonly startBlock: number;
  /** Newest block that is stored, -1 for none. */
  readonly end: number;
  readonly endHash: Hash | "";
  /** True if the end was read on the followed branch: while it is not final, a reorganisation may take it back. */
  readonly endsAboveFinal: boolean;
  /** The block whose logs the nodes contradict themselves about, until it is read, and how. */
  readonly doubtBlock: number | null;
  readonly doubtReason: string | null;
  /** The block at which the contract names other owners than its logs, until its blocks are read again, and which. */
  readonly ownersDoubtBlock: number | null;
  readonly ownersDoubtReason: string | null;
  /** Block at which the contract was found to be destroyed; null while it has code. */
  readonly destroyedAt: number | null;
  /** True if it had code while it was indexed. Headlines of older releases don't tell. */
  readonly hadCode: boolean;
  /** Block at which the contract told its name, if that was after its identification. */
  readonly namedAt: number | null;
  /** True if the contract announced a change, and its name was not read since. */
  readonly isNameDue: boolean;
  /** Number of recorded ends of contracts at the address, and the block of the last one. */
  readonly ends: number;
  readonly lastEnd: number | null;
  /** Failures in a row. */
  readonly attempt: number;
  /** Time of the next attempt, ms since the epoch; 0 for at once. */
  readonly retryAt: number;
  /** Version of the rules that judged the name, 0 for none yet; the rules that matched the name and the history. */
  readonly rulesVersion: number;
  readonly wordRule: string;
  readonly shapeRule: string;
  /** Name of the key that requested the work, for its fair share; "" if it is not known. */
  readonly requestedBy: string;
  /** True if the key may operate: its work comes first. */
  readonly isForOperator: boolean;
  /** The block at which the contract was asked for its owners; null before. */
  readonly provenAt: number | null;
  /** Archives that were wrong about the collection, and ranges `from-to` that only the node may tell; by commas. */
  readonly distrusted: string;
  readonly nodeRanges: string;
  /** The flags in the stream, and the rule that they name. */
  readonly spam: boolean;
  readonly verified: boolean;
  readonly flagRule: string;
}

export const REQUESTED: IndexState = {
  status: "requested",
  searched: null,
  base: 0,
  forms: [],
  startBlock: 0,
  end: -1,
  endHash: "",
  endsAboveFinal: false,
  doubtBlock: null,
  doubtReason: null,
  ownersDoubtBlock: null,
  ownersDoubtReason: null,
  destroyedAt: null,
  hadCode: false,
  namedAt: null,
  isNameDue: false,
  ends: 0,
  lastEnd: null,
  attempt: 0,
  retryAt: 0,
  rulesVersion: 0,
  wordRule: "",
  shapeRule: "",
  requestedBy: "",
  isForOperator: false,
  archives: "",
  archivedTo: null,
  touched: 0,
  hashed: 0,
  sampled: 0,
  byRoot: 0,
  absent: 0,
  provenAt: null,
  holdings: 0,
  of: 0,
  contradicted: 0,
  blocks: 0,
  provableFrom: null,
  isComplete: null,
  witness: null,
  distrusted: "",
  nodeRanges: "",
  spam: false,
  verified: false,
  flagRule: "",
  name: null,
  symbol: null,
  standard: null,
  target: null,
  transfers: null,
  nfts: null,
  bytes: null,
  calls: null,
  requestedAt: null,
  finishedAt: null,
  lastError: null,
  runAt: null,
  runBlock: null,
  runTransfers: null,
  movedAt: null,
};

type HeadlineDoubt = Pick<IndexState, "doubtBlock" | "doubtReason">;
const NO_DOUBT: HeadlineDoubt = { doubtBlock: null, doubtReason: null };

/** Bytes of a stored event beside its attachment: the JSON of its other fields, and its row. */
export const EVENT_BYTES = 160;

/**
 * The fold of a stream's events into its headline: the state after further events.
 * @param now time of the append, in ms since the epoch
 */
export function foldHeadline(state: IndexState, events: readonly NftEvent[], now: number): IndexState {
  let after = state;
  for (const event of events) {
    const size = EVENT_BYTES + (event.type === "TransfersCommitted" ? event.transfers.length : 0);
    const bytes = after.bytes === null ? null : after.bytes + size;
    after = Object.assign({}, after, { bytes }, changeBy(after, event, now));
  }
  return after;
}

/** No failure, and no wait for a further attempt. */
const NO_FAILURE = { attempt: 0, retryAt: 0 } as const;

function changeByIdentification(event: ContractIdentified): Partial<IndexState> {
  const { name, symbol, block: target, kind, forms, startBlock } = event;
  const status = kind === "nft" ? "backfilling" : kind;
  const told = { name, symbol, namedAt: null, isNameDue: false };
  return { ...told, target, status, forms, startBlock, lastError: null, ...NO_FAILURE };
}

function changeByTransfers(before: IndexState, event: TransfersCommitted, now: number): Partial<IndexState> {
  const { toBlock: end, toHash: endHash, count, chainVersion } = event;
  const transfers = before.transfers === null ? null : before.transfers + count;
  const isRead = before.doubtBlock !== null && end >= before.doubtBlock;
  const read = { end, endHash, endsAboveFinal: chainVersion !== undefined };
  return { ...read, transfers, lastError: null, movedAt: now, ...NO_FAILURE, ...(isRead ? NO_DOUBT : {}) };
}

function changeBy(before: IndexState, event: NftEvent, now: number): Partial<IndexState> {
  switch (event.type) {
    case "IndexingRequested":
      return { requestedAt: before.requestedAt ?? now, status: "requested", ...NO_FAILURE };
    case "ContractIdentified":
      return changeByIdentification(event);
    case "ContractRenamed": {
      const { name, symbol, block: namedAt } = event;
      // The rules of spam judge the new name, too.
      return { name, symbol, namedAt, isNameDue: false, rulesVersion: 0 };
    }
    case "TransfersCommitted":
      return changeByTransfers(before, event, now);
    case "ContractDestroyed":
      return { ends: before.ends + 1, lastEnd: event.block };
    case "IndexingCompleted":
      return { status: "following", finishedAt: now, lastError: null, ...NO_FAILURE };
    case "IndexingStalled":
      return { lastError: event.reason };
    case "IndexingFailed": {
      const { reason: lastError, attempt, retryAt } = event;
      return { lastError, attempt, retryAt };
    }
    case "LogsDoubted": {
      const { block: doubtBlock, reason, attempt, retryAt } = event;
      // The chain's follower goes on without it.
      const status = before.status === "following" ? "joining" : before.status;
      return { status, lastError: reason, doubtBlock, doubtReason: reason, attempt, retryAt };
    }
    case "OwnersDoubted":
      return { ownersDoubtBlock: event.block, ownersDoubtReason: event.reason };
    case "OwnersSettled":
      return { ownersDoubtBlock: null, ownersDoubtReason: null, contradicted: event.contradicted };
    case "BlocksReverted": {
      const { number: end, hash: endHash } = event.ancestor;
      // The follower counts again.
      const back = { transfers: null, ...(before.end > end ? { end, endHash } : {}) };
      return event.rejoins === true ? { ...back, status: "joining" } : back;
    }
    case "HistoryProven": {
      const { type: _, block: provenAt, ...proof } = event;
      return { ...proof, provenAt };
    }
    case "FlagsChanged":
      return { spam: event.possibleSpam, verified: event.verifiedCollection, flagRule: event.rule };
    case "ReindexRequested":
    case "CollectionRemoved":
      return {};
    default:
      return event satisfies never;
  }
}

export function toHeadline(state: IndexState): Headline {
  return { ...state, forms: state.forms.join(",") };
}

/** Reads the state from a headline. A stream without one was only requested. */
export function fromHeadline(headline: Headline | undefined): IndexState {
  if (headline === undefined) return REQUESTED;
  const { forms, ...fields } = headline as Partial<Omit<IndexState, "forms">> & { readonly forms?: string };
  // Headlines from before the flags lack their fields.
  return { ...REQUESTED, ...fields, forms: (forms?.split(",") ?? []).filter(Boolean) as TransferForm[] };
}

/** True if archives told the history, and its owners were not compared with the contract yet. */
export const awaitsProof = ({ archives, provenAt }: Pick<IndexState, "archives" | "provenAt">): boolean =>
  archives !== "" && provenAt === null;

/** The newest block at which the contract is known to have told its name. */
export const namedAtOf = ({ namedAt, target }: IndexState): number => namedAt ?? target ?? -1;

/** The first block that a worker has to read next. */
export const nextBlock = (state: IndexState): number => (state.end < 0 ? state.startBlock : state.end + 1);

/** `eth 0xaa… "Name"`, for log lines. The name is the contract's own word, so it is shortened and quoted. */
export function nameText(chain: Chain, address: Address, name: string | null): string {
  const shown = name === null || name === "" ? "" : ` ${JSON.stringify(name.slice(0, 64))}`;
  return `${chain.name} ${address}${shown}`;
}
