/**
 * The one subscriber of a process. It checks each message when it comes against what the log has: the block of a `status`
 * reaches as far as its version, and no event with transfers is left out between two messages.
 */
import type { Address } from "../../../src/core/hex.ts";
import {
  chainStream,
  type DomainEvent,
  nftStream,
  type StreamName,
  type TransfersCommitted,
} from "../../../src/events/types.ts";
import { fromStored, type StoredEvent } from "../../../src/log/records.ts";
import type { ServerMessage } from "../../../src/push/message-models.ts";
import { check } from "./witness.ts";

interface ListenedChain {
  readonly chainId: number;
  /** The rows of a stream in the log, by version from 1 on. */
  rowsOf(stream: StreamName): readonly StoredEvent[];
}

const decoded = new WeakMap<StoredEvent, DomainEvent>();

export class Listener {
  /** Messages in order. */
  readonly told: ServerMessage[] = [];
  readonly #chain: ListenedChain;
  /** The version of the last status, by address. */
  readonly #covered = new Map<string, number>();
  /** The version of the last `indexed`, by address. */
  readonly #indexed = new Map<string, number>();
  /** Newest version that the subscriber of a complete collection knows, by address. */
  readonly #known = new Map<string, number>();

  constructor(chain: ListenedChain) {
    this.#chain = chain;
  }

  /** @throws Violation */
  hear(message: ServerMessage): void {
    this.told.push(message);
    if (!("address" in message)) return;
    const { type, address } = message;
    if (type === "status") this.#begin(message);
    else if (type === "indexed") {
      this.#indexed.set(address, message.version);
      this.#known.set(address, Math.max(this.#covered.get(address) ?? 0, message.version));
    } else if (type === "transfers" || type === "reorged") this.#goOn(address, message.version);
  }

  #begin({ address, version, status, block }: Extract<ServerMessage, { type: "status"; address: string }>): void {
    this.#covered.set(address, version);
    const events = this.#events(nftStream(this.#chain.chainId, address as Address));
    const begun = events.findLastIndex(({ type }) => type === "ReindexRequested" || type === "CollectionRemoved") + 1;
    const isTold = (this.#indexed.get(address) ?? 0) > begun;
    const isToComplete = !isTold && events.slice(version).some(({ type }) => type === "IndexingCompleted");
    // Until `indexed`, the transfers have no messages of their own. A completion that is folded already is still to be told.
    if (status === "SYNCING" || isToComplete) {
      this.#known.delete(address);
      return;
    }
    this.#known.set(address, version);
    const end = this.#endAt(address, version);
    // The blocks that the chain has reverted are still in the collection until its own revert comes, which is told.
    const isWhole = end === undefined || end.toBlock <= (block ?? 0) || this.#isReverted(end);
    check(isWhole, `the status of ${address} names block ${block}, but its version ${version} has ${end?.toBlock}`);
  }

  #goOn(address: string, version: number): void {
    const known = this.#known.get(address);
    if (known === undefined || version <= known) return;
    this.#known.set(address, version);
    // A revert that stands further on in the log may have been folded already.
    const events = this.#events(nftStream(this.#chain.chainId, address as Address));
    for (let between = known + 1; between < version; between++) {
      const event = events[between - 1];
      if (event?.type !== "TransfersCommitted" || event.count === 0) continue;
      const isOrphaned = events
        .slice(between)
        .some((later) => later.type === "BlocksReverted" && later.ancestor.number < event.toBlock);
      check(
        isOrphaned,
        `a message of version ${version} of ${address} follows ${known}, without the transfers of ${between}`,
      );
    }
  }

  /** The event that reaches furthest at a version of a collection, as far as no revert has taken it back. */
  #endAt(address: string, version: number): TransfersCommitted | undefined {
    let ends: TransfersCommitted[] = [];
    for (const event of this.#events(nftStream(this.#chain.chainId, address as Address), version)) {
      if (event.type === "TransfersCommitted") ends.push(event);
      else if (event.type === "BlocksReverted") ends = ends.filter(({ toBlock }) => toBlock <= event.ancestor.number);
      else if (event.type === "ReindexRequested" || event.type === "CollectionRemoved") ends = [];
    }
    return ends.at(-1);
  }

  /** True if the chain's stream has taken blocks of an event back since the event was recorded. */
  #isReverted({ chainVersion, toBlock }: TransfersCommitted): boolean {
    if (chainVersion === undefined) return false;
    const later = this.#events(chainStream(this.#chain.chainId)).slice(chainVersion);
    return later.some((event) => event.type === "ChainReverted" && event.ancestor.number < toBlock);
  }

  #events(stream: StreamName, version?: number): DomainEvent[] {
    return this.#chain
      .rowsOf(stream)
      .slice(0, version)
      .map((row) => {
        const event = decoded.get(row) ?? fromStored(stream, row).event;
        decoded.set(row, event);
        return event;
      });
  }
}
