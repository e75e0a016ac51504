/** Why an endpoint did not run a call, by the error that it gave. */
import { expect, test } from "bun:test";
import { isRefused, refusalOf } from "../../src/rpc/reading/refused-calls.ts";
import { RpcError, type RpcErrorKind } from "../../src/rpc/rpc-errors.ts";

const errorOf = (kind: RpcErrorKind, meta = {}) => new RpcError(kind, "the endpoint's words", { meta });

test("tells a refusal in known words, in unknown words, and a lost connection apart", () => {
  const kinds = ["range", "revert", "unsupported", "state_unavailable", "lie", "rate", "late"] as const;
  expect(kinds.map((kind) => refusalOf(errorOf(kind)))).toEqual([
    ...(["known", "known", "known", "stateless", "lie"] as const),
    ...[undefined, undefined],
  ]);
  expect(refusalOf(errorOf("transient", { rpcCode: -32_000 }))).toBe("unknown");
  expect(refusalOf(errorOf("transient"))).toBe("lost");
  expect(refusalOf(new TypeError("a fault of this program"))).toBeUndefined();
});

test("counts a missing state, a full rate and a timeout as no refusal of the call itself", () => {
  const kinds = ["range", "unsupported", "transient", "lie", "state_unavailable", "rate", "late"] as const;
  expect(kinds.map((kind) => isRefused(errorOf(kind)))).toEqual([true, true, true, true, false, false, false]);
});
