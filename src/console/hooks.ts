/** What the screens share: the place in the console, answers of the service, and messages of a collection. */
import { createContext } from "preact";
import { useCallback, useContext, useEffect, useRef, useState } from "preact/hooks";
import { type FeedMessage, ServiceError } from "../client/index.ts";
import { BASE, isRefusal, useSession } from "./session.ts";

/** Addresses of the chains' block explorers, by the names of chains. The page has them unless the operator switched that off. */
const EXPLORERS: Readonly<Record<string, string>> = JSON.parse(
  document.getElementById("console")?.dataset["explorers"] ?? "{}",
);
export const explorerOf = (chain: string): string | undefined => EXPLORERS[chain.toLowerCase()];

/** The segments of the path behind `#/`, decoded, and its query. The service never sees them. */
export interface Place {
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

export function usePlace(): Place {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    addEventListener("hashchange", changed);
    // Effects run after the first drawing. The place may have changed before.
    changed();
    return () => removeEventListener("hashchange", changed);
  }, []);
  return parsePlace(hash);
}

function parsePlace(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Changes of the query. An undefined value or an empty list removes the parameter. */
type QueryChanges = Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * The query behind `#`, and a function that changes it: the chosen block, view and filter of a screen. So a link holds them,
 * and Back finds them. A change replaces the entry of the history, so that Back leads to the screen before.
 */
export function useQuery(): [query: URLSearchParams, change: (changes: QueryChanges) => void] {
  return [usePlace().query, changeQuery];
}

function changeQuery(changes: QueryChanges): void {
  const [path = "", text = ""] = location.hash.split("?");
  const query = new URLSearchParams(text);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const one of [value ?? []].flat()) query.append(name, one);
  }
  location.replace(`${path || "#/"}${query.size === 0 ? "" : `?${query}`}`);
}

/** The block of a query; undefined if it has none. */
export function blockIn(query: URLSearchParams): number | undefined {
  const text = query.get("block") ?? "";
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/** A page of a list, as the service gives it. */
interface ListPage<Row> {
  readonly result: readonly Row[];
  readonly cursor: string | null;
}

interface Paged<Row, Page> {
  readonly rows: readonly Row[];
  /** The newest page; undefined before the first one. */
  readonly page: Page | undefined;
  readonly error: Error | undefined;
  readonly isBusy: boolean;
  /** Reads another page; undefined at the end. */
  readonly more: (() => void) | undefined;
}

/** The place of a page: the cursor of the one before, or the block of the first one. */
type PageAt = { readonly cursor: string } | { readonly as_of_block: number | undefined };

/**
 * The rows of a list that are read so far, and the reading of more. When `inputs` change it is read from its beginning, with as
 * many rows as are shown.
 */
export function usePages<Row, Page extends ListPage<Row>>(
  load: (at: PageAt, signal: AbortSignal) => Promise<Page>,
  block: number | undefined,
  inputs: readonly unknown[],
): Paged<Row, Page> {
  const { leave } = useSession();
  const [{ rows, page }, setListed] = useState<{ rows: readonly Row[]; page: Page | undefined }>({
    ...{ rows: [], page: undefined },
  });
  const [error, setError] = useState<Error>();
  const [isBusy, setBusy] = useState(true);
  const stopping = useRef(new AbortController());
  /** Reads on from a page until there are more rows than `count`, and shows them at once. */
  const read = async (from: { rows: readonly Row[]; page: Page | undefined }, count: number) => {
    stopping.current.abort();
    stopping.current = new AbortController();
    const { signal } = stopping.current;
    setBusy(true);
    try {
      let now = from;
      let cursor = from.page?.cursor ?? null;
      do {
        const next: Page = await load(cursor === null ? { as_of_block: block } : { cursor }, signal);
        now = { rows: [...now.rows, ...next.result], page: next };
        cursor = next.cursor;
      } while (cursor !== null && now.rows.length < count);
      setListed(now);
      setError(undefined);
    } catch (failure) {
      if (signal.aborted) return;
      if (isRefusal(failure)) leave((failure as Error).message);
      else setError(failure as Error);
    } finally {
      if (!signal.aborted) setBusy(false);
    }
  };
  useEffect(() => void read({ rows: [], page: undefined }, rows.length), [block, ...inputs]);
  useEffect(() => () => stopping.current.abort(), []);
  const more =
    page === undefined || page.cursor === null ? undefined : () => void read({ rows, page }, rows.length + 1);
  return { rows, page, error, isBusy, more };
}

export interface Loaded<T> {
  /** The newest answer. It stays while the next one is awaited. */
  readonly value: T | undefined;
  readonly error: Error | undefined;
  readonly isLoading: boolean;
  reload(): void;
}

/** Counts how often the service came back after it could not be reached. Answers are asked again then. */
export const ReturnsContext = createContext(0);

/** Asks the service when the screen opens, when `inputs` change, and when the service is back. */
export function useAnswer<T>(load: (signal: AbortSignal) => Promise<T>, inputs: readonly unknown[]): Loaded<T> {
  const { leave } = useSession();
  const returns = useContext(ReturnsContext);
  const [turn, setTurn] = useState(0);
  const [state, setState] = useState<Omit<Loaded<T>, "reload">>({
    value: undefined,
    error: undefined,
    isLoading: true,
  });
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    setState((before) => ({ ...before, isLoading: true }));
    load(signal).then(
      (value) => !signal.aborted && setState({ value, error: undefined, isLoading: false }),
      (error: Error) => {
        if (signal.aborted) return;
        if (isRefusal(error)) leave(error.message);
        else setState((before) => ({ ...before, error, isLoading: false }));
      },
    );
    return () => controller.abort();
  }, [...inputs, turn, returns]);
  return { ...state, reload: useCallback(() => setTurn((before) => before + 1), []) };
}

/** Like `useAnswer`, again and again while the page can be seen, with a pause after each answer. */
export function usePolled<T>(
  load: (signal: AbortSignal) => Promise<T>,
  pauseMs: number,
  inputs: readonly unknown[],
): Loaded<T> {
  const answer = useAnswer(load, inputs);
  const { isLoading, reload } = answer;
  useEffect(() => {
    if (isLoading) return;
    const again = () => document.visibilityState === "visible" && reload();
    const timer = setTimeout(again, pauseMs);
    document.addEventListener("visibilitychange", again);
    return () => {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", again);
    };
  }, [isLoading, reload, pauseMs]);
  return answer;
}

interface Connection {
  readonly isLost: boolean;
  readonly returns: number;
}

/** Pauses between two probes, and the time that the service has to answer one. */
const [PROBE_MS, LOST_PROBE_MS, PROBE_TIMEOUT_MS] = [3_000, 1_000, 5_000];

/** Probes whether the service answers, while the page can be seen. */
export function useConnection(): Connection {
  const [{ isLost, returns }, setConnection] = useState<Connection>({ isLost: false, returns: 0 });
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isOver = false;
    const probe = async () => {
      clearTimeout(timer);
      if (document.visibilityState !== "visible") return;
      const isUp = await isReachable();
      if (isOver) return;
      setConnection((before) => (before.isLost === !isUp ? before : afterProbe(before, isUp)));
      clearTimeout(timer);
      timer = setTimeout(probe, isUp ? PROBE_MS : LOST_PROBE_MS);
    };
    timer = setTimeout(probe, PROBE_MS);
    document.addEventListener("visibilitychange", probe);
    return () => {
      isOver = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", probe);
    };
  }, []);
  return { isLost, returns };
}

const afterProbe = ({ returns }: Connection, isUp: boolean): Connection =>
  isUp ? { isLost: false, returns: returns + 1 } : { isLost: true, returns };

/** Statuses of a proxy in front of a service that doesn't answer. */
const UNREACHABLE = [502, 503, 504];

async function isReachable(): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(PROBE_TIMEOUT_MS);
    const { status } = await fetch(`${BASE}health/live`, { method: "HEAD", cache: "no-store", signal });
    return !UNREACHABLE.includes(status);
  } catch {
    return false;
  }
}

/** Hears the messages of a collection while the screen is open. It gets indexed if it was unknown. */
export function useMessages(chain: string, address: string, onMessage: (message: FeedMessage) => void): void {
  const { client, leave } = useSession();
  const returns = useContext(ReturnsContext);
  const hear = useRef(onMessage);
  hear.current = onMessage;
  const since = useRef<string | number>(undefined);
  useEffect(() => {
    // The client waits ever longer before it connects again. A service that is back is subscribed to at once.
    const from = returns === 0 || since.current === undefined ? {} : { since: since.current };
    const subscription = client.subscribe(address, { chain, ...from });
    const read = async () => {
      for await (const message of subscription) hear.current(message);
    };
    read().catch((error: unknown) => {
      if (error instanceof ServiceError && isRefusal(error)) leave(error.message);
    });
    return () => {
      since.current = subscription.since;
      subscription.close();
    };
  }, [client, chain, address, returns]);
}

/** The state of a request that a button makes: its words while it runs, and afterwards. */
export function useAction(): [state: string | undefined, run: (work: () => Promise<string>) => void, isBusy: boolean] {
  const { leave } = useSession();
  const [state, setState] = useState<string>();
  const [isBusy, setBusy] = useState(false);
  const run = (work: () => Promise<string>) => {
    setBusy(true);
    work()
      .then(setState, (error: Error) => (isRefusal(error) ? leave(error.message) : setState(error.message)))
      .finally(() => setBusy(false));
  };
  return [state, run, isBusy];
}
