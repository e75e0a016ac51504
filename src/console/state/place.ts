/** The place in the console, which stands behind `#` in the address, and the links to each screen. */
import { useEffect, useState } from "preact/hooks";
import type { Contract } from "../../client/index.ts";

/** An address on a chain. */
export type Where = Required<Contract>;

/** A collection at a block. */
export interface CollectionAt extends Where {
  /** The block that the screen shows; undefined for the newest. */
  readonly block: number | undefined;
}

/** A token at a block. */
export interface TokenAt extends CollectionAt {
  readonly id: string;
}

/**
 * The key of an answer about a collection at a block. Answers about the newest block are reloaded together when the collection
 * changes; those about a block of the past never are.
 */
export const keyAt = ({ chain, address, block }: CollectionAt): readonly unknown[] => [
  ...[block === undefined ? "newest" : "past", chain, address, block],
];

/** The segments of the path behind `#/`, decoded, and its query. The service never sees them. */
export interface Place {
  readonly path: readonly string[];
  readonly query: URLSearchParams;
}

export function usePlace(): Place {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => setHash(location.hash);
    addEventListener("hashchange", changed);
    // Effects run after the first drawing. The place may have changed before.
    changed();
    return () => removeEventListener("hashchange", changed);
  }, []);
  return parsePlace(hash);
}

function parsePlace(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(query) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Changes of the query. An undefined value or an empty list removes the parameter. */
type QueryChanges = Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * The query behind `#`, and a function that changes it: the chosen block, view and filter of a screen. So a link holds them,
 * and Back finds them. A change replaces the entry of the history, so that Back leads to the screen before.
 */
export function useParameters(): [query: URLSearchParams, change: (changes: QueryChanges) => void] {
  return [usePlace().query, changeQuery];
}

function changeQuery(changes: QueryChanges): void {
  const [path = "", text = ""] = location.hash.split("?");
  const query = new URLSearchParams(text);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const one of [value ?? []].flat()) query.append(name, one);
  }
  location.replace(`${path || "#/"}${query.size === 0 ? "" : `?${query}`}`);
}

/** The block of a query; undefined if it has none. */
export function blockIn(query: URLSearchParams): number | undefined {
  const text = query.get("block") ?? "";
  return /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

const at = (block: number | undefined): string => (block === undefined ? "" : `?block=${block}`);

/** Where the screens are, as links. */
export const linkTo = {
  /** @param block the block to show; undefined for the newest */
  collection: (chain: string, address: string, block?: number) =>
    `#/nft/${encodeURIComponent(chain)}/${address}${at(block)}`,
  /** @param block the block to show; undefined for the newest */
  token: (chain: string, address: string, id: string, block?: number) =>
    `#/nft/${encodeURIComponent(chain)}/${address}/${id}${at(block)}`,
  /** The tokens of an owner in a collection. @param block the block to show; undefined for the newest */
  owned: (chain: string, address: string, owner: string, block?: number) =>
    `#/nft/${encodeURIComponent(chain)}/${address}?owner=${owner}${block === undefined ? "" : `&block=${block}`}`,
  /** The tokens with a trait. @param trait `Type:Value` */
  withTrait: ({ chain, address, block }: CollectionAt, trait: string) =>
    `${linkTo.collection(chain, address)}?${new URLSearchParams({ trait, ...(block === undefined ? {} : { block: `${block}` }) })}`,
  /** @param block the block to price at; undefined for the newest */
  price: (chain: string, address: string, block?: number) =>
    `#/price/${encodeURIComponent(chain)}/${address}${at(block)}`,
  /** The files of a collection. */
  exported: (chain: string, address: string) => `#/nft/${encodeURIComponent(chain)}/${address}?view=export`,
  search: (text: string) => `#/search/${encodeURIComponent(text)}`,
};

/** Goes to a screen. Returns what a form says after it. */
export function goTo(link: string): string {
  location.hash = link;
  return "";
}
