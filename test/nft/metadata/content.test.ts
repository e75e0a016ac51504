/** URIs in every spelling, bodies in every encoding and metadata in every shape are read to the same result. */
import { describe, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { TransferKind } from "../../../src/events/columns.ts";
import { MetadataFailure } from "../../../src/nft/metadata/resolve/failure.ts";
import { normalize } from "../../../src/nft/metadata/resolve/normalize.ts";
import { inlineContent, parseDataUri, tryParse } from "../../../src/nft/metadata/resolve/parse.ts";
import { isLocalName } from "../../../src/nft/metadata/resolve/public-hosts.ts";
import { resolveUri, urisOfToken } from "../../../src/nft/metadata/resolve/resolver.ts";

const V0 = "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKPbdG";
const V16 = `f01551220${"a1".repeat(32)}`;
const V1 = "bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi";
const gateways = {
  ipfs: ["https://one.example", "http://10.0.0.1:8080"],
  arweave: ["https://ar.example", "http://10.0.0.1:1984"],
};
const options = { gateways, maxBytes: 1_000 };

const urlsOf = (uri: string): readonly string[] => {
  const target = resolveUri(uri, options);
  return target.kind === "remote" ? target.urls : [];
};
const textOf = (uri: string): string => {
  const target = resolveUri(uri, options);
  return target.kind === "inline" ? new TextDecoder().decode(inlineContent(target.uri, options.maxBytes).bytes) : "";
};
/** Resolves a URI, and decodes inline content. */
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

describe("IPFS addresses", () => {
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
    [`ipfs://${V0}/#1.json`, `ipfs/${V0}/%231.json`],
    ["ipns://name.example/1", "ipns/name.example/1"],
    ["ipfs://ipns/name.example/1", "ipns/name.example/1"],
    [`  ipfs://${V0}\u0000\n`, `ipfs/${V0}`],
    [`\ufeff\u0000 \u0000ipfs://${V0}\u00a0\u0000 \u0000`, `ipfs/${V0}`],
    [`/ipfs//ipfs/${V0}`, `ipfs/${V0}`],
    [`ipfs//${V0}/1`, `ipfs/${V0}/1`],
    [`ipfs://ipfs/ipfs/${V0}/1`, `ipfs/${V0}/1`],
    [`ipfs://ipfs://${V0}/1`, `ipfs/${V0}/1`],
    [`dweb:/ipfs/${V0}/1`, `ipfs/${V0}/1`],
    [`DWEB://ipns/name.example/1`, "ipns/name.example/1"],
    [`web+ipfs://${V0}/1`, `ipfs/${V0}/1`],
    ["/ipns/name.example/1", "ipns/name.example/1"],
    ["ipns/name.example/1", "ipns/name.example/1"],
    [
      `ipns://k51qzi5uqu5dgutdk6i1ynyzgkqngpha5xpgia3a5qqp4jsh0u4csozksxel2r/1`,
      `ipns/k51qzi5uqu5dgutdk6i1ynyzgkqngpha5xpgia3a5qqp4jsh0u4csozksxel2r/1`,
    ],
    [V1.toUpperCase(), `ipfs/${V1.toUpperCase()}`],
    [V16, `ipfs/${V16}`],
    [`ipfs://${V0}//1.json`, `ipfs/${V0}/1.json`],
    [`ipfs:\\\\${V0}\\1.json`, `ipfs/${V0}/1.json`],
    [`ipfs:\\/\\/${V0}\\/1.json`, `ipfs/${V0}/1.json`],
    [`ipfs://${V0}/50%.json`, `ipfs/${V0}/50%25.json`],
    [`ipfs://${V0}/a%20b é.json`, `ipfs/${V0}/a%20b é.json`],
    [`ipfs://${V0}/1.json?filename=1.json`, `ipfs/${V0}/1.json?filename=1.json`],
    [`ipfs://${V0}\r\n/1.json`, `ipfs/${V0}/1.json`],
    [`"ipfs://${V0}/1"`, `ipfs/${V0}/1`],
    [`'ipfs://${V0}/1' `, `ipfs/${V0}/1`],
    [`\u200bipfs://${V0}/1\u0003`, `ipfs/${V0}/1`],
    [`ipfs%3A%2F%2F${V0}%2F1.json`, `ipfs/${V0}/1.json`],
    [`0x${Buffer.from(`ipfs://${V0}/1`).toString("hex")}`, `ipfs/${V0}/1`],
  ])("are found in the IPFS spelling %s", (uri, path) => {
    expect(urlsOf(uri)).toEqual([`https://one.example/${path}`, `http://10.0.0.1:8080/${path}`]);
  });

  test.each([
    [`https://gateway.pinata.cloud/ipfs/${V0}/1`, `ipfs/${V0}/1`],
    [`http://foreign.example/ipfs/ipfs/${V0}/1`, `ipfs/${V0}/1`],
    [`https://foreign.example/ipfs/ipfs://${V0}/1`, `ipfs/${V0}/1`],
    [`https://foreign.example//ipfs//${V0}//1`, `ipfs/${V0}/1`],
    [`https://foreign.example/IPFS/${V0}/1`, `ipfs/${V0}/1`],
    [`https://foreign.example/ipfs/${V0}/a b.json`, `ipfs/${V0}/a%20b.json`],
    [`https://foreign.example/ipfs/${V0}/#1.json`, `ipfs/${V0}/%231.json`],
    [`https:\\\\foreign.example\\ipfs\\${V0}\\1`, `ipfs/${V0}/1`],
    [`HTTPS://FOREIGN.EXAMPLE/ipfs/${V0}`, `ipfs/${V0}`],
    [`http://localhost:8080/ipfs/${V0}/1`, `ipfs/${V0}/1`],
    [`https://${V1}.ipfs.nftstorage.link/1.json`, `ipfs/${V1}/1.json`],
    [`https://${V1.toUpperCase()}.ipfs.dweb.link`, `ipfs/${V1}/`],
    [`https://my--name-example-org.ipns.dweb.link/1`, "ipns/my-name.example.org/1"],
    [
      `https://k51qzi5uqu5dgutdk6i1ynyzgkqngpha5xpgia3a5qqp4jsh0u4csozksxel2r.ipns.dweb.link/1`,
      "ipns/k51qzi5uqu5dgutdk6i1ynyzgkqngpha5xpgia3a5qqp4jsh0u4csozksxel2r/1",
    ],
    ["https://foreign.example/ipns/name.example/1", "ipns/name.example/1"],
  ])("are found in the web address %s, which is asked itself after the gateways", (uri, path) => {
    const urls = [`https://one.example/${path}`, `http://10.0.0.1:8080/${path}`];
    expect(urlsOf(uri)).toEqual([...urls, uri]);
    expect(resolveUri(uri, { ...options, asksGiven: false })).toMatchObject({ urls });
  });

  test.each([
    [`ipfs.io/ipfs/${V0}/1`, `ipfs/${V0}/1`, `https://ipfs.io/ipfs/${V0}/1`],
    [`//ipfs.io/ipfs/${V0}/1`, `ipfs/${V0}/1`, `https://ipfs.io/ipfs/${V0}/1`],
    [`${V1}.ipfs.dweb.link/1`, `ipfs/${V1}/1`, `https://${V1}.ipfs.dweb.link/1`],
    [`ipfs://https://own.example/ipfs/${V0}/1`, `ipfs/${V0}/1`, `https://own.example/ipfs/${V0}/1`],
    [`https//own.example/ipfs/${V0}/1`, `ipfs/${V0}/1`, `https://own.example/ipfs/${V0}/1`],
    [`"https:\\/\\/own.example\\/ipfs\\/${V0}\\/1"`, `ipfs/${V0}/1`, `https://own.example/ipfs/${V0}/1`],
  ])("are found in the web address %s, which lacks or repeats a part", (uri, path, given) => {
    expect(urlsOf(uri)).toEqual([`https://one.example/${path}`, `http://10.0.0.1:8080/${path}`, given]);
  });

  test("are asked of the gateways without the query of another host, and of that host with it", () => {
    for (const [uri, path] of [
      [`https://own.example/ipfs/${V0}/1?token=secret#x`, `ipfs/${V0}/1`],
      [`https://own.example/ipns/name.example/1?token=secret`, "ipns/name.example/1"],
      [`https://${V1}.ipfs.own.example/1?token=secret`, `ipfs/${V1}/1`],
    ] as const) {
      expect(urlsOf(uri)).toEqual([`https://one.example/${path}`, `http://10.0.0.1:8080/${path}`, uri]);
    }
  });

  test("are asked once of a host that is a gateway", () => {
    const path = `ipfs/${V0}/1`;
    expect(urlsOf(`https://one.example/${path}?x=y`)).toEqual([
      `https://one.example/${path}`,
      `http://10.0.0.1:8080/${path}`,
    ]);
  });

  test("are not seen in other URIs, and malformed URIs are refused with a reason", () => {
    expect(urlsOf("HTTPS://a.example/1")).toEqual(["HTTPS://a.example/1"]);
    expect(urlsOf("//a.example/1")).toEqual(["https://a.example/1"]);
    expect(urlsOf("a.example/1")).toEqual(["https://a.example/1"]);
    expect(urlsOf(`https://a.example/?next=/ipfs/${V0}`)).toEqual([`https://a.example/?next=/ipfs/${V0}`]);
    for (const [uri, reason] of [
      ["metadata/1.json", "invalid_uri"],
      ["0x1234", "invalid_uri"],
      ["eip155:1/erc721:0x06012c8cf97bead5deae237070f9587f8e7a266d/1", "unsupported_scheme"],
      ["onchfs://a3d1", "unsupported_scheme"],
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
});

describe("Arweave addresses", () => {
  const ID = "Kp9xGbmCjsHyTJ2hJ5D1E6nYf3Z1XYwYc0yK5Zx_-9A";
  test.each([
    [`ar://${ID}/1.json`, `${ID}/1.json`],
    [`AR://${ID}`, ID],
    [`ar:${ID}`, ID],
    [`ar:///${ID}/a#1.png`, `${ID}/a%231.png`],
    ["ar://abc_-123/1.json", "abc_-123/1.json"],
    [`arweave://${ID}`, ID],
    [`ar:\\\\${ID}\\1`, `${ID}/1`],
    [`"ar://${ID}"`, ID],
  ])("are found in the Arweave spelling %s", (uri, path) => {
    expect(urlsOf(uri)).toEqual([`https://ar.example/${path}`, `http://10.0.0.1:1984/${path}`]);
  });

  test.each([
    [`https://arweave.net/${ID}/1.json`, `${ID}/1.json`],
    [`http://www.arweave.net/${ID}?ext=png`, ID],
    [`https://${"a1".repeat(26)}.arweave.net/${ID}/1`, `${ID}/1`],
    [`HTTPS://ARWEAVE.NET/${ID}`, ID],
    [`https://arweave.net//raw/${ID}/1`, `${ID}/1`],
    [`https://gateway.irys.xyz/${ID}`, ID],
    [`https://permagate.io/${ID}/#1.png`, `${ID}/%231.png`],
  ])("are found in the web address %s, which is asked itself after the gateways", (uri, path) => {
    expect(urlsOf(uri)).toEqual([`https://ar.example/${path}`, `http://10.0.0.1:1984/${path}`, uri]);
  });

  test("are found in a web address without a scheme", () => {
    expect(urlsOf(`arweave.net/${ID}`).at(-1)).toBe(`https://arweave.net/${ID}`);
    expect(urlsOf(`ar://https://arweave.net/${ID}`)[0]).toBe(`https://ar.example/${ID}`);
  });

  test("are not seen in URLs of other paths or hosts", () => {
    for (const uri of ["https://arweave.net/graphql", `https://arweave.net.example/${ID}`, `https://a.example/${ID}`]) {
      expect(urlsOf(uri)).toEqual([uri]);
    }
    expect(reasonOf(() => open("ar://"))).toBe("invalid_uri");
  });
});

describe("the token's id in a URI", () => {
  const [erc721, erc1155] = [TransferKind.erc721, TransferKind.erc1155];
  const hex = `${"0".repeat(61)}abc`;

  test("is tried as 64 lower-case hex digits and then in decimal in an ERC-1155, however the braces are written", () => {
    const of = (uri: string) => urisOfToken(uri, { kind: erc1155, id: 0xabcn });
    for (const id of ["{id}", "{ID}", "%7Bid%7D", "%7bid%7d", "%7BID%7D"]) {
      expect(of(`https://a.example/${id}.json`)).toEqual([
        `https://a.example/${hex}.json`,
        "https://a.example/2748.json",
      ]);
    }
    expect(of("{id}/%7Bid%7D")).toEqual([`${hex}/${hex}`]);
    expect(of("ipfs://x/{id}/%7Bid%7D")).toEqual([`ipfs://x/${hex}/${hex}`, "ipfs://x/2748/2748"]);
    expect(of("https://a.example/0x{id}")).toEqual([`https://a.example/0x${hex}`]);
    expect(of("https://a.example/1")).toEqual(["https://a.example/1"]);
    expect(of('data:application/json,{"name":"{id}"}')).toEqual([`data:application/json,{"name":"${hex}"}`]);
  });

  test("is tried in decimal and then in hex in an ERC-721, but not inside inline documents", () => {
    const of = (uri: string) => urisOfToken(uri, { kind: erc721, id: 0xabcn });
    for (const id of ["{id}", "{ID}", "%7Bid%7D"]) {
      expect(of(`ipfs://x/${id}.json`)).toEqual(["ipfs://x/2748.json", `ipfs://x/${hex}.json`]);
    }
    for (const uri of ["https://a.example/1", ' {"name":"{id}"}', 'data:application/json,{"name":"{id}"}']) {
      expect(of(uri)).toEqual([uri]);
    }
  });
});

test("reads %23 in raw JSON of a data URI as a number sign if the JSON has no raw one, except within URIs", () => {
  const of = (json: string) => textOf(`data:application/json;utf8,${json}`);
  expect(of('{"name":"Punk %231"}')).toBe('{"name":"Punk #1"}');
  expect(of('{"name":"Punk #1 %231"}')).toBe('{"name":"Punk #1 %231"}');
  expect(of('{"name":"50%20 %23"}')).toBe('{"name":"50%20 #"}');
  const svg = "<svg fill='%23fff'/>";
  expect(of(`{"image_data":"${svg}"}`)).toBe(`{"image_data":"${svg.replace("%23", "#")}"}`);
  for (const uri of [`data:image/svg+xml,${svg}`, "https://a.example/%231.png", "ipfs://x/%231.png"]) {
    expect(of(`{"name":"%231","image":"${uri}"}`)).toBe(`{"name":"#1","image":"${uri}"}`);
  }
  expect(of(String.raw`{"name":"it\'s %231","image":"data:,%22"}`)).toBe(
    String.raw`{"name":"it\'s #1","image":"data:,%22"}`,
  );
  expect(textOf('{"name":"%231"}')).toBe('{"name":"%231"}');
});

test("reads data URIs in base64, percent-encoded, raw, and raw with percent-encoded parts", () => {
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

describe("inline content", () => {
  const json = '{"name":"50% é #1"}';
  const base64 = Buffer.from(json).toString("base64");
  const plain = '{"name":"a"}';
  const svg = '<svg xmlns="http://www.w3.org/2000/svg" fill="#fff" width="100%"/>';
  const gzipped = gzipSync(json).toString("base64");
  test.each([
    [`data:application/json;utf8,${json}`, json],
    [`data:application/json;charset=utf-8,${json}`, json],
    [`data:application/json;charset=UTF-8;base64,${base64}`, json],
    [`data:application/json;BASE64,${base64}`, json],
    [`data:application/json; Base64 ,${base64}`, json],
    [`data:application/json;base64,${base64.replace(/=+$/, "")}`, json],
    [`data:application/json;base64,${Buffer.from(json).toString("base64url")}`, json],
    [`data:application/json;base64, ${base64.replace(/.{8}/g, "$&\n")}`, json],
    [`Data:Application/JSON,${encodeURIComponent(json)}`, json],
    [`data:,${json}`, json],
    [`data:text/plain,${json}`, json],
    // The mark is wrong or missing.
    [`data:application/json;base64,${plain}`, plain],
    [`data:application/json,${base64}`, json],
    [`data:application/json;utf8,${base64}`, json],
    [`data:image/svg+xml,${Buffer.from(svg).toString("base64")}`, svg],
    [`data:image/svg+xml;base64,${svg}`, svg],
    [`data:image/svg+xml;utf8,${svg}`, svg],
    // The start is missing.
    [`application/json;base64,${base64}`, json],
    [`application/json,${plain}`, plain],
    [base64, json],
    [encodeURIComponent(plain), plain],
    // Something stands around it.
    [`"data:application/json;base64,${base64}"`, json],
    [`\ufeff${plain}`, plain],
    [`'${plain}'`, plain],
    [`\u0001 ${plain}\u200b`, plain],
    [`ipfs://data:application/json;base64,${base64}`, json],
    [`0x${Buffer.from(plain).toString("hex")}`, plain],
    [`<!-- a drawing -->${svg}`, `<!-- a drawing -->${svg}`],
    // Compressed.
    [`data:application/json;base64,${gzipped}`, json],
  ])("is read: %s", (uri, content) => {
    expect(textOf(uri)).toBe(content);
  });

  test("is read if it is JSON inside a JSON string", () => {
    expect(textOf(JSON.stringify(plain))).toBe(JSON.stringify(plain));
  });

  test("is refused if it decompresses to more than its limit", () => {
    const bomb = gzipSync(Buffer.alloc(100_000)).toString("base64");
    expect(reasonOf(() => open(`data:application/json;base64,${bomb}`))).toBe("too_large");
  });

  test("is a picture with comments before its drawing", () => {
    const drawing = `<!-- a drawing -->${svg}`;
    expect(normalize({ image_data: drawing }).image).toBe(`data:image/svg+xml;base64,${btoa(drawing)}`);
  });
});

describe("bodies", () => {
  /** An object with nested lists of `levels` levels in all. */
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
    [
      "UTF-8 with a wrong byte",
      Buffer.concat([Buffer.from('{"a":"é'), new Uint8Array([0xff]), Buffer.from('"}')]),
      undefined,
      '{"a":"é\ufffd"}',
    ],
    ["an unknown charset", Buffer.from('{"a":"é"}', "latin1"), "klingon", '{"a":"é"}'],
    ["comments and trailing commas", '{/* x */"a":1, // y\n"b":[1,],}', undefined, '{"a":1, \n"b":[1]}'],
    ["raw line breaks in strings", '{"a":"x\ny"}', undefined, '{"a":"x\\ny"}'],
    ["HTML", "<!DOCTYPE html><html><body>404</body></html>", undefined, "not_json"],
    ["an empty body", "", undefined, "not_json"],
    ["a truncated object", '{"a":', undefined, "not_json"],
    ["a list", "[1]", undefined, "not_an_object"],
    ["a string", '"x"', undefined, "not_an_object"],
    ["null", "null", undefined, "not_an_object"],
    ["very deep nesting", `{"a":${"[".repeat(200_000)}`, undefined, "not_json"],
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
  ])("are read or refused: %s", (_name, body, charset, expected) => {
    expect(parsed(body, charset)).toBe(expected);
  });
});

describe("text that is made to be slow to parse", () => {
  const LONG = 100_000;
  /** A shared machine is slow by tens of ms. Anything that isn't linear takes seconds. */
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
    ["equals signs that are not padding", resolved(`data:,{}${"=".repeat(LONG)}`), "none"],
    ["padding before the end", resolved(`data:;base64,${"=".repeat(LONG)}x`), "bad_encoding"],
    ["parameters without an end", resolved(`data:${";".repeat(LONG)},x`), "invalid_uri"],
    ["IPFS in IPFS", resolved(`${"ipfs//".repeat(1_300)}x`), "invalid_uri"],
    ["IPFS in IPFS on a gateway", resolved(`https://a.example/${"ipfs//".repeat(1_300)}x`), "none"],
    ["an IPFS address of slashes", resolved(`ipfs:${"/".repeat(8_000)}`), "invalid_uri"],
    ["a scheme without an end", resolved("a".repeat(8_000)), "invalid_uri"],
    ["schemes in schemes", resolved(`${"ipfs:/".repeat(1_300)}:`), "none"],
    ["a host of dots", resolved(`${"a.".repeat(4_000)}:`), "unsupported_scheme"],
    ["quotes around quotes", resolved('"'.repeat(LONG)), "invalid_uri"],
    ["hexadecimal", resolved(`0x${"61".repeat(8_000)}`), "invalid_uri"],
    ["base64 that is none", resolved(`eyJ${"a".repeat(LONG)}!`), "invalid_uri"],
    ["base64 with padding inside", resolved(`eyJ${"=".repeat(LONG)}!`), "invalid_uri"],
    [
      "ids",
      () => reasonOf(() => urisOfToken("{id}".repeat(LONG), { kind: TransferKind.erc1155, id: 1n })),
      "invalid_uri",
    ],
    ["number signs", resolved(`data:,{"a":"${"%23".repeat(LONG)}"}`), "none"],
    ["quotes before number signs", resolved(`data:,{"a":"%23${'\\"'.repeat(LONG)}"}`), "none"],
    ["a name of dots", () => isLocalName(`${".".repeat(LONG)}x`), false],
    ["empty comments", parsed(`${"<!---->".repeat(LONG / 10)}x`), "not_json"],
    ["nested openings of comments", parsed("<!--".repeat(LONG / 4)), "not_json"],
    ["declarations", parsed(`${"<?xml>".repeat(LONG / 6)}x`), "not_json"],
    ["document types", parsed("<!DOCTYPE svg ".repeat(LONG / 14)), "not_json"],
    ["spaces before nothing", parsed(`<?xml${" ".repeat(LONG)}`), "not_json"],
    ["quotes that are escaped", parsed(`{"${'\\"'.repeat(LONG / 2)}`), "not_json"],
    ["quotes", parsed(`{${'"'.repeat(LONG)}x`), "not_json"],
    ["escapes", parsed(`{"${"\\".repeat(LONG)}`), "not_json"],
    ["comments in JSON", parsed(`{${"/*".repeat(LONG / 2)}`), "not_json"],
    ["commas", parsed(`{"a":[${",".repeat(LONG)}`), "not_json"],
  ])("is refused or read quickly: %s", (_name, work, expected) => {
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

  test("keeps the standard shape and the types of values", () => {
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

  test("reads attributes as objects, as traits, and under other names", () => {
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

  test("finds the picture in any of its fields", () => {
    const svg = "<svg xmlns='http://www.w3.org/2000/svg'/>";
    const uri = `data:image/svg+xml;base64,${btoa(svg)}`;
    expect(normalize({ image_url: "u" }).image).toBe("u");
    expect(normalize({ image: "", image_data: svg }).image).toBe(uri);
    expect(normalize({ image: svg }).image).toBe(uri);
    expect(normalize({ image: { url: "u" } }).image).toBe("u");
    expect(normalize({ image: "a", image_url: "b" }).image).toBe("a");
  });
});
