/**
 * The events that a collection has folded of blocks above the shown head. A collection is ahead of its chain while the chain
 * moves, after a move that failed, and between a revert of the chain and its own. A backfill is shown as far as it has come,
 * also above the head of a process that is late; once the collection is complete or follows, it is shown at the head.
 */
import type { NftEvent, Recorded } from "../../events/types.ts";
import { keptUpTo, placeOf } from "./event-place.ts";

interface AheadEvent {
  readonly version: number;
  /** The last block that it tells of. */
  readonly block: number;
  readonly isBackfill: boolean;
}

export class AheadEvents {
  /** In order. */
  #events: AheadEvent[] = [];

  /** Notes an event that was folded. */
  note({ event, version }: Recorded<NftEvent>, head: number): void {
    const kept = keptUpTo(event);
    if (kept !== undefined) this.#cut(kept);
    const isBackfill = event.type === "TransfersCommitted" && event.chainVersion === undefined;
    const block = isBackfill ? event.toBlock : (placeOf(event)?.block ?? 0);
    if (block > head) this.#events.push({ version, block, isBackfill });
  }

  /** Takes the blocks above `kept` out: they will never be shown. The rest of their events waits on. */
  #cut(kept: number): void {
    this.#events = this.#events.map((one) => ({ ...one, block: Math.min(one.block, kept) }));
  }

  /** Version of the first event that is above the head; undefined if none is, or the backfill is shown as it is. */
  first(head: number): number | undefined {
    const above = this.#events.findIndex(({ block }) => block > head);
    this.#events.splice(0, above < 0 ? this.#events.length : above);
    const isAtHead = this.#events.some(({ block, isBackfill }) => block > head && !isBackfill);
    return isAtHead ? this.#events[0]?.version : undefined;
  }
}
