/**
 * Raster pictures: reads their decoded size, decodes BMP and encodes PNG. The size comes from the
 * headers of a PNG, JPEG, GIF or WebP, without decoding it: the largest of all parts that a decoder may allocate. A
 * picture of unknown size must not be decoded.
 */
import { crc32, deflateSync } from "node:zlib";
import { isBmp, sniffPicture } from "../resolve/parse.ts";

const SIGNATURE = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");
/** Eight bits each of red, green, blue and alpha; no interlacing. */
const FORMAT = [8, 6, 0, 0, 0] as const;

function chunk(name: string, data: Uint8Array): Buffer {
  const named = Buffer.concat([Buffer.from(name, "latin1"), data]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  sum.writeUInt32BE(crc32(named));
  return Buffer.concat([length, named, sum]);
}

/** The picture as a PNG file. Synchronous, because the SVG sanitiser can't await. */
export function encodePng({ width, height, rgba }: Raster): Buffer {
  const header = Buffer.alloc(8 + FORMAT.length);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set(FORMAT, 8);
  const stride = width * 4;
  // The first byte of each row is its filter, 0 for none.
  const rows = new Uint8Array((stride + 1) * height);
  for (let row = 0; row < height; row++) {
    rows.set(rgba.subarray(row * stride, (row + 1) * stride), row * (stride + 1) + 1);
  }
  const data = deflateSync(rows);
  return Buffer.concat([SIGNATURE, chunk("IHDR", header), chunk("IDAT", data), chunk("IEND", new Uint8Array())]);
}

interface RasterSize {
  readonly width: number;
  readonly height: number;
}

/** The pixels of a picture. */
interface Raster extends RasterSize {
  /** Four bytes per pixel, the top row first. */
  readonly rgba: Uint8Array;
}

interface RasterHeader extends RasterSize {
  readonly isFromAbove: boolean;
  readonly bits: number;
  /** Byte offset of the pixels. */
  readonly offset: number;
  readonly palette: { readonly at: number; readonly count: number; readonly bytesEach: 3 | 4 };
  /** Bit masks of red, green, blue and alpha in a pixel of 16 or 32 bits. */
  readonly masks: readonly number[];
}

const CORE_HEADER = 12;
const INFO_HEADER = 40;
const FILE_HEADER = 14;
const [UNCOMPRESSED, WITH_MASKS, WITH_ALPHA_MASK] = [0, 3, 6];
/** The masks follow the fields of the usual header, in the header itself or after it. */
const MASKS_AT = FILE_HEADER + INFO_HEADER;
const OPAQUE = 255;

/**
 * Decodes an uncompressed BMP file of 1 to 32 bits per pixel, with palette or masks, rows bottom-up or top-down. The
 * image library can't open BMP files; contracts like to draw them, because they need no compression. `fast-bmp` knows no
 * palette, and `bmp-ts` no bound: it allocates what a header asks for.
 * @throws Error if the bytes are compressed, of more than `maxPixels`, or not a BMP file
 */
export function decodeBmp(bytes: Uint8Array, maxPixels: number): Raster {
  if (!isBmp(bytes)) throw new Error("not a BMP file");
  const header = readHeader(viewOf(bytes));
  const { width, height, offset } = header;
  if (width <= 0 || height <= 0 || width * height > maxPixels) throw new Error("a BMP file of size 0, or too large");
  if (offset >= bytes.length) throw new Error("a BMP file without pixels");
  const rgba = new Uint8Array(width * height * 4);
  const stride = Math.ceil((header.bits * width) / 32) * 4;
  const colour = header.bits <= 8 ? paletteColour(bytes, header) : directColour(bytes, header);
  for (let row = 0; row < height; row++) {
    const from = offset + (header.isFromAbove ? row : height - 1 - row) * stride;
    for (let x = 0; x < width; x++) colour(from, x, rgba, (row * width + x) * 4);
  }
  return { width, height, rgba };
}

const viewOf = ({ buffer, byteOffset, byteLength }: Uint8Array): DataView =>
  new DataView(buffer, byteOffset, byteLength);

function readHeader(view: DataView): RasterHeader {
  const offset = view.getUint32(10, true);
  const size = view.getUint32(FILE_HEADER, true);
  if (size === CORE_HEADER) {
    const [width, height] = [view.getUint16(18, true), view.getUint16(20, true)];
    const bits = knownBits(view.getUint16(24, true));
    const palette = { at: FILE_HEADER + size, count: 2 ** bits, bytesEach: 3 } as const;
    return { width, height, isFromAbove: false, bits, offset, palette, masks: defaultMasks(bits) };
  }
  const height = view.getInt32(22, true);
  const bits = knownBits(view.getUint16(28, true));
  const compression = view.getUint32(30, true);
  const hasMasks = compression === WITH_MASKS || compression === WITH_ALPHA_MASK;
  if (compression !== UNCOMPRESSED && !hasMasks) throw new Error("a compressed BMP file");
  const colours = view.getUint32(46, true);
  const masksBehind = size > INFO_HEADER || !hasMasks ? 0 : compression === WITH_ALPHA_MASK ? 16 : 12;
  // Shorter headers have another field, or none, in place of the alpha mask.
  const hasAlpha = hasMasks && (size >= 56 || compression === WITH_ALPHA_MASK);
  const places = hasAlpha ? [0, 4, 8, 12] : [0, 4, 8];
  return {
    width: view.getInt32(18, true),
    height: Math.abs(height),
    isFromAbove: height < 0,
    bits,
    offset,
    palette: { at: FILE_HEADER + size + masksBehind, count: colours === 0 ? 2 ** bits : colours, bytesEach: 4 },
    masks: hasMasks ? places.map((place) => view.getUint32(MASKS_AT + place, true)) : defaultMasks(bits),
  };
}

function knownBits(bits: number): number {
  if (![1, 4, 8, 16, 24, 32].includes(bits)) throw new Error(`a BMP file of ${bits} bits per pixel`);
  return bits;
}

const defaultMasks = (bits: number): number[] => (bits === 16 ? [0x7c00, 0x3e0, 0x1f] : [0xff0000, 0xff00, 0xff]);

/** Writes the colour of pixel `x` of the row that begins at `from`. Bytes past the end of the file count as 0. */
type Colour = (from: number, x: number, rgba: Uint8Array, to: number) => void;

function paletteColour(bytes: Uint8Array, { bits, palette }: RasterHeader): Colour {
  const perByte = 8 / bits;
  const mask = 2 ** bits - 1;
  return (from, x, rgba, to) => {
    const shift = 8 - bits * ((x % perByte) + 1);
    const index = ((bytes[from + Math.floor(x / perByte)] ?? 0) >> shift) & mask;
    const at = palette.at + index * palette.bytesEach;
    for (let part = 0; part < 3; part++) rgba[to + part] = index < palette.count ? (bytes[at + 2 - part] ?? 0) : 0;
    rgba[to + 3] = OPAQUE;
  };
}

function directColour(bytes: Uint8Array, { bits, masks }: RasterHeader): Colour {
  const bytesEach = bits / 8;
  const parts = masks.map((mask) => {
    const low = mask === 0 ? 1 : (mask & -mask) >>> 0;
    return { mask, low, max: Math.max(1, mask / low) };
  });
  return (from, x, rgba, to) => {
    const at = from + x * bytesEach;
    let pixel = 0;
    for (let byte = 0; byte < bytesEach; byte++) pixel += (bytes[at + byte] ?? 0) * 2 ** (8 * byte);
    rgba[to + 3] = OPAQUE;
    for (const [part, { mask, low, max }] of parts.entries()) {
      if (mask === 0 && part === 3) continue;
      rgba[to + part] = Math.round((((pixel & mask) >>> 0) / low / max) * 255);
    }
  };
}

/** The size of a picture; undefined if it is of another format, truncated, or of size 0. */
export function rasterSize(bytes: Uint8Array): RasterSize | undefined {
  let [width, height] = [0, 0];
  try {
    for (const size of sizesOf(viewOf(bytes), sniffPicture(bytes))) {
      width = Math.max(width, size.width);
      height = Math.max(height, size.height);
    }
    return width > 0 && height > 0 ? { width, height } : undefined;
  } catch (error) {
    // A header points past the end of the bytes.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function sizesOf(view: DataView, mimetype: string | undefined): Iterable<RasterSize> {
  switch (mimetype) {
    case "image/png":
      return [{ width: view.getUint32(16), height: view.getUint32(20) }];
    case "image/jpeg":
      return jpegSizes(view);
    case "image/gif":
      return gifSizes(view);
    case "image/webp":
      return webpSizes(view);
    default:
      return [];
  }
}

/** Sizes in the frame headers before the first scan. */
function* jpegSizes(view: DataView): Generator<RasterSize> {
  for (let at = 2; ; ) {
    if (view.getUint8(at) !== 0xff) throw new RangeError("no marker");
    const marker = view.getUint8(at + 1);
    if (marker === 0xff) {
      at++;
      continue;
    }
    // Start of scan.
    if (marker === 0xda) return;
    // Frame markers of all kinds. The numbers C4, C8 and CC in the same range are tables.
    const isFrame = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
    if (isFrame) yield { height: view.getUint16(at + 5), width: view.getUint16(at + 7) };
    const isBare = marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8);
    at += isBare ? 2 : 2 + view.getUint16(at + 2);
  }
}

/** Size of the screen, and the lower right corner of each frame on it. */
function* gifSizes(view: DataView): Generator<RasterSize> {
  const tableBytes = (flags: number) => ((flags & 0x80) === 0 ? 0 : 3 * 2 ** ((flags & 7) + 1));
  const afterBlocks = (from: number) => {
    let at = from;
    for (let size = view.getUint8(at); size !== 0; size = view.getUint8(at)) at += 1 + size;
    return at + 1;
  };
  yield { width: view.getUint16(6, true), height: view.getUint16(8, true) };
  let at = 13 + tableBytes(view.getUint8(10));
  for (let frames = 0; ; ) {
    const block = view.getUint8(at);
    if (block === 0x21) at = afterBlocks(at + 2);
    else if (block === 0x2c) {
      const [left, top] = [view.getUint16(at + 1, true), view.getUint16(at + 3, true)];
      yield { width: left + view.getUint16(at + 5, true), height: top + view.getUint16(at + 7, true) };
      frames++;
      at = afterBlocks(at + 11 + tableBytes(view.getUint8(at + 9)));
    } else if (block === 0x3b && frames > 0) return;
    else throw new RangeError("no block");
  }
}

/** Chunk names of WebP: VP8 (a frame), VP8L (a lossless frame), VP8X (the canvas), ANMF (a frame of an animation). */
const WEBP = { lossy: 0x56503820, lossless: 0x5650384c, canvas: 0x56503858, filmed: 0x414e4d46 } as const;

/** Sizes of the canvas and of the frames on it. */
function* webpSizes(view: DataView): Generator<RasterSize> {
  const u24 = (at: number) => view.getUint16(at, true) | (view.getUint8(at + 2) << 16);
  for (let at = 12; at + 8 <= view.byteLength; ) {
    const name = view.getUint32(at);
    const data = at + 8;
    if (name === WEBP.lossy) {
      yield { width: view.getUint16(data + 6, true) & 0x3fff, height: view.getUint16(data + 8, true) & 0x3fff };
    } else if (name === WEBP.lossless) {
      const bits = view.getUint32(data + 1, true);
      yield { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
    } else if (name === WEBP.canvas) yield { width: u24(data + 4) + 1, height: u24(data + 7) + 1 };
    else if (name === WEBP.filmed) yield { width: u24(data + 6) + 1, height: u24(data + 9) + 1 };
    const length = view.getUint32(at + 4, true);
    at = data + length + (length % 2);
  }
}
