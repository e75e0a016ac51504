/** The filters of a gallery: an owner, and traits. */
import { useEffect, useState } from "preact/hooks";
import { isAddress, plain, whole } from "./format.ts";
import { useAnswer, useSession } from "./hooks.ts";
import { Failure } from "./parts.tsx";
import type { TokenFilter } from "./tokens.ts";

export type FilterState = TokenFilter;

interface FilterOptions {
  readonly chain: string;
  readonly address: string;
  readonly filter: FilterState;
  readonly onFilter: (filter: FilterState) => void;
}

export function Filters({ chain, address, filter, onFilter }: FilterOptions) {
  const [isOpen, setOpen] = useState(false);
  const [owner, setOwner] = useState(filter.owner ?? "");
  const [fault, setFault] = useState("");
  useEffect(() => setOwner(filter.owner ?? ""), [filter.owner]);
  const byOwner = (event: Event) => {
    event.preventDefault();
    const text = owner.trim();
    if (text !== "" && !isAddress(text)) return setFault("An owner is an address: 0x and 40 hexadecimal digits.");
    setFault("");
    onFilter({ ...filter, owner: text === "" ? undefined : text.toLowerCase() });
  };
  return (
    <div class="filters">
      <form class="row" onSubmit={byOwner}>
        <label for="owner">Owner</label>
        <input
          id="owner"
          value={owner}
          placeholder="0x…"
          onInput={({ currentTarget }) => setOwner(currentTarget.value)}
        />
        <button type="submit">Filter</button>
        <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          Traits
        </button>
        <span class="failure" role="status">
          {fault}
        </span>
      </form>
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
      {isOpen ? <Traits {...{ chain, address, filter, onFilter }} /> : null}
    </div>
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
function Traits({ chain, address, filter, onFilter }: FilterOptions) {
  const { client } = useSession();
  const { value, error } = useAnswer((signal) => client.traits({ chain, address }, { signal }), [chain, address]);
  if (error !== undefined) return <Failure error={error} />;
  if (value === undefined) return <p>Counting…</p>;
  const { of, indexed, result } = value;
  const add = (trait: string) => {
    if (!filter.traits.includes(trait)) onFilter({ ...filter, traits: [...filter.traits, trait] });
  };
  return (
    <div class="traits">
      <p class="quiet">
        The metadata of {whole(indexed)} of {whole(of)} tokens is known.
      </p>
      {result.length === 0 ? <p>No token has traits.</p> : null}
      {result.map(({ type, values, distinct }) => (
        <details key={type}>
          <summary>
            {plain(type, 40)} <small>{whole(distinct)} values</small>
          </summary>
          <ul class="chips">
            {values.map(({ value: text, count }) => (
              <li key={text}>
                <button type="button" onClick={() => add(`${type}:${text}`)}>
                  {plain(text, 40)} <small>{whole(count)}</small>
                </button>
              </li>
            ))}
          </ul>
        </details>
      ))}
    </div>
  );
}
