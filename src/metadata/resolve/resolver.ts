/**
 * Loads the content of a token's URI: resolves it, tries the gateways in turn, fetches within the host's limits,
 * parses. Every problem with the content is a `MetadataFailure` with its reason. An unexpected exception becomes one,
 * too, so that a defect triggered by some content costs only its token.
 */
import { type Semaphore, yieldToEventLoop } from "../../core/background.ts";
import { AppError } from "../../core/errors.ts";
import type { TransferKind } from "../../events/columns.ts";
import { MetadataFailure } from "../outcome.ts";
import type { Fetcher, FetchLimits } from "./fetcher.ts";
import type { Hosts } from "./hosts.ts";
import { svgAsUri } from "./normalize.ts";
import type { Parsed, RawContent, Source } from "./parse.ts";
import type { Parser } from "./parser.ts";
import { type Gateways, resolveUri, urisOfToken } from "./uri.ts";

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
   * memory for contents is bounded by the number of slots.
   * @throws MetadataFailure, the exceptions of `use`, and the signal's reason when it is aborted
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

  /** Loads the bytes of a picture's URI. @throws MetadataFailure, and the signal's reason when it is aborted */
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

  /** Calls `read` with each location of the URI in turn, until one succeeds. */
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

/** Opens inline content. Pauses before a long one, because a whole batch of tokens opens at the same time. */
async function inlineSource(uri: string, maxBytes: number): Promise<Source> {
  if (uri.length > MAX_AT_ONCE) await yieldToEventLoop();
  return { uri, maxBytes };
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
