/** Query parameters that an operation doesn't know: they change nothing, and the answer names the first of them. */

export const UNKNOWN_PARAMETERS = "x-unknown-parameters";
/** Five names of 64 characters with separators: at most 328 bytes of header. */
const MAX_NAMED = 5;
const MAX_NAME_LENGTH = 64;

export const NFT_PARAMETERS: ReadonlySet<string> = new Set([
  ...["chain", "format", "limit", "totalRanges", "range", "disable_total", "cursor", "normalizeMetadata"],
  ...["media_items", "as_of_block", "metadata_as_of", "holders"],
]);
export const PRICE_PARAMETERS: ReadonlySet<string> = new Set([
  ...["chain", "include", "exchange", "to_block", "min_liquidity_usd"],
]);

/** The header's value for a query string; undefined where all parameters are known. */
export function unknownParameters(search: string, known: ReadonlySet<string>): string | undefined {
  if (search === "") return undefined;
  const unknown = new Set<string>();
  for (const name of new URLSearchParams(search).keys()) {
    if (name === "" || known.has(name)) continue;
    unknown.add(name);
    if (unknown.size === MAX_NAMED) break;
  }
  return unknown.size === 0 ? undefined : Array.from(unknown, shown).join(", ");
}

/** The name percent-encoded, cut before a character that would pass the bound, so that it can be decoded. */
function shown(name: string): string {
  let text = "";
  for (const character of name) {
    const encoded = encodeURIComponent(character);
    if (text.length + encoded.length > MAX_NAME_LENGTH) break;
    text += encoded;
  }
  return text;
}
