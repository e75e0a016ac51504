/**
 * From what a contract calls a URI to what can be fetched: inline content, or a list of http(s) URLs to try in turn.
 * Knows every spelling of IPFS seen in the wild; decides nothing about addresses, which is the fetcher's part.
 */
import { type Inline, parseDataUri } from "./data-uri.ts";
import { MetadataFailure } from "./outcome.ts";

export type Target =
  | { readonly kind: "inline"; readonly content: Inline }
  | { readonly kind: "remote"; readonly urls: readonly string[] };

export interface UriOptions {
  /** Bases without a trailing slash, in order of preference. */
  readonly ipfsGateways: readonly string[];
  readonly maxBytes: number;
}

/** A URI on the web is short; inline content may be as long as what it holds. */
const MAX_URL_LENGTH = 8_192;
/** Each `{id}` makes a URI sixteen times as long as itself. */
const MAX_IDS = 1_000;
/** What a URI is can be told from so much of it. */
const HEAD = 16;
const ARWEAVE_GATEWAY = "https://arweave.net";

/** CIDv0 (base58), CIDv1 in base32 (either case), base36 and base58. */
const CID =
  "(?:Qm[1-9A-HJ-NP-Za-km-z]{44}|b[a-z2-7]{50,110}|B[A-Z2-7]{50,110}|k[0-9a-z]{50,110}|z[1-9A-HJ-NP-Za-km-z]{46,110})";
// A slash has one place in each of these only: with two, a run of them has more ways to be read than there is time.
const BARE_CID = new RegExp(`^(?:/?ipfs/+(?:ipfs/+)*)?(${CID}(?:[/?#].*)?)$`);
const GATEWAY_PATH = new RegExp(`^https?://[^/?#]+/+(?:ipfs/+)+(${CID}(?:[/?#].*)?)$`, "i");
const GATEWAY_IPNS = /^https?:\/\/[^/?#]+\/+ipns\/+([^/?#]+(?:[/?#].*)?)$/i;
const SUBDOMAIN = new RegExp(`^https?://(${CID})\\.ipfs\\.[^/?#]+([/?#].*)?$`);

/** Replaces `{id}` as ERC-1155 has it: 64 hex digits in lower case. @throws MetadataFailure when there are too many */
export function substituteId(uri: string, id: bigint): string {
  const parts = uri.split("{id}", MAX_IDS + 2);
  if (parts.length > MAX_IDS + 1) throw new MetadataFailure("invalid_uri", "too many ids");
  return parts.length === 1 ? uri : parts.join(id.toString(16).padStart(64, "0"));
}

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
  const isPadding = (at: number) => text[at] === "\0" || /\s/.test(text[at] as string);
  let [from, to] = [0, text.length];
  while (from < to && isPadding(from)) from++;
  while (to > from && isPadding(to - 1)) to--;
  return text.slice(from, to);
}

/** Where the content of a URI is to be had. @throws MetadataFailure */
export function resolveUri(raw: string, options: UriOptions): Target {
  const uri = trimPadding(raw);
  if (uri === "") throw new MetadataFailure("no_uri");
  const head = uri.slice(0, HEAD);
  if (/^data:/i.test(head)) return { kind: "inline", content: parseDataUri(uri, options.maxBytes) };
  if (head.startsWith("{") || head.startsWith("[")) return inlineText("application/json", uri, options);
  if (/^<(?:svg|\?xml)\b/i.test(head)) return inlineText("image/svg+xml", uri, options);
  // From here on nothing long is looked at.
  if (uri.length > MAX_URL_LENGTH) throw new MetadataFailure("invalid_uri", "too long");
  const path = distributedPath(uri);
  if (path !== undefined) return { kind: "remote", urls: gatewayUrls(path, options.ipfsGateways) };
  const arweave = /^ar:(?:\/\/|\/)?(.+)$/is.exec(uri)?.[1]?.replace(/^\/+/, "");
  if (arweave !== undefined) return { kind: "remote", urls: [`${ARWEAVE_GATEWAY}/${arweave}`] };
  const absolute = uri.startsWith("//") ? `https:${uri}` : uri;
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(absolute)?.[1]?.toLowerCase();
  if (scheme === undefined) throw new MetadataFailure("invalid_uri");
  if (scheme !== "http" && scheme !== "https") throw new MetadataFailure("unsupported_scheme", scheme);
  if (!URL.canParse(absolute)) throw new MetadataFailure("invalid_uri");
  return { kind: "remote", urls: [absolute] };
}

function inlineText(mimetype: string, text: string, { maxBytes }: UriOptions): Target {
  if (text.length > maxBytes) throw new MetadataFailure("too_large");
  const bytes = new TextEncoder().encode(text);
  if (bytes.length > maxBytes) throw new MetadataFailure("too_large");
  return { kind: "inline", content: { mimetype, charset: "utf-8", bytes } };
}
