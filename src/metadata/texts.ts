/**
 * Tokens' documents and bodies by hash, read from the blob table as far as a page has room for them and kept in an LRU by
 * bytes: what a page puts into its records, ready as JSON text.
 */
import { LRUCache } from "lru-cache";
import type { Hash } from "../core/hex.ts";
import { otherWork } from "../core/own-thread.ts";
import type { EventLog } from "../log/port.ts";
import { nameOf } from "./media.ts";
import type { NormalizedMetadata } from "./normalize.ts";
import { fromBlob, MetadataFailure, type OutcomeDocument, wholeUri } from "./outcome.ts";
import type { Parser } from "./parser.ts";
import { blobsOf, Slices } from "./slices.ts";
import { namesId, withId } from "./uri.ts";
import { type BodyWords, NO_WORDS, wordsOfImage } from "./words.ts";
import type { Token } from "./work.ts";

/** A token's outcome in words. */
export interface TokenText extends BodyWords {
  /** JSON of the URI as the contract gave it, or `null`. */
  readonly uri: string;
  /** What tells that URI apart from others. */
  readonly imageName: string | null;
  readonly bytes: number;
}

/** The text as one token of the document has it: its picture's address may leave the place of the id to the reader. */
export function textOfToken(text: TokenText, token: Token): TokenText {
  if (!namesId(text.image)) return text;
  const fields = JSON.parse(text.normalized) as NormalizedMetadata;
  const own = (uri: string | null) => (namesId(uri) ? withId(uri, token) : uri);
  const normalized = { ...fields, image: own(fields.image), animation_url: own(fields.animation_url) };
  const image = withId(text.image, token);
  return { ...text, normalized: JSON.stringify(normalized), image, imageName: nameOf(image) };
}

/** Texts by hash; undefined where no document is stored. What was not reached is not among the keys. */
export type Texts = Map<Hash, TokenText | undefined>;

interface Body {
  /** Undefined where it is not stored. */
  readonly bytes: Uint8Array | undefined;
  readonly words: BodyWords;
  /** Whether another look would find nothing else. */
  readonly isSure: boolean;
}

export class TokenTexts {
  readonly #log: EventLog;
  readonly #parser: Pick<Parser, "words">;
  readonly #cache: LRUCache<Hash, TokenText>;

  /** @param parser which pages share with nobody who fetches */
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
   * Adds the hashes' texts, in their order, until those that had to be read exceed `maxCharacters`; at least one that is
   * missing. Nothing behind that is read, and others have their turn meanwhile.
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
    // Many tokens may share one body: it is put into words once.
    const found = new Map<Hash, Body>();
    let characters = 0;
    for (const [hash, document] of documents) {
      if (characters > maxCharacters) break;
      if (document === undefined) {
        texts.set(hash, undefined);
        continue;
      }
      const { body, image } = document;
      // Bodies come in the order of the documents that first name them.
      if (body !== undefined && !found.has(body)) {
        const bytes = (await read.next()).value?.[1];
        found.set(body, await this.#body(bytes));
        if (slices.isOver(bytes?.length ?? 0)) await otherWork();
      }
      const none: Body = { bytes: undefined, words: wordsOfImage(image ?? null), isSure: true };
      const { bytes, words, isSure } = (body && found.get(body)) ?? none;
      const text = textOf(JSON.stringify(wholeUri(document, bytes)), words);
      if (isSure) this.#cache.set(hash, text);
      texts.set(hash, text);
      characters += text.uri.length + text.metadata.length;
      if (slices.isOver(text.uri.length)) await otherWork();
    }
  }

  async #body(bytes: Uint8Array | undefined): Promise<Body> {
    // It may come yet.
    if (bytes === undefined) return { bytes, words: wordsOfImage(null), isSure: false };
    try {
      return { bytes, words: await this.#parser.words(bytes), isSure: true };
    } catch (error) {
      if (!(error instanceof MetadataFailure)) throw error;
      return { bytes, words: NO_WORDS, isSure: false };
    }
  }

  /** Documents in the order of their hashes, until they exceed `maxBytes`. */
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
      if (slices.isOver(blob?.length ?? 0)) await otherWork();
    }
    return documents;
  }
}

function textOf(uri: string, words: BodyWords): TokenText {
  const texts = { ...words, uri };
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
