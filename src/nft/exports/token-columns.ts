/**
 * Tokens of a piece as columns, which another thread takes over without a copy: the thread that serves requests would need
 * several times as long to write their text.
 */
import { ADDRESS_BYTES } from "../../core/hex.ts";
import type { AddressTable } from "../ledger/address-table.ts";
import type { Amount } from "../ledger/amounts.ts";
import type { Entry } from "../ledger/entries.ts";
import { NO_METADATA, type RecordFacts } from "../listings/record.ts";
import { ROWS_PER_PIECE } from "./formats.ts";

/** The facts of a token that a file shows, each as JSON text. */
export type ExportedFacts = Pick<RecordFacts, "tokenUri" | "metadata" | "uriSync" | "metadataSync">;

export interface TokenColumns {
  readonly count: number;
  readonly kinds: Uint8Array<ArrayBuffer>;
  /** Id, amount, block and block of the mint of each token. NaN: the number is the next one of `large`. */
  readonly numbers: Float64Array<ArrayBuffer>;
  /** Ids and amounts that are no exact numbers, in the order of the tokens. */
  readonly large: readonly bigint[];
  /** Owner and minter of each token, 20 bytes each. */
  readonly parties: Uint8Array<ArrayBuffer>;
  /** 1 for an owner, or a minter, that there is. */
  readonly known: Uint8Array<ArrayBuffer>;
  /** Undefined for a token without metadata. */
  readonly facts: readonly (ExportedFacts | undefined)[];
}

export const NUMBERS_PER_TOKEN = 4;
export const PARTIES_PER_TOKEN = 2;

/** Characters of a row beside its metadata: ids, amounts and addresses. */
const ROW_CHARACTERS = 200;

/** Gathers the tokens of a piece. */
export class TokenPiece {
  readonly #kinds = new Uint8Array(ROWS_PER_PIECE);
  readonly #numbers = new Float64Array(ROWS_PER_PIECE * NUMBERS_PER_TOKEN);
  readonly #large: bigint[] = [];
  readonly #parties = new Uint8Array(ROWS_PER_PIECE * PARTIES_PER_TOKEN * ADDRESS_BYTES);
  readonly #known = new Uint8Array(ROWS_PER_PIECE * PARTIES_PER_TOKEN);
  readonly #facts: (ExportedFacts | undefined)[] = [];
  #count = 0;
  #characters = 0;

  get count(): number {
    return this.#count;
  }

  /** About how many characters the texts of the tokens have. */
  get characters(): number {
    return this.#characters;
  }

  /** Adds a token. @param addresses of the ledger that the entry was read from */
  add(addresses: AddressTable, entry: Entry, facts: RecordFacts): void {
    const at = this.#count++;
    const { kind, id, amount, block, blockMinted, owner, minter } = entry;
    this.#kinds[at] = kind;
    const number = at * NUMBERS_PER_TOKEN;
    this.#numbers[number] = this.#numberOf(id);
    this.#numbers[number + 1] = this.#numberOf(amount);
    this.#numbers[number + 2] = block;
    this.#numbers[number + 3] = blockMinted;
    const party = at * PARTIES_PER_TOKEN;
    this.#addParty(addresses, party, owner);
    this.#addParty(addresses, party + 1, minter);
    this.#characters += ROW_CHARACTERS;
    if (facts === NO_METADATA) {
      this.#facts.push(undefined);
      return;
    }
    const { tokenUri, metadata, uriSync, metadataSync } = facts;
    this.#facts.push({ tokenUri, metadata, uriSync, metadataSync });
    this.#characters += tokenUri.length + metadata.length;
  }

  #numberOf(amount: Amount): number {
    if (typeof amount === "number") return amount;
    this.#large.push(amount);
    return Number.NaN;
  }

  /** Several holders, and the minter of such a token, are no party. */
  #addParty(addresses: AddressTable, at: number, party: number): void {
    if (party < 0) return;
    addresses.copy(party, this.#parties, at * ADDRESS_BYTES);
    this.#known[at] = 1;
  }

  /** The columns, and their memory for the thread that takes them over. */
  columns(): { readonly rows: { readonly tokens: TokenColumns }; readonly memory: readonly ArrayBuffer[] } {
    const [kinds, numbers, parties, known] = [this.#kinds, this.#numbers, this.#parties, this.#known];
    return {
      rows: { tokens: { count: this.#count, kinds, numbers, large: this.#large, parties, known, facts: this.#facts } },
      memory: [kinds.buffer, numbers.buffer, parties.buffer, known.buffer],
    };
  }
}
