/**
 * From a token's URI to its content: resolution, the gateways in turn, the fetch under its host's bounds, the parse.
 * Everything that goes wrong is a `MetadataFailure` with its reason, the unexpected too: a defect that some content brings
 * out costs the token that has it and no other.
 */
import { AppError } from "../core/errors.ts";
import { otherWork } from "../core/own-thread.ts";
import type { Slots } from "../core/slots.ts";
import type { TransferKind } from "../events/columns.ts";
import type { Fetcher, FetchLimits } from "./fetcher.ts";
import type { Hosts } from "./hosts.ts";
import { svgAsUri } from "./normalize.ts";
import { MetadataFailure } from "./outcome.ts";
import type { Parsed, RawContent, Source } from "./parse.ts";
import type { Parser } from "./parser.ts";
import { type Gateways, resolveUri, urisOfToken } from "./uri.ts";

/** JSON: a megabyte holds a picture drawn in SVG and all its attributes. */
export const JSON_LIMITS: FetchLimits = { maxBytes: 1024 * 1024, firstByteMs: 10_000, totalMs: 20_000 };
/** A picture: ten megabytes are a photograph at full size. */
export const IMAGE_LIMITS: FetchLimits = { maxBytes: 10 * 1024 * 1024, firstByteMs: 10_000, totalMs: 40_000 };

/** Inline content that needs no turn of its own: a visit's window of such is a tenth of a megabyte. */
const MAX_AT_ONCE = 2_048;

export interface ResolverOptions {
  readonly fetcher: Fetcher;
  readonly hosts: Hosts;
  readonly parser: Parser;
  /** Tokens under way in this process, all chains together. */
  readonly slots: Slots;
  readonly gateways: Gateways;
}

/** What a token URI led to. */
export type Resolution =
  | { readonly text: string /** The content is no JSON to the letter. */; readonly isRepaired: boolean }
  | { readonly image: string };

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
      let failure: unknown;
      for (const exact of urisOfToken(uri, token)) {
        try {
          return await this.#load(exact, JSON_LIMITS, signal, async (open) =>
            // A slot is only taken by who has its host's leave: what waits for a slow host keeps nobody else waiting.
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

  /** The bytes behind a picture's URI. @throws MetadataFailure, and the signal's reason when it is aborted */
  async media(uri: string, signal: AbortSignal): Promise<RawContent> {
    const { parser } = this.#options;
    try {
      return await this.#load(uri, IMAGE_LIMITS, signal, async (open) => {
        const source = await open();
        return "uri" in source ? parser.content(source, signal) : source;
      });
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
    read: (open: () => Promise<Source>) => Promise<T>,
  ): Promise<T> {
    const { fetcher, hosts, gateways } = this.#options;
    const target = resolveUri(uri, { gateways, maxBytes: limits.maxBytes });
    if (target.kind === "inline") return read(() => inlineSource(target.uri, limits.maxBytes));
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

/** Content that comes with its URI: a whole batch of tokens has it at once, so that others have their turn in between. */
async function inlineSource(uri: string, maxBytes: number): Promise<Source> {
  if (uri.length > MAX_AT_ONCE) await otherWork();
  return { uri, maxBytes };
}

/** The URI of a picture that a token's own URI is or leads to. */
function pictureUri(uri: string, source: Source): string {
  // Drawn into the URI itself without being one: made into one.
  return "uri" in source && source.uri.startsWith("<") ? svgAsUri(source.uri) : uri;
}

/** What a token has to be told of what went wrong; what is wrong with this service itself stays what it is. */
function asFailure(error: unknown): Error {
  if (error instanceof MetadataFailure || error instanceof AppError) return error;
  // No word against the content, and worth another attempt: the next version may know better.
  return new MetadataFailure("server_error", "unexpected", error);
}
