/** The slider over a collection's blocks. Moving it shows the whole collection as it was after that block. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { AsOf } from "../../client/index.ts";
import { clock, whole } from "../parts/format.ts";

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
