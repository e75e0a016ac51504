/** The traits of a token. */
import type { NftRecord } from "../../client/index.ts";
import { plain } from "../parts/format.ts";

export function Attributes({ record }: { readonly record: NftRecord }) {
  const attributes = record.normalized_metadata === "" ? [] : record.normalized_metadata.attributes;
  if (attributes.length === 0) return null;
  return (
    <ul class="attributes" aria-label="Traits">
      {attributes.map(({ trait_type, value }, at) => (
        <li key={at}>
          <small>{plain(trait_type ?? "", 40)}</small>
          <strong>{plain(typeof value === "string" ? value : JSON.stringify(value), 80)}</strong>
        </li>
      ))}
    </ul>
  );
}
