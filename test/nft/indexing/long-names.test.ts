/** Names and symbols as contracts return them. */
import { expect, test } from "bun:test";
import { readText } from "../../../src/nft/indexing/identify.ts";

const word = (value: number) => value.toString(16).padStart(64, "0");
const named = (bytes: Buffer) => ({ ok: true, data: `0x${word(32)}${word(bytes.length)}${bytes.toString("hex")}` });

test("reads only the beginning of a name of several megabytes", () => {
  expect(readText(named(Buffer.from("Tokens \u0001of\u0000 mine")))).toBe("Tokens of mine");
  expect(readText(named(Buffer.concat([Buffer.alloc(100, 1), Buffer.from("x".repeat(300))])))).toBe("x".repeat(256));
  expect(readText(named(Buffer.concat([Buffer.alloc(5_000_000, 1), Buffer.from("late")])))).toBe("");
});
