/**
 * Parquet files, encoded on a thread of their own. All files of a process share the thread, which begins with the first one
 * and holds the process only while a file is open.
 */

import { AppError } from "../../core/errors.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import type { Column, ExportRow, KeyValues, ParquetReply, ParquetRequest } from "./parquet-worker.ts";

/** Rows, and characters of text, that are copied to the thread at once: half a millisecond. */
const [ROWS_AT_ONCE, CHARACTERS_AT_ONCE] = [250, 128 * 1024] as const;

const failed = (problem: string): AppError => new AppError(`a Parquet file failed: ${problem}`, { code: "internal" });

export class ParquetThread {
  #worker: Worker | undefined;
  #files = 0;
  /** Number of the newest file. */
  #last = 0;
  /** The callers that wait for bytes, by file. */
  readonly #waiting = new Map<number, PromiseWithResolvers<Uint8Array>>();

  open(columns: readonly Column[], facts: KeyValues): ParquetFile {
    this.#worker ??= this.#start();
    if (this.#files++ === 0) this.#worker.ref();
    const file = new ParquetFile(this, ++this.#last, this.#worker);
    file.send({ columns, facts });
    return file;
  }

  #start(): Worker {
    const worker = new Worker(new URL("./parquet-worker.ts", import.meta.url).href);
    worker.onmessage = ({ data: reply }: MessageEvent<ParquetReply>) => {
      const waiting = this.#waiting.get(reply.file);
      this.#waiting.delete(reply.file);
      if ("bytes" in reply) waiting?.resolve(reply.bytes);
      else waiting?.reject(failed(reply.problem));
    };
    worker.onerror = ({ message }: ErrorEvent) => this.#end(worker, message);
    return worker;
  }

  /** Resolves with the next bytes of a file. */
  next(file: number, worker: Worker): Promise<Uint8Array> {
    if (this.#worker !== worker) return Promise.reject(failed("its thread has ended"));
    const waiting = Promise.withResolvers<Uint8Array>();
    this.#waiting.set(file, waiting);
    return waiting.promise;
  }

  close(worker: Worker): void {
    // The thread stays: its code is compiled by then.
    if (this.#worker === worker && --this.#files === 0) worker.unref();
  }

  /** Ends a thread that crashed, and the files on it. The next file gets a new one. */
  #end(worker: Worker, problem: string): void {
    if (this.#worker !== worker) return;
    [this.#worker, this.#files] = [undefined, 0];
    worker.terminate();
    for (const { reject } of this.#waiting.values()) reject(failed(problem));
    this.#waiting.clear();
  }
}

type Message<R> = R extends { readonly file: number } ? Omit<R, "file"> : never;

/** A file that is being written. Close it in any case. */
export class ParquetFile {
  /** Each piece is a row group. Fewer rows would make the list of the groups, which is kept until the end, too long. */
  readonly rowsPerPiece = 2_000;
  readonly #thread: ParquetThread;
  readonly #number: number;
  readonly #worker: Worker;

  constructor(thread: ParquetThread, number: number, worker: Worker) {
    this.#thread = thread;
    this.#number = number;
    this.#worker = worker;
  }

  send(message: Message<ParquetRequest>, handed: ArrayBuffer[] = []): void {
    this.#worker.postMessage({ ...message, file: this.#number }, handed);
  }

  /** The bytes of a row group. */
  async rows(rows: readonly ExportRow[]): Promise<Uint8Array> {
    let part: ExportRow[] = [];
    let characters = 0;
    for (const row of rows) {
      part.push(row);
      for (const cell of row) if (typeof cell === "string") characters += cell.length;
      if (part.length < ROWS_AT_ONCE && characters < CHARACTERS_AT_ONCE) continue;
      this.#add(part);
      [part, characters] = [[], 0];
      await yieldToEventLoop();
    }
    this.#add(part);
    return this.#group();
  }

  /** The same of rows that `TokenLines` wrote. Takes over the memory of their text. */
  lines(lines: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
    this.send({ lines }, [lines.buffer]);
    return this.#group();
  }

  async #group(): Promise<Uint8Array> {
    const bytes = await this.#bytes("group");
    // Replies for several files may come in one turn of the event loop, and each one's reader would go on at once.
    await yieldToEventLoop();
    return bytes;
  }

  /** Sends rows as text, whose copy takes half as long as that of the rows. */
  #add(rows: readonly ExportRow[]): void {
    this.send({ rows: JSON.stringify(rows) });
  }

  /** The bytes after the last row. */
  end(): Promise<Uint8Array> {
    return this.#bytes("end");
  }

  #bytes(wanted: "group" | "end"): Promise<Uint8Array> {
    const bytes = this.#thread.next(this.#number, this.#worker);
    this.send({ wanted });
    return bytes;
  }

  close(): void {
    this.send({ closed: true });
    this.#thread.close(this.#worker);
  }
}
