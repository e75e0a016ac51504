/** The traits of a token, each with its share of the collection and a link to the tokens that share it. */
import type { NftRecord, TraitList } from "../../client/index.ts";
import { percent, plain } from "../parts/format.ts";
import { type CollectionAt, linkTo } from "../state/place.ts";
import { readyValue, useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";

type Attribute = Exclude<NftRecord["normalized_metadata"], "">["attributes"][number];

const valueText = ({ value }: Attribute): string => (typeof value === "string" ? value : JSON.stringify(value));

interface TraitsOptions {
  readonly record: NftRecord;
  /** Undefined for a document of the past, whose traits no filter finds. */
  readonly at?: CollectionAt;
}

export function Traits({ record: { normalized_metadata: metadata }, at }: TraitsOptions) {
  const { client } = useSession();
  const attributes = metadata === "" ? [] : metadata.attributes;
  // The service refuses to count the traits of very large collections. Then a trait has no share.
  const counts = useQuery(
    ["traits", at?.chain, at?.address],
    (signal) => client.traits(at as CollectionAt, { signal }),
    {
      isOn: at !== undefined && attributes.length > 0,
    },
  );
  if (attributes.length === 0) return null;
  return (
    <ul class="attributes" aria-label="Traits">
      {attributes.map((one, place) => {
        const [type, value] = [one.trait_type ?? "", valueText(one)];
        const text = plain(value, 80);
        return (
          <li key={place}>
            <small>{plain(type, 40)}</small>
            <strong>{at === undefined ? text : <a href={linkTo.withTrait(at, `${type}:${value}`)}>{text}</a>}</strong>
            <small>{shareText(readyValue(counts), type, value)}</small>
          </li>
        );
      })}
    </ul>
  );
}

/** The share of the tokens that have a trait; "" if it is not known. */
function shareText(counts: TraitList | undefined, type: string, value: string): string {
  const trait = counts?.result.find((one) => one.type === type);
  const known = trait?.values.find((one) => one.value === value);
  return counts === undefined || known === undefined ? "" : `${percent(known.count / counts.of)} of the collection`;
}
