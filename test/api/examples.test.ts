/**
 * Every example of the OpenAPI document on the demo's chain, sent as `/swagger` sends it: path parameters with their
 * examples, required parameters with theirs, optional ones left out.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { seedCollections } from "../../scripts/local-chain/collections.ts";
import { placeMainnet } from "../../scripts/local-chain/mainnet.ts";
import { seedMarket } from "../../scripts/local-chain/market.ts";
import { NFT_ADDRESS, TOKEN_ADDRESS } from "../../src/core/examples.ts";
import {
  eventually,
  startTestService,
  synced,
  TEST_KEY,
  type TestService,
  temporaryLogUrl,
} from "../support/service.ts";

const OPERATOR_KEY = "operator-key-of-the-examples";
/**
 * A preview's name is a hash of its bytes, which differ between versions of the image library. A socket is no request. The
 * date of the example is before this chain began.
 */
const WITHOUT_EXAMPLE = ["getMediaPreview", "subscribe", "getDateToBlock"];

interface Parameter {
  readonly in: "path" | "query";
  readonly name: string;
  readonly required?: boolean;
  readonly example: unknown;
}
interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: { readonly "application/json": { readonly example: unknown } } };
  readonly responses: Readonly<Record<string, unknown>>;
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

let anvil: Anvil;
let service: TestService;
let document: Document;

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 28 * 3_600 });
  await placeMainnet(anvil);
  await seedMarket(anvil, { demoAt: TOKEN_ADDRESS });
  await seedCollections(anvil, { drawnAt: NFT_ADDRESS });
  const env = { OPERATOR_KEYS: OPERATOR_KEY };
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env });
  document = (await service.get("/swagger/json")).body;
  await synced(service, NFT_ADDRESS);
  await eventually("the metadata is known", async () => {
    const { body } = await service.get(`/api/v2/nft/${NFT_ADDRESS}?limit=500&media_items=true`);
    return body.result.every(({ metadata }: { metadata: unknown }) => metadata !== null) ? true : undefined;
  });
  await service.fetch(`/api/collections/eth/${NFT_ADDRESS}/proofs`, {
    ...{ method: "POST", body: "{}" },
    headers: { "x-api-key": OPERATOR_KEY, "content-type": "application/json" },
  });
});
afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

const operations = () =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );

/** Sends an operation with its examples. */
function send(path: string, method: string, { parameters = [], requestBody }: Operation): Promise<Response> {
  const values = new URLSearchParams();
  let filled = path;
  for (const parameter of parameters) {
    const value = String(parameter.example);
    if (parameter.in === "path") filled = filled.replace(`{${parameter.name}}`, encodeURIComponent(value));
    else if (parameter.required === true) values.set(parameter.name, value);
  }
  const body = requestBody?.content["application/json"].example;
  return service.fetch(values.size === 0 ? filled : `${filled}?${values}`, {
    method: method.toUpperCase(),
    headers: { "x-api-key": OPERATOR_KEY, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

test("every example that reads is answered", async () => {
  const answers: [string, number][] = [];
  for (const { path, method, operation } of operations()) {
    if (method !== "get" || WITHOUT_EXAMPLE.includes(operation.operationId)) continue;
    const response = await send(path, method, operation);
    await response.arrayBuffer();
    answers.push([operation.operationId, response.status]);
  }
  expect(answers.length).toBeGreaterThan(12);
  expect(answers.filter(([, status]) => status !== 200)).toEqual([]);
});

test("every example that changes something is taken, in the order of the document", async () => {
  const order = ["post", "delete"];
  const changing = operations()
    .filter(({ method }) => method !== "get")
    .toSorted((a, b) => order.indexOf(a.method) - order.indexOf(b.method));
  const refused: [string, number, string][] = [];
  for (const { path, method, operation } of changing) {
    const response = await send(path, method, operation);
    const text = await response.text();
    if (!(String(response.status) in operation.responses) || response.status >= 400) {
      refused.push([`${method} ${path}`, response.status, text]);
    }
  }
  expect(changing.length).toBeGreaterThan(5);
  expect(refused).toEqual([]);
  expect((await service.fetch("/health/live", { headers: { "x-api-key": TEST_KEY } })).status).toBe(200);
});
