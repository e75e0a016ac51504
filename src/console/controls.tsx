/** What narrows a gallery: filters by owner and traits, and the slider over blocks. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { AsOf } from "../client/index.ts";
import type { TokenFilter } from "./gallery.tsx";
import { useAnswer } from "./hooks.ts";
import { clock, Failure, Field, isAddress, plain, type Where, whole } from "./parts.tsx";
import { useSession } from "./session.ts";

interface FilterOptions extends Where {
  readonly filter: TokenFilter;
  readonly onFilter: (filter: TokenFilter) => void;
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
        <Field id="owner" label="Owner" value={owner} placeholder="0x…" onInput={setOwner} />
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
      {result.length === 0 ? (
        <p>No token has traits{indexed < of ? " so far. They appear as the metadata is fetched" : ""}.</p>
      ) : null}
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

// The slider over a collection's blocks. Moving it shows the whole collection as it was after that block.

/** How long the slider must rest before the service is asked. */
const REST_MS = 150;

interface SliderOptions {
  readonly first: number;
  readonly newest: AsOf;
  /** The block that the page shows now. */
  readonly shownAt: AsOf;
  /** The chosen block; undefined for the newest. */
  readonly block: number | undefined;
  readonly onBlock: (block: number | undefined) => void;
}

export function BlockSlider({ first, newest, shownAt, block, onBlock }: SliderOptions) {
  const [value, setValue] = useState(block ?? newest.block);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  useEffect(() => {
    if (timer.current === undefined) setValue(block ?? newest.block);
  }, [block, newest.block]);
  const choose = (chosen: number) => {
    const next = Math.min(newest.block, Math.max(first, chosen));
    setValue(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      timer.current = undefined;
      onBlock(next === newest.block ? undefined : next);
    }, REST_MS);
  };
  const isShown = shownAt.block === value && shownAt.time !== null;
  const time = isShown ? `, ${clock(shownAt.time as string)}` : "";
  return (
    <div class="slider">
      <label for="block">
        Block <output>{whole(value)}</output>
        <span>{time}</span>
      </label>
      <input
        id="block"
        type="range"
        min={first}
        max={newest.block}
        step={1}
        value={value}
        aria-valuetext={`block ${value}${time}`}
        onInput={({ currentTarget }) => choose(Number(currentTarget.value))}
      />
      <input
        type="number"
        aria-label="Block number"
        min={first}
        max={newest.block}
        value={value}
        onChange={({ currentTarget }) => choose(Number(currentTarget.value))}
      />
      <button type="button" disabled={block === undefined} onClick={() => choose(newest.block)}>
        Newest
      </button>
    </div>
  );
}
