/** The operations on API keys. */
import { Type } from "@sinclair/typebox";
import { int64, named, oneOf, STRICT, text, withExample } from "../../core/schema-parts.ts";
import type { Bills } from "../../operators/bills.ts";
import { type ApiKeys, KEY_NAME } from "../../operators/keys.ts";
import { KEY_SCOPES, ListedKey } from "../../operators/models.ts";
import { type Operation, operationsFor } from "../wire/operation.ts";
import { textPart } from "../wire/parameters.ts";

const KeyList = named("KeyList", Type.Object({ result: Type.Array(ListedKey) }));

const KeyRequest = named(
  "KeyRequest",
  Type.Object(
    {
      name: text("1 to 64 lower-case letters, digits, dots, hyphens or underscores", "shop", {
        pattern: KEY_NAME.source,
      }),
      scope: Type.Optional(oneOf(KEY_SCOPES, "read by default")),
      requestsPerMinute: Type.Optional(int64("RATE_LIMIT_PER_MINUTE by default", 600)),
      collectionsPerHour: Type.Optional(int64("COLLECTIONS_PER_HOUR by default; for scope read")),
      subscriptions: Type.Optional(int64("SUBSCRIPTIONS_PER_KEY by default; for scope read")),
    },
    STRICT,
  ),
);

const DEFAULT_GRACE_SECONDS = 86_400;
const RotateRequest = named(
  "RotateRequest",
  Type.Object(
    {
      graceSeconds: Type.Optional(
        int64("How long the former text stays valid; a day by default", DEFAULT_GRACE_SECONDS),
      ),
    },
    STRICT,
  ),
);

const KeyText = named(
  "KeyText",
  Type.Object({
    name: text("Name of the key", "shop"),
    key: text(
      "The key's text. It is shown once and kept only as a hash",
      "Zk3vYlq0N1x8mC5oT7rW2sB9uD4eF6gH0iJkLmNoPqR",
    ),
  }),
);
const NAME = { name: textPart({ description: "Name of the key", example: "shop" }) };

interface KeyDeps {
  readonly keys: ApiKeys;
  readonly bills: Pick<Bills, "costOf">;
}

const listed = ({ keys, bills }: KeyDeps) => keys.list((name) => bills.costOf(name));

const { json } = operationsFor<KeyDeps>();

export const KEY_OPERATIONS: readonly Operation<KeyDeps>[] = [
  json({
    method: "GET",
    path: "/api/keys",
    scope: "operate",
    id: "listKeys",
    summary: "The API keys, without their texts, and what each has cost",
    tag: "Operators",
    answer: KeyList,
    errors: [],
    handle: async (_asked, deps) => ({ body: { result: listed(deps) } }),
  }),
  json({
    method: "POST",
    path: "/api/keys",
    scope: "operate",
    id: "addKey",
    summary: "Adds an API key and shows its text once",
    tag: "Operators",
    body: KeyRequest,
    answer: KeyText,
    errors: [400, 409],
    handle: async ({ body }, { keys }) => {
      const { name, scope = "read", ...limits } = body;
      return { body: { name, key: await keys.add(name, scope, limits) } };
    },
  }),
  json({
    method: "POST",
    path: "/api/keys/:name/rotate",
    scope: "operate",
    id: "rotateKey",
    summary: "Gives a key a new text; the former one stays valid for a while",
    tag: "Operators",
    parts: NAME,
    body: RotateRequest,
    answer: KeyText,
    errors: [400, 404, 409],
    handle: async ({ path: { name }, body }, { keys }) => {
      const { graceSeconds = DEFAULT_GRACE_SECONDS } = body;
      return { body: { name, key: await keys.rotate(name, graceSeconds * 1_000) } };
    },
  }),
  json({
    method: "DELETE",
    path: "/api/keys/:name",
    scope: "operate",
    id: "revokeKey",
    summary: "Revokes a key on all replicas and closes its sockets. Answers with the keys that are left",
    tag: "Operators",
    parts: NAME,
    answer: withExample(KeyList, { result: [] }),
    errors: [404, 409],
    handle: async ({ path: { name } }, deps) => {
      await deps.keys.revoke(name);
      return { body: { result: listed(deps) } };
    },
  }),
];
