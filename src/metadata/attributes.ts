/**
 * Converts traits to the one shape of API.md. Contracts write them as a list of traits, a list of pairs, an object,
 * JSON in a string, or the properties of ERC-1155. Pure.
 */
import { described, Fields, isObject, type JsonObject, structureOf } from "./fields.ts";
import type { JsonValue, NormalizedAttribute } from "./normalize.ts";

/** Most traits per token, more than any collection has. A body of a megabyte could hold fifty thousand. */
const MAX_ATTRIBUTES = 1_000;

/** Field names of a trait. An object with none of them is a table of traits. */
const TRAIT_WORDS = ["trait_type", "trait", "value", "trait_value"] as const;

function attribute(fields: Fields, name: string | null): NormalizedAttribute {
  const count = fields.value("trait_count");
  return {
    trait_type: name ?? fields.text("trait_type", "trait", "name", "key", "type"),
    value: fields.value("value", "trait_value"),
    display_type: fields.text("display_type"),
    max_value: fields.value("max_value"),
    trait_count: typeof count === "number" ? count : 0,
    order: fields.value("order"),
  };
}

const loose = (value: JsonValue, name: string | null): NormalizedAttribute => attribute(new Fields({ value }), name);

/** The traits of one item of a list. */
function itemsOf(item: JsonValue): NormalizedAttribute[] {
  if (item === null || Array.isArray(item)) return [];
  if (!isObject(item)) return [loose(item, null)];
  const fields = new Fields(item);
  return fields.has(...TRAIT_WORDS) ? [attribute(fields, null)] : tableOf(item);
}

/** The traits of an object that has them by name. */
const tableOf = (table: JsonObject): NormalizedAttribute[] =>
  Object.entries(table)
    .slice(0, MAX_ATTRIBUTES)
    .map(([name, value]) =>
      isObject(value) && Object.hasOwn(value, "value") ? attribute(new Fields(value), name) : loose(value, name),
    );

/** The traits in a field of any shape. */
export function attributesOf(source: JsonValue): NormalizedAttribute[] {
  if (isObject(source)) return tableOf(source);
  if (!Array.isArray(source)) return [];
  const list: readonly JsonValue[] = source;
  return list.slice(0, MAX_ATTRIBUTES).flatMap(itemsOf).slice(0, MAX_ATTRIBUTES);
}

/** The field's list or object; undefined if it is empty or of another type. */
export function traitsIn(value: JsonValue | undefined): JsonValue | undefined {
  const structure = structureOf(value);
  if (Array.isArray(structure)) return structure.length > 0 ? structure : undefined;
  return isObject(structure) && Object.keys(structure).length > 0 ? structure : undefined;
}

/**
 * The traits among a token's properties: plain values, and ERC-1155's rich properties, which have a name of their own.
 * Skips lists of objects, such as files and creators.
 * @param used properties that were read as the token's own fields
 */
export function traitsOfProperties(properties: JsonValue, used: ReadonlySet<string>): NormalizedAttribute[] {
  if (!isObject(properties)) return attributesOf(properties);
  const hasFiles = Array.isArray(properties["files"]);
  const traits: NormalizedAttribute[] = [];
  for (const [key, value] of Object.entries(properties)) {
    if (used.has(key) || (hasFiles && key === "category")) continue;
    if (traits.length === MAX_ATTRIBUTES) break;
    if (!isObject(value)) {
      if (value !== null && !holdsObjects(value)) traits.push(loose(value, key));
      continue;
    }
    const text = described(value);
    if (text !== null) traits.push(loose(text, key));
    else if (Object.hasOwn(value, "value")) {
      const fields = new Fields(value);
      traits.push(attribute(fields, fields.text("trait_type", "name") ?? key));
    }
  }
  return traits;
}

const holdsObjects = (value: JsonValue): boolean =>
  Array.isArray(value) && value.some((one: JsonValue) => typeof one === "object");
