/** Names and symbols of ERC-20 tokens as contracts return them. */
import { expect, test } from "bun:test";
import { AbiCoder } from "ethers";
import { textAnswer } from "../../src/prices/styles/abi.ts";

test.each([
  ["a string", AbiCoder.defaultAbiCoder().encode(["bytes"], ["0x41ff42"])],
  ["bytes32", `0x41ff42${"0".repeat(58)}`],
])("a byte that is no UTF-8 is replaced in a name that is %s", (_, data) => {
  expect(textAnswer({ ok: true, data })).toBe("A\ufffdB");
});
