/**
 * The headline of an NFT stream: the facts a worker needs to continue, derived from the stream's events and stored on
 * its row. Also the events that request indexing, and the schedule after a failure.
 */

import type { Chain } from "../../chains/chains.ts";
import { backoffMs, type Clock } from "../../core/clock.ts";
import { AppError, messageOf } from "../../core/errors.ts";
import { wholeText } from "../../core/format.ts";
import type { Address, Hash } from "../../core/hex.ts";
import { NO_KEY, type Requester } from "../../core/work.ts";
import {
  type ContractIdentified,
  type HistoryProven,
  type IndexingFailed,
  type LogsDoubted,
  type NftEvent,
  nftStream,
  type TransferForm,
  type TransfersCommitted,
} from "../../events/types.ts";
import { appendUnlessMoved, appendWithRetry, type EventLog, type Headline } from "../../log/event-log.ts";

type IndexStatus =
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
  readonly status: IndexStatus;
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

/**
 * What is known of where a history comes from: `node`, or an archive and what is proven of it.
 * @param headersChangedAt the first block of the chain whose header doesn't make its hash, as older ones do
 */
export function historyText(
  state: Omit<HistoryProven, "type" | "block"> & { readonly provenAt?: number | null },
  headersChangedAt?: number,
): string {
  const { archives, touched, sampled, contradicted, absent, blocks = 0, provableFrom = null, provenAt = 0 } = state;
  const isEachProven = sampled === touched && touched > 0;
  const sampledText = isEachProven
    ? `all ${wholeText(touched)} blocks with a log proven by receipts`
    : `${wholeText(sampled)} of ${wholeText(touched)} blocks sampled`;
  const contradictions = contradicted === 0 ? [] : [`${wholeText(contradicted)} that the contract contradicts`];
  if (archives === "") return ["node", ...contradictions].join(", ");
  return [
    "archive",
    isEachProven && touched + absent === blocks && provenAt !== null ? "owners proven" : ownersText(state),
    ...contradictions,
    ...(provableFrom === null ? [] : [`not provable below block ${wholeText(provableFrom)}`]),
    ...(touched === 0 ? [] : [sampledText]),
    ...(headersChangedAt === undefined ? [] : [`headers from block ${wholeText(headersChangedAt)} on prove nothing`]),
  ].join(", ");
}

/**
 * Tells what the contract confirms of the owners. That each told owner is right doesn't show that none is missing. Only the
 * contract's own counts of tokens show it, or a node that proved each block.
 */
function ownersText({
  holdings,
  of,
  isComplete,
  witness = null,
  provenAt = 0,
}: Pick<HistoryProven, "holdings" | "of" | "isComplete" | "witness"> & { readonly provenAt?: number | null }): string {
  if (provenAt === null) return "owners not proven yet";
  if (of === 0 && isComplete !== true) return "owners not proven";
  if (isComplete === true) return "owners proven";
  const told =
    holdings === of ? "told owners confirmed" : `${wholeText(holdings)} of ${wholeText(of)} told owners confirmed`;
  return witness === null ? `${told}, that none is missing is not` : `${told}, and a second archive tells the same`;
}

/** What is known to be uncertain of a collection: a block that can't be read, or owners that the contract denies. */
export function doubtOf({ doubtBlock, doubtReason, ownersDoubtBlock, ownersDoubtReason }: IndexState) {
  if (doubtBlock !== null) return { block: doubtBlock, reason: doubtReason ?? "" };
  return ownersDoubtBlock === null ? null : { block: ownersDoubtBlock, reason: ownersDoubtReason ?? "" };
}

type Doubt = Pick<IndexState, "doubtBlock" | "doubtReason">;
const NO_DOUBT: Doubt = { doubtBlock: null, doubtReason: null };

/** Bytes of a stored event beside its attachment: the JSON of its other fields, and its row. */
const EVENT_BYTES = 160;

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

/** The state of a stream whose first event is a request at `now`. */
const firstRequest = (now: number, requester: Requester): IndexState => ({
  ...REQUESTED,
  ...workFor(requester),
  transfers: 0,
  bytes: EVENT_BYTES,
  calls: 0,
  requestedAt: now,
});

const workFor = ({ key, isOperator }: Requester) => ({ requestedBy: key, isForOperator: isOperator });

/** The key that the open work of a collection is for. */
export const requesterOf = ({ requestedBy, isForOperator }: IndexState): Requester => ({
  key: requestedBy,
  isOperator: isForOperator,
});

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

/** The log, and the clock that times an append. */
interface Requesting {
  readonly log: EventLog;
  readonly clock: Pick<Clock, "now">;
}

/** A contract on a chain. */
export interface ContractRef {
  readonly chainId: number;
  readonly address: Address;
}

/** Requests the indexing of a contract. Does nothing if it was requested already and not removed since. */
export async function requestIndexing(
  { log, clock }: Requesting,
  { chainId, address }: ContractRef,
  requester: Requester,
): Promise<void> {
  const stream = nftStream(chainId, address);
  const headline = toHeadline(firstRequest(clock.now(), requester));
  const append = { stream, events: [{ type: "IndexingRequested" }], expectedVersion: 0, headline } as const;
  if (await appendUnlessMoved(log, append)) return;
  const { status } = fromHeadline((await log.head(stream)).headline);
  if (status === "removed") await beginAnew({ log, clock }, { chainId, address }, "ReindexRequested", requester);
}

/** Attempts to append while a job or the follower writes the stream. */
const ATTEMPTS = 16;

/**
 * Requests that a collection is indexed anew, or no longer. Its versions go on counting.
 * @param doubts what an archive was wrong about, and the forms of log that the contract used, for the new index
 * @returns the status before; undefined, without an append, for a contract that was never requested
 */
export async function beginAnew(
  { log, clock }: Requesting,
  { chainId, address }: ContractRef,
  type: "ReindexRequested" | "CollectionRemoved",
  requester: Requester = NO_KEY,
  doubts: Partial<Pick<IndexState, "distrusted" | "nodeRanges" | "forms">> = {},
): Promise<IndexStatus | undefined> {
  const stream = nftStream(chainId, address);
  let before: IndexStatus | undefined;
  await appendWithRetry(log, ATTEMPTS, async () => {
    const { version, headline } = await log.head(stream);
    if (version === 0) return undefined;
    const { status, name, symbol } = fromHeadline(headline);
    before = status;
    if (type === "CollectionRemoved" && status === "removed") return undefined;
    // It was requested and has not begun: it begins anew in any case.
    if (type === "ReindexRequested" && status === "requested" && Object.keys(doubts).length === 0) return undefined;
    const anew = { ...firstRequest(clock.now(), requester), name, symbol, base: version + 1, ...doubts };
    const state: IndexState = { ...anew, status: type === "CollectionRemoved" ? "removed" : "requested" };
    return { stream, events: [{ type }], expectedVersion: version, headline: toHeadline(state) };
  });
  return before;
}

/**
 * Requests a new identification of a contract that was no NFT: it may have been deployed since.
 * @param version the stream's version with that result. Does nothing if the stream has moved on.
 */
export async function requestIdentification(
  { log, clock }: Requesting,
  { chainId, address }: ContractRef,
  version: number,
  requester: Requester,
): Promise<void> {
  const stream = nftStream(chainId, address);
  const { headline } = await log.head(stream);
  const before = { ...fromHeadline(headline), ...workFor(requester) };
  const events = [{ type: "IndexingRequested" }] as const;
  const state = foldHeadline(before, events, clock.now());
  await appendUnlessMoved(log, { stream, events, expectedVersion: version, headline: toHeadline(state) });
}

const RETRY_BASE_MS = 5_000;
const RETRY_MAX_MS = 3_600_000;

interface Failure {
  readonly event: IndexingFailed | LogsDoubted;
  readonly waitMs: number;
}

/**
 * The ms until a collection's next attempt is due, 0 or less if it is. A time further ahead than any backoff was set by
 * another clock, and would keep the collection waiting for as long as that clock was ahead.
 */
export function msUntilRetry({ retryAt }: IndexState, clock: Clock): number {
  const wait = retryAt - clock.now();
  return wait > RETRY_MAX_MS ? 0 : wait;
}

/** @param state the state at the start of the attempt */
export function failureOf(error: unknown, state: IndexState, clock: Clock): Failure {
  const attempt = state.attempt + 1;
  const waitMs = Math.round(backoffMs(clock, attempt, RETRY_BASE_MS, RETRY_MAX_MS));
  const failed = { reason: messageOf(error), attempt, retryAt: clock.now() + waitMs };
  const block = error instanceof AppError && error.code === "logs_in_doubt" ? error.meta["block"] : undefined;
  if (typeof block === "number") return { event: { type: "LogsDoubted", block, ...failed }, waitMs };
  return { event: { type: "IndexingFailed", ...failed }, waitMs };
}

// How far the indexing of a collection is, how fast it moves, and how long it will take. Pure.

interface Progress {
  /** From 0 to 100; 100 only when complete. Null while the history's length is not known. */
  readonly percent: number | null;
  /** Average since the start of the current attempt's backfill; null while no backfill runs. */
  readonly transfersPerSecond: number | null;
  /** Estimate from the blocks left and the pace so far; null without a pace. */
  readonly secondsLeft: number | null;
}

/** `eth 0xaa… "Name"`, for log lines. The name is the contract's own word, so it is shortened and quoted. */
export function nameText(chain: Chain, address: Address, name: string | null): string {
  const shown = name === null || name === "" ? "" : ` ${JSON.stringify(name.slice(0, 64))}`;
  return `${chain.name} ${address}${shown}`;
}

const isComplete = ({ status }: IndexState): boolean => status === "following" || status === "not_nft";

export function progressOf(state: IndexState): Progress {
  const { target, startBlock, status, searched, runAt, runBlock, runTransfers, transfers, movedAt } = state;
  if (isComplete(state)) return { percent: 100, transfersPerSecond: null, secondsLeft: null };
  const isSearched = status === "requested" && searched !== null;
  const unknown = { percent: status === "requested" ? 0 : null, transfersPerSecond: null, secondsLeft: null };
  const isUnread = (status === "requested" && !isSearched) || status === "not_a_contract" || status === "removed";
  if (target === null || isUnread) return unknown;
  const [next, blocks] = [isSearched ? searched + 1 : nextBlock(state), Math.max(1, target - startBlock + 1)];
  const left = Math.max(0, target - next + 1);
  const percent = Math.max(0, Math.min(99, Math.floor(((blocks - left) * 100) / blocks)));
  if (runAt === null || runBlock === null || movedAt === null || movedAt <= runAt || next <= runBlock) {
    return { ...unknown, percent };
  }
  const seconds = (movedAt - runAt) / 1_000;
  const isCounted = transfers !== null && runTransfers !== null;
  return {
    percent,
    transfersPerSecond: isCounted ? Math.round((transfers - runTransfers) / seconds) : null,
    secondsLeft: Math.ceil((left * seconds) / (next - runBlock)),
  };
}
