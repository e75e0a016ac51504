/**
 * A grid of tokens of any number: only the rows in view are elements of the page. It scrolls with the page, because a box of
 * its own would catch the finger on a phone. All rows have one height, so a library for rows of unknown heights has no use.
 */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { NftRecord } from "../../client/index.ts";
import { brief, cutInside, plain, whole } from "../parts/format.ts";
import { noteGallery } from "../state/gallery-order.ts";
import { type CollectionAt, linkTo } from "../state/place.ts";
import { givenName, isMulti, Picture } from "./picture.tsx";
import type { PlacesInView, ShownTokens } from "./shown-tokens.ts";

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

interface GalleryOptions {
  readonly tokens: ShownTokens;
  readonly at: CollectionAt;
  /** Called with the places that come into view. */
  readonly onView: (view: PlacesInView) => void;
}

/** The grid's width, and how far the page is scrolled past its upper end. */
function useView() {
  const grid = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ width: 0, height: 0, top: 0 });
  // Before the first drawing: without a width, a card is of no size.
  useLayoutEffect(() => {
    const element = grid.current;
    if (element === null) return;
    const read = () => {
      const { width, top } = element.getBoundingClientRect();
      setView({ width: Math.floor(width), height: innerHeight, top: Math.max(0, -top) });
    };
    // What is above the grid grows and shrinks, too, and moves the grid with it.
    const observer = new ResizeObserver(read);
    for (const one of [element, document.body]) observer.observe(one);
    const ended = new AbortController();
    for (const event of ["scroll", "resize"]) addEventListener(event, read, { passive: true, signal: ended.signal });
    return () => {
      observer.disconnect();
      ended.abort();
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
export function Gallery({ tokens, at, onView }: GalleryOptions) {
  const { grid, ...view } = useView();
  const { width } = view;
  const { columns, rowHeight, cell, tall, from, to, offset } = rowsInView(width === 0 ? 0 : tokens.total, view);
  useEffect(() => {
    if (width > 0 && to > from) onView({ from, to: to - 1 });
  }, [from, to, width]);
  useEffect(
    () => noteGallery(at, new Map([...tokens.records].map(([place, { token_id: id }]) => [place, id]))),
    [tokens],
  );
  return (
    <section class="gallery" aria-label={`${whole(tokens.total)} tokens`}>
      <div ref={grid} style={{ height: `${tall}px` }}>
        <ul
          style={{
            transform: `translateY(${offset}px)`,
            gap: `${GAP}px`,
            gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))`,
          }}
        >
          {Array.from({ length: Math.max(0, to - from) }, (_, index) => from + index).map((place) => (
            <li
              key={place}
              aria-setsize={tokens.total}
              aria-posinset={place + 1}
              style={{ height: `${rowHeight - GAP}px` }}
            >
              <Card record={tokens.records.get(place)} size={cell} {...at} />
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

function Card({
  record,
  chain,
  address,
  block,
  size,
}: CollectionAt & { readonly record: NftRecord | undefined; readonly size: number }) {
  if (record === undefined) return <div class="token waiting" style={{ height: `${size}px` }} />;
  const { token_id: id, owner_of: owner } = record;
  const name = givenName(record);
  const title = name === undefined ? `#${id}` : plain(name, MOST_OF_NAME);
  const most = Math.floor(name === undefined ? (size - PADDING) / DIGIT : size / LETTER);
  const supply = `supply ${cutInside(record.amount, MOST_OF_AMOUNT)}`;
  const holder = owner === "" ? supply : brief(owner);
  const shortId = `#${cutInside(id, Math.max(5, most - holder.length))}`;
  return (
    <a class="token" href={linkTo.token(chain, address, id, block)}>
      <Picture record={record} pixels={size} />
      <strong title={title}>{cutInside(title, most)}</strong>
      <small>{isMulti(record) && name !== undefined ? `${shortId} · ${holder}` : holder}</small>
      {id.length < 5 ? null : <small class="full-id">#{id}</small>}
    </a>
  );
}
