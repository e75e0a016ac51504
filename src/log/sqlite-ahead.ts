/**
 * The page after the one that was read, being read while that one is used: of a history of megabytes a tenth of the time
 * is waiting for SQLite otherwise. The thread is started by the first reader who has use for it.
 */
import type { StreamName } from "../events/types.ts";
import type { AheadReply, AheadRequest } from "./sqlite-ahead-worker.ts";
import type { Page, PageRequest } from "./sqlite-rows.ts";

/** Pages that may lie ready or be on their way: who stops reading leaves one behind. */
const MAX_READY = 16;

interface Ahead {
  readonly request: PageRequest;
  readonly page: Promise<Page | undefined>;
}

export class SqliteAhead {
  readonly #path: string;
  readonly #ready = new Map<StreamName, Ahead>();
  readonly #pending = new Map<number, (page: Page | undefined) => void>();
  #worker: Worker | undefined;
  #nextId = 1;
  /** Closed, or its thread has died. */
  #isOver = false;
  #whenClosed: (() => void) | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** Begins to read a page that `take` will be asked for. */
  begin(request: PageRequest): void {
    if (this.#isOver) return;
    this.#worker ??= this.#start();
    const id = this.#nextId++;
    const page = new Promise<Page | undefined>((resolve) => this.#pending.set(id, resolve));
    this.#worker.postMessage({ op: "read", id, ...request } satisfies AheadRequest);
    this.#ready.delete(request.stream);
    this.#ready.set(request.stream, { request, page });
    const [oldest] = this.#ready.keys();
    if (this.#ready.size > MAX_READY && oldest !== undefined) this.#ready.delete(oldest);
  }

  /** The page, if just this one was begun and could be read. Each is given once: it may have grown since. */
  async take(request: PageRequest): Promise<Page | undefined> {
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
    // Everybody reads for themselves then.
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
    // After what it has to read still: somebody may be waiting for that.
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
