/**
 * The many shapes of metadata as one. In: the text of a JSON object. Out: the fields of API.md, values kept in the type
 * they came in, nulls and an empty list where nothing is known. Pure.
 */

export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };

export interface NormalizedAttribute {
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

/** More than any collection has; a body of a megabyte could hold fifty thousand. */
const MAX_ATTRIBUTES = 1_000;

type Fields = { readonly [key: string]: JsonValue };

const isFields = (value: JsonValue | undefined): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The first of the fields that says something, as text. */
function text(fields: Fields, ...names: readonly string[]): string | null {
  for (const name of names) {
    const value = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (typeof value === "string" && value.trim() !== "") return value;
    if (typeof value === "number" || typeof value === "boolean") return String(value);
  }
  return null;
}

function pick(fields: Fields, ...names: readonly string[]): JsonValue {
  for (const name of names) {
    const value = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (value !== undefined && value !== null) return value;
  }
  return null;
}

/** A picture written out in the metadata becomes a URI like any other. */
export function svgAsUri(svg: string): string {
  return `data:image/svg+xml;base64,${Buffer.from(svg, "utf8").toString("base64")}`;
}

const IMAGE_FIELDS = ["image", "image_url", "imageUrl", "image_uri", "imageURI", "imageUri", "image_data"] as const;

function imageOf(fields: Fields): string | null {
  for (const name of IMAGE_FIELDS) {
    const value = Object.hasOwn(fields, name) ? fields[name] : undefined;
    // ERC-1155's schema and some others wrap the address once more.
    const image = isFields(value) ? text(value, "url", "uri", "src") : typeof value === "string" ? value.trim() : null;
    if (image === null || image === "") continue;
    return /^<(?:svg|\?xml)/i.test(image) ? svgAsUri(image) : image;
  }
  return null;
}

function attribute(fields: Fields, name: string | null): NormalizedAttribute {
  const count = pick(fields, "trait_count");
  return {
    trait_type: name ?? text(fields, "trait_type", "traitType", "trait", "name", "key", "type"),
    value: pick(fields, "value", "trait_value"),
    display_type: text(fields, "display_type", "displayType"),
    max_value: pick(fields, "max_value", "maxValue"),
    trait_count: typeof count === "number" ? count : 0,
    order: pick(fields, "order"),
  };
}

function attributesOf(source: JsonValue): NormalizedAttribute[] {
  if (Array.isArray(source)) {
    const list: readonly JsonValue[] = source;
    return list
      .slice(0, MAX_ATTRIBUTES)
      .flatMap((item) =>
        isFields(item)
          ? [attribute(item, null)]
          : item === null || Array.isArray(item)
            ? []
            : [attribute({ value: item }, null)],
      );
  }
  if (!isFields(source)) return [];
  return Object.entries(source)
    .slice(0, MAX_ATTRIBUTES)
    .map(([name, value]) => attribute(isFields(value) && Object.hasOwn(value, "value") ? value : { value }, name));
}

/** Whether a field holds attributes of some shape. */
const holdsAttributes = (value: JsonValue | undefined): value is JsonValue =>
  (Array.isArray(value) && value.length > 0) || (isFields(value) && Object.keys(value).length > 0);

/** The metadata's fields as API.md has them. */
export function normalize(metadata: { readonly [key: string]: JsonValue }): NormalizedMetadata {
  const source = ["attributes", "traits", "Attributes"].map((name) => metadata[name]).find(holdsAttributes);
  return {
    name: text(metadata, "name", "title"),
    description: text(metadata, "description"),
    image: imageOf(metadata),
    external_link: text(metadata, "external_link"),
    external_url: text(metadata, "external_url"),
    animation_url: text(metadata, "animation_url", "animation", "animationUrl"),
    attributes: attributesOf(source ?? null),
  };
}

/** The shape with nothing in it but, perhaps, a picture. */
export const bareMetadata = (image: string | null): NormalizedMetadata => normalize(image === null ? {} : { image });
