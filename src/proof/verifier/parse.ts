/**
 * Parses the parts of a document. It takes nothing that it doesn't know: an unknown field, another spelling of a number or
 * a longer list is a refusal that names the place. Each value has one spelling, so a document that was changed anywhere is
 * another document. Pure.
 */
import type { Address, Hash } from "../../core/hex.ts";
import { demand } from "./refusal.ts";

/** Parses a value. @param at its place in the document, such as `subject.contract`. @throws ProofRefused */
export type Parse<T> = (value: unknown, at: string) => T;

export const matching =
  <T extends string>(pattern: RegExp, form: string): Parse<T> =>
  (value, at) => {
    demand(typeof value === "string" && pattern.test(value), `${at} is not ${form}`);
    return value as T;
  };

export const addressText = matching<Address>(/^0x[0-9a-f]{40}$/, "an address in lower case");
export const hashText = matching<Hash>(/^0x[0-9a-f]{64}$/, "32 bytes in lower-case hex");
/** A whole number below 2^256 in decimal. */
export const numberText: Parse<string> = (value, at) => {
  const text = matching(/^(?:0|[1-9]\d{0,77})$/, "a decimal number")(value, at);
  demand(BigInt(text) < 1n << 256n, `${at} is above 2^256`);
  return text;
};
/** Bytes in hex, at most so many. */
export const hexBytes =
  (most: number): Parse<string> =>
  (value, at) => {
    demand(typeof value === "string" && value.length <= 2 + 2 * most, `${at} is longer than ${most} bytes`);
    return matching(/^0x(?:[0-9a-f]{2})*$/, "bytes in lower-case hex")(value, at);
  };

export const plainText =
  (most: number): Parse<string> =>
  (value, at) => {
    demand(typeof value === "string" && value.length <= most, `${at} is not text of at most ${most} characters`);
    return value;
  };

export const wholeNumberUpTo =
  (most: number): Parse<number> =>
  (value, at) => {
    const isWhole = typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= most;
    demand(isWhole && !Object.is(value, -0), `${at} is not a whole number up to ${most}`);
    return value as number;
  };

export const amongst =
  <const T extends string | number>(...allowed: readonly T[]): Parse<T> =>
  (value, at) => {
    demand(allowed.includes(value as T), `${at} is not one of ${allowed.join(", ")}`);
    return value as T;
  };

export const trueOrFalse: Parse<boolean> = (value, at) => {
  demand(typeof value === "boolean", `${at} is neither true nor false`);
  return value;
};

export const nullOr =
  <T>(parse: Parse<T>): Parse<T | null> =>
  (value, at) =>
    value === null ? null : parse(value, at);

export const listOf =
  <T>(parse: Parse<T>, most: number): Parse<T[]> =>
  (value, at) => {
    demand(Array.isArray(value) && value.length <= most, `${at} is not a list of at most ${most} entries`);
    return value.map((one, index) => parse(one, `${at}[${index}]`));
  };

const entriesOf = (value: unknown, at: string): [string, unknown][] => {
  demand(typeof value === "object" && value !== null && !Array.isArray(value), `${at} is not an object`);
  return Object.entries(value);
};

/** An object whose keys are data. */
export const mapOf =
  <T>(key: Parse<string>, parse: Parse<T>, most: number): Parse<Record<string, T>> =>
  (value, at) => {
    const entries = entriesOf(value, at);
    demand(entries.length <= most, `${at} has more than ${most} entries`);
    return Object.fromEntries(entries.map(([name, one]) => [key(name, at), parse(one, `${at}.${name}`)]));
  };

type ParsersOf<T> = { readonly [Name in keyof T]-?: Parse<T[Name]> };

/** An object with exactly these fields. A parser that may return undefined makes its field optional. */
export const objectOf =
  <T extends object>(fields: ParsersOf<T>): Parse<T> =>
  (value, at) => {
    const place = at === "" ? "" : `${at}.`;
    const given = new Map(entriesOf(value, at === "" ? "the document" : at));
    const unknown = [...given.keys()].find((name) => !Object.hasOwn(fields, name));
    demand(unknown === undefined, `${place}${String(unknown).slice(0, 100)} is not known`);
    const parsed = Object.entries<Parse<unknown>>(fields as Record<string, Parse<unknown>>).flatMap(([name, parse]) => {
      const one = parse(given.get(name), `${place}${name}`);
      return one === undefined ? [] : [[name, one]];
    });
    return Object.fromEntries(parsed) as T;
  };

/** A field that may be missing. */
export const optional =
  <T>(parse: Parse<T>): Parse<T | undefined> =>
  (value, at) =>
    value === undefined ? undefined : parse(value, at);
