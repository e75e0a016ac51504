/**
 * The events that a collection has folded of blocks above the shown head. A collection is ahead of its chain while the chain
 * moves, after a move that failed, and between a revert of the chain and its own.
 */
import type { NftEvent, Recorded } from "../../events/types.ts";
import { keptUpTo, placeOf } from "./event-place.ts";

export class AheadEvents {
  /** In order, each with the last block that it tells of. */
  #events: { readonly version: number; readonly block: number }[] = [];

  /** Notes an event that was folded. */
  note({ event, version }: Recorded<NftEvent>, head: number): void {
    const kept = keptUpTo(event);
    if (kept !== undefined) this.#cut(kept);
    const block = placeOf(event)?.block ?? 0;
    if (block > head) this.#events.push({ version, block });
  }

  /** Takes the blocks above `kept` out: they will never be shown. The rest of their events waits on. */
  #cut(kept: number): void {
    this.#events = this.#events.map(({ version, block }) => ({ version, block: Math.min(block, kept) }));
  }

  /** Version of the first event that is above the head; undefined if none is. */
  first(head: number): number | undefined {
    const above = this.#events.findIndex(({ block }) => block > head);
    this.#events.splice(0, above < 0 ? this.#events.length : above);
    return this.#events[0]?.version;
  }
}
