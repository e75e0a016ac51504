/** What is known of a collection while its screen is open: its newest page, its progress, and what happened. */
import { useCallback, useContext, useEffect, useRef, useState } from "preact/hooks";
import type {
  AsOf,
  Client,
  CollectionDetails,
  FailedMessage,
  FeedMessage,
  MetadataMessage,
  NftPage,
} from "../client/index.ts";
import { detailsOf } from "./address.tsx";
import { type Loaded, ReturnsContext, useAnswer, useMessages } from "./hooks.ts";
import type { Where } from "./parts.tsx";
import { useSession } from "./session.ts";

export type Happening =
  | { readonly is: "reorged"; readonly time: string; readonly block: number }
  | { readonly is: "failed"; readonly time: string; readonly reason: string };

/** How far the indexing is, as the socket tells. */
export interface Progress {
  readonly isDone: boolean;
  readonly percent: number | null;
  readonly blocksLeft: number | null;
  readonly transfers: number | null;
  /** Why nothing moves. */
  readonly reason: string | undefined;
  readonly failure: FailedMessage | undefined;
  /** What can't be known of the collection, as the newest message says. */
  readonly inDoubt: { readonly block: number; readonly reason: string } | undefined;
  /** True if the collection was complete before: an operator removed it, or has it indexed again. */
  readonly isReset: boolean;
}

const UNKNOWN: Progress = {
  ...{ isDone: false, percent: null, blocksLeft: null, transfers: null },
  ...{ reason: undefined, failure: undefined, isReset: false },
  inDoubt: undefined,
};
/** Happenings kept on the page. */
const MOST_HAPPENINGS = 200;
/** Pause between two looks at the newest block, however many messages come. */
const REFRESH_MS = 1_500;
/** Metadata comes in for minutes. */
const PICTURES_MS = 5_000;

/** The newest page of a collection, or that an operator removed it. */
export type Found =
  | { readonly isRemoved: true }
  | { readonly isRemoved: false; readonly page: NftPage & { readonly asOf: AsOf | null } };

export interface CollectionState {
  readonly progress: Progress;
  /** Newest first. */
  readonly happenings: readonly Happening[];
  /** The newest message about metadata. */
  readonly metadata: MetadataMessage | undefined;
  readonly first: Loaded<Found>;
  readonly page: Extract<Found, { isRemoved: false }>["page"] | undefined;
  /** True if the collection is complete. */
  readonly isReady: boolean;
  readonly details: Loaded<CollectionDetails | undefined>;
  /** Counts what makes answers about the newest block out of date. */
  readonly turn: number;
  readonly isRemoving: boolean;
  /** Removes the collection by a request, during which the page asks for none of its listings. */
  remove(request: () => Promise<unknown>): Promise<void>;
}

export function useCollection({ chain, address }: Where): CollectionState {
  const { client } = useSession();
  const returns = useContext(ReturnsContext);
  const [progress, setProgress] = useState(UNKNOWN);
  const [happenings, setHappenings] = useState<readonly Happening[]>([]);
  const [metadata, setMetadata] = useState<MetadataMessage>();
  const [moves, refresh] = useThrottled(REFRESH_MS);
  const [pictures, refreshPictures] = useThrottled(PICTURES_MS);
  const turn = moves + pictures + returns;
  /** Requests that are sent before the next render need the newest progress, too. */
  const latest = useRef(UNKNOWN);
  const show = (next: Progress) => {
    latest.current = next;
    setProgress(next);
  };
  const { isRemoving, ended, remove } = useRemoval(latest, show, refresh);
  const first = useAnswer<Found>(
    async (signal) => {
      await ended.current;
      // The listing of a removed collection would have it indexed again.
      const isRemoved = latest.current.isReset && (await isRemovedNow(client, { chain, address }, signal));
      if (isRemoved) return { isRemoved };
      const query = { chain, limit: 1, disable_total: false, normalizeMetadata: true, signal };
      return { isRemoved, page: await client.nftPage(address, query) };
    },
    [chain, address, turn],
  );
  const page = first.value?.isRemoved === false ? first.value.page : undefined;
  const isReady = !progress.isReset && (progress.isDone || page?.status === "SYNCED");
  const wasReady = useRef(false);
  wasReady.current = isReady;
  useMessages(chain, address, (message) => {
    show(progressAfter(latest.current, message, wasReady.current));
    if (message.type === "metadata") setMetadata(message);
    const happening = happeningOf(message);
    if (happening !== undefined) setHappenings((before) => [happening, ...before].slice(0, MOST_HAPPENINGS));
    if (isNews(message)) refresh();
    if (message.type === "metadata") refreshPictures();
  });
  const details = useAnswer<CollectionDetails | undefined>(
    (signal) => (isReady ? detailsOf(client, { chain, address }, signal) : Promise.resolve(undefined)),
    [chain, address, isReady, pictures],
  );
  return { progress, happenings, metadata, first, page, isReady, details, turn, isRemoving, remove };
}

/** Removes the collection from its own page. A listing that is asked for meanwhile would have it indexed again. */
function useRemoval(latest: { readonly current: Progress }, show: (next: Progress) => void, refresh: () => void) {
  const [isRemoving, setRemoving] = useState(false);
  /** Settles at the end of a removal. */
  const ended = useRef<Promise<unknown>>(Promise.resolve());
  const remove = async (request: () => Promise<unknown>) => {
    const before = latest.current;
    setRemoving(true);
    show({ ...before, isReset: true });
    const removal = request();
    ended.current = removal.catch(() => undefined);
    try {
      await removal;
    } catch (error) {
      show(before);
      throw error;
    } finally {
      setRemoving(false);
      refresh();
    }
  };
  return { isRemoving, ended, remove };
}

async function isRemovedNow(client: Client, where: Where, signal: AbortSignal): Promise<boolean> {
  return (await detailsOf(client, where, signal))?.status === "removed";
}

/** True if the newest page may be out of date. */
function isNews(message: FeedMessage): boolean {
  if (message.type === "status") return message.status !== "SYNCED" || message.gap === true;
  if (message.type === "failed") return message.nextTry === null;
  return ["indexed", "transfers", "reorged"].includes(message.type);
}

function progressAfter(before: Progress, message: FeedMessage, wasReady: boolean): Progress {
  switch (message.type) {
    case "status": {
      const isDone = message.status === "SYNCED";
      const isReset = !isDone && (before.isReset || wasReady);
      return {
        ...(isReset ? UNKNOWN : before),
        isDone,
        isReset,
        percent: message.percent,
        failure: undefined,
        inDoubt: message.inDoubt,
      };
    }
    case "progress": {
      const { percent, blocksLeft, transfers, reason } = message;
      return { ...before, percent, blocksLeft, transfers, reason, failure: undefined };
    }
    case "indexed":
      return { ...before, isDone: true, percent: 100, reason: undefined, failure: undefined, isReset: false };
    case "failed":
      return { ...before, failure: message, inDoubt: message.inDoubt };
    default:
      return before;
  }
}

function happeningOf(message: FeedMessage): Happening | undefined {
  const time = new Date().toISOString();
  if (message.type === "reorged") return { is: "reorged", time, block: message.block };
  if (message.type === "failed") return { is: "failed", time, reason: message.reason };
  return undefined;
}

/** A counter that a burst of calls moves once at its start, and once after the pause. */
function useThrottled(ms: number): [turn: number, move: () => void] {
  const [turn, setTurn] = useState(0);
  const waiting = useRef<ReturnType<typeof setTimeout>>(undefined);
  const isDue = useRef(false);
  const move = useCallback(() => {
    if (waiting.current !== undefined) {
      isDue.current = true;
      return;
    }
    setTurn((before) => before + 1);
    waiting.current = setTimeout(() => {
      waiting.current = undefined;
      if (!isDue.current) return;
      isDue.current = false;
      move();
    }, ms);
  }, [ms]);
  useEffect(() => () => clearTimeout(waiting.current), []);
  return [turn, move];
}
