/**
 * Loads the content of a token's URI: finds the locations that the URI means, tries them in turn, fetches within the
 * host's limits, parses. Every problem with the content is a `MetadataFailure` with its reason. An unexpected exception
 * becomes one, too, so that a defect triggered by some content costs only its token.
 */
import { AppError } from "../../../core/errors.ts";
import { baseOf } from "../../../core/gateway.ts";
import type { Semaphore } from "../../../core/semaphore.ts";
import { yieldToEventLoop } from "../../../core/turns.ts";
import { hasAmounts, TransferKind } from "../../../events/columns.ts";
import { isPermanent, MetadataFailure } from "./failure.ts";
import type { Fetcher, FetchLimits, Gateways } from "./fetcher.ts";
import type { Hosts } from "./host-limits.ts";
import { svgAsUri } from "./normalize.ts";
import { isInline, type Parsed, type ParseSource, type RawContent } from "./parse.ts";
import type { Parser } from "./parser.ts";
import { cleaned, MAX_URL_LENGTH, readSpelling } from "./uri-spellings.ts";

type UriTarget =
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
export function resolveUri(raw: string, { gateways, maxBytes, asksGiven = true }: UriOptions): UriTarget {
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
    read: (open: () => Promise<ParseSource>) => Promise<T>,
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
function pictureUri(uri: string, source: ParseSource): string {
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
