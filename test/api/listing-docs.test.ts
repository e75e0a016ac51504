/**
 * The listing compared with its description in the OpenAPI document: every parameter is documented with its bounds,
 * every field of an answer is in the schema, and the service accepts and refuses the values that the document says.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { type Anvil, startAnvil } from "../../scripts/local-chain/anvil.ts";
import { contractArtifact } from "../../scripts/local-chain/compile.ts";
import { deploy, transact } from "../../scripts/local-chain/contracts.ts";
import { CONTRACT_CHAINS } from "../../src/chains/chains.ts";
import { schemaFaults } from "../support/schemas.ts";
import { eventually, startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required: boolean;
  readonly deprecated?: boolean;
  readonly description: string;
  readonly schema: {
    readonly type: string;
    readonly minimum?: number;
    readonly maximum?: number;
    readonly default?: unknown;
    readonly enum?: readonly string[];
  };
}

let anvil: Anvil;
let service: TestService;
let address: string;
let operation: { readonly parameters: readonly Parameter[]; readonly responses: Record<string, object> };
let schemas: Record<string, { readonly properties: Record<string, object>; readonly required: readonly string[] }>;

beforeAll(async () => {
  anvil = await startAnvil({ genesisTimestamp: Math.floor(Date.now() / 1_000) - 86_400, slotsInAnEpoch: 2 });
  const nft = await deploy(anvil, await contractArtifact("PlainNft"), ["Plain", "PLN"]);
  await transact(anvil, nft.contract, "mintMany", [anvil.accounts[1], 1, 30]);
  await anvil.mine(6);
  address = nft.address.toLowerCase();
  service = await startTestService({ rpcUrl: anvil.url, logUrl: temporaryLogUrl(), env: { MAX_PAGE_SIZE: "20" } });
  await eventually("the collection is listed", async () => {
    const { body } = await get("limit=20");
    return body.status === "SYNCED" && body.result.length > 0 ? true : undefined;
  });
  const { body } = await service.get("/swagger/json");
  operation = body.paths["/api/v2/nft/{address}"].get;
  schemas = body.components.schemas;
}, 300_000);

afterAll(async () => {
  await service?.stop();
  await anvil?.stop();
});

const get = (query: string) => service.get(`/api/v2/nft/${address}?${query}`);

test("documents every parameter, marks disable_total as deprecated, and requires only the address", () => {
  const named = operation.parameters.map(({ name }) => name).toSorted();
  expect(named).toEqual(
    [
      ...["address", "chain", "format", "limit", "totalRanges", "range", "disable_total", "cursor"],
      ...["normalizeMetadata", "media_items", "as_of_block", "holders", "metadata_as_of"],
    ].toSorted(),
  );
  for (const { name, in: place, required, deprecated, description } of operation.parameters) {
    expect([name, place, required]).toEqual([name, name === "address" ? "path" : "query", name === "address"]);
    expect([name, deprecated === true]).toEqual([name, name === "disable_total"]);
    expect(description.length).toBeGreaterThan(5);
  }
  const defaults = Object.fromEntries(operation.parameters.map(({ name, schema }) => [name, schema.default]));
  expect(defaults).toMatchObject({ chain: "eth", format: "decimal", disable_total: true, holders: false });
});

test("documents the bounds that the service enforces, and the service names a parameter out of bounds", async () => {
  for (const { name, schema } of operation.parameters.filter((each) => each.schema.type === "integer")) {
    const beside = name === "range" ? "&totalRanges=1000" : "";
    const { minimum = 0, maximum } = schema;
    for (const good of [minimum, maximum ?? minimum]) {
      expect([name, good, (await get(`${name}=${good}${beside}`)).status]).toEqual([name, good, 200]);
    }
    for (const bad of [minimum - 1, ...(maximum === undefined ? [] : [maximum + 1])]) {
      const { status, body } = await get(`${name}=${bad}${beside}`);
      expect([name, bad, status, body.details?.parameter]).toEqual([name, bad, 400, name]);
    }
  }
  const limit = operation.parameters.find(({ name }) => name === "limit")?.schema;
  expect([limit?.maximum, limit?.default]).toEqual([20, 20]);
  expect((await get("")).body).toMatchObject({ page_size: "20" });
});

test("documents exactly the choices that the service accepts", async () => {
  const choices = operation.parameters.filter(({ schema }) => schema.enum !== undefined);
  expect(choices.map(({ name }) => name)).toEqual(["chain", "format"]);
  for (const { name, schema } of choices) {
    for (const choice of schema.enum ?? []) {
      const { status, body } = await get(`${name}=${encodeURIComponent(choice)}`);
      expect([choice, status === 200 || body.code === "chain_not_enabled"]).toEqual([choice, true]);
    }
    expect((await get(`${name}=other`)).status).toBe(400);
  }
  expect(choices[0]?.schema.enum).toHaveLength(2 * CONTRACT_CHAINS.length);
});

test("describes whole answers to any combination of parameters", async () => {
  const all = "normalizeMetadata=true&media_items=true&holders=true&disable_total=false&format=hex";
  for (const query of ["", "disable_total=false", "limit=1", all, "as_of_block=0"]) {
    const { status, body } = await get(query);
    expect([query, status, await schemaFaults(service, "NftPage", body)]).toEqual([query, 200, []]);
  }
  const stranger = await service.get(`/api/v2/nft/0x${"9".repeat(40)}`);
  expect(await schemaFaults(service, "NftPage", stranger.body)).toEqual([]);
  const refused = await get("limit=0");
  expect(await schemaFaults(service, "ErrorBody", refused.body)).toEqual([]);
  expect(await schemaFaults(service, "NftPage", refused.body)).not.toEqual([]);
});

test("lists the fields of an answer in the order of the schema, and documents every refusal", async () => {
  const { body } = await get("limit=1");
  expect(Object.keys(schemas["NftPage"]!.properties)).toEqual(Object.keys(body));
  expect(Object.keys(schemas["NftRecord"]!.properties)).toEqual(Object.keys(body.result[0]));
  expect(schemas["NftRecord"]!.required.toSorted()).toEqual(Object.keys(body.result[0]).toSorted());
  expect(Object.keys(operation.responses)).toEqual([
    "200",
    "304",
    "400",
    "401",
    "404",
    "409",
    "410",
    "429",
    "500",
    "503",
  ]);
});
