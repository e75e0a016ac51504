/**
 * The last block at or before a moment, by interpolation search over header timestamps: block times are irregular, so
 * each round asks a few headers around the guess and the middle, which at least halves what is left. Answers about
 * final blocks are kept for ever (bounded), and their headers narrow the next search.
 */
import { LRUCache } from "lru-cache";
import { AppError } from "../core/errors.ts";
import type { HeaderRef } from "../events/types.ts";
import type { ChainReader } from "../rpc/port.ts";

/** Headers remembered: a day of questions a minute apart. */
const MAX_KNOWN = 2_048;
/** When so few blocks are left, all of them are asked in one round. */
const LAST_ROUND = 6;

export class BlockTimes {
  readonly #reader: ChainReader;
  readonly #blockSeconds: number;
  readonly #known = new LRUCache<number, HeaderRef>({ max: MAX_KNOWN });
  readonly #answers = new LRUCache<number, HeaderRef>({ max: MAX_KNOWN });

  constructor(reader: ChainReader, blockSeconds: number) {
    this.#reader = reader;
    this.#blockSeconds = blockSeconds;
  }

  /**
   * The last block whose timestamp is at or before `timestamp` (Unix seconds), looking back from `from`; undefined
   * when the chain began later. `finalized`: blocks up to this number are final.
   * @throws AppError `chain_unavailable` when nobody gives the headers that decide it
   */
  async lastAt(timestamp: number, from: HeaderRef, finalized: number): Promise<HeaderRef | undefined> {
    if (from.timestamp <= timestamp) return from;
    const kept = this.#answers.get(timestamp);
    if (kept !== undefined) return kept;
    const found = await this.#search(timestamp, from, finalized);
    // The block after it must be final too, else it might be replaced by one that is in time.
    if (found !== undefined && found.number < finalized) this.#answers.set(timestamp, found);
    return found;
  }

  async #search(timestamp: number, from: HeaderRef, finalized: number): Promise<HeaderRef | undefined> {
    let { low, high } = this.#bracket(timestamp, from);
    for (let back = Math.max(1, (high.timestamp - timestamp) / this.#blockSeconds); low === undefined; back *= 2) {
      const number = Math.max(0, high.number - Math.ceil(back));
      const [header] = await this.#headers([number], finalized);
      if (header.timestamp <= timestamp) low = header;
      else if (number === 0) return undefined;
      else high = header;
    }
    while (high.number - low.number > 1) {
      for (const header of await this.#headers(guesses(timestamp, low, high), finalized)) {
        if (header.timestamp <= timestamp) {
          if (header.number > low.number) low = header;
        } else if (header.number < high.number) high = header;
      }
    }
    return low;
  }

  /** The nearest remembered headers on either side. */
  #bracket(timestamp: number, from: HeaderRef): { low: HeaderRef | undefined; high: HeaderRef } {
    let low: HeaderRef | undefined;
    let high = from;
    for (const header of this.#known.values()) {
      if (header.timestamp <= timestamp) {
        if (low === undefined || header.number > low.number) low = header;
      } else if (header.number < high.number) high = header;
    }
    return { low, high };
  }

  /** Those of the headers that somebody has, one at least. */
  async #headers(numbers: readonly number[], finalized: number): Promise<readonly [HeaderRef, ...HeaderRef[]]> {
    const given = (await this.#reader.headers(numbers)).filter((header) => header !== undefined);
    const headers = given.length > 0 ? given : await this.#singly(numbers);
    const [first, ...rest] = headers;
    // Whatever was asked lies below a block that is there: whoever lacks all of it is behind, or keeps no old blocks.
    if (first === undefined) throw missing(numbers);
    for (const { number, hash, parentHash, timestamp } of headers) {
      if (number <= finalized) this.#known.set(number, { number, hash, parentHash, timestamp });
    }
    return [first, ...rest];
  }

  /** What one endpoint has none of, of whichever has it: a header that is asked for alone is asked of all. */
  async #singly(numbers: readonly number[]): Promise<HeaderRef[]> {
    const headers = await Promise.all(numbers.map((number) => this.#reader.header(number)));
    return headers.filter((header) => header !== undefined);
  }
}

const missing = (numbers: readonly number[]): AppError =>
  new AppError("no endpoint has the headers of blocks below its own", {
    code: "chain_unavailable",
    retryable: true,
    meta: { fromBlock: numbers[0]!, toBlock: numbers.at(-1)! },
  });

/** Block numbers strictly between the ends: around the straight line's guess, and the middle. */
function guesses(timestamp: number, low: HeaderRef, high: HeaderRef): number[] {
  const span = high.number - low.number;
  if (span <= LAST_ROUND) return Array.from({ length: span - 1 }, (_, index) => low.number + 1 + index);
  const share = (timestamp - low.timestamp) / (high.timestamp - low.timestamp);
  const guess = low.number + Math.floor(share * span);
  const margin = Math.max(2, Math.floor(span / 64));
  const wanted = [guess - margin, guess, guess + 1, guess + margin, low.number + Math.floor(span / 2)];
  const inside = wanted.map((number) => Math.min(high.number - 1, Math.max(low.number + 1, number)));
  return [...new Set(inside)].sort((a, b) => a - b);
}
