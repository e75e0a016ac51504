/** The byte buffer for text: its content is all appended pieces in order. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { ByteWriter, piece } from "../../src/core/byte-text.ts";

const decode = (bytes: Uint8Array): string => new TextDecoder("utf-8", { fatal: true }).decode(bytes);

type Step =
  | readonly ["piece" | "text" | "ascii", string]
  | readonly ["integer", number]
  | readonly ["hex" | "words", Uint8Array];

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.tuple(fc.constantFrom("piece", "text"), fc.string({ unit: "grapheme", maxLength: 300 })),
  fc.tuple(fc.constant("ascii"), fc.string({ unit: "grapheme-ascii", maxLength: 90 })),
  fc.tuple(fc.constant("integer"), fc.oneof(fc.maxSafeNat(), fc.nat(1_100))),
  fc.tuple(fc.constant("hex"), fc.uint8Array({ maxLength: 40 })),
  fc.tuple(fc.constant("words"), fc.uint8Array({ minLength: 20, maxLength: 20 })),
) as fc.Arbitrary<Step>;

function add(out: ByteWriter, [kind, value]: Step): string {
  switch (kind) {
    case "piece":
      out.add(piece(value));
      return value;
    case "text":
      out.text(value);
      return value;
    case "ascii":
      out.ascii(value);
      return value;
    case "integer":
      out.integer(value);
      return String(value);
    case "hex":
      out.hex(value, 0, value.length);
      return Buffer.from(value).toString("hex");
    case "words":
      out.hexWords(new Int32Array(value.slice().buffer), 1, 4);
      return Buffer.from(value.subarray(4)).toString("hex");
  }
}

test("returns all appended pieces in order, also after the buffer had to grow", () => {
  const out = new ByteWriter();
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), fc.constantFrom(1, 1, 40), (steps, times) => {
      out.start();
      let expected = "";
      for (let i = 0; i < times; i++) for (const one of steps) expected += add(out, one);
      expect(decode(out.view())).toBe(expected);
    }),
    { numRuns: 300 },
  );
});

test("writes powers of ten and their neighbours exactly", () => {
  const out = new ByteWriter();
  for (let power = 1; power < 2 ** 53; power *= 10) {
    for (const value of [power - 1, power, power + 1]) {
      out.start();
      out.integer(value);
      expect(decode(out.view())).toBe(String(value));
    }
  }
});

test("writes whole numbers below 2^53 of any number of digits", () => {
  const out = new ByteWriter();
  const digits = fc.integer({ min: 1, max: 15 }).chain((count) => fc.nat({ max: 10 ** count }));
  fc.assert(
    fc.property(digits, (value) => {
      out.start();
      out.integer(value);
      expect(decode(out.view())).toBe(String(value));
    }),
    { numRuns: 2_000 },
  );
});

test("drops the text of an unfinished or earlier use when it starts again", () => {
  const out = new ByteWriter();
  out.start();
  out.ascii("first");
  out.start();
  out.ascii("half of someth");
  out.start();
  out.ascii("second");
  expect(decode(out.view())).toBe("second");
});
