/** Writes a collection's stream for its job: one append at a time, in the background, while the job reads on. */
import { fromHeadline, type IndexState, toHeadline } from "../collections/headline.ts";
import type { NftEvent, StreamName } from "../events/types.ts";
import type { EventLog, StreamHead } from "../log/event-log.ts";

/** Holds the version and the headline of the stream. */
export class StreamWriter {
  readonly #log: EventLog;
  readonly #stream: StreamName;
  #version: number;
  #state: IndexState;
  #appended: Promise<StreamHead>;
  /** True if no append is running. */
  isIdle = true;

  constructor(log: EventLog, head: StreamHead) {
    this.#log = log;
    this.#stream = head.stream;
    this.#version = head.version;
    this.#state = fromHeadline(head.headline);
    this.#appended = Promise.resolve(head);
  }

  /** The state after the running append. If the append fails, the state before it. */
  get state(): IndexState {
    return this.#state;
  }

  /** Begins an append that also applies `change` to the headline. The previous append must have settled. */
  append(events: readonly NftEvent[], change: Partial<IndexState>, onAppended?: () => void): void {
    const before = this.#state;
    this.#state = { ...before, ...change };
    this.isIdle = false;
    this.#appended = this.#write(events, before, onAppended).finally(() => {
      this.isIdle = true;
    });
    // `settled` reports the error. Without this handler it would be unhandled until then.
    this.#appended.catch(() => undefined);
  }

  async #write(events: readonly NftEvent[], before: IndexState, onAppended?: () => void): Promise<StreamHead> {
    const stream = this.#stream;
    const headline = toHeadline(this.#state);
    try {
      this.#version = await this.#log.append({ stream, events, expectedVersion: this.#version, headline });
    } catch (error) {
      this.#state = before;
      throw error;
    }
    onAppended?.();
    return { stream, version: this.#version, headline };
  }

  /** Resolves with the stream's head after the running append. @throws the append's error */
  settled(): Promise<StreamHead> {
    return this.#appended;
  }
}
