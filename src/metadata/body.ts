/**
 * Reads a response's body within one size limit. It applies to the announced length, to the bytes received, and to the
 * decompressed bytes. The response is destroyed as soon as one of them exceeds the limit.
 */
import type { IncomingMessage } from "node:http";
import type { Transform } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import type { Fetched } from "./fetcher.ts";
import { MetadataFailure } from "./outcome.ts";

/** A map, not an object: a server may send the name of an object's inherited property. */
const DECODERS: ReadonlyMap<string, () => Transform> = new Map([
  ["gzip", createGunzip],
  ["x-gzip", createGunzip],
  ["deflate", createInflate],
  ["br", createBrotliDecompress],
]);

/** @throws MetadataFailure, and the signal's reason when it is aborted */
export async function readBody(response: IncomingMessage, maxBytes: number, signal: AbortSignal): Promise<Fetched> {
  const announced = Number(response.headers["content-length"] ?? 0);
  if (announced > maxBytes) throw new MetadataFailure("too_large", "content-length");
  const encoding = (response.headers["content-encoding"] ?? "identity").trim().toLowerCase();
  const decoder = DECODERS.get(encoding)?.();
  if (decoder === undefined && encoding !== "identity" && encoding !== "") {
    throw new MetadataFailure("bad_encoding", "content-encoding");
  }
  const bytes = await collect(response, decoder, maxBytes, signal);
  const [type = "", ...parameters] = (response.headers["content-type"] ?? "").split(";");
  const charset = parameters
    .map((parameter) => parameter.trim().toLowerCase())
    .find((parameter) => parameter.startsWith("charset="))
    ?.slice("charset=".length)
    .replace(/^"|"$/g, "");
  return { mimetype: type.trim().toLowerCase(), charset, bytes };
}

function collect(
  response: IncomingMessage,
  decoder: Transform | undefined,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const chunks: Uint8Array[] = [];
    let [received, produced] = [0, 0];
    let isOver = false;
    const end = (error: unknown, bytes?: Uint8Array) => {
      if (isOver) return;
      isOver = true;
      // Settle the promise first: destroying the response emits "aborted".
      if (bytes === undefined) reject(error);
      else resolve(bytes);
      signal.removeEventListener("abort", onAbort);
      response.removeAllListeners("data");
      response.destroy();
      decoder?.destroy();
    };
    const onAbort = () => end(signal.reason);
    const take = (chunk: Uint8Array) => {
      produced += chunk.length;
      if (produced > maxBytes) end(new MetadataFailure("too_large"));
      else chunks.push(chunk);
    };
    const finish = () => end(undefined, new Uint8Array(Buffer.concat(chunks)));
    // Add error listeners first: an error event without one ends the process.
    response.on("error", (error) => end(new MetadataFailure("connection_failed", error.message)));
    response.on("aborted", () => end(new MetadataFailure("connection_failed", "cut off")));
    decoder?.on("error", () => end(new MetadataFailure("bad_encoding", "compression")));
    decoder?.on("drain", () => response.resume());
    decoder?.on("data", take);
    decoder?.on("end", finish);
    signal.addEventListener("abort", onAbort, { once: true });
    response.on("data", (chunk: Uint8Array) => {
      received += chunk.length;
      if (received > maxBytes) end(new MetadataFailure("too_large"));
      else if (decoder === undefined) take(chunk);
      // Back-pressure: pause the response until the decoder has drained its queue.
      else if (!decoder.write(chunk)) response.pause();
    });
    response.on("end", () => {
      if (decoder === undefined) finish();
      else if (!isOver) decoder.end();
    });
    if (signal.aborted) onAbort();
  });
}
