/**
 * The one subscriber of a process. It checks each message when it comes against what the log has: the block of a `status`
 * reaches as far as its version, and no event with transfers is left out between two messages.
 */
import type { Address } from "../../../src/core/hex.ts";
import { type BlockRef, type DomainEvent, nftStream, type StreamName } from "../../../src/events/types.ts";
import { fromStored, type StoredEvent } from "../../../src/log/records.ts";
import type { ServerMessage } from "../../../src/push/message-models.ts";
import { check } from "./witness.ts";

interface ListenedChain {
  readonly chainId: number;
  /** The rows of a stream in the log, by version from 1 on. */
  rowsOf(stream: StreamName): readonly StoredEvent[];
  isCanonical(block: BlockRef): boolean;
}

const decoded = new WeakMap<StoredEvent, DomainEvent>();

export class Listener {
  /** Messages in order. */
  readonly told: ServerMessage[] = [];
  readonly #chain: ListenedChain;
  /** The version of the last status, by address. */
  readonly #covered = new Map<string, number>();
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
    else if (type === "indexed") this.#known.set(address, Math.max(this.#covered.get(address) ?? 0, message.version));
    else if (type === "transfers" || type === "reorged") this.#goOn(address, message.version);
  }

  #begin({ address, version, status, block }: Extract<ServerMessage, { type: "status"; address: string }>): void {
    this.#covered.set(address, version);
    // Until `indexed`, the transfers have no messages of their own.
    if (status === "SYNCING") this.#known.delete(address);
    else this.#known.set(address, version);
    const end = this.#endAt(address, version);
    // The blocks of a lost branch are still in the collection until its own revert comes, which is told.
    const isWhole = end === undefined || end.number <= (block ?? 0) || !this.#chain.isCanonical(end);
    check(isWhole, `the status of ${address} names block ${block}, but its version ${version} has ${end?.number}`);
  }

  #goOn(address: string, version: number): void {
    const known = this.#known.get(address);
    if (known === undefined || version <= known) return;
    this.#known.set(address, version);
    // A revert that stands further on in the log may have been folded already.
    const events = this.#events(address);
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

  /** The newest block that a version of a collection has. */
  #endAt(address: string, version: number): BlockRef | undefined {
    let end: BlockRef | undefined;
    for (const event of this.#events(address, version)) {
      if (event.type === "TransfersCommitted") end = { number: event.toBlock, hash: event.toHash };
      else if (event.type === "BlocksReverted" && end !== undefined && end.number > event.ancestor.number)
        end = event.ancestor;
      else if (event.type === "ReindexRequested" || event.type === "CollectionRemoved") end = undefined;
    }
    return end;
  }

  #events(address: string, version?: number): DomainEvent[] {
    const stream = nftStream(this.#chain.chainId, address as Address);
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
