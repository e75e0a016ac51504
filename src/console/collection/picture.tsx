/** The name and the picture of a token. */
import type { NftRecord } from "../../client/index.ts";
import { MEDIA_WORDS } from "../../status-words.ts";
import { cutInside } from "../parts/format.ts";
import { BASE } from "../state/base.ts";

/** True for a token that several owners can hold. */
export const isMulti = ({ contract_type: type }: NftRecord): boolean => type === "ERC1155" || type === "ERC6909";

/** The token's name from its metadata; undefined if that has none. */
export function givenName({ normalized_metadata: metadata }: NftRecord): string | undefined {
  const name = metadata === "" ? null : metadata.name;
  return name === null || name.trim() === "" ? undefined : name;
}

/** The token's whole name from its metadata, else its id. Ids with a common beginning differ at their ends. */
export function tokenName(record: NftRecord): string {
  const name = givenName(record);
  return name === undefined ? `#${cutInside(record.token_id, 21)}` : name;
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
