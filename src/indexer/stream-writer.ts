/** How a job writes its collection's stream: one append after another, with time in between to read on. */
import type { NftEvent, StreamName } from "../events/types.ts";
import type { EventLog, StreamHead } from "../log/port.ts";
import { fromHeadline, type IndexState, toHeadline } from "./headline.ts";

/** Knows the version and the headline that the stream stands at. */
export class StreamWriter {
  readonly #log: EventLog;
  readonly #stream: StreamName;
  #version: number;
  #state: IndexState;
  #appended: Promise<StreamHead>;
  /** No append is under way. */
  isIdle = true;

  constructor(log: EventLog, head: StreamHead) {
    this.#log = log;
    this.#stream = head.stream;
    this.#version = head.version;
    this.#state = fromHeadline(head.headline);
    this.#appended = Promise.resolve(head);
  }

  /** As it is once what is being appended is in; as before, when that has failed. */
  get state(): IndexState {
    return this.#state;
  }

  /** Begins an append, after which the stream has `change` in its headline; the one before must have settled. */
  append(events: readonly NftEvent[], change: Partial<IndexState>, onAppended?: () => void): void {
    const before = this.#state;
    this.#state = { ...before, ...change };
    this.isIdle = false;
    this.#appended = this.#write(events, before, onAppended).finally(() => {
      this.isIdle = true;
    });
    // Who waits for it hears of it; nobody may be waiting yet.
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

  /** Resolves once the append under way is in, with what the stream's row says then. @throws what it failed with */
  settled(): Promise<StreamHead> {
    return this.#appended;
  }
}
