/**
 * The WebSocket channel: who listens to which collection, and what they are told. Everything told is derived from the
 * collection's own stream as the projection folds it, so a reconnect heals by reading and nobody is told of what HTTP
 * does not yet show. Knows nothing of sockets but `Peer`.
 */
import { chainById } from "../chains/chains.ts";
import type { Clock } from "../core/clock.ts";
import { isAbort } from "../core/errors.ts";
import type { Address } from "../core/hex.ts";
import type { Logger } from "../core/logger.ts";
import { decodeTransfers, TransferKind, wordsToBigInt } from "../events/columns.ts";
import {
  type BlockRef,
  type NftEvent,
  nftStream,
  parseStream,
  type Recorded,
  type StreamName,
  type TransfersCommitted,
} from "../events/types.ts";
import type { EventLog } from "../log/port.ts";
import type { Collection } from "../nfts/collection.ts";
import { currentBlock, type PageChain } from "../nfts/pages.ts";
import { countEntries } from "../nfts/places.ts";
import type { CollectionProjections } from "../nfts/projections.ts";
import { type ClientMessage, parseClientMessage, type ServerMessage } from "./messages.ts";

/** How far a collection's metadata is. */
export interface MetadataCounts {
  readonly resolved: number;
  readonly failed: number;
}

/** A connection as the channel sees it. */
export interface Peer {
  send(message: ServerMessage): void;
}

export interface ChannelOptions {
  readonly log: EventLog;
  readonly projections: CollectionProjections;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The followed chain of an enabled chain id. */
  readonly chainOf: (chainId: number) => PageChain | undefined;
  readonly requestIndexing: (chainId: number, address: `0x${string}`) => Promise<void>;
  readonly maxSubscriptions: number;
}

/** Versions replayed at most for a `since`. */
const MAX_REPLAY = 1_000;
const MAX_TOKEN_IDS = 1_000;
/** At most four `progress` a second. */
const PROGRESS_MS = 250;
/** At most one `metadata` a second. */
const METADATA_MS = 1_000;

interface Subscription {
  readonly stream: StreamName;
  readonly unpin: () => void;
  /** Newest version the peer was told of, or need not be. */
  version: number;
  /** While a replay is read from the log, live events wait for it. */
  replaying: boolean;
  nextProgressAt: number;
  cancelProgress: (() => void) | undefined;
  /** Ancestor of the last `reorged` told: the stream's own revert to it says the same again. */
  revertedTo: string | undefined;
}

interface Connection {
  readonly subscriptions: Map<StreamName, Subscription>;
  /** Streams whose `indexed` this connection has had. */
  readonly indexed: Set<StreamName>;
}

export class Channel {
  readonly #options: ChannelOptions;
  readonly #connections = new Map<Peer, Connection>();
  readonly #byStream = new Map<StreamName, Set<Peer>>();
  readonly #unsubscribe: () => void;
  /** Collections whose subscribers were told of metadata in the last second, with what they are to be told next. */
  readonly #metadata = new Map<StreamName, MetadataCounts | undefined>();
  readonly #metadataTimers = new Set<() => void>();

  constructor(options: ChannelOptions) {
    this.#options = options;
    this.#unsubscribe = options.projections.subscribe((stream, collection, recorded) =>
      this.#onEvent(stream, collection, recorded),
    );
  }

  open(peer: Peer): void {
    this.#connections.set(peer, { subscriptions: new Map(), indexed: new Set() });
  }

  close(peer: Peer): void {
    const connection = this.#connections.get(peer);
    if (connection === undefined) return;
    for (const subscription of connection.subscriptions.values()) this.#drop(peer, subscription);
    this.#connections.delete(peer);
  }

  /** Handles a client's text. Never rejects: what is wrong is told to the client. */
  async receive(peer: Peer, text: string): Promise<void> {
    const message = parseClientMessage(text);
    if ("code" in message) {
      peer.send({ type: "error", code: message.code, message: message.message });
      return;
    }
    try {
      await this.#perform(peer, message);
    } catch (error) {
      if (isAbort(error)) return;
      this.#options.logger.error({ err: error }, "a WebSocket message could not be handled");
      peer.send({ type: "error", code: "internal", message: "internal error; try again" });
    }
  }

  async #perform(peer: Peer, message: ClientMessage): Promise<void> {
    const connection = this.#connections.get(peer);
    if (connection === undefined) return;
    switch (message.action) {
      case "ping":
        peer.send({ type: "pong" });
        return;
      case "unsubscribe": {
        const subscription = connection.subscriptions.get(nftStream(message.chain.chainId, message.address));
        if (subscription !== undefined) this.#drop(peer, subscription);
        peer.send({ type: "unsubscribed", chain: message.chain.name, address: message.address });
        return;
      }
      case "subscribe":
        await this.#subscribe(peer, connection, message);
        return;
      default:
        message satisfies never;
    }
  }

  async #subscribe(
    peer: Peer,
    connection: Connection,
    message: Extract<ClientMessage, { action: "subscribe" }>,
  ): Promise<void> {
    const { chain, address, since } = message;
    const { projections, chainOf, maxSubscriptions, requestIndexing } = this.#options;
    if (chainOf(chain.chainId) === undefined) {
      const text = `chain ${chain.name} is not enabled on this server`;
      peer.send({ type: "error", code: "chain_not_enabled", message: text });
      return;
    }
    const stream = nftStream(chain.chainId, address);
    const before = connection.subscriptions.get(stream);
    if (before !== undefined) this.#drop(peer, before);
    if (connection.subscriptions.size >= maxSubscriptions) {
      const text = `a connection may hold ${maxSubscriptions} subscriptions; unsubscribe from some, or open another`;
      peer.send({ type: "error", code: "rate_limited", message: text });
      return;
    }
    // Registered before the first await, so that the bound holds and nothing is missed in between.
    const subscription: Subscription = {
      stream,
      unpin: projections.pin(stream),
      version: Number.MAX_SAFE_INTEGER,
      replaying: true,
      nextProgressAt: 0,
      cancelProgress: undefined,
      revertedTo: undefined,
    };
    connection.subscriptions.set(stream, subscription);
    const peers = this.#byStream.get(stream) ?? new Set();
    this.#byStream.set(stream, peers.add(peer));

    let collection = await projections.get(chain.chainId, address);
    if (collection.version === 0) {
      await requestIndexing(chain.chainId, address);
      collection = await projections.get(chain.chainId, address);
    }
    if (connection.subscriptions.get(stream) !== subscription) return;
    await this.#greet(peer, connection, subscription, collection, since);
  }

  /** `status`, then `indexed` where it is due, then what `since` missed, then live. */
  async #greet(
    peer: Peer,
    connection: Connection,
    subscription: Subscription,
    collection: Collection,
    since: number | undefined,
  ): Promise<void> {
    const { stream } = subscription;
    const tooOld = since !== undefined && collection.version - since > MAX_REPLAY;
    peer.send(this.#status(stream, collection, tooOld));
    if (collection.completed !== undefined) {
      if (since !== undefined && since >= collection.completedVersion) connection.indexed.add(stream);
      else this.#tellIndexed(peer, connection, stream, collection);
    }
    subscription.version = since === undefined || tooOld ? collection.version : Math.min(since, collection.version);
    while (subscription.version < collection.version) {
      const page = await this.#options.log.read(stream, { from: subscription.version + 1, limit: MAX_REPLAY });
      if (connection.subscriptions.get(stream) !== subscription || page.length === 0) return;
      for (const recorded of page as Recorded<NftEvent>[]) {
        if (recorded.version > collection.version) break;
        this.#tell(peer, connection, subscription, collection, recorded);
      }
    }
    subscription.replaying = false;
  }

  #drop(peer: Peer, subscription: Subscription): void {
    const { stream } = subscription;
    subscription.cancelProgress?.();
    subscription.unpin();
    this.#connections.get(peer)?.subscriptions.delete(stream);
    const peers = this.#byStream.get(stream);
    peers?.delete(peer);
    if (peers?.size === 0) this.#byStream.delete(stream);
  }

  #onEvent(stream: StreamName, collection: Collection, recorded: Recorded<NftEvent>): void {
    for (const peer of this.#byStream.get(stream) ?? []) {
      const connection = this.#connections.get(peer);
      const subscription = connection?.subscriptions.get(stream);
      // During a replay the loop in `#greet` reads on to the collection's version, this event included.
      if (connection === undefined || subscription === undefined || subscription.replaying) continue;
      this.#tell(peer, connection, subscription, collection, recorded);
    }
  }

  /** The chain was reorganised: every subscriber of a collection of it is told, whether or not its own stream changed. */
  chainReverted(chainId: number, ancestor: BlockRef): void {
    for (const [stream, peers] of this.#byStream) {
      const parsed = parseStream(stream);
      const collection = this.#options.projections.peek(stream);
      if (parsed.chainId !== chainId || collection?.completed === undefined) continue;
      for (const peer of peers) {
        const subscription = this.#connections.get(peer)?.subscriptions.get(stream);
        if (subscription === undefined) continue;
        subscription.revertedTo = ancestor.hash;
        const { number: block, hash } = ancestor;
        peer.send({ type: "reorged", ...envelope(stream, collection.version), block, hash });
      }
    }
  }

  /** Whether anybody listens to the collection. */
  isHeard(chainId: number, address: Address): boolean {
    return this.#byStream.has(nftStream(chainId, address));
  }

  /** The collection's metadata came further: told at once, then at most once a second, the last of it always. */
  metadataMoved(chainId: number, address: Address, counts: MetadataCounts): void {
    const stream = nftStream(chainId, address);
    if (!this.#byStream.has(stream)) return;
    if (this.#metadata.has(stream)) {
      this.#metadata.set(stream, counts);
      return;
    }
    this.#sendMetadata(stream, counts);
    this.#metadata.set(stream, undefined);
    const cancel = this.#options.clock.after(METADATA_MS, () => {
      this.#metadataTimers.delete(cancel);
      const next = this.#metadata.get(stream);
      this.#metadata.delete(stream);
      if (next !== undefined) this.metadataMoved(chainId, address, next);
    });
    this.#metadataTimers.add(cancel);
  }

  #sendMetadata(stream: StreamName, { resolved, failed }: MetadataCounts): void {
    const collection = this.#options.projections.peek(stream);
    if (collection === undefined) return;
    const total = countEntries(collection.ledger, Number.MAX_SAFE_INTEGER, false);
    const left = Math.max(0, total - resolved - failed);
    for (const peer of this.#byStream.get(stream) ?? []) {
      peer.send({ type: "metadata", ...envelope(stream, collection.version), resolved, failed, left });
    }
  }

  #tell(
    peer: Peer,
    connection: Connection,
    subscription: Subscription,
    collection: Collection,
    { event, version }: Recorded<NftEvent>,
  ): void {
    if (version <= subscription.version) return;
    subscription.version = version;
    const { stream } = subscription;
    switch (event.type) {
      case "IndexingRequested":
      case "FlagsChanged":
        return;
      case "ContractIdentified":
        if (event.kind === "not_nft") peer.send(this.#status(stream, collection, false));
        if (event.kind === "not_a_contract") {
          const reason = "the address has neither code nor an NFT log";
          peer.send({
            type: "failed",
            ...envelope(stream, version),
            code: "not_a_contract",
            reason,
            nextTry: null,
          });
        }
        return;
      case "TransfersCommitted":
        if (collection.completed === undefined || version < collection.completedVersion) {
          this.#progress(peer, subscription, collection);
        } else if (event.count > 0) peer.send(transfersMessage(stream, version, event));
        return;
      case "BlocksReverted": {
        const { number: block, hash } = event.ancestor;
        if (subscription.revertedTo !== hash) peer.send({ type: "reorged", ...envelope(stream, version), block, hash });
        subscription.revertedTo = undefined;
        return;
      }
      case "IndexingCompleted":
        subscription.cancelProgress?.();
        subscription.cancelProgress = undefined;
        this.#tellIndexed(peer, connection, stream, collection);
        return;
      case "IndexingFailed":
        peer.send({
          type: "failed",
          ...envelope(stream, version),
          code: "indexing_failed",
          reason: event.reason,
          nextTry: new Date(event.retryAt).toISOString(),
        });
        return;
      default:
        event satisfies never;
    }
  }

  #tellIndexed(peer: Peer, connection: Connection, stream: StreamName, collection: Collection): void {
    const { completed, completedVersion, ledger } = collection;
    if (completed === undefined || connection.indexed.has(stream)) return;
    connection.indexed.add(stream);
    const total = countEntries(ledger, completed.number, false);
    const { number: block, hash } = completed;
    peer.send({ type: "indexed", ...envelope(stream, completedVersion), block, hash, total });
  }

  #status(stream: StreamName, collection: Collection, gap: boolean): ServerMessage {
    const chain = this.#options.chainOf(parseStream(stream).chainId);
    const current = chain === undefined ? collection.end : currentBlock(collection, chain);
    return {
      type: "status",
      ...envelope(stream, collection.version),
      status: collection.status === "syncing" ? "SYNCING" : "SYNCED",
      block: current?.number ?? null,
      percent: percentOf(collection),
      ...(gap ? { gap: true as const } : {}),
    };
  }

  /** At most one `progress` per interval; the last one is always sent. */
  #progress(peer: Peer, subscription: Subscription, collection: Collection): void {
    const { clock } = this.#options;
    if (subscription.cancelProgress !== undefined) return;
    const send = () => {
      subscription.cancelProgress = undefined;
      subscription.nextProgressAt = clock.monotonic() + PROGRESS_MS;
      if (collection.completed !== undefined) return;
      peer.send({
        type: "progress",
        ...envelope(subscription.stream, collection.version),
        percent: percentOf(collection),
        blocksLeft: blocksLeft(collection),
        transfers: collection.ledger.owners.count + collection.ledger.balances.count,
      });
    };
    const wait = subscription.nextProgressAt - clock.monotonic();
    if (wait <= 0) send();
    else subscription.cancelProgress = clock.after(wait, send);
  }

  stop(): void {
    this.#unsubscribe();
    for (const cancel of this.#metadataTimers) cancel();
    for (const peer of [...this.#connections.keys()]) this.close(peer);
  }
}

function envelope(stream: StreamName, version: number): { chain: string; address: string; version: number } {
  const parsed = parseStream(stream);
  const chain = chainById(parsed.chainId)?.name ?? String(parsed.chainId);
  return { chain, address: parsed.kind === "nft" ? parsed.address : "", version };
}

/** Blocks left to the head that the contract was identified at. */
function blocksLeft({ identified, end }: Collection): number {
  if (identified === undefined) return 0;
  return Math.max(0, identified.block - (end?.number ?? identified.startBlock - 1));
}

/** 0 to 100; 100 only once complete. */
function percentOf(collection: Collection): number {
  if (collection.status !== "syncing") return 100;
  const { identified } = collection;
  if (identified === undefined) return 0;
  const blocks = identified.block - identified.startBlock + 1;
  const done = blocks - blocksLeft(collection);
  return Math.max(0, Math.min(99, Math.floor((done * 100) / Math.max(1, blocks))));
}

function transfersMessage(stream: StreamName, version: number, event: TransfersCommitted): ServerMessage {
  const columns = decodeTransfers(event.transfers);
  const ids = new Set<string>();
  let truncated = false;
  for (let i = 0; i < columns.count && !truncated; i++) {
    const first = wordsToBigInt(columns.ids, i);
    const length = columns.kinds[i] === TransferKind.range ? wordsToBigInt(columns.amounts, i) : 1n;
    for (let offset = 0n; offset < length; offset++) {
      const id = (first + offset).toString();
      if (ids.size === MAX_TOKEN_IDS && !ids.has(id)) {
        truncated = true;
        break;
      }
      ids.add(id);
    }
  }
  return {
    type: "transfers",
    ...envelope(stream, version),
    block: event.toBlock,
    tokenIds: [...ids],
    ...(truncated ? { truncated: true as const } : {}),
  };
}
