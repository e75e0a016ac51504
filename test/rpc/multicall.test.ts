/** The service's own encoding of Multicall3 and decoding of returned bytes, compared with ethers'. */
import { describe, expect, test } from "bun:test";
import { AbiCoder, hexlify, Interface } from "ethers";
import { createRandom } from "../../scripts/local-chain/random.ts";
import type { Address } from "../../src/core/hex.ts";
import { aggregateCalls, aggregatedResults } from "../../src/rpc/call-batches.ts";
import { onlyBytes } from "../../src/rpc/calls.ts";

const ORACLE = new Interface([
  "function aggregate3((address target, bool allowFailure, bytes callData)[] calls) returns ((bool success, bytes returnData)[])",
]);
const random = createRandom(11);
const someBytes = (most: number) => hexlify(Uint8Array.from({ length: random.below(most) }, () => random.below(256)));
const someAddress = () => hexlify(Uint8Array.from({ length: 20 }, () => random.below(256))) as Address;
/** The answer that most lookups of pools have, and the lengths beside it. */
const ZEROS = [31, 32, 33, 64].map((bytes) => `0x${"00".repeat(bytes)}`);
const results = (count: number) =>
  Array.from({ length: count }, () => ({
    ok: random.below(3) > 0,
    data: random.below(2) > 0 ? someBytes(200) : (ZEROS[random.below(ZEROS.length)] as string),
  }));
const returned = (list: readonly { ok: boolean; data: string }[]) =>
  ORACLE.encodeFunctionResult("aggregate3", [list.map(({ ok, data }) => [ok, data])]);

describe("aggregate3", () => {
  test("encodes calls like ethers", () => {
    for (let round = 0; round < 50; round++) {
      const targets = [someAddress(), someAddress(), someAddress()];
      const calls = Array.from({ length: random.below(30) }, () => ({
        to: targets[random.below(3)] as Address,
        data: someBytes(150),
      }));
      const theirs = ORACLE.encodeFunctionData("aggregate3", [calls.map(({ to, data }) => [to, true, data])]);
      expect(aggregateCalls(calls)).toBe(theirs);
    }
  });

  test("decodes results that ethers encoded, wherever their bytes lie", () => {
    for (let round = 0; round < 50; round++) {
      const list = results(random.below(30));
      expect(aggregatedResults(returned(list), list.length)).toEqual(list);
    }
    // Two results that share their bytes. No compiler does this, but the layout allows it.
    const word = (value: number) => value.toString(16).padStart(64, "0");
    const shared = `0x${[32, 2, 64, 64, 1, 64, 2].map(word).join("")}${"abcd".padEnd(64, "0")}`;
    const both = { ok: true, data: "0xabcd" };
    expect(aggregatedResults(shared, 2)).toEqual([both, both]);
    const apart = `0x${[32, 1, 32, 1, 96, 7, 32, 0].map(word).join("")}`;
    expect(aggregatedResults(apart, 1)).toEqual([{ ok: true, data: `0x${word(0)}` }]);
  });

  test("refuses an answer that is truncated, damaged or for other calls", () => {
    const list = results(6);
    const whole = returned(list);
    expect(() => aggregatedResults(whole, 5)).toThrow(RangeError);
    expect(() => aggregatedResults("0x", 6)).toThrow(RangeError);
    expect(() => aggregatedResults(whole.replace("0x", "1x"), 6)).toThrow(RangeError);
    expect(() => aggregatedResults(`${whole.slice(0, -2)}zz`, 6)).toThrow(RangeError);
    const lastBytes = (list.at(-1)?.data.length ?? 0) - 2;
    const padding = Math.ceil(lastBytes / 64) * 64 - lastBytes;
    for (let end = 2; end < whole.length - padding; end += 2) {
      expect(() => aggregatedResults(whole.slice(0, end), 6)).toThrow(RangeError);
    }
  });
});

describe("returned bytes", () => {
  const coder = AbiCoder.defaultAbiCoder();
  test("are those that ethers encoded, also without the zero padding of the last word", () => {
    for (const text of ["", "ipfs://x", "é".repeat(100), "x".repeat(64 * 1024)]) {
      const data = coder.encode(["string"], [text]);
      expect(onlyBytes(data).toString("utf8")).toBe(text);
      const bytes = Buffer.byteLength(text);
      expect(onlyBytes(data.slice(0, 2 + 128 + bytes * 2)).toString("utf8")).toBe(text);
    }
  });

  test("are absent if the data lack them", () => {
    const whole = coder.encode(["string"], ["some text of more than thirty-two bytes"]);
    const far = `0x${"f".repeat(64)}${whole.slice(66)}`;
    for (const data of ["0x", "0x1234", whole.slice(0, -64), far, `${whole.slice(0, -1)}`, "text"]) {
      expect(() => onlyBytes(data)).toThrow(RangeError);
    }
  });
});
