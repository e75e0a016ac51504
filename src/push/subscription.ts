/**
 * One connection's subscription to one collection. Keeps the order of its messages: each version of the stream once and
 * in sequence, also during a replay. Also holds events back until pages show their blocks.
 */
import type { Clock } from "../core/clock.ts";
import type { Requester } from "../core/work.ts";
import type { NftEvent, StreamName } from "../events/types.ts";
import type { PageChain } from "../walks/snapshot.ts";
import type { MessageOf, ServerMessage } from "./message-models.ts";

/** The block and version that the chain view must have folded before pages show an event. */
interface ChainPosition {
  readonly block: number;
  /** Version of the chain's stream. */
  readonly chainVersion: number;
}

export interface HeldEvent {
  readonly version: number;
  readonly place: ChainPosition | undefined;
  /** Undefined for an event without a message. */
  readonly message: ServerMessage | undefined;
  /** The message of an event with transfers, without those above a block; undefined if none is left. */
  readonly messageUpTo?: ((block: number) => ServerMessage | undefined) | undefined;
}

/** Returns an event's place on the chain; undefined for an event that no page depends on. */
export function placeOf(event: NftEvent): ChainPosition | undefined {
  switch (event.type) {
    case "TransfersCommitted":
      // Pages show all of a backfill, independent of the head.
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

/** True if pages show events at this place. */
export function isShown(place: ChainPosition | undefined, chain: PageChain | undefined): boolean {
  if (place === undefined || chain === undefined) return true;
  const head = chain.head();
  return chain.version >= place.chainVersion && (head === undefined || head.number >= place.block);
}

export class HeldEvents {
  readonly #byStream = new Map<StreamName, HeldEvent[]>();

  /** Adds an event once, in order of versions. */
  add(stream: StreamName, event: HeldEvent): void {
    const held = this.#byStream.getOrInsertComputed(stream, () => []);
    const after = held.findLastIndex(({ version }) => version <= event.version);
    if (held[after]?.version !== event.version) held.splice(after + 1, 0, event);
  }

  /**
   * Takes the orphaned blocks above the ancestor out of the held events, so that no message tells of them. The blocks
   * of one event may lie on both sides: the transfers up to the ancestor stay.
   * @param version of the revert. Later events are of the new branch; they may be held already, because a subscription
   *   that begins holds the newest events once more
   */
  revert(stream: StreamName, ancestor: number, version: number): void {
    const held = this.#byStream.get(stream);
    held?.forEach((event, at) => {
      const { place, messageUpTo } = event;
      if (event.version > version || place === undefined || place.block <= ancestor) return;
      const message = messageUpTo?.(ancestor);
      held[at] = { ...event, message, place: message && { ...place, block: ancestor } };
    });
  }

  /** Removes and returns the events of a stream that pages show by now, in order. */
  take(stream: StreamName, chain: PageChain | undefined): HeldEvent[] {
    const held = this.#byStream.get(stream) ?? [];
    const next = held.findIndex(({ place }) => !isShown(place, chain));
    const taken = held.splice(0, next < 0 ? held.length : next);
    if (held.length === 0) this.#byStream.delete(stream);
    return taken;
  }

  /** Returns the version of the first held event; undefined without any. */
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
  readonly subscriptions: Map<StreamName, StreamSubscription>;
  /** Streams for which this connection got `indexed`. */
  readonly indexed: Set<StreamName>;
}

/** A reorg is reported by the chain, and by the stream of a collection that has orphaned blocks, in either order. */
type ReorgSource = "chain" | "stream";

export class StreamSubscription {
  readonly stream: StreamName;
  readonly peer: Peer;
  readonly connection: Connection;
  readonly unpin: () => void;
  /** Newest version that the client knows, or need not know. */
  sentVersion = Number.MAX_SAFE_INTEGER;
  /**
   * The client knows the chain up to this version of its stream: another replica has shown it more of the chain than
   * this replica shows. Undefined if not.
   */
  knownChainVersion: number | undefined;
  /** Newest version that arrived during a replay. The replay goes on until it reaches it. */
  replayTo = 0;
  #isReplaying = true;
  /** The chain's reverts that arrived during a replay, in order. */
  #heldReverts: MessageOf<"reorged">[] = [];
  /** The newest progress of the metadata that arrived during a replay. */
  #heldMetadata: MessageOf<"metadata"> | undefined;
  /** Hashes of the common ancestors that the replay sent. */
  readonly #replayed = new Set<string>();
  /** The last reorg sent, by the hash of its common ancestor. Its second report, from the other source, is not sent. */
  #reorg: { readonly hash: string; readonly source: ReorgSource } | undefined;

  constructor(
    stream: StreamName,
    { peer, connection, unpin }: Pick<StreamSubscription, "peer" | "connection" | "unpin">,
  ) {
    this.stream = stream;
    this.peer = peer;
    this.connection = connection;
    this.unpin = unpin;
  }

  /** False after the subscription was dropped. */
  get isListening(): boolean {
    return this.connection.subscriptions.get(this.stream) === this;
  }

  /** True if events are sent as they happen. */
  get isLive(): boolean {
    return !this.#isReplaying && this.isListening;
  }

  /** Newest version sent, if the client knows that the collection is complete. */
  get sentCompleteVersion(): number | undefined {
    const { stream, connection, sentVersion } = this;
    return this.isLive && connection.indexed.has(stream) ? sentVersion : undefined;
  }

  /** Starts after `status` was sent. Versions above `version` follow. */
  startAfter(version: number): void {
    this.sentVersion = version;
    this.#heldReverts = [];
  }

  /** Handles an event as it is folded: sends it, or leaves it to the running replay. */
  onEvent(version: number, message: ServerMessage): void {
    if (this.#isReplaying) this.replayTo = Math.max(this.replayTo, version);
    else if (this.isListening) this.#send(version, message);
  }

  /** Sends progress. Skips an older version: a collection that is read again starts further back. */
  onProgress(message: ServerMessage & { readonly version: number }): void {
    if (!this.isLive || message.version < this.sentVersion) return;
    this.sentVersion = message.version;
    this.peer.send(message);
  }

  /** Handles an older event from the log. `message` is undefined for an event without a message. */
  replay(version: number, message: ServerMessage | undefined): void {
    if (version <= this.sentVersion) return;
    // The chain's reverts before this event come first.
    this.#release(version);
    this.#send(version, message);
    if (message?.type === "reorged") this.#replayed.add(message.hash);
  }

  /** Ends the replay. From here on events are sent as they happen. */
  goLive(): void {
    this.#isReplaying = false;
    this.#release(Number.MAX_SAFE_INTEGER);
    this.#replayed.clear();
    if (this.#heldMetadata !== undefined) this.onMetadata(this.#heldMetadata);
    this.#heldMetadata = undefined;
  }

  /**
   * Sends progress of the metadata. It carries a version, so it must not overtake the replay up to that version. It names
   * the record that the client has, and no other: an older one would be replayed twice, a later one never.
   */
  onMetadata(message: MessageOf<"metadata">): void {
    if (!this.isListening) return;
    if (this.#isReplaying) {
      this.#heldMetadata = message;
      return;
    }
    const { resume: _other, ...rest } = message;
    this.peer.send(message.version === this.sentVersion ? message : { ...rest, version: this.sentVersion });
  }

  /**
   * Handles a reorg of the chain. The stream's own events may report the same one.
   * @param chainVersion of the reorg in the chain's stream
   */
  onChainReverted(message: MessageOf<"reorged">, chainVersion: number): void {
    if (!this.isListening || chainVersion <= (this.knownChainVersion ?? -1)) return;
    if (this.#isReplaying) this.#heldReverts.push(message);
    else this.#sendReorg(message, "chain");
  }

  /** Sends the held reverts with a version below `version`. */
  #release(version: number): void {
    for (let next = this.#heldReverts[0]; next !== undefined && next.version < version; next = this.#heldReverts[0]) {
      this.#heldReverts.shift();
      if (!this.#replayed.has(next.hash)) this.#sendReorg(next, "chain");
    }
  }

  #send(version: number, message: ServerMessage | undefined): void {
    if (version <= this.sentVersion) return;
    this.sentVersion = version;
    if (message?.type === "reorged") this.#sendReorg(message, "stream");
    else {
      // The chain reports a reorg before the stream goes on.
      if (this.#reorg?.source === "stream") this.#reorg = undefined;
      // The collection is indexed anew, and will be complete once more.
      if (message?.type === "status") this.connection.indexed.delete(this.stream);
      if (message?.type === "indexed") this.sendIndexed(message);
      else if (message !== undefined) this.peer.send(message);
    }
  }

  #sendReorg(message: MessageOf<"reorged">, source: ReorgSource): void {
    const isRepeated = this.#reorg?.hash === message.hash && this.#reorg.source !== source;
    this.#reorg = isRepeated ? undefined : { hash: message.hash, source };
    if (!isRepeated) this.peer.send(message);
  }

  /** Sends `indexed` once per connection, even after a new subscription or a reorg. */
  sendIndexed(message: ServerMessage): void {
    const { indexed } = this.connection;
    if (indexed.has(this.stream)) return;
    indexed.add(this.stream);
    this.peer.send(message);
  }
}

/** A connection as the channel sees it. */
export interface Peer {
  /** The key that opened it, and how many subscriptions that key may have over all of its connections. */
  readonly key: Requester & { readonly subscriptions: number };
  /**
   * Takes a request of the client from the rate of its key, and runs it as a question of that key. It ends with the
   * connection.
   * @throws Refusal `rate_limited` beyond the rate; an abort once the client is gone; errors of `work`
   */
  ask(work: () => Promise<void>): Promise<void>;
  send(message: ServerMessage): void;
  /** Calls back once the client has read everything that was sent so far. Never, if it is gone before. */
  onRead(callback: () => void): void;
}

// Paces messages: a throttle per key, which always runs the last call, and broadcasts in slices per event-loop turn, so
// that ten thousand subscribers don't delay HTTP requests.

/** Recipients per turn: one or two milliseconds of sending. */
const SLICE = 250;

interface Round<T> {
  readonly to: readonly T[];
  readonly send: (one: T) => void;
  done: number;
}

export class Broadcast<T> {
  readonly #rounds: Round<T>[] = [];

  /** Sends at once if the recipients fit one slice and no broadcast is queued; else queues. */
  send(to: ReadonlySet<T>, send: (one: T) => void): void {
    if (this.#rounds.length === 0 && to.size <= SLICE) {
      for (const one of to) send(one);
      return;
    }
    if (this.#rounds.push({ to: [...to], send, done: 0 }) === 1) this.#go();
  }

  #go(): void {
    const round = this.#rounds[0];
    if (round === undefined) return;
    const end = Math.min(round.to.length, round.done + SLICE);
    for (; round.done < end; round.done++) round.send(round.to[round.done] as T);
    if (round.done === round.to.length) this.#rounds.shift();
    if (this.#rounds.length > 0) setImmediate(() => this.#go());
  }

  stop(): void {
    this.#rounds.length = 0;
  }
}

interface Interval {
  readonly cancel: () => void;
  /** The call to run at the end of the interval. */
  next: (() => void) | undefined;
}

export class Throttle<K> {
  readonly #clock: Clock;
  readonly #ms: number;
  readonly #turns = new Map<K, Interval>();

  constructor(clock: Clock, ms: number) {
    this.#clock = clock;
    this.#ms = ms;
  }

  /** Runs the call now. During an interval it replaces the call that waits for the interval's end. */
  run(key: K, what: () => void): void {
    const turn = this.#turns.get(key);
    if (turn !== undefined) {
      turn.next = what;
      return;
    }
    const cancel = this.#clock.after(this.#ms, () => {
      const next = this.#turns.get(key)?.next;
      this.#turns.delete(key);
      if (next !== undefined) this.run(key, next);
    });
    this.#turns.set(key, { cancel, next: undefined });
    what();
  }

  /** Cancels the waiting call. */
  cancel(key: K): void {
    const turn = this.#turns.get(key);
    if (turn !== undefined) turn.next = undefined;
  }

  stop(): void {
    for (const { cancel } of this.#turns.values()) cancel();
    this.#turns.clear();
  }
}
