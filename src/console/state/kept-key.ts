/**
 * Where a browser keeps the key: `sessionStorage` for a tab, and `localStorage` for this device if the visitor asked for that.
 * Tabs of one service hand it to each other: a channel reaches pages of the same origin only.
 */
import { BASE } from "./base.ts";

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

/** Keeps a key for this tab. */
export const keepForTab = (key: string): void => sessionStorage.setItem(NAME, key);

/** Keeps a key that the visitor gave, or no longer keeps one, on this device. Gives it to the tabs that wait at the gate. */
export function keepGiven(key: string, isRemembered: boolean): void {
  if (isRemembered) localStorage.setItem(NAME, key);
  else localStorage.removeItem(NAME);
  tellTabs({ is: "key", key });
}

/** The key of this tab, of this device or of another tab; undefined if there is none. */
export const keptKey = async (): Promise<string | undefined> =>
  sessionStorage.getItem(NAME) ?? localStorage.getItem(NAME) ?? (await keyOfTabs());

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
