/** HTTP requests of the client: the key, repetitions after a refusal that is over soon, and errors by code. */
import type { ErrorBody, ErrorCode } from "./types.ts";

export interface ClientOptions {
  /** Base URL of the service, with its path if it has one. */
  readonly url: string;
  readonly key: string;
  /** Attempts per request in all, if the service is busy or starts. Default 4. */
  readonly attempts?: number;
  /** Replaces the platform's `fetch`. */
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** Replaces the platform's `WebSocket`. Node has one from version 22 on; before it, that of the package ws does. */
  readonly WebSocket?: new (
    url: string,
    protocols: string[],
  ) => WebSocket;
  /**
   * Called when the socket of subscriptions was closed or could not be opened, with the reason. The client connects again by
   * itself. If there is no use in that, the subscriptions end with the error instead.
   */
  readonly onInterruption?: (error: ServiceError) => void;
  /**
   * Called after each answer about a chain, with the reason why it may be old: `halted`, `wrong_chain`, `unreachable` or
   * `behind`; undefined if there is none.
   */
  readonly onChainState?: (chain: string, trouble: string | undefined) => void;
}

/** The service refused a request, or could not be reached. */
export class ServiceError extends Error {
  override readonly name = "ServiceError";
  /** HTTP status; 0 if there was no answer. */
  readonly status: number;
  /** Code for programs; `unreachable` without an answer, `unreadable` if the answer is not the service's. */
  readonly code: ErrorCode | "unreachable" | "unreadable";
  readonly details: ErrorBody["details"];
  /** Seconds until the service expects to answer, if it says so. */
  readonly retryAfter: number | undefined;

  constructor(message: string, fields: Pick<ServiceError, "status" | "code"> & Partial<ServiceError>, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = fields.status;
    this.code = fields.code;
    this.details = fields.details;
    this.retryAfter = fields.retryAfter;
  }
}

/** Values of query parameters. Undefined ones are left out. */
export type Query = Readonly<Record<string, string | number | bigint | boolean | readonly string[] | undefined>>;

interface ServiceRequest {
  readonly method?: "GET" | "POST" | "PUT" | "DELETE";
  /** True if the request changes nothing, so that it may be repeated. Default: by the method. */
  readonly isRead?: boolean;
  readonly query?: Query;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  /** Called with each refusal, also with one after which the request is sent again. */
  readonly onRefusal?: (error: ServiceError) => void;
}

/** Statuses of refusals that are over after a while. */
const PASSING = [429, 503];
const ATTEMPTS = 4;
/** Wait for the head of an answer. The service answers within 25 s; a file's body may take any time. */
const ANSWER_MS = 60_000;
const FIRST_WAIT_MS = 500;
const MAX_WAIT_MS = 30_000;

export class Requests {
  readonly #options: ClientOptions;
  readonly #base: string;

  constructor(options: ClientOptions) {
    this.#options = options;
    this.#base = options.url.replace(/\/+$/, "");
  }

  /** Returns the body and the headers of an answer. @throws ServiceError; the signal's reason */
  async json<T>(path: string, sent: ServiceRequest = {}): Promise<{ body: T; headers: Headers }> {
    const response = await this.response(path, sent);
    const body = (await response.json().catch((cause: unknown) => {
      throw new ServiceError("the answer is not JSON", { status: response.status, code: "unreadable" }, cause);
    })) as T;
    return { body, headers: response.headers };
  }

  /** Returns an answer of status 200. @throws ServiceError; the signal's reason */
  async response(path: string, sent: ServiceRequest = {}): Promise<Response> {
    const { attempts = ATTEMPTS } = this.#options;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#once(path, sent);
      } catch (error) {
        if (error instanceof ServiceError) sent.onRefusal?.(error);
        const isPassing = error instanceof ServiceError && (error.status === 0 || PASSING.includes(error.status));
        // A request that changes something may have been carried out although its answer was lost.
        const mayRepeat = sent.isRead ?? (sent.method === undefined || sent.method === "GET");
        if (!isPassing || !mayRepeat || attempt >= attempts) throw error;
        const wait = error.retryAfter === undefined ? FIRST_WAIT_MS * 2 ** (attempt - 1) : error.retryAfter * 1_000;
        await pause(Math.min(wait, MAX_WAIT_MS), sent.signal);
      }
    }
  }

  async #once(path: string, { method = "GET", query = {}, body, signal }: ServiceRequest): Promise<Response> {
    const headers: Record<string, string> = { "x-api-key": this.#options.key, accept: "application/json" };
    if (body !== undefined) headers["content-type"] = "application/json";
    const init: RequestInit = { method, headers, redirect: "error" };
    if (body !== undefined) init.body = JSON.stringify(body);
    const late = new AbortController();
    init.signal = signal === undefined ? late.signal : AbortSignal.any([signal, late.signal]);
    const timer = setTimeout(() => late.abort(), ANSWER_MS);
    const send = this.#options.fetch ?? fetch;
    let response: Response;
    try {
      response = await send(`${this.#base}${path}${queryText(query)}`, init);
    } catch (cause) {
      signal?.throwIfAborted();
      const message = late.signal.aborted ? "the service did not answer in time" : "the service could not be reached";
      throw new ServiceError(message, { status: 0, code: "unreachable" }, cause);
    } finally {
      clearTimeout(timer);
    }
    if (response.ok) return response;
    throw await errorOf(response);
  }
}

/** The query of a URL with its question mark; "" without parameters. */
export function queryText(query: Query): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (Array.isArray(value)) for (const one of value) search.append(name, one);
    else if (value !== undefined) search.set(name, String(value));
  }
  return search.size === 0 ? "" : `?${search}`;
}

async function errorOf(response: Response): Promise<ServiceError> {
  const { status, headers } = response;
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  const retryAfter = Number.isFinite(seconds) ? { retryAfter: seconds } : {};
  const body = (await response.json().catch(() => undefined)) as Partial<ErrorBody> | undefined;
  const { message = `the service answered with status ${status}`, code = "unreadable" } = body ?? {};
  const details = body?.details === undefined ? {} : { details: body.details };
  return new ServiceError(message, { status, code, ...details, ...retryAfter });
}

/** Waits. @throws the signal's reason */
function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal?.aborted === true) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
