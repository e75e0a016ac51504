/**
 * Reads a response's body within a size limit, and decompresses it. In: a response whose header was read. Out: bytes with
 * their media type, or the reason why there are none.
 */
import type { IncomingMessage } from "node:http";
import { EncodingError, gunzipped, readBody } from "../../../core/decompress.ts";
import { messageOf } from "../../../core/errors.ts";
import { MetadataFailure } from "./failure.ts";
import { gunzipFailure, isGzip, type RawContent, readMediaType } from "./parse.ts";

/**
 * Reads a response's body within one size limit. It applies to the announced length, to the bytes received, and to the
 * decompressed bytes. The response is destroyed as soon as one of them exceeds the limit.
 * @throws MetadataFailure, and the signal's reason when it is aborted
 */
export async function readContent(
  response: IncomingMessage,
  maxBytes: number,
  signal: AbortSignal,
): Promise<RawContent> {
  const announced = Number(response.headers["content-length"] ?? 0);
  if (announced > maxBytes) throw new MetadataFailure("too_large", "content-length");
  const stop = () => response.destroy();
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    const encoding = response.headers["content-encoding"];
    const { bytes, isTooLarge, error } = await readBody(response, { encoding, maxBytes });
    signal.throwIfAborted();
    if (isTooLarge) throw new MetadataFailure("too_large");
    if (error instanceof EncodingError) throw new MetadataFailure("bad_encoding", "compression");
    if (error !== undefined) throw new MetadataFailure("connection_failed", messageOf(error));
    const { mimetype, charset } = readMediaType(response.headers["content-type"] ?? "");
    return { mimetype, charset, bytes: await decompressed(bytes, maxBytes) };
  } catch (error) {
    if (error instanceof EncodingError) throw new MetadataFailure("bad_encoding", "content-encoding");
    throw error;
  } finally {
    signal.removeEventListener("abort", stop);
    stop();
  }
}

/** Decompresses a file that is stored compressed, which its host does not announce. @throws MetadataFailure */
async function decompressed(bytes: Uint8Array, maxBytes: number): Promise<Uint8Array> {
  if (!isGzip(bytes)) return bytes;
  try {
    return await gunzipped(bytes, maxBytes);
  } catch (error) {
    throw gunzipFailure(error);
  }
}
