/**
 * Reads fields of metadata by name, in any spelling, and their values as text. Contracts write `Name`, `imageURL` and
 * `Trait Type`, wrap all fields in `data`, name a token in several languages, or write the value as the description in
 * ERC-721's JSON schema. Pure.
 */

// Bounds the nesting of metadata. `JSON.parse` accepts a hundred thousand levels, but recursive code that processes
// them overflows the stack. Real metadata has five.

const MAX_NESTING = 256;

/** True if the value has at most `levels` nested lists and objects. */
export function isNestedWithin(value: JsonValue, levels = MAX_NESTING): boolean {
  if (typeof value !== "object" || value === null) return true;
  if (levels === 0) return false;
  const inner: readonly JsonValue[] = Array.isArray(value) ? value : Object.values(value);
  return inner.every((one) => isNestedWithin(one, levels - 1));
}

export type JsonObject = { readonly [key: string]: JsonValue };

export const isObject = (value: JsonValue | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The name without case, spaces, `_` and `-`. */
const spelling = (name: string): string => name.toLowerCase().replace(/[_\s-]/g, "");

/** The fields of an object. An exact name takes precedence over other spellings. */
export class Fields {
  readonly object: JsonObject;
  #spelled: Map<string, string> | undefined;

  constructor(object: JsonObject) {
    this.object = object;
  }

  /** The object's own spelling of a field's name; undefined if it has no such field. */
  keyOf(name: string): string | undefined {
    if (Object.hasOwn(this.object, name)) return name;
    this.#spelled ??= spellings(this.object);
    return this.#spelled.get(spelling(name));
  }

  get(name: string): JsonValue | undefined {
    const key = this.keyOf(name);
    return key === undefined ? undefined : this.object[key];
  }

  has(...names: readonly string[]): boolean {
    return names.some((name) => this.keyOf(name) !== undefined);
  }

  /** The first of the fields with text. */
  text(...names: readonly string[]): string | null {
    for (const name of names) {
      const found = textOf(this.get(name));
      if (found !== null) return found;
    }
    return null;
  }

  /** The first of the fields that isn't null. */
  value(...names: readonly string[]): JsonValue {
    for (const name of names) {
      const found = this.get(name);
      if (found !== undefined && found !== null) return found;
    }
    return null;
  }
}

/** Keys by their spelling. The first key of a spelling counts. */
function spellings(object: JsonObject): Map<string, string> {
  const keys = new Map<string, string>();
  for (const key of Object.keys(object)) {
    const name = spelling(key);
    if (!keys.has(name)) keys.set(name, key);
  }
  return keys;
}

/** The field's value as text; null if it has none. */
export function textOf(value: JsonValue | undefined): string | null {
  if (typeof value === "string") return value.trim() === "" ? null : value;
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (!isObject(value)) return null;
  return plain(value["value"]) ?? localized(value) ?? described(value);
}

const plain = (value: JsonValue | undefined): string | null => (isObject(value) ? null : textOf(value));

const LOCALE = /^(?:[a-z]{2}(?:[-_][a-z]{2,4})?|default)$/i;

/** One of several languages: English, else the default, else the first. */
function localized(texts: JsonObject): string | null {
  const locales = Object.keys(texts);
  if (locales.length === 0 || !locales.every((locale) => LOCALE.test(locale))) return null;
  const english = locales.find((locale) => /^en\b/i.test(locale.replace("_", "-")));
  const best = [english, ...locales.filter((locale) => locale.toLowerCase() === "default"), ...locales];
  for (const locale of best) {
    const found = locale === undefined ? null : plain(texts[locale]);
    if (found !== null) return found;
  }
  return null;
}

/** The description of a JSON-schema property, if it stands in place of the value. */
export function described(value: JsonValue | undefined): string | null {
  const isProperty = isObject(value) && typeof value["type"] === "string" && !("value" in value);
  return isProperty ? plain(value["description"]) : null;
}

/** The value; if it is a string with a JSON list or object, as some contracts write it, the parsed one. */
export function structureOf(value: JsonValue | undefined): JsonValue | undefined {
  if (typeof value !== "string" || !/^\s*[[{]/.test(value)) return value;
  try {
    const parsed = JSON.parse(value) as JsonValue;
    return isNestedWithin(parsed) ? parsed : undefined;
  } catch {
    return value;
  }
}

/** Fields that make up the display of a token. */
const SHOWN = ["name", "title", "description", "image", "image_url", "image_data", "animation_url"] as const;
/** Fields that some servers wrap the metadata in. */
const WRAPPERS = ["data", "result", "metadata"] as const;

/** The fields of the metadata, or of the object that a server wrapped it in. */
export function unwrapped(metadata: JsonObject): Fields {
  const fields = new Fields(metadata);
  if (fields.has(...SHOWN, "attributes", "traits", "properties")) return fields;
  for (const name of WRAPPERS) {
    const inner = structureOf(fields.get(name));
    if (!isObject(inner)) continue;
    const found = new Fields(inner);
    if (found.has(...SHOWN)) return found;
  }
  return fields;
}

// Converts traits to the one shape of API.md. Contracts write them as a list of traits, a list of pairs, an object,
// JSON in a string, or the properties of ERC-1155. Pure.

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

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };

export interface NormalizedAttribute {
  readonly trait_type: string | null;
  readonly value: JsonValue;
  readonly display_type: string | null;
  readonly max_value: JsonValue;
  readonly trait_count: number;
  readonly order: JsonValue;
}
