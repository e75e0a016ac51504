/**
 * The messages for a collection's subscribers, from its state and from the events of its stream, and their text. Pure.
 */
import { decodeTransfers, TransferKind, wordsToBigInt } from "../events/columns.ts";
import type { BlockRef, NftEvent, Recorded, TransfersCommitted } from "../events/types.ts";
import { type Collection, isComplete, transfersOf } from "../nft/collections/collection.ts";
import { countEntries } from "../nft/ledger/listing.ts";
import { type Mark, resumeText } from "./mark.ts";
import type { Envelope, MessageOf, ServerMessage } from "./message-models.ts";

const texts = new WeakMap<ServerMessage, string>();

/** Returns a message's text. Serialised once, for any number of subscribers. */
export const encodeMessage = (message: ServerMessage): string =>
  texts.getOrInsertComputed(message, () => JSON.stringify(message));

const MAX_TOKEN_IDS = 1_000;
/**
 * Most transfers scanned for token ids, some five milliseconds. A contract can repeat two ids through a whole block,
 * and a batch after a long gap holds many transfers.
 */
const MAX_LOOKED_THROUGH = 16_384;

/** The collection of a message, as the message names it. */
export type MessageSubject = Pick<Envelope, "chain" | "address">;

interface MessageOptions {
  /** Leaves out transfers of later blocks. */
  readonly upTo?: number | undefined;
  /** True if the client learns of the transfers by `progress` and `indexed`. By default as the collection says. */
  readonly isCovered?: boolean;
}

/** Returns the message of an event; undefined for an event without one, or if later messages cover it. */
export function messageOfEvent(
  subject: MessageSubject,
  collection: Collection,
  recorded: Recorded<NftEvent>,
  { upTo = Number.POSITIVE_INFINITY, isCovered = isProgress(collection, recorded) }: MessageOptions = {},
): ServerMessage | undefined {
  const { event } = recorded;
  switch (event.type) {
    case "IndexingRequested":
    case "FlagsChanged":
    case "ContractRenamed":
      return undefined;
    case "ContractDestroyed":
      return statusMessage(subject, collection, { mark: recorded, block: collection.end, gap: true });
    case "ReindexRequested":
    case "CollectionRemoved":
      return statusMessage(subject, collection, { mark: recorded, block: undefined, gap: true });
    case "ContractIdentified":
      if (event.kind === "not_nft")
        return statusMessage(subject, collection, { mark: recorded, block: collection.end });
      return event.kind === "not_a_contract" ? notAContractMessage(subject, recorded) : undefined;
    case "TransfersCommitted":
      return isCovered || event.count === 0 ? undefined : transfersMessage(subject, recorded, event, upTo);
    case "BlocksReverted":
      return revertedMessage(subject, recorded, event.ancestor);
    case "IndexingCompleted":
      return event.isUnproven === true ? undefined : indexedMessage(subject, collection);
    case "HistoryProven":
      return recorded.version === collection.completedVersion ? indexedMessage(subject, collection) : undefined;
    case "IndexingFailed":
      return failedMessage(subject, recorded, event);
    case "LogsDoubted":
      return failedMessage(subject, recorded, { ...event, inDoubt: event });
    case "OwnersDoubted":
    case "OwnersSettled":
      return statusMessage(subject, collection, { mark: recorded, block: collection.end });
    case "IndexingStalled":
      return { ...progressMessage(subject, collection, recorded), reason: event.reason };
    default:
      return event satisfies never;
  }
}

/** True if an event belongs to the backfill that is still running. */
export function isProgress(collection: Collection, { event, version }: Recorded<NftEvent>): boolean {
  const { completed, completedVersion, isUnproven } = collection;
  if (event.type !== "TransfersCommitted") return false;
  return completed === undefined || isUnproven || version < completedVersion;
}

/**
 * @param mark the record that the client's messages go on from
 * @param gap true if the messages can't go on from the client's `since`
 */
export function statusMessage(
  subject: MessageSubject,
  collection: Collection,
  { mark, block, gap = false }: { mark: Mark; block: BlockRef | undefined; gap?: boolean },
): MessageOf<"status"> {
  return {
    type: "status",
    ...envelope(subject, mark),
    status: isDone(collection) ? "SYNCED" : "SYNCING",
    block: block?.number ?? null,
    percent: percentOf(collection),
    ...doubtIn(collection),
    ...(gap ? { gap: true as const } : {}),
  };
}

/**
 * Returns the message that explains why a collection is not complete: there is no contract at the address (sent to each
 * new subscriber), or the current failure, if it happened after the client's `since`.
 */
export function failureMessage(
  subject: MessageSubject,
  collection: Collection,
  since: number | undefined,
): ServerMessage | undefined {
  const { status, failure } = collection;
  if (status === "not_a_contract") return notAContractMessage(subject, collection);
  if (failure === undefined || since === undefined || since >= failure.version) return undefined;
  const { inDoubt } = collection;
  return failedMessage(subject, failure, { ...failure, ...(inDoubt === undefined ? {} : { inDoubt }) });
}

function doubtIn({ inDoubt, ownersInDoubt }: Pick<Collection, "inDoubt" | "ownersInDoubt">) {
  const doubt = inDoubt ?? ownersInDoubt;
  return doubt === undefined ? {} : { inDoubt: doubt };
}

export function notAContractMessage(subject: MessageSubject, mark: Mark): ServerMessage {
  const reason = "the address has neither code nor an NFT log";
  return { type: "failed", ...envelope(subject, mark), code: "not_a_contract", reason, nextTry: null };
}

interface Failed extends Partial<Pick<Collection, "inDoubt">> {
  readonly reason: string;
  readonly retryAt: number;
}

export function failedMessage(
  subject: MessageSubject,
  mark: Mark,
  { reason, retryAt, inDoubt }: Failed,
): ServerMessage {
  const nextTry = new Date(retryAt).toISOString();
  const code = inDoubt === undefined ? "indexing_failed" : "in_doubt";
  const doubt = inDoubt && { inDoubt: { block: inDoubt.block, reason: inDoubt.reason } };
  return { type: "failed", ...envelope(subject, mark), code, reason, ...doubt, nextTry };
}

/** @param mark the newest record that pages show */
export function progressMessage(subject: MessageSubject, collection: Collection, mark: Mark): MessageOf<"progress"> {
  return {
    type: "progress",
    ...envelope(subject, mark),
    percent: percentOf(collection),
    blocksLeft: blocksLeft(collection),
    transfers: transfersOf(collection),
  };
}

/** Undefined while the collection is not complete. */
export function indexedMessage(subject: MessageSubject, collection: Collection): MessageOf<"indexed"> | undefined {
  const { completed, completedVersion: version, completedChecksum: checksum, isUnproven, ledger } = collection;
  if (completed === undefined || isUnproven) return undefined;
  const total = countEntries(ledger, completed.number, false);
  const { number: block, hash } = completed;
  return { type: "indexed", ...envelope(subject, { version, checksum }), block, hash, total };
}

/** @param mark a record of the collection's stream */
export function revertedMessage(subject: MessageSubject, mark: Mark, ancestor: BlockRef): MessageOf<"reorged"> {
  return { type: "reorged", ...envelope(subject, mark), block: ancestor.number, hash: ancestor.hash };
}

/**
 * `resolved`: tokens with metadata. `failed`: tokens with failed fetches only.
 * @param mark the newest record that pages show
 */
export function metadataMessage(
  subject: MessageSubject,
  collection: Collection,
  { resolved, failed, mark }: { readonly resolved: number; readonly failed: number; readonly mark: Mark },
): MessageOf<"metadata"> {
  const total = countEntries(collection.ledger, Number.MAX_SAFE_INTEGER, false);
  const left = Math.max(0, total - resolved - failed);
  return { type: "metadata", ...envelope(subject, mark), resolved, failed, left };
}

/**
 * `block` is the newest block with a transfer of the range, even if the message does not name all token ids. A client
 * that reads the listing as of that block misses nothing: the range may end later, but without further transfers.
 */
function transfersMessage(
  subject: MessageSubject,
  mark: Mark,
  event: TransfersCommitted,
  upTo: number,
): ServerMessage | undefined {
  const columns = decodeTransfers(event.transfers);
  const after = columns.blocks.findIndex((block) => block > upTo);
  const count = after < 0 ? columns.count : after;
  if (count === 0) return undefined;
  const ids = new Set<string>();
  const next = new Map<bigint, bigint>();
  const looked = Math.min(count, MAX_LOOKED_THROUGH);
  let truncated = false;
  for (let i = 0; i < looked && !truncated; i++) {
    const first = wordsToBigInt(columns.ids, i);
    const end = first + (columns.kinds[i] === TransferKind.range ? wordsToBigInt(columns.amounts, i) : 1n);
    for (let id = firstUnnamed(next, first); id < end; id = firstUnnamed(next, id)) {
      if (ids.size === MAX_TOKEN_IDS) {
        truncated = true;
        break;
      }
      ids.add(id.toString());
      next.set(id, id + 1n);
    }
  }
  return {
    type: "transfers",
    ...envelope(subject, mark),
    block: columns.blocks[count - 1] as number,
    tokenIds: [...ids],
    ...(truncated || looked < count ? { truncated: true as const } : {}),
  };
}

/**
 * Returns the first id from `id` on that is not named yet. A contract can transfer the same range ten thousand times in
 * a block, so named ids are skipped in few steps. `next` maps a named id to a later id such that all ids in between are
 * named; paths are compressed on each lookup.
 */
function firstUnnamed(next: Map<bigint, bigint>, id: bigint): bigint {
  const passed: bigint[] = [];
  let at = id;
  for (let then = next.get(at); then !== undefined; then = next.get(at)) {
    passed.push(at);
    at = then;
  }
  for (const one of passed) next.set(one, at);
  return at;
}

function envelope(subject: MessageSubject, mark: Mark): Envelope {
  const resume = resumeText(mark);
  return { ...subject, version: mark.version, ...(resume === undefined ? {} : { resume }) };
}

/** Blocks left up to the head at which the contract was identified. */
function blocksLeft({ identified, end }: Collection): number {
  if (identified === undefined) return 0;
  return Math.max(0, identified.block - (end?.number ?? identified.startBlock - 1));
}

/** True if nothing is left to index. An address without a contract has no history to complete. */
const isDone = (collection: Collection): boolean => isComplete(collection) || collection.status === "not_nft";

/** From 0 to 100; 100 only when complete. */
function percentOf(collection: Collection): number {
  if (isDone(collection)) return 100;
  const { identified } = collection;
  if (identified === undefined) return 0;
  const blocks = identified.block - identified.startBlock + 1;
  const done = blocks - blocksLeft(collection);
  return Math.max(0, Math.min(99, Math.floor((done * 100) / Math.max(1, blocks))));
}
