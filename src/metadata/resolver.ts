/**
 * From a token's URI to its content: resolution, the gateways in turn, the fetch under its host's bounds, the parse.
 * Everything that goes wrong is a `MetadataFailure` with its reason.
 */
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
  readonly ipfsGateways: readonly string[];
}

/** What a token URI led to. */
export type Resolution = { readonly text: string } | { readonly image: string };

export class Resolver {
  readonly #options: ResolverOptions;

  constructor(options: ResolverOptions) {
    this.#options = options;
  }

  /** @throws MetadataFailure, and the signal's reason when it is aborted */
  async metadata(uri: string, token: { kind: TransferKind; id: bigint }, signal: AbortSignal): Promise<Resolution> {
    const exact = token.kind === Kind.erc1155 ? substituteId(uri, token.id) : uri;
    return this.#load(exact, JSON_LIMITS, signal, async (content) => {
      const parsed: Parsed = await this.#options.parser.parse(content);
      if (parsed.kind === "json") return { text: parsed.text };
      // Drawn into the URI itself without being one: made into one.
      const raw = /^\s*</.test(exact);
      return { image: raw ? svgAsUri(decodeText(content)) : exact };
    });
  }

  /** The bytes behind a picture's URI. @throws as `metadata` */
  media(uri: string, signal: AbortSignal): Promise<Fetched> {
    return this.#load(uri, IMAGE_LIMITS, signal, async (content) => content);
  }

  /** The first of the URI's places that has something `read` can make sense of. */
  async #load<T>(
    uri: string,
    limits: FetchLimits,
    signal: AbortSignal,
    read: (content: Fetched) => Promise<T>,
  ): Promise<T> {
    const { fetcher, hosts, ipfsGateways } = this.#options;
    const target = resolveUri(uri, { ipfsGateways, maxBytes: limits.maxBytes });
    if (target.kind === "inline") return read(target.content);
    let failure = new MetadataFailure("invalid_uri", "no gateway");
    for (const url of target.urls) {
      try {
        const host = URL.parse(url)?.host ?? "";
        const patient = target.urls.length > 1;
        return await read(await hosts.run(host, patient, () => fetcher.fetch(url, limits, signal)));
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof MetadataFailure)) throw error;
        failure = error;
      }
    }
    throw failure;
  }
}
