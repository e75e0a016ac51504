/**
 * A chain whose stream a test writes, and a process that shows it: the clock, its collections and its channel over a real
 * log. Nothing is shown before the test says so.
 */

import { type Moved, PublishedChain } from "../../src/chain/view.ts";
import { systemClock } from "../../src/core/clock.ts";
import { silentLogger } from "../../src/core/logger.ts";
import { type ChainEvent, chainStream, type HeaderRef } from "../../src/events/types.ts";
import type { EventLog } from "../../src/log/event-log.ts";
import { HotCollections } from "../../src/nft/collections/hot-collections.ts";
import { Channel, type ChannelOptions } from "../../src/push/channel.ts";
import type { ServerMessage } from "../../src/push/message-models.ts";
import { hash } from "./histories.ts";
import { KNOWN } from "./known-chains.ts";
import { READER } from "./requesters.ts";

const CHAIN_ID = 1;

/** Writes the stream of a chain, as its follower does. A block has the hash of its number and its branch. */
export class WrittenChain {
  readonly #log: EventLog;
  readonly #headers: HeaderRef[] = [];
  #branch = 0;
  version = 0;

  constructor(log: EventLog) {
    this.#log = log;
  }

  /** Hash of a block of the present branch. Those of the first branch are the ones of `histories.ts`. */
  hashOf(number: number): HeaderRef["hash"] {
    return this.#headers[number]?.hash ?? hash(this.#branch * 1_000_000 + number);
  }

  async #append(event: ChainEvent): Promise<void> {
    const append = { stream: chainStream(CHAIN_ID), events: [event], expectedVersion: this.version };
    this.version = await this.#log.append(append);
  }

  /** Records a head. */
  async advance(head: number): Promise<void> {
    const from = this.#headers.length;
    for (let number = from; number <= head; number++) {
      const parentHash = this.#headers[number - 1]?.hash ?? hash(999_999);
      this.#headers.push({ number, hash: this.hashOf(number), parentHash, timestamp: 1_700_000_000 + number });
    }
    await this.#append({ type: "HeadAdvanced", fromBlock: from, headers: this.#headers.slice(from) });
  }

  /** Records that the blocks above the ancestor were orphaned. */
  async revert(ancestor: number): Promise<void> {
    const orphaned = this.#headers.splice(ancestor + 1);
    this.#branch++;
    const { number, hash: of } = this.#headers[ancestor] as HeaderRef;
    await this.#append({ type: "ChainReverted", ancestor: { number, hash: of }, orphaned });
  }
}

interface ShowingOptions {
  readonly maxBytes?: number;
  /** Called when the collections are at a head that is not shown yet. */
  readonly beforeShown?: () => Promise<void>;
}

/** A process that shows a chain. */
export class ShowingProcess {
  readonly log: EventLog;
  readonly view: PublishedChain;
  readonly projections: HotCollections;
  readonly channel: Channel;

  constructor(log: EventLog, options: Partial<ChannelOptions> & ShowingOptions = {}) {
    const { maxBytes = 1e9, beforeShown, ...others } = options;
    this.log = log;
    this.projections = new HotCollections({ log, logger: silentLogger, maxBytes, clockOf: () => this.view });
    this.view = new PublishedChain(log, CHAIN_ID, async (head) => {
      await this.projections.bringTo(CHAIN_ID, head);
      if (head !== undefined) await beforeShown?.();
    });
    this.channel = new Channel({
      ...{ chains: KNOWN, log, projections: this.projections, clock: systemClock, logger: silentLogger },
      chainOf: (chainId) => (chainId === CHAIN_ID ? this.view : undefined),
      demand: { request: async () => undefined },
      maxSubscriptions: 3,
      ...others,
    });
    this.view.onMoved((moved: Moved) => this.channel.onMoved(CHAIN_ID, moved));
  }

  /** Shows what the chain's stream has, or as much as a version of it. */
  show(version?: number): Promise<void> {
    return version === undefined ? this.view.newest() : this.view.catchUp(version);
  }

  /**
   * Subscribes a client. Returns its messages, which grow.
   * @param onMessage called with all messages after each
   */
  async subscribe(
    address: string,
    since?: unknown,
    onMessage?: (messages: ServerMessage[]) => void,
  ): Promise<ServerMessage[]> {
    const messages: ServerMessage[] = [];
    const peer = {
      key: READER,
      send: (message: ServerMessage) => {
        messages.push(message);
        onMessage?.(messages);
      },
      ask: (work: () => Promise<void>) => work(),
      onRead: () => undefined,
    };
    this.channel.open(peer);
    await this.channel.receive(peer, JSON.stringify({ action: "subscribe", address, since }));
    return messages;
  }

  async close(): Promise<void> {
    this.channel.stop();
    await this.projections.close();
  }
}

/** Types and versions of messages. */
export const brief = (messages: readonly ServerMessage[]) =>
  messages.map((message) => [message.type, "version" in message ? message.version : undefined]);
