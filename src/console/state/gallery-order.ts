/** The order of the newest gallery, so that a token that was opened from it has the neighbours that it had there. */
import type { Where } from "./place.ts";

let gallery: Where & { readonly ids: ReadonlyMap<number, string> } = { chain: "", address: "", ids: new Map() };

/** @param ids the shown tokens by their places */
export function noteGallery({ chain, address }: Where, ids: ReadonlyMap<number, string>): void {
  gallery = { chain, address, ids };
}

/** The tokens beside one; undefined where the gallery had none, or was of another collection. */
export function neighboursInGallery({ chain, address }: Where, id: string) {
  if (gallery.chain !== chain || gallery.address !== address) return {};
  const place = [...gallery.ids].find(([, one]) => one === id)?.[0];
  if (place === undefined) return {};
  return { before: gallery.ids.get(place - 1), after: gallery.ids.get(place + 1) };
}
