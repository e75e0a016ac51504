/**
 * The requests and expected answers of each generated client. The test writes `wire.ts` with the wire types in force.
 */
import type { Count, Flag } from "./wire.ts";

export interface Asked {
  readonly base: string;
  readonly key: string;
  /** Addresses of a collection of several pages and of a token with a price. */
  readonly nft: string;
  readonly token: string;
}

export interface Seen {
  readonly ids: readonly string[];
  /** The total with `disable_total=false`, and without it. */
  readonly totals: readonly [Count | null, Count | null];
  readonly isSpam: Flag;
  /** The normalised name and the media status of the first record. */
  readonly rich: { readonly name: string | null; readonly media: string };
  /** The same two fields if they were not requested. */
  readonly plain: readonly ["", ""];
  readonly price: {
    readonly usd: number;
    readonly decimals: number | undefined;
    readonly pool: string;
    readonly block: number;
  };
  /** The refusal of a limit that is too large. */
  readonly refusal: { readonly status: number; readonly code: string; readonly parameter: string | undefined };
}

/** Returns a value that the answer must contain. */
export function had<T>(value: T | null | undefined): T {
  if (value === null || value === undefined) throw new Error("the answer lacks a required value");
  return value;
}

/** Returns the object of a field that is "" if it was not requested. */
export function object<T extends object>(value: T | ""): T {
  if (value === "") throw new Error("the field is empty");
  return value;
}

/** Returns "" for a field that was not requested. */
export function empty(value: object | ""): "" {
  if (value !== "") throw new Error("the field is not empty");
  return value;
}
