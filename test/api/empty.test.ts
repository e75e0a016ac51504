/**
 * Empty parameters: the service refuses `name=` and a bare `name`, naming the parameter, and the document forbids them.
 * Only an empty cursor counts as none, because clients of the hosted service send it.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { Ajv } from "ajv";
import { startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly schema: object;
}

const ADDRESS = `0x${"ab".repeat(20)}`;
const OPERATIONS = ["/api/v2/nft/{address}", "/api/v2/erc20/{address}/price"];

let service: TestService;
let document: { readonly paths: Record<string, { readonly get: { readonly parameters: readonly Parameter[] } }> };

beforeAll(async () => {
  service = await startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl: temporaryLogUrl() });
  document = (await service.get("/swagger/json")).body;
});
afterAll(() => service?.stop());

test("refuses every empty parameter with a 400 that names it, as the document says", async () => {
  const formats = { "date-time": /^\d{4}-\d\d-\d\dT/, int32: true, int64: true, double: true } as const;
  // Parameters in a query are text. A number parameter is valid if its text can be parsed as a number.
  const ajv = new Ajv({ strict: false, coerceTypes: true, formats });
  for (const path of OPERATIONS) {
    const parameters = document.paths[path]!.get.parameters.filter((each) => each.in === "query");
    for (const { name, schema } of parameters.filter((each) => each.name !== "cursor")) {
      for (const query of [`${name}=`, name]) {
        const { status, body } = await service.get(`${path.replace("{address}", ADDRESS)}?${query}`);
        expect([path, query, status, body.details?.parameter]).toEqual([path, query, 400, name]);
      }
      const isAllowed = ajv.compile({ type: "object", properties: { value: schema } });
      expect([path, name, isAllowed({ value: "" })]).toEqual([path, name, false]);
    }
  }
});

test("treats an empty cursor as no cursor", async () => {
  expect((await service.get(`/api/v2/nft/${ADDRESS}?cursor=`)).status).toBe(200);
});
