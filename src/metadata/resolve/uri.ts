/**
 * Resolves the URI that a contract returns to inline content, or to a list of http(s) URLs to try in turn. Knows the
 * spellings of IPFS and Arweave addresses that contracts use. It does not check hosts; the fetcher does.
 */
import { TransferKind } from "../../events/columns.ts";
import { MetadataFailure } from "../outcome.ts";
import { repaired } from "./repair.ts";

// Decodes `data:` URIs as contracts write them: base64, percent-encoded, or text that is not encoded at all. In: the
// URI. Out: its media type and bytes.

interface Inline {
  /** Lower case, without parameters; "" if the URI has none. */
  readonly mimetype: string;
  /** Value of the charset parameter, if there is one. */
  readonly charset: string | undefined;
  readonly bytes: Uint8Array;
}

/** Longest media type with parameters: four times the longest registered one. */
const MAX_HEAD = 512;
const encoder = new TextEncoder();

/** Decodes valid percent escapes and leaves the rest: a lone `%` is text more often than an error. */
function percentDecode(text: string): Uint8Array {
  const source = encoder.encode(text);
  const target = new Uint8Array(source.length);
  let length = 0;
  for (let i = 0; i < source.length; i++) {
    const byte = source[i] as number;
    const high = byte === 0x25 ? hexDigit(source[i + 1]) : -1;
    const low = high >= 0 ? hexDigit(source[i + 2]) : -1;
    if (low >= 0) {
      target[length++] = high * 16 + low;
      i += 2;
    } else target[length++] = byte;
  }
  return target.subarray(0, length);
}

function hexDigit(code: number | undefined): number {
  if (code === undefined) return -1;
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const lower = code | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

/**
 * True if the text is JSON that is not encoded. An encoder would have escaped the quotes. Decoding raw JSON would turn
 * escapes of URIs inside it into invalid JSON.
 */
function isRawJson(text: string): boolean {
  return /^\s*\{\s*"/.test(text) && (isJson(text) || isJson(repaired(text) ?? ""));
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"/gs;
/** A JSON string that holds a URI, which owns its escapes. */
const URI_STRING = /^"\s*(?:[a-z][a-z0-9+.-]*:|\/\/)/i;

/**
 * Decodes `%23` in raw JSON: `#` may be the only encoded character, because a URI would end there. If the text has a
 * plain `#`, nothing was encoded. Escapes inside URIs stay, because they belong to those.
 */
function withNumberSigns(json: string): string {
  if (json.includes("#") || !json.includes("%23")) return json;
  return json.replace(STRING, (string) => (URI_STRING.test(string) ? string : string.replaceAll("%23", "#")));
}

/** Values of base64 digits in both alphabets, by character code. */
const [NO_DIGIT, SPACE, PADDING] = [-1, -2, -3];
const DIGITS = new Int8Array(256).fill(NO_DIGIT);
for (const [value, digit] of [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].entries()) {
  DIGITS[digit.charCodeAt(0)] = value;
}
for (const [one, other] of ["-+", "_/"]) {
  DIGITS[(one as string).charCodeAt(0)] = DIGITS[(other as string).charCodeAt(0)] as number;
}
for (const space of " \t\n\v\f\r") DIGITS[space.charCodeAt(0)] = SPACE;
DIGITS["=".charCodeAt(0)] = PADDING;

/** Tolerates white space anywhere and any padding. One pass, because the author decides the length. */
function base64Decode(text: string): Uint8Array {
  const source = text.includes("%") ? percentDecode(text) : encoder.encode(text);
  let end = source.length;
  while (end > 0 && (DIGITS[source[end - 1] as number] as number) <= SPACE) end--;
  const target = new Uint8Array(Math.floor((end * 3) / 4));
  let [length, bits, count] = [0, 0, 0];
  for (let i = 0; i < end; i++) {
    const digit = DIGITS[source[i] as number] as number;
    if (digit === SPACE) continue;
    if (digit < 0) throw new MetadataFailure("bad_encoding", "not base64");
    bits = ((bits & 0x3f) << 6) | digit;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    target[length++] = bits >> count;
  }
  return target.subarray(0, length);
}

/** Decodes a `data:` URI with content of at most `maxBytes`. @throws MetadataFailure */
export function parseDataUri(uri: string, maxBytes: number): Inline {
  const comma = uri.indexOf(",");
  if (comma < 0 || comma > MAX_HEAD)
    throw new MetadataFailure("invalid_uri", "a data URI without a comma after its media type");
  // Base64 is a third longer than its content, percent-encoding up to three times as long.
  if (uri.length - comma > maxBytes * 3) throw new MetadataFailure("too_large");
  const [type = "", ...parameters] = uri.slice("data:".length, comma).split(";");
  const text = uri.slice(comma + 1);
  const names = parameters.map((parameter) => parameter.trim().toLowerCase());
  const bytes = names.includes("base64")
    ? base64Decode(text)
    : isRawJson(text)
      ? encoder.encode(withNumberSigns(text))
      : percentDecode(text);
  if (bytes.length > maxBytes) throw new MetadataFailure("too_large");
  const charset = names.find((name) => name.startsWith("charset="))?.slice("charset=".length);
  return { mimetype: type.trim().toLowerCase(), charset, bytes };
}

type Target =
  /** Content inside the URI, trimmed of padding. `inlineContent` decodes it, which may take long. */
  { readonly kind: "inline"; readonly uri: string } | { readonly kind: "remote"; readonly urls: readonly string[] };

/** Bases without a trailing slash, in order of preference. */
export interface Gateways {
  readonly ipfs: readonly string[];
  readonly arweave: readonly string[];
}

interface UriOptions {
  readonly gateways: Gateways;
  /** Size limit of the content. */
  readonly maxBytes: number;
}

/** Longest web URL. Inline content may be longer. */
const MAX_URL_LENGTH = 8_192;
/** Percent-encoding makes content up to three times as long. */
const MAX_ENCODED = 3;
/** Most `{id}` per URI: each becomes 64 hexadecimal digits, sixteen times as long. */
const MAX_IDS = 1_000;
/** Leading characters that show the kind of a URI. */
const HEAD = 16;

/** CIDv0 (base58), CIDv1 in base32 (either case), base36 and base58. */
const CID =
  "(?:Qm[1-9A-HJ-NP-Za-km-z]{44}|b[a-z2-7]{50,110}|B[A-Z2-7]{50,110}|k[0-9a-z]{50,110}|z[1-9A-HJ-NP-Za-km-z]{46,110})";
// Each pattern has one place for a slash. With two adjacent ones, a run of slashes would backtrack catastrophically.
const BARE_CID = new RegExp(`^(?:/?ipfs/+(?:ipfs/+)*)?(${CID}(?:[/?#].*)?)$`);
const GATEWAY_PATH = new RegExp(`^https?://[^/?#]+/+(?:ipfs/+)+(${CID}(?:[/?#].*)?)$`, "i");
const GATEWAY_IPNS = /^https?:\/\/[^/?#]+\/+ipns\/+([^/?#]+(?:[/?#].*)?)$/i;
const SUBDOMAIN = new RegExp(`^https?://(${CID})\\.ipfs\\.[^/?#]+([/?#].*)?$`);

/** The placeholder of a token's id. URL encoders also encode the braces. */
const ID = /\{id\}|%7bid%7d/i;

/**
 * The URIs that a contract's answer may mean for a token, in the order to try them. ERC-1155 defines `{id}` as 64
 * hexadecimal digits. ERC-721 doesn't define it; its files mostly have decimal names, so that comes first.
 * @throws MetadataFailure if there are too many placeholders
 */
export function urisOfToken(uri: string, { kind, id }: { kind: TransferKind; id: bigint }): readonly string[] {
  const isErc1155 = kind === TransferKind.erc1155;
  // Text of an inline document may contain a literal {id}.
  if (!isErc1155 && isInline(trimPadding(uri))) return [uri];
  const parts = uri.split(ID, MAX_IDS + 2);
  if (parts.length > MAX_IDS + 1) throw new MetadataFailure("invalid_uri", "too many ids");
  if (parts.length === 1) return [uri];
  const hex = parts.join(id.toString(16).padStart(64, "0"));
  return isErc1155 ? [hex] : [parts.join(id.toString()), hex];
}

/** True if a URI has a placeholder for the token's id. */
export const namesId = (uri: string | null): uri is string =>
  uri !== null && uri.length <= MAX_URL_LENGTH && ID.test(uri) && !isInline(trimPadding(uri));

/**
 * Replaces the placeholder in a URI of a token's metadata: by hexadecimal digits for ERC-1155, else by decimal ones.
 */
export const withId = (uri: string, token: { kind: TransferKind; id: bigint }): string =>
  urisOfToken(uri, token)[0] ?? uri;

/** `ipfs/<cid>/path` or `ipns/name/path` for any spelling of an IPFS or IPNS address; undefined for other URIs. */
function distributedPath(uri: string): string | undefined {
  const scheme = /^(ipfs|ipns):(?:\/\/|\/)?(.*)$/is.exec(uri);
  if (scheme !== null) {
    const isName = scheme[1]?.toLowerCase() === "ipns";
    // `ipfs://ipfs/…` repeats the name. `ipfs://ipns/…` means IPNS.
    const [, named, rest = ""] = /^\/*(?:(ipns)\/+|(?:ipfs\/+)*)(.*)$/is.exec(scheme[2] ?? "") ?? [];
    const path = rest.replace(/^\/+/, "");
    if (path === "") throw new MetadataFailure("invalid_uri", "an IPFS address without a CID");
    return isName || named !== undefined ? `ipns/${path}` : `ipfs/${path}`;
  }
  const bare = BARE_CID.exec(uri)?.[1] ?? GATEWAY_PATH.exec(uri)?.[1];
  if (bare !== undefined) return `ipfs/${bare}`;
  const name = GATEWAY_IPNS.exec(uri)?.[1];
  if (name !== undefined) return `ipns/${name}`;
  const [, cid, path = ""] = SUBDOMAIN.exec(uri) ?? [];
  return cid === undefined ? undefined : `ipfs/${cid}${path}`;
}

/** The URLs of a path on the gateways. A `#` is encoded: it is part of a file's name more often than a fragment. */
function gatewayUrls(path: string, gateways: readonly string[]): string[] {
  return gateways.map((gateway) => `${gateway}/${path.replaceAll("#", "%23")}`);
}

/**
 * Trims white space and zero bytes, with which contracts pad strings. Linear, because the author decides the length.
 */
function trimPadding(text: string): string {
  const isPadding = (at: number) => {
    const code = text.charCodeAt(at);
    return code === 0 || code === 0x20 || ((code < 0x20 || code > 0x7f) && /\s/.test(text[at] as string));
  };
  let [from, to] = [0, text.length];
  while (from < to && isPadding(from)) from++;
  while (to > from && isPadding(to - 1)) to--;
  return text.slice(from, to);
}

const isInline = (uri: string): boolean => {
  const head = uri.slice(0, HEAD);
  return /^data:/i.test(head) || textType(head) !== undefined;
};

/** An Arweave id and path, after `ar://` or a URL of arweave.net, with or without a sandbox subdomain. */
const ARWEAVE = /^ar:(?:\/\/|\/)?(.+)$/is;
const ARWEAVE_URL = /^https?:\/\/(?:(?:www|[a-z0-9]{52})\.)?arweave\.net\/+([\w-]{43}(?:[/?#].*)?)$/i;

function arweavePath(uri: string): string | undefined {
  const path = (ARWEAVE.exec(uri) ?? ARWEAVE_URL.exec(uri))?.[1]?.replace(/^\/+/, "");
  if (path === "") throw new MetadataFailure("invalid_uri", "an Arweave address without an id");
  return path;
}

/** The media type of content in place of a URI; undefined for a URI with a scheme. */
function textType(head: string): string | undefined {
  if (head.startsWith("{") || head.startsWith("[")) return "application/json";
  return /^<(?:svg|\?xml)\b/i.test(head) ? "image/svg+xml" : undefined;
}

/** Resolves a URI to the location of its content. @throws MetadataFailure */
export function resolveUri(raw: string, options: UriOptions): Target {
  if (raw.length > options.maxBytes * MAX_ENCODED + MAX_URL_LENGTH) throw new MetadataFailure("too_large");
  const uri = trimPadding(raw);
  if (uri === "") throw new MetadataFailure("no_uri");
  if (isInline(uri)) return { kind: "inline", uri };
  // Check the length first: the patterns below must not run on long text.
  if (uri.length > MAX_URL_LENGTH) throw new MetadataFailure("invalid_uri", "too long");
  const path = distributedPath(uri);
  if (path !== undefined) return { kind: "remote", urls: gatewayUrls(path, options.gateways.ipfs) };
  const arweave = arweavePath(uri);
  if (arweave !== undefined) return { kind: "remote", urls: gatewayUrls(arweave, options.gateways.arweave) };
  const absolute = uri.startsWith("//") ? `https:${uri}` : uri;
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(absolute)?.[1]?.toLowerCase();
  if (scheme === undefined) throw new MetadataFailure("invalid_uri");
  if (scheme !== "http" && scheme !== "https") throw new MetadataFailure("unsupported_scheme", scheme);
  if (!URL.canParse(absolute)) throw new MetadataFailure("invalid_uri");
  return { kind: "remote", urls: [absolute] };
}

/** Decodes an inline URI with content of at most `maxBytes`. @throws MetadataFailure */
export function inlineContent(uri: string, maxBytes: number): Inline {
  const mimetype = textType(uri.slice(0, HEAD));
  if (mimetype === undefined) return parseDataUri(uri, maxBytes);
  if (uri.length > maxBytes) throw new MetadataFailure("too_large");
  const bytes = new TextEncoder().encode(uri);
  if (bytes.length > maxBytes) throw new MetadataFailure("too_large");
  return { mimetype, charset: "utf-8", bytes };
}
