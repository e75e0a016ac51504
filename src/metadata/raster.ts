/**
 * Reads the decoded size of a raster picture from its headers, without decoding it. In: bytes of a PNG, JPEG, GIF or
 * WebP. Out: width and height in pixels, each the largest of all parts that a decoder may allocate. Undefined if the
 * size can't be determined; such a picture must not be decoded.
 */
import { sniffPicture } from "./sniff.ts";

export interface RasterSize {
  readonly width: number;
  readonly height: number;
}

/** The size of a picture; undefined if it is of another format, truncated, or of size 0. */
export function rasterSize(bytes: Uint8Array): RasterSize | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let [width, height] = [0, 0];
  try {
    for (const size of sizesOf(view, sniffPicture(bytes))) {
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
