/**
 * Makes a drawing harmless: only elements and attributes of a strict list survive, written anew. No script, no event
 * handler, no style sheet that loads, no reference but to the drawing itself or to a raster picture inside it, no
 * declaration of entities, and no more elements, and pixels in pictures, than a drawing needs.
 */
import { Parser } from "htmlparser2";
import { type Bitmap, decodeBmp, isBmp } from "./bmp.ts";
import { MetadataFailure } from "./outcome.ts";
import { encodePng } from "./png.ts";
import { rasterSize } from "./raster.ts";

const ELEMENTS: ReadonlySet<string> = new Set(
  (
    "svg g a defs symbol use path rect circle ellipse line polyline polygon text tspan textPath title desc image " +
    "linearGradient radialGradient stop pattern clipPath mask marker filter feBlend feColorMatrix feComponentTransfer " +
    "feComposite feDropShadow feFlood feFuncA feFuncB feFuncG feFuncR feGaussianBlur feMerge feMergeNode feMorphology " +
    "feOffset feTurbulence feDisplacementMap style switch"
  ).split(" "),
);
/** Attributes that name another element or a picture. */
const REFERENCES: ReadonlySet<string> = new Set(["href", "xlink:href"]);
const MAX_ELEMENTS = 20_000;
const MAX_DEPTH = 256;
/** Elements that repeat others: nested, a few of them draw billions. */
const MAX_USES = 2_000;
/** Of all pictures inside a drawing: opened they take some ten bytes each, all at once. */
const MAX_PIXELS = 32_000_000;
const NAME = /^[A-Za-z][A-Za-z0-9_:.-]*$/;
const SAFE_PICTURE = /^data:image\/(?:png|jpe?g|gif|webp|(?:x-ms-)?bmp);base64,[A-Za-z0-9+/\s]*(?:=\s*){0,2}$/i;

const escapeText = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const escapeAttribute = (text: string): string => escapeText(text).replaceAll('"', "&quot;");

/** Whether a style or presentation attribute refers to anything but the drawing itself. */
function loads(value: string): boolean {
  // Escapes can spell any word of CSS.
  if (value.includes("\\") || /@import|expression|javascript:|image-set|@font-face|@namespace/i.test(value))
    return true;
  const references = value.match(/url\s*\(/gi)?.length ?? 0;
  return references !== (value.match(/url\(\s*["']?#[\w.:-]+["']?\s*\)/gi)?.length ?? 0);
}

/** A picture inside a drawing. */
interface Embedded {
  readonly reference: string;
  readonly pixels: number;
}

/** The picture that a reference holds; undefined for any other reference, and for what cannot be measured. */
function embedded(reference: string, maxPixels: number): Embedded | undefined {
  if (!SAFE_PICTURE.test(reference)) return undefined;
  const bytes = Buffer.from(reference.slice(reference.indexOf(",") + 1), "base64");
  if (isBmp(bytes)) return bitmapAsPng(bytes, maxPixels);
  const size = rasterSize(bytes);
  return size === undefined ? undefined : { reference, pixels: size.width * size.height };
}

/** The library that renders drawings opens no bitmaps: it would leave an empty place. */
function bitmapAsPng(bytes: Uint8Array, maxPixels: number): Embedded | undefined {
  let bitmap: Bitmap;
  try {
    bitmap = decodeBmp(bytes, maxPixels);
  } catch {
    return undefined;
  }
  const reference = `data:image/png;base64,${encodePng(bitmap).toString("base64")}`;
  return { reference, pixels: bitmap.width * bitmap.height };
}

function isSafe(name: string, value: string): boolean {
  const lower = name.toLowerCase();
  if (!NAME.test(name) || lower.startsWith("on") || lower === "xml:base" || lower === "src") return false;
  if (lower === "xmlns" || lower.startsWith("xmlns:")) return false;
  if (REFERENCES.has(lower)) return /^#[\w.:-]+$/.test(value.trim());
  return !/^\s*(?:javascript|vbscript|data|https?|file):/i.test(value) && !loads(value);
}

/** An element that is written. */
interface Element {
  readonly name: string;
  /** Text of a style sheet so far, whatever else is inside it: it is judged when all of it is there. */
  style: string;
}

class Writer {
  readonly #parts: string[] = [];
  /** Open elements; those left out are undefined. */
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
    // A style sheet holds text and nothing else: an element in it would only take its words apart.
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

  /** The attribute's value as it is written; undefined where it is left out. */
  #written(element: string, attribute: string, value: string): string | undefined {
    if (attribute.includes(":") && !/^(?:xlink:href|xml:space)$/.test(attribute)) return undefined;
    if (element !== "image" || !REFERENCES.has(attribute)) return isSafe(attribute, value) ? value : undefined;
    const picture = embedded(value.trim(), MAX_PIXELS - this.#pixels);
    this.#pixels += picture?.pixels ?? 0;
    if (this.#pixels > MAX_PIXELS) throw new MetadataFailure("too_large", "pictures in an svg");
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

/** The drawing with nothing left in it that acts or loads. @throws MetadataFailure when it is none, or far too large */
export function sanitizeSvg(source: string): string {
  const writer = new Writer();
  const parser = new Parser(
    {
      onopentag: (name, attributes) => writer.open(name, attributes),
      ontext: (text) => writer.text(text),
      onclosetag: () => writer.close(),
    },
    // In XML mode declarations, processing instructions and comments are passed over, and no entity but XML's five known.
    { xmlMode: true, decodeEntities: true },
  );
  parser.write(source);
  parser.end();
  const svg = writer.finish();
  if (!svg.startsWith("<svg ")) throw new MetadataFailure("not_json", "not a drawing");
  return svg;
}
