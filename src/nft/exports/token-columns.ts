/**
 * Tokens of a piece as columns, which another thread takes over without a copy and writes as text. Filling columns takes the
 * thread that serves requests a fraction of the time that the text would.
 */
import { ADDRESS_BYTES } from "../../core/hex.ts";
import type { AddressTable } from "../ledger/address-table.ts";
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
  /** Owner and minter of each token, 20 bytes each. */
  readonly parties: Uint8Array<ArrayBuffer>;
  /** Beside each of `parties`: 1 if the token has that owner or minter, or 0. */
  readonly known: Uint8Array<ArrayBuffer>;
  /** Undefined for a token without metadata. */
  readonly facts: readonly (ExportedFacts | undefined)[];
}

export const NUMBERS_PER_TOKEN = 4;
export const PARTIES_PER_TOKEN = 2;

/** About the characters of a row beside its metadata: ids, amounts and addresses. */
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
    this.#numbers[number] = this.#numberOrNaN(id);
    this.#numbers[number + 1] = this.#numberOrNaN(amount);
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

  #numberOrNaN(value: Amount): number {
    if (typeof value === "number") return value;
    this.#large.push(value);
    return Number.NaN;
  }

  /** A party below zero is none: the token has several holders, or no single minter. */
  #addParty(addresses: AddressTable, at: number, party: number): void {
    if (party < 0) return;
    addresses.copy(party, this.#parties, at * ADDRESS_BYTES);
    this.#known[at] = 1;
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
