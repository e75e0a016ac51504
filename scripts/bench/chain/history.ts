/**
 * The whole history of one synthetic collection as the bytes of its logs. All logs have the same length, so the answer
 * for a range is a copy of neighbouring bytes. Mints come first and thin out, most transfers are among a few busy
 * holders, and one in fifty burns.
 */
import { id } from "ethers";
import { createRandom } from "../../local-chain/random.ts";
import { personAddress, Salt, writeDigits, writeHash, writeWord } from "./hex.ts";
import { blocksOf } from "./layout.ts";
import { type CollectionOptions, FIRST_BLOCK } from "./options.ts";

/** Logs per piece of memory: about 40 MB. */
const PIECE = 65_536;
const DEFAULT_PER_TOKEN = 3;
const MINT_SHARE = 0.8;
const BURN_ONE_IN = 50;
/** Transfers per holder. */
const TRANSFERS_PER_PERSON = 8;
const OPERATOR = "1e0049783f008a0085193e00003d00cd54003c71";
const MARK = "~";

const TOPICS = {
  erc721: id("Transfer(address,address,uint256)"),
  erc1155: id("TransferSingle(address,address,address,uint256,uint256)"),
} as const;

/** Offsets of a log's own digits in its bytes. */
interface Template {
  readonly bytes: Uint8Array;
  readonly from: number;
  readonly to: number;
  readonly id: number;
  readonly block: number;
  readonly transaction: number;
  readonly transactionIndex: number;
  readonly blockHash: number;
  readonly logIndex: number;
}

function templateOf({ address, standard }: CollectionOptions, position: number): Template {
  const hole = (digits: number) => MARK.repeat(digits);
  const person = `0x${"0".repeat(24)}${hole(40)}`;
  const token = `${"0".repeat(56)}${hole(8)}`;
  const topics =
    standard === "erc721"
      ? [TOPICS.erc721, person, person, `0x${token}`]
      : [TOPICS.erc1155, `0x${OPERATOR.padStart(64, "0")}`, person, person];
  const log = {
    address,
    topics,
    data: standard === "erc721" ? "0x" : `0x${token}${"1".padStart(64, "0")}`,
    blockNumber: `0x${hole(7)}`,
    transactionHash: `0x${hole(64)}`,
    transactionIndex: `0x${hole(2)}`,
    blockHash: `0x${hole(64)}`,
    // Collections may share a block, but not a log index in it.
    logIndex: `0x${(position + 1).toString(16)}${hole(2)}`,
    removed: false,
  };
  const text = `${JSON.stringify(log)},`;
  const holes = [...text.matchAll(/~+/g)].map(({ index }) => index);
  const [from, to, token_, block, transaction, transactionIndex, blockHash, logIndex] = holes as [
    number,
    number,
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  return { bytes: Buffer.from(text), from, to, id: token_, block, transaction, transactionIndex, blockHash, logIndex };
}

export class History {
  readonly address: string;
  readonly topic: string;
  readonly standard: CollectionOptions["standard"];
  readonly tokenUris: boolean;
  readonly count: number;
  readonly firstBlock = FIRST_BLOCK;
  readonly lastBlock: number;
  /** The minted tokens and their last owners: the owner's number by id, 0 for burned tokens. */
  minted = 0;
  readonly #owners: Uint32Array;
  readonly #blocks: Uint32Array;
  readonly #pieces: Uint8Array[] = [];
  readonly #width: number;

  /** @param position of the collection on the chain */
  constructor(options: CollectionOptions, position: number) {
    const { address, standard, transfers, perToken = DEFAULT_PER_TOKEN, tokenUris = false } = options;
    this.address = address.toLowerCase();
    this.standard = standard;
    this.topic = TOPICS[standard];
    this.tokenUris = tokenUris;
    this.count = transfers;
    this.#blocks = blocksOf(options);
    this.lastBlock = FIRST_BLOCK + (this.#blocks[transfers - 1] ?? 0);
    const template = templateOf(options, position);
    this.#width = template.bytes.length;
    this.#owners = new Uint32Array(Math.ceil(transfers / perToken) + 1);
    this.#render(template);
  }

  #render(template: Template): void {
    const { count } = this;
    const random = createRandom(11);
    const people = Math.max(2, Math.ceil(count / TRANSFERS_PER_PERSON));
    const persons = new Map<number, Uint8Array>();
    // The square makes a few holders busy.
    const randomHolder = () => {
      const luck = random.below(1_000_000) / 1_000_000;
      return 1 + Math.floor(luck * luck * people);
    };
    const writePerson = (target: Uint8Array, at: number, person: number) => {
      let digits = persons.get(person);
      if (digits === undefined) {
        digits = Buffer.from(personAddress(person).slice(2));
        persons.set(person, digits);
      }
      target.set(digits, at);
    };
    let piece = new Uint8Array(0);
    let inBlock = 0;
    for (let i = 0; i < count; i++) {
      const slot = i % PIECE;
      if (slot === 0) {
        piece = new Uint8Array(Math.min(PIECE, count - i) * this.#width);
        this.#pieces.push(piece);
      }
      const offset = this.#blocks[i] as number;
      inBlock = i > 0 && this.#blocks[i - 1] === offset ? inBlock + 1 : 0;
      const [token, from, to] = this.#move(random, randomHolder);
      const at = slot * this.#width;
      piece.set(template.bytes, at);
      writePerson(piece, at + template.from, from);
      writePerson(piece, at + template.to, to);
      writeWord(piece, at + template.id, token);
      writeDigits(piece, at + template.block, FIRST_BLOCK + offset, 7);
      writeHash(piece, at + template.transaction, i, Salt.transaction, 8);
      writeDigits(piece, at + template.transactionIndex, 16 + (inBlock % 240), 2);
      if (inBlock > 0 && slot > 0) {
        const before = at - this.#width + template.blockHash;
        piece.copyWithin(at + template.blockHash, before, before + 64);
      } else writeHash(piece, at + template.blockHash, FIRST_BLOCK + offset, Salt.block, 8);
      writeDigits(piece, at + template.logIndex, inBlock, 2);
    }
  }

  /** The next transfer: token, sender, receiver. */
  #move(random: ReturnType<typeof createRandom>, randomHolder: () => number): [number, number, number] {
    const owners = this.#owners;
    const isLeft = this.minted + 1 < owners.length;
    if (this.minted === 0 || (isLeft && random.below(1_000) < MINT_SHARE * 1_000)) return this.#mint(randomHolder());
    for (let tries = 0; tries < 8; tries++) {
      const token = 1 + random.below(this.minted);
      const from = owners[token] as number;
      if (from === 0) continue;
      const to = random.below(BURN_ONE_IN * 2) === 0 ? 0 : randomHolder();
      owners[token] = to;
      return [token, from, to];
    }
    return isLeft ? this.#mint(randomHolder()) : this.#again(1 + random.below(this.minted), randomHolder());
  }

  #mint(to: number): [number, number, number] {
    const token = ++this.minted;
    this.#owners[token] = to;
    return [token, 0, to];
  }

  /** Returns a token that may be burned. */
  #again(token: number, to: number): [number, number, number] {
    const from = this.#owners[token] as number;
    this.#owners[token] = to;
    return [token, from, to];
  }

  /** The index of the first log at or above `block`. */
  at(block: number): number {
    const offset = block - FIRST_BLOCK;
    let [low, high] = [0, this.count];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#blocks[middle] as number) < offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  hasLogsIn(block: number): boolean {
    return this.at(block) < this.at(block + 1);
  }

  /** The first blocks of a range that hold a log, at most `most`. */
  blocksFrom(from: number, to: number, most: number): number[] {
    const blocks: number[] = [];
    const end = this.at(to + 1);
    for (let i = this.at(from); i < end && blocks.length < most; ) {
      const block = FIRST_BLOCK + (this.#blocks[i] as number);
      blocks.push(block);
      while (i < end && FIRST_BLOCK + (this.#blocks[i] as number) === block) i++;
    }
    return blocks;
  }

  bytesOf(logs: number): number {
    return logs * this.#width;
  }

  /** Copies the logs from `from` (inclusive) to `to` (exclusive), each with its comma, to `at`. Returns the end. */
  copy(from: number, to: number, target: Uint8Array, at: number): number {
    let end = at;
    for (let i = from; i < to; ) {
      const slot = i % PIECE;
      const length = Math.min(to - i, PIECE - slot);
      const piece = this.#pieces[Math.floor(i / PIECE)] as Uint8Array;
      target.set(piece.subarray(slot * this.#width, (slot + length) * this.#width), end);
      end += length * this.#width;
      i += length;
    }
    return end;
  }

  /** The last holder of an ERC-721 token; undefined if it has none. */
  ownerOf(token: bigint): string | undefined {
    const person = token > 0n && token <= BigInt(this.minted) ? (this.#owners[Number(token)] as number) : 0;
    return person === 0 ? undefined : personAddress(person);
  }
}
