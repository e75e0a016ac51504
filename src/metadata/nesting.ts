/**
 * How deep metadata may be nested. A parser takes a hundred thousand levels, which whoever writes them anew has no stack
 * for; real metadata has five.
 */
import type { JsonValue } from "./normalize.ts";

export const MAX_NESTING = 256;

/** Whether the value holds lists and objects in one another for at most so many levels. */
export function isNestedWithin(value: JsonValue, levels = MAX_NESTING): boolean {
  if (typeof value !== "object" || value === null) return true;
  if (levels === 0) return false;
  const inner: readonly JsonValue[] = Array.isArray(value) ? value : Object.values(value);
  return inner.every((one) => isNestedWithin(one, levels - 1));
}
