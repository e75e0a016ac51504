/**
 * Which blocks a header's bloom and receipts' root are of. On most chains they are those of the header's own block. On a
 * chain with asynchronous execution (ACP-194, Avalanche since Helicon) a header has those of the blocks that it settles,
 * and names the newest of them. Until such a header exists, no bloom tells of a block, and its logs are the node's word.
 */
import type { Address } from "../../core/hex.ts";
import { addressesInBloom } from "../decode/bloom.ts";
import type { BlockHeader, BloomedBlocks, Watched } from "../port.ts";

/** Returns some headers in the requested order; undefined for a block that the chain doesn't have yet. */
export type ReadHeaders = (numbers: readonly number[]) => Promise<readonly (BlockHeader | undefined)[]>;

/** Headers read at once in search of the one that settles a block: more than five seconds of Avalanche. */
const READ_AT_ONCE = 16;
/** Blocks above a block among which the header that settles it is looked for. */
const MAX_AHEAD = 256;

/** The newest block whose bloom this header, or one before it, has. */
export const settledThrough = ({ number, settledHeight }: BlockHeader): number => settledHeight ?? number;

/** A block whose header has its own bloom. */
export function ownBloom(header: BlockHeader): BloomedBlocks {
  return { blocks: [header], logsBloom: header.logsBloom, receiptsRoot: header.receiptsRoot };
}

/** Returns the watched contracts that the blocks may have logs of; none if no bloom tells of them. */
export const namedIn = ({ logsBloom }: BloomedBlocks, watched: Watched): Address[] =>
  logsBloom === undefined ? [] : addressesInBloom({ logsBloom }, watched);

/**
 * Returns the given blocks with the blooms over them. A bloom over several blocks comes with all of these blocks, also
 * those that were not given.
 * @param headers in rising order
 * @param read asked only where a header settles other blocks than its own
 */
export async function bloomedBlocks(headers: readonly BlockHeader[], read: ReadHeaders): Promise<BloomedBlocks[]> {
  const known = new KnownHeaders(headers, read);
  const found: BloomedBlocks[] = [];
  let covered = -1;
  for (const header of headers) {
    if (header.number <= covered) continue;
    const group = header.settledHeight === undefined ? ownBloom(header) : await settledWith(header, known);
    covered = (group.blocks.at(-1) as BlockHeader).number;
    found.push(group);
  }
  return found;
}

/** Returns the blocks that are settled together with this one. */
async function settledWith(header: BlockHeader, known: KnownHeaders): Promise<BloomedBlocks> {
  const alone: BloomedBlocks = { blocks: [header], logsBloom: undefined, receiptsRoot: undefined };
  let parent = header;
  for (let number = header.number + 1; number <= header.number + MAX_AHEAD; number++) {
    const settler = await known.at(number);
    if (settler === undefined || settler.parentHash !== parent.hash) return alone;
    if (settledThrough(settler) >= header.number) {
      const { logsBloom, receiptsRoot } = settler;
      const blocks = await known.linked(settledThrough(parent) + 1, settledThrough(settler), header);
      return blocks === undefined ? alone : { blocks, logsBloom, receiptsRoot };
    }
    parent = settler;
  }
  return alone;
}

const numbersFrom = (first: number, count: number): number[] => Array.from({ length: count }, (_, at) => first + at);

/** Headers by number: the given ones, and those that were read in addition. */
class KnownHeaders {
  readonly #read: ReadHeaders;
  readonly #byNumber: Map<number, BlockHeader | undefined>;

  constructor(headers: readonly BlockHeader[], read: ReadHeaders) {
    this.#read = read;
    this.#byNumber = new Map(headers.map((header) => [header.number, header]));
  }

  async at(number: number): Promise<BlockHeader | undefined> {
    if (!this.#byNumber.has(number)) await this.#load(numbersFrom(number, READ_AT_ONCE));
    return this.#byNumber.get(number);
  }

  async #load(numbers: readonly number[]): Promise<void> {
    const missing = numbers.filter((number) => !this.#byNumber.has(number));
    const read = await this.#read(missing);
    for (const [at, number] of missing.entries()) this.#byNumber.set(number, read[at]);
  }

  /** Returns the headers of a range if they are linked to each other and to `via`, which is one of them. */
  async linked(from: number, to: number, via: BlockHeader): Promise<BlockHeader[] | undefined> {
    const numbers = numbersFrom(from, to - from + 1);
    await this.#load(numbers);
    const headers = numbers.flatMap((number) => this.#byNumber.get(number) ?? []);
    const isLinked = headers.every((one, at) => at === 0 || one.parentHash === headers[at - 1]?.hash);
    return headers.length === numbers.length && isLinked && headers.includes(via) ? headers : undefined;
  }
}
