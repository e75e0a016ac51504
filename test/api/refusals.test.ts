/** Every refusal has the status of API.md's error table, whichever room makes it. */
import { expect, test } from "bun:test";
import { errorResponse, ProtocolRefusal } from "../../src/api/wire/answers.ts";
import { AppError, ERROR_CODES, Refusal } from "../../src/core/errors.ts";

const STATUSES: Readonly<Record<string, readonly string[]>> = {
  400: ["invalid_parameter", "chain_not_enabled"],
  401: ["missing_api_key", "invalid_api_key"],
  403: ["forbidden"],
  404: [
    "not_found",
    "not_a_contract",
    "not_served",
    "no_pool",
    "low_liquidity",
    "not_a_token",
    "unknown_decimals",
    "no_price_at_block",
    "no_dollar",
  ],
  405: ["method_not_allowed"],
  409: ["history_pruned", "state_unavailable", "not_indexed_yet", "conflict"],
  410: ["cursor_reorged"],
  413: ["too_large"],
  426: ["upgrade_required"],
  429: ["rate_limited"],
  500: ["internal"],
  503: ["chain_unavailable", "log_unavailable", "searching", "starting"],
};

test("each code has one status", () => {
  const found: Record<string, string[]> = {};
  for (const code of ERROR_CODES) {
    const { status } = errorResponse(new Refusal(code, "why"));
    found[status] = [...(found[status] ?? []), code];
  }
  expect(Object.values(found).flat().length).toBe(ERROR_CODES.length);
  for (const [status, codes] of Object.entries(STATUSES)) expect(found[status]?.sort()).toEqual([...codes].sort());
});

test("the body has message, code and details, and the headers say when to try again", async () => {
  const refusal = new Refusal("rate_limited", "too much", { details: { key: "shop" }, retryAfter: 7 });
  const response = errorResponse(refusal);
  expect(await response.json()).toEqual({ message: "too much", code: "rate_limited", details: { key: "shop" } });
  expect(response.headers.get("retry-after")).toBe("7");
  expect(errorResponse(new Refusal("conflict", "no")).headers.get("retry-after")).toBeNull();
  const allowed = errorResponse(new ProtocolRefusal("method_not_allowed", "no", { allow: "GET, HEAD" }));
  expect([allowed.status, allowed.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
});

test("what is no refusal reveals nothing", async () => {
  const secret = errorResponse(new Error("https://key@node"));
  expect([secret.status, ((await secret.json()) as { code: string }).code]).toEqual([500, "internal"]);
  const chain = errorResponse(new AppError("x", { code: "chain_moved", meta: { chain: "eth" } }));
  expect([chain.status, chain.headers.get("retry-after"), ((await chain.json()) as { code: string }).code]).toEqual([
    503,
    "5",
    "chain_unavailable",
  ]);
});
