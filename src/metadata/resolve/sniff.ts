/**
 * The type of a picture or recording by its first bytes, because the content types that servers send are often wrong.
 */

const ascii = (bytes: Uint8Array, from: number, to: number): string =>
  String.fromCharCode(...bytes.subarray(from, Math.min(to, bytes.length)));

/** The type of a raster picture that previews can be made of; undefined for other files. */
export function sniffPicture(bytes: Uint8Array): string | undefined {
  const head = ascii(bytes, 0, 16);
  if (head.startsWith("\x89PNG\r\n\x1a\n")) return "image/png";
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (head.startsWith("GIF87a") || head.startsWith("GIF89a")) return "image/gif";
  if (head.startsWith("RIFF") && head.slice(8, 12) === "WEBP") return "image/webp";
  if (head.slice(4, 8) === "ftyp" && /^(?:avif|avis)/.test(head.slice(8, 12))) return "image/avif";
  if (isBmp(bytes)) return "image/bmp";
  return undefined;
}

/** The type of an audio or video file; undefined for other files. */
export function sniffRecording(bytes: Uint8Array): string | undefined {
  const head = ascii(bytes, 0, 16);
  if (head.slice(4, 8) === "ftyp") return /^(?:M4A|M4B)/.test(head.slice(8, 12)) ? "audio/mp4" : "video/mp4";
  if (head.startsWith("\x1a\x45\xdf\xa3")) return "video/webm";
  if (head.startsWith("OggS")) return "audio/ogg";
  if (head.startsWith("RIFF") && head.slice(8, 12) === "WAVE") return "audio/wav";
  if (head.startsWith("fLaC")) return "audio/flac";
  if (head.startsWith("ID3") || /^\xff[\xfb\xf3\xf2]/.test(head)) return "audio/mpeg";
  return undefined;
}

const FILE_HEADER = 14;
/** Sizes of the known header kinds of BMP: the oldest, the usual one, and those that contain masks. */
const BMP_HEADERS: ReadonlySet<number> = new Set([12, 40, 52, 56, 64, 108, 124]);

/** True if the bytes begin like a BMP file. The two letters are not enough, because many texts begin with them. */
export const isBmp = (bytes: Uint8Array): boolean =>
  bytes.length >= FILE_HEADER + 12 &&
  bytes[0] === 0x42 &&
  bytes[1] === 0x4d &&
  BMP_HEADERS.has(Buffer.from(bytes.buffer, bytes.byteOffset).readUInt32LE(FILE_HEADER));
