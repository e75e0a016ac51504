/**
 * A cache of token texts by document hash. It reads documents and bodies from the blob table, as far as a page has room
 * for them, and keeps the JSON text that a page shows in an LRU by bytes.
 */
import { LRUCache } from "lru-cache";
import type { Hash } from "../../core/hex.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import type { TokenRef } from "../../events/columns.ts";
import type { EventLog } from "../../log/event-log.ts";
import { uriName } from "./media/media.ts";
import { fromBlob, type OutcomeDocument, wholeUri } from "./outcome-documents.ts";
import { MetadataFailure } from "./resolve/failure.ts";
import { type BodyText, NO_TEXT, type NormalizedMetadata, textOfImage } from "./resolve/normalize.ts";
import type { Parser } from "./resolve/parser.ts";
import { namesId, withId } from "./resolve/resolver.ts";

/** Bytes per slice: 1 ms, or 8 ms for content that is made to be slow. */
const SLICE_BYTES = 64 * 1024;
/** Bytes per read of the log. The content's author can't exceed it. */
const READ_BYTES = 256 * 1024;

/**
 * Splits long work on the request thread into slices. The metadata of a page may be megabytes per token, and its author
 * may have made it slow on purpose.
 */
export class Slices {
  #bytes = 0;

  /** Adds `bytes`. Returns true if the slice is full, and the caller should await `yieldToEventLoop`. */
  isOver(bytes: number): boolean {
    this.#bytes += bytes;
    if (this.#bytes < SLICE_BYTES) return false;
    this.#bytes = 0;
    return true;
  }
}

/** Reads the blobs in the order of their hashes, as the caller takes them; undefined for one that is not stored. */
export async function* blobsOf(
  log: Pick<EventLog, "getBlobs">,
  hashes: readonly Hash[],
): AsyncGenerator<readonly [Hash, Uint8Array | undefined]> {
  for (let from = 0; from < hashes.length; ) {
    const { blobs, read } = await log.getBlobs(hashes.slice(from), READ_BYTES);
    for (const hash of hashes.slice(from, from + read)) yield [hash, blobs.get(hash)];
    from += read;
  }
}

/** The text of a token's outcome. */
export interface TokenText extends BodyText {
  /** JSON string of the URI as the contract returned it, or `null`. */
  readonly uri: string;
  /** Short unique name of the picture's URI, see `uriName`. */
  readonly imageName: string | null;
  readonly bytes: number;
}

/** The text for one token of a shared document: replaces `{id}` in the URIs of its picture and animation. */
export function textOfToken(text: TokenText, token: TokenRef): TokenText {
  if (!namesId(text.image)) return text;
  const fields = JSON.parse(text.normalized) as NormalizedMetadata;
  const own = (uri: string | null) => (namesId(uri) ? withId(uri, token) : uri);
  const normalized = { ...fields, image: own(fields.image), animation_url: own(fields.animation_url) };
  const image = withId(text.image, token);
  return { ...text, normalized: JSON.stringify(normalized), image, imageName: uriName(image) };
}

/** Texts by hash; undefined if no document is stored. A hash that was not read is missing. */
export type Texts = Map<Hash, TokenText | undefined>;

interface DocumentBody {
  /** Undefined if the body is not stored. */
  readonly bytes: Uint8Array | undefined;
  readonly words: BodyText;
  /** False if another read may give a different result, so that this one must not be cached. */
  readonly isSure: boolean;
}

export class TokenTexts {
  readonly #log: EventLog;
  readonly #parser: Pick<Parser, "words">;
  readonly #cache: LRUCache<Hash, TokenText>;

  /** @param parser for pages only, so that a page doesn't wait for fetched content */
  constructor(log: EventLog, parser: Pick<Parser, "words">, maxBytes: number) {
    this.#log = log;
    this.#parser = parser;
    this.#cache = new LRUCache({ maxSize: maxBytes, sizeCalculation: (text) => text.bytes });
  }

  async get(hash: Hash): Promise<TokenText | undefined> {
    const texts: Texts = new Map();
    await this.read([hash], texts, 1);
    return texts.get(hash);
  }

  /**
   * Adds the texts of the hashes, in their order, until the ones read exceed `maxCharacters`; at least one missing
   * text. Reads nothing beyond that. Works in slices.
   */
  async read(hashes: readonly Hash[], texts: Texts, maxCharacters: number): Promise<void> {
    const missing = new Set<Hash>();
    for (const hash of hashes) {
      if (texts.has(hash)) continue;
      const known = this.#cache.get(hash);
      if (known !== undefined) texts.set(hash, known);
      else missing.add(hash);
    }
    if (missing.size === 0) return;
    const slices = new Slices();
    const documents = await this.#documents([...missing], slices, maxCharacters);
    const bodies = new Set(
      [...documents.values()].map((document) => document?.body).filter((body) => body !== undefined),
    );
    const read = blobsOf(this.#log, [...bodies]);
    // Many tokens may share a body, which is parsed once.
    const found = new Map<Hash, DocumentBody>();
    let characters = 0;
    for (const [hash, document] of documents) {
      if (characters > maxCharacters) break;
      if (document === undefined) {
        texts.set(hash, undefined);
        continue;
      }
      const { body, image } = document;
      // `read` yields bodies in the order in which the documents first name them.
      if (body !== undefined && !found.has(body)) {
        const bytes = (await read.next()).value?.[1];
        found.set(body, await this.#body(bytes));
        if (slices.isOver(bytes?.length ?? 0)) await yieldToEventLoop();
      }
      const none: DocumentBody = { bytes: undefined, words: textOfImage(image ?? null), isSure: true };
      const { bytes, words, isSure } = (body && found.get(body)) ?? none;
      const text = storedText(JSON.stringify(wholeUri(document, bytes)), words);
      if (isSure) this.#cache.set(hash, text);
      texts.set(hash, text);
      characters += text.uri.length + text.metadata.length;
      if (slices.isOver(text.uri.length)) await yieldToEventLoop();
    }
  }

  async #body(bytes: Uint8Array | undefined): Promise<DocumentBody> {
    // The body may be stored later.
    if (bytes === undefined) return { bytes, words: NO_TEXT, isSure: false };
    try {
      return { bytes, words: await this.#parser.words(bytes), isSure: true };
    } catch (error) {
      if (!(error instanceof MetadataFailure)) throw error;
      return { bytes, words: NO_TEXT, isSure: false };
    }
  }

  /** Reads the documents in the order of their hashes, until they exceed `maxBytes`. */
  async #documents(
    hashes: readonly Hash[],
    slices: Slices,
    maxBytes: number,
  ): Promise<Map<Hash, OutcomeDocument | undefined>> {
    const documents = new Map<Hash, OutcomeDocument | undefined>();
    let bytes = 0;
    for await (const [hash, blob] of blobsOf(this.#log, hashes)) {
      documents.set(hash, blob && fromBlob<OutcomeDocument>(blob));
      bytes += blob?.length ?? 0;
      if (bytes > maxBytes) break;
      if (slices.isOver(blob?.length ?? 0)) await yieldToEventLoop();
    }
    return documents;
  }
}

function storedText(uri: string, words: BodyText): TokenText {
  const texts = { ...words, uri };
  const length = texts.uri.length + texts.metadata.length + texts.normalized.length + (texts.image?.length ?? 0);
  let imageName: string | null | undefined;
  return {
    ...texts,
    get imageName() {
      // Computed at the first use: few pages show pictures, and the name may be the hash of a megabyte.
      imageName ??= texts.image === null ? null : uriName(texts.image);
      return imageName;
    },
    // Upper bound: a string takes one byte per character, or two if any of them is not Latin-1.
    bytes: 512 + 2 * length,
  };
}
