/**
 * From a token's URI to its content: resolution, the gateways in turn, the fetch under its host's bounds, the parse.
 * Everything that goes wrong is a `MetadataFailure` with its reason, the unexpected too: a defect that some content brings
 * out costs the token that has it and no other.
 */
import { AppError } from "../core/errors.ts";
import type { Slots } from "../core/slots.ts";
import type { TransferKind } from "../events/columns.ts";
import { TransferKind as Kind } from "../events/columns.ts";
import type { Fetched, Fetcher, FetchLimits } from "./fetcher.ts";
import type { Hosts } from "./hosts.ts";
import { svgAsUri } from "./normalize.ts";
import { MetadataFailure } from "./outcome.ts";
import { decodeText, type Parsed } from "./parse.ts";
import type { Parser } from "./parser.ts";
import { resolveUri, substituteId } from "./uri.ts";

/** JSON: a megabyte holds a picture drawn in SVG and all its attributes. */
export const JSON_LIMITS: FetchLimits = { maxBytes: 1024 * 1024, firstByteMs: 10_000, totalMs: 20_000 };
/** A picture: ten megabytes are a photograph at full size. */
export const IMAGE_LIMITS: FetchLimits = { maxBytes: 10 * 1024 * 1024, firstByteMs: 10_000, totalMs: 40_000 };

export interface ResolverOptions {
  readonly fetcher: Fetcher;
  readonly hosts: Hosts;
  readonly parser: Parser;
  /** Tokens under way in this process, all chains together. */
  readonly slots: Slots;
  readonly ipfsGateways: readonly string[];
}

/** What a token URI led to. */
export type Resolution = { readonly text: string } | { readonly image: string };

export class Resolver {
  readonly #options: ResolverOptions;

  constructor(options: ResolverOptions) {
    this.#options = options;
  }

  /**
   * What `use` makes of the resolution: it runs while the token still has its slot, so that no more contents are held than
   * there are slots. @throws MetadataFailure, what `use` throws, and the signal's reason when it is aborted
   */
  async metadata<T>(
    uri: string,
    token: { kind: TransferKind; id: bigint },
    signal: AbortSignal,
    use: (resolution: Resolution) => Promise<T>,
  ): Promise<T> {
    const { parser, slots } = this.#options;
    let isRead = false;
    try {
      const exact = token.kind === Kind.erc1155 ? substituteId(uri, token.id) : uri;
      return await this.#load(exact, JSON_LIMITS, signal, async (fetch) =>
        // A slot is only taken by who has its host's leave: what waits for a slow host keeps nobody else waiting.
        slots.run(async () => {
          const content = await fetch();
          const parsed: Parsed = await parser.parse(content, signal);
          const resolution = parsed.kind === "json" ? { text: parsed.text } : { image: pictureUri(exact, content) };
          isRead = true;
          return use(resolution);
        }, signal),
      );
    } catch (error) {
      signal.throwIfAborted();
      throw isRead ? error : asFailure(error);
    }
  }

  /** The bytes behind a picture's URI. @throws MetadataFailure, and the signal's reason when it is aborted */
  async media(uri: string, signal: AbortSignal): Promise<Fetched> {
    try {
      return await this.#load(uri, IMAGE_LIMITS, signal, (fetch) => fetch());
    } catch (error) {
      signal.throwIfAborted();
      throw asFailure(error);
    }
  }

  /** The first of the URI's places that has something `read` can make sense of. */
  async #load<T>(
    uri: string,
    limits: FetchLimits,
    signal: AbortSignal,
    read: (fetch: () => Promise<Fetched>) => Promise<T>,
  ): Promise<T> {
    const { fetcher, hosts, ipfsGateways } = this.#options;
    const target = resolveUri(uri, { ipfsGateways, maxBytes: limits.maxBytes });
    if (target.kind === "inline") return read(async () => target.content);
    let failure = new MetadataFailure("invalid_uri", "no gateway");
    for (const url of target.urls) {
      try {
        const host = URL.parse(url)?.host ?? "";
        const patient = target.urls.length > 1;
        return await hosts.run(host, patient, () => read(() => fetcher.fetch(url, limits, signal)));
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof MetadataFailure)) throw error;
        failure = error;
      }
    }
    throw failure;
  }
}

/** The URI of a picture that a token's own URI is or leads to. */
function pictureUri(uri: string, content: Fetched): string {
  // Drawn into the URI itself without being one: made into one.
  return /^\s*</.test(uri) ? svgAsUri(decodeText(content)) : uri;
}

/** What a token has to be told of what went wrong; what is wrong with this service itself stays what it is. */
function asFailure(error: unknown): Error {
  if (error instanceof MetadataFailure || error instanceof AppError) return error;
  // No word against the content, and worth another attempt: the next version may know better.
  return new MetadataFailure("server_error", "unexpected", error);
}
