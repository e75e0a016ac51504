/**
 * The spellings in which contracts write a URI. In: the text of a contract. Out: inline content, the path of
 * content-addressed content, or a web address. Pure; it reads nothing and checks no host.
 */
import { utf8Text } from "../../../core/utf8.ts";
import { MetadataFailure } from "./failure.ts";
import { inlineForm, percentDecode } from "./parse.ts";

type Spelled =
  | { readonly kind: "inline"; readonly uri: string }
  /** `given`: the web address in which the path was written. Its host may have the content that no gateway has. */
  | { readonly kind: "ipfs" | "arweave"; readonly path: string; readonly given?: string }
  | { readonly kind: "web"; readonly url: string };

/** Longest web URL. Inline content may be longer. */
export const MAX_URL_LENGTH = 8_192;
/** A URI in hexadecimal is twice as long. */
const MAX_HEX_LENGTH = 2 * MAX_URL_LENGTH + 2;

/** CIDv0 (base58), CIDv1 in base32 (either case), base36, base58 and base16. */
const CID =
  "(?:Qm[1-9A-HJ-NP-Za-km-z]{44}|b[a-z2-7]{50,110}|B[A-Z2-7]{50,110}|k[0-9a-z]{50,110}|z[1-9A-HJ-NP-Za-km-z]{46,110}|[fF]01[0-9a-fA-F]{66,110})";
const STARTS_WITH_CID = new RegExp(`^${CID}(?:[/?#]|$)`);
const IS_CID = new RegExp(`^${CID}$`);
/** What IPNS resolves: a domain, or a key. */
const STARTS_WITH_NAME =
  /^(?:[\w-]+(?:\.[\w-]+)+|k[0-9a-z]{50,110}|bafz[a-z2-7]{50,110}|12D3Koo\w{45}|Qm\w{44})(?:[/?#]|$)/;

/** True for white space, control characters, and characters without a width: contracts pad strings with them. */
function isPadding(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  if (code <= 0x20 || (code >= 0x200b && code <= 0x200d) || code === 0x2060) return true;
  return code > 0x7f && /\s/.test(text[at] as string);
}

/** Trims padding. Linear: the author decides the length. */
function trimPadding(text: string): string {
  let [from, to] = [0, text.length];
  while (from < to && isPadding(text, from)) from++;
  while (to > from && isPadding(text, to - 1)) to--;
  return text.slice(from, to);
}

/** Removes a pair of quotes. Text of JSON inside a JSON string keeps them; the parser decodes it. */
function unquoted(text: string): string {
  const quote = text[0];
  const isPair = text.length >= 2 && (quote === '"' || quote === "'" || quote === "`") && text.endsWith(quote);
  return isPair && !/^"\s*\{\s*\\/.test(text.slice(0, 16)) ? trimPadding(text.slice(1, -1)) : text;
}

/** The start of a URI that may be encoded once more. */
const KNOWN_SCHEME = /^(?:ipfs|ipns|ar|https?|data):/i;
const ENCODED_SCHEME = /^(?:ipfs|ipns|ar|https?|data)%3a/i;
/** Schemes before a whole URI, such as `ipfs://https://…`. */
const OUTER_SCHEMES = /^(?:(?:ipfs|ipns|ar):\/*)+(?=(?:https?|ipfs|ipns|ar|data):)/i;

/** The URI that the text is an encoding of; the text itself if it is none. */
function decoded(text: string): string {
  if (ENCODED_SCHEME.test(text)) return utf8Text(percentDecode(text));
  if (!/^0x(?:[0-9a-f]{2})+$/i.test(text)) return text;
  const uri = trimPadding(utf8Text(Buffer.from(text.slice(2), "hex")));
  return KNOWN_SCHEME.test(uri) || inlineForm(uri) !== undefined ? uri : text;
}

/** Removes what contracts, deployment scripts and spreadsheets put around a URI. */
export function cleaned(raw: string): string {
  const text = unquoted(trimPadding(raw));
  return text.length <= MAX_HEX_LENGTH ? decoded(text) : text;
}

/** The path in one form. UnixFS has no empty names, so runs of slashes are one. */
function tidy(path: string): string {
  const query = path.indexOf("?");
  const [name, rest] = query < 0 ? [path, ""] : [path.slice(0, query), path.slice(query)];
  // A `#` is part of a file's name more often than a fragment, and a `%` alone is no escape.
  const escaped = name.replace(/%(?![0-9a-f]{2})/gi, "%25").replaceAll("#", "%23");
  return escaped.replace(/\/{2,}/g, "/") + rest.replaceAll("#", "%23");
}

/**
 * The path below `ipfs/` or `ipns/`, which may be repeated: `ipfs://ipfs/…`, `/ipfs/ipfs://…`. `ipfs://ipns/…` means
 * IPNS. Undefined if neither is named.
 */
function namedPath(text: string): { readonly name: "ipfs" | "ipns"; readonly rest: string } | undefined {
  let name: "ipfs" | "ipns" | undefined;
  let rest = text;
  for (;;) {
    const [head, found] = /^\/*(ipfs|ipns)(?::\/*|\/+)/i.exec(rest) ?? [];
    if (head === undefined) break;
    name = found?.toLowerCase() as "ipfs" | "ipns";
    rest = rest.slice(head.length);
  }
  return name === undefined ? undefined : { name, rest: rest.replace(/^\/+/, "") };
}

/** The path of an address with a scheme of IPFS, or of a bare path. */
function ipfsPath(uri: string): string | undefined {
  const text = uri.replace(/^(?:web\+)(?=ip[fn]s:)|^dweb:(?=\/*ip[fn]s\/)/i, "");
  if (STARTS_WITH_CID.test(text)) return `ipfs/${text}`;
  const found = namedPath(text);
  if (found === undefined) return undefined;
  const { name, rest } = found;
  if (/^ip[fn]s:/i.test(text)) {
    if (rest === "") throw new MetadataFailure("invalid_uri", "an IPFS address without a CID");
    return `${name}/${rest}`;
  }
  return (name === "ipfs" ? STARTS_WITH_CID : STARTS_WITH_NAME).test(rest) ? `${name}/${rest}` : undefined;
}

/** The path in a web address. Its query is its host's own, and may be an access token: it is not part of the path. */
const pathOf = ({ pathname, search, hash }: URL): string =>
  pathname + (search === "" && hash !== "" ? `%23${hash.slice(1)}` : "");

/** A DNSLink name as the label of a subdomain gateway writes it: `-` for a dot, `--` for a hyphen. */
const domainOf = (label: string): string => label.replace(/--|-/g, (hyphens) => (hyphens === "-" ? "." : "-"));

/** The IPFS path in the address of a gateway, by path or by subdomain. */
function ipfsPathOfUrl(url: URL): string | undefined {
  const [label = "", kind, ...host] = url.hostname.split(".");
  if (host.length > 0 && (kind === "ipfs" || kind === "ipns")) {
    if (IS_CID.test(label)) return `${kind}/${label}${pathOf(url)}`;
    if (kind === "ipns" && label.includes("-")) return `ipns/${domainOf(label)}${pathOf(url)}`;
  }
  const found = /^\/+ip[fn]s\//i.test(url.pathname) ? namedPath(pathOf(url)) : undefined;
  if (found === undefined || found.rest === "") return undefined;
  return found.name === "ipns" || STARTS_WITH_CID.test(found.rest) ? `${found.name}/${found.rest}` : undefined;
}

/** Gateways of Arweave with ids in their paths, with or without a sandbox subdomain. */
const ARWEAVE_HOST =
  /^(?:(?:www|[a-z0-9]{52})\.)?(?:arweave\.net|arweave\.dev|ar-io\.dev|ar-io\.net|permagate\.io|g8way\.io|gateway\.irys\.xyz)$/;

function arweavePathOfUrl(url: URL): string | undefined {
  if (!ARWEAVE_HOST.test(url.hostname)) return undefined;
  return /^\/+(?:raw\/+)?([\w-]{43}(?:[/%].*)?)$/.exec(pathOf(url))?.[1];
}

/** A host without a scheme, before a path. */
const HOST_ALONE = /^(?:[a-z0-9-]+\.)+[a-z]{2,}(?::\d+)?[\\/]/i;

/** The web address with a scheme; undefined if the text is none. */
function webAddress(text: string): string | undefined {
  if (/^[\\/]{2}[^\\/]/.test(text)) return `https:${text}`;
  if (HOST_ALONE.test(text)) return `https://${text}`;
  // A colon that was forgotten.
  return /^https?\/\//i.test(text) ? text.replace("//", "://") : undefined;
}

/** Says what a URI means. @throws MetadataFailure */
export function readSpelling(raw: string): Spelled {
  const text = cleaned(raw);
  if (text === "") throw new MetadataFailure("no_uri");
  const inline = inlineForm(text);
  if (inline !== undefined) return { kind: "inline", uri: inline };
  // Check the length first: the patterns below must not run on long text.
  if (text.length > MAX_URL_LENGTH) throw new MetadataFailure("invalid_uri", "too long");
  const uri = text
    .replace(/[\t\r\n]+/g, "")
    .replaceAll("\\/", "/")
    .replace(OUTER_SCHEMES, "");
  const inner = inlineForm(uri);
  if (inner !== undefined) return { kind: "inline", uri: inner };
  const slashed = uri.replaceAll("\\", "/");
  const path = ipfsPath(slashed);
  if (path !== undefined) return { kind: "ipfs", path: tidy(path) };
  const [scheme, id] = /^(?:ar|arweave):\/*(.*)$/is.exec(slashed) ?? [];
  if (id === "") throw new MetadataFailure("invalid_uri", "an Arweave address without an id");
  if (scheme !== undefined) return { kind: "arweave", path: tidy(id as string) };
  return readWebAddress(uri);
}

function readWebAddress(uri: string): Spelled {
  const given = webAddress(uri) ?? uri;
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(given)?.[1]?.toLowerCase();
  if (scheme === undefined) throw new MetadataFailure("invalid_uri");
  if (scheme !== "http" && scheme !== "https") throw new MetadataFailure("unsupported_scheme", scheme);
  const url = URL.parse(given);
  if (url === null) throw new MetadataFailure("invalid_uri");
  const ipfs = ipfsPathOfUrl(url);
  if (ipfs !== undefined) return { kind: "ipfs", path: tidy(ipfs), given };
  const arweave = arweavePathOfUrl(url);
  if (arweave !== undefined) return { kind: "arweave", path: tidy(arweave), given };
  return { kind: "web", url: given };
}
