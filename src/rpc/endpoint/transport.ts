/**
 * Carries bytes to an endpoint and back, over http(s) or ws(s). Each request is one JSON-RPC payload or batch. Answers
 * stay bytes, so that a large one can go to a worker unparsed. Errors never contain the URL, only the label (`eth#1`).
 */
import WebSocket, { type ClientOptions } from "ws";
import type { Clock } from "../../core/clock.ts";
import { jsonIn } from "../../core/json-bytes.ts";
import { decodedUrlPart } from "../../core/secrets.ts";
import { type HttpTarget, post } from "../http.ts";
import { connectionFault, RpcError } from "../rpc-errors.ts";

export interface SendOptions {
  readonly signal?: AbortSignal | undefined;
  /** Timeout of a small request. Default: that of the transport. */
  readonly smallMs?: number | undefined;
  /** True to use no kept connection. */
  readonly isFresh?: boolean | undefined;
}

export interface Transport {
  /** The target for requests from another thread. Undefined for a socket, which belongs to this thread. */
  readonly http: HttpTarget | undefined;
  /** @param payload JSON text. @throws RpcError `transient`, `late` or `rate` */
  send(payload: string, ids: readonly number[], options?: SendOptions): Promise<Uint8Array>;
  close(): void;
}

interface TransportOptions extends HttpTarget {
  readonly clock: Clock;
  /** Called when the node announces a new block. Only a socket has announcements. */
  readonly onHead?: () => void;
}

export function createTransport(options: TransportOptions): Transport {
  return /^wss?:/i.test(options.url) ? new SocketTransport(options) : new HttpTransport(options);
}

class HttpTransport implements Transport {
  readonly http: HttpTarget;
  readonly #closing = new AbortController();

  constructor({ url, label, timeoutMs, maxBytes, proxy }: TransportOptions) {
    this.http = { url, label, timeoutMs, maxBytes, proxy };
  }

  send(
    payload: string,
    _ids: readonly number[],
    { signal, smallMs = this.http.timeoutMs, isFresh = false }: SendOptions = {},
  ): Promise<Uint8Array> {
    const closed = this.#closing.signal;
    const target = { ...this.http, timeoutMs: smallMs, isFresh };
    return post(target, payload, signal === undefined ? closed : AbortSignal.any([signal, closed]));
  }

  close(): void {
    const meta = { endpoint: this.http.label };
    this.#closing.abort(new RpcError("transient", "the endpoint is closed", { meta }));
  }
}

/** Sent with id 0, for which no request waits. A node that refuses the subscription is polled like over http. */
const SUBSCRIBE_HEADS = '{"jsonrpc":"2.0","id":0,"method":"eth_subscribe","params":["newHeads"]}';

/** The socket's error for a too large answer. It closes the connection and names no request, so all are retried. */
const TOO_LARGE = "WS_ERR_UNSUPPORTED_MESSAGE_LENGTH";
/** An answer up to this size is parsed if its id is at neither end. */
const MAX_PARSED = 64 * 1024;

interface PendingRequest {
  readonly isBatch: boolean;
  readonly isSmall: boolean;
  readonly resolve: (bytes: Uint8Array) => void;
  readonly reject: (error: Error) => void;
}

class SocketTransport implements Transport {
  readonly http = undefined;
  readonly #options: TransportOptions;
  /** Requests by the id of their first call. All wait on the current socket and fail with it. */
  readonly #waiting = new Map<number, PendingRequest>();
  /** The socket that is open or opening. Events of earlier sockets, above all their `close`, are ignored. */
  #current: WebSocket | undefined;
  #opening: Promise<WebSocket> | undefined;
  #failOpening: (error: Error) => void = () => undefined;
  /** True until the node answers the subscription to new blocks. */
  #isSubscribing = false;
  #answers = 0;
  /** Messages of the current socket and of earlier ones, announcements included. */
  #messages = 0;
  #closed = false;

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  async send(payload: string, ids: readonly number[], { signal, smallMs }: SendOptions = {}): Promise<Uint8Array> {
    const socket = await this.#open();
    signal?.throwIfAborted();
    const { clock, timeoutMs } = this.#options;
    const key = ids[0] as number;
    const answersBefore = this.#answers;
    const messagesBefore = this.#messages;
    return new Promise<Uint8Array>((resolve, reject) => {
      const settle = (act: () => void) => {
        signal?.removeEventListener("abort", onAbort);
        this.#waiting.delete(key);
        cancelTimeout();
        act();
      };
      const onAbort = () => settle(() => reject(signal?.reason));
      const giveUp = (ms: number) => {
        const reason = `no answer within ${ms} ms`;
        settle(() => reject(this.#lost(reason, "late")));
        // A dead connection can stay open for ever without an error. If no request was answered meanwhile, close it.
        if (this.#answers === answersBefore) this.#fail(socket, reason);
      };
      // A node may answer in order. So a small request waits like the others while a large one is before it.
      const mayBeBusy = () =>
        this.#messages > messagesBefore || [...this.#waiting.values()].some((waiting) => !waiting.isSmall);
      let cancelTimeout = clock.after(smallMs ?? timeoutMs, () => {
        if (smallMs === undefined || !mayBeBusy()) giveUp(smallMs ?? timeoutMs);
        else cancelTimeout = clock.after(timeoutMs - smallMs, () => giveUp(timeoutMs));
      });
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#waiting.set(key, {
        isBatch: ids.length > 1,
        isSmall: smallMs !== undefined,
        resolve: (bytes) => settle(() => resolve(bytes)),
        reject: (error) => settle(() => reject(error)),
      });
      socket.send(payload);
    });
  }

  #lost(reason: string, kind: "transient" | "late" = "transient"): RpcError {
    const meta = { endpoint: this.#options.label };
    return new RpcError(kind, `the endpoint's socket failed: ${reason}`, { meta });
  }

  #open(): Promise<WebSocket> {
    if (this.#closed) return Promise.reject(this.#lost("closed"));
    if (this.#current?.readyState === WebSocket.OPEN) return Promise.resolve(this.#current);
    this.#opening ??= new Promise<WebSocket>((resolve, reject) => {
      const { url, maxBytes, proxy } = this.#options;
      const { address, headers } = withLogin(url);
      // The runtime's own implementation takes the proxy as an option.
      const way: ClientOptions & { readonly proxy?: string } = proxy === undefined ? {} : { proxy };
      // A compressed message would take three times the limit in memory before it is refused. Nodes rarely compress.
      const bounds: ClientOptions = { maxPayload: maxBytes, perMessageDeflate: false };
      const socket = new WebSocket(address, { ...way, ...bounds, headers });
      // The previous socket is closing and will not answer any more.
      if (this.#current !== undefined) this.#fail(this.#current, "closed by the endpoint");
      this.#current = socket;
      const cancelTimeout = this.#options.clock.after(this.#options.timeoutMs, () =>
        this.#fail(socket, "the connection was not opened in time"),
      );
      this.#failOpening = (error) => {
        cancelTimeout();
        reject(error);
      };
      socket.on("open", () => {
        if (this.#current !== socket) return;
        cancelTimeout();
        this.#opening = undefined;
        this.#isSubscribing = this.#options.onHead !== undefined;
        if (this.#isSubscribing) socket.send(SUBSCRIBE_HEADS);
        resolve(socket);
      });
      socket.on("message", (data: Buffer | ArrayBuffer | Buffer[]) => {
        if (this.#current === socket) this.#receive(data);
      });
      socket.on("error", (error: Error) => {
        if ((error as { code?: unknown }).code !== TOO_LARGE) this.#fail(socket, connectionFault(error));
        else this.#fail(socket, "an answer is too large", "late");
      });
      socket.on("close", () => this.#fail(socket, "closed by the endpoint"));
    });
    return this.#opening;
  }

  /** Drops a socket and rejects the requests that wait on it. The next request opens a new one. */
  #fail(socket: WebSocket, reason: string, kind: "transient" | "late" = "transient"): void {
    if (this.#current !== socket) return;
    this.#current = undefined;
    this.#opening = undefined;
    socket.terminate();
    const error = this.#lost(reason, kind);
    this.#failOpening(error);
    for (const waiting of [...this.#waiting.values()]) waiting.reject(error);
  }

  #receive(data: Buffer | ArrayBuffer | Buffer[]): void {
    const buffer = Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Buffer);
    this.#messages++;
    // An answer may have 50 MB, so it is not parsed here. Its id is near its start or end. A batch waits under the id
    // of its first call.
    const head = buffer.subarray(0, 200).toString("latin1");
    if (head.includes('"eth_subscription"')) {
      this.#options.onHead?.();
      return;
    }
    const ends = [head, buffer.subarray(-200).toString("latin1")];
    const isOddOne = buffer.length <= MAX_PARSED || head.trimStart().startsWith("[");
    const id = ends.map(idAt).find((one) => this.#waiting.has(one)) ?? (isOddOne ? this.#idIn(buffer) : undefined);
    const waiting = id === undefined ? undefined : this.#waiting.get(id);
    if (waiting === undefined) return;
    this.#answers++;
    waiting.resolve(new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength));
  }

  /** Parses the answer to find its id: a batch's answers come in any order, and small answers may format ids freely. */
  #idIn(buffer: Buffer): number | undefined {
    try {
      const answers = [jsonIn(buffer)].flat() as readonly { id?: unknown; error?: unknown }[];
      const known = answers.map(({ id }) => Number(id)).find((id) => this.#waiting.has(id));
      const [only] = answers;
      const isUnnamed = answers.length === 1 && (only?.id ?? null) === null && only?.error;
      if (known !== undefined || !(isUnnamed || only?.id === 0)) return known;
      // Refusals without an id come in the order of the requests, and the subscription was sent first.
      const isOfHeads = this.#isSubscribing;
      this.#isSubscribing = false;
      return isOfHeads || only?.id === 0 ? undefined : this.#unread();
    } catch {
      return undefined;
    }
  }

  /** Guesses the request that was refused without its id: the last batch, or the only waiting request. */
  #unread(): number | undefined {
    const waiting = [...this.#waiting];
    const [id] =
      waiting.findLast(([, { isBatch }]) => isBatch) ?? (waiting.length === 1 ? waiting[0] : undefined) ?? [];
    return id;
  }

  close(): void {
    this.#closed = true;
    if (this.#current !== undefined) this.#fail(this.#current, "closed");
  }
}

/** Moves a login from the URL into a header. The socket library would send a password with its URL escapes. */
function withLogin(url: string): { address: string; headers: Record<string, string> } {
  const parsed = new URL(url);
  const { username, password } = parsed;
  if (username === "" && password === "") return { address: url, headers: {} };
  parsed.username = "";
  parsed.password = "";
  const login = Buffer.from(`${decodedUrlPart(username)}:${decodedUrlPart(password)}`).toString("base64");
  return { address: parsed.href, headers: { authorization: `Basic ${login}` } };
}

const idAt = (text: string): number => Number(/"id"\s*:\s*(\d+)/.exec(text)?.[1] ?? Number.NaN);
