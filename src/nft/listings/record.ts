/**
 * Writes the entries of a listing as JSON bytes, in the field order of the API. Constant text is encoded once and
 * copied; no row is parsed, serialised or held as a string of its own.
 */

import { type ByteWriter, type Piece, piece } from "../../core/byte-text.ts";
import { CONTRACT_TYPES, type TransferKind } from "../../events/columns.ts";
import type { Collection } from "../collections/collection.ts";
import type { ContractNames } from "../collections/name-list.ts";
import type { Amount } from "../ledger/amounts.ts";
import type { Entry } from "../ledger/entries.ts";

interface RecordStyle {
  /** Token ids in hex. */
  readonly hex: boolean;
  /** Flags as booleans. */
  readonly native: boolean;
}

/** Facts of a token beyond the ledger, each as JSON text; "" for a part that the request did not ask for. */
export interface RecordFacts {
  readonly tokenUri: string;
  readonly metadata: string;
  readonly normalized: string;
  readonly media: string;
  readonly uriSync: string;
  readonly metadataSync: string;
}

/** Returns the metadata of the first entries: of at least one, and of as many as memory allows. */
export type FactsOf = (entries: readonly Entry[]) => Promise<readonly RecordFacts[]>;

/** Facts of a token without metadata. Such pages are common, so `addRecords` writes them from fewer pieces. */
export const NO_METADATA: RecordFacts = {
  tokenUri: "null",
  metadata: "null",
  normalized: "",
  media: "",
  uriSync: "null",
  metadataSync: "null",
};

const encoder = new TextEncoder();
/** A piece of text for each kind, from its type of contract. */
const byKind = (textOf: (type: string) => string): { readonly [kind: number]: Piece } =>
  Object.fromEntries(Object.entries(CONTRACT_TYPES).map(([kind, type]) => [kind, piece(textOf(type))]));
/** Text between the mint's block and the token URI, per kind. */
const typed = (rest: string) => byKind((type) => `","contract_type":"${type}","token_uri":${rest}`);
const TYPED = typed("");
/** Text between the mint's block and the minter, for `NOTHING`. */
const TYPED_NOTHING = typed('null,"metadata":null,"normalized_metadata":"","media":"","minter_address":"');
const OWNER = piece('","owner_of":"');
const HASH = piece('","token_hash":"');
const BLOCK = piece('","block_number":"');
const BLOCK_MINTED = piece('","block_number_minted":"');
const METADATA = piece(',"metadata":');
const NORMALIZED = piece(',"normalized_metadata":');
const MEDIA = piece(',"media":');
const MINTER = piece(',"minter_address":"');
const NO_MINTER = byKind((type) => `${type} tokens don't have a single minter`);
const AMOUNT = piece('","amount":"');
const SYNCED = piece(',"last_metadata_sync":');
const [NULL, EMPTY, END] = [piece("null"), piece('""'), piece("}")];

/** The `token_hash` field: md5 of the lower-case contract address followed by the decimal id. */
class TokenHasher {
  readonly #address: string;
  /** Hash inputs by length of the id. Reused, because allocating one costs as much as hashing it. */
  readonly #inputs = new Map<number, Uint8Array>();
  readonly digest = new Uint8Array(16);

  constructor(address: string) {
    this.#address = address;
  }

  /** Hashes the id into `digest`. The id is the last `length` digits of `out`. */
  update(out: ByteWriter, length: number): void {
    const input = this.#inputs.get(length) ?? encoder.encode(this.#address.padEnd(this.#address.length + length));
    this.#inputs.set(length, input);
    out.copyEnd(input, length);
    Bun.MD5.hash(input, this.digest);
  }
}

/** Adds JSON text, with a fast path for the two most common values. */
function addFact(out: ByteWriter, text: string): void {
  if (text === "null") out.add(NULL);
  else if (text === "") out.add(EMPTY);
  else out.text(text);
}

/** Adds an amount or an id in decimal. */
export function addAmount(out: ByteWriter, amount: Amount): void {
  if (typeof amount === "number") out.integer(amount);
  else out.ascii(amount.toString());
}

/** Adds the facts of a token, from its type to its minter. */
function addFacts(out: ByteWriter, kind: TransferKind, known: RecordFacts): void {
  out.add(TYPED[kind] as Piece);
  addFact(out, known.tokenUri);
  out.add(METADATA);
  addFact(out, known.metadata);
  out.add(NORMALIZED);
  addFact(out, known.normalized);
  out.add(MEDIA);
  addFact(out, known.media);
  out.add(MINTER);
}

/**
 * True if a rule or the operator's list flags the contract, or if it has no name but a document whose words lure. The
 * operator's list of verified contracts outweighs those words.
 */
export const looksLikeSpam = (
  { possibleSpam, verifiedCollection }: Pick<Collection, "possibleSpam" | "verifiedCollection">,
  names: ContractNames | undefined,
): boolean => possibleSpam || (Boolean(names?.rule) && !verifiedCollection);

/** A collection with its address. `names` are the fallback for an empty name or symbol. */
interface CollectionWithNames {
  readonly address: string;
  readonly collection: Collection;
  readonly names: ContractNames | undefined;
}

/** Adds the records of a page as a JSON list: one for each of `facts`, in the entries' order. */
export function addRecords(
  out: ByteWriter,
  { address, collection, names }: CollectionWithNames,
  entries: readonly Entry[],
  facts: readonly RecordFacts[],
  style: RecordStyle,
): void {
  const { identified, ledger } = collection;
  const { addresses } = ledger;
  const isSpam = looksLikeSpam(collection, names);
  const flag = (value: boolean) => (style.native ? String(value) : `"${value}"`);
  const name = JSON.stringify(identified?.name || (names?.name ?? ""));
  const symbol = JSON.stringify(identified?.symbol || (names?.symbol ?? ""));
  const head = piece(`{"token_address":"${address}","token_id":"`);
  const next = piece(`,{"token_address":"${address}","token_id":"`);
  const tailText = `","name":${name},"symbol":${symbol},"possible_spam":${flag(isSpam)},"verified_collection":${flag(collection.verifiedCollection)},"last_token_uri_sync":`;
  const tail = piece(tailText);
  const tailOfNothing = piece(`${tailText}null,"last_metadata_sync":null}`);
  const hash = new TokenHasher(address);
  out.ascii("[");
  for (let i = 0; i < facts.length; i++) {
    const { kind, id, owner, block, blockMinted, minter, amount } = entries[i] as Entry;
    const known = facts[i] as RecordFacts;
    out.add(i > 0 ? next : head);
    const before = out.length;
    addAmount(out, id);
    hash.update(out, out.length - before);
    if (style.hex) out.replaceEnd(before, `0x${id.toString(16)}`);
    out.add(OWNER);
    if (owner >= 0) addresses.addHex(out, owner);
    out.add(HASH);
    out.hex(hash.digest, 0, 16);
    out.add(BLOCK);
    out.integer(block);
    out.add(BLOCK_MINTED);
    out.integer(blockMinted);
    if (known === NO_METADATA) out.add(TYPED_NOTHING[kind] as Piece);
    else addFacts(out, kind, known);
    if (minter < 0) out.add(NO_MINTER[kind] as Piece);
    else addresses.addHex(out, minter);
    out.add(AMOUNT);
    addAmount(out, amount);
    if (known === NO_METADATA) out.add(tailOfNothing);
    else {
      out.add(tail);
      addFact(out, known.uriSync);
      out.add(SYNCED);
      addFact(out, known.metadataSync);
      out.add(END);
    }
  }
  out.ascii("]");
}
