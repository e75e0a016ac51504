/**
 * Events that a collection has folded before the chain view shows their blocks. A client that reads a page on a message
 * must find there what the message tells. The channel therefore holds such events back, in order, until the view shows
 * them.
 */
import type { NftEvent, StreamName } from "../events/types.ts";
import type { PageChain } from "../nfts/pages.ts";
import type { ServerMessage } from "./messages.ts";

/** The block and version that the chain view must have folded before pages show an event. */
export interface Place {
  readonly block: number;
  /** Version of the chain's stream. */
  readonly chainVersion: number;
}

export interface HeldEvent {
  readonly version: number;
  readonly place: Place | undefined;
  /** Undefined for an event that subscribers are not told of. */
  readonly message: ServerMessage | undefined;
}

/** Where an event lies on the chain; undefined for an event that no page depends on. */
export function placeOf(event: NftEvent): Place | undefined {
  switch (event.type) {
    case "TransfersCommitted":
      // Pages show a backfill as far as it is, whatever the head is.
      if (event.chainVersion === undefined) return { block: 0, chainVersion: 0 };
      return { block: event.toBlock, chainVersion: event.chainVersion };
    case "BlocksReverted":
      return { block: 0, chainVersion: event.chainVersion ?? 0 };
    case "IndexingCompleted":
      return { block: event.block, chainVersion: 0 };
    default:
      return undefined;
  }
}

/** Whether pages show what lies at this place. */
export function isShown(place: Place | undefined, chain: PageChain | undefined): boolean {
  if (place === undefined || chain === undefined) return true;
  const head = chain.head();
  return chain.version >= place.chainVersion && (head === undefined || head.number >= place.block);
}

export class HeldEvents {
  readonly #byStream = new Map<StreamName, HeldEvent[]>();

  /** Adds an event in order of versions, once. */
  add(stream: StreamName, event: HeldEvent): void {
    const held = this.#byStream.get(stream) ?? [];
    const after = held.findLastIndex(({ version }) => version <= event.version);
    if (held[after]?.version !== event.version) held.splice(after + 1, 0, event);
    this.#byStream.set(stream, held);
  }

  /** The blocks above the ancestor are gone: subscribers are not told of events in them. */
  revert(stream: StreamName, ancestor: number): void {
    const held = this.#byStream.get(stream);
    held?.forEach((event, at) => {
      if ((event.place?.block ?? 0) > ancestor) held[at] = { ...event, place: undefined, message: undefined };
    });
  }

  /** Takes out the events of a stream that pages show by now, in order. */
  take(stream: StreamName, chain: PageChain | undefined): HeldEvent[] {
    const held = this.#byStream.get(stream) ?? [];
    const next = held.findIndex(({ place }) => !isShown(place, chain));
    const taken = held.splice(0, next < 0 ? held.length : next);
    if (held.length === 0) this.#byStream.delete(stream);
    return taken;
  }

  /** Version of the first event that is held back; undefined when none is. */
  first(stream: StreamName): number | undefined {
    return this.#byStream.get(stream)?.[0]?.version;
  }

  streams(): StreamName[] {
    return [...this.#byStream.keys()];
  }

  drop(stream: StreamName): void {
    this.#byStream.delete(stream);
  }
}
