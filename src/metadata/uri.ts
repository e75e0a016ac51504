/**
 * From what a contract calls a URI to what can be fetched: inline content, or a list of http(s) URLs to try in turn.
 * Knows every spelling of IPFS and Arweave seen in the wild; decides nothing about addresses, which is the fetcher's part.
 */
import { TransferKind } from "../events/columns.ts";
import { type Inline, parseDataUri } from "./data-uri.ts";
import { MetadataFailure } from "./outcome.ts";

export type Target =
  /** Written into the URI itself, whose padding is gone: for `inlineContent`, which may take long. */
  { readonly kind: "inline"; readonly uri: string } | { readonly kind: "remote"; readonly urls: readonly string[] };

/** Bases without a trailing slash, in order of preference. */
export interface Gateways {
  readonly ipfs: readonly string[];
  readonly arweave: readonly string[];
}

export interface UriOptions {
  readonly gateways: Gateways;
  /** Of the content. */
  readonly maxBytes: number;
}

/** A URI on the web is short; inline content may be as long as what it holds. */
const MAX_URL_LENGTH = 8_192;
/** Percent-encoding is three times as long as what it holds. */
const MAX_ENCODED = 3;
/** Each `{id}` makes a URI sixteen times as long as itself. */
const MAX_IDS = 1_000;
/** What a URI is can be told from so much of it. */
const HEAD = 16;

/** CIDv0 (base58), CIDv1 in base32 (either case), base36 and base58. */
const CID =
  "(?:Qm[1-9A-HJ-NP-Za-km-z]{44}|b[a-z2-7]{50,110}|B[A-Z2-7]{50,110}|k[0-9a-z]{50,110}|z[1-9A-HJ-NP-Za-km-z]{46,110})";
// A slash has one place in each of these only: with two, a run of them has more ways to be read than there is time.
const BARE_CID = new RegExp(`^(?:/?ipfs/+(?:ipfs/+)*)?(${CID}(?:[/?#].*)?)$`);
const GATEWAY_PATH = new RegExp(`^https?://[^/?#]+/+(?:ipfs/+)+(${CID}(?:[/?#].*)?)$`, "i");
const GATEWAY_IPNS = /^https?:\/\/[^/?#]+\/+ipns\/+([^/?#]+(?:[/?#].*)?)$/i;
const SUBDOMAIN = new RegExp(`^https?://(${CID})\\.ipfs\\.[^/?#]+([/?#].*)?$`);

/** Where a token's id belongs, in every spelling: encoders of URLs encode the braces, too. */
const ID = /\{id\}|%7bid%7d/i;

/**
 * The URIs that a contract's answer may mean for a token, in the order to try them. ERC-1155 says that `{id}` is 64
 * hexadecimal digits. No standard says it of ERC-721. Its files are mostly named in decimal, so that goes first.
 * @throws MetadataFailure when there are too many ids
 */
export function urisOfToken(uri: string, { kind, id }: { kind: TransferKind; id: bigint }): readonly string[] {
  const isErc1155 = kind === TransferKind.erc1155;
  // The text of a document that says {id} may mean just that.
  if (!isErc1155 && isInline(trimPadding(uri))) return [uri];
  const parts = uri.split(ID, MAX_IDS + 2);
  if (parts.length > MAX_IDS + 1) throw new MetadataFailure("invalid_uri", "too many ids");
  if (parts.length === 1) return [uri];
  const hex = parts.join(id.toString(16).padStart(64, "0"));
  return isErc1155 ? [hex] : [parts.join(id.toString()), hex];
}

/** Whether an address says where the token's id belongs. */
export const namesId = (uri: string | null): uri is string =>
  uri !== null && uri.length <= MAX_URL_LENGTH && ID.test(uri) && !isInline(trimPadding(uri));

/** An address inside a token's metadata with its id in place: ERC-1155 has it in any URI, in decimal for an ERC-721. */
export const withId = (uri: string, token: { kind: TransferKind; id: bigint }): string =>
  urisOfToken(uri, token)[0] ?? uri;

/** `<cid>/path` or `name/path` after any spelling of an IPFS or IPNS address; undefined for all else. */
function distributedPath(uri: string): string | undefined {
  const scheme = /^(ipfs|ipns):(?:\/\/|\/)?(.*)$/is.exec(uri);
  if (scheme !== null) {
    const isName = scheme[1]?.toLowerCase() === "ipns";
    // `ipfs://ipfs/…`, and `ipfs://ipns/…`, which names the other system.
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

/** A path on a gateway. What follows a `#` is part of a file's name more often than a fragment. */
function gatewayUrls(path: string, gateways: readonly string[]): string[] {
  return gateways.map((gateway) => `${gateway}/${path.replaceAll("#", "%23")}`);
}

/** Contracts pad strings with zero bytes. Character by character: whoever wrote it decides how many there are. */
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

/** An id and a path on Arweave, after `ar://` or the address of its best known gateway, with or without a sandbox. */
const ARWEAVE = /^ar:(?:\/\/|\/)?(.+)$/is;
const ARWEAVE_URL = /^https?:\/\/(?:(?:www|[a-z0-9]{52})\.)?arweave\.net\/+([\w-]{43}(?:[/?#].*)?)$/i;

function arweavePath(uri: string): string | undefined {
  const path = (ARWEAVE.exec(uri) ?? ARWEAVE_URL.exec(uri))?.[1]?.replace(/^\/+/, "");
  if (path === "") throw new MetadataFailure("invalid_uri", "an Arweave address without an id");
  return path;
}

/** The type of content that is written in a URI's place; undefined where a scheme says what it is. */
function textType(head: string): string | undefined {
  if (head.startsWith("{") || head.startsWith("[")) return "application/json";
  return /^<(?:svg|\?xml)\b/i.test(head) ? "image/svg+xml" : undefined;
}

/** Where the content of a URI is to be had. @throws MetadataFailure */
export function resolveUri(raw: string, options: UriOptions): Target {
  if (raw.length > options.maxBytes * MAX_ENCODED + MAX_URL_LENGTH) throw new MetadataFailure("too_large");
  const uri = trimPadding(raw);
  if (uri === "") throw new MetadataFailure("no_uri");
  if (isInline(uri)) return { kind: "inline", uri };
  // From here on nothing long is looked at.
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

/** The content of at most `maxBytes` that is written into an inline target's URI. @throws MetadataFailure */
export function inlineContent(uri: string, maxBytes: number): Inline {
  const mimetype = textType(uri.slice(0, HEAD));
  if (mimetype === undefined) return parseDataUri(uri, maxBytes);
  if (uri.length > maxBytes) throw new MetadataFailure("too_large");
  const bytes = new TextEncoder().encode(uri);
  if (bytes.length > maxBytes) throw new MetadataFailure("too_large");
  return { mimetype, charset: "utf-8", bytes };
}
