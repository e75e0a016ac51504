/** The fan-out of wake-ups to listeners, shared by both engines. */
import type { Recorded, StreamName } from "../events/types.ts";
import type { WakeUpListener } from "./event-log.ts";

/** Passes wake-ups on to listeners. A listener that throws does not silence the rest. */
export class WakeUps {
  readonly #listeners = new Set<WakeUpListener>();
  readonly #onError: (error: unknown) => void;

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  subscribe(listener: WakeUpListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  notify(stream: StreamName, version: number, appended?: readonly Recorded[]): void {
    for (const listener of this.#listeners) {
      try {
        listener(stream, version, appended);
      } catch (error) {
        this.#onError(error);
      }
    }
  }
}
