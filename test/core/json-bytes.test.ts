/** The parser of other machines' JSON: what it refuses because it would take much memory. */
import { describe, expect, test } from "bun:test";
import { isCrowded, jsonIn } from "../../src/core/json-bytes.ts";

const bytesOf = (text: string) => new TextEncoder().encode(text);
const repeated = (one: string, count: number) => bytesOf(`[${Array.from({ length: count }, () => one).join()}]`);

describe("a text of values without content", () => {
  for (const one of ["{}", "[]", '{"a":{}}', "[[[[1]]]]"]) {
    test(`such as ${one} is not parsed if it is long`, () => {
      expect(isCrowded(repeated(one, 100_000))).toBe(true);
      expect(jsonIn(repeated(one, 100_000))).toBeUndefined();
      expect(jsonIn(repeated(one, 100))).toBeArrayOfSize(100);
    });
  }

  test("is not parsed if it is deep", () => {
    expect(jsonIn(bytesOf("[".repeat(1 << 20)))).toBeUndefined();
  });
});

describe("a text is parsed", () => {
  const SHORT_LOG = JSON.stringify({ address: "0x", topics: [], data: "0x", logIndex: "0x0", blockHash: "0x" });
  const ANSWERS = ['{"id":1,"result":"0x"}', '{"jsonrpc":"2.0","id":1,"result":null}', SHORT_LOG];
  for (const one of ANSWERS) {
    test(`that repeats ${one}`, () => expect(jsonIn(repeated(one, 50_000))).toBeArrayOfSize(50_000));
  }

  test("unless it is no JSON", () => {
    expect(jsonIn(bytesOf("<html>"))).toBeUndefined();
    expect(jsonIn(new Uint8Array())).toBeUndefined();
  });
});
