/** A body that a schema refuses is refused in words: the field, and the way out. */

import { expect, test } from "bun:test";
import { KEY_OPERATIONS } from "../../src/api/routes/keys.ts";
import { KNOWN } from "../support/known-chains.ts";

const addKey = KEY_OPERATIONS.find(({ id }) => id === "addKey");

async function refused(body: unknown): Promise<string> {
  const request = new Request("http://localhost/api/keys", { method: "POST", body: JSON.stringify(body) });
  const incoming = { request, search: "", params: {}, chains: KNOWN, requester: undefined };
  return addKey?.handle(incoming, {} as never).then(
    () => "taken",
    (error: Error) => error.message,
  ) as Promise<string>;
}

const FIELDS = "name, scope, requestsPerMinute, collectionsPerHour, subscriptions";

test.each([
  [{}, "name: is missing"],
  [{ name: "No Spaces" }, "name: must be 1 to 64 lower-case letters, digits, dots, hyphens or underscores"],
  [{ name: "x", scope: "root" }, "scope: must be one of read, operate"],
  [{ name: "x", requestsPerMinute: -1 }, "requestsPerMinute: must be a whole number from 0 on"],
  [{ name: "x", requestsPerMinute: "many" }, "requestsPerMinute: must be a whole number from 0 on"],
  [{ name: "x", scopes: "read" }, `scopes: is not known here; the fields are ${FIELDS}`],
  ["x", "body: Expected object"],
])("refuses %j", async (body, message) => {
  expect(await refused(body)).toBe(message);
});
