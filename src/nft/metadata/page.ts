/**
 * The metadata of a page: per entry the fields of its record as JSON text, and the tokens that should be refreshed.
 * Reads books and blobs only; it never waits for a remote host.
 */

import { LRUCache } from "lru-cache";
import type { Clock } from "../../core/clock.ts";
import type { Address, Hash } from "../../core/hex.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import type { TokenRef } from "../../events/columns.ts";
import type { EventLog } from "../../log/event-log.ts";
import type { Entry } from "../ledger/entries.ts";
import { NO_METADATA, type RecordFacts } from "../listings/record.ts";
import { fromBlob, isRefreshDue, type MetadataBook, type Outcome, type OutcomeDocument, wholeUri } from "./book.ts";
import type { MetadataBooks } from "./books.ts";
import {
  isExaminationDue,
  type KnownMedia,
  knownMedia,
  type MediaDocument,
  type MediaStatus,
  uriName,
} from "./media/media.ts";
import { FAILURE_STATUS, MetadataFailure } from "./resolve/failure.ts";
import { type BodyText, NO_TEXT, type NormalizedMetadata, textOfImage } from "./resolve/normalize.ts";
import type { Parser } from "./resolve/parser.ts";
import { namesId, withId } from "./resolve/resolver.ts";

// A cache of token texts by document hash. It reads documents and bodies from the blob table, as far as a page has room
// for them, and keeps the JSON text that a page shows in an LRU by bytes.

/** Bytes per slice: 1 ms, or 8 ms for content that is made to be slow. */
const SLICE_BYTES = 64 * 1024;
/** Bytes per read of the log. The content's author can't exceed it. */
const READ_BYTES = 256 * 1024;

/**
 * Splits long work on the request thread into slices. The metadata of a page may be megabytes per token, and its author
 * may have made it slow on purpose.
 */
class Slices {
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
  log: EventLog,
  hashes: readonly Hash[],
): AsyncGenerator<readonly [Hash, Uint8Array | undefined]> {
  for (let from = 0; from < hashes.length; ) {
    const { blobs, read } = await log.getBlobs(hashes.slice(from), READ_BYTES);
    for (const hash of hashes.slice(from, from + read)) yield [hash, blobs.get(hash)];
    from += read;
  }
}

/** The text of a token's outcome. */
interface TokenText extends BodyText {
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
type Texts = Map<Hash, TokenText | undefined>;

interface Body {
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
    const found = new Map<Hash, Body>();
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
      const none: Body = { bytes: undefined, words: textOfImage(image ?? null), isSure: true };
      const { bytes, words, isSure } = (body && found.get(body)) ?? none;
      const text = storedText(JSON.stringify(wholeUri(document, bytes)), words);
      if (isSure) this.#cache.set(hash, text);
      texts.set(hash, text);
      characters += text.uri.length + text.metadata.length;
      if (slices.isOver(text.uri.length)) await yieldToEventLoop();
    }
  }

  async #body(bytes: Uint8Array | undefined): Promise<Body> {
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

/** An entry of a page, or the collection itself. */
export type ShownToken = Pick<Entry, "kind" | "id">;

export interface PageFactsOptions {
  readonly normalizeMetadata: boolean;
  readonly mediaItems: boolean;
  /** Time in ms since the epoch, to show the metadata as known then; undefined for the newest. */
  readonly asOf: number | undefined;
}

/** The metadata shown on a page. */
export interface KnownFacts {
  /** One per entry, up to the page's byte limit; at least one if there is an entry. */
  readonly facts: readonly RecordFacts[];
  /** True if neither metadata nor a picture of the page is due for a refresh. */
  readonly isSettled: boolean;
}

interface PageFacts {
  readonly facts: RecordFacts[];
  /** Tokens that were never fetched, or are due for a refresh. */
  readonly dueTokens: TokenRef[];
  /** Tokens with a picture that is not examined yet, or is due again. */
  readonly duePictures: TokenRef[];
}

interface FactsReaderOptions {
  readonly books: MetadataBooks;
  readonly texts: TokenTexts;
  readonly log: EventLog;
  readonly clock: Clock;
  /** Bytes of memory for the documents of pictures. */
  readonly maxBytes: number;
  /** Without a trailing slash. */
  readonly publicUrl: () => string;
}

/**
 * Most characters of metadata per page: 6 KB for each of 500 tokens, above an ordinary token's. Metadata beyond it is not
 * read. Its bytes are written in one piece, which takes two to three ms a megabyte.
 */
const MAX_PAGE_CHARACTERS = 3 * 1024 * 1024;
const SIZE_NAMES = { 100: "low", 250: "medium", 500: "high" } as const;

/** The book's knowledge of an entry, before its texts are read. */
interface Known {
  readonly slot: number;
  readonly newest: Outcome | undefined;
  readonly good: Outcome | undefined;
  readonly media: Hash | undefined;
}

export class FactsReader {
  readonly #options: FactsReaderOptions;
  readonly #media: LRUCache<Hash, KnownMedia>;

  constructor(options: FactsReaderOptions) {
    this.#options = options;
    this.#media = new LRUCache({ maxSize: options.maxBytes, sizeCalculation: mediaBytes });
  }

  async read(
    { chainId, address }: { chainId: number; address: Address },
    entries: readonly ShownToken[],
    options: PageFactsOptions,
  ): Promise<PageFacts> {
    const { books, clock } = this.#options;
    const book = await books.get(chainId, address);
    const page: PageFacts = { facts: [], dueTokens: [], duePictures: [] };
    const now = clock.now();
    const known = entries.map((entry) => lookUp(book, entry, options));
    const texts: Texts = new Map();
    const slices = new Slices();
    let characters = 0;
    while (page.facts.length < entries.length && characters < MAX_PAGE_CHARACTERS) {
      const from = page.facts.length;
      const rest = known.slice(from);
      await this.#options.texts.read(rest.flatMap(hashesOf), texts, MAX_PAGE_CHARACTERS - characters);
      const unread = rest.findIndex(({ good, newest }) => isMissing(texts, good) || isMissing(texts, newest));
      const readable = unread < 0 ? rest : rest.slice(0, unread);
      const media = await this.#documents(readable, slices);
      for (const [index, item] of readable.entries()) {
        const entry = entries[from + index] as Entry;
        const shared = item.good?.hash === undefined ? undefined : texts.get(item.good.hash);
        const text = shared && textOfToken(shared, tokenOf(entry));
        const picture = item.media === undefined ? undefined : media.get(item.media);
        const facts = this.#facts(item, text, item.newest?.hash && texts.get(item.newest.hash), picture, options);
        characters += facts.metadata.length + facts.normalized.length + facts.media.length + facts.tokenUri.length;
        page.facts.push(facts);
        if (options.asOf === undefined) {
          if (item.slot < 0 || isRefreshDue(book, item.slot, now)) page.dueTokens.push(tokenOf(entry));
          if (options.mediaItems && isPictureDue(text, picture, now)) page.duePictures.push(tokenOf(entry));
        }
        if (characters >= MAX_PAGE_CHARACTERS) break;
        // The picture's object is serialised for each page, and its URI may have a megabyte.
        if (slices.isOver(facts.media.length)) await yieldToEventLoop();
      }
    }
    return page;
  }

  async #documents(known: readonly Known[], slices: Slices): Promise<Map<Hash, KnownMedia>> {
    const documents = new Map<Hash, KnownMedia>();
    const missing = new Set<Hash>();
    for (const { media } of known) {
      if (media === undefined) continue;
      const document = this.#media.get(media);
      if (document === undefined) missing.add(media);
      else documents.set(media, document);
    }
    for await (const [hash, bytes] of blobsOf(this.#options.log, [...missing])) {
      if (bytes === undefined) continue;
      const document = knownMedia(fromBlob<MediaDocument>(bytes));
      this.#media.set(hash, document);
      documents.set(hash, document);
      if (slices.isOver(bytes.length)) await yieldToEventLoop();
    }
    return documents;
  }

  #facts(
    { newest, good }: Known,
    text: TokenText | undefined,
    newestText: TokenText | undefined,
    picture: KnownMedia | undefined,
    { normalizeMetadata, mediaItems }: PageFactsOptions,
  ): RecordFacts {
    if (newest === undefined && good === undefined && !normalizeMetadata && !mediaItems) return NO_METADATA;
    // A failed attempt may still have a newer URI.
    const uriText = newestText ?? text;
    const uriTime = newestText === undefined ? good?.time : newest?.time;
    return {
      tokenUri: uriText?.uri ?? "null",
      metadata: text?.metadata ?? "null",
      normalized: normalizeMetadata ? (text ?? NO_TEXT).normalized : "",
      media: mediaItems ? this.#mediaText(newest, text, picture) : "",
      uriSync: isoText(uriTime),
      metadataSync: isoText(good?.time),
    };
  }

  /** JSON of the record's `media`: the result of the examination, or the reason that there is none. */
  #mediaText(newest: Outcome | undefined, text: TokenText | undefined, picture: KnownMedia | undefined): string {
    const uri = text?.image ?? null;
    const shown = uri !== null && picture?.name === text?.imageName ? picture : undefined;
    const previews = shown?.previews ?? [];
    let status: MediaStatus = shown?.status ?? "processing";
    if (text !== undefined && uri === null) status = "invalid_url";
    else if (text === undefined && newest?.reason !== undefined) status = FAILURE_STATUS[newest.reason];
    return JSON.stringify({
      status,
      mimetype: shown?.mimetype ?? null,
      category: shown?.category ?? null,
      original_media_url: uri,
      parent_hash: shown?.parentHash ?? null,
      updatedAt: shown === undefined ? null : new Date(shown.updatedAt).toISOString(),
      media_collection: previews.length === 0 ? null : this.#collection(previews),
    });
  }

  #collection(previews: KnownMedia["previews"]): object {
    const base = this.#options.publicUrl();
    return Object.fromEntries(
      previews.map(({ size, width, height, hash }) => [
        SIZE_NAMES[size as keyof typeof SIZE_NAMES],
        { height, width, url: `${base}/media/${hash.slice(2)}/${size}` },
      ]),
    );
  }
}

/** Hashes of the documents that an entry's texts come from. */
const hashesOf = ({ good, newest }: Known): Hash[] => [good?.hash, newest?.hash].filter((hash) => hash !== undefined);

const isMissing = (texts: Texts, outcome: Outcome | undefined): boolean =>
  outcome?.hash !== undefined && !texts.has(outcome.hash);

const tokenOf = ({ kind, id }: ShownToken): TokenRef => ({ kind, id: BigInt(id) });

function lookUp(book: MetadataBook, entry: ShownToken, { mediaItems, asOf }: PageFactsOptions): Known {
  const slot = book.find(entry.kind, entry.id);
  if (slot < 0) return { slot, newest: undefined, good: undefined, media: undefined };
  const media = mediaItems ? book.media(slot) : undefined;
  return { slot, newest: book.newest(slot, asOf), good: book.good(slot, asOf), media };
}

/** Size in the cache: the object and hash of a preview take about 200 bytes. */
const mediaBytes = ({ name, mimetype, previews }: KnownMedia): number =>
  512 + 256 * previews.length + 2 * (name.length + (mimetype?.length ?? 0));

const isoText = (time: number | undefined): string =>
  time === undefined ? "null" : `"${new Date(time).toISOString()}"`;

function isPictureDue(text: TokenText | undefined, picture: KnownMedia | undefined, now: number): boolean {
  if (text === undefined || text.image === null) return false;
  if (picture?.name !== text.imageName) return true;
  return isExaminationDue(picture, now);
}
