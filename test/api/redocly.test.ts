/** The OpenAPI document by the rules that Redocly recommends: no error. Paths that may be ambiguous are warnings there. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { createConfig, lintFromString } from "@redocly/openapi-core";
import { startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

let service: TestService;
beforeAll(async () => {
  const env = { PUBLIC_URL: "https://nft.example.org/evm" };
  service = await startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl: temporaryLogUrl(), env });
});
afterAll(() => service?.stop());

test("the document has no error by Redocly's recommended rules, and names the public URL", async () => {
  const source = await (await service.fetch("/swagger/json")).text();
  expect(JSON.parse(source).servers).toEqual([{ url: "https://nft.example.org/evm" }]);
  const config = await createConfig({ extends: ["recommended"] });
  const problems = await lintFromString({ source, absoluteRef: "openapi.json", config });
  const told = problems.map(({ severity, ruleId, message, location: [at] }) => ({
    ...{ severity, ruleId, message, at: at?.pointer },
  }));
  expect(told.filter(({ severity }) => severity === "error")).toEqual([]);
  // What is left: a word where other paths have a parameter, health checks without a 4xx, the upgrade without a 2xx.
  const known = ["no-ambiguous-paths", "operation-4xx-response", "operation-2xx-response"];
  expect(told.filter(({ ruleId }) => !known.includes(ruleId))).toEqual([]);
});
