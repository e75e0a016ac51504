/** URIs in every spelling, bodies in every state, metadata in every shape: what comes out is one and the same. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { isLocalName } from "../../src/metadata/addresses.ts";
import { parseDataUri } from "../../src/metadata/data-uri.ts";
import { normalize } from "../../src/metadata/normalize.ts";
import { MetadataFailure } from "../../src/metadata/outcome.ts";
import { tryParse } from "../../src/metadata/parse.ts";
import { inlineContent, resolveUri, substituteId } from "../../src/metadata/uri.ts";

// Real parts, on machines that have others to serve: the runner's five seconds would kill them in the middle.
setDefaultTimeout(30_000);

const V0 = "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKPbdG";
const V1 = "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi";
const options = { ipfsGateways: ["https://one.example", "http://10.0.0.1:8080"], maxBytes: 1_000 };

const urlsOf = (uri: string): readonly string[] => {
  const target = resolveUri(uri, options);
  return target.kind === "remote" ? target.urls : [];
};
const textOf = (uri: string): string => {
  const target = resolveUri(uri, options);
  return target.kind === "inline" ? new TextDecoder().decode(inlineContent(target.uri, options.maxBytes).bytes) : "";
};
/** Resolves, and decodes what is inline. */
const open = (uri: string, { maxBytes } = options): void => {
  const target = resolveUri(uri, { ...options, maxBytes });
  if (target.kind === "inline") inlineContent(target.uri, maxBytes);
};
const reasonOf = (work: () => unknown): string => {
  try {
    work();
    return "none";
  } catch (error) {
    return error instanceof MetadataFailure ? error.reason : String(error);
  }
};

describe("IPFS in every spelling", () => {
  test.each([
    [`ipfs://${V0}/1.json`, `ipfs/${V0}/1.json`],
    [`ipfs://ipfs/${V0}/1.json`, `ipfs/${V0}/1.json`],
    [`IPFS://${V0}/1.json`, `ipfs/${V0}/1.json`],
    [`Ipfs://Ipfs/${V0}`, `ipfs/${V0}`],
    [`ipfs:/${V0}`, `ipfs/${V0}`],
    [`ipfs:${V0}`, `ipfs/${V0}`],
    [`ipfs:///${V0}`, `ipfs/${V0}`],
    [`/ipfs/${V0}/1`, `ipfs/${V0}/1`],
    [`ipfs/${V0}`, `ipfs/${V0}`],
    [V0, `ipfs/${V0}`],
    [V1, `ipfs/${V1}`],
    [`${V1}/a b.json`, `ipfs/${V1}/a b.json`],
    [`https://gateway.pinata.cloud/ipfs/${V0}/1`, `ipfs/${V0}/1`],
    [`http://foreign.example/ipfs/ipfs/${V0}/1?x=y`, `ipfs/${V0}/1?x=y`],
    [`https://${V1}.ipfs.nftstorage.link/1.json`, `ipfs/${V1}/1.json`],
    [`ipfs://${V0}/#1.json`, `ipfs/${V0}/%231.json`],
    ["ipns://name.example/1", "ipns/name.example/1"],
    ["ipfs://ipns/name.example/1", "ipns/name.example/1"],
    ["https://foreign.example/ipns/name.example/1", "ipns/name.example/1"],
    [`  ipfs://${V0}\u0000\n`, `ipfs/${V0}`],
    [`\ufeff\u0000 \u0000ipfs://${V0}\u00a0\u0000 \u0000`, `ipfs/${V0}`],
    [`/ipfs//ipfs/${V0}`, `ipfs/${V0}`],
  ])("%s", (uri, path) => {
    expect(urlsOf(uri)).toEqual([`https://one.example/${path}`, `http://10.0.0.1:8080/${path}`]);
  });

  test("others", () => {
    expect(urlsOf("ar://abc_-123/1.json")).toEqual(["https://arweave.net/abc_-123/1.json"]);
    expect(urlsOf("HTTPS://a.example/1")).toEqual(["HTTPS://a.example/1"]);
    expect(urlsOf("//a.example/1")).toEqual(["https://a.example/1"]);
    for (const [uri, reason] of [
      ["", "no_uri"],
      ["   ", "no_uri"],
      ["ipfs://", "invalid_uri"],
      ["1.json", "invalid_uri"],
      ["http://", "invalid_uri"],
      [`http://a.example/${"x".repeat(9_000)}`, "invalid_uri"],
      ["gopher://a.example", "unsupported_scheme"],
      ["data:application/json", "invalid_uri"],
      [`data:,${"x".repeat(1_001)}`, "too_large"],
      ["data:application/json;base64,!!!", "bad_encoding"],
    ] as const) {
      expect([uri, reasonOf(() => open(uri))]).toEqual([uri, reason]);
    }
  });

  test("{id} is 64 hex digits in lower case", () => {
    expect(substituteId("https://a.example/{id}.json", 0xabcn)).toBe(`https://a.example/${"0".repeat(61)}abc.json`);
    expect(substituteId("{id}/{id}", 1n)).toBe(`${"0".repeat(63)}1/${"0".repeat(63)}1`);
  });
});

test("data URIs: base64, percent-encoded, raw, and what only looks encoded", () => {
  const json = '{"name":"50% é #1"}';
  expect(textOf(`data:application/json;base64,${Buffer.from(json).toString("base64")}`)).toBe(json);
  expect(textOf(`data:application/json;base64,${Buffer.from(json).toString("base64url")}`)).toBe(json);
  expect(textOf(`data:application/json;charset=utf-8,${encodeURIComponent(json)}`)).toBe(json);
  expect(textOf(`data:application/json;utf8,${json}`)).toBe(json);
  const nested = '{"image":"data:image/svg+xml,%3Csvg a=%22b%22/%3E"}';
  expect(textOf(`data:application/json;utf8,${nested}`)).toBe(nested);
  expect(textOf(json)).toBe(json);
  expect(parseDataUri("DATA:IMAGE/PNG;x=y;base64,AAEC", 10)).toEqual({
    mimetype: "image/png",
    charset: undefined,
    bytes: new Uint8Array([0, 1, 2]),
  });
});

describe("bodies", () => {
  /** An object that holds lists in one another, so many levels in all. */
  const nested = (levels: number, last = "") => `{"a":${"[".repeat(levels - 1)}1${last}${"]".repeat(levels - 1)}}`;

  const parsed = (body: string | Uint8Array, charset?: string) => {
    const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
    const reply = tryParse({ mimetype: "text/html", charset, bytes });
    if (reply.kind === "failed") return reply.reason;
    return reply.kind === "json" ? reply.text : reply.mimetype;
  };

  test.each<[string, string | Uint8Array, string | undefined, string]>([
    ["plain, kept to the letter", '  {"a": 1.0}\n', undefined, '{"a": 1.0}'],
    ["a byte order mark", '\uFEFF{"a":1}', undefined, '{"a":1}'],
    ["UTF-16", Buffer.from('\uFEFF{"a":"é"}', "utf16le"), undefined, '{"a":"é"}'],
    ["UTF-16 without a mark", Buffer.from('{"a":"é"}', "utf16le"), "utf-8", '{"a":"é"}'],
    ["UTF-8 declared as Latin-1", '{"a":"é"}', "iso-8859-1", '{"a":"é"}'],
    ["Latin-1 declared as UTF-8", Buffer.from('{"a":"é"}', "latin1"), "utf-8", '{"a":"é"}'],
    [
      "Shift-JIS",
      new Uint8Array([0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0x82, 0xa0, 0x22, 0x7d]),
      "shift_jis",
      '{"a":"あ"}',
    ],
    ["an unknown charset", Buffer.from('{"a":"é"}', "latin1"), "klingon", '{"a":"é"}'],
    ["comments and trailing commas", '{/* x */"a":1, // y\n"b":[1,],}', undefined, '{"a":1,"b":[1]}'],
    ["raw line breaks in strings", '{"a":"x\ny"}', undefined, '{"a":"x\\ny"}'],
    ["HTML", "<!DOCTYPE html><html><body>404</body></html>", undefined, "not_json"],
    ["nothing", "", undefined, "not_json"],
    ["half of it", '{"a":', undefined, "not_json"],
    ["a list", "[1]", undefined, "not_an_object"],
    ["a string", '"x"', undefined, "not_an_object"],
    ["null", "null", undefined, "not_an_object"],
    ["very deep", `{"a":${"[".repeat(200_000)}`, undefined, "not_json"],
    ["SVG", '<?xml version="1.0"?><!-- x --><svg xmlns="http://www.w3.org/2000/svg"/>', undefined, "image/svg+xml"],
    [
      "SVG after comments and a document type",
      '<?xml version="1.0"?>\n<!---->\n<!-- > --><!DOCTYPE svg PUBLIC "a" "b">\n<!-- x --><SVG\n>',
      undefined,
      "image/svg+xml",
    ],
    ["a document type with declarations", "<!DOCTYPE svg [<!ENTITY a 'b'>]><svg >", undefined, "not_json"],
    ["a comment without an end", "<!-- <svg >", undefined, "not_json"],
    ["a drawing inside something else", "<!-- x --><p><svg ></svg></p>", undefined, "not_json"],
    [
      "control characters in several strings",
      '{"a":"\t\\"\n","b\r":["\\\\"]}',
      undefined,
      '{"a":"\\t\\"\\n","b\\r":["\\\\"]}',
    ],
    ["nested as deep as may be", nested(256), undefined, nested(256)],
    ["nested deeper", nested(257), undefined, "too_large"],
    ["nested deeper, with a comma too many", nested(257, ","), undefined, "too_large"],
    ["PNG", new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0xd, 0xa, 0x1a, 0xa, 0, 0, 0, 0]), undefined, "image/png"],
  ])("%s", (_name, body, charset, expected) => {
    expect(parsed(body, charset)).toBe(expected);
  });
});

describe("text that is made to take long", () => {
  const LONG = 100_000;
  /** A machine that has others to serve takes some; what is not linear takes seconds. */
  const SOON_MS = 250;
  const resolved = (uri: string) => () => reasonOf(() => open(uri, { ...options, maxBytes: 1_000_000 }));
  const parsed = (body: string) => () => {
    const reply = tryParse({ mimetype: "", charset: undefined, bytes: new TextEncoder().encode(body) });
    return reply.kind === "failed" ? reply.reason : reply.kind;
  };

  test.each<[string, () => unknown, unknown]>([
    ["zero bytes before the end", resolved(`a${"\0".repeat(LONG)}a`), "invalid_uri"],
    ["spaces before the end", resolved(`a${" ".repeat(LONG)}a`), "invalid_uri"],
    ["zero bytes alone", resolved("\0".repeat(LONG)), "no_uri"],
    ["padding that is none", resolved(`data:,{}${"=".repeat(LONG)}`), "none"],
    ["padding before the end", resolved(`data:;base64,${"=".repeat(LONG)}x`), "bad_encoding"],
    ["parameters without an end", resolved(`data:${";".repeat(LONG)},x`), "invalid_uri"],
    ["IPFS in IPFS", resolved(`${"ipfs//".repeat(1_300)}x`), "invalid_uri"],
    ["IPFS in IPFS on a gateway", resolved(`https://a.example/${"ipfs//".repeat(1_300)}x`), "none"],
    ["an IPFS address of slashes", resolved(`ipfs:${"/".repeat(8_000)}`), "invalid_uri"],
    ["a scheme without an end", resolved("a".repeat(8_000)), "invalid_uri"],
    ["ids", () => reasonOf(() => substituteId("{id}".repeat(LONG), 1n)), "invalid_uri"],
    ["a name of dots", () => isLocalName(`${".".repeat(LONG)}x`), false],
    ["empty comments", parsed(`${"<!---->".repeat(LONG / 10)}x`), "not_json"],
    ["comments in one another", parsed("<!--".repeat(LONG / 4)), "not_json"],
    ["declarations", parsed(`${"<?xml>".repeat(LONG / 6)}x`), "not_json"],
    ["document types", parsed("<!DOCTYPE svg ".repeat(LONG / 14)), "not_json"],
    ["spaces before nothing", parsed(`<?xml${" ".repeat(LONG)}`), "not_json"],
    ["quotes that are escaped", parsed(`{"${'\\"'.repeat(LONG / 2)}`), "not_json"],
    ["quotes", parsed(`{${'"'.repeat(LONG)}x`), "not_json"],
    ["escapes", parsed(`{"${"\\".repeat(LONG)}`), "not_json"],
    ["comments in JSON", parsed(`{${"/*".repeat(LONG / 2)}`), "not_json"],
    ["commas", parsed(`{"a":[${",".repeat(LONG)}`), "not_json"],
  ])("%s", (_name, work, expected) => {
    const started = performance.now();
    expect(work()).toEqual(expected);
    expect(performance.now() - started).toBeLessThan(SOON_MS);
  });
});

describe("normalisation", () => {
  const EMPTY = {
    name: null,
    description: null,
    image: null,
    external_link: null,
    external_url: null,
    animation_url: null,
    attributes: [],
  };
  const attribute = (trait_type: string | null, value: unknown, more: object = {}) => ({
    trait_type,
    value,
    display_type: null,
    max_value: null,
    trait_count: 0,
    order: null,
    ...more,
  });

  test("the usual shape; values keep their types", () => {
    const attributes = [
      { trait_type: "Fur", value: "Golden" },
      { trait_type: "Level", value: 5, display_type: "number", max_value: 10, trait_count: 3, order: 1 },
      { trait_type: "Rate", value: 1.5 },
      { trait_type: "Rare", value: true },
      "Loose",
      null,
    ];
    const more = { display_type: "number", max_value: 10, trait_count: 3, order: 1 };
    expect(
      normalize({ name: "A", description: "B", image: "ipfs://x", external_url: "u", animation_url: "v", attributes }),
    ).toEqual({
      ...EMPTY,
      name: "A",
      description: "B",
      image: "ipfs://x",
      external_url: "u",
      animation_url: "v",
      attributes: [
        attribute("Fur", "Golden"),
        attribute("Level", 5, more),
        attribute("Rate", 1.5),
        attribute("Rare", true),
        attribute(null, "Loose"),
      ] as never,
    });
  });

  test("attribute objects, traits, other names", () => {
    expect(normalize({ attributes: { Fur: "Gold", Level: { value: 3, display_type: "number" } } }).attributes).toEqual([
      attribute("Fur", "Gold"),
      attribute("Level", 3, { display_type: "number" }),
    ] as never);
    expect(normalize({ attributes: [], traits: [{ name: "Fur", value: 0 }] }).attributes).toEqual([
      attribute("Fur", 0),
    ] as never);
    expect(normalize({ name: 7, attributes: "none" })).toEqual({ ...EMPTY, name: "7" });
    expect(normalize({})).toEqual(EMPTY);
    expect(normalize({ attributes: Array.from({ length: 5_000 }, () => ({ value: 1 })) }).attributes).toHaveLength(
      1_000,
    );
  });

  test("pictures wherever they are", () => {
    const svg = "<svg xmlns='http://www.w3.org/2000/svg'/>";
    const uri = `data:image/svg+xml;base64,${btoa(svg)}`;
    expect(normalize({ image_url: "u" }).image).toBe("u");
    expect(normalize({ image: "", image_data: svg }).image).toBe(uri);
    expect(normalize({ image: svg }).image).toBe(uri);
    expect(normalize({ image: { url: "u" } }).image).toBe("u");
    expect(normalize({ image: "a", image_url: "b" }).image).toBe("a");
  });
});
