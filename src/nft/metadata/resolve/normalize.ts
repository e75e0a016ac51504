/**
 * Normalises the many shapes of metadata to the fields of API.md. In: a JSON object. Out: values in their original
 * type, null or an empty list for missing ones. Like a marketplace, it takes a field only from places that clearly mean
 * it, and the first such place counts. Traits come as a list of traits, a list of pairs, an object, JSON in a string,
 * or the properties of ERC-1155. Pure.
 */
import {
  described,
  Fields,
  isNestedWithin,
  isObject,
  type JsonObject,
  type JsonValue,
  structureOf,
  textOf,
  unwrapped,
} from "./json.ts";

interface NormalizedAttribute {
  readonly trait_type: string | null;
  readonly value: JsonValue;
  readonly display_type: string | null;
  readonly max_value: JsonValue;
  readonly trait_count: number;
  readonly order: JsonValue;
}

export interface NormalizedMetadata {
  readonly name: string | null;
  readonly description: string | null;
  readonly image: string | null;
  readonly external_link: string | null;
  readonly external_url: string | null;
  readonly animation_url: string | null;
  readonly attributes: readonly NormalizedAttribute[];
}

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
function attributesOf(source: JsonValue): NormalizedAttribute[] {
  if (isObject(source)) return tableOf(source);
  if (!Array.isArray(source)) return [];
  const list: readonly JsonValue[] = source;
  return list.slice(0, MAX_ATTRIBUTES).flatMap(itemsOf).slice(0, MAX_ATTRIBUTES);
}

/** The field's list or object; undefined if it is empty or of another type. */
function traitsIn(value: JsonValue | undefined): JsonValue | undefined {
  const structure = structureOf(value);
  if (Array.isArray(structure)) return structure.length > 0 ? structure : undefined;
  return isObject(structure) && Object.keys(structure).length > 0 ? structure : undefined;
}

/**
 * The traits among a token's properties: plain values, and ERC-1155's rich properties, which have a name of their own.
 * Skips lists of objects, such as files and creators.
 * @param used properties that were read as the token's own fields
 */
function traitsOfProperties(properties: JsonValue, used: ReadonlySet<string>): NormalizedAttribute[] {
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
  Array.isArray(value) && value.some((item: JsonValue) => typeof item === "object");

/** Converts SVG text in the metadata to a data URI. */
export function svgAsUri(svg: string): string {
  return `data:image/svg+xml;base64,${Buffer.from(svg, "utf8").toString("base64")}`;
}

const IMAGE_NAMES = ["image", "image_url", "image_uri", "image_data"] as const;
const ANIMATION_NAMES = ["animation_url", "animation"] as const;

/** The address of a picture: a string, an object with one, or the first in a list. */
function placeOf(value: JsonValue): string | null {
  if (Array.isArray(value)) {
    for (const item of value as readonly JsonValue[]) {
      const found = Array.isArray(item) ? null : placeOf(item);
      if (found !== null) return found;
    }
    return null;
  }
  const text = isObject(value) ? addressIn(new Fields(value)) : typeof value === "string" ? value.trim() : null;
  if (text === null || text === "") return null;
  return /^<(?:svg|\?xml|!--|!doctype\s+svg)/i.test(text) ? svgAsUri(text) : text;
}

/** The address in an object. */
function addressIn(fields: Fields): string | null {
  return fields.text("url", "uri", "src", "value")?.trim() ?? described(fields.object)?.trim() ?? null;
}

/** Start of a picture's address. */
const ADDRESS = /^(?:[a-z][a-z0-9+.-]+:\S|\/\/|\/?ipfs\/|Qm[1-9A-Za-z]{44}|baf[a-z2-7]{50}|<(?:svg|\?xml))/i;

/** Like `placeOf`, for properties: there a trait may be named image, and a schema describes it in a sentence. */
function propertyPlace(value: JsonValue): string | null {
  const place = placeOf(value);
  return place !== null && ADDRESS.test(place) ? place : null;
}

type ReadText = (value: JsonValue) => string | null;

/** The fields of a token, and its properties as a fallback. */
class FieldPlaces {
  readonly #own: Fields;
  readonly #inner: Fields;
  /** Properties that were read as fields, so they are not traits. */
  readonly used = new Set<string>();

  constructor(own: Fields, inner: Fields) {
    this.#own = own;
    this.#inner = inner;
  }

  read(names: readonly string[], read: ReadText, readProperty: ReadText = read): string | null {
    const own = this.#own.first(names, read);
    if (own !== undefined) return own.found;
    const inner = this.#inner.first(names, readProperty);
    if (inner === undefined) return null;
    this.used.add(inner.key);
    return inner.found;
  }
}

/** True if the metadata is a JSON schema. Its title is the schema's, not the token's. */
const isSchema = (own: Fields, properties: JsonObject): boolean =>
  own.get("type") === "object" && Object.values(properties).some((value) => described(value) !== null);

/** Returns the metadata's fields in the shape of API.md. */
export function normalize(metadata: JsonObject): NormalizedMetadata {
  const own = unwrapped(metadata);
  const properties = structureOf(own.get("properties"));
  const inner = isObject(properties) ? properties : {};
  const places = new FieldPlaces(own, new Fields(inner));
  const name = isSchema(own, inner) ? places.read(["name"], textOf) : own.text("name", "title");
  const fields = {
    name: name ?? places.read(["name"], textOf) ?? own.text("title"),
    description: places.read(["description"], textOf),
    image: places.read(IMAGE_NAMES, placeOf, propertyPlace),
    external_link: own.text("external_link"),
    external_url: own.text("external_url"),
    animation_url: places.read(ANIMATION_NAMES, textOf, propertyPlace),
  };
  const source = traitsIn(own.get("attributes")) ?? traitsIn(own.get("traits"));
  const attributes =
    source === undefined ? traitsOfProperties(traitsIn(properties) ?? null, places.used) : attributesOf(source);
  return { ...fields, attributes };
}

/** The parts of a token's text that come from its body. */
export interface BodyText {
  /** JSON string of the body's text, or `null`. */
  readonly metadata: string;
  /** JSON of the normalised fields. */
  readonly normalized: string;
  /** URI of the picture, or of the animation if there is none. */
  readonly image: string | null;
}

const decoder = new TextDecoder();

/** The text of a token without a body, with at most a picture. */
export const textOfImage = (image: string | null): BodyText =>
  wordsOf(normalize(image === null ? {} : { image }), "null");

/** The text of a body that can't be normalised. */
export const NO_TEXT: BodyText = textOfImage(null);

/** The text of a stored body. Runs here or in the parse worker: a megabyte of many small values takes 0.1 s. */
export function textOfBody(bytes: Uint8Array): BodyText {
  const body = decoder.decode(bytes);
  const fields = fieldsOf(body);
  return fields === undefined ? NO_TEXT : wordsOf(fields, JSON.stringify(body));
}

/** The traits in a stored body; undefined if it is invalid. */
export const attributesOfBody = (bytes: Uint8Array): NormalizedMetadata["attributes"] | undefined =>
  fieldsOf(decoder.decode(bytes))?.attributes;

function wordsOf(fields: NormalizedMetadata, metadata: string): BodyText {
  return { metadata, normalized: JSON.stringify(fields), image: fields.image ?? fields.animation_url };
}

/** Undefined for an invalid body. The log should have none, but one must not make its whole page fail. */
function fieldsOf(body: string): NormalizedMetadata | undefined {
  try {
    const value = JSON.parse(body) as JsonObject;
    return isNestedWithin(value) ? normalize(value) : undefined;
  } catch {
    return undefined;
  }
}
