/**
 * What an archive tells of a range, as a hash for each block with a log. Two archives that were asked the same question are
 * compared by it, without keeping the logs of either: an omitted log, a forged one and another branch are all a difference.
 */
import type { Hash } from "../../core/hex.ts";
import { inChainOrder } from "../decode/verify-logs.ts";
import type { ChainLog } from "../port.ts";

/** Hex digits kept of the hash of a block: 128 bits, which no archive can collide. A million blocks take some 100 MB. */
const DIGITS = 32;

/**
 * The content of logs, in order, without their index: some nodes count the logs of receipts from 0 in each transaction.
 */
export const contentOfLogs = (logs: readonly ChainLog[]): string =>
  logs
    .toSorted(inChainOrder)
    .map(({ address, topics, data }) => [address, data, ...topics].join(" "))
    .join();

/** Hashes of what one archive told, by block. */
export class ToldBlocks {
  readonly #hashes = new Map<number, string>();

  /** Adds the logs of some blocks. */
  static of(logs: readonly ChainLog[]): ToldBlocks {
    const told = new ToldBlocks();
    for (const [block, own] of Map.groupBy(logs, ({ blockNumber }) => blockNumber)) {
      told.add({ number: block, hash: (own[0] as ChainLog).blockHash }, contentOfLogs(own));
    }
    return told;
  }

  /**
   * Adds a block with a log. Blocks without one are not added.
   * @param content all that was told of the block's logs, in chain order and in a form that both archives share
   */
  add({ number, hash }: { readonly number: number; readonly hash: Hash }, content: string): void {
    this.#hashes.set(number, Bun.CryptoHasher.hash("sha256", `${hash} ${content}`, "hex").slice(0, DIGITS));
  }

  /** One hash over all blocks: equal for archives that told the same. */
  get digest(): string {
    const hasher = new Bun.CryptoHasher("sha256");
    for (const number of this.#numbers()) hasher.update(`${number} ${this.#hashes.get(number)}\n`);
    return hasher.digest("hex");
  }

  /** Returns the first block of which the two archives told something else. Undefined if there is none. */
  firstDifference(other: ToldBlocks): number | undefined {
    if (this.digest === other.digest) return undefined;
    const numbers = [...new Set([...this.#numbers(), ...other.#numbers()])].sort((a, b) => a - b);
    return numbers.find((number) => this.#hashes.get(number) !== other.#hashes.get(number));
  }

  #numbers(): number[] {
    return [...this.#hashes.keys()].sort((a, b) => a - b);
  }
}
