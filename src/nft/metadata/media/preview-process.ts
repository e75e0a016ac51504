/**
 * Entry point of the preview process: pictures in, small ones out. The pictures are hostile, so they are opened in a
 * process of its own with an empty environment. It can be killed during a native call without harm to the service.
 * Drawings are sanitised before they are rendered. Messages in and out: `PreviewRequest` and `PreviewMessage`.
 */
import { Parser } from "htmlparser2";
import type { SharpOptions } from "sharp";
import { MetadataFailure } from "../resolve/failure.ts";
import { decodeText, isBmp } from "../resolve/parse.ts";
import { loadImageLibrary } from "./image-library.ts";
import { decodeBmp, encodePng, rasterSize } from "./raster.ts";

export interface PreviewRequest {
  readonly id: number;
  readonly bytes: Uint8Array;
  readonly mimetype: string;
}

/** A WebP preview; its longer side has `size` pixels. */
export interface MadePreview {
  readonly size: number;
  readonly width: number;
  readonly height: number;
  readonly bytes: Uint8Array;
}

/** Sent once the image library is loaded. */
interface PreviewReady {
  readonly kind: "ready";
}

/** The result of one request. `refused`, `overran` and `interrupted` mean the same as in `PreviewOutcome`. */
export type PreviewReply =
  | { readonly kind: "made"; readonly id: number; readonly hash: string; readonly previews: readonly MadePreview[] }
  | { readonly kind: "refused" | "overran" | "interrupted"; readonly id: number };

export type PreviewMessage = PreviewReady | PreviewReply;

const SIZES = [100, 250, 500] as const;
const LARGEST = Math.max(...SIZES);
/** Four times the pixels of a large camera; 256 MB when decoded. */
const MAX_PIXELS = 64_000_000;
const SECONDS = 8;
/** Density of an SVG at its own size: 72 renders one pixel per unit. */
const BASE_DENSITY = 72;

const ELEMENTS: ReadonlySet<string> = new Set(
  (
    "svg g a defs symbol use path rect circle ellipse line polyline polygon text tspan textPath title desc image " +
    "linearGradient radialGradient stop pattern clipPath mask marker filter feBlend feColorMatrix feComponentTransfer " +
    "feComposite feDropShadow feFlood feFuncA feFuncB feFuncG feFuncR feGaussianBlur feMerge feMergeNode feMorphology " +
    "feOffset feTurbulence feDisplacementMap style switch"
  ).split(" "),
);
/** Attributes that refer to another element or a picture. */
const REFERENCES: ReadonlySet<string> = new Set(["href", "xlink:href"]);
const MAX_ELEMENTS = 20_000;
const MAX_DEPTH = 256;
/** Most `use` elements. They repeat other elements; nested, a few of them draw billions. */
const MAX_USES = 2_000;
/** Pixels of all pictures inside a drawing together: decoded, each takes about ten bytes, all at the same time. */
const MAX_SVG_PIXELS = 32_000_000;
const NAME = /^[A-Za-z][A-Za-z0-9_:.-]*$/;
const SAFE_PICTURE = /^data:image\/(?:png|jpe?g|gif|webp|(?:x-ms-)?bmp);base64,[A-Za-z0-9+/\s]*(?:=\s*){0,2}$/i;

async function open({ bytes, mimetype }: PreviewRequest): Promise<{ input: Uint8Array; options: SharpOptions }> {
  if (mimetype === "image/bmp") {
    const { width, height, rgba } = decodeBmp(bytes, MAX_PIXELS);
    return { input: rgba, options: { raw: { width, height, channels: 4 } } };
  }
  if (mimetype !== "image/svg+xml") return { input: bytes, options: {} };
  const input = new TextEncoder().encode(sanitizeSvg(decodeText({ bytes, charset: undefined, mimetype })));
  const sharp = loadImageLibrary();
  const { width = LARGEST, height = LARGEST } = await sharp(input, { limitInputPixels: MAX_PIXELS }).metadata();
  // Render a small drawing large, because enlarging it afterwards would blur it.
  const scale = LARGEST / Math.max(1, width, height);
  return { input, options: { density: Math.min(7_200, Math.max(1, BASE_DENSITY * scale)) } };
}

async function make(request: PreviewRequest): Promise<MadePreview[]> {
  const sharp = loadImageLibrary();
  const { input, options } = await open(request);
  const previews: MadePreview[] = [];
  for (const size of SIZES) {
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

const escapeText = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const escapeAttribute = (text: string): string => escapeText(text).replaceAll('"', "&quot;");

/** True if a style or presentation attribute refers to anything outside the drawing. */
function loads(value: string): boolean {
  // A CSS escape can spell any word.
  if (value.includes("\\") || /@import|expression|javascript:|image-set|@font-face|@namespace/i.test(value))
    return true;
  const references = value.match(/url\s*\(/gi)?.length ?? 0;
  return references !== (value.match(/url\(\s*["']?#[\w.:-]+["']?\s*\)/gi)?.length ?? 0);
}

/** A raster picture inside a drawing. */
interface Embedded {
  readonly reference: string;
  readonly pixels: number;
}

/** The picture in a reference; undefined for any other reference, and for a picture of unknown size. */
function embedded(reference: string, maxPixels: number): Embedded | undefined {
  if (!SAFE_PICTURE.test(reference)) return undefined;
  const bytes = Buffer.from(reference.slice(reference.indexOf(",") + 1), "base64");
  if (!isBmp(bytes)) {
    const size = rasterSize(bytes);
    return size && { reference, pixels: size.width * size.height };
  }
  try {
    // The SVG renderer can't open a BMP picture and would leave an empty area, so convert it.
    const bitmap = decodeBmp(bytes, maxPixels);
    const png = encodePng(bitmap).toString("base64");
    return { reference: `data:image/png;base64,${png}`, pixels: bitmap.width * bitmap.height };
  } catch {
    return undefined;
  }
}

function isSafe(name: string, value: string): boolean {
  const lower = name.toLowerCase();
  if (!NAME.test(name) || lower.startsWith("on") || lower === "xml:base" || lower === "src") return false;
  if (lower === "xmlns" || lower.startsWith("xmlns:")) return false;
  if (REFERENCES.has(lower)) return /^#[\w.:-]+$/.test(value.trim());
  return !/^\s*(?:javascript|vbscript|data|https?|file):/i.test(value) && !loads(value);
}

/** An element that the writer keeps. */
interface Element {
  readonly name: string;
  /** Text of a style sheet so far. It is checked at its end, when all of it is known. */
  style: string;
}

class SvgWriter {
  readonly #parts: string[] = [];
  /** Open elements; undefined for the ones left out. */
  readonly #open: (Element | undefined)[] = [];
  #skipped = 0;
  #elements = 0;
  #uses = 0;
  #pixels = 0;

  open(name: string, attributes: Readonly<Record<string, string>>): void {
    const local = name.replace(/^svg:/, "");
    if (this.#open.length >= MAX_DEPTH || ++this.#elements > MAX_ELEMENTS)
      throw new MetadataFailure("too_large", "svg");
    const isRoot = this.#open.length === 0;
    // A style sheet holds text only. An element in it could split a forbidden word.
    const isInStyle = this.#open.at(-1)?.name === "style";
    if (this.#skipped > 0 || isInStyle || !ELEMENTS.has(local) || (isRoot && local !== "svg")) {
      this.#open.push(undefined);
      this.#skipped++;
      return;
    }
    if (local === "use" && ++this.#uses > MAX_USES) throw new MetadataFailure("too_large", "svg");
    this.#open.push({ name: local, style: "" });
    const namespaces = isRoot ? ' xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"' : "";
    const kept = Object.entries(attributes).map(([attribute, value]) => {
      const written = this.#written(local, attribute, value);
      return written === undefined ? "" : ` ${attribute}="${escapeAttribute(written)}"`;
    });
    this.#parts.push(`<${local}${namespaces}${kept.join("")}>`);
  }

  /** The attribute's value to write; undefined if the attribute is left out. */
  #written(element: string, attribute: string, value: string): string | undefined {
    if (attribute.includes(":") && !/^(?:xlink:href|xml:space)$/.test(attribute)) return undefined;
    if (element !== "image" || !REFERENCES.has(attribute)) return isSafe(attribute, value) ? value : undefined;
    const picture = embedded(value.trim(), MAX_SVG_PIXELS - this.#pixels);
    this.#pixels += picture?.pixels ?? 0;
    if (this.#pixels > MAX_SVG_PIXELS) throw new MetadataFailure("too_large", "pictures in an svg");
    return picture?.reference;
  }

  text(text: string): void {
    const within = this.#open.at(-1);
    if (this.#skipped > 0 || within === undefined) return;
    if (within.name === "style") within.style += text;
    else this.#parts.push(escapeText(text));
  }

  close(): void {
    const element = this.#open.pop();
    if (element === undefined) {
      this.#skipped = Math.max(0, this.#skipped - 1);
      return;
    }
    const { name, style } = element;
    if (!loads(style)) this.#parts.push(escapeText(style));
    this.#parts.push(`</${name}>`);
  }

  finish(): string {
    return this.#parts.join("");
  }
}

/**
 * Sanitises an SVG drawing: writes it anew with allowed elements and attributes only. The result has no script, event
 * handler, loading style sheet or entity declaration. It refers only to its own elements and to raster pictures inside
 * it. Elements and picture pixels are bounded.
 * @throws MetadataFailure if it is no SVG, or too large
 */
export function sanitizeSvg(source: string): string {
  const writer = new SvgWriter();
  const parser = new Parser(
    {
      onopentag: (name, attributes) => writer.open(name, attributes),
      ontext: (text) => writer.text(text),
      onclosetag: () => writer.close(),
    },
    // In XML mode the parser skips declarations, processing instructions and comments, and knows only XML's five
    // entities.
    { xmlMode: true, decodeEntities: true },
  );
  parser.write(source);
  parser.end();
  const svg = writer.finish();
  if (!svg.startsWith("<svg ")) throw new MetadataFailure("not_json", "not a drawing");
  return svg;
}

/** Messages of the image library and the engine when the machine lacks memory, disk or file handles. */
const MACHINE_FAULT = /memory|alloc|no space left|temporary file|too many open files/i;

/** Classifies an error: the library's time limit, a fault of the machine, or else a picture that can't be opened. */
function kindOf(error: unknown): "refused" | "overran" | "interrupted" {
  if (error instanceof MetadataFailure) return "refused";
  const message = String((error as Error).message);
  if (message.startsWith("timeout: ")) return "overran";
  return MACHINE_FAULT.test(message) ? "interrupted" : "refused";
}

/** Makes previews for the parent process until that disconnects. @throws if there is no image library */
export function servePreviews(): void {
  const sharp = loadImageLibrary();
  sharp.cache(false);
  sharp.concurrency(1);
  const send = (message: PreviewMessage) => process.send?.(message);
  process.on("disconnect", () => process.exit(0));
  process.on("message", (request: PreviewRequest) => {
    const { id, bytes } = request;
    const hash = new Bun.CryptoHasher("sha256").update(bytes).digest("hex");
    make(request).then(
      (previews) => send({ kind: "made", id, hash, previews }),
      (error: unknown) => send({ kind: kindOf(error), id }),
    );
  });
  send({ kind: "ready" });
}

// A test imports the sanitiser, and the program in one file calls `servePreviews`.
if (import.meta.main) servePreviews();
