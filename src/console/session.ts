/** The key of this tab, and the client that uses it. The key is kept in `sessionStorage` and nowhere else. */
import { Client, ServiceError } from "../client/index.ts";

const NAME = "evm-data-key";

/** Base URL of the service, with a slash at the end. The script is at `console/app.js` below it, on any host and path. */
export const BASE = new URL("..", import.meta.url).href;

export interface Session {
  readonly client: Client;
  readonly scope: "read" | "operate";
}

/** Signs in with a key, and keeps it for this tab. @throws ServiceError if the service refuses it */
export async function signIn(key: string): Promise<Session> {
  const client = new Client({ url: BASE, key });
  const scope = await scopeOf(client);
  sessionStorage.setItem(NAME, key);
  return { client, scope };
}

/** The session that this tab had before it was loaded again; undefined if it had none, or its key is refused now. */
export async function resumeSession(): Promise<Session | undefined> {
  const key = sessionStorage.getItem(NAME);
  if (key === null) return undefined;
  try {
    return await signIn(key);
  } catch (error) {
    if (isRefusal(error)) signOut();
    throw error;
  }
}

export function signOut(): void {
  sessionStorage.removeItem(NAME);
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
