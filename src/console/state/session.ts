/** The session of a visitor: the client with its key, and what all screens share. */
import { QueryClient, type QueryKey } from "@tanstack/query-core";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { Client, ServiceError } from "../../client/index.ts";
import { BASE } from "./base.ts";
import { forget, keepForTab, keepGiven, keptKey } from "./kept-key.ts";
import { notedFetch, notedSocket, type SentRequests } from "./requests.ts";
import { WatchedValue } from "./watched.ts";

export interface Session {
  readonly key: string;
  readonly client: Client;
  readonly scope: "read" | "operate";
  /** The service's answers, by the keys of queries. */
  readonly queries: QueryClient;
  /** Why answers of a chain may be old, by the name of the chain in lower case. Each chain's newest answer decides. */
  readonly troubles: WatchedValue<ReadonlyMap<string, string | undefined>>;
  /** The requests that the screen sent. */
  readonly sent: WatchedValue<SentRequests>;
}

/** An answer that no screen shows is forgotten after this time, and a screen that opens later has to wait for a new one. */
const KEPT_MS = 1_000;

const newQueries = (): QueryClient =>
  new QueryClient({
    defaultOptions: {
      queries: {
        // The client itself retries requests that the service refuses for a while.
        retry: false,
        networkMode: "always",
        gcTime: KEPT_MS,
        refetchOnReconnect: true,
        refetchOnWindowFocus: false,
      },
    },
  });

/** Opens a session with a key, and keeps the key for this tab. @throws ServiceError if the service refuses it */
export async function openSession(key: string): Promise<Session> {
  const troubles: Session["troubles"] = new WatchedValue(new Map());
  const sent: Session["sent"] = new WatchedValue(new Map());
  const onChainState = (chain: string, trouble: string | undefined) => {
    const name = chain.toLowerCase();
    if (troubles.value.get(name) !== trouble) troubles.value = new Map(troubles.value).set(name, trouble);
  };
  const client = new Client({ url: BASE, key, onChainState, fetch: notedFetch(sent), WebSocket: notedSocket(sent) });
  const scope = await scopeOf(client);
  keepForTab(key);
  return { key, client, scope, queries: newQueries(), troubles, sent };
}

/**
 * Signs in with a key that the visitor gave, here and in tabs that wait at the gate.
 * @param isRemembered whether this device keeps the key @throws ServiceError if the service refuses it
 */
export async function signIn(key: string, isRemembered: boolean): Promise<Session> {
  const session = await openSession(key);
  keepGiven(key, isRemembered);
  return session;
}

/** The session of the key that is kept; undefined if none is. @throws ServiceError if the key is refused */
export async function resumeSession(): Promise<Session | undefined> {
  const key = await keptKey();
  if (key === undefined) return undefined;
  try {
    return await openSession(key);
  } catch (error) {
    if (isRefusal(error)) forget(key);
    throw error;
  }
}

/** True if the service takes the key no more, or never did. */
export const isRefusal = (error: unknown): boolean => error instanceof ServiceError && error.status === 401;

/** A key that may not read the status has scope `read`. */
async function scopeOf(client: Client): Promise<Session["scope"]> {
  try {
    await client.status();
    return "operate";
  } catch (error) {
    if (error instanceof ServiceError && error.status === 403) return "read";
    throw error;
  }
}

/** The session as screens get it. */
export interface ScreenSession extends Session {
  /** Asks again for all answers on the page whose keys begin with these parts. */
  reload(...key: QueryKey): void;
  /**
   * Forgets the key and shows the gate. With the reason why the service refused the key, only this tab does so. Without one,
   * the visitor signs out: all tabs do.
   */
  leave(reason?: string): void;
}

export const SessionContext = createContext<ScreenSession | undefined>(undefined);

/** The session of the screen that calls it. */
export function useSession(): ScreenSession {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error("a screen needs a session");
  return session;
}
