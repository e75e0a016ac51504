/**
 * Decodes BMP files, which the image library can't open and contracts like to draw because they need no compression.
 * In: an uncompressed file of 1 to 32 bits per pixel, with palette or masks, rows bottom-up or top-down. Out: RGBA.
 */

export interface Bitmap {
  readonly width: number;
  readonly height: number;
  /** Four bytes per pixel, the top row first. */
  readonly rgba: Uint8Array;
}

interface Header {
  readonly width: number;
  readonly height: number;
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
/** Sizes of the known header kinds: the oldest, the usual one, and those that contain masks. */
const HEADERS: ReadonlySet<number> = new Set([CORE_HEADER, INFO_HEADER, 52, 56, 64, 108, 124]);
const FILE_HEADER = 14;
const [UNCOMPRESSED, WITH_MASKS, WITH_ALPHA_MASK] = [0, 3, 6];
/** The masks follow the fields of the usual header, in the header itself or after it. */
const MASKS_AT = FILE_HEADER + INFO_HEADER;
const OPAQUE = 255;

/** True if the bytes begin like a BMP file. The two letters are not enough, because many texts begin with them. */
export const isBmp = (bytes: Uint8Array): boolean =>
  bytes.length >= FILE_HEADER + CORE_HEADER &&
  bytes[0] === 0x42 &&
  bytes[1] === 0x4d &&
  HEADERS.has(viewOf(bytes).getUint32(FILE_HEADER, true));

/** @throws Error if the bytes are compressed, of more than `maxPixels`, or not a BMP file */
export function decodeBmp(bytes: Uint8Array, maxPixels: number): Bitmap {
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

function readHeader(view: DataView): Header {
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

function paletteColour(bytes: Uint8Array, { bits, palette }: Header): Colour {
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

function directColour(bytes: Uint8Array, { bits, masks }: Header): Colour {
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
