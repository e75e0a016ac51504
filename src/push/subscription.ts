/**
 * One connection's interest in one collection, and the order of what it is told: each version of the stream once and in
 * turn, also while older ones are still read for it from the log.
 */
import type { PageChain } from "../collections/current.ts";
import type { NftEvent, StreamName } from "../events/types.ts";
import type { ServerMessage } from "./messages.ts";

// Events that a collection has folded before the chain view shows their blocks. A client that reads a page on a message
// must find there what the message tells. The channel therefore holds such events back, in order, until the view shows
// them.

/** The block and version that the chain view must have folded before pages show an event. */
interface Place {
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

export interface Connection {
  readonly subscriptions: Map<StreamName, Subscription>;
  /** Streams whose `indexed` this connection has had. */
  readonly indexed: Set<StreamName>;
}

type Reorged = Extract<ServerMessage, { type: "reorged" }>;

export class Subscription {
  readonly stream: StreamName;
  readonly peer: Peer;
  readonly connection: Connection;
  readonly unpin: () => void;
  /** Newest version the peer was told of, or need not be. */
  version = Number.MAX_SAFE_INTEGER;
  /** Newest version that was to be told while a replay was under way: the replay comes to it. */
  heard = 0;
  #isReplaying = true;
  /** The chain's reverts that came up meanwhile, in order. */
  #held: Reorged[] = [];
  /** Ancestors that the replay told of. */
  readonly #replayed = new Set<string>();
  /** Ancestor of the chain's last revert that was told: the stream's own to it says the same again. */
  #revertedTo: string | undefined;
  /** And the other way round, where that of the stream was the last that was told. */
  #streamRevertedTo: string | undefined;

  constructor(stream: StreamName, { peer, connection, unpin }: Pick<Subscription, "peer" | "connection" | "unpin">) {
    this.stream = stream;
    this.peer = peer;
    this.connection = connection;
    this.unpin = unpin;
  }

  /** Whether it was not given up since. */
  get isListening(): boolean {
    return this.connection.subscriptions.get(this.stream) === this;
  }

  /** Whether what happens is told as it happens. */
  get isLive(): boolean {
    return !this.#isReplaying && this.isListening;
  }

  /** The version it was told of, of a collection that it knows to be complete. */
  get toldComplete(): number | undefined {
    const { stream, connection, version } = this;
    return this.isLive && connection.indexed.has(stream) ? version : undefined;
  }

  /** It was told how things stand: what is above `version` follows. */
  begin(version: number): void {
    this.version = version;
    this.#held = [];
  }

  /** An event as it is folded: told now, or by the replay under way. */
  happened(version: number, message: ServerMessage): void {
    if (this.#isReplaying) this.heard = Math.max(this.heard, version);
    else if (this.isListening) this.#tell(version, message);
  }

  /** How far its collection is by now; one that is read anew from the log was further before. */
  progressed(message: ServerMessage & { readonly version: number }): void {
    if (!this.isLive || message.version < this.version) return;
    this.version = message.version;
    this.peer.send(message);
  }

  /** An event of the past, read from the log; undefined for what says nothing. */
  replay(version: number, message: ServerMessage | undefined): void {
    if (version <= this.version) return;
    // What the chain said before this event was folded comes before it.
    this.#release(version);
    this.#tell(version, message);
    if (message?.type === "reorged") this.#replayed.add(message.hash);
  }

  /** All of the past is told: from here on it hears what happens as it happens. */
  goLive(): void {
    this.#isReplaying = false;
    this.#release(Number.MAX_SAFE_INTEGER);
    this.#replayed.clear();
  }

  /** The chain was reorganised, whether or not the stream's own events say so. */
  chainReverted(message: Reorged): void {
    if (!this.isListening) return;
    if (this.#isReplaying) {
      this.#held.push(message);
      return;
    }
    const isTold = this.#streamRevertedTo === message.hash;
    this.#streamRevertedTo = undefined;
    if (isTold) return;
    this.#revertedTo = message.hash;
    this.peer.send(message);
  }

  /** Tells the chain's reverts that came up before `version` did. */
  #release(version: number): void {
    for (let next = this.#held[0]; next !== undefined && next.version < version; next = this.#held[0]) {
      this.#held.shift();
      if (this.#replayed.has(next.hash)) continue;
      this.#revertedTo = next.hash;
      this.peer.send(next);
    }
  }

  #tell(version: number, message: ServerMessage | undefined): void {
    if (version <= this.version) return;
    this.version = version;
    this.#streamRevertedTo = undefined;
    if (message?.type === "indexed") this.tellIndexed(message);
    else if (message?.type === "reorged") {
      if (this.#revertedTo !== message.hash) {
        this.#streamRevertedTo = message.hash;
        this.peer.send(message);
      }
      this.#revertedTo = undefined;
    } else if (message !== undefined) this.peer.send(message);
  }

  /** `indexed` comes once to a connection, whatever is subscribed anew or reorganised. */
  tellIndexed(message: ServerMessage): void {
    const { indexed } = this.connection;
    if (indexed.has(this.stream)) return;
    indexed.add(this.stream);
    this.peer.send(message);
  }
}

/** A connection as the channel sees it. */
export interface Peer {
  send(message: ServerMessage): void;
}
