/**
 * The state of a block as far as nodes prove it: each account and slot is read from the trie when the run asks for it, down
 * from the header's state root. What a run writes stays in layers above, which `SimpleStateManager` keeps.
 */
import { SimpleStateManager } from "@ethereumjs/statemanager";
import { Account, type Address as EvmAddress } from "@ethereumjs/util";
import { keccak256 } from "ethers/crypto";
import type { Address } from "../../core/hex.ts";
import { ProofRefused, StateMissing } from "./refusal.ts";
import { EMPTY_ROOT, listIn, NodeMissing, type Nodes, valueIn } from "./trie.ts";

/** Hash of no code. */
export const NO_CODE = keccak256("0x");

/** What runs read of one account. Slots and values are 32 bytes in hex with 0x. */
export interface AccountRead {
  readonly address: Address;
  /** Null if the account doesn't exist. */
  readonly codeHash: string | null;
  readonly slots: Readonly<Record<string, string>>;
}

interface ProvenAccount {
  /** Undefined if the account doesn't exist. */
  readonly account: Account | undefined;
  readonly codeHash: string | null;
  readonly storageRoot: string;
  readonly slots: Map<string, string>;
}

/** Trie nodes under a state root, and codes. */
export interface Witness {
  readonly stateRoot: string;
  readonly nodes: Nodes;
  /** By hash, hex with 0x. */
  readonly codes: ReadonlyMap<string, string>;
  /** Called for a slot that is not proven, with the value to go on with. Default: the run ends there. */
  onMissingSlot?(address: Address, slot: string): void;
}

/** What runs have read from a witness. */
export class ProvenReads {
  readonly #witness: Witness;
  readonly #accounts = new Map<string, ProvenAccount>();
  readonly #codes = new Map<string, Uint8Array>();

  constructor(witness: Witness) {
    this.#witness = witness;
  }

  /** The accounts and slots that were read, in the order of their first read. */
  accounts(): AccountRead[] {
    return [...this.#accounts].map(([address, { codeHash, slots }]) => ({
      address: address as Address,
      codeHash,
      slots: Object.fromEntries(slots),
    }));
  }

  /** The codes that were used, by hash in the order of their first use. */
  codes(): Record<string, string> {
    return Object.fromEntries([...this.#codes.keys()].map((hash) => [hash, this.#witness.codes.get(hash) as string]));
  }

  /** @throws StateMissing; ProofRefused for nodes that are none */
  account(name: string): ProvenAccount {
    const known = this.#accounts.get(name);
    if (known !== undefined) return known;
    const { nodes, stateRoot } = this.#witness;
    const value = found("account", name, undefined, () => valueIn(nodes, stateRoot, keccak256(name)));
    const proven = value === undefined ? absentAccount() : accountIn(value);
    this.#accounts.set(name, proven);
    return proven;
  }

  code(name: string): Uint8Array {
    const { codeHash } = this.account(name);
    if (codeHash === null || codeHash === NO_CODE) return new Uint8Array();
    const known = this.#codes.get(codeHash);
    if (known !== undefined) return known;
    const code = this.#witness.codes.get(codeHash);
    if (code === undefined) throw new StateMissing("code", name as Address);
    const bytes = bytesOf(code);
    this.#codes.set(codeHash, bytes);
    return bytes;
  }

  /** The value of a slot without leading zeros. */
  slot(name: string, slot: string): Uint8Array {
    const { slots, storageRoot } = this.account(name);
    const known = slots.get(slot);
    if (known !== undefined) return bytesOf(known);
    const { nodes, onMissingSlot } = this.#witness;
    try {
      const value = found("slot", name, slot, () => valueIn(nodes, storageRoot, keccak256(slot)));
      const word = value === undefined ? "0x" : wordIn(value);
      slots.set(slot, word);
      return bytesOf(word);
    } catch (error) {
      if (!(error instanceof StateMissing) || onMissingSlot === undefined) throw error;
      onMissingSlot(name as Address, slot);
      return new Uint8Array();
    }
  }
}

/**
 * Accounts that a run may move through, but not look at: nobody proves the account of the sender, which is zero, or those
 * of precompiles. Chains have their own precompiles below this address, too.
 */
export const RESERVED = 0x10000n;

export class ProvenState extends SimpleStateManager {
  readonly #reads: ProvenReads;
  /** True while an opcode looks at an account, such as BALANCE. */
  isLooking = false;

  constructor(reads: ProvenReads) {
    super();
    this.#reads = reads;
  }

  override async getAccount(address: EvmAddress): Promise<Account | undefined> {
    const name = address.toString();
    if (BigInt(name) < RESERVED) {
      if (this.isLooking) throw new ProofRefused(`the call looks at the account ${name}, which no proof is about`);
      return super.getAccount(address);
    }
    if (this.topAccountStack().has(name)) return super.getAccount(address);
    return copyOf(this.#reads.account(name).account);
  }

  override async getCode(address: EvmAddress): Promise<Uint8Array> {
    const name = address.toString();
    return this.topCodeStack().has(name) ? super.getCode(address) : this.#reads.code(name);
  }

  override async getStorage(address: EvmAddress, key: Uint8Array): Promise<Uint8Array> {
    const [name, slot] = [address.toString(), hexOf(key)];
    // A slot that the run has set to zero is empty there.
    if (this.topStorageStack().has(`${name}_${slot}`)) return super.getStorage(address, key);
    return this.#reads.slot(name, slot);
  }
}

/** Runs a read, and says what a missing node was needed for. */
function found<T>(what: "account" | "slot", name: string, slot: string | undefined, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof NodeMissing ? new StateMissing(what, name as Address, slot) : error;
  }
}

const absentAccount = (): ProvenAccount => ({
  account: undefined,
  codeHash: null,
  storageRoot: EMPTY_ROOT,
  slots: new Map(),
});

/** Reads an account of the state trie: nonce, balance, storage root, code hash (Yellow Paper, section 4.1). */
function accountIn(rlp: string): ProvenAccount {
  const [nonce, balance, storageRoot, codeHash] = listIn(rlp, 4) as [string, string, string, string];
  if (storageRoot.length !== 66 || codeHash.length !== 66) throw new ProofRefused("an account has another form");
  const account = new Account(numberOf(nonce), numberOf(balance), bytesOf(storageRoot), bytesOf(codeHash));
  return { account, codeHash, storageRoot, slots: new Map() };
}

/** Reads a slot's value: a number in RLP. Bytes without leading zeros, hex with 0x. */
function wordIn(rlp: string): string {
  const [word = ""] = listIn(`0x${(0xc0 + (rlp.length - 2) / 2).toString(16)}${rlp.slice(2)}`, 1);
  if (word.length > 66) throw new ProofRefused("a slot has more than 32 bytes");
  return word;
}

const numberOf = (bytes: string): bigint => (bytes === "0x" ? 0n : BigInt(bytes));

function copyOf(account: Account | undefined): Account | undefined {
  if (account === undefined) return undefined;
  const { nonce, balance, storageRoot, codeHash } = account;
  return new Account(nonce, balance, storageRoot, codeHash);
}

/** The bytes of hex with 0x. */
export function bytesOf(hex: string): Uint8Array {
  const bytes = new Uint8Array((hex.length - 2) / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Number.parseInt(hex.slice(2 + i * 2, 4 + i * 2), 16);
  return bytes;
}

/** Hex with 0x. */
export const hexOf = (bytes: Uint8Array): string => {
  let text = "0x";
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
  return text;
};
