/**
 * Loads the content of a token's URI: finds the locations that the URI means, tries them in turn, fetches within the
 * host's limits, parses. Every problem with the content is a `MetadataFailure` with its reason. An unexpected exception
 * becomes one, too, so that a defect triggered by some content costs only its token.
 */
import { type Semaphore, yieldToEventLoop } from "../../core/background.ts";
import { AppError } from "../../core/errors.ts";
import { TransferKind } from "../../events/columns.ts";
import { MetadataFailure } from "../outcome.ts";
import type { Fetcher, FetchLimits } from "./fetcher.ts";
import type { Hosts } from "./host-limits.ts";
import type { Gateways } from "./hosts.ts";
import { svgAsUri } from "./normalize.ts";
import { isInline, type Parsed, type RawContent, type Source } from "./parse.ts";
import type { Parser } from "./parser.ts";

type Target =
  /** Content inside the URI, trimmed of padding. `inlineContent` decodes it, which may take long. */
  { readonly kind: "inline"; readonly uri: string } | { readonly kind: "remote"; readonly urls: readonly string[] };

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

/** Replaces the placeholder in a URI of a token's metadata: by hex digits for ERC-1155, else by decimal ones. */
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

/** Trims white space and zero bytes, with which contracts pad strings. Linear: the author decides the length. */
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

/** An Arweave id and path, after `ar://` or a URL of arweave.net, with or without a sandbox subdomain. */
const ARWEAVE = /^ar:(?:\/\/|\/)?(.+)$/is;
const ARWEAVE_URL = /^https?:\/\/(?:(?:www|[a-z0-9]{52})\.)?arweave\.net\/+([\w-]{43}(?:[/?#].*)?)$/i;

function arweavePath(uri: string): string | undefined {
  const path = (ARWEAVE.exec(uri) ?? ARWEAVE_URL.exec(uri))?.[1]?.replace(/^\/+/, "");
  if (path === "") throw new MetadataFailure("invalid_uri", "an Arweave address without an id");
  return path;
}

/**
 * Resolves a URI to its inline content, or to a list of http(s) URLs to try in turn. Knows the spellings of IPFS and
 * Arweave addresses that contracts use. It does not check hosts; the fetcher does.
 * @throws MetadataFailure
 */
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

/** Limits of JSON: a megabyte holds an SVG drawing and all attributes. */
const JSON_LIMITS: FetchLimits = { maxBytes: 1024 * 1024, firstByteMs: 10_000, totalMs: 20_000 };
/** Limits of a picture: ten megabytes hold a photograph at full size. */
const IMAGE_LIMITS: FetchLimits = { maxBytes: 10 * 1024 * 1024, firstByteMs: 10_000, totalMs: 40_000 };

/** Largest inline URI that is processed without a pause: a visit's window of them has 0.1 MB. */
const MAX_AT_ONCE = 2_048;

interface ResolverOptions {
  readonly fetcher: Fetcher;
  readonly hosts: Hosts;
  readonly parser: Parser;
  /** Slots for tokens in flight in this process, shared by all chains. */
  readonly slots: Semaphore;
  readonly gateways: Gateways;
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
    const { fetcher, hosts, gateways } = this.#options;
    const target = resolveUri(uri, { gateways, maxBytes: limits.maxBytes });
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
        const isPatient = target.urls.length > 1;
        return await hosts.run({ url, collection, isPatient }, () => read(() => fetcher.fetch(url, limits, signal)));
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof MetadataFailure)) throw error;
        failure = error;
      }
    }
    throw failure;
  }
}

/** The picture's URI of a token with a URI that is, or leads to, a picture. */
function pictureUri(uri: string, source: Source): string {
  // Raw SVG text in place of a URI: convert it to one.
  return "uri" in source && source.uri.startsWith("<") ? svgAsUri(source.uri) : uri;
}

/** Converts an exception to the token's failure. An `AppError` is a fault of this service and stays as it is. */
function asFailure(error: unknown): Error {
  if (error instanceof MetadataFailure || error instanceof AppError) return error;
  // A retryable reason, because the content may be fine and the next version of this service may handle it.
  return new MetadataFailure("server_error", "unexpected", error);
}
