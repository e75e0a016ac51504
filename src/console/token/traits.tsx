/** The traits of a token, each with its share of the collection and a link to the tokens that share it. */
import type { NftRecord, TraitList } from "../../client/index.ts";
import { percent, plain, whole } from "../parts/format.ts";
import { type CollectionAt, linkTo } from "../state/place.ts";
import { readyValue, useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";

type Attribute = Exclude<NftRecord["normalized_metadata"], "">["attributes"][number];

const attributesOf = ({ normalized_metadata: metadata }: NftRecord): readonly Attribute[] =>
  metadata === "" ? [] : metadata.attributes;
const valueText = ({ value }: Attribute): string => (typeof value === "string" ? value : JSON.stringify(value));

interface TraitsOptions {
  readonly record: NftRecord;
  readonly at: CollectionAt;
}

export function Traits({ record, at }: TraitsOptions) {
  const { client } = useSession();
  const attributes = attributesOf(record);
  // The service refuses to count the traits of very large collections. Then a trait has no share.
  const counts = useQuery(["traits", at.chain, at.address], (signal) => client.traits(at, { signal }), {
    isOn: attributes.length > 0,
  });
  return <TraitItems attributes={attributes} at={at} counts={readyValue(counts)} />;
}

/** The traits of a document of the past, which no filter finds. */
export const PastTraits = ({ record }: Pick<TraitsOptions, "record">) => (
  <TraitItems attributes={attributesOf(record)} at={undefined} counts={undefined} />
);

interface ItemsOptions {
  readonly attributes: readonly Attribute[];
  readonly at: CollectionAt | undefined;
  readonly counts: TraitList | undefined;
}

function TraitItems({ attributes, at, counts }: ItemsOptions) {
  if (attributes.length === 0) return null;
  return (
    <ul class="attributes" aria-label="Traits">
      {attributes.map((one, place) => {
        const [type, value] = [one.trait_type ?? "", valueText(one)];
        const text = plain(value, 80);
        const count = counts?.result
          .find((trait) => trait.type === type)
          ?.values.find((known) => known.value === value);
        return (
          <li key={place}>
            <small>{plain(type, 40)}</small>
            <strong>{at === undefined ? text : <a href={linkTo.withTrait(at, `${type}:${value}`)}>{text}</a>}</strong>
            {count === undefined || counts === undefined ? null : (
              <small title={`${whole(count.count)} of ${whole(counts.of)} tokens`}>
                {percent(count.count / counts.of)} of the collection
              </small>
            )}
          </li>
        );
      })}
    </ul>
  );
}
