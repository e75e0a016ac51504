/**
 * Buffers events that this process appended to the stream of a collection in memory, until they are folded. Without it,
 * the fold would read them back from the log: a millisecond of the request thread for ten thousand transfers, or a
 * database round trip.
 */
import type { NftEvent, Recorded } from "../events/types.ts";

/** Most bytes of buffered transfers. A fold that falls behind by more reads the log. */
const MAX_BYTES = 4 * 1024 * 1024;

export class AppendedEvents {
  /** Consecutive versions. */
  #events: Recorded<NftEvent>[] = [];
  #bytes = 0;

  /** Adds events that are durable in the log. */
  add(events: readonly Recorded<NftEvent>[]): void {
    const last = this.#events.at(-1)?.version;
    if (last !== undefined && events[0]?.version !== last + 1) this.#clear();
    for (const recorded of events) {
      this.#events.push(recorded);
      this.#bytes += bytesOf(recorded);
    }
    if (this.#bytes > MAX_BYTES) this.#clear();
  }

  /**
   * Removes and returns the events from `version` on, up to and including the one that reaches `maxBytes`. Returns none
   * if that version is not buffered.
   */
  take(version: number, maxBytes: number): Recorded<NftEvent>[] {
    this.drop(version - 1);
    if (this.#events[0]?.version !== version) return [];
    let [to, bytes] = [0, 0];
    for (const recorded of this.#events) {
      if (bytes >= maxBytes) break;
      bytes += bytesOf(recorded);
      to++;
    }
    this.#bytes -= bytes;
    return this.#events.splice(0, to);
  }

  /** Drops the events up to `version`, which are folded. */
  drop(version: number): void {
    const after = this.#events.findIndex((recorded) => recorded.version > version);
    if (after < 0) this.#clear();
    else for (const gone of this.#events.splice(0, after)) this.#bytes -= bytesOf(gone);
  }

  #clear(): void {
    this.#events = [];
    this.#bytes = 0;
  }
}

function bytesOf({ event }: Recorded<NftEvent>): number {
  return event.type === "TransfersCommitted" ? event.transfers.length : 0;
}
