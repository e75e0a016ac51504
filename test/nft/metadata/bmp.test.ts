/** Bitmaps as contracts draw them: each depth, palettes, both orders of rows, masks, and malformed bitmaps. */
import { afterAll, describe, expect, test } from "bun:test";
import sharp from "sharp";
import { systemClock } from "../../../src/core/clock.ts";
import { silentLogger } from "../../../src/core/logger.ts";
import { sanitizeSvg } from "../../../src/nft/metadata/media/preview-process.ts";
import { Previews } from "../../../src/nft/metadata/media/previews.ts";
import { decodeBmp } from "../../../src/nft/metadata/media/raster.ts";
import { sniffPicture } from "../../../src/nft/metadata/resolve/parse.ts";
import { made } from "../../support/metadata/made.ts";

const previews = new Previews({ clock: systemClock, logger: silentLogger });
afterAll(() => previews.close());
const { signal } = new AbortController();

const u16 = (value: number) => [value & 255, (value >> 8) & 255];
const u32 = (value: number) => [...u16(value & 0xffff), ...u16(value >>> 16)];

interface Drawn {
  readonly width: number;
  /** Negative if the first row is the top row. */
  readonly height: number;
  readonly bits: number;
  /** Rows in the order of the file, without their padding. */
  readonly rows: readonly (readonly number[])[];
  /** Blue, green and red of each colour. */
  readonly palette?: readonly (readonly [number, number, number])[];
  readonly compression?: number;
  readonly masks?: readonly number[];
  /** Size of the header. 12 and 40 are written as such, longer headers are padded after the masks. */
  readonly header?: number;
  /** Number of unused bytes before the pixels. */
  readonly gap?: number;
}

function bmp({ width, height, bits, rows, palette = [], compression = 0, masks = [], header = 40, gap = 0 }: Drawn) {
  const isCore = header === 12;
  const info = isCore
    ? [...u32(12), ...u16(width), ...u16(height), ...u16(1), ...u16(bits)]
    : [
        ...[...u32(header), ...u32(width), ...u32(height), ...u16(1), ...u16(bits), ...u32(compression)],
        ...[...u32(0), ...u32(0), ...u32(0), ...u32(palette.length), ...u32(0)],
      ];
  const behind = masks.flatMap(u32);
  const filled = [...info, ...behind, ...new Array(Math.max(0, header - info.length - behind.length)).fill(0)];
  const colours = palette.flatMap((colour) => [...colour, ...(isCore ? [] : [0])]);
  const pixels = rows.flatMap((row) => [...row, ...new Array((4 - (row.length % 4)) % 4).fill(0)]);
  const offset = 14 + filled.length + colours.length + gap;
  const size = offset + pixels.length;
  const file = [0x42, 0x4d, ...u32(size), ...u32(0), ...u32(offset)];
  return new Uint8Array([...file, ...filled, ...colours, ...new Array(gap).fill(0xee), ...pixels]);
}

const [RED, GREEN, BLUE, WHITE] = [
  [255, 0, 0, 255],
  [0, 255, 0, 255],
  [0, 0, 255, 255],
  [255, 255, 255, 255],
] as const;
const PALETTE = [
  [0, 0, 255],
  [0, 255, 0],
  [255, 0, 0],
  [255, 255, 255],
] as const;

/** Two rows of two pixels: red and green above blue and white. */
const EXPECTED = [RED, GREEN, BLUE, WHITE].flat();
const two = { width: 2, height: 2 };
const BGR = [
  [255, 0, 0, 255, 255, 255],
  [0, 0, 255, 0, 255, 0],
];
const BGRX = [
  [255, 0, 0, 0, 255, 255, 255, 0],
  [0, 0, 255, 0, 0, 255, 0, 0],
];

const FORMS: Readonly<Record<string, Drawn>> = {
  "24 bits": { ...two, bits: 24, rows: BGR },
  "24 bits from above": { ...two, height: -2, bits: 24, rows: BGR.toReversed() },
  "24 bits with a core header": { ...two, bits: 24, rows: BGR, header: 12 },
  "24 bits behind a gap": { ...two, bits: 24, rows: BGR, gap: 7 },
  "24 bits with a long header": { ...two, bits: 24, rows: BGR, header: 124 },
  "32 bits, the fourth byte without a meaning": { ...two, bits: 32, rows: BGRX },
  "16 bits": {
    ...two,
    bits: 16,
    rows: [
      [...u16(31), ...u16(0x7fff)],
      [...u16(31 << 10), ...u16(31 << 5)],
    ],
  },
  "16 bits with masks": {
    ...{ ...two, bits: 16, compression: 3, masks: [0xf800, 0x7e0, 0x1f] },
    rows: [
      [...u16(0x1f), ...u16(0xffff)],
      [...u16(0xf800), ...u16(0x7e0)],
    ],
  },
  "8 bits": {
    ...two,
    bits: 8,
    palette: PALETTE,
    rows: [
      [2, 3],
      [0, 1],
    ],
  },
  "8 bits with a core header": {
    ...{
      ...two,
      bits: 8,
      header: 12,
      rows: [
        [2, 3],
        [0, 1],
      ],
    },
    palette: [...PALETTE, ...new Array<[number, number, number]>(252).fill([0, 0, 0])],
  },
  "4 bits": { ...two, bits: 4, palette: PALETTE, rows: [[0x23], [0x01]] },
};

describe("a bitmap", () => {
  test.each(Object.keys(FORMS))("is read in the form %s", (name) => {
    const bytes = bmp(FORMS[name] as Drawn);
    expect(sniffPicture(bytes)).toBe("image/bmp");
    expect(decodeBmp(bytes, 4)).toEqual({ width: 2, height: 2, rgba: new Uint8Array(EXPECTED) });
  });

  test("of 1 bit is read if it is wider than a byte", () => {
    const bytes = bmp({
      width: 10,
      height: 1,
      bits: 1,
      palette: [PALETTE[0], PALETTE[3]],
      rows: [[0b01010101, 0b01000000]],
    });
    const { rgba } = decodeBmp(bytes, 10);
    expect([...rgba]).toEqual(Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? RED : WHITE)).flat());
  });

  test("has transparency by its alpha mask", () => {
    const masks = [0xff0000, 0xff00, 0xff, 0xff000000];
    const drawn = { width: 2, height: 1, bits: 32, compression: 3, masks, header: 108 };
    const bytes = bmp({ ...drawn, rows: [[0, 0, 255, 128, 0, 255, 0, 0]] });
    expect([...decodeBmp(bytes, 2).rgba]).toEqual([255, 0, 0, 128, 0, 255, 0, 0]);
  });

  test("is black after a truncated end and for colours outside its palette", () => {
    const bytes = bmp({
      ...two,
      bits: 8,
      palette: PALETTE,
      rows: [
        [2, 9],
        [0, 1],
      ],
    }).subarray(0, -4);
    expect([...decodeBmp(bytes, 4).rgba]).toEqual([RED, RED, BLUE, [0, 0, 0, 255]].flat());
  });

  test.each<[string, Uint8Array]>([
    ["compression", bmp({ ...two, bits: 8, compression: 1, palette: PALETTE, rows: [[2, 3]] })],
    ["no width", bmp({ width: 0, height: 1, bits: 24, rows: [] })],
    ["a negative width", bmp({ width: -2, height: 1, bits: 24, rows: [[0]] })],
    ["an unknown number of bits", bmp({ ...two, bits: 7, rows: BGR })],
    ["pixels after the end of the file", bmp({ ...two, bits: 24, rows: BGR }).subarray(0, 54)],
    ["too many pixels", bmp({ width: 100, height: 100, bits: 24, rows: [] })],
    ["the largest possible sides", bmp({ width: 0x7fffffff, height: 0x7fffffff, bits: 1, rows: [[0]] })],
  ])("is refused if it is malformed: %s", (_what, bytes) => {
    expect(() => decodeBmp(bytes, 1_000)).toThrow();
  });

  test("is recognised by more than its first two letters", () => {
    expect(sniffPicture(new TextEncoder().encode("BM is a name, and no picture of any kind at all"))).toBeUndefined();
    expect(sniffPicture(new Uint8Array([0x42, 0x4d]))).toBeUndefined();
  });

  test("has previews in its own colours", async () => {
    const rows = Array.from({ length: 20 }, () => Array.from({ length: 40 }, () => [0xa5, 0x6f, 0x4a]).flat());
    const { previews: small } = await made(previews, bmp({ width: 40, height: 20, bits: 24, rows }), "image/bmp");
    expect(small.map(({ size, width, height }) => [size, width, height])).toEqual([
      [100, 100, 50],
      [250, 250, 125],
      [500, 500, 250],
    ]);
    const { dominant } = await sharp(small[0]!.bytes).stats();
    expect(Math.abs(dominant.b - 0xa5) + Math.abs(dominant.r - 0x4a)).toBeLessThan(32);
    const bad = bmp({ ...two, bits: 8, compression: 1, palette: PALETTE, rows: [[2, 3]] });
    expect((await previews.make(bad, "image/bmp", signal)).kind).toBe("refused");
  });

  test("inside an SVG is rendered, although the renderer itself would leave it out", async () => {
    const rows = Array.from({ length: 4 }, () => Array.from({ length: 4 }, () => [0xa5, 0x6f, 0x4a]).flat());
    const picture = bmp({ width: 4, height: 4, bits: 24, rows });
    const drawing = (bytes: Uint8Array, type = "bmp") =>
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><image width="9" height="9" href="data:image/${type};base64,${Buffer.from(bytes).toString("base64")}"/></svg>`;
    for (const type of ["bmp", "x-ms-bmp", "png"]) {
      const { previews: small } = await made(
        previews,
        new TextEncoder().encode(drawing(picture, type)),
        "image/svg+xml",
      );
      const { channels, dominant } = await sharp(small[0]!.bytes).stats();
      expect(Math.abs(dominant.b - 0xa5) + Math.abs(dominant.r - 0x4a)).toBeLessThan(32);
      // The preview has no transparent pixel.
      expect(channels[3]?.min ?? 255).toBe(255);
    }
    expect(sanitizeSvg(drawing(picture))).toContain('href="data:image/png;base64,');
    const huge = bmp({ width: 30_000, height: 30_000, bits: 1, palette: [PALETTE[0]], rows: [[0]] });
    const packed = bmp({ ...two, bits: 8, compression: 1, palette: PALETTE, rows: [[2, 3]] });
    for (const bad of [huge, packed]) expect(sanitizeSvg(drawing(bad))).not.toContain("href=");
  });
});
