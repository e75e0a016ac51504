/**
 * Reads the next page of a stream while the caller folds the current one. Otherwise a tenth of a hydration is waiting
 * for SQLite. A worker thread reads; it starts at the first use. Without it, callers read their pages themselves.
 */
import type { StreamName } from "../events/types.ts";
import type { AheadReply, AheadRequest } from "./sqlite-ahead-worker.ts";
import type { EventPage, PageRequest } from "./sqlite-schema.ts";

/** Pages ready or in flight. A reader that stops early leaves one behind. */
const MAX_READY = 16;

interface PageAhead {
  readonly request: PageRequest;
  readonly page: Promise<EventPage | undefined>;
}

export class SqliteAhead {
  readonly #path: string;
  readonly #ready = new Map<StreamName, PageAhead>();
  readonly #pending = new Map<number, (page: EventPage | undefined) => void>();
  #worker: Worker | undefined;
  #nextId = 1;
  /** True once closed, or once the worker has died. */
  #isOver = false;
  #whenClosed: (() => void) | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** Starts to read a page for a later `take`. */
  begin(request: PageRequest): void {
    if (this.#isOver) return;
    this.#worker ??= this.#start();
    const id = this.#nextId++;
    const page = new Promise<EventPage | undefined>((resolve) => this.#pending.set(id, resolve));
    this.#worker.postMessage({ op: "read", id, ...request } satisfies AheadRequest);
    this.#ready.delete(request.stream);
    this.#ready.set(request.stream, { request, page });
    const [oldest] = this.#ready.keys();
    if (this.#ready.size > MAX_READY && oldest !== undefined) this.#ready.delete(oldest);
  }

  /** The page, if exactly this one was started and could be read. Each is given once, since the stream may grow. */
  async take(request: PageRequest): Promise<EventPage | undefined> {
    const ahead = this.#ready.get(request.stream);
    if (ahead === undefined) return undefined;
    this.#ready.delete(request.stream);
    const { from, limit, maxBytes } = ahead.request;
    const isThis = from === request.from && limit === request.limit && maxBytes === request.maxBytes;
    return isThis ? await ahead.page : undefined;
  }

  #start(): Worker {
    const worker = new Worker(new URL("./sqlite-ahead-worker.ts", import.meta.url).href);
    worker.onmessage = ({ data: reply }: MessageEvent<AheadReply>) => {
      if ("closed" in reply) return this.#whenClosed?.();
      this.#pending.get(reply.id)?.(reply.page);
      this.#pending.delete(reply.id);
    };
    // Without the worker, callers read their pages themselves.
    worker.onerror = () => {
      this.#isOver = true;
      for (const resolve of this.#pending.values()) resolve(undefined);
      this.#pending.clear();
      this.#whenClosed?.();
    };
    worker.postMessage({ op: "open", path: this.#path } satisfies AheadRequest);
    return worker;
  }

  /** Resolves once its connection is closed. */
  async close(): Promise<void> {
    const worker = this.#worker;
    const isAlive = !this.#isOver;
    this.#isOver = true;
    if (worker === undefined) return;
    // Queued behind pending reads, because callers may wait for those.
    if (isAlive) {
      const closed = new Promise<void>((resolve) => {
        this.#whenClosed = resolve;
      });
      worker.postMessage({ op: "close" } satisfies AheadRequest);
      await closed;
    }
    worker.terminate();
  }
}
