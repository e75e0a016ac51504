/** A grid of tokens of any number: only the rows in view are elements of the page. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { AsOf, Client, NftRecord } from "../client/index.ts";
import { MEDIA_WORDS } from "../status-words.ts";
import { brief, cutInside, linkTo, plain, type Where, whole } from "./parts.tsx";
import { BASE } from "./session.ts";

// The tokens that a gallery shows, loaded as they come into view. The whole listing is split into ranges at one block, so
// that any place of a million tokens is two requests away. A filtered one is read from its beginning on, page by page.

/** What a gallery needs to know of the tokens it shows. */
export interface TokenSource {
  /** Number of places to show: the tokens, and one more while a filtered listing goes on. */
  readonly total: number;
  /** Number of tokens found, and whether these are all. */
  readonly found: { readonly count: number; readonly isAll: boolean };
  /** The block that all of it is true at; undefined until the first answer. */
  readonly asOf: AsOf | undefined;
  /** Returns a token, or undefined until it is loaded. */
  at(index: number): NftRecord | undefined;
  /** The places that were shown last. */
  readonly view: { readonly from: number; readonly to: number };
  /** Loads what these places lack. */
  show(from: number, to: number): void;
  /** Stops all requests. */
  close(): void;
}

interface SourceEvents {
  readonly onChange: () => void;
  readonly onError: (error: Error) => void;
}

const PAGE = 100;
/** The most ranges that the service splits a listing into. */
const MOST_RANGES = 1_000;
const MOST_PER_PAGE = 500;
/** Ranges kept, beyond which those shown longest ago are dropped: about 20 MB. */
const KEPT = 40;
/** Ranges loaded at a time. */
const AT_ONCE = 2;

const NO_VIEW = { from: 0, to: 0 };
const SHOWN = { normalizeMetadata: true, media_items: true } as const;

/** The whole listing as of one block. */
export class RangedTokens implements TokenSource {
  readonly #client: Client;
  readonly #contract: Where;
  readonly #events: SourceEvents;
  readonly #stopping = new AbortController();
  readonly #ranges = new Map<number, readonly NftRecord[]>();
  readonly #loading = new Set<number>();
  #wanted: readonly number[] = [];
  view = NO_VIEW;
  asOf: AsOf | undefined;
  #count = 0;

  /** @param asOfBlock the block to show; undefined for the newest */
  constructor(client: Client, contract: Where, asOfBlock: number | undefined, events: SourceEvents) {
    this.#client = client;
    this.#contract = contract;
    this.#events = events;
    void this.#begin(asOfBlock);
  }

  get total(): number {
    return this.#count;
  }

  get found(): TokenSource["found"] {
    return { count: this.#count, isAll: this.asOf !== undefined };
  }

  at(index: number): NftRecord | undefined {
    const range = this.#rangeOf(index);
    return this.#ranges.get(range)?.[index - this.#beginOf(range)];
  }

  show(from: number, to: number): void {
    this.view = { from, to };
    if (this.#count === 0) return;
    const end = this.#count - 1;
    const [first, last] = [this.#rangeOf(Math.min(from, end)), this.#rangeOf(Math.min(to, end))];
    this.#wanted = Array.from({ length: last - first + 1 }, (_, at) => first + at);
    for (const range of this.#wanted) this.#keep(range);
    this.#loadWanted();
  }

  close(): void {
    this.#stopping.abort();
  }

  get #totalRanges(): number {
    return Math.max(1, Math.min(MOST_RANGES, Math.ceil(this.#count / PAGE)));
  }

  /** The service divides a listing the same way. */
  #beginOf(range: number): number {
    return Math.floor((range * this.#count) / this.#totalRanges);
  }

  #rangeOf(index: number): number {
    const near = Math.floor((index * this.#totalRanges) / Math.max(1, this.#count));
    return index >= this.#beginOf(near + 1) ? near + 1 : near;
  }

  /** The first answer fixes the block and the number of tokens. */
  async #begin(asOfBlock: number | undefined): Promise<void> {
    const { chain, address } = this.#contract;
    const { signal } = this.#stopping;
    try {
      const query = { chain, limit: 1, disable_total: false, as_of_block: asOfBlock, signal };
      const { asOf, total } = await this.#client.nftPage(address, query);
      this.asOf = asOf ?? undefined;
      this.#count = Number(total ?? 0);
      this.#events.onChange();
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Marks a range as used just now. */
  #keep(range: number): void {
    const records = this.#ranges.get(range);
    if (records === undefined) return;
    this.#ranges.delete(range);
    this.#ranges.set(range, records);
  }

  #loadWanted(): void {
    for (const range of this.#wanted) {
      if (this.#loading.size >= AT_ONCE) return;
      if (!this.#ranges.has(range) && !this.#loading.has(range)) void this.#load(range);
    }
  }

  async #load(range: number): Promise<void> {
    this.#loading.add(range);
    const { chain, address } = this.#contract;
    const { signal } = this.#stopping;
    const part = { totalRanges: this.#totalRanges, range, limit: MOST_PER_PAGE, as_of_block: this.asOf?.block };
    try {
      const records = this.#client.nfts(address, { chain, ...SHOWN, ...part, signal });
      this.#ranges.set(range, await Array.fromAsync(records));
      for (const oldest of this.#ranges.keys()) {
        if (this.#ranges.size <= KEPT) break;
        this.#ranges.delete(oldest);
      }
      this.#events.onChange();
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#loading.delete(range);
      if (!signal.aborted) this.#loadWanted();
    }
  }

  #fail(error: unknown): void {
    if (this.#stopping.signal.aborted) return;
    this.#wanted = [];
    this.#events.onError(error as Error);
  }
}

export interface TokenFilter {
  readonly owner: string | undefined;
  /** Each `Type:Value`. */
  readonly traits: readonly string[];
}

/** The tokens of an owner, or with certain traits, as of one block. */
export class FilteredTokens implements TokenSource {
  readonly #pages: AsyncGenerator<{ readonly records: readonly NftRecord[]; readonly isLast: boolean }>;
  readonly #events: SourceEvents;
  readonly #stopping = new AbortController();
  readonly #records: NftRecord[] = [];
  view = NO_VIEW;
  asOf: AsOf | undefined;
  #isLoading = false;
  #isComplete = false;

  constructor(
    client: Client,
    contract: Where,
    { asOfBlock, filter }: { readonly asOfBlock: number | undefined; readonly filter: TokenFilter },
    events: SourceEvents,
  ) {
    this.#events = events;
    this.#pages = this.#read(client, contract, asOfBlock, filter);
    void this.#next();
  }

  get total(): number {
    return this.#records.length + (this.#isComplete ? 0 : 1);
  }

  get found(): TokenSource["found"] {
    return { count: this.#records.length, isAll: this.#isComplete };
  }

  at(index: number): NftRecord | undefined {
    return this.#records[index];
  }

  show(from: number, to: number): void {
    this.view = { from, to };
    if (to >= this.#records.length) void this.#next();
  }

  close(): void {
    this.#stopping.abort();
  }

  async *#read(client: Client, contract: Where, asOfBlock: number | undefined, filter: TokenFilter) {
    const { signal } = this.#stopping;
    const { owner, traits } = filter;
    const query = { limit: PAGE, trait: traits, owner, as_of_block: asOfBlock, signal };
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = await client.tokenPage(contract, { ...query, cursor });
      this.asOf ??= page.asOf ?? undefined;
      cursor = page.cursor;
      yield { records: page.result, isLast: cursor === null };
    }
  }

  async #next(): Promise<void> {
    if (this.#isLoading || this.#isComplete) return;
    this.#isLoading = true;
    try {
      const { value, done } = await this.#pages.next();
      if (done !== true) {
        this.#records.push(...value.records);
        this.#isComplete = value.isLast;
      }
      this.#events.onChange();
    } catch (error) {
      this.#isComplete = true;
      if (!this.#stopping.signal.aborted) this.#events.onError(error as Error);
    } finally {
      this.#isLoading = false;
    }
  }
}

const LEAST_WIDTH = 150;
const GAP = 12;
/** Height of a card below its square picture. */
const CAPTION = 52;
/** Most digits of an amount that a card has. */
const MOST_OF_AMOUNT = 9;
/** Most letters of a name that a card has in its title. */
const MOST_OF_NAME = 200;
/** Width of a letter of a name, and of a digit of an id, in pixels. */
const [LETTER, DIGIT] = [9, 11];
/** Left and right of a card's texts. */
const PADDING = 16;
/** Rows drawn above and below those in view. */
const SPARE_ROWS = 2;
/** Browsers draw no taller elements than about 17 million pixels. Above this, a pixel stands for more than one. */
const MOST_PIXELS = 8_000_000;

interface GalleryOptions extends Where {
  readonly source: TokenSource;
  /** The block that the tokens' screens show; undefined for the newest. */
  readonly block: number | undefined;
}

/** The grid's width, and how far the page is scrolled past its upper end. */
function useView() {
  const grid = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ width: 0, height: 0, top: 0 });
  useEffect(() => {
    const element = grid.current;
    if (element === null) return;
    const read = () => {
      const { width, top } = element.getBoundingClientRect();
      setView({ width: Math.floor(width), height: innerHeight, top: Math.max(0, -top) });
    };
    // What is above the grid grows and shrinks, too, and moves the grid with it.
    const observer = new ResizeObserver(read);
    for (const one of [element, document.body]) observer.observe(one);
    addEventListener("scroll", read, { passive: true });
    addEventListener("resize", read);
    return () => {
      observer.disconnect();
      removeEventListener("scroll", read);
      removeEventListener("resize", read);
    };
  }, []);
  return { grid, ...view };
}

/** The places of a grid that are in view, and where its drawn rows begin. */
function rowsInView(total: number, { width, height, top }: { width: number; height: number; top: number }) {
  const { columns, rowHeight, cell } = gridOf(width);
  const rows = Math.ceil(total / columns);
  const full = rows * rowHeight;
  const tall = Math.min(full, Math.max(MOST_PIXELS, height));
  // The share of the way down is the same in the short scale of the page and in the real one. Below its end the page goes on
  // in the real one.
  const way = Math.min(top, Math.max(0, tall - height));
  const real = tall === full ? top : (way / Math.max(1, tall - height)) * (full - height) + (top - way);
  const firstRow = Math.max(0, Math.min(rows, Math.floor(real / rowHeight)) - SPARE_ROWS);
  const lastRow = Math.min(rows, Math.ceil((real + height) / rowHeight) + SPARE_ROWS);
  const [from, to] = [firstRow * columns, Math.min(total, lastRow * columns)];
  return { ...{ columns, rowHeight, cell, tall, from, to }, offset: top + firstRow * rowHeight - real };
}

/** The tokens in a grid that scrolls with the page. */
export function Gallery({ source, chain, address, block }: GalleryOptions) {
  const { grid, ...view } = useView();
  const { width } = view;
  const { columns, rowHeight, cell, tall, from, to, offset } = rowsInView(source.total, view);
  useEffect(() => {
    if (width > 0 && to > from) source.show(from, to - 1);
  }, [source, from, to, source.total, width]);
  return (
    <section class="gallery" aria-label={`${whole(source.total)} tokens`}>
      <div ref={grid} style={{ height: `${tall}px` }}>
        <ul
          style={{
            transform: `translateY(${offset}px)`,
            gap: `${GAP}px`,
            gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))`,
          }}
        >
          {Array.from({ length: Math.max(0, to - from) }, (_, at) => (
            <li
              key={from + at}
              aria-setsize={source.total}
              aria-posinset={from + at + 1}
              style={{ height: `${rowHeight - GAP}px` }}
            >
              <Card record={source.at(from + at)} size={cell} {...{ chain, address, block }} />
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}

function gridOf(width: number) {
  const columns = Math.max(2, Math.floor((width + GAP) / (LEAST_WIDTH + GAP)));
  const cell = Math.max(40, Math.floor((width - (columns - 1) * GAP) / columns));
  return { columns, cell, rowHeight: cell + CAPTION + GAP };
}

interface CardOptions extends Omit<GalleryOptions, "source"> {
  readonly record: NftRecord | undefined;
  readonly size: number;
}

function Card({ record, chain, address, block, size }: CardOptions) {
  if (record === undefined) return <div class="card token waiting" style={{ height: `${size}px` }} />;
  const { token_id: id, owner_of: owner } = record;
  const name = givenName(record);
  const title = name === undefined ? `#${id}` : plain(name, MOST_OF_NAME);
  const most = Math.floor(name === undefined ? (size - PADDING) / DIGIT : size / LETTER);
  const supply = `supply ${cutInside(record.amount, MOST_OF_AMOUNT)}`;
  const holder = owner === "" ? supply : brief(owner);
  const shortId = `#${cutInside(id, Math.max(5, most - holder.length))}`;
  return (
    <a class="card token" href={linkTo.token(chain, address, id, block)}>
      <Picture record={record} pixels={size} />
      <strong title={title}>{cutInside(title, most)}</strong>
      <small>{isMulti(record) && name !== undefined ? `${shortId} · ${holder}` : holder}</small>
      {id.length < 5 ? null : <small class="full-id">#{id}</small>}
    </a>
  );
}

/** True for a token that several owners can hold. */
export const isMulti = ({ contract_type: type }: NftRecord): boolean => type === "ERC1155" || type === "ERC6909";

/** The token's name from its metadata; undefined if that has none. */
function givenName({ normalized_metadata: metadata }: NftRecord): string | undefined {
  const name = metadata === "" ? null : metadata.name;
  return name === null || name.trim() === "" ? undefined : name;
}

/** The token's name from its metadata, else its id. Ids with a common beginning differ at their ends. */
export function tokenName(record: NftRecord): string {
  const name = givenName(record);
  return name === undefined ? `#${cutInside(record.token_id, 21)}` : plain(name, 60);
}

/**
 * The preview of a token's picture, from this service: nothing is loaded from the host that the metadata names. The browser
 * takes the size that its screen needs.
 * @param pixels the shown size
 */
export function Picture({ record, pixels }: { readonly record: Pick<NftRecord, "media">; readonly pixels: number }) {
  const previews = previewsOf(record);
  const style = { width: `${pixels}px`, height: `${pixels}px` };
  if (previews.length === 0) {
    return (
      <span class="picture none" style={style}>
        {absenceOf(record)}
      </span>
    );
  }
  const { path } = previews.find(({ width }) => width >= pixels) ?? (previews.at(-1) as Preview);
  const srcset = previews.map((one) => `${one.path} ${one.width}w`).join(", ");
  return (
    <img
      class="picture"
      style={style}
      srcset={srcset}
      sizes={`${pixels}px`}
      src={path}
      alt=""
      loading="lazy"
      decoding="async"
    />
  );
}

/** Why a token has no preview, in words. */
function absenceOf({ media }: Pick<NftRecord, "media">): string {
  if (media === "" || media.status === "success") return "";
  // The service also calls a missing URL invalid.
  if (media.status === "invalid_url" && media.original_media_url === null) return "no picture";
  return MEDIA_WORDS[media.status].word;
}

interface Preview {
  readonly path: string;
  readonly width: number;
}

/** The previews, smallest first. By path below this page's own address, which may differ from the service's public one. */
function previewsOf({ media }: Pick<NftRecord, "media">): readonly Preview[] {
  const sizes = media === "" || media.media_collection === null ? undefined : media.media_collection;
  if (sizes === undefined) return [];
  return [sizes.low, sizes.medium, sizes.high].flatMap(({ url, width }) => {
    const path = /\/(media\/[0-9a-f]{64}\/\d+)$/.exec(url)?.[1];
    return path === undefined ? [] : [{ path: `${BASE}${path}`, width }];
  });
}
