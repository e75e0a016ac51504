/** What narrows a gallery: filters by owner and traits. */
import { useEffect, useState } from "preact/hooks";
import type { Trait } from "../../client/index.ts";
import { Form } from "../parts/action.tsx";
import { Field } from "../parts/fields.tsx";
import { isAddress, plain, whole } from "../parts/format.ts";
import { QueryView } from "../parts/query-view.tsx";
import { type CollectionAt, goTo, linkTo } from "../state/place.ts";
import { useQuery } from "../state/query.ts";
import { useSession } from "../state/session.ts";
import type { TokenFilter } from "./shown-tokens.ts";

interface FilterOptions {
  readonly at: CollectionAt;
  readonly filter: TokenFilter;
  readonly onFilter: (filter: TokenFilter) => void;
}

export function Filters({ at, filter, onFilter }: FilterOptions) {
  const [isOpen, setOpen] = useState(false);
  const [owner, setOwner] = useState(filter.owner ?? "");
  useEffect(() => setOwner(filter.owner ?? ""), [filter.owner]);
  const byOwner = () => {
    const text = owner.trim();
    if (text !== "" && !isAddress(text)) return "An owner is an address: 0x and 40 hexadecimal digits.";
    onFilter({ ...filter, owner: text === "" ? undefined : text.toLowerCase() });
    return "";
  };
  const opener = (
    <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
      Traits
    </button>
  );
  return (
    <>
      <div class="row">
        <TokenForm at={at} />
        <Form action="Filter" work={byOwner} more={opener}>
          <Field id="owner" label="Owner" value={owner} placeholder="0x…" onInput={setOwner} />
        </Form>
      </div>
      {filter.owner === undefined && filter.traits.length === 0 ? null : (
        <ul class="chips" aria-label="Filters in force">
          {filter.owner === undefined ? null : (
            <Chip text={filter.owner} onRemove={() => onFilter({ ...filter, owner: undefined })} />
          )}
          {filter.traits.map((trait) => (
            <Chip
              key={trait}
              text={trait}
              onRemove={() => onFilter({ ...filter, traits: filter.traits.filter((one) => one !== trait) })}
            />
          ))}
        </ul>
      )}
      {isOpen ? <Traits {...{ at, filter, onFilter }} /> : null}
    </>
  );
}

const LARGEST_ID = 2n ** 256n - 1n;

/** Goes to a token by its id, decimal or hexadecimal. */
function TokenForm({ at: { chain, address, block } }: Pick<FilterOptions, "at">) {
  const [text, setText] = useState("");
  const open = () => {
    const id = text.trim().replace(/^#/, "");
    const isId = /^(?:\d{1,78}|0x[0-9a-f]{1,64})$/i.test(id) && BigInt(id) <= LARGEST_ID;
    return isId ? goTo(linkTo.token(chain, address, `${BigInt(id)}`, block)) : "A token id is a whole number.";
  };
  return (
    <Form action="Go" work={open}>
      <Field id="token-id" label="Token id" value={text} placeholder="2731" class="narrow" onInput={setText} />
    </Form>
  );
}

function Chip({ text, onRemove }: { readonly text: string; readonly onRemove: () => void }) {
  return (
    <li>
      <button type="button" onClick={onRemove} aria-label={`Remove the filter ${plain(text)}`}>
        {plain(text, 42)} ×
      </button>
    </li>
  );
}

/** Traits with their counts. The service refuses to count those of very large collections, and says so. */
function Traits({ at, filter, onFilter }: FilterOptions) {
  const { client } = useSession();
  const counts = useQuery(["traits", at.chain, at.address], (signal) => client.traits(at, { signal }));
  const add = (trait: string) => {
    if (!filter.traits.includes(trait)) onFilter({ ...filter, traits: [...filter.traits, trait] });
  };
  return (
    <QueryView of={counts} loading="Counting the traits…">
      {({ of, indexed, result }) => (
        <div class="traits">
          <p class="quiet">
            The metadata of {whole(indexed)} of {whole(of)} tokens is known.
          </p>
          {result.length === 0 ? (
            <p>No token has traits{indexed < of ? " so far. They appear as the metadata is fetched" : ""}.</p>
          ) : null}
          {result.map((trait) => (
            <TraitValues key={trait.type} {...trait} onChoose={(value) => add(`${trait.type}:${value}`)} />
          ))}
        </div>
      )}
    </QueryView>
  );
}

const TraitValues = ({ type, values, distinct, onChoose }: Trait & { readonly onChoose: (value: string) => void }) => (
  <details>
    <summary>
      {plain(type, 40)} <small>{whole(distinct)} values</small>
    </summary>
    <ul class="chips">
      {values.map(({ value, count }) => (
        <li key={value}>
          <button type="button" onClick={() => onChoose(value)}>
            {plain(value, 40)} <small>{whole(count)}</small>
          </button>
        </li>
      ))}
    </ul>
  </details>
);
