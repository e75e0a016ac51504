/** Pictures of every format get previews of the right size, recordings are recognised, and hostile SVGs do no harm. */
import { afterAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { crc32, deflateSync } from "node:zlib";
import sharp from "sharp";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { isExaminationDue, previewSize } from "../../../src/nft/metadata/media/media.ts";
import { sanitizeSvg } from "../../../src/nft/metadata/media/preview-process.ts";
import { Previews } from "../../../src/nft/metadata/media/previews.ts";
import { FAILURE_STATUS, MetadataFailure } from "../../../src/nft/metadata/resolve/failure.ts";
import { sniffPicture, sniffRecording } from "../../../src/nft/metadata/resolve/parse.ts";
import { made } from "../../support/metadata/made.ts";

const previews = new Previews({ clock: systemClock, logger: silentLogger });
afterAll(() => previews.close());
const { signal } = new AbortController();

const wide = () => sharp({ create: { width: 640, height: 320, channels: 4, background: "#4a6fa5" } });
const SVG =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 20 10"><rect width="20" height="10" fill="#4a6fa5"/></svg>';

describe("previews", () => {
  test.each<[string, () => Promise<Uint8Array>]>([
    ["image/png", () => wide().png().toBuffer()],
    ["image/jpeg", () => wide().flatten().jpeg().toBuffer()],
    ["image/gif", () => wide().gif().toBuffer()],
    ["image/webp", () => wide().webp().toBuffer()],
    ["image/avif", () => wide().avif({ effort: 0 }).toBuffer()],
    ["image/svg+xml", async () => new TextEncoder().encode(SVG)],
  ])("are made of %s", async (mimetype, create) => {
    const bytes = new Uint8Array(await create());
    if (mimetype !== "image/svg+xml") expect(sniffPicture(bytes)).toBe(mimetype);
    const { hash, previews: three } = await made(previews, bytes, mimetype);
    expect(hash).toBe(new Bun.CryptoHasher("sha256").update(bytes).digest("hex"));
    expect(three.map(({ size, width, height }) => [size, width, height])).toEqual([
      [100, 100, 50],
      [250, 250, 125],
      [500, 500, 250],
    ]);
    for (const { bytes: small, width, height, size } of three) {
      expect(await sharp(small).metadata()).toMatchObject({ format: "webp", width, height });
      expect(previewSize(small)).toBe(size);
      const { dominant } = await sharp(small).stats();
      expect(Math.abs(dominant.b - 0xa5)).toBeLessThan(24);
    }
  });

  test("are refused for a malformed or oversized picture, and still made for the next one", async () => {
    const bomb = await sharp({ create: { width: 9_000, height: 9_000, channels: 3, background: "#000" } })
      .png({ compressionLevel: 9 })
      .toBuffer();
    expect(bomb.length).toBeLessThan(1_000_000);
    const kindOf = async (bytes: Uint8Array, mimetype: string) => (await previews.make(bytes, mimetype, signal)).kind;
    expect(await kindOf(new Uint8Array(bomb), "image/png")).toBe("refused");
    expect(await kindOf(new Uint8Array([1, 2, 3]), "image/png")).toBe("refused");
    const huge = '<svg xmlns="http://www.w3.org/2000/svg" width="1e9" height="1e9"/>';
    expect(await kindOf(new TextEncoder().encode(huge), "image/svg+xml")).toBe("refused");
    expect((await made(previews, new TextEncoder().encode(SVG), "image/svg+xml")).previews).toHaveLength(3);
  });

  test("are served only if the stored bytes are a preview", () => {
    expect(previewSize(new TextEncoder().encode('{"name":"x"}'))).toBeUndefined();
    expect(previewSize(new TextEncoder().encode("RIFF0000WEBPVP8Q0000000000000000"))).toBeUndefined();
    expect(previewSize(new Uint8Array())).toBeUndefined();
  });
});

describe("the preview process", () => {
  test.skipIf(!existsSync("/proc/self/status"))("is ended when it uses too much memory", async () => {
    // The first check comes before even a fast machine has made the picture.
    const clock: Clock = { ...systemClock, after: (ms, act) => systemClock.after(ms < 1_000 ? 1 : ms, act) };
    // Less memory than the process needs to start.
    const small = new Previews({ clock, logger: silentLogger, maxResidentBytes: 1024 * 1024 });
    expect(await small.make(new TextEncoder().encode(SVG), "image/svg+xml", signal)).toEqual({ kind: "overran" });
    await small.close();
  });

  test("does not delay the service's stop", async () => {
    const stop = new AbortController();
    const bytes = new Uint8Array(await wide().png().toBuffer());
    const waiting = [1, 2, 3].map(() => previews.make(bytes, "image/png", stop.signal).catch(String));
    stop.abort(new DOMException("stopping", "AbortError"));
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(["AbortError: stopping"]));
    expect((await made(previews, bytes, "image/png")).previews).toHaveLength(3);
  });
});

describe("pictures inside an SVG", () => {
  const drawing = (...hrefs: string[]) =>
    `<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">${hrefs
      .map((href) => `<image width="9" height="9" href="${href}"/>`)
      .join("")}</svg>`;
  const uri = (format: string, bytes: Uint8Array | number[]) =>
    `data:image/${format};base64,${Buffer.from(bytes).toString("base64")}`;
  const latin = (text: string) => [...Buffer.from(text, "latin1")];
  const u16 = (value: number) => [value & 255, value >> 8];
  const u24 = (value: number) => [...u16(value & 0xffff), value >> 16];
  const reasonOf = (source: string) => {
    try {
      return sanitizeSvg(source).includes("href=") ? "kept" : "left out";
    } catch (error) {
      return error instanceof MetadataFailure ? error.reason : String(error);
    }
  };

  /** A real picture of one colour: few bytes, but `side` × `side` pixels when decoded. */
  function png(side: number): Buffer {
    const chunk = (name: string, data: Uint8Array) => {
      const head = Buffer.concat([Buffer.from(name, "latin1"), data]);
      const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
      length.writeUInt32BE(data.length);
      sum.writeUInt32BE(crc32(head));
      return Buffer.concat([length, head, sum]);
    };
    const header = Buffer.alloc(13);
    header.writeUInt32BE(side, 0);
    header.writeUInt32BE(side, 4);
    header[8] = 1;
    const rows = deflateSync(Buffer.alloc((Math.ceil(side / 8) + 1) * side));
    const start = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");
    return Buffer.concat([start, chunk("IHDR", header), chunk("IDAT", rows), chunk("IEND", Buffer.alloc(0))]);
  }

  test.each(["gif", "webp"] as const)("%s is kept", async (format) => {
    const picture = await wide().toFormat(format).toBuffer();
    expect(sanitizeSvg(drawing(uri(format, picture)))).toContain(picture.toString("base64"));
  });

  test.each(["png", "jpeg"] as const)("%s is kept and rendered", async (format) => {
    const picture = await wide().flatten({ background: "#4a6fa5" }).toFormat(format).toBuffer();
    const source = drawing(uri(format, picture));
    expect(sanitizeSvg(source)).toContain(picture.toString("base64"));
    const { previews: three } = await made(previews, new TextEncoder().encode(source), "image/svg+xml");
    const { dominant } = await sharp(three[2]?.bytes).removeAlpha().stats();
    expect(Math.abs(dominant.b - 0xa5)).toBeLessThan(24);
  });

  test.each<[string, string[]]>([
    ["a PNG", [uri("png", png(15_000))]],
    ["several together", Array.from({ length: 9 }, () => uri("png", png(2_000)))],
    [
      "a JPEG",
      [uri("jpeg", [...latin("\xff\xd8\xff\xe0\0\x04ab\xff\xff\xc2\0\x08\x08\xff\xff\xff\xff\x03"), 255, 0xda])],
    ],
    ["a GIF's screen", [uri("gif", [...latin("GIF89a\xff\xff\xff\xff\0\0\0,\0\0\0\0\x01\0\x01\0\0\x02\0;")])]],
    ["a GIF's picture", [uri("gif", [...latin("GIF89a\x01\0\x01\0\0\0\0,\0\0\0\0\xff\xff\xff\xff\0\x02\0;")])]],
    [
      "a WebP",
      [uri("webp", [...latin("RIFF\0\0\0\0WEBPVP8 \x0a\0\0\0\0\0\0\x9d\x01\x2a"), ...u16(16_383), ...u16(16_383)])],
    ],
    [
      "a WebP's canvas",
      [uri("webp", [...latin("RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0"), ...u24(16_000), ...u24(16_000)])],
    ],
  ])("%s of too many pixels makes the whole SVG refused", (_name, hrefs) => {
    expect(reasonOf(drawing(...hrefs))).toBe("too_large");
  });

  test("are not decoded if they have too many pixels", async () => {
    const source = new TextEncoder().encode(drawing(uri("png", png(11_000))));
    expect(source.length).toBeLessThan(40_000);
    expect((await previews.make(source, "image/svg+xml", signal)).kind).toBe("refused");
  });

  test.each<[string, string]>([
    ["no picture", uri("png", latin("not a picture"))],
    ["cut off in its header", uri("png", png(8).subarray(0, 20))],
    ["of no size", uri("gif", latin("GIF89a\0\0\0\0\0\0\0,\0\0\0\0\0\0\0\0\0\x02\0;"))],
    ["a JPEG without a frame", uri("jpeg", latin("\xff\xd8\xff\xda\0\x04ab"))],
    [
      "a JPEG that is no chain of segments",
      uri("jpeg", latin("\xff\xd8\xff\xe0\0\x02xx\xff\xc0\0\x0b\x08\0\x01\0\x01\x01")),
    ],
    ["a GIF without an end", uri("gif", latin("GIF89a\x01\0\x01\0\0\0\0"))],
    ["another drawing", uri("png", latin("<svg/>"))],
    ["padded in the middle", uri("png", png(8)).replace(/.{8}$/, "=AAAAAAA")],
  ])("leaves out a picture without measurable size: %s", (_name, href) => {
    expect(reasonOf(drawing(href))).toBe("left out");
  });
});

describe("a hostile SVG", () => {
  test.each([
    "<script>alert(1)</script>",
    '<script href="https://evil.example/x.js"/>',
    '<rect onload="alert(1)" width="1"/>',
    '<image href="https://evil.example/x.png"/>',
    '<image xlink:href="file:///etc/passwd"/>',
    '<image href="data:image/svg+xml;base64,PHN2Zy8+"/>',
    '<use href="https://evil.example/x.svg#a"/>',
    '<use xlink:href="data:image/svg+xml,evil.example"/>',
    '<foreignObject><iframe src="https://evil.example"/></foreignObject>',
    "<style>@import url(https://evil.example/x.css);</style>",
    "<style>rect { fill: url('https://evil.example/x') }</style>",
    "<style>rect { fill: u\\72l(evil.example) }</style>",
    "<style>@font-face { src: url(https://evil.example/f) }</style>",
    '<style>@im&#112;ort "https://evil.example/x.css";</style>',
    '<svg:style xmlns:svg="http://www.w3.org/2000/svg">@im&#112;ort "https://evil.example/x.css";</svg:style>',
    '<style>a<b/>@im&#112;ort "https://evil.example/x.css";</style>',
    '<style>@im<title/>port "https://evil.example/x.css";</style>',
    '<style>@im<![CDATA[port]]><!-- x --> "https://evil.example/x.css";</style>',
    '<style>@im<style>port</style>port "https://evil.example/x.css";</style>',
    '<rect fill="url(https://evil.example/x#a)"/>',
    '<rect style="fill:url(//evil.example)"/>',
    '<a href="javascript:evil.example"><rect/></a>',
    '<set attributeName="href" to="https://evil.example"/>',
    '<animate attributeName="href" values="https://evil.example"/>',
    '<feImage href="https://evil.example/x"/>',
    '<xi:include href="file:///etc/passwd"/>',
    '<rect xml:base="https://evil.example/"/>',
    '<rect xmlns:e="https://evil.example/" e:x="1"/>',
  ])("is refused or made harmless: %s", (poison) => {
    const clean = sanitizeSvg(
      `<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="x">${poison}<rect id="kept"/></svg>`,
    );
    expect(clean).not.toMatch(/evil|alert|script|passwd|onload|foreignObject|@import|iframe/i);
    expect(clean).toContain('<rect id="kept"></rect>');
  });

  test("has entities that are neither expanded nor read from files", () => {
    const lol = '<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;"><!ENTITY x SYSTEM "file:///etc/passwd">';
    const clean = sanitizeSvg(`<!DOCTYPE svg [${lol}]><svg><text>&b;&x;</text></svg>`);
    expect(clean).not.toMatch(/aaaa|ENTITY|SYSTEM/);
    expect(clean.length).toBeLessThan(300);
  });

  test("is refused with too many elements, or with none", () => {
    const reasons = [
      `<svg>${"<g/>".repeat(30_000)}</svg>`,
      "<g>".repeat(400),
      `<svg>${'<use href="#a"/>'.repeat(3_000)}</svg>`,
    ].map((source) => {
      try {
        return sanitizeSvg(source).length;
      } catch (error) {
        return error instanceof MetadataFailure ? error.reason : "threw";
      }
    });
    expect(reasons).toEqual(["too_large", "too_large", "too_large"]);
    expect(() => sanitizeSvg("<html/>")).toThrow(MetadataFailure);
  });

  test("keeps the elements that draw", () => {
    const drawing =
      '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><defs><linearGradient id="a"><stop offset="1" stop-color="red"/></linearGradient></defs>' +
      '<style>.x { fill: url(#a) }</style><svg:style>.y &gt; .z<b/> { opacity: .5 }</svg:style><rect class="x" fill="url(#a)" style="opacity:.5"/><text x="1">A &amp; B</text><use href="#a"/></svg>';
    const clean = sanitizeSvg(drawing);
    for (const part of [
      "linearGradient",
      "<style>.x { fill: url(#a) }</style>",
      "<style>.y &gt; .z { opacity: .5 }</style>",
      'fill="url(#a)"',
      "A &amp; B",
      'href="#a"',
      'viewBox="0 0 9 9"',
    ]) {
      expect(clean).toContain(part);
    }
  });
});

test("examines a picture again, once and at once, if an older version of the service recorded it as unsupported", () => {
  const isDue = (
    status: "unsupported_media" | "success" | "host_unavailable",
    version: number | undefined,
    ago: number,
  ) => isExaminationDue({ status, updatedAt: 0, ...(version === undefined ? {} : { version }) }, ago);
  expect([undefined, 0, 1, 2].map((version) => isDue("unsupported_media", version, 0))).toEqual([
    true,
    true,
    true,
    false,
  ]);
  expect(isDue("unsupported_media", 2, 1e12)).toBe(false);
  expect(isDue("success", undefined, 1e12)).toBe(false);
  expect([599_999, 600_000].map((ago) => isDue("host_unavailable", 2, ago))).toEqual([false, true]);
});

test("recognises recordings by their first bytes, and maps reasons to statuses", () => {
  const bytes = (text: string) => Uint8Array.from(text, (c) => c.charCodeAt(0));
  expect(
    [
      "\0\0\0\x18ftypmp42",
      "\0\0\0\x18ftypM4A ",
      "\x1aE\xdf\xa3",
      "OggS",
      "RIFF0000WAVE",
      "fLaC",
      "ID3\x03",
      "\xff\xfb\x90",
      "%PDF",
    ].map((head) => sniffRecording(bytes(head))),
  ).toEqual([
    "video/mp4",
    "audio/mp4",
    "video/webm",
    "audio/ogg",
    "audio/wav",
    "audio/flac",
    "audio/mpeg",
    "audio/mpeg",
    undefined,
  ]);
  expect(
    (["forbidden_address", "dns_failed", "timeout", "too_large"] as const).map((reason) => FAILURE_STATUS[reason]),
  ).toEqual(["invalid_url", "host_unavailable", "temporarily_unavailable", "unsupported_media"]);
});
