/**
 * The traits of many tokens, read on a thread of its own, which begins with the first request. In a SQLite log that thread
 * reads the documents, too. Those of a server or a store come over this process's connections, so they are read here.
 */
import { AppError } from "../../core/errors.ts";
import { bytesToHex, type Hash } from "../../core/hex.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import type { EventLog } from "../../log/event-log.ts";
import type { TokenTraits } from "../listings/token-traits.ts";
import type { MetadataBook } from "./book.ts";
import { fromBlob, HASH_BYTES, type OutcomeDocument } from "./outcome-documents.ts";
import type { ShownToken } from "./page.ts";
import { blobsOf, Slices } from "./token-texts.ts";
import {
  REQUEST_BYTES,
  type TraitQuestion,
  type TraitReply,
  type TraitRequest,
  type TraitTexts,
} from "./trait-worker.ts";

/** Words of a hash, of 32 bits. */
const HASH_WORDS = HASH_BYTES / 4;
/** Documents that are read here at once. Those behind a large body are read again. */
const DOCUMENTS_AT_ONCE = 50;

const NO_TRAITS = { types: [], typeOf: new Uint32Array(0), values: [], traits: new Uint32Array(0) };

const failed = (problem: string): AppError => new AppError(`traits can't be read: ${problem}`, { code: "internal" });

export class TraitThread {
  readonly #log: Pick<EventLog, "getBlobs" | "blobFile">;
  readonly #waiting = new Map<number, PromiseWithResolvers<TokenTraits>>();
  #worker: Worker | undefined;
  /** Number of the newest request. */
  #last = 0;
  /** Undefined until it closes. Its resolver is called once the thread has closed the log's file. */
  #closing: PromiseWithResolvers<void> | undefined;

  constructor(log: Pick<EventLog, "getBlobs" | "blobFile">) {
    this.#log = log;
  }

  /**
   * Returns the traits of the first tokens: of one at least, and of as many as a request may take.
   * @throws BlobsUnavailable if the store of blobs fails
   */
  async read(book: MetadataBook, tokens: readonly ShownToken[]): Promise<TokenTraits> {
    const hashes = new Uint8Array(tokens.length * HASH_BYTES);
    const words = new Int32Array(hashes.buffer);
    let isEmpty = true;
    for (const [at, { kind, id }] of tokens.entries()) {
      const slot = book.find(kind, id);
      if (slot >= 0 && book.copyGoodHash(slot, words, at * HASH_WORDS)) isEmpty = false;
    }
    if (isEmpty) return { ...NO_TRAITS, ends: new Int32Array(tokens.length).fill(-1) };
    const { blobFile: file } = this.#log;
    return this.#ask(file === undefined ? { bodies: await this.#bodies(hashes) } : { file, hashes });
  }

  /** The bodies that the first documents name. */
  async #bodies(hashes: Uint8Array): Promise<(Uint8Array | undefined)[]> {
    const count = Math.min(hashes.length / HASH_BYTES, DOCUMENTS_AT_ONCE);
    const first = Array.from(
      { length: count },
      (_, at) => bytesToHex(hashes.subarray(at * HASH_BYTES, (at + 1) * HASH_BYTES)) as Hash,
    );
    const slices = new Slices();
    const bodyOf = new Map<Hash, Hash | undefined>();
    for await (const [hash, blob] of blobsOf(this.#log, [...new Set(first)])) {
      bodyOf.set(hash, blob && fromBlob<OutcomeDocument>(blob).body);
      if (slices.isOver(blob?.length ?? 0)) await yieldToEventLoop();
    }
    const named = [...new Set(bodyOf.values())].filter((body) => body !== undefined);
    const bodies = new Map<Hash, Uint8Array | undefined>();
    let bytes = 0;
    for await (const [hash, body] of blobsOf(this.#log, named)) {
      bodies.set(hash, body);
      bytes += body?.length ?? 0;
      if (bytes > REQUEST_BYTES) break;
    }
    const wanted = first.map((hash) => bodyOf.get(hash));
    const unread = wanted.findIndex((body) => body !== undefined && !bodies.has(body));
    return wanted.slice(0, unread < 0 ? count : unread).map((body) => body && bodies.get(body));
  }

  #ask(question: TraitQuestion): Promise<TokenTraits> {
    if (this.#closing !== undefined) return Promise.reject(failed("the service stops"));
    this.#worker ??= this.#start();
    const id = ++this.#last;
    const waiting = Promise.withResolvers<TokenTraits>();
    this.#waiting.set(id, waiting);
    this.#worker.postMessage({ ...question, id } satisfies TraitRequest);
    return waiting.promise;
  }

  #start(): Worker {
    const worker = new Worker(new URL("./trait-worker.ts", import.meta.url).href);
    worker.onmessage = ({ data: reply }: MessageEvent<TraitReply>) => {
      if ("closed" in reply) return this.#closing?.resolve();
      const waiting = this.#waiting.get(reply.id);
      this.#waiting.delete(reply.id);
      if ("problem" in reply) waiting?.reject(failed(reply.problem));
      else waiting?.resolve({ ...reply, ...(JSON.parse(reply.texts) as TraitTexts) });
    };
    // The next request gets a new thread.
    worker.onerror = ({ message }: ErrorEvent) => {
      if (this.#worker === worker) this.#end(message);
    };
    return worker;
  }

  #end(problem: string): void {
    this.#worker?.terminate();
    this.#worker = undefined;
    for (const { reject } of this.#waiting.values()) reject(failed(problem));
    this.#waiting.clear();
    this.#closing?.resolve();
  }

  /** Resolves once the thread has closed the log's file, which it does after the requests that it has. */
  async close(): Promise<void> {
    this.#closing ??= Promise.withResolvers();
    if (this.#worker === undefined) return;
    this.#worker.postMessage({ closes: true } satisfies TraitRequest);
    await this.#closing.promise;
    this.#end("the service stops");
  }
}
