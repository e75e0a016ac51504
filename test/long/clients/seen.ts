/** What each generated client is asked, and what it must bring back. `wire.ts` is written by the test: the types in force. */
import type { Count, Flag } from "./wire.ts";

export interface Asked {
  readonly base: string;
  readonly key: string;
  /** A collection of several pages, and a token with a price. */
  readonly nft: string;
  readonly token: string;
}

export interface Seen {
  readonly ids: readonly string[];
  /** With `disable_total=false`, and without it. */
  readonly totals: readonly [Count | null, Count | null];
  readonly isSpam: Flag;
  /** Of the first record: the normalised name and the status of its picture. */
  readonly rich: { readonly name: string | null; readonly media: string };
  /** The two fields where they were not asked for. */
  readonly plain: readonly ["", ""];
  readonly price: {
    readonly usd: number;
    readonly decimals: number | undefined;
    readonly pool: string;
    readonly block: number;
  };
  /** Of a limit that is too large. */
  readonly refusal: { readonly status: number; readonly code: string; readonly parameter: string | undefined };
}

/** The value, which the answer must have. */
export function had<T>(value: T | null | undefined): T {
  if (value === null || value === undefined) throw new Error("the answer lacks what was asked for");
  return value;
}

/** The object of a field that is "" where it was not asked for. */
export function object<T extends object>(value: T | ""): T {
  if (value === "") throw new Error("the field is empty");
  return value;
}

/** A field that was not asked for. */
export function empty(value: object | ""): "" {
  if (value !== "") throw new Error("the field is not empty");
  return value;
}
