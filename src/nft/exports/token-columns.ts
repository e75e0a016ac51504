/**
 * Tokens of a piece as columns, which another thread takes over without a copy and writes as text. Filling columns takes the
 * thread that serves requests a fraction of the time that the text would.
 */
import { ADDRESS_WORDS, type AddressTable } from "../ledger/address-table.ts";
import type { Amount } from "../ledger/amounts.ts";
import type { Entry } from "../ledger/entries.ts";
import { NO_METADATA, type RecordFacts } from "../listings/record.ts";
import { ROWS_PER_PIECE } from "./formats.ts";

/** The facts of a token that a file shows, each as JSON text. */
export type ExportedFacts = Pick<RecordFacts, "tokenUri" | "metadata" | "uriSync" | "metadataSync">;

export interface ExportedTokens {
  readonly count: number;
  /** The `TransferKind` of each token. */
  readonly kinds: Uint8Array<ArrayBuffer>;
  /** Id, amount, block and block of the mint of each token. NaN stands for the next one of `large`. */
  readonly numbers: Float64Array<ArrayBuffer>;
  /** Ids and amounts that a number can't hold, by token, the id before the amount. */
  readonly large: readonly bigint[];
  /** Owner and minter of each token, the words of an address each. */
  readonly parties: Int32Array<ArrayBuffer>;
  /** Beside each of `parties`: 1 if the token has that owner or minter, or 0. */
  readonly known: Uint8Array<ArrayBuffer>;
  /** Undefined for a token without metadata, and missing behind the last one that has some. */
  readonly facts: readonly (ExportedFacts | undefined)[];
}

export const NUMBERS_PER_TOKEN = 4;
export const PARTIES_PER_TOKEN = 2;

/** About the characters of a row beside its metadata: ids, amounts and addresses. */
const ROW_CHARACTERS = 200;
/** Characters of text after which a piece ends: its bytes, its compressed form and its rows are in memory together. */
const PIECE_CHARACTERS = 1024 * 1024;

/** Gathers the tokens of a piece. */
export class TokenPiece {
  readonly #kinds = new Uint8Array(ROWS_PER_PIECE);
  readonly #numbers = new Float64Array(ROWS_PER_PIECE * NUMBERS_PER_TOKEN);
  readonly #large: bigint[] = [];
  readonly #parties = new Int32Array(ROWS_PER_PIECE * PARTIES_PER_TOKEN * ADDRESS_WORDS);
  readonly #known = new Uint8Array(ROWS_PER_PIECE * PARTIES_PER_TOKEN);
  readonly #facts: (ExportedFacts | undefined)[] = [];
  #count = 0;
  #characters = 0;

  get count(): number {
    return this.#count;
  }

  get isFull(): boolean {
    return this.#count >= ROWS_PER_PIECE || this.#characters >= PIECE_CHARACTERS;
  }

  /**
   * Adds the tokens of a batch from `from` on until the piece is full. Returns the place behind the last one.
   * @param addresses of the ledger that the entries were read from
   * @param facts beside the entries; those of the last ones may be missing
   */
  add(addresses: AddressTable, entries: readonly Entry[], facts: readonly RecordFacts[], from: number): number {
    const first = this.#count;
    let end = from;
    for (; end < entries.length && !this.isFull; end++) this.#addFacts(facts[end] ?? NO_METADATA);
    // Private fields are read once for all tokens: a read of one takes longer than the rest of a cell.
    const [kinds, numbers, large, parties, known] = [
      this.#kinds,
      this.#numbers,
      this.#large,
      this.#parties,
      this.#known,
    ];
    for (let place = from, at = first; place < end; place++, at++) {
      const { kind, id, amount, block, blockMinted, owner, minter } = entries[place] as Entry;
      kinds[at] = kind;
      const number = at * NUMBERS_PER_TOKEN;
      numbers[number] = numberOrNaN(id, large);
      numbers[number + 1] = numberOrNaN(amount, large);
      numbers[number + 2] = block;
      numbers[number + 3] = blockMinted;
      // A party below zero is none: the token has several holders, or no single minter.
      const party = at * PARTIES_PER_TOKEN;
      if (owner >= 0) addresses.copy(owner, parties, party * ADDRESS_WORDS);
      if (minter >= 0) addresses.copy(minter, parties, (party + 1) * ADDRESS_WORDS);
      known[party] = owner >= 0 ? 1 : 0;
      known[party + 1] = minter >= 0 ? 1 : 0;
    }
    return end;
  }

  #addFacts(facts: RecordFacts): void {
    const at = this.#count++;
    this.#characters += ROW_CHARACTERS;
    if (facts === NO_METADATA) return;
    const { tokenUri, metadata, uriSync, metadataSync } = facts;
    while (this.#facts.length < at) this.#facts.push(undefined);
    this.#facts.push({ tokenUri, metadata, uriSync, metadataSync });
    this.#characters += tokenUri.length + metadata.length;
  }

  /** The columns, and their memory for the thread that takes them over. The piece is at its end then. */
  columns(): { readonly rows: { readonly tokens: ExportedTokens }; readonly memory: readonly ArrayBuffer[] } {
    const [kinds, numbers, parties, known] = [this.#kinds, this.#numbers, this.#parties, this.#known];
    return {
      rows: { tokens: { count: this.#count, kinds, numbers, large: this.#large, parties, known, facts: this.#facts } },
      memory: [kinds.buffer, numbers.buffer, parties.buffer, known.buffer],
    };
  }
}

function numberOrNaN(value: Amount, large: bigint[]): number {
  if (typeof value === "number") return value;
  large.push(value);
  return Number.NaN;
}
