/** The messages of events that were folded and are not shown yet, by stream and in the order of versions. */
import type { StreamName } from "../events/types.ts";
import type { Collection } from "../nft/collections/collection.ts";
import type { ServerMessage } from "./message-models.ts";

interface UnsentEvent {
  readonly version: number;
  /** The state that it was folded into. */
  readonly collection: Collection;
  /** Block of the event's transfers. */
  readonly block: number;
  /** True for transfers that later messages cover, unless the client has had `indexed`. */
  readonly isCovered: boolean;
  /** Undefined for an event without a message. */
  readonly message: ServerMessage | undefined;
  /** The message of an event with transfers, without those above a block; undefined if none is left. */
  readonly messageUpTo?: ((block: number) => ServerMessage | undefined) | undefined;
}

export class UnsentEvents {
  readonly #events = new Map<StreamName, UnsentEvent[]>();

  /** @param kept the block up to which the event leaves the earlier ones as they are, if it takes some of them back */
  add(stream: StreamName, event: UnsentEvent, kept = Number.POSITIVE_INFINITY): void {
    const before = this.#events.get(stream) ?? [];
    // An evicted collection folds no revert any more, so its events would wait for ever. The one that is read anew has them.
    while ((before.at(-1)?.version ?? 0) >= event.version) before.pop();
    const events = before.some(({ block }) => block > kept) ? before.map((one) => upToBlock(one, kept)) : before;
    events.push(event);
    this.#events.set(stream, events);
  }

  streams(): StreamName[] {
    return [...this.#events.keys()];
  }

  /** Version of the first event of a stream. */
  firstVersion(stream: StreamName): number | undefined {
    return this.#events.get(stream)?.[0]?.version;
  }

  /** Removes and returns the first events of a stream, as long as they are shown. */
  takeShown(stream: StreamName, shownVersion: (collection: Collection) => number): UnsentEvent[] {
    const events = this.#events.get(stream) ?? [];
    const waiting = events.findIndex(({ version, collection }) => version > shownVersion(collection));
    const shown = events.splice(0, waiting < 0 ? events.length : waiting);
    if (events.length === 0) this.#events.delete(stream);
    return shown;
  }
}

/**
 * Takes the blocks above `kept` out of an event, so that no message tells of what was taken back. The blocks of one event
 * may lie on both sides: the transfers up to `kept` stay.
 */
const upToBlock = (event: UnsentEvent, kept: number): UnsentEvent =>
  event.block <= kept ? event : { ...event, block: kept, message: event.messageUpTo?.(kept) };
