/**
 * GET /media/:hash/:size: previews by their own SHA-256, without a key. Nothing else of the blob table is served: the
 * bytes must be a picture of ours of that size, whatever the hash names.
 */
import { ApiError } from "../core/errors.ts";
import type { Hash } from "../core/hex.ts";
import { isNamed } from "./respond.ts";

export interface MediaRouteDeps {
  /** A stored preview's bytes; undefined when the hash names none of that size. */
  preview(hash: Hash, size: number): Promise<Uint8Array | undefined>;
}

const HASH = /^[0-9a-f]{64}$/;
const SIZES: ReadonlySet<string> = new Set(["100", "250", "500"]);

export function createMediaRoute(
  deps: MediaRouteDeps,
): (request: Request, hash: string, size: string) => Promise<Response> {
  return async (request, hash, size) => {
    const known = HASH.test(hash) && SIZES.has(size);
    const bytes = known ? await deps.preview(`0x${hash}` as Hash, Number(size)) : undefined;
    if (bytes === undefined) throw new ApiError(404, "not_found", "there is no such preview");
    const headers = {
      "content-type": "image/webp",
      // It is named by its content.
      "cache-control": "public, max-age=31536000, immutable",
      etag: `"${hash}"`,
      "x-content-type-options": "nosniff",
      "content-security-policy": "default-src 'none'; sandbox",
      "cross-origin-resource-policy": "cross-origin",
    };
    const isKnown = isNamed(headers.etag, request.headers.get("if-none-match"));
    return isKnown ? new Response(null, { status: 304, headers }) : new Response(new Uint8Array(bytes), { headers });
  };
}
