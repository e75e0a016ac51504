/**
 * Parses small bodies in place and large ones in a worker, one at a time. Inline content is decoded, and stored bodies
 * are turned into text, in the same way. The worker starts with the first large input. If an input takes too long, the
 * worker is replaced, and only that input fails.
 */

import type { Clock } from "../../../core/clock.ts";
import { AppError } from "../../../core/errors.ts";
import { Semaphore } from "../../../core/semaphore.ts";
import { MetadataFailure } from "./failure.ts";
import { type BodyText, textOfBody } from "./normalize.ts";
import {
  type ContentReply,
  type InlineSource,
  type Parsed,
  type ParseReply,
  type ParseSource,
  type RawContent,
  tryContent,
  tryParse,
} from "./parse.ts";
import type { ParseTask } from "./parse-worker.ts";

interface ParserOptions {
  readonly clock: Clock;
  /** For tests: another worker and its timeout. */
  readonly worker?: URL;
  readonly timeoutMs?: number;
}

/** Largest input that is parsed in place: 1 ms, or 4 ms if it is made to be slow. */
const SMALL_BYTES = 32 * 1024;
/** Timeout of the worker: a megabyte takes 20 ms, or 100 ms if it is made to be slow; its start takes 200 ms. */
const TIMEOUT_MS = 5_000;

export class Parser {
  readonly #options: ParserOptions;
  readonly #turn = new Semaphore(1);
  #worker: Worker | undefined;
  /** The caller that waits for the worker. */
  #waiting: { resolve: (reply: unknown) => void; reject: (error: unknown) => void } | undefined;
  #closed = false;

  constructor(options: ParserOptions) {
    this.#options = options;
  }

  /** @throws MetadataFailure, and the signal's reason when it is aborted */
  async parse(source: ParseSource, signal: AbortSignal): Promise<Parsed> {
    const isSmall = ("uri" in source ? source.uri : source.bytes).length <= SMALL_BYTES;
    const reply = isSmall
      ? tryParse(source)
      : await this.#turn.run(() => this.#send<ParseReply>(source, signal), signal);
    if (reply.kind === "failed") throw new MetadataFailure(reply.reason);
    return reply;
  }

  /** Decodes inline content to bytes. @throws MetadataFailure, and the signal's reason when it is aborted */
  async content(inline: InlineSource, signal: AbortSignal): Promise<RawContent> {
    const isSmall = inline.uri.length <= SMALL_BYTES;
    const send = () => this.#send<ContentReply>({ inline }, signal);
    const reply = isSmall ? tryContent(inline) : await this.#turn.run(send, signal);
    if (reply.kind === "failed") throw new MetadataFailure(reply.reason);
    return reply.content;
  }

  /** The text of a stored body. @throws MetadataFailure on a timeout */
  async words(body: Uint8Array): Promise<BodyText> {
    if (body.length <= SMALL_BYTES) return textOfBody(body);
    return this.#turn.run(() => this.#send<BodyText>({ body }));
  }

  async #send<Reply>(task: ParseTask, signal?: AbortSignal): Promise<Reply> {
    if (this.#closed) throw closed();
    signal?.throwIfAborted();
    const { clock, timeoutMs = TIMEOUT_MS } = this.#options;
    const worker = this.#worker ?? this.#start();
    const onAbort = () => this.#giveUp(signal?.reason);
    const cancel = clock.after(timeoutMs, () => this.#giveUp(new MetadataFailure("too_large", "slow to parse")));
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      return (await new Promise<unknown>((resolve, reject) => {
        this.#waiting = { resolve, reject };
        worker.postMessage(task);
      })) as Reply;
    } finally {
      this.#waiting = undefined;
      cancel();
      signal?.removeEventListener("abort", onAbort);
    }
  }

  #start(): Worker {
    const { worker: url = new URL("./parse-worker.ts", import.meta.url) } = this.#options;
    const worker = new Worker(url.href);
    // Ignore late messages of a worker that was replaced.
    worker.onmessage = (message: MessageEvent<unknown>) => {
      if (this.#worker === worker) this.#waiting?.resolve(message.data);
    };
    worker.onerror = (event: ErrorEvent) => {
      if (this.#worker === worker) this.#giveUp(new MetadataFailure("not_json", `the parser died: ${event.message}`));
    };
    this.#worker = worker;
    return worker;
  }

  /** Kills the worker and rejects its task. */
  #giveUp(error: unknown): void {
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#waiting?.reject(error);
  }

  close(): void {
    this.#closed = true;
    this.#giveUp(closed());
  }
}

const closed = (): AppError => new AppError("the metadata parser is closed", { code: "closed" });
