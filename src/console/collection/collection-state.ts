/** What is known of a collection while its screen is open: its newest page, its progress, and what happened. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { AsOf, Client, CollectionDetails, MetadataMessage, NftPage } from "../../client/index.ts";
import { detailsOf } from "../state/details.ts";
import { useMessages } from "../state/messages.ts";
import { type CollectionAt, keyAt, type Where } from "../state/place.ts";
import { type QueryState, useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import { type Happening, happeningOf, isNews, NO_PROGRESS, progressAfter, type ShownProgress } from "./progress.ts";

/** Happenings kept on the page. */
const MOST_HAPPENINGS = 200;
/** Pause between two looks at the newest block, however many messages come. */
const REFRESH_MS = 1_500;
/** Metadata comes in for minutes. */
const PICTURES_MS = 5_000;

/** The beginning of a listing at one block. */
export interface CollectionHead {
  readonly page: NftPage;
  readonly asOf: AsOf | null;
  /** Number of tokens. */
  readonly total: number;
  /** When it was read. Whatever is read after it belongs to it. */
  readonly readAt: number;
}

/** The newest head of a collection, or that an operator removed it. */
export type HeadOrRemoval = { readonly isRemoved: true } | ({ readonly isRemoved: false } & CollectionHead);

export interface CollectionState {
  readonly progress: ShownProgress;
  /** Newest first. */
  readonly happenings: readonly Happening[];
  /** The newest message about metadata. */
  readonly metadata: MetadataMessage | undefined;
  readonly found: QueryState<HeadOrRemoval>;
  readonly head: CollectionHead | undefined;
  /** True if the collection is complete. */
  readonly isReady: boolean;
  readonly details: QueryState<CollectionDetails>;
  readonly isRemoving: boolean;
  /** Removes the collection by a request, during which the page asks for none of its listings. */
  remove(request: () => Promise<unknown>): Promise<void>;
}

/** Reads the beginning of a listing. It gets indexed if it was unknown. */
export async function readHead(client: Client, at: CollectionAt, signal: AbortSignal): Promise<CollectionHead> {
  const { chain, address, block } = at;
  const query = { chain, limit: 1, disable_total: false, normalizeMetadata: true, as_of_block: block, signal };
  const page = await client.nftPage(address, query);
  return { page, asOf: page.asOf, total: Number(page.total ?? 0), readAt: performance.now() };
}

export function useCollection({ chain, address }: Where): CollectionState {
  const { client, reload } = useSession();
  const [progress, setProgress] = useState(NO_PROGRESS);
  const [happenings, setHappenings] = useState<readonly Happening[]>([]);
  const [metadata, setMetadata] = useState<MetadataMessage>();
  const reloadNewest = () => reload("newest", chain, address);
  const refresh = useThrottled(REFRESH_MS, reloadNewest);
  const refreshPictures = useThrottled(PICTURES_MS, () => {
    reloadNewest();
    reload("details", chain, address);
  });
  /** Requests that are sent before the next render need the newest progress, too. */
  const latest = useRef(NO_PROGRESS);
  const show = (next: ShownProgress) => {
    latest.current = next;
    setProgress(next);
  };
  const { isRemoving, ended, remove } = useRemoval(latest, show, refresh);
  const at = { chain, address, block: undefined };
  const found = useQuery<HeadOrRemoval>([...keyAt(at), "head"], async (signal) => {
    await ended.current;
    // The listing of a removed collection would have it indexed again.
    const isRemoved = latest.current.isReset && (await detailsOf(client, at, signal))?.status === "removed";
    return isRemoved ? { isRemoved } : { isRemoved, ...(await readHead(client, at, signal)) };
  });
  const head = found.kind === "ready" && !found.value.isRemoved ? found.value : undefined;
  // The page alone says what the collection has. A message may come before the page that it is about.
  const isReady = !progress.isReset && head?.page.status === "SYNCED";
  useEffect(() => {
    if (progress.isDone && head?.page.status === "SYNCING") refresh();
  }, [progress.isDone, head]);
  const wasReady = useRef(false);
  wasReady.current = isReady;
  useMessages({ chain, address }, (message) => {
    show(progressAfter(latest.current, message, wasReady.current));
    if (message.type === "metadata") setMetadata(message);
    const happening = happeningOf(message);
    if (happening !== undefined) setHappenings((before) => [happening, ...before].slice(0, MOST_HAPPENINGS));
    if (isNews(message)) refresh();
    if (message.type === "metadata") refreshPictures();
  });
  const details = useQuery(["details", chain, address], (signal) => client.collection({ chain, address }, { signal }), {
    isOn: isReady,
  });
  return { progress, happenings, metadata, found, head, isReady, details, isRemoving, remove };
}

/** Removes the collection from its own page. A listing that is asked for meanwhile would have it indexed again. */
function useRemoval(
  latest: { readonly current: ShownProgress },
  show: (next: ShownProgress) => void,
  refresh: () => void,
) {
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

/** A function that runs at the start of a burst of calls, and once more after the pause. */
function useThrottled(ms: number, run: () => void): () => void {
  const newest = useRef(run);
  newest.current = run;
  const waiting = useRef<ReturnType<typeof setTimeout>>(undefined);
  const dueAt = useRef(0);
  useEffect(() => () => clearTimeout(waiting.current), []);
  return () => {
    waiting.current ??= setTimeout(() => {
      waiting.current = undefined;
      dueAt.current = performance.now() + ms;
      newest.current();
    }, dueAt.current - performance.now());
  };
}
