/**
 * Requests for work on a collection, as events of its stream: to index it, to index it anew, to remove it, to identify it
 * again. Any process may append them; the jobs and the follower act on them.
 */
import type { Clock } from "../../core/clock.ts";
import type { Address } from "../../core/hex.ts";
import { NO_KEY, type Requester } from "../../core/work.ts";
import { nftStream } from "../../events/types.ts";
import { appendUnlessMoved, appendWithRetry, type EventLog } from "../../log/event-log.ts";
import {
  EVENT_BYTES,
  foldHeadline,
  fromHeadline,
  type IndexingStage,
  type IndexState,
  REQUESTED,
  toHeadline,
} from "./headline.ts";

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
): Promise<IndexingStage | undefined> {
  const stream = nftStream(chainId, address);
  let before: IndexingStage | undefined;
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
