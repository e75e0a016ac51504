/**
 * The preview process: pictures in, small ones out. A process of its own, with nothing in its environment, because what
 * it opens is hostile: it can be killed in the middle of a native call, and takes no one with it. In and out: messages
 * of `previews.ts`.
 */
import sharp, { type SharpOptions } from "sharp";
import { decodeBmp } from "./bmp.ts";
import { decodeText } from "./parse.ts";
import type { Preview, PreviewReply, PreviewRequest } from "./previews.ts";
import { sanitizeSvg } from "./svg.ts";

/** 64 megapixels are four times a large camera's; opened they are 256 MB. */
const MAX_PIXELS = 64_000_000;
const SECONDS = 8;
/** Density at which a drawing is rendered: 72 gives one pixel for each of its units. */
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
  // A small drawing is rendered large rather than enlarged afterwards.
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
