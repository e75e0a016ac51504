/**
 * Metadata as marketplaces show it: shapes that real contracts use beside the standards', and text that is not quite
 * JSON. The shown fields follow the text. The text itself is kept unchanged if it is JSON.
 */
import { describe, expect, test } from "bun:test";
import type { JsonValue } from "../../../src/nft/metadata/resolve/json.ts";
import { type NormalizedMetadata, textOfBody } from "../../../src/nft/metadata/resolve/normalize.ts";
import { type Parsed, tryParse } from "../../../src/nft/metadata/resolve/parse.ts";

const EMPTY = {
  name: null,
  description: null,
  image: null,
  external_link: null,
  external_url: null,
  animation_url: null,
  attributes: [],
};

const trait = (trait_type: string | null, value: unknown, more: object = {}) =>
  ({ trait_type, value, display_type: null, max_value: null, trait_count: 0, order: null, ...more }) as never;

/** The fields that a page shows for a body, through the worker and the page. */
function shown(body: unknown): NormalizedMetadata {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const parsed = parse(text);
  if (parsed.kind !== "json") throw new Error(`not JSON: ${JSON.stringify(parsed)}`);
  return JSON.parse(textOfBody(new TextEncoder().encode(parsed.text)).normalized) as NormalizedMetadata;
}

const parse = (text: string) =>
  tryParse({ mimetype: "", charset: undefined, bytes: new TextEncoder().encode(text) }) as Parsed | { kind: "failed" };
/** The stored text, or the reason for refusing it. */
const kept = (text: string): unknown => {
  const reply = parse(text);
  return reply.kind === "json" ? [reply.text, reply.isRepaired] : reply;
};

describe("text that is not quite JSON", () => {
  test.each<[string, string, string]>([
    ["an apostrophe that needs no escape", String.raw`{"name":"it\'s"}`, `{"name":"it's"}`],
    ["a backtick of a template", '{"name":"a \\`b\\`"}', '{"name":"a `b`"}'],
    ["hexadecimal escapes", String.raw`{"name":"caf\xe9"}`, String.raw`{"name":"caf\u00e9"}`],
    ["a shrug", String.raw`{"name":"¯\_(ツ)_/¯"}`, String.raw`{"name":"¯\\_(ツ)_/¯"}`],
    ["a path", String.raw`{"name":"C:\data\new"}`, String.raw`{"name":"C:\\data\new"}`],
    ["half a code point", String.raw`{"name":"a\u12 b"}`, String.raw`{"name":"a\\u12 b"}`],
    ["NUL after the end", '{"name":"a"}\0\0\0', '{"name":"a"}'],
    ["text after the end", '{"name":"a"}\n<!-- served by x -->', '{"name":"a"}'],
    ["a brace too many", '{"name":{"en":"a"}}}', '{"name":{"en":"a"}}'],
    ["numbers as they are written", '{"id":123456789012345678901234567890,"x":1.50,}', ""],
    ["comments, but no marks of them in strings", '{"a":"http://x /* y */",/* z */"b":[1,2,] // c\n}', ""],
    ["an end of line in a string", '{"a":"x\r\ny\u0001"}', '{"a":"x\\r\\ny\\u0001"}'],
    ["text that was encoded twice", JSON.stringify('{"name": "a"}'), '{"name": "a"}'],
  ])("is repaired: %s", (_what, text, expected) => {
    const [found, isRepaired] = kept(text) as [string, boolean];
    expect(isRepaired).toBe(true);
    if (expected !== "") expect(found).toBe(expected);
    expect(() => JSON.parse(found)).not.toThrow();
  });

  test("keeps everything else unchanged", () => {
    const [numbers] = kept('{"id": 123456789012345678901234567890, "x":1.50,}') as [string];
    expect(numbers).toBe('{"id": 123456789012345678901234567890, "x":1.50}');
    const [comments] = kept('{"a":"http://x /* y */",/* z */"b":[1,2,] // c\n}') as [string];
    expect(JSON.parse(comments)).toEqual({ a: "http://x /* y */", b: [1, 2] });
    expect(comments).toContain('"http://x /* y */"');
    expect(kept('{ "name":"it\'s",\n"x" : 1.0 }')).toEqual(['{ "name":"it\'s",\n"x" : 1.0 }', false]);
  });

  test.each<[string, string, string]>([
    ["two objects: which one is meant is not said", '{"name":"a"}{"name":"b"}', "not_json"],
    ["two in a row with a comma", '{"name":"a"},{"name":"b"}', "not_json"],
    ["half an object", '{"name":"a"', "not_json"],
    ["a comment without an end", '{"name":"a"/*', "not_json"],
    ["text encoded twice that is no object", JSON.stringify('"a"'), "not_an_object"],
    ["a name alone", '"a"', "not_an_object"],
  ])("is refused if it is ambiguous or broken: %s", (_what, text, reason) => {
    expect(kept(text)).toEqual({ kind: "failed", reason });
  });
});

describe("a JSON schema with values in its descriptions", () => {
  const schema = (properties: object) => ({ title: "Asset Metadata", type: "object", properties });

  test("shows the values, not the schema's title", () => {
    const body = schema({
      name: { type: "string", description: "Punk 1" },
      description: { type: "string", description: "The first." },
      image: { type: "string", description: "ipfs://x/1.png" },
      color: { type: "string", description: "Red" },
    });
    expect(shown(body)).toEqual({
      ...EMPTY,
      name: "Punk 1",
      description: "The first.",
      image: "ipfs://x/1.png",
      attributes: [trait("color", "Red")],
    });
  });

  test("shows no sentence as a picture", () => {
    const sentence = "A URI pointing to a resource with mime type image/* representing the asset";
    expect(shown(schema({ image: { type: "string", description: sentence } })).image).toBe(null);
  });

  test("is not assumed if the fields contain values themselves", () => {
    const body = { name: "A", title: "B", properties: { name: { type: "string", description: "C" } } };
    expect(shown(body).name).toBe("A");
  });
});

describe("traits", () => {
  const list = (attributes: unknown) => shown({ attributes }).attributes;

  test("are read from a list of pairs", () => {
    expect(list([{ Background: "Red" }, { Type: "Human" }, { Level: 3 }])).toEqual([
      trait("Background", "Red"),
      trait("Type", "Human"),
      trait("Level", 3),
    ]);
    expect(list([{ Background: "Red", Eyes: "Blue" }])).toEqual([trait("Background", "Red"), trait("Eyes", "Blue")]);
    expect(list([{ Background: { value: "Red", display_type: "x" } }])).toEqual([
      trait("Background", "Red", { display_type: "x" }),
    ]);
  });

  test("of a single word stay as they are", () => {
    expect(list([{ value: "Loose" }, { trait_type: "Fur" }])).toEqual([trait(null, "Loose"), trait("Fur", null)]);
  });

  test("are read from JSON in a string", () => {
    const traits = [{ trait_type: "Fur", value: "Gold" }];
    expect(list(JSON.stringify(traits))).toEqual([trait("Fur", "Gold")]);
    expect(list(JSON.stringify({ Fur: "Gold" }))).toEqual([trait("Fur", "Gold")]);
    expect(list("[none")).toEqual([]);
    expect(list(`[${"[".repeat(10_000)}${"]".repeat(10_000)}]`)).toEqual([]);
  });

  test("are read with capitalised keys", () => {
    const body = { Traits: [{ Trait_Type: "Fur", Value: "Gold", Display_Type: "x" }] };
    expect(shown(body).attributes).toEqual([trait("Fur", "Gold", { display_type: "x" })]);
    expect(shown({ ATTRIBUTES: { Fur: "Gold" } }).attributes).toEqual([trait("Fur", "Gold")]);
    expect(list([{ "Trait Type": "Fur", value: "Gold" }])).toEqual([trait("Fur", "Gold")]);
  });

  test("are read from properties, as an object and as a list", () => {
    // The example of ERC-1155: a simple property, one with details, and one with a list.
    const properties = {
      simple_property: "example value",
      rich_property: { name: "Name", value: "123", display_value: "123 Example Value", class: "emphasis" },
      array_property: { name: "Colours", value: [1, 2], class: "emphasis" },
    };
    expect(shown({ name: "A", properties }).attributes).toEqual([
      trait("simple_property", "example value"),
      trait("Name", "123"),
      trait("Colours", [1, 2]),
    ]);
    expect(shown({ properties: [{ trait_type: "Fur", value: "Gold" }] }).attributes).toEqual([trait("Fur", "Gold")]);
    const both = { attributes: [{ trait_type: "Fur", value: "Gold" }], properties: { x: 1 } };
    expect(shown(both).attributes).toEqual([trait("Fur", "Gold")]);
  });

  test("are not read from the files and creators in properties", () => {
    const files = [{ uri: "ipfs://x", type: "image/png" }];
    const properties = { files, category: "image", creators: [{ address: "0x1", share: 100 }], Fur: "Gold" };
    expect(shown({ name: "A", image: "ipfs://x", properties }).attributes).toEqual([trait("Fur", "Gold")]);
  });
});

describe("fields", () => {
  test.each<[string, JsonValue, Partial<NormalizedMetadata>]>([
    [
      "in capitals",
      { Name: "A", DESCRIPTION: "B", Image: "ipfs://x", ExternalUrl: "u", AnimationURL: "v" },
      { name: "A", description: "B", image: "ipfs://x", external_url: "u", animation_url: "v" },
    ],
    ["by the exact name before any other spelling", { Name: "A", name: "B" }, { name: "B" }],
    ["a list of pictures", { image: ["", "ipfs://a", "ipfs://b"] }, { image: "ipfs://a" }],
    ["a list of pictures as objects", { image: [{ url: "ipfs://a" }] }, { image: "ipfs://a" }],
    ["an empty list of pictures", { image: [], image_url: "ipfs://b" }, { image: "ipfs://b" }],
    ["the picture in properties", { name: "A", properties: { image: "ipfs://x" } }, { name: "A", image: "ipfs://x" }],
    [
      "a trait that is called image",
      { name: "A", properties: { Image: "Sunset" } },
      { name: "A", attributes: [trait("Image", "Sunset")] },
    ],
    ["the picture in properties, in words", { properties: { image: { value: "ipfs://x" } } }, { image: "ipfs://x" }],
    [
      "a film in properties",
      { name: "A", properties: { animation_url: "ipfs://v" } },
      { name: "A", animation_url: "ipfs://v" },
    ],
    ["all of them in data", { data: { name: "A", image: "ipfs://x" } }, { name: "A", image: "ipfs://x" }],
    ["all of them in data that is a string", { data: '{"name":"A"}' }, { name: "A" }],
    ["all of them in result", { status: 1, result: { name: "A" } }, { name: "A" }],
    ["data beside a name", { name: "A", data: { name: "B" } }, { name: "A" }],
    ["localized", { name: { ja: "剣", en: "Sword" }, description: { "en-US": "B", de: "C" } }, {}],
    ["localized without English", { name: { ja: "剣" } }, { name: "剣" }],
    ["localized with a default", { name: { ja: "剣", default: "Sword" } }, { name: "Sword" }],
    ["an object that is no name", { name: { first: "A", last: "B" } }, {}],
    ["a blank name", { name: "  ", title: "B" }, { name: "B" }],
  ])("are found: %s", (_what, body, expected) => {
    const localized = _what === "localized" ? { name: "Sword", description: "B" } : expected;
    expect(shown(body)).toEqual({ ...EMPTY, ...localized });
  });

  test("leave the text as the contract gave it, wherever they are found", () => {
    const text = '{ "data" : {"Name":"A", "attributes":"[{\\"Fur\\":1.0}]"} }';
    expect(kept(text)).toEqual([text, false]);
  });

  test("take time linear in their number", () => {
    const many = Object.fromEntries(Array.from({ length: 50_000 }, (_, i) => [`Field ${i}`, { a: i }]));
    const started = performance.now();
    shown({ ...many, properties: many, attributes: Object.values(many) });
    expect(performance.now() - started).toBeLessThan(2_000);
  });
});
