/** The heading of a screen: a name of any length on two lines, and the whole of it on demand. */
import { useState } from "preact/hooks";
import { plain } from "./format.ts";

/** Letters that fit on two lines of a phone, and the most that are shown. */
const [FITTING, MOST] = [48, 2_000];

interface LongHeadingOptions {
  /** As its contract or its metadata tells it. */
  readonly name: string;
  /** What stands in its place while there is none. */
  readonly none: string;
  readonly symbol?: string | undefined;
}

export function LongHeading({ name, none, symbol = "" }: LongHeadingOptions) {
  const [isWhole, setWhole] = useState(false);
  const isLong = name.length > FITTING;
  return (
    <>
      <h1 class={isLong && !isWhole ? "clamped" : undefined}>
        {plain(name, MOST) || none} <small>{plain(symbol, 20)}</small>
      </h1>
      {isLong ? (
        <button type="button" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>
          Whole name
        </button>
      ) : null}
    </>
  );
}
