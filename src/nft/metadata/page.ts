/**
 * The metadata of a page: per entry the fields of its record as JSON text, and the tokens that should be refreshed.
 * Reads books and blobs only; it never waits for a remote host.
 */

import { LRUCache } from "lru-cache";
import type { Clock } from "../../core/clock.ts";
import { BlobsUnavailable } from "../../core/errors.ts";
import type { Address, Hash } from "../../core/hex.ts";
import { yieldToEventLoop } from "../../core/turns.ts";
import type { TokenRef } from "../../events/columns.ts";
import type { EventLog } from "../../log/event-log.ts";
import type { Entry } from "../ledger/entries.ts";
import { NO_METADATA, type RecordFacts } from "../listings/record.ts";
import type { MetadataBook, Outcome } from "./book.ts";
import type { MetadataBooks } from "./books.ts";
import { isExaminationDue, type KnownMedia, knownMedia, type MediaDocument, type MediaStatus } from "./media/media.ts";
import { fromBlob } from "./outcome-documents.ts";
import { FAILURE_STATUS } from "./resolve/failure.ts";
import { NO_TEXT } from "./resolve/normalize.ts";
import { isRefreshDue } from "./retry-times.ts";
import { blobsOf, Slices, type Texts, type TokenText, type TokenTexts, textOfToken } from "./token-texts.ts";

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
  /** False if the store of blobs failed, so that metadata which is known may be missing. */
  readonly isWhole: boolean;
}

interface PageFacts {
  readonly facts: RecordFacts[];
  /** Tokens that were never fetched, or are due for a refresh. */
  readonly dueTokens: TokenRef[];
  /** Tokens with a picture that is not examined yet, or is due again. */
  readonly duePictures: TokenRef[];
  /** False if the store of blobs failed: texts and pictures that are not in memory are left out. */
  isWhole: boolean;
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
interface TokenOutcomes {
  readonly slot: number;
  readonly newest: Outcome | undefined;
  readonly good: Outcome | undefined;
  readonly media: Hash | undefined;
}

/** A token that the book has nothing about. */
const UNKNOWN: TokenOutcomes = { slot: -1, newest: undefined, good: undefined, media: undefined };

interface ShownFacts extends TokenOutcomes {
  /** True if the store of blobs failed, so that it is not known what the token has. */
  readonly isLost: boolean;
}

/** Waits for a read of blobs. Returns false if their store failed: the page is served without them. */
async function isRead(reading: Promise<void>): Promise<boolean> {
  try {
    await reading;
    return true;
  } catch (error) {
    if (error instanceof BlobsUnavailable) return false;
    throw error;
  }
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
    const page: PageFacts = { facts: [], dueTokens: [], duePictures: [], isWhole: true };
    const now = clock.now();
    const known = entries.map((entry) => lookUp(book, entry, options));
    if (known.every(({ newest, good, media }) => (newest ?? good ?? media) === undefined)) {
      const facts = this.#facts({ ...UNKNOWN, isLost: false }, undefined, undefined, undefined, options);
      const isDue = (at: number) => isTokenDue(book, known[at] as TokenOutcomes, now);
      const dueTokens = options.asOf === undefined ? entries.filter((_, at) => isDue(at)).map(tokenOf) : [];
      return { facts: entries.map(() => facts), dueTokens, duePictures: [], isWhole: true };
    }
    const texts: Texts = new Map();
    const slices = new Slices();
    let characters = 0;
    while (page.facts.length < entries.length && characters < MAX_PAGE_CHARACTERS) {
      const from = page.facts.length;
      const rest = known.slice(from);
      const room = MAX_PAGE_CHARACTERS - characters;
      page.isWhole &&= await isRead(this.#options.texts.read(rest.flatMap(hashesOf), texts, room));
      const unread = !page.isWhole
        ? -1
        : rest.findIndex(({ good, newest }) => isMissing(texts, good) || isMissing(texts, newest));
      const readable = unread < 0 ? rest : rest.slice(0, unread);
      const media = new Map<Hash, KnownMedia>();
      page.isWhole &&= await isRead(this.#readDocuments(readable, media, slices));
      for (const [index, item] of readable.entries()) {
        const entry = entries[from + index] as Entry;
        const shared = item.good?.hash === undefined ? undefined : texts.get(item.good.hash);
        const text = shared && textOfToken(shared, tokenOf(entry));
        const picture = item.media === undefined ? undefined : media.get(item.media);
        const newest = item.newest?.hash && texts.get(item.newest.hash);
        const isLost = !page.isWhole && (isMissing(texts, item.good) || (item.media !== undefined && !picture));
        const facts = this.#facts({ ...item, isLost }, text, newest, picture, options);
        characters += facts.metadata.length + facts.normalized.length + facts.media.length + facts.tokenUri.length;
        page.facts.push(facts);
        if (options.asOf === undefined) {
          if (isTokenDue(book, item, now)) page.dueTokens.push(tokenOf(entry));
          if (options.mediaItems && !isLost && isPictureDue(text, picture, now)) page.duePictures.push(tokenOf(entry));
        }
        if (characters >= MAX_PAGE_CHARACTERS) break;
        // The picture's object is serialised for each page, and its URI may have a megabyte.
        if (slices.isOver(facts.media.length)) await yieldToEventLoop();
      }
    }
    return page;
  }

  async #readDocuments(
    known: readonly TokenOutcomes[],
    documents: Map<Hash, KnownMedia>,
    slices: Slices,
  ): Promise<void> {
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
  }

  #facts(
    { newest, good, isLost }: ShownFacts,
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
      media: mediaItems ? this.#mediaText({ newest, isLost }, text, picture) : "",
      uriSync: isoText(uriTime),
      metadataSync: isoText(good?.time),
    };
  }

  /** JSON of the record's `media`: the result of the examination, or the reason that there is none. */
  #mediaText(
    { newest, isLost }: Pick<ShownFacts, "newest" | "isLost">,
    text: TokenText | undefined,
    picture: KnownMedia | undefined,
  ): string {
    const uri = text?.image ?? null;
    const shown = uri !== null && picture?.name === text?.imageName ? picture : undefined;
    const previews = shown?.previews ?? [];
    let status: MediaStatus = shown?.status ?? "processing";
    if (isLost) status = "temporarily_unavailable";
    else if (text !== undefined && uri === null) status = "invalid_url";
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
const hashesOf = ({ good, newest }: TokenOutcomes): Hash[] =>
  [good?.hash, newest?.hash].filter((hash) => hash !== undefined);

const isMissing = (texts: Texts, outcome: Outcome | undefined): boolean =>
  outcome?.hash !== undefined && !texts.has(outcome.hash);

const isTokenDue = (book: MetadataBook, { slot }: TokenOutcomes, now: number): boolean =>
  slot < 0 || isRefreshDue(book, slot, now);

const tokenOf = ({ kind, id }: ShownToken): TokenRef => ({ kind, id: BigInt(id) });

function lookUp(book: MetadataBook, entry: ShownToken, { mediaItems, asOf }: PageFactsOptions): TokenOutcomes {
  const slot = book.find(entry.kind, entry.id);
  if (slot < 0) return UNKNOWN;
  // The reason of a failure shows only as the state of a picture.
  if (!mediaItems && book.isBare(slot, asOf)) return { ...UNKNOWN, slot };
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
