/**
 * A door for the holders of a collection: a wallet signs a message with a nonce (EIP-191), and gets a session while it
 * holds a token. A transfer that the socket reports, or half a minute, has the holding checked again. Wallets that are
 * contracts can't sign this way and are refused.
 *
 *     SERVICE_KEY=… bun scripts/examples/token-gate.ts 0xbc4ca0eda7647a8ab7c2061c2e118a18a936f13d --port 8081
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { getAddress, verifyMessage } from "ethers";
import { type Client, type Contract, type FeedMessage, ServiceError } from "../../src/client/index.ts";
import { aborted, runExample, whenIndexed } from "./command-line.ts";
import { fileAnswer, html, pageAnswer } from "./html.ts";

const USAGE = `usage: SERVICE_KEY=… bun scripts/examples/token-gate.ts ADDRESS [--port 0] [--origin URL] [--chain eth] [--url URL]
  Serves the door on 127.0.0.1. --port, or the variable PORT: 0 takes a free one.
  --origin   the URL that visitors see, if a proxy stands before it; https makes the cookie secure`;

const NONCE_MS = 5 * 60_000;
const SESSION_MS = 60 * 60_000;
/** How long a holding counts without a look. The socket tells sooner, but it may be down for a while. */
const CHECKED_MS = 30_000;
/** Some 300 bytes each: 3 MB of nonces, which cost a visitor nothing, and as much of sessions. */
const MAX_ENTRIES = 10_000;
const MAX_BODY_BYTES = 4_096;
const COOKIE = "gate";

export interface GateOptions {
  readonly client: Client;
  readonly address: string;
  readonly chain?: string;
  /** Default: a free one. */
  readonly port?: number;
  /** The URL that visitors see. Default: the server's own. */
  readonly origin?: string;
  /** Milliseconds since 1970. Default: the system's clock. */
  readonly now?: () => number;
}

export interface TokenGate {
  readonly url: string;
  /** Resolves after `stop`. Rejects if the service refuses the key. */
  readonly ended: Promise<void>;
  stop(): Promise<void>;
}

interface Challenge {
  readonly wallet: string;
  readonly message: string;
}

interface Session {
  readonly wallet: string;
  /** SHA-256 of the secret: what leaks from this memory opens no door. */
  readonly secretHash: Buffer;
  /** The last look that found a token; undefined before the first one. */
  found?: { readonly at: number; readonly change: number };
}

/** Entries that expire, all after the same time. A new one beyond the limit displaces the oldest. */
export class ExpiringMap<T> {
  readonly #entries = new Map<string, { readonly value: T; readonly until: number }>();
  readonly #options: { readonly limit: number; readonly ms: number; readonly now: () => number };

  constructor(options: { readonly limit: number; readonly ms: number; readonly now: () => number }) {
    this.#options = options;
  }

  get size(): number {
    return this.#entries.size;
  }

  set(key: string, value: T): void {
    const { limit, ms, now } = this.#options;
    for (const [old, { until }] of this.#entries) {
      if (until > now() && this.#entries.size < limit) break;
      this.#entries.delete(old);
    }
    this.#entries.set(key, { value, until: now() + ms });
  }

  get(key: string): T | undefined {
    const entry = this.#entries.get(key);
    return entry !== undefined && entry.until > this.#options.now() ? entry.value : undefined;
  }

  /** Returns the entry and removes it, so that it counts once. */
  take(key: string): T | undefined {
    const value = this.get(key);
    this.#entries.delete(key);
    return value;
  }
}

/** Starts the door once the collection is indexed. Before that, the service doesn't know all holders. */
export async function startTokenGate(options: GateOptions): Promise<TokenGate> {
  const { client, address, chain = "eth", now = Date.now } = options;
  const contract = { chain, address };
  await whenIndexed(client, contract);
  const challenges = new ExpiringMap<Challenge>({ limit: MAX_ENTRIES, ms: NONCE_MS, now });
  const sessions = new ExpiringMap<Session>({ limit: MAX_ENTRIES, ms: SESSION_MS, now });
  let origin = options.origin?.replace(/\/+$/, "") ?? "";

  /** Number of changes that the socket has told of. */
  let change = 0;

  /** True while the session's wallet holds a token. */
  const isAdmitted = async (session: Session): Promise<boolean> => {
    const { found } = session;
    if (found !== undefined && found.change === change && now() - found.at < CHECKED_MS) return true;
    // Both are noted before the question: what changes during it has to be asked again.
    const look = { at: now(), change };
    const isHolder = await holdsToken(client, contract, session.wallet);
    if (isHolder) session.found = look;
    return isHolder;
  };

  const challenge = async (request: Request): Promise<Response> => {
    const { wallet } = await bodyOf(request);
    if (!/^0x[0-9a-f]{40}$/i.test(wallet ?? "")) return refusal(400, "wallet: must be 0x and 40 hex digits");
    const nonce = randomBytes(16).toString("hex");
    const message = [
      `${origin} asks you to sign in. This sends no transaction and costs nothing.`,
      "",
      `Wallet: ${getAddress((wallet as string).toLowerCase())}`,
      `Nonce: ${nonce}`,
      `Valid until: ${new Date(now() + NONCE_MS).toISOString()}`,
    ].join("\n");
    challenges.set(nonce, { wallet: (wallet as string).toLowerCase(), message });
    return Response.json({ nonce, message });
  };

  const open = async (request: Request): Promise<Response> => {
    const { nonce = "", signature = "" } = await bodyOf(request);
    // Taken before the signature is checked: one nonce is one attempt.
    const signed = challenges.take(nonce);
    if (signed === undefined) return refusal(403, "nonce: unknown, used or expired; ask for a new one");
    if (signerOf(signed.message, signature) !== signed.wallet)
      return refusal(403, "signature: not of this message by this wallet");
    const [id, secret] = [randomBytes(16).toString("hex"), randomBytes(32).toString("hex")];
    const session: Session = { wallet: signed.wallet, secretHash: sha256(secret) };
    if (!(await isAdmitted(session))) return refusal(403, "the wallet holds no token of the collection");
    sessions.set(id, session);
    const secure = origin.startsWith("https:") ? "; Secure" : "";
    const cookie = `${COOKIE}=${id}.${secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${SESSION_MS / 1_000}${secure}`;
    return Response.json({ inside: "/inside" }, { headers: { "set-cookie": cookie } });
  };

  const inside = async (request: Request): Promise<Response> => {
    const [id, session] = sessionOf(request, sessions);
    if (session === undefined) return refusal(401, "no session: sign in at /");
    if (!(await isAdmitted(session))) {
      sessions.take(id);
      return refusal(403, "the wallet holds no token of the collection any more");
    }
    return pageAnswer(
      html`<html lang="en"><title>Inside</title><h1>Welcome</h1><p><code>${session.wallet}</code></p></html>`,
    );
  };

  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: options.port ?? 0,
    maxRequestBodySize: MAX_BODY_BYTES,
    routes: {
      "/": { GET: () => pageAnswer(doorPage(address)) },
      "/gate.js": { GET: () => fileAnswer(SCRIPT, "text/javascript") },
      "/nonce": { POST: challenge },
      "/session": { POST: (request) => orUnavailable(open(request)) },
      "/inside": { GET: (request) => orUnavailable(inside(request)) },
    },
    fetch: () => refusal(404, "not found"),
  });
  origin ||= server.url.origin;
  const subscription = client.subscribe(address, { chain });
  const ended = (async () => {
    for await (const message of subscription) if (isChange(message)) change++;
  })();
  ended.catch(() => undefined);
  return {
    url: server.url.href,
    ended,
    stop: async () => {
      subscription.close();
      await server.stop(true);
    },
  };
}

/** True for messages after which a wallet may hold another token. A connection that was lost begins with `status`. */
const isChange = ({ type }: FeedMessage): boolean => ["transfers", "reorged", "status"].includes(type);

/** Asks the service whether a wallet holds a token of the collection, at the newest block. */
async function holdsToken(client: Client, contract: Contract, wallet: string): Promise<boolean> {
  const { result, asOf } = await client.tokenPage(contract, { owner: wallet, limit: 1 });
  // A service that is cut off from its log would let former holders in.
  if (asOf === null || asOf.finality === "stale")
    throw new ServiceError("the service is behind the chain", { status: 503, code: "log_unavailable" });
  return result.length > 0;
}

/** Returns the wallet that signed a message, lower case; undefined if it is no signature. */
function signerOf(message: string, signature: string): string | undefined {
  try {
    return verifyMessage(message, signature).toLowerCase();
  } catch {
    return undefined;
  }
}

/** Returns the id of the request's session, and the session if there is one with its secret. */
function sessionOf(request: Request, sessions: ExpiringMap<Session>): [string, Session | undefined] {
  const cookies = request.headers.get("cookie") ?? "";
  const pattern = new RegExp(`(?:^|; )${COOKIE}=([0-9a-f]{32})\\.([0-9a-f]{64})(?:;|$)`);
  const [, id = "", secret = ""] = pattern.exec(cookies) ?? [];
  const session = sessions.get(id);
  return [id, session !== undefined && timingSafeEqual(session.secretHash, sha256(secret)) ? session : undefined];
}

const sha256 = (text: string): Buffer => createHash("sha256").update(text).digest();

/** Returns the texts of a JSON body; an empty record if it is none. A form on another site can't send this type. */
async function bodyOf(request: Request): Promise<Readonly<Record<string, string | undefined>>> {
  if (request.headers.get("content-type") !== "application/json") return {};
  const body: unknown = await request.json().catch(() => undefined);
  if (typeof body !== "object" || body === null) return {};
  return Object.fromEntries(Object.entries(body).filter(([, value]) => typeof value === "string"));
}

const refusal = (status: number, message: string): Response => Response.json({ message }, { status });

/** While the service can't be asked, the door stays shut. */
const orUnavailable = (answer: Promise<Response>): Promise<Response> =>
  answer.catch((error: unknown) => {
    if (!(error instanceof ServiceError)) throw error;
    return refusal(503, "holdings can't be checked now: try again later");
  });

const doorPage = (address: string) => html`<html lang="en"><head><meta charset="utf-8"><title>Holders only</title>
<script src="/gate.js" defer></script></head><body><h1>Holders only</h1><p>Tokens of <code>${address}</code> open this door.</p>
<button>Sign in with a wallet</button><p id="answer"></p></body></html>`;

const SCRIPT = `const answer = document.querySelector("#answer");
const post = async (path, body) => {
  const headers = { "content-type": "application/json" };
  const response = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  const read = await response.json();
  if (!response.ok) throw new Error(read.message);
  return read;
};
document.querySelector("button").onclick = async () => {
  try {
    if (!window.ethereum) throw new Error("This browser has no wallet.");
    const [wallet] = await ethereum.request({ method: "eth_requestAccounts" });
    const { nonce, message } = await post("/nonce", { wallet });
    const hex = [...new TextEncoder().encode(message)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    const signature = await ethereum.request({ method: "personal_sign", params: ["0x" + hex, wallet] });
    location.href = (await post("/session", { nonce, signature })).inside;
  } catch (error) {
    answer.textContent = error.message;
  }
};`;

if (import.meta.main) {
  await runExample(USAGE, ["port", "origin"], async (line) => {
    const { client, chain, signal } = line;
    const origin = line.option("origin");
    const address = line.address(0, "ADDRESS");
    const gate = await startTokenGate({
      client,
      chain,
      port: line.port(),
      address,
      ...(origin === undefined ? {} : { origin }),
    });
    console.log(`The door is at ${gate.url}`);
    try {
      await Promise.race([gate.ended, aborted(signal)]);
    } finally {
      await gate.stop();
    }
  });
}
