/**
 * Entry point of the worker that reads traits: 20,000 documents take a second. In: hashes of documents in a SQLite log, or
 * bodies that were read elsewhere. Out: the traits of the first tokens, of as many as one request may take.
 */
import { Database } from "bun:sqlite";
import { messageOf } from "../../core/errors.ts";
import { type Hash, hexToBytes } from "../../core/hex.ts";
import { lowerThreadPriority } from "../../core/thread-priority.ts";
import type { TokenTraits } from "../listings/token-traits.ts";
import { fromBlob, HASH_BYTES, type OutcomeDocument } from "./outcome-documents.ts";
import { attributesOfBody } from "./resolve/normalize.ts";

/** Bytes of bodies after which a request ends. Other requests get their turn, and the reply is parsed in a millisecond. */
export const REQUEST_BYTES = 256 * 1024;
/** Longest text of a type or a value. Longer ones are no traits that a filter could name. */
const MAX_TEXT = 200;

/** `file` is the SQLite log with the documents. A token without metadata has a hash of zeros, or no body. */
export type TraitQuestion =
  | { readonly file: string; readonly hashes: Uint8Array }
  | { readonly bodies: readonly (Uint8Array | undefined)[] };

export type TraitRequest = { readonly closes: true } | ({ readonly id: number } & TraitQuestion);

/** The columns of `TokenTraits`. Types and values are sent as JSON: the engine copies a text in half the time of a list. */
interface ReadTraits {
  readonly texts: string;
  readonly typeOf: Uint32Array<ArrayBuffer>;
  readonly traits: Uint32Array<ArrayBuffer>;
  readonly ends: Int32Array<ArrayBuffer>;
}

/** `ReadTraits.texts` is the JSON of this. */
export type TraitTexts = Pick<TokenTraits, "types" | "values">;

export type TraitReply =
  | ({ readonly id: number } & (ReadTraits | { readonly problem: string }))
  | { readonly closed: true };

/** Gathers the traits of tokens. */
class Gathered {
  /** Place of each type, and the numbers of its values. */
  readonly #types = new Map<string, { readonly at: number; readonly numbers: Map<string, number> }>();
  readonly #typeOf: number[] = [];
  readonly #values: string[] = [];
  readonly #traits: number[] = [];
  readonly #ends: number[] = [];
  #bytes = 0;

  get isFull(): boolean {
    return this.#bytes > REQUEST_BYTES;
  }

  /** Adds a token. @param traits null without metadata */
  add(traits: readonly number[] | null): void {
    for (const trait of traits ?? []) this.#traits.push(trait);
    this.#ends.push(traits === null ? -1 : this.#traits.length);
  }

  /** The different traits in a body; null if it is missing or invalid. */
  read(body: Uint8Array | undefined): readonly number[] | null {
    this.#bytes += body?.length ?? 0;
    const attributes = body && attributesOfBody(body);
    if (attributes === undefined) return null;
    const traits = new Set<number>();
    for (const { trait_type: type, value } of attributes) {
      // A number beyond the largest double is none in JSON.
      const isPlain = typeof value === "string" || typeof value === "boolean" || Number.isFinite(value);
      const text = String(value);
      if (type === null || !isPlain || type.length > MAX_TEXT || text.length > MAX_TEXT) continue;
      traits.add(this.#numberOf(type, text));
    }
    return [...traits];
  }

  #numberOf(type: string, value: string): number {
    const { at, numbers } = this.#types.getOrInsertComputed(type, () => ({ at: this.#types.size, numbers: new Map() }));
    return numbers.getOrInsertComputed(value, () => {
      this.#typeOf.push(at);
      return this.#values.push(value) - 1;
    });
  }

  columns(): ReadTraits {
    return {
      texts: JSON.stringify({ types: [...this.#types.keys()], values: this.#values } satisfies TraitTexts),
      typeOf: new Uint32Array(this.#typeOf),
      traits: new Uint32Array(this.#traits),
      ends: new Int32Array(this.#ends),
    };
  }
}

let database: Database | undefined;

function open(file: string): Database {
  const opened = new Database(file, { readonly: true, strict: true });
  opened.run("PRAGMA busy_timeout = 5000");
  return opened;
}

/** Reads the bodies that documents name. Many tokens may share a document, and documents a body. */
function readDocuments(file: string, hashes: Uint8Array): ReadTraits {
  const gathered = new Gathered();
  database ??= open(file);
  const query = database.query<{ bytes: Uint8Array }, [Uint8Array]>("SELECT bytes FROM blobs WHERE hash = ?");
  const known = new Map<string, readonly number[] | null>();
  const ofBody = (hash: Hash) =>
    known.getOrInsertComputed(hash, () => gathered.read(query.get(hexToBytes(hash))?.bytes));
  const ofDocument = (hash: Uint8Array) => {
    const blob = query.get(hash)?.bytes;
    const body = blob && fromBlob<OutcomeDocument>(blob).body;
    return body === undefined ? null : ofBody(body);
  };
  for (let at = 0; at < hashes.length && !gathered.isFull; at += HASH_BYTES) {
    const hash = Buffer.from(hashes.buffer, hashes.byteOffset + at, HASH_BYTES);
    gathered.add(known.getOrInsertComputed(hash.toString("latin1"), () => ofDocument(hash)));
  }
  return gathered.columns();
}

function readBodies(bodies: readonly (Uint8Array | undefined)[]): ReadTraits {
  const gathered = new Gathered();
  const known = new Map<Uint8Array | undefined, readonly number[] | null>();
  for (const body of bodies) gathered.add(known.getOrInsertComputed(body, () => gathered.read(body)));
  return gathered.columns();
}

declare const self: Worker;

lowerThreadPriority();

self.onmessage = ({ data: request }: MessageEvent<TraitRequest>) => {
  const answer = (reply: TraitReply, handed: ArrayBuffer[] = []) => self.postMessage(reply, handed);
  if ("closes" in request) {
    database?.close();
    answer({ closed: true });
    return;
  }
  const { id } = request;
  try {
    const read = "file" in request ? readDocuments(request.file, request.hashes) : readBodies(request.bodies);
    answer({ id, ...read }, [read.typeOf.buffer, read.traits.buffer, read.ends.buffer]);
  } catch (error) {
    answer({ id, problem: messageOf(error) });
  }
};
