/**
 * Loads the content of a token's URI: finds the locations that the URI means, tries them in turn, fetches within the
 * host's limits, parses. Every problem with the content is a `MetadataFailure` with its reason. An unexpected exception
 * becomes one, too, so that a defect triggered by some content costs only its token.
 */

import { AppError } from "../../../core/errors.ts";
import { baseOf } from "../../../core/gateway.ts";
import type { Semaphore } from "../../../core/semaphore.ts";
import { yieldToEventLoop } from "../../../core/turns.ts";
import { utf8Text } from "../../../core/utf8.ts";
import { hasAmounts, TransferKind } from "../../../events/columns.ts";
import { isPermanent, MetadataFailure } from "./failure.ts";
import type { Fetcher, FetchLimits, Gateways } from "./fetcher.ts";
import type { Hosts } from "./host-limits.ts";
import { svgAsUri } from "./normalize.ts";
import { inlineForm, isInline, type Parsed, percentDecode, type RawContent, type Source } from "./parse.ts";
import type { Parser } from "./parser.ts";

type Target =
  /** Content inside the URI, trimmed of padding. `inlineContent` decodes it, which may take long. */
  | { readonly kind: "inline"; readonly uri: string }
  /** `given`: the last URL, if it is the contract's own spelling of content that the gateways were asked for. */
  | { readonly kind: "remote"; readonly urls: readonly string[]; readonly given: string | undefined };

interface UriOptions {
  readonly gateways: Gateways;
  /** Size limit of the content. */
  readonly maxBytes: number;
  /** Whether a web address of IPFS or Arweave content is asked itself, after the gateways. True by default. */
  readonly asksGiven?: boolean | undefined;
}

/** Percent-encoding makes content up to three times as long. */
const MAX_ENCODED = 3;
/** Most `{id}` per URI: each becomes 64 hexadecimal digits, sixteen times as long. */
const MAX_IDS = 1_000;

/** The placeholder of a token's id. URL encoders also encode the braces. */
const ID = /\{id\}|%7bid%7d/i;
/** A placeholder whose digits can only be hexadecimal. */
const HEX_ID = /0x(?:\{id\}|%7bid%7d)/i;

/**
 * The URIs that a contract's answer may mean for a token, in the order to try them. ERC-1155 and ERC-6909 define `{id}` as 64
 * lower-case hexadecimal digits; some of its files have decimal names nevertheless. ERC-721 doesn't define it; its files
 * mostly have decimal names, so that comes first.
 * @throws MetadataFailure if there are too many placeholders
 */
export function urisOfToken(uri: string, { kind, id }: { kind: TransferKind; id: bigint }): readonly string[] {
  const isDefined = hasAmounts(kind);
  const isDocument = isInline(cleaned(uri));
  // Text of an inline document may contain a literal {id}.
  if (kind === TransferKind.contract || (!isDefined && isDocument)) return [uri];
  const parts = uri.split(ID, MAX_IDS + 2);
  if (parts.length > MAX_IDS + 1) throw new MetadataFailure("invalid_uri", "too many ids");
  if (parts.length === 1) return [uri];
  const hex = parts.join(id.toString(16).padStart(64, "0"));
  const decimal = parts.join(id.toString());
  if (!isDefined) return [decimal, hex];
  return isDocument || HEX_ID.test(uri) ? [hex] : [hex, decimal];
}

/** True if a URI has a placeholder for the token's id. */
export const namesId = (uri: string | null): uri is string =>
  uri !== null && uri.length <= MAX_URL_LENGTH && ID.test(uri) && !isInline(cleaned(uri));

/** Replaces the placeholder in a URI of a token's metadata: by hex digits where the standard defines it, else by decimal ones. */
export const withId = (uri: string, token: { kind: TransferKind; id: bigint }): string =>
  urisOfToken(uri, token)[0] ?? uri;

/**
 * Resolves a URI to its inline content, or to a list of http(s) URLs to try in turn: the gateways, and then the web
 * address that the contract gave. It does not check hosts; the fetcher does.
 * @throws MetadataFailure
 */
export function resolveUri(raw: string, { gateways, maxBytes, asksGiven = true }: UriOptions): Target {
  if (raw.length > maxBytes * MAX_ENCODED + MAX_URL_LENGTH) throw new MetadataFailure("too_large");
  const spelled = readSpelling(raw);
  switch (spelled.kind) {
    case "inline":
      return spelled;
    case "web":
      return { kind: "remote", urls: [spelled.url], given: undefined };
    case "ipfs":
    case "arweave": {
      const bases = gateways[spelled.kind].map(baseOf);
      const urls = bases.map((base) => `${base}/${spelled.path}`);
      // A gateway that is the given host was asked already.
      const isAsked = bases.some((base) => spelled.given?.startsWith(`${base}/`));
      const given = asksGiven && !isAsked ? spelled.given : undefined;
      return { kind: "remote", urls: given === undefined ? urls : [...urls, given], given };
    }
  }
}

/** Limits of JSON: a megabyte holds an SVG drawing and all attributes. */
const JSON_LIMITS: FetchLimits = { maxBytes: 1024 * 1024, firstByteMs: 10_000, totalMs: 20_000 };
/** Limits of a picture: ten megabytes hold a photograph at full size. */
const IMAGE_LIMITS: FetchLimits = { maxBytes: 10 * 1024 * 1024, firstByteMs: 10_000, totalMs: 40_000 };

/** Largest inline URI that is processed without a pause: a visit's window of them has 0.1 MB. */
const MAX_AT_ONCE = 2_048;

export interface ResolverOptions extends Omit<UriOptions, "maxBytes"> {
  readonly fetcher: Fetcher;
  readonly hosts: Hosts;
  readonly parser: Parser;
  /** Slots for tokens in flight in this process, shared by all chains. */
  readonly slots: Semaphore;
}

/** The content of a token URI. `isRepaired`: the text differs from the content, which is not valid JSON. */
export type Resolution =
  | { readonly text: string; readonly isRepaired: boolean }
  // The URI is, or leads to, a picture.
  | { readonly image: string };

export class Resolver {
  readonly #options: ResolverOptions;

  constructor(options: ResolverOptions) {
    this.#options = options;
  }

  /**
   * Loads a token's metadata and returns the result of `use`. `use` runs while the token has its slot, so that the
   * memory for contents is bounded by the number of slots. Collections share the slots of a host fairly.
   * @throws MetadataFailure, the exceptions of `use`, and the signal's reason when it is aborted
   */
  async metadata<T>(
    uri: string,
    token: { kind: TransferKind; id: bigint; collection: string },
    signal: AbortSignal,
    use: (resolution: Resolution) => Promise<T>,
  ): Promise<T> {
    const { parser, slots } = this.#options;
    let isRead = false;
    try {
      let failure: unknown;
      for (const exact of urisOfToken(uri, token)) {
        try {
          return await this.#load(exact, { limits: JSON_LIMITS, collection: token.collection }, signal, async (open) =>
            // Take a slot only after the host's limit allows the fetch, so that a slow host doesn't block other hosts.
            slots.run(async () => {
              const source = await open();
              const parsed: Parsed = await parser.parse(source, signal);
              const resolution =
                parsed.kind === "json"
                  ? { text: parsed.text, isRepaired: parsed.isRepaired }
                  : { image: pictureUri(exact, source) };
              isRead = true;
              return use(resolution);
            }, signal),
          );
        } catch (error) {
          if (isRead || !(error instanceof MetadataFailure)) throw error;
          failure ??= error;
        }
      }
      throw failure;
    } catch (error) {
      signal.throwIfAborted();
      throw isRead ? error : asFailure(error);
    }
  }

  /**
   * Loads the bytes of the URI of a picture of a collection.
   * @throws MetadataFailure, and the signal's reason when it is aborted
   */
  async media(uri: string, collection: string, signal: AbortSignal): Promise<RawContent> {
    const { parser } = this.#options;
    try {
      return await this.#load(uri, { limits: IMAGE_LIMITS, collection }, signal, async (open) => {
        const source = await open();
        return "uri" in source ? parser.content(source, signal) : source;
      });
    } catch (error) {
      signal.throwIfAborted();
      throw asFailure(error);
    }
  }

  /** Calls `read` with each location of the URI in turn, until one succeeds. */
  async #load<T>(
    uri: string,
    { limits, collection }: { limits: FetchLimits; collection: string },
    signal: AbortSignal,
    read: (open: () => Promise<Source>) => Promise<T>,
  ): Promise<T> {
    const { fetcher, hosts, gateways, asksGiven } = this.#options;
    const target = resolveUri(uri, { gateways, maxBytes: limits.maxBytes, asksGiven });
    if (target.kind === "inline") {
      return read(async () => {
        // Pause before long content, because a whole batch of tokens opens at the same time.
        if (target.uri.length > MAX_AT_ONCE) await yieldToEventLoop();
        return { uri: target.uri, maxBytes: limits.maxBytes };
      });
    }
    let failure = new MetadataFailure("invalid_uri", "no gateway");
    for (const url of target.urls) {
      try {
        const isPatient = target.urls.length > 1 && url !== target.given;
        return await hosts.run({ url, collection, isPatient }, () => read(() => fetcher.fetch(url, limits, signal)));
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof MetadataFailure)) throw error;
        // A given address that is refused for good says less than gateways that may answer later.
        if (url !== target.given || target.urls.length === 1 || !isPermanent(error.reason)) failure = error;
      }
    }
    throw failure;
  }
}

/** The picture's URI of a token with a URI that is, or leads to, a picture. */
function pictureUri(uri: string, source: Source): string {
  if (!("uri" in source)) return uri;
  // Raw SVG text in place of a URI: convert it to one.
  return source.uri.startsWith("<") ? svgAsUri(source.uri) : source.uri;
}

/** Converts an exception to the token's failure. An `AppError` is a fault of this service and stays as it is. */
function asFailure(error: unknown): Error {
  if (error instanceof MetadataFailure || error instanceof AppError) return error;
  // A retryable reason, because the content may be fine and the next version of this service may handle it.
  return new MetadataFailure("server_error", "unexpected", error);
}

// The spellings in which contracts write a URI. In: the text of a contract. Out: inline content, the path of
// content-addressed content, or a web address. Pure; it reads nothing and checks no host.

type Spelled =
  | { readonly kind: "inline"; readonly uri: string }
  /** `given`: the web address in which the path was written. Its host may have the content that no gateway has. */
  | { readonly kind: "ipfs" | "arweave"; readonly path: string; readonly given?: string }
  | { readonly kind: "web"; readonly url: string };

/** Longest web URL. Inline content may be longer. */
const MAX_URL_LENGTH = 8_192;
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
function cleaned(raw: string): string {
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
function readSpelling(raw: string): Spelled {
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
