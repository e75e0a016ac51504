/**
 * Tokens' documents and bodies by hash, read from the blob table many at a time and kept in an LRU by bytes: what a page
 * puts into its records, ready as JSON text.
 */
import { LRUCache } from "lru-cache";
import type { Hash } from "../core/hex.ts";
import type { EventLog } from "../log/port.ts";
import { nameOf } from "./media.ts";
import { isNestedWithin } from "./nesting.ts";
import { bareMetadata, type JsonValue, type NormalizedMetadata, normalize } from "./normalize.ts";
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
  /** What tells that URI apart from others. */
  readonly imageName: string | null;
  readonly bytes: number;
}

const decoder = new TextDecoder();
const NOTHING_KNOWN = bareMetadata(null);

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
  const fields = body === undefined ? bareMetadata(image ?? null) : fieldsOf(body);
  const texts = {
    uri: JSON.stringify(uri),
    metadata: body === undefined || fields === undefined ? "null" : JSON.stringify(body),
    normalized: JSON.stringify(fields ?? NOTHING_KNOWN),
    image: fields?.image ?? fields?.animation_url ?? null,
  };
  const length = texts.uri.length + texts.metadata.length + texts.normalized.length + (texts.image?.length ?? 0);
  let imageName: string | null | undefined;
  return {
    ...texts,
    get imageName() {
      // Few pages show pictures, and a name may be the hash of a megabyte.
      imageName ??= texts.image === null ? null : nameOf(texts.image);
      return imageName;
    },
    // A character takes one byte, or two once any of them is not Latin.
    bytes: 512 + 2 * length,
  };
}

/** Undefined for a body that should not have got into the log: one like it must not cost the others of its page theirs. */
function fieldsOf(body: string): NormalizedMetadata | undefined {
  try {
    const value = JSON.parse(body) as { readonly [key: string]: JsonValue };
    return isNestedWithin(value) ? normalize(value) : undefined;
  } catch {
    return undefined;
  }
}
