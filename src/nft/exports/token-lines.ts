/**
 * The rows of tokens as lines of text, from the ledger's columns straight to bytes. A row's cells as values would cost
 * several times as much. In: a token with its facts, and a format. Out: the line, and how many characters its cells have.
 */
import { type ByteWriter, type Piece, piece } from "../../core/byte-text.ts";
import { CONTRACT_TYPES } from "../../events/columns.ts";
import type { Entry } from "../ledger/entries.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { addAmount, NO_METADATA, type RecordFacts } from "../listings/record.ts";
import { TOKEN_COLUMNS } from "./export-rows.ts";
import { csvCell, type ExportFormat } from "./formats.ts";

/** How a format writes a row of cells. */
interface LineStyle {
  /** Before each column, and after the last one. */
  readonly before: readonly string[];
  readonly end: string;
  /** Around a text without special characters, and in place of one that is null. */
  readonly quote: string;
  readonly nothing: string;
  /** Adds a text that is given as JSON. Returns how many characters it has. */
  readonly addText: (out: ByteWriter, json: string) => number;
}

function addJson(out: ByteWriter, json: string): number {
  out.text(json);
  return json.includes("\\") ? (JSON.parse(json) as string).length : json.length - 2;
}

function addCsv(out: ByteWriter, json: string): number {
  const text = JSON.parse(json) as string;
  out.text(csvCell(text));
  return text.length;
}

const names = TOKEN_COLUMNS.map(({ name }) => name);
const separated = (first: string): string[] => names.map((_, at) => (at === 0 ? first : ","));
const JSON_CELLS = { quote: '"', nothing: "null", addText: addJson };

const STYLES: Readonly<Record<ExportFormat, LineStyle>> = {
  csv: { before: separated(""), end: "\r\n", quote: "", nothing: "", addText: addCsv },
  jsonl: { before: names.map((name, at) => `${at === 0 ? "{" : ","}"${name}":`), end: "}\n", ...JSON_CELLS },
  // The thread that encodes Parquet takes lists as JSON.
  parquet: { before: separated("["), end: "]\n", ...JSON_CELLS },
};

const ADDRESS_CHARACTERS = 42;

/** Writes lines of one format. */
export class TokenLines {
  readonly #style: LineStyle;
  readonly #id: Piece;
  /** From the id to the owner, by kind. */
  readonly #typed: { readonly [kind: number]: Piece };
  readonly #quote: Piece;
  readonly #nothing: Piece;
  readonly #amount: Piece;
  readonly #block: Piece;
  readonly #minted: Piece;
  readonly #minter: Piece;
  readonly #facts: readonly Piece[];
  readonly #end: Piece;
  /** From the minter to the end, for `NO_METADATA`. */
  readonly #noFacts: Piece;

  constructor(format: ExportFormat) {
    const { before, end, quote, nothing } = STYLES[format];
    const [id, type, owner, amount, block, minted, minter, ...facts] = before;
    this.#style = STYLES[format];
    this.#id = piece(`${id}${quote}`);
    this.#typed = Object.fromEntries(
      Object.entries(CONTRACT_TYPES).map(([kind, name]) => [
        kind,
        piece(`${quote}${type}${quote}${name}${quote}${owner}`),
      ]),
    );
    [this.#quote, this.#nothing] = [piece(quote), piece(nothing)];
    this.#amount = piece(`${amount}${quote}`);
    this.#block = piece(`${quote}${block}`);
    [this.#minted, this.#minter] = [piece(`${minted}`), piece(`${minter}`)];
    this.#facts = facts.map(piece);
    this.#end = piece(end);
    this.#noFacts = piece(facts.map((one) => `${one}${nothing}`).join("") + end);
  }

  /** Adds the line of a token. Returns how many characters the texts of its cells have. */
  add(out: ByteWriter, ledger: Ledger, entry: Entry, facts: RecordFacts): number {
    const { kind, id, owner, amount, block, blockMinted, minter } = entry;
    out.add(this.#id);
    let characters = (CONTRACT_TYPES[kind] ?? "").length - out.length;
    addAmount(out, id);
    characters += out.length;
    out.add(this.#typed[kind] as Piece);
    characters += this.#addParty(out, ledger, owner);
    out.add(this.#amount);
    characters -= out.length;
    addAmount(out, amount);
    characters += out.length;
    out.add(this.#block);
    out.integer(block);
    out.add(this.#minted);
    out.integer(blockMinted);
    out.add(this.#minter);
    characters += this.#addParty(out, ledger, minter);
    return characters + this.#addFacts(out, facts);
  }

  /** Adds an address. Several holders, and the minter of such a token, are null. */
  #addParty(out: ByteWriter, { addresses }: Ledger, party: number): number {
    if (party < 0) {
      out.add(this.#nothing);
      return 0;
    }
    out.add(this.#quote);
    addresses.addHex(out, party);
    out.add(this.#quote);
    return ADDRESS_CHARACTERS;
  }

  #addFacts(out: ByteWriter, facts: RecordFacts): number {
    if (facts === NO_METADATA) {
      out.add(this.#noFacts);
      return 0;
    }
    const { tokenUri, metadata, uriSync, metadataSync } = facts;
    let characters = 0;
    for (const [at, json] of [tokenUri, metadata, uriSync, metadataSync].entries()) {
      out.add(this.#facts[at] as Piece);
      if (json === "null") out.add(this.#nothing);
      else characters += this.#style.addText(out, json);
    }
    out.add(this.#end);
    return characters;
  }
}
