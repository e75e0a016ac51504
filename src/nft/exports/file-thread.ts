/**
 * The thread that writes files. All files of a process share it. It starts with the first file, and keeps the process from
 * ending only while a file is open.
 */

import { AppError } from "../../core/errors.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import type { FileReply, FileRequest, FileRows } from "./file-worker.ts";
import type { FileHead } from "./formats.ts";

const failed = (problem: string): AppError => new AppError(`a file failed: ${problem}`, { code: "internal" });

export class FileThread {
  #worker: Worker | undefined;
  /** Open files on the thread that runs. */
  #open = 0;
  #newestFile = 0;
  /** The callers that wait for bytes, by file, in the order of their requests. */
  readonly #waiting = new Map<number, PromiseWithResolvers<Uint8Array>[]>();

  open(head: FileHead): OpenFile {
    this.#worker ??= this.#start();
    if (this.#open++ === 0) this.#worker.ref();
    return new OpenFile(this, ++this.#newestFile, this.#worker, head);
  }

  #start(): Worker {
    const worker = new Worker(new URL("./file-worker.ts", import.meta.url).href);
    worker.onmessage = ({ data: reply }: MessageEvent<FileReply>) => {
      const waiting = this.#waiting.get(reply.file)?.shift();
      if ("bytes" in reply) waiting?.resolve(reply.bytes);
      else waiting?.reject(failed(reply.problem));
    };
    worker.onerror = ({ message }: ErrorEvent) => this.#end(worker, message);
    return worker;
  }

  /** Resolves with the next bytes of a file. The thread replies in the order of requests. */
  next(file: number, worker: Worker): Promise<Uint8Array> {
    if (this.#worker !== worker) return Promise.reject(failed("its thread has ended"));
    const waiting = Promise.withResolvers<Uint8Array>();
    this.#waiting.getOrInsertComputed(file, () => []).push(waiting);
    return waiting.promise;
  }

  close(file: number, worker: Worker): void {
    this.#waiting.delete(file);
    // The thread stays, because a new one would compile its code again.
    if (this.#worker === worker && --this.#open === 0) worker.unref();
  }

  /** Ends a thread that crashed, and the files on it. The next file gets a new one. */
  #end(worker: Worker, problem: string): void {
    if (this.#worker !== worker) return;
    [this.#worker, this.#open] = [undefined, 0];
    worker.terminate();
    for (const { reject } of [...this.#waiting.values()].flat()) reject(failed(problem));
    this.#waiting.clear();
  }
}

/** A request without the number of its file. */
type Message<R> = R extends { readonly file: number } ? Omit<R, "file"> : never;

/** A file that is being written. Close it in any case. */
export class OpenFile {
  readonly #thread: FileThread;
  readonly #number: number;
  readonly #worker: Worker;

  constructor(thread: FileThread, number: number, worker: Worker, head: FileHead) {
    this.#thread = thread;
    this.#number = number;
    this.#worker = worker;
    this.#send({ begin: head });
  }

  #send(message: Message<FileRequest>, handed: readonly ArrayBuffer[] = []): void {
    this.#worker.postMessage({ ...message, file: this.#number }, [...handed]);
  }

  /** The bytes of some rows. @param handed memory of the rows that the thread takes over */
  async piece(rows: FileRows, handed: readonly ArrayBuffer[] = []): Promise<Uint8Array> {
    const bytes = this.#thread.next(this.#number, this.#worker);
    this.#send(rows, handed);
    await bytes;
    // Replies for several files may come in one turn of the event loop. Each export then goes on in a turn of its own.
    await yieldToEventLoop();
    return bytes;
  }

  /** The bytes after the last row, without which the file is incomplete. */
  end(): Promise<Uint8Array> {
    const bytes = this.#thread.next(this.#number, this.#worker);
    this.#send({ end: true });
    return bytes;
  }

  close(): void {
    this.#send({ closed: true });
    this.#thread.close(this.#number, this.#worker);
  }
}
