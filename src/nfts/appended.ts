/**
 * What this process has appended to the stream of a collection in memory, until it is folded: to read it back, prove it
 * and copy it out of the log is a millisecond of the request thread for ten thousand transfers, or a trip to a server.
 */
import type { NftEvent, Recorded } from "../events/types.ts";

/** Bytes of transfers that may lie here: a fold that falls behind by more reads the log. */
const MAX_BYTES = 4 * 1024 * 1024;

export class AppendedEvents {
  /** They follow each other. */
  #events: Recorded<NftEvent>[] = [];
  #bytes = 0;

  /** An append, durable in the log. */
  add(events: readonly Recorded<NftEvent>[]): void {
    const last = this.#events.at(-1)?.version;
    if (last !== undefined && events[0]?.version !== last + 1) this.#clear();
    for (const recorded of events) {
      this.#events.push(recorded);
      this.#bytes += bytesOf(recorded);
    }
    if (this.#bytes > MAX_BYTES) this.#clear();
  }

  /** Takes out the events from `version` on, as far as the one that exceeds `maxBytes`; none when that one is not here. */
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

  /** Forgets the events up to `version`: they are folded, from wherever they were read. */
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
