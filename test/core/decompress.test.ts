/** The bounded reading of bodies: encodings, limits while decompressing, and bodies that break off. */
import { describe, expect, test } from "bun:test";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { EncodingError, gunzipped, gunzippedSync, readBody } from "../../src/core/decompress.ts";
import { gzipBomb, zstdBomb } from "../support/bombs.ts";

const TEXT = Buffer.from("a line of some words, and more of them\n".repeat(50_000));
const LIMIT = TEXT.length;
const PIECE = 1 << 20;

const ENCODED: Readonly<Record<string, Uint8Array>> = {
  gzip: gzipSync(TEXT),
  "x-gzip": gzipSync(TEXT),
  " GZIP ": gzipSync(TEXT),
  deflate: deflateSync(TEXT),
  br: brotliCompressSync(TEXT),
  zstd: Bun.zstdCompressSync(TEXT),
  identity: TEXT,
  "": TEXT,
};

/** Bytes that arrive in pieces, and then what `after` does. */
async function* arriving(bytes: Uint8Array, size = 1_000, after?: () => Promise<void>): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
  await after?.();
}

const never = () => new Promise<void>(() => undefined);
const breaksOff = () => Promise.reject(new Error("reset"));

describe("a body", () => {
  for (const [encoding, bytes] of Object.entries(ENCODED)) {
    test(`in the encoding "${encoding}" is read to its end`, async () => {
      const body = await readBody(arriving(bytes), { encoding, maxBytes: LIMIT });
      expect(body.isTooLarge).toBe(false);
      expect(body.error).toBeUndefined();
      expect(Buffer.compare(body.bytes, TEXT)).toBe(0);
    });

    test(`in the encoding "${encoding}" is refused at one byte more than the limit`, async () => {
      const body = await readBody(arriving(bytes), { encoding, maxBytes: LIMIT - 1 });
      expect(body).toMatchObject({ isTooLarge: true, bytes: new Uint8Array() });
    });

    test(`in the encoding "${encoding}" keeps what came before it broke off`, async () => {
      const half = bytes.subarray(0, Math.floor(bytes.length / 2));
      const body = await readBody(arriving(half, 1_000, breaksOff), { encoding, maxBytes: LIMIT });
      expect((body.error as Error).message).toBe("reset");
      expect(Buffer.compare(body.bytes, TEXT.subarray(0, body.bytes.length))).toBe(0);
    });
  }

  test("that is cut in the encoding zstd is what came, as one without an encoding", async () => {
    for (const encoding of ["zstd", "identity"]) {
      const half = (ENCODED[encoding] as Uint8Array).slice(0, -20);
      const body = await readBody(arriving(half), { encoding, maxBytes: LIMIT });
      expect(body.error).toBeUndefined();
      expect(Buffer.compare(body.bytes, TEXT.subarray(0, body.bytes.length))).toBe(0);
    }
  });

  for (const encoding of ["gzip", "br", "deflate"]) {
    test(`that is cut in the encoding ${encoding} is an error`, async () => {
      const half = (ENCODED[encoding] as Uint8Array).slice(0, -20);
      const body = await readBody(arriving(half), { encoding, maxBytes: LIMIT });
      expect(body.error).toBeInstanceOf(EncodingError);
    });
  }

  for (const encoding of ["gzip", "br", "deflate", "zstd"]) {
    test(`of other bytes than the encoding ${encoding} is an error`, async () => {
      const body = await readBody(arriving(TEXT, TEXT.length, never), { encoding, maxBytes: LIMIT });
      expect(body.error).toBeInstanceOf(EncodingError);
    });
  }

  test("of many files, one behind the other, is read to its end", async () => {
    for (const [encoding, bytes] of [
      ["gzip", gzipSync(TEXT)],
      ["zstd", Bun.zstdCompressSync(TEXT)],
    ] as const) {
      const body = await readBody(arriving(Buffer.concat([bytes, bytes, bytes])), { encoding, maxBytes: 3 * LIMIT });
      expect(body.bytes.length).toBe(3 * LIMIT);
    }
  });

  test("without bytes is empty in each encoding", async () => {
    for (const encoding of Object.keys(ENCODED)) {
      const body = await readBody(arriving(new Uint8Array()), { encoding, maxBytes: 10 });
      expect(body).toEqual({ bytes: Buffer.alloc(0), isTooLarge: false });
    }
    expect(await readBody(null, { encoding: "gzip", maxBytes: 10 })).toMatchObject({ isTooLarge: false });
  });

  test("in an unknown encoding, or in more than one, is refused unread", async () => {
    for (const encoding of ["compress", "gzip, gzip", "constructor", "gzip,zstd"]) {
      const reading = readBody(arriving(TEXT), { encoding, maxBytes: LIMIT });
      expect(await reading.catch((error: unknown) => error)).toBeInstanceOf(EncodingError);
    }
  });

  const BOMBS: readonly (readonly [string, string, Uint8Array])[] = [
    ["zstd", "in one frame", zstdBomb(2 ** 31)],
    ["zstd", "in many frames", zstdBomb(2 ** 31, 1_024)],
    ["gzip", "in one file", gzipBomb(2 ** 31)],
    ["gzip", "in many files", gzipBomb(2 ** 31, 128)],
  ];
  for (const [encoding, form, bomb] of BOMBS) {
    test(`of zeros in ${encoding} ${form} is cut after a piece more than the limit, though it goes on`, async () => {
      const maxBytes = 16 << 20;
      const source = () => arriving(bomb.subarray(0, 1 << 20), 1 << 20, never);
      const body = await readBody(source(), { encoding, maxBytes, keepsCut: true });
      expect(body.isTooLarge).toBe(true);
      expect(body.bytes.length).toBeGreaterThan(maxBytes);
      expect(body.bytes.length).toBeLessThanOrEqual(maxBytes + PIECE);
    });
  }

  test("that grows to hundreds of times its size is stopped below its limit", async () => {
    for (const [encoding, bomb] of [
      ["zstd", zstdBomb(2 ** 27)],
      ["gzip", gzipBomb(2 ** 27)],
    ] as const) {
      const body = await readBody(arriving(bomb, bomb.length), { encoding, maxBytes: 2 ** 28, keepsCut: true });
      expect(body.isTooLarge).toBe(true);
      expect(body.bytes.length).toBeLessThan(40 << 20);
    }
  });

  test("of logs that differ in their token alone is no bomb", async () => {
    const lines = Array.from(
      { length: 50_000 },
      (_, at) =>
        `{"address":"0x${"ab".repeat(20)}","topics":["0x${at.toString(16).padStart(64, "0")}"],"transactionHash":"0x${"cd".repeat(32)}","data":"0x","logIndex":"0x${at.toString(16)}","blockHash":"0x${"ef".repeat(32)}"}`,
    );
    const text = Buffer.from(lines.join());
    expect(text.length).toBeGreaterThan(16 << 20);
    const body = await readBody(arriving(Bun.zstdCompressSync(text)), { encoding: "zstd", maxBytes: text.length });
    expect(body.bytes.length).toBe(text.length);
  });

  test("tells each arrival", async () => {
    let arrivals = 0;
    const bytes = ENCODED["zstd"] as Uint8Array;
    await readBody(arriving(bytes, 100), { encoding: "zstd", maxBytes: LIMIT, onArrival: () => arrivals++ });
    expect(arrivals).toBe(Math.ceil(bytes.length / 100));
  });
});

test("gzip without an announcement is decompressed up to the limit", async () => {
  const packed = gzipSync(TEXT);
  expect((await gunzipped(packed, LIMIT)).length).toBe(LIMIT);
  expect(gunzippedSync(packed, LIMIT).length).toBe(LIMIT);
  for (const run of [gunzipped, async (bytes: Uint8Array, most: number) => gunzippedSync(bytes, most)]) {
    expect(await run(packed, LIMIT - 1).catch((error: unknown) => error)).toBeInstanceOf(RangeError);
    expect(await run(TEXT, LIMIT).catch((error: unknown) => error)).toBeInstanceOf(EncodingError);
  }
});
