/**
 * Spreads large answers over the decode workers, which fetch and decode them; started on the first one, so that a service
 * that only serves has none.
 */
import { AppError, type ErrorMeta } from "../core/errors.ts";
import { haveCompilersYield } from "../core/own-thread.ts";
import type { DecodedRange, DecodeJob, DecodeReply } from "./decode-answer.ts";
import type { WorkerReply, WorkerRequest } from "./decode-worker.ts";
import { classifyRpcError, RpcError } from "./errors.ts";
import type { HttpTarget } from "./http.ts";

/** A decoded answer, and how many bytes it had. */
export interface Decoded {
  readonly range: DecodedRange;
  /** The headers that were asked for beside the logs of a batch, as they came. */
  readonly headers: readonly unknown[];
  readonly bytes: number;
}

/** Decodes raw answers. */
export interface Decoder {
  /**
   * Decodes a raw answer; `raw` is handed over and unusable afterwards.
   * @throws RpcError as classified, when the answer is an error or in doubt
   */
  decode(raw: Uint8Array, job: DecodeJob, meta: ErrorMeta): Promise<Decoded>;
  /** As `decode`, of the answer to a payload, which is fetched off this thread, too. @throws RpcError, or as aborted */
  fetch(target: HttpTarget, payload: string, job: DecodeJob, meta: ErrorMeta, signal: AbortSignal): Promise<Decoded>;
  /** Gets ready for answers that will come soon. */
  prepare(): void;
}

/** A worker's reply as the caller wants it. @throws RpcError */
export function unwrapReply(reply: DecodeReply, meta: ErrorMeta): DecodedRange {
  if ("range" in reply) return reply.range;
  if ("rpcError" in reply) {
    throw classifyRpcError(reply.rpcError, reply.isOfBatch === true ? "batch" : "eth_getLogs", meta);
  }
  const { kind, message, meta: more, retryAfterMs } = reply;
  const wait = retryAfterMs === undefined ? {} : { retryAfterMs };
  throw new RpcError(kind, message, { meta: { ...meta, ...more }, ...wait });
}

/** Workers at most: one decodes more in a second than most nodes send in a minute. */
const MAX_WORKERS = 4;

interface Slot {
  readonly worker: Worker;
  /** Answers it is at work on. */
  load: number;
}

interface Waiting {
  readonly meta: ErrorMeta;
  readonly slot: Slot;
  readonly resolve: (decoded: Decoded) => void;
  readonly reject: (error: unknown) => void;
}

export class DecodePool implements Decoder {
  readonly #size: number;
  readonly #workers: Slot[] = [];
  readonly #waiting = new Map<number, Waiting>();
  #nextId = 1;
  #closed = false;

  /** @param cores of the machine; one is left to the request thread */
  constructor(cores: number) {
    this.#size = Math.min(MAX_WORKERS, Math.max(1, cores - 1));
  }

  decode(raw: Uint8Array, job: DecodeJob, meta: ErrorMeta): Promise<Decoded> {
    // A view on a larger buffer would drag all of it along (and detach it under others): such are copied.
    const owned = raw.byteLength === raw.buffer.byteLength ? raw : raw.slice();
    return this.#ask({ ...job, id: this.#nextId++, raw: owned }, meta, [owned.buffer as ArrayBuffer]);
  }

  async fetch(
    target: HttpTarget,
    payload: string,
    job: DecodeJob,
    meta: ErrorMeta,
    signal: AbortSignal,
  ): Promise<Decoded> {
    signal.throwIfAborted();
    const id = this.#nextId++;
    const asked = this.#ask({ ...job, id, target, payload }, meta, []);
    const abandon = (): void => this.#abandon(id, signal.reason);
    signal.addEventListener("abort", abandon, { once: true });
    try {
      return await asked;
    } finally {
      signal.removeEventListener("abort", abandon);
    }
  }

  #ask(
    request: Exclude<WorkerRequest, { abandoned: true }>,
    meta: ErrorMeta,
    handed: readonly ArrayBuffer[],
  ): Promise<Decoded> {
    if (this.#closed) return Promise.reject(closed());
    const slot = this.#slot();
    return new Promise((resolve, reject) => {
      slot.load++;
      this.#waiting.set(request.id, { meta, slot, resolve, reject });
      slot.worker.postMessage(request, [...handed]);
    });
  }

  /** Who asked does not wait any more; the worker is told, and its reply passed over. */
  #abandon(id: number, reason: unknown): void {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return;
    this.#waiting.delete(id);
    waiting.slot.worker.postMessage({ id, abandoned: true } satisfies WorkerRequest);
    waiting.reject(reason);
  }

  /** Starts a worker where there is none: it takes longer than the first answer does to come. */
  prepare(): void {
    haveCompilersYield();
    if (!this.#closed && this.#workers.length === 0) this.#start();
  }

  #start(): Slot {
    const worker = new Worker(new URL("./decode-worker.ts", import.meta.url).href);
    const slot = { worker, load: 0 };
    worker.onmessage = (message: MessageEvent<WorkerReply>) => {
      slot.load--;
      this.#settle(message.data);
    };
    worker.onerror = (event: ErrorEvent) => this.#lose(slot, event.message);
    this.#workers.push(slot);
    return slot;
  }

  #slot(): Slot {
    const idle = this.#workers.find((slot) => slot.load === 0);
    if (idle !== undefined) return idle;
    if (this.#workers.length < this.#size) return this.#start();
    return this.#workers.reduce((least, slot) => (slot.load < least.load ? slot : least));
  }

  #settle(reply: WorkerReply): void {
    const waiting = this.#waiting.get(reply.id);
    // An abandoned one.
    if (waiting === undefined) return;
    this.#waiting.delete(reply.id);
    try {
      const range = unwrapReply(reply, waiting.meta);
      waiting.resolve({ range, headers: ("headers" in reply && reply.headers) || [], bytes: reply.bytes });
    } catch (error) {
      waiting.reject(error);
    }
  }

  /** A worker that died takes its jobs with it; they fail as transient and are asked for again. */
  #lose(slot: Slot, reason: string): void {
    const at = this.#workers.indexOf(slot);
    if (at >= 0) this.#workers.splice(at, 1);
    for (const [id, waiting] of this.#waiting) {
      if (waiting.slot !== slot) continue;
      this.#waiting.delete(id);
      waiting.reject(new RpcError("transient", `the decoder died: ${reason}`, { meta: waiting.meta }));
    }
  }

  close(): void {
    this.#closed = true;
    for (const { worker } of this.#workers) worker.terminate();
    for (const { reject } of this.#waiting.values()) reject(closed());
    this.#waiting.clear();
  }
}

const closed = (): AppError => new AppError("the decoder is closed", { code: "closed" });
