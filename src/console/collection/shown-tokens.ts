/**
 * The tokens of a gallery, loaded as they come into view. The whole listing is split into ranges at one block, so that any
 * place of a million tokens is two requests away. A filtered one is read from its beginning on, page by page.
 */
import { useEffect, useRef } from "preact/hooks";
import type { AsOf, NftRecord } from "../../client/index.ts";
import { type CollectionAt, keyAt } from "../state/place.ts";
import { type QueryState, usePages, useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import type { CollectionHead } from "./collection-state.ts";

/** What a gallery shows. */
export interface ShownTokens {
  /** Number of places: the tokens, and one more while a filtered listing goes on. */
  readonly total: number;
  /** Number of tokens found, and whether these are all. */
  readonly count: number;
  readonly isAll: boolean;
  /** The block that all of it is true at. */
  readonly asOf: AsOf | null;
  /** The loaded tokens by their places. */
  readonly records: ReadonlyMap<number, NftRecord>;
}

/** The first and the last place in view. */
export interface PlacesInView {
  readonly from: number;
  readonly to: number;
}

const PAGE = 100;
/** The most ranges that the service splits a listing into. */
const MOST_RANGES = 1_000;
const MOST_PER_PAGE = 500;
/** Ranges kept, beyond which those loaded longest ago are dropped: about 20 MB. */
const KEPT = 40;

const totalRangesOf = (count: number): number => Math.max(1, Math.min(MOST_RANGES, Math.ceil(count / PAGE)));

/** The first place of a range. The service divides a listing the same way. */
const beginOf = (range: number, count: number): number => Math.floor((range * count) / totalRangesOf(count));

function rangeOf(place: number, count: number): number {
  const near = Math.floor((place * totalRangesOf(count)) / Math.max(1, count));
  return place >= beginOf(near + 1, count) ? near + 1 : near;
}

/** The ranges that places are in; none of an empty listing. */
function rangesIn({ from, to }: PlacesInView, count: number): readonly number[] {
  if (count === 0) return [];
  const [first, last] = [rangeOf(Math.min(from, count - 1), count), rangeOf(Math.min(to, count - 1), count)];
  return Array.from({ length: last - first + 1 }, (_, index) => first + index);
}

/**
 * The whole listing as of the block of its head. The tokens of a newer head replace those in view once they are loaded, so
 * that nothing flickers.
 */
export function useAllTokens({ chain, address }: CollectionAt, head: QueryState<CollectionHead>, view: PlacesInView) {
  const { client } = useSession();
  const known = head.kind === "ready" ? head.value : undefined;
  const ranges = rangesIn(view, known?.total ?? 0);
  const kept = useRef(new Map<string, readonly NftRecord[]>());
  const load = async ({ total, asOf, readAt }: CollectionHead, signal: AbortSignal): Promise<ShownTokens> => {
    const records = new Map<number, NftRecord>();
    const loadRange = async (range: number) => {
      const part = { totalRanges: totalRangesOf(total), range, limit: MOST_PER_PAGE, as_of_block: asOf?.block };
      const query = { chain, normalizeMetadata: true, media_items: true, ...part, signal };
      const key = `${readAt}/${range}`;
      const tokens = kept.current.get(key) ?? (await Array.fromAsync(client.nfts(address, query)));
      keep(kept.current, key, tokens);
      for (const [index, token] of tokens.entries()) records.set(beginOf(range, total) + index, token);
    };
    await Promise.all(ranges.map(loadRange));
    return { total, count: total, isAll: true, asOf, records };
  };
  const tokens = useQuery(
    ["tokens of", chain, address, known?.readAt, ranges[0], ranges.at(-1)],
    (signal) => load(known as CollectionHead, signal),
    { isOn: known !== undefined, keepsFormer: true },
  );
  if (head.kind !== "ready") return head;
  // The gallery says of which block its tokens are.
  return tokens.kind === "ready" ? { ...tokens, isFormer: false } : tokens;
}

function keep(kept: Map<string, readonly NftRecord[]>, key: string, tokens: readonly NftRecord[]): void {
  kept.delete(key);
  kept.set(key, tokens);
  for (const oldest of kept.keys()) {
    if (kept.size <= KEPT) break;
    kept.delete(oldest);
  }
}

export interface TokenFilter {
  readonly owner: string | undefined;
  /** Each `Type:Value`. */
  readonly traits: readonly string[];
}

/** The tokens of an owner, or with certain traits, as of one block. Reads on when its end comes into view. */
export function useFilteredTokens(at: CollectionAt, { owner, traits }: TokenFilter, view: PlacesInView) {
  const { client } = useSession();
  const pages = usePages([...keyAt(at), "filtered tokens", owner, ...traits], (cursor, signal) =>
    client.tokenPage(at, { limit: PAGE, trait: traits, owner, as_of_block: at.block, cursor, signal }),
  );
  useEffect(() => {
    // A page that failed is not asked for again by itself.
    const isDone = pages.kind !== "ready" || pages.value.isBusy || pages.error !== undefined;
    if (!isDone && view.to >= pages.value.rows.length) pages.value.more?.();
  });
  if (pages.kind !== "ready") return pages;
  const { rows, page } = pages.value;
  const isAll = page.cursor === null;
  const shown: ShownTokens = {
    ...{ total: rows.length + (isAll ? 0 : 1), count: rows.length, isAll },
    ...{ asOf: page.asOf, records: new Map(rows.entries()) },
  };
  return { ...pages, value: shown };
}
