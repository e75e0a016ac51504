/** Spreads decode jobs over the decode workers; started on the first job, so that a service that only serves has none. */
import { AppError, type ErrorMeta } from "../core/errors.ts";
import type { DecodedRange, DecodeJob, DecodeReply, DecodeRequest } from "./decode-answer.ts";
import { classifyRpcError, RpcError } from "./errors.ts";

/** Decodes raw answers. */
export interface Decoder {
  /**
   * Decodes a raw answer; `raw` is handed over and unusable afterwards.
   * @throws RpcError as classified, when the answer is an error or in doubt
   */
  decode(raw: Uint8Array, job: DecodeJob, meta: ErrorMeta): Promise<DecodedRange>;
  /** Gets ready for answers that will come soon. */
  prepare(): void;
}

/** A worker's reply as the caller wants it. @throws RpcError */
export function unwrapReply(reply: DecodeReply, meta: ErrorMeta): DecodedRange {
  if ("range" in reply) return reply.range;
  if ("rpcError" in reply) throw classifyRpcError(reply.rpcError, "eth_getLogs", meta);
  throw new RpcError(reply.kind, reply.message, { meta });
}

interface Waiting {
  readonly meta: ErrorMeta;
  readonly worker: Worker;
  readonly resolve: (range: DecodedRange) => void;
  readonly reject: (error: Error) => void;
}

export class DecodePool implements Decoder {
  readonly #size: number;
  readonly #workers: { worker: Worker; load: number }[] = [];
  readonly #waiting = new Map<number, Waiting>();
  #nextId = 1;
  #closed = false;

  /** @param size workers at most */
  constructor(size: number) {
    this.#size = Math.max(1, size);
  }

  decode(raw: Uint8Array, job: DecodeJob, meta: ErrorMeta): Promise<DecodedRange> {
    if (this.#closed) return Promise.reject(new AppError("the decoder is closed", { code: "closed" }));
    const slot = this.#slot();
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      slot.load++;
      this.#waiting.set(id, { meta, worker: slot.worker, resolve, reject });
      // A view on a larger buffer would drag all of it along (and detach it under others): such are copied.
      const owned = raw.byteLength === raw.buffer.byteLength ? raw : raw.slice();
      const request: DecodeRequest = { ...job, id, raw: owned };
      slot.worker.postMessage(request, [owned.buffer as ArrayBuffer]);
    });
  }

  /** Starts a worker where there is none: it takes longer than the first answer does to come. */
  prepare(): void {
    if (!this.#closed && this.#workers.length === 0) this.#start();
  }

  #start(): { worker: Worker; load: number } {
    const worker = new Worker(new URL("./decode-worker.ts", import.meta.url).href);
    const slot = { worker, load: 0 };
    worker.onmessage = (message: MessageEvent<DecodeReply>) => {
      slot.load--;
      this.#settle(message.data);
    };
    worker.onerror = (event: ErrorEvent) => this.#lose(worker, event.message);
    this.#workers.push(slot);
    return slot;
  }

  #slot(): { worker: Worker; load: number } {
    const idle = this.#workers.find((slot) => slot.load === 0);
    if (idle !== undefined) return idle;
    if (this.#workers.length < this.#size) return this.#start();
    return this.#workers.reduce((least, slot) => (slot.load < least.load ? slot : least));
  }

  #settle(reply: DecodeReply): void {
    const waiting = this.#waiting.get(reply.id);
    if (waiting === undefined) return;
    this.#waiting.delete(reply.id);
    try {
      waiting.resolve(unwrapReply(reply, waiting.meta));
    } catch (error) {
      waiting.reject(error as RpcError);
    }
  }

  /** A worker that died takes its jobs with it; they fail as transient and are asked for again. */
  #lose(worker: Worker, reason: string): void {
    const at = this.#workers.findIndex((slot) => slot.worker === worker);
    if (at >= 0) this.#workers.splice(at, 1);
    for (const [id, waiting] of this.#waiting) {
      if (waiting.worker !== worker) continue;
      this.#waiting.delete(id);
      waiting.reject(new RpcError("transient", `the decoder died: ${reason}`, { meta: waiting.meta }));
    }
  }

  close(): void {
    this.#closed = true;
    for (const { worker } of this.#workers) worker.terminate();
    for (const { reject } of this.#waiting.values()) reject(new AppError("the decoder is closed", { code: "closed" }));
    this.#waiting.clear();
  }
}
