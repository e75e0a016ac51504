/**
 * Entry point of the preview process: pictures in, small ones out. The pictures are hostile, so they are opened in a
 * process of its own with an empty environment. It can be killed during a native call without harm to the service.
 * Messages in and out: `PreviewRequest` and `PreviewReply`.
 */
import sharp, { type SharpOptions } from "sharp";
import { decodeText } from "../resolve/parse.ts";
import { decodeBmp } from "./raster.ts";
import { sanitizeSvg } from "./svg.ts";

/** Four times the pixels of a large camera; 256 MB when decoded. */
const MAX_PIXELS = 64_000_000;
const SECONDS = 8;
/** Density of an SVG at its own size: 72 renders one pixel per unit. */
const BASE_DENSITY = 72;

sharp.cache(false);
sharp.concurrency(1);

async function open(
  bytes: Uint8Array,
  mimetype: string,
  largest: number,
): Promise<{ input: Uint8Array; options: SharpOptions }> {
  if (mimetype === "image/bmp") {
    const { width, height, rgba } = decodeBmp(bytes, MAX_PIXELS);
    return { input: rgba, options: { raw: { width, height, channels: 4 } } };
  }
  if (mimetype !== "image/svg+xml") return { input: bytes, options: {} };
  const input = new TextEncoder().encode(sanitizeSvg(decodeText({ bytes, charset: undefined, mimetype })));
  const { width = largest, height = largest } = await sharp(input, { limitInputPixels: MAX_PIXELS }).metadata();
  // Render a small drawing large, because enlarging it afterwards would blur it.
  const scale = largest / Math.max(1, width, height);
  return { input, options: { density: Math.min(7_200, Math.max(1, BASE_DENSITY * scale)) } };
}

async function make({ bytes, mimetype, sizes }: PreviewRequest): Promise<Preview[]> {
  const largest = Math.max(...sizes);
  const { input, options } = await open(bytes, mimetype, largest);
  const previews: Preview[] = [];
  for (const size of sizes) {
    const { data, info } = await sharp(input, { limitInputPixels: MAX_PIXELS, failOn: "error", pages: 1, ...options })
      .timeout({ seconds: SECONDS })
      .rotate()
      .resize({ width: size, height: size, fit: "inside" })
      .webp({ quality: 80 })
      .toBuffer({ resolveWithObject: true });
    previews.push({ size, width: info.width, height: info.height, bytes: new Uint8Array(data) });
  }
  return previews;
}

function reply(message: PreviewReply): void {
  process.send?.(message);
}

process.on("disconnect", () => process.exit(0));
process.on("message", (request: PreviewRequest) => {
  const hash = new Bun.CryptoHasher("sha256").update(request.bytes).digest("hex");
  make(request).then(
    (previews) => reply({ id: request.id, hash, previews }),
    (error: unknown) => reply({ id: request.id, hash, error: error instanceof Error ? error.message : String(error) }),
  );
});

export interface PreviewRequest {
  readonly id: number;
  readonly bytes: Uint8Array;
  readonly mimetype: string;
  readonly sizes: readonly number[];
}

/** A WebP preview; its longer side has `size` pixels. */
export interface Preview {
  readonly size: number;
  readonly width: number;
  readonly height: number;
  readonly bytes: Uint8Array;
}

/** `hash`: SHA-256 of the original in hex. */
export type PreviewReply =
  | { readonly id: number; readonly hash: string; readonly previews: readonly Preview[] }
  | { readonly id: number; readonly hash: string; readonly error: string };
