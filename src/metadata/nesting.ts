/**
 * Bounds the nesting of metadata. `JSON.parse` accepts a hundred thousand levels, but recursive code that processes
 * them overflows the stack. Real metadata has five.
 */
import type { JsonValue } from "./normalize.ts";

export const MAX_NESTING = 256;

/** True if the value has at most `levels` nested lists and objects. */
export function isNestedWithin(value: JsonValue, levels = MAX_NESTING): boolean {
  if (typeof value !== "object" || value === null) return true;
  if (levels === 0) return false;
  const inner: readonly JsonValue[] = Array.isArray(value) ? value : Object.values(value);
  return inner.every((one) => isNestedWithin(one, levels - 1));
}
