/**
 * Distributes large answers over the decode workers, which fetch and decode them. Starts workers with the first answer,
 * so that a service that only serves has none.
 */

import { AppError, type ErrorMeta } from "../../core/errors.ts";
import { lowerCompilerPriority } from "../../core/thread-priority.ts";
import type { HttpTarget } from "../http.ts";
import type { DecodedRange, DecodeJob } from "../port.ts";
import { classifyRpcError, RpcError } from "../rpc-errors.ts";
import type { DecodeReply } from "./answer.ts";
import type { WorkerReply, WorkerRequest } from "./decode-worker.ts";

/** A decoded answer and its size. */
export interface Decoded {
  readonly range: DecodedRange;
  /** The headers that were requested in the same batch as the logs, as the endpoint sent them. */
  readonly headers: readonly unknown[];
  readonly bytes: number;
}

/** Decodes raw `eth_getLogs` answers. */
export interface Decoder {
  /**
   * Decodes a raw answer. Transfers ownership of `raw`: the caller cannot use it afterwards.
   * @throws RpcError as classified, if the answer is an error or fails verification
   */
  decode(raw: Uint8Array, job: DecodeJob, meta: ErrorMeta): Promise<Decoded>;
  /** Like `decode`, and fetches the payload's answer off this thread as well. @throws RpcError, or the abort reason */
  fetch(target: HttpTarget, payload: string, job: DecodeJob, meta: ErrorMeta, signal: AbortSignal): Promise<Decoded>;
  /** Prepares for answers that will arrive soon. */
  prepare(): void;
}

/** Returns the range of a worker's reply. @throws RpcError if the reply is an error */
export function unwrapReply(reply: DecodeReply, meta: ErrorMeta): DecodedRange {
  if ("range" in reply) return reply.range;
  if ("rpcError" in reply) {
    throw classifyRpcError(reply.rpcError, reply.isOfBatch === true ? "batch" : "eth_getLogs", meta);
  }
  const { kind, message, meta: more, retryAfterMs } = reply;
  const wait = retryAfterMs === undefined ? {} : { retryAfterMs };
  throw new RpcError(kind, message, { meta: { ...meta, ...more }, ...wait });
}

/** Most workers. One decodes more in a second than most nodes send in a minute. */
const MAX_WORKERS = 4;

interface DecodeWorker {
  readonly worker: Worker;
  /** Answers that the worker is decoding. */
  load: number;
}

interface PendingDecode {
  readonly meta: ErrorMeta;
  readonly slot: DecodeWorker;
  readonly resolve: (decoded: Decoded) => void;
  readonly reject: (error: unknown) => void;
}

export class DecodePool implements Decoder {
  readonly #size: number;
  readonly #workers: DecodeWorker[] = [];
  readonly #waiting = new Map<number, PendingDecode>();
  #nextId = 1;
  #closed = false;

  /** @param cores the machine's cores; one stays free for the thread that serves requests */
  constructor(cores: number) {
    this.#size = Math.min(MAX_WORKERS, Math.max(1, cores - 1));
  }

  decode(raw: Uint8Array, job: DecodeJob, meta: ErrorMeta): Promise<Decoded> {
    // Transferring a view would move its whole buffer and detach it for other users, so a view is copied first.
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
    const decoding = this.#ask({ ...job, id, target, payload }, meta, []);
    const abandon = (): void => {
      const waiting = this.#waiting.get(id);
      if (waiting === undefined) return;
      // The worker's later reply is ignored.
      this.#waiting.delete(id);
      waiting.slot.worker.postMessage({ id, abandoned: true } satisfies WorkerRequest);
      waiting.reject(signal.reason);
    };
    signal.addEventListener("abort", abandon, { once: true });
    try {
      return await decoding;
    } finally {
      signal.removeEventListener("abort", abandon);
    }
  }

  #ask(request: Exclude<WorkerRequest, { abandoned: true }>, meta: ErrorMeta, handed: ArrayBuffer[]): Promise<Decoded> {
    if (this.#closed) return Promise.reject(closed());
    const slot = this.#slot();
    return new Promise((resolve, reject) => {
      slot.load++;
      this.#waiting.set(request.id, { meta, slot, resolve, reject });
      slot.worker.postMessage(request, handed);
    });
  }

  /** Starts a worker if there is none. Starting takes longer than the first answer. */
  prepare(): void {
    lowerCompilerPriority();
    if (!this.#closed && this.#workers.length === 0) this.#start();
  }

  #start(): DecodeWorker {
    const worker = new Worker(new URL("./decode-worker.ts", import.meta.url).href);
    const slot = { worker, load: 0 };
    worker.onmessage = ({ data }: MessageEvent<WorkerReply>) => {
      slot.load--;
      this.#settle(data);
    };
    worker.onerror = (event: ErrorEvent) => this.#lose(slot, event.message);
    this.#workers.push(slot);
    return slot;
  }

  #slot(): DecodeWorker {
    const idle = this.#workers.find((slot) => slot.load === 0);
    if (idle !== undefined) return idle;
    if (this.#workers.length < this.#size) return this.#start();
    return this.#workers.reduce((least, slot) => (slot.load < least.load ? slot : least));
  }

  #settle(reply: WorkerReply): void {
    const waiting = this.#waiting.get(reply.id);
    // The caller abandoned the request.
    if (waiting === undefined) return;
    this.#waiting.delete(reply.id);
    try {
      const range = unwrapReply(reply, waiting.meta);
      waiting.resolve({ range, headers: ("headers" in reply && reply.headers) || [], bytes: reply.bytes });
    } catch (error) {
      waiting.reject(error);
    }
  }

  /** Removes a worker that crashed. Its jobs fail as transient, so the pool retries them. */
  #lose(slot: DecodeWorker, reason: string): void {
    const at = this.#workers.indexOf(slot);
    if (at >= 0) this.#workers.splice(at, 1);
    for (const [id, waiting] of this.#waiting) {
      if (waiting.slot !== slot) continue;
      this.#waiting.delete(id);
      waiting.reject(new RpcError("transient", `the decode worker crashed: ${reason}`, { meta: waiting.meta }));
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
