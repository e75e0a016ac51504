/**
 * Tokens' documents and bodies by hash, read from the blob table many at a time and kept in an LRU by bytes: what a page
 * puts into its records, ready as JSON text.
 */
import { LRUCache } from "lru-cache";
import type { Hash } from "../core/hex.ts";
import type { EventLog } from "../log/port.ts";
import { bareMetadata, type JsonValue, normalize } from "./normalize.ts";
import { fromBlob, type OutcomeDocument } from "./outcome.ts";

/** A token's outcome in words. */
export interface TokenText {
  /** JSON of the URI as the contract gave it, or `null`. */
  readonly uri: string;
  /** JSON of the metadata's text, or `null`. */
  readonly metadata: string;
  /** JSON of the normalised fields. */
  readonly normalized: string;
  /** The picture's URI, else the animation's. */
  readonly image: string | null;
  readonly bytes: number;
}

const decoder = new TextDecoder();

export class TokenTexts {
  readonly #log: EventLog;
  readonly #cache: LRUCache<Hash, TokenText>;

  constructor(log: EventLog, maxBytes: number) {
    this.#log = log;
    this.#cache = new LRUCache({ maxSize: maxBytes, sizeCalculation: (text) => text.bytes });
  }

  async get(hash: Hash): Promise<TokenText | undefined> {
    return (await this.getAll([hash])).get(hash);
  }

  /** Those of the hashes that the blob table has. */
  async getAll(hashes: readonly Hash[]): Promise<Map<Hash, TokenText>> {
    const texts = new Map<Hash, TokenText>();
    const missing = new Set<Hash>();
    for (const hash of hashes) {
      const known = this.#cache.get(hash);
      if (known !== undefined) texts.set(hash, known);
      else missing.add(hash);
    }
    if (missing.size === 0) return texts;
    const documents = new Map<Hash, OutcomeDocument>();
    for (const [hash, bytes] of await this.#log.getBlobs([...missing])) documents.set(hash, fromBlob(bytes));
    const wanted = new Set([...documents.values()].flatMap(({ body }) => (body === undefined ? [] : [body])));
    const bodies = await this.#log.getBlobs([...wanted]);
    for (const [hash, document] of documents) {
      const body = document.body === undefined ? undefined : bodies.get(document.body);
      const text = inWords(document, body === undefined ? undefined : decoder.decode(body));
      this.#cache.set(hash, text);
      texts.set(hash, text);
    }
    return texts;
  }
}

function inWords({ uri, image }: OutcomeDocument, body: string | undefined): TokenText {
  const fields =
    body === undefined
      ? bareMetadata(image ?? null)
      : normalize(JSON.parse(body) as { readonly [key: string]: JsonValue });
  const text = {
    uri: JSON.stringify(uri),
    metadata: body === undefined ? "null" : JSON.stringify(body),
    normalized: JSON.stringify(fields),
    image: fields.image ?? fields.animation_url,
  };
  const length = text.uri.length + text.metadata.length + text.normalized.length + (text.image?.length ?? 0);
  // A character takes one byte, or two once any of them is not Latin.
  return { ...text, bytes: 256 + 2 * length };
}
