/** A grid of tokens of any number: only the rows in view are elements of the page. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { NftRecord } from "../client/index.ts";
import { brief, cutInside, plain, whole } from "./format.ts";
import { BASE } from "./hooks.ts";
import { linkTo } from "./parts.tsx";
import type { TokenSource } from "./tokens.ts";

const LEAST_WIDTH = 150;
const GAP = 12;
/** Height of a card below its square picture. */
const CAPTION = 52;
/** Most letters of a name that a card has in its title. */
const MOST_OF_NAME = 200;
/** Width of a letter of a name, in pixels. */
const LETTER = 9;
/** Rows drawn above and below those in view. */
const SPARE_ROWS = 2;
/** Browsers draw no taller elements than about 17 million pixels. Above this, a pixel stands for more than one. */
const MOST_PIXELS = 8_000_000;

interface GalleryOptions {
  readonly source: TokenSource;
  readonly chain: string;
  readonly address: string;
  /** The block that the tokens' screens show; undefined for the newest. */
  readonly block: number | undefined;
}

export function Gallery({ source, chain, address, block }: GalleryOptions) {
  const box = useRef<HTMLElement>(null);
  const inside = useRef<HTMLDivElement>(null);
  const [{ width, height, top }, setView] = useState({ width: 0, height: 0, top: 0 });
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    // The box has a padding, which the columns must not count.
    const read = () =>
      setView({
        width: inside.current?.clientWidth ?? 0,
        height: element.clientHeight,
        top: element.scrollTop,
      });
    const observer = new ResizeObserver(read);
    observer.observe(element);
    element.addEventListener("scroll", read, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", read);
    };
  }, []);
  const { columns, cell, rowHeight } = gridOf(width);
  const rows = Math.ceil(source.total / columns);
  const full = rows * rowHeight;
  const tall = Math.min(full, Math.max(MOST_PIXELS, height));
  // The share of the way down is the same in the short scale of the scroll bar and in the real one.
  const real = tall === full ? top : (top / Math.max(1, tall - height)) * (full - height);
  const firstRow = Math.max(0, Math.floor(real / rowHeight) - SPARE_ROWS);
  const lastRow = Math.min(rows, Math.ceil((real + height) / rowHeight) + SPARE_ROWS);
  const from = firstRow * columns;
  const to = Math.min(source.total, lastRow * columns);
  useEffect(() => {
    if (width > 0 && to > from) source.show(from, to - 1);
  }, [source, from, to, source.total, width]);
  const offset = top + firstRow * rowHeight - real;
  return (
    <section class="gallery" ref={box} tabIndex={0} aria-label={`Tokens, ${whole(source.total)} in all`}>
      <div ref={inside} style={{ height: `${tall}px` }}>
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
  const name = nameOf(record, MOST_OF_NAME);
  return (
    <a class="card token" href={linkTo.token(chain, address, id, block)}>
      <Picture record={record} size="low" pixels={size} />
      <strong title={name}>{cutInside(name, Math.floor(size / LETTER))}</strong>
      <small>{owner === "" ? `${record.amount} in all` : brief(owner)}</small>
    </a>
  );
}

/** The token's name from its metadata, else its id. */
export function nameOf({ normalized_metadata: metadata, token_id: id }: NftRecord, most = 60): string {
  const name = metadata === "" ? null : metadata.name;
  return name === null || name.trim() === "" ? `#${plain(id, 20)}` : plain(name, most);
}

/** The preview of a token's picture, from this service: nothing is loaded from the host that the metadata names. */
export function Picture({
  record,
  size,
  pixels,
}: {
  readonly record: NftRecord;
  readonly size: "low" | "medium" | "high";
  readonly pixels: number;
}) {
  const path = pathOf(record, size);
  const style = { width: `${pixels}px`, height: `${pixels}px` };
  if (path === undefined) {
    return (
      <span class="picture none" style={style}>
        {absenceOf(record)}
      </span>
    );
  }
  return <img class="picture" style={style} src={path} alt="" loading="lazy" decoding="async" />;
}

/** Why a token has no preview, in words. */
function absenceOf({ media }: NftRecord): string {
  if (media === "" || media.status === "success") return "";
  // The service also calls a missing URL invalid.
  if (media.status === "invalid_url" && media.original_media_url === null) return "no picture";
  return media.status.replaceAll("_", " ");
}

/** By path below this page's own address, which may differ from the service's public one. */
function pathOf({ media }: NftRecord, size: "low" | "medium" | "high"): string | undefined {
  const url = media === "" ? undefined : media.media_collection?.[size].url;
  const path = url === undefined ? undefined : /\/(media\/[0-9a-f]{64}\/\d+)$/.exec(url)?.[1];
  return path === undefined ? undefined : `${BASE}${path}`;
}
