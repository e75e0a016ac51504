/** Parses small bodies where it stands and large ones in a worker, which is started with the first of them. */
import { AppError } from "../core/errors.ts";
import { MetadataFailure } from "./outcome.ts";
import { type Parsed, type ParseReply, type RawContent, tryParse } from "./parse.ts";

/** A body of this size takes less than a millisecond. */
const INLINE_BYTES = 32 * 1024;

export class Parser {
  #worker: Worker | undefined;
  readonly #waiting = new Map<number, { resolve: (reply: ParseReply) => void; reject: (error: Error) => void }>();
  #nextId = 1;

  /** @throws MetadataFailure */
  async parse(content: RawContent): Promise<Parsed> {
    const { mimetype, charset, bytes } = content;
    const reply = bytes.length <= INLINE_BYTES ? tryParse(content) : await this.#ask({ mimetype, charset, bytes });
    if (reply.kind === "failed") throw new MetadataFailure(reply.reason);
    return reply;
  }

  #ask(content: RawContent): Promise<ParseReply> {
    const worker = this.#worker ?? this.#start();
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      worker.postMessage({ ...content, id });
    });
  }

  #start(): Worker {
    const worker = new Worker(new URL("./parse-worker.ts", import.meta.url).href);
    worker.onmessage = (message: MessageEvent<{ id: number; reply: ParseReply }>) => {
      const { id, reply } = message.data;
      this.#waiting.get(id)?.resolve(reply);
      this.#waiting.delete(id);
    };
    worker.onerror = (event: ErrorEvent) => {
      this.#worker = undefined;
      this.#failAll(`the metadata parser died: ${event.message}`);
    };
    this.#worker = worker;
    return worker;
  }

  #failAll(message: string): void {
    for (const { reject } of this.#waiting.values()) reject(new AppError(message, { code: "closed" }));
    this.#waiting.clear();
  }

  close(): void {
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#failAll("the metadata parser is closed");
  }
}
