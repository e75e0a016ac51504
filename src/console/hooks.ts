/** What the screens share: the place in the console, answers of the service, and messages of a collection. */
import { createContext } from "preact";
import { useCallback, useContext, useEffect, useRef, useState } from "preact/hooks";
import { type FeedMessage, ServiceError } from "../client/index.ts";
import { isRefusal, type Session } from "./session.ts";

export interface Signed extends Session {
  /** Forgets the key, with a reason that the gate shows. */
  leave(reason?: string): void;
}

export const SessionContext = createContext<Signed | undefined>(undefined);

/** The session of a screen behind the gate. */
export function useSession(): Signed {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error("a screen needs a session");
  return session;
}

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
    // It may have changed between the first look and this one.
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
export type QueryChanges = Readonly<Record<string, string | readonly string[] | undefined>>;

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

export interface Loaded<T> {
  /** The newest answer. It stays while the next one is awaited. */
  readonly value: T | undefined;
  readonly error: Error | undefined;
  readonly isLoading: boolean;
  reload(): void;
}

/** Asks the service when the screen opens, and again when `inputs` change. */
export function useAnswer<T>(load: (signal: AbortSignal) => Promise<T>, inputs: readonly unknown[]): Loaded<T> {
  const { leave } = useSession();
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
  }, [...inputs, turn]);
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

/** Hears the messages of a collection while the screen is open. It gets indexed if it was unknown. */
export function useMessages(chain: string, address: string, onMessage: (message: FeedMessage) => void): void {
  const { client, leave } = useSession();
  const hear = useRef(onMessage);
  hear.current = onMessage;
  useEffect(() => {
    const subscription = client.subscribe(address, { chain });
    const read = async () => {
      for await (const message of subscription) hear.current(message);
    };
    read().catch((error: unknown) => {
      if (error instanceof ServiceError && isRefusal(error)) leave(error.message);
    });
    return () => subscription.close();
  }, [client, chain, address]);
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
