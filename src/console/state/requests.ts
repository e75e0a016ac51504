/** Requests as lines for a shell: those that the screen sent, and those that a button would send. Nothing here writes a path. */
import { Client } from "../../client/index.ts";
import { BASE } from "./base.ts";
import type { WatchedValue } from "./watched.ts";

/** The newest request of each kind, in the order in which the kinds were first sent. */
export type SentRequests = ReadonlyMap<string, string>;

/** Lines that a screen shows. A list that is read on and on has the same kind of request each time. */
const MOST_KINDS = 30;

function note(sent: WatchedValue<SentRequests>, kind: string, line: string): void {
  const { value: before } = sent;
  const isNews = before.get(kind) !== line && (before.has(kind) || before.size < MOST_KINDS);
  if (isNews) sent.value = new Map(before).set(kind, line);
}

/** The platform's `fetch`, which also notes each request as a line. */
export const notedFetch =
  (sent: WatchedValue<SentRequests>) =>
  (url: string, init: RequestInit): Promise<Response> => {
    note(sent, kindOf(url, init), curlLine(url, init));
    return fetch(url, init);
  };

/** The platform's `WebSocket`, which also notes each subscription. */
export const notedSocket = (sent: WatchedValue<SentRequests>) =>
  class extends WebSocket {
    override send(message: string): void {
      const { action } = JSON.parse(message) as { readonly action: string };
      const line = `wscat --header "X-API-Key: $KEY" --connect ${quoted(this.url)}\n> ${message}`;
      if (action === "subscribe") note(sent, this.url, line);
      super.send(message);
    }
  };

/** Requests of one kind differ in the values of their parameters only: pages, blocks and texts. */
function kindOf(url: string, { method }: RequestInit): string {
  const { pathname, searchParams } = new URL(url);
  return [method, pathname, ...[...searchParams.keys()].sort()].join(" ");
}

/** The line of the request that a call would send. Nothing is sent. */
export function lineOf(call: (client: Client) => Promise<unknown>): string {
  let line = "";
  const refuse = async (url: string, init: RequestInit): Promise<Response> => {
    line = curlLine(url, init);
    throw new Error("not sent");
  };
  // The client hands the request over before it first waits.
  call(new Client({ url: BASE, key: "", attempts: 1, fetch: refuse })).catch(() => undefined);
  return line;
}

/** Characters that may stand in a query as they are, and those of a placeholder such as `<name>`. */
const READABLE = /%(?:2C|3A|3C|3E)/g;

/** A request as curl sends it, in which `$KEY` stands for the key. */
function curlLine(url: string, { method = "GET", body }: RequestInit): string {
  const verb = method === "GET" ? "" : ` -X ${method}`;
  const data = typeof body === "string" ? ` -d ${quoted(body)}` : "";
  return `curl${verb} -H "X-API-Key: $KEY"${data} ${quoted(url.replace(READABLE, decodeURIComponent))}`;
}

/** A word for the shell. */
export const quoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`;
