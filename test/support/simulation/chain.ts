/**
 * The simulated chain, which defines the truth: blocks by hash, a canonical branch, and in each block the transfers of
 * a few contracts of several kinds, as logs and as facts. The simulation compares every answer of the service with it.
 */
import { id } from "ethers";
import type { Random } from "../../../scripts/local-chain/random.ts";
import type { Address, Hash } from "../../../src/core/hex.ts";
import { TransferKind } from "../../../src/events/columns.ts";
import { headerHash } from "../../../src/rpc/decode/header-hash.ts";
import {
  ASSIGN,
  PUNK_TRANSFER,
  TRANSFER,
  TRANSFER_BATCH,
  TRANSFER_SINGLE,
} from "../../../src/rpc/decode/transfer-topics.ts";
import { logsBloomOf } from "../bloom.ts";
import type { ModelTransfer } from "../naive-ledger.ts";

export interface SimLog {
  readonly address: Address;
  readonly topics: Hash[];
  readonly data: string;
}

export interface SimBlock {
  readonly number: number;
  readonly hash: Hash;
  readonly parentHash: Hash;
  /** Seconds. */
  readonly timestamp: number;
  readonly logsBloom: string;
  readonly logs: readonly SimLog[];
  /** The header's other fields, where headers make their hash. */
  readonly fields: Readonly<Record<string, string>>;
  /** The transfers that the block's logs mean, by contract. */
  readonly facts: ReadonlyMap<Address, readonly ModelTransfer[]>;
}

export type Kind = "erc721" | "erc1155" | "punks" | "unindexed" | "erc20" | "none";

export interface SimContract {
  readonly address: Address;
  readonly kind: Kind;
  readonly createdAt: number;
}

const HOLDERS = 6;
const word = (value: bigint | number): string => BigInt(value).toString(16).padStart(64, "0");
const hex = (value: bigint | number): Hash => `0x${word(value)}` as Hash;
const FOREIGN = id("Foreign(uint256)") as Hash;

export class SimChain {
  readonly blocks = new Map<Hash, SimBlock>();
  /** Blocks of the canonical branch, by number. */
  canonical: SimBlock[] = [];
  finalizedNumber = 0;
  readonly contracts: readonly SimContract[];
  readonly #random: Random;
  #counter = 0;
  #nextId = 1n;
  /** Timestamp of the genesis block, in seconds. */
  readonly #start: number;

  /** The first block with a header that no longer makes its hash; undefined if none ever does. */
  readonly #hashFork: number | undefined;

  constructor(random: Random, contracts: readonly SimContract[], start: number, hashFork?: number) {
    this.#hashFork = hashFork;
    this.#random = random;
    this.contracts = contracts;
    this.#start = start;
    this.mine(start);
  }

  get head(): SimBlock {
    return this.canonical.at(-1) as SimBlock;
  }

  get finalized(): SimBlock {
    return this.canonical[this.finalizedNumber] as SimBlock;
  }

  /** Adds a block to the canonical branch. */
  mine(timestamp = this.head.timestamp + 2): SimBlock {
    const parent = this.canonical.at(-1);
    const number = parent === undefined ? 0 : parent.number + 1;
    const logs: SimLog[] = [];
    const facts = new Map<Address, ModelTransfer[]>();
    for (const contract of this.contracts) {
      if (number < contract.createdAt || this.#random.below(3) > 0) continue;
      const list: ModelTransfer[] = [];
      for (let left = 1 + this.#random.below(3); left > 0; left--) this.#act(contract, number, logs, list);
      if (list.length > 0) facts.set(contract.address, list);
    }
    for (let noise = this.#random.below(4); noise > 0; noise--) {
      const stranger = hex(0xf000 + this.#random.below(200)).slice(26);
      logs.push({ address: `0x${stranger}` as Address, topics: [TRANSFER, hex(1), hex(2), hex(noise)], data: "0x" });
      logs.push({ address: `0x${stranger}` as Address, topics: [FOREIGN], data: hex(noise) });
    }
    const own = {
      ...{ number, parentHash: parent?.hash ?? hex(0), timestamp },
      ...{ logsBloom: logsBloomOf(logs), logs, facts },
    };
    const salt = hashOf(++this.#counter, this.#start);
    const block: SimBlock = { ...own, ...this.#hashed(own, salt) };
    this.blocks.set(block.hash, block);
    this.canonical.push(block);
    return block;
  }

  /** A header's hash, by its fields where headers make it, and its other fields. */
  #hashed(
    { number, parentHash, timestamp, logsBloom }: Pick<SimBlock, "number" | "parentHash" | "timestamp" | "logsBloom">,
    salt: Hash,
  ): Pick<SimBlock, "hash" | "fields"> {
    if (this.#hashFork === undefined) return { hash: salt, fields: {} };
    const zero = hex(0);
    const fields = {
      ...{
        sha3Uncles: zero,
        miner: `0x${"0".repeat(40)}`,
        stateRoot: zero,
        transactionsRoot: zero,
        receiptsRoot: zero,
      },
      ...{
        difficulty: "0x0",
        gasLimit: "0x1",
        gasUsed: "0x0",
        extraData: salt,
        mixHash: zero,
        nonce: "0x0000000000000000",
      },
    };
    const known = { number, timestamp, parentHash, logsBloom };
    // From the fork on, headers have a field that the code under test doesn't know.
    const isKnown = number < this.#hashFork;
    return { hash: headerHash({ ...fields, ...known, extraData: isKnown ? salt : `${salt}01` }) as Hash, fields };
  }

  #act({ kind, address }: SimContract, block: number, logs: SimLog[], facts: ModelTransfer[]): void {
    const random = this.#random;
    const fresh = random.below(3) === 0;
    // Ids repeat on other branches, and the sender need not own the token: contracts break their own rules here too.
    const token = fresh ? this.#nextId++ : BigInt(1 + random.below(Number(this.#nextId)));
    const from = fresh ? 0 : random.below(HOLDERS);
    const to = random.below(8) === 0 ? 0 : 1 + random.below(HOLDERS - 1);
    const single = (type: TransferKind, amount = 1n) => facts.push({ kind: type, block, from, to, id: token, amount });
    const emit = (topics: Hash[], data = "0x") => logs.push({ address, topics, data });
    switch (kind) {
      case "erc721":
        emit([TRANSFER, hex(from), hex(to), hex(token)]);
        single(TransferKind.erc721);
        return;
      case "unindexed":
        emit([TRANSFER], `0x${word(from)}${word(to)}${word(token)}`);
        single(TransferKind.erc721);
        return;
      case "punks":
        if (from === 0) emit([ASSIGN, hex(to)], hex(token));
        else emit([PUNK_TRANSFER, hex(from), hex(to)], hex(token));
        single(TransferKind.cryptopunks);
        return;
      case "erc1155": {
        const amount = BigInt(random.below(4));
        if (random.below(2) === 0) {
          emit([TRANSFER_SINGLE, hex(9), hex(from), hex(to)], `0x${word(token)}${word(amount)}`);
          single(TransferKind.erc1155, amount);
          return;
        }
        const more = token + 1n;
        const ids = `${word(2)}${word(token)}${word(more)}`;
        emit(
          [TRANSFER_BATCH, hex(9), hex(from), hex(to)],
          `0x${word(64)}${word(160)}${ids}${word(2)}${word(amount)}${word(1)}`,
        );
        single(TransferKind.erc1155, amount);
        facts.push({ kind: TransferKind.erc1155, block, from, to, id: more, amount: 1n });
        return;
      }
      case "erc20":
        emit([TRANSFER, hex(from), hex(to)], hex(token));
        return;
      case "none":
        return;
      default:
        kind satisfies never;
    }
  }

  /** Replaces the newest `depth` blocks by `length` new ones. */
  fork(depth: number, length: number): void {
    const ancestor = this.canonical[this.canonical.length - 1 - depth] as SimBlock;
    if (ancestor.number < this.finalizedNumber) throw new Error("the fork goes below the finalised block");
    this.canonical = this.canonical.slice(0, ancestor.number + 1);
    for (let i = 0; i < length; i++) this.mine();
  }

  /** The branch that ends at a block, from genesis, by number. */
  branchOf(hash: Hash): SimBlock[] {
    const branch: SimBlock[] = [];
    for (let block = this.blocks.get(hash); block !== undefined; block = this.blocks.get(block.parentHash)) {
      if (this.canonical[block.number] === block) {
        return [...this.canonical.slice(0, block.number + 1), ...branch.reverse()];
      }
      branch.push(block);
    }
    return branch.reverse();
  }

  /** A contract's transfers on the branch of a block, in order. */
  transfersOf(address: Address, hash: Hash): ModelTransfer[] {
    return this.branchOf(hash).flatMap((block) => block.facts.get(address) ?? []);
  }

  contract(address: Address): SimContract | undefined {
    return this.contracts.find((contract) => contract.address === address);
  }
}

function hashOf(counter: number, salt: number): Hash {
  const text = Bun.hash(`${salt}/${counter}`).toString(16).padStart(16, "0");
  return `0x${text.repeat(4)}` as Hash;
}
