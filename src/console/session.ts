/** The key, the client that uses it, and the tabs that share it. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { Client, ServiceError } from "../client/index.ts";

/** Base URL of the service, with a slash at the end. The script is at `console/app.js` below it, on any host and path. */
export const BASE = new URL("..", import.meta.url).href;

// `sessionStorage` keeps the key for a tab, and `localStorage` for this device if the visitor asked for that. Tabs of one
// service hand it to each other: a channel reaches pages of the same origin only.

/** Services below other paths of one origin have other keys. */
const NAME = `evm-data-key:${new URL(BASE).pathname}`;
const tabs = new BroadcastChannel(NAME);
type TabMessage = { readonly is: "ask" | "out" } | { readonly is: "key"; readonly key: string };
const tellTabs = (message: TabMessage) => tabs.postMessage(message);
/** How long a new tab waits for the key of another one before it shows the gate. */
const OTHER_TABS_MS = 150;

/** Hears the other tabs. Returns the function that ends it. */
function hearTabs(hear: (message: TabMessage) => void): () => void {
  const listener = ({ data }: MessageEvent<TabMessage>) => hear(data);
  tabs.addEventListener("message", listener);
  return () => tabs.removeEventListener("message", listener);
}

hearTabs(({ is }) => {
  const key = sessionStorage.getItem(NAME);
  if (is === "ask" && key !== null) tellTabs({ is: "key", key });
});

/** Hears keys that another tab signed in with. Returns the function that ends it. */
export const onKeyOfTabs = (hear: (key: string) => void) =>
  hearTabs((message) => message.is === "key" && hear(message.key));

/** Hears that the visitor signed out in another tab. Returns the function that ends it. */
export const onSignOutOfTabs = (hear: () => void) => hearTabs(({ is }) => is === "out" && hear());

/** The key of another open tab; undefined if none answers. */
function keyOfTabs(): Promise<string | undefined> {
  return new Promise((resolve) => {
    const answer = (key?: string) => {
      clearTimeout(timer);
      end();
      resolve(key);
    };
    const end = onKeyOfTabs(answer);
    const timer = setTimeout(answer, OTHER_TABS_MS);
    tellTabs({ is: "ask" });
  });
}

export interface Session {
  readonly key: string;
  readonly client: Client;
  readonly scope: "read" | "operate";
  readonly troubles: Troubles;
}

/** Why answers of a chain may be old, as the newest answer of each chain says. */
class Troubles {
  readonly #byChain = new Map<string, string>();
  readonly #listeners = new Set<() => void>();

  of(chain: string): string | undefined {
    return this.#byChain.get(chain.toLowerCase());
  }

  tell(chain: string, trouble: string | undefined): void {
    const name = chain.toLowerCase();
    if (this.#byChain.get(name) === trouble) return;
    if (trouble === undefined) this.#byChain.delete(name);
    else this.#byChain.set(name, trouble);
    for (const listener of this.#listeners) listener();
  }

  /** Calls back after each change. Returns the function that ends it. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

/** Opens a session with a key, and keeps the key for this tab. @throws ServiceError if the service refuses it */
export async function openSession(key: string): Promise<Session> {
  const troubles = new Troubles();
  const client = new Client({ url: BASE, key, onChainState: (chain, trouble) => troubles.tell(chain, trouble) });
  const scope = await scopeOf(client);
  sessionStorage.setItem(NAME, key);
  return { key, client, scope, troubles };
}

/**
 * Signs in with a key that the visitor gave, here and in tabs that wait at the gate.
 * @param isRemembered whether this device keeps the key @throws ServiceError if the service refuses it
 */
export async function signIn(key: string, isRemembered: boolean): Promise<Session> {
  const session = await openSession(key);
  if (isRemembered) localStorage.setItem(NAME, key);
  else localStorage.removeItem(NAME);
  tellTabs({ is: "key", key });
  return session;
}

/** The session of this tab, of this device or of another tab; undefined if there is none. @throws ServiceError if its key is refused */
export async function resumeSession(): Promise<Session | undefined> {
  const key = sessionStorage.getItem(NAME) ?? localStorage.getItem(NAME) ?? (await keyOfTabs());
  if (key === undefined) return undefined;
  try {
    return await openSession(key);
  } catch (error) {
    if (isRefusal(error)) forget(key);
    throw error;
  }
}

/** Forgets a key that the service refuses, in this tab and on this device. */
export function forget(key: string): void {
  for (const storage of [sessionStorage, localStorage]) if (storage.getItem(NAME) === key) storage.removeItem(NAME);
}

/** Forgets the key in this tab and on this device, whichever it is. */
export function forgetAll(): void {
  for (const storage of [sessionStorage, localStorage]) storage.removeItem(NAME);
}

/** Signs out in all tabs, and on this device. */
export function signOut(): void {
  forgetAll();
  tellTabs({ is: "out" });
}

/** True if the key is unknown, revoked or run out. */
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

export interface Signed extends Session {
  /** Forgets a key that is refused, with the reason that the gate shows. Without a reason it signs out in all tabs. */
  leave(reason?: string): void;
}

export const SessionContext = createContext<Signed | undefined>(undefined);

/** The session of a screen behind the gate. */
export function useSession(): Signed {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error("a screen needs a session");
  return session;
}
