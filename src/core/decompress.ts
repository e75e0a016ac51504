/**
 * Reads the bodies of answers that other machines send, compressed or not, within a limit that applies while they are
 * decompressed: a few kilobytes can hold gigabytes. The one place that decompresses what comes from outside.
 */
import type { Transform } from "node:stream";
import {
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
  gunzip,
  gunzipSync,
} from "node:zlib";

// The runtime has it, and its types don't yet.
declare module "node:zlib" {
  function createZstdDecompress(options: { readonly chunkSize: number }): Transform;
}

/**
 * Bytes that a decoder produces at a time: the most by which a body exceeds its limit before it is stopped. Each piece
 * takes a way to another thread and back, so that 64 KB cost a large answer half as much time again.
 */
const PIECE = { chunkSize: 1 << 20 };

/**
 * A body that grows to more than `MAX_GROWTH` times its size is a bomb beyond `MAX_BOMB` bytes, whatever its limit.
 * Blocks and logs have 30 random bytes in a thousand, so that they grow to 30 times, and dense ones to 100 times.
 */
const [MAX_GROWTH, MAX_BOMB] = [250, 16 << 20];
/** Bytes that a decoder gets at a time: they can't grow beyond `MAX_BOMB` unnoticed. */
const FEED = 65_536;

/** A map, not an object: a server may send the name of an object's inherited property. */
const DECODERS: ReadonlyMap<string, () => Transform> = new Map([
  ["gzip", () => createGunzip(PIECE)],
  ["x-gzip", () => createGunzip(PIECE)],
  ["deflate", () => createInflate(PIECE)],
  ["br", () => createBrotliDecompress(PIECE)],
  ["zstd", () => createZstdDecompress(PIECE)],
]);

/** For `accept-encoding`. Left out is `deflate`, which servers send in two forms. */
export const ACCEPTED_ENCODINGS = "zstd, br, gzip";

/** A body's encoding is unknown, or its bytes are not of it. */
export class EncodingError extends Error {}

interface BodyOptions {
  /** The header `content-encoding`; null or undefined without one. Only one encoding is understood, not a list. */
  readonly encoding: string | null | undefined;
  /** Most bytes, before and after decompression. */
  readonly maxBytes: number;
  /** True to return what came of a body that exceeds the limit. Default: nothing of it. */
  readonly keepsCut?: boolean;
  /** Called for each piece that arrives, before it is decompressed. */
  readonly onArrival?: () => void;
}

interface DecompressedBody {
  /** What came: of a body that was cut, up to one piece more than the limit. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** True if the body was stopped because it exceeds the limit, or is a bomb. The caller must end its connection. */
  readonly isTooLarge: boolean;
  /**
   * Why the body ended early: its connection's error, or an EncodingError. `bytes` is then what came before. The runtime
   * does not notice that zstd was cut, as nothing notices it of a body without an encoding.
   */
  readonly error?: unknown;
}

/** Reads a body; null has no bytes. Never throws for what arrives. @throws EncodingError if the encoding is unknown */
export async function readBody(
  source: AsyncIterable<Uint8Array> | null,
  options: BodyOptions,
): Promise<DecompressedBody> {
  const reader = new BodyReader(options);
  return await reader.read(source?.[Symbol.asyncIterator]());
}

class BodyReader {
  readonly #options: BodyOptions;
  readonly #decoder: Transform | undefined;
  readonly #pieces: Uint8Array[] = [];
  /** Bytes that arrived, that the decoder got, and that came out. */
  #received = 0;
  #fed = 0;
  #produced = 0;
  #failure: { readonly error: unknown } | undefined;
  #isTooLarge = false;
  /** True when nothing more is taken: the decoder has ended or failed, or there is too much. */
  #isOver = false;
  readonly #over = Promise.withResolvers<undefined>();

  constructor(options: BodyOptions) {
    this.#options = options;
    this.#decoder = decoderOf(options.encoding);
    this.#decoder?.on("data", (piece: Uint8Array) => this.#take(piece));
    this.#decoder?.on("end", () => this.#end());
    this.#decoder?.on("error", () => {
      this.#failure ??= { error: new EncodingError("the bytes are not of the announced encoding") };
      this.#end();
    });
  }

  async read(arriving: AsyncIterator<Uint8Array> | undefined): Promise<DecompressedBody> {
    try {
      while (!this.#isOver && arriving !== undefined) {
        // A decoder may exceed the limit, or fail, while nothing more arrives.
        const next = await Promise.race([arriving.next(), this.#over.promise]);
        if (next === undefined || next.done === true) break;
        await this.#arrived(next.value);
      }
    } catch (error) {
      this.#failure = { error };
    }
    // Not awaited: a server that keeps sending may never confirm it.
    arriving?.return?.()?.catch(() => undefined);
    if (!this.#isOver && this.#received > 0 && this.#decoder !== undefined) {
      this.#decoder.end();
      await this.#over.promise;
    }
    this.#decoder?.destroy();
    const pieces = this.#pieces;
    if (this.#isTooLarge && this.#options.keepsCut !== true) pieces.length = 0;
    const bytes = pieces.length === 1 ? (pieces[0] as Uint8Array<ArrayBuffer>) : Buffer.concat(pieces);
    return { bytes, isTooLarge: this.#isTooLarge, ...this.#failure };
  }

  async #arrived(bytes: Uint8Array): Promise<void> {
    const decoder = this.#decoder;
    this.#options.onArrival?.();
    this.#received += bytes.length;
    if (decoder === undefined) this.#take(bytes);
    else if (this.#received > this.#options.maxBytes) this.#stop();
    for (let at = 0; decoder !== undefined && !this.#isOver && at < bytes.length; at += FEED) {
      const slice = bytes.subarray(at, at + FEED);
      this.#fed += slice.length;
      // The decoder's queue is bounded: nothing more is read until it has drained.
      if (!decoder.write(slice)) await Promise.race([drained(decoder), this.#over.promise]);
    }
  }

  #take(piece: Uint8Array): void {
    if (this.#isOver) return;
    this.#produced += piece.length;
    this.#pieces.push(piece);
    const isBomb = this.#decoder !== undefined && this.#produced > MAX_BOMB && this.#produced > this.#fed * MAX_GROWTH;
    if (this.#produced > this.#options.maxBytes || isBomb) this.#stop();
  }

  #stop(): void {
    this.#isTooLarge = true;
    this.#end();
  }

  #end(): void {
    this.#isOver = true;
    this.#over.resolve(undefined);
  }
}

function decoderOf(encoding: string | null | undefined): Transform | undefined {
  const name = (encoding ?? "").trim().toLowerCase();
  if (name === "" || name === "identity") return undefined;
  const create = DECODERS.get(name);
  if (create === undefined) throw new EncodingError("the encoding of the answer is unknown");
  return create();
}

const drained = (decoder: Transform): Promise<undefined> =>
  new Promise((resolve) => decoder.once("drain", () => resolve(undefined)));

/** Decompresses gzip. @throws RangeError beyond `maxBytes`; EncodingError */
export function gunzipped(bytes: Uint8Array, maxBytes: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    gunzip(bytes, { maxOutputLength: maxBytes }, (error, plain) => {
      if (error === null) resolve(new Uint8Array(plain));
      else reject(gunzipError(error));
    });
  });
}

/** Decompresses gzip, for small limits. @throws RangeError beyond `maxBytes`; EncodingError */
export function gunzippedSync(bytes: Uint8Array, maxBytes: number): Uint8Array {
  try {
    return new Uint8Array(gunzipSync(bytes, { maxOutputLength: maxBytes }));
  } catch (error) {
    throw gunzipError(error);
  }
}

const gunzipError = (error: unknown): Error =>
  (error as { readonly code?: unknown }).code === "ERR_BUFFER_TOO_LARGE"
    ? new RangeError("the content is too large")
    : new EncodingError("the content is not gzip");
