/**
 * One connection's subscription to one collection. Keeps the order of its messages: each version of the stream once and
 * in sequence, also during a replay.
 */
import type { Requester } from "../core/work.ts";
import type { StreamName } from "../events/types.ts";
import type { MessageOf, ServerMessage } from "./message-models.ts";

export interface Connection {
  readonly subscriptions: Map<StreamName, StreamSubscription>;
  /** Streams for which this connection got `indexed`, each with the version that it was told of. */
  readonly indexed: Map<StreamName, number>;
}

export class StreamSubscription {
  readonly stream: StreamName;
  readonly peer: Peer;
  readonly connection: Connection;
  readonly unpin: () => void;
  /** Newest version that the client knows, or need not know. */
  sentVersion = Number.MAX_SAFE_INTEGER;
  /** Newest version that arrived during a replay. The replay goes on until it reaches it. */
  replayTo = 0;
  #isReplaying = true;
  /** The chain's reverts that arrived during a replay, in order. */
  #heldReverts: MessageOf<"reorged">[] = [];
  /** The newest progress of the metadata that arrived during a replay. */
  #heldMetadata: MessageOf<"metadata"> | undefined;

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

  /**
   * True if the client has had `indexed`. It gets it no more, so nothing but messages of their own tells it of transfers that a
   * later completion covers.
   */
  get knowsIndexed(): boolean {
    return this.connection.indexed.has(this.stream);
  }

  /** True if events are sent as they happen. */
  get isLive(): boolean {
    return !this.#isReplaying && this.isListening;
  }

  /** Newest version sent, if the client knows that the collection is complete. */
  get sentCompleteVersion(): number | undefined {
    return this.isLive && this.knowsIndexed ? this.sentVersion : undefined;
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
  }

  /** Ends the replay. From here on events are sent as they happen. */
  goLive(): void {
    this.#isReplaying = false;
    this.#release(Number.MAX_SAFE_INTEGER);
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

  /** Handles a reorganisation of the chain that left the collection's own blocks as they were. */
  onChainReverted(message: MessageOf<"reorged">): void {
    if (!this.isListening) return;
    if (this.#isReplaying) this.#heldReverts.push(message);
    else this.peer.send(message);
  }

  /** Sends the held reverts with a version below `version`. */
  #release(version: number): void {
    for (let next = this.#heldReverts[0]; next !== undefined && next.version < version; next = this.#heldReverts[0]) {
      this.#heldReverts.shift();
      this.peer.send(next);
    }
  }

  #send(version: number, message: ServerMessage | undefined): void {
    if (version <= this.sentVersion) return;
    this.sentVersion = version;
    // The collection is indexed anew, and will be complete once more.
    const isAnew = message?.type === "status" && "gap" in message && message.block === null;
    if (isAnew) this.connection.indexed.delete(this.stream);
    if (message?.type === "indexed") this.sendIndexed(message);
    else if (message !== undefined) this.peer.send(message);
  }

  /** Sends `indexed` once per connection, even after a new subscription or a reorg. */
  sendIndexed(message: MessageOf<"indexed">): void {
    const { indexed } = this.connection;
    if (indexed.has(this.stream)) return;
    indexed.set(this.stream, message.version);
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
