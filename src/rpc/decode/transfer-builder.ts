/** Builds columns of transfers, one decoded log at a time, and encodes them. */
import { encodeTransfers, type TransferKind } from "../../events/columns.ts";
import type { ChainLog } from "../port.ts";

/** The zero address, 40 digits without 0x. */
export const ZERO_ADDRESS_DIGITS = "0".repeat(40);

/** Growing columns of transfers. Addresses are interned by their 40 hex digits. */
export class TransferBuilder {
  count = 0;
  kinds = new Uint8Array(1024);
  blocks = new Uint32Array(1024);
  logIndexes = new Uint32Array(1024);
  from = new Uint32Array(1024);
  to = new Uint32Array(1024);
  ids = new Uint32Array(8 * 1024);
  amounts = new Uint32Array(8 * 1024);
  readonly #dictionary = new Map<string, number>();

  #grow(): void {
    const size = this.kinds.length * 2;
    const widen = <T extends Uint8Array | Uint32Array>(old: T, length: number): T => {
      const grown = new (old.constructor as new (length: number) => T)(length);
      grown.set(old);
      return grown;
    };
    this.kinds = widen(this.kinds, size);
    this.blocks = widen(this.blocks, size);
    this.logIndexes = widen(this.logIndexes, size);
    this.from = widen(this.from, size);
    this.to = widen(this.to, size);
    this.ids = widen(this.ids, size * 8);
    this.amounts = widen(this.amounts, size * 8);
  }

  /** Adds a transfer and returns its index. The caller writes the words of id and amount at that index. */
  add(kind: TransferKind, log: ChainLog, from: string, to: string): number {
    if (this.count === this.kinds.length) this.#grow();
    const at = this.count++;
    this.kinds[at] = kind;
    this.blocks[at] = log.blockNumber;
    this.logIndexes[at] = log.logIndex;
    this.from[at] = this.#intern(from);
    this.to[at] = this.#intern(to);
    return at;
  }

  #intern(digits: string): number {
    let index = this.#dictionary.get(digits);
    if (index === undefined) {
      index = this.#dictionary.size;
      this.#dictionary.set(digits, index);
    }
    return index;
  }

  finish(): Uint8Array {
    const addressCount = this.#dictionary.size;
    const addresses = new Uint8Array(Buffer.from([...this.#dictionary.keys()].join(""), "hex"));
    return encodeTransfers({
      count: this.count,
      addressCount,
      addresses,
      kinds: this.kinds,
      blocks: this.blocks,
      logIndexes: this.logIndexes,
      from: this.from,
      to: this.to,
      ids: { words: 8, values: this.ids },
      amounts: { words: 8, values: this.amounts },
    });
  }
}

/** Writes the 64 hex digits at `start` of `hex` as eight words, lowest first. */
export function writeWords(hex: string, start: number, target: Uint32Array, index: number): void {
  const base = index * 8;
  for (let w = 0; w < 8; w++) {
    const end = start + 64 - w * 8;
    target[base + w] = Number.parseInt(hex.slice(end - 8, end), 16);
  }
}

/** Returns the digits of the address in a topic. */
export const addressOfTopic = (topic: string): string => topic.slice(26);

/** Adds the transfer of one token with amount 1. `id` is 64 digits. */
export function addSingle(
  builder: TransferBuilder,
  kind: TransferKind,
  log: ChainLog,
  from: string,
  to: string,
  id: string,
): void {
  const at = builder.add(kind, log, from, to);
  writeWords(id, 0, builder.ids, at);
  builder.amounts.fill(0, at * 8, at * 8 + 8);
  builder.amounts[at * 8] = 1;
}
