/** The body of an error, its schema, and an example for each status with the service's own message. */
import { type Static, Type } from "@sinclair/typebox";
import { ERROR_CODES, type ErrorCode } from "../../core/errors.ts";
import { address, decimal, named, oneOf, text } from "../../core/schema-parts.ts";

const SkippedPool = Type.Object(
  {
    pool: address("The pool"),
    exchange: text("Display name of the exchange"),
    reason: text("Reason to skip the pool"),
    liquidityUsd: Type.Optional(decimal("Its smaller side in US dollars")),
    minLiquidityUsd: Type.Optional(decimal("The liquidity floor that it is below")),
  },
  { additionalProperties: Type.String(), description: "A skipped pool, with the numbers behind the reason" },
);

const ErrorDetails = Type.Object(
  {
    parameter: Type.Optional(text("Name of the invalid parameter")),
    pools: Type.Optional(Type.Array(named("SkippedPool", SkippedPool))),
  },
  { additionalProperties: true },
);

export const ErrorBody = named(
  "ErrorBody",
  Type.Object({
    message: text("The error and the allowed values, in words"),
    code: named("ErrorCode", oneOf(ERROR_CODES, "Error code, for programs")),
    details: Type.Optional(named("ErrorDetails", ErrorDetails)),
  }),
);

export type ErrorBody = Static<typeof ErrorBody>;

export const errorExample = (code: ErrorCode, message: string, details?: ErrorBody["details"]): ErrorBody =>
  details === undefined ? { message, code } : { message, code, details };

/** One error per status. */
export const ERROR_EXAMPLES = {
  400: errorExample("invalid_parameter", "limit: must be a whole number from 1 to 500", { parameter: "limit" }),
  401: errorExample("missing_api_key", "API KEY missing from x-api-key header"),
  403: errorExample("forbidden", "the key shop is of scope read; this route needs scope operate"),
  404: errorExample("not_found", "no such path; see /swagger"),
  409: errorExample("not_indexed_yet", "as_of_block: the collection is indexed up to block 20999999; ask again later"),
  410: errorExample("cursor_reorged", "cursor: its block left the canonical chain; start again without it"),
  413: errorExample("too_large", "body: must not be longer than 65536 bytes", { parameter: "body" }),
  426: errorExample("upgrade_required", "this path is a WebSocket: send an upgrade request"),
  429: errorExample("rate_limited", "Rate limit exceeded"),
  500: errorExample("internal", "internal error; the request id names it in the server's log"),
  503: errorExample("chain_unavailable", "no endpoint of eth answers at the moment; try again later"),
} as const;
