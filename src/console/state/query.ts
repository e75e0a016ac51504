/**
 * What the service answers, as the screens see it: one hook for an answer, and its form for lists of pages.
 * `@tanstack/query-core` loads, reloads, polls and cancels. Refused requests are repeated by the client, not here.
 */
import {
  type InfiniteData,
  InfiniteQueryObserver,
  type InfiniteQueryObserverOptions,
  type InfiniteQueryObserverResult,
  keepPreviousData,
  type QueryKey,
  QueryObserver,
  type QueryObserverOptions,
  type QueryObserverResult,
} from "@tanstack/query-core";
import { useEffect, useRef, useState } from "preact/hooks";
import { ServiceError } from "../../client/index.ts";
import { isRefusal, useSession } from "./session.ts";

/** What a screen knows of an answer. Each kind has words of its own on each screen. */
export type QueryState<T> =
  /** Nothing is known yet. */
  | { readonly kind: "loading" }
  /** The service has no such thing: status 404. */
  | { readonly kind: "absent"; readonly error: ServiceError }
  | { readonly kind: "failed"; readonly error: Error }
  | {
      readonly kind: "ready";
      /** The newest answer. It stays while the next one is awaited. */
      readonly value: T;
      /** True if it is the answer to the question before, which stays until that to the new one comes. */
      readonly isFormer: boolean;
      /** Why the newest attempt to read it again failed. */
      readonly error: Error | undefined;
    };

/** The value of a state; undefined while there is none. For what a screen shows beside its subject. */
export const readyValue = <T>(state: QueryState<T>): T | undefined =>
  state.kind === "ready" ? state.value : undefined;

interface QueryOptions<T> {
  /** Asks again after this pause, while the page can be seen. */
  readonly everyMs?: number | ((value: T | undefined) => number);
  /** False while the request makes no sense. */
  readonly isOn?: boolean;
  /** True if the answer to the question before stays meanwhile. For screens that say which question it answers. */
  readonly keepsFormer?: boolean;
}

/**
 * Asks the service when the screen opens, when the key changes, when the key is reloaded, and when the service is back. All
 * components with one key share its requests.
 */
export function useQuery<T>(
  key: QueryKey,
  load: (signal: AbortSignal) => Promise<T>,
  { everyMs, isOn = true, keepsFormer = false }: QueryOptions<T> = {},
): QueryState<T> {
  const pauseAfter = (value: T | undefined) => (typeof everyMs === "function" ? everyMs(value) : (everyMs ?? false));
  const result = useObserver<T>(QueryObserver, {
    queryKey: key,
    queryFn: ({ signal }) => load(signal),
    enabled: isOn,
    ...(keepsFormer ? { placeholderData: keepPreviousData as () => undefined } : {}),
    refetchOnWindowFocus: everyMs !== undefined,
    // The pause begins after the answer, so that a slow service is not asked more often than it answers.
    refetchInterval: ({ state }) => (state.fetchStatus === "fetching" ? false : pauseAfter(state.data)),
  });
  return stateOf(result, (value) => value);
}

/** A page of a list, as the service gives it. */
interface ListPage {
  readonly result: readonly unknown[];
  readonly cursor: string | null;
}

interface ReadPages<Page extends ListPage> {
  /** The rows of all pages so far. */
  readonly rows: Page["result"];
  /** The newest page. */
  readonly page: Page;
  readonly isBusy: boolean;
  /** Reads another page; undefined at the end. */
  readonly more: (() => void) | undefined;
}

/**
 * The rows of a list that are read so far, and the reading of more. When it is reloaded it is read from its beginning, with
 * as many pages as are shown.
 */
export function usePages<Page extends ListPage>(
  key: QueryKey,
  load: (cursor: string | undefined, signal: AbortSignal) => Promise<Page>,
): QueryState<ReadPages<Page>> {
  const options: InfiniteQueryObserverOptions<Page, Error, InfiniteData<Page>, QueryKey, string | undefined> = {
    queryKey: key,
    queryFn: ({ pageParam, signal }) => load(pageParam, signal),
    initialPageParam: undefined,
    getNextPageParam: ({ cursor }) => cursor,
  };
  // The observer of lists has the same methods. Its results have more.
  const result = useObserver(
    InfiniteQueryObserver as unknown as typeof QueryObserver,
    options as unknown as QueryObserverOptions<InfiniteData<Page>>,
  ) as unknown as InfiniteQueryObserverResult<InfiniteData<Page>>;
  return stateOf(result, ({ pages }) => ({
    rows: pages.flatMap<Page["result"][number]>((page) => page.result),
    page: pages.at(-1) as Page,
    isBusy: result.isFetching,
    more: result.hasNextPage ? () => void result.fetchNextPage() : undefined,
  }));
}

type Result<T> = Pick<QueryObserverResult<T>, "data" | "error" | "isFetching" | "isPlaceholderData">;

/** Draws the component anew at each change of the result. A key that the service refuses ends the session. */
function useObserver<T>(Observer: typeof QueryObserver, options: QueryObserverOptions<T>): Result<T> {
  const { queries, leave } = useSession();
  const defaulted = queries.defaultQueryOptions({ ...options, _optimisticResults: "optimistic" });
  const [observer] = useState(() => new Observer<T>(queries, defaulted));
  const [, redraw] = useState(0);
  useEffect(() => observer.subscribe(() => redraw((before) => before + 1)), [observer]);
  useEffect(() => observer.setOptions(defaulted));
  const result = observer.getOptimisticResult(defaulted);
  const { error } = result;
  useEffect(() => {
    if (isRefusal(error)) leave((error as Error).message);
  }, [error]);
  // The library forgets a failure when it asks again. Here it stays until the next answer, so that nothing flickers.
  const failed = useRef<{ readonly hash: string; readonly error: Error | null }>(undefined);
  const isAsking = result.isPending || result.isPlaceholderData;
  if (!isAsking) failed.current = { hash: defaulted.queryHash, error };
  const former = failed.current?.hash === defaulted.queryHash ? failed.current.error : null;
  return isAsking && former !== null
    ? { data: undefined, error: former, isFetching: true, isPlaceholderData: false }
    : result;
}

function stateOf<T, Value>(
  { data, error, isPlaceholderData: isFormer }: Result<T>,
  valueFrom: (data: T) => Value,
): QueryState<Value> {
  if (error instanceof ServiceError && error.status === 404) return { kind: "absent", error };
  if (data !== undefined) {
    return { kind: "ready", value: valueFrom(data), isFormer, error: error ?? undefined };
  }
  return error === null ? { kind: "loading" } : { kind: "failed", error };
}
