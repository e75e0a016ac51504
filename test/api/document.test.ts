/**
 * The OpenAPI document as client generators read it: one type per field for the configured wire types, a name for every
 * schema that can have one, and a valid example for each parameter, header and answer.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { operationsOf } from "../../src/api/app.ts";
import { ERROR_CODES } from "../../src/core/errors.ts";
import {
  ARCHIVE_WORDS,
  CHAIN_WORDS,
  COLLECTION_WORDS,
  ENDPOINT_WORDS,
  LISTING_WORDS,
  MEDIA_WORDS,
} from "../../src/status-words.ts";
import { documentValidator, schemaFaults } from "../support/schemas.ts";
import { startTestService, type TestService, temporaryLogUrl } from "../support/service.ts";

// biome-ignore lint/suspicious/noExplicitAny: the tests read single fields of the document
type Json = any;

const ADDRESS = `0x${"ab".repeat(20)}`;
/** Fields with two types. A parameter decides which, and without it the field is "". */
const TWO_TYPES = ["NftRecord.properties.normalized_metadata", "NftRecord.properties.media"];

/** Yields every object in the document with its path of keys. */
function* objectsIn(value: Json, path = ""): Generator<[string, Json]> {
  if (typeof value !== "object" || value === null) return;
  if (!Array.isArray(value)) yield [path, value];
  for (const [key, inner] of Object.entries(value)) {
    if (key !== "example") yield* objectsIn(inner, path === "" ? key : `${path}.${key}`);
  }
}

for (const wire of ["seed", "native"] as const) {
  describe(`with WIRE_TYPES=${wire}`, () => {
    let service: TestService;
    let document: Json;
    let schemas: Json;

    beforeAll(async () => {
      const logUrl = temporaryLogUrl();
      service = await startTestService({ rpcUrl: "http://127.0.0.1:9/", logUrl, env: { WIRE_TYPES: wire } });
      document = (await service.get("/swagger/json")).body;
      schemas = document.components.schemas;
    });
    afterAll(() => service?.stop());

    test("passes an independent validator, and every reference resolves", async () => {
      const { valid, errors } = await new Validator().validate(structuredClone(document));
      expect([errors ?? [], valid]).toEqual([[], true]);
      for (const [path, { $ref }] of objectsIn(document)) {
        if ($ref === undefined) continue;
        const found = $ref
          .split("/")
          .slice(1)
          .reduce((at: Json, key: string) => at?.[key], document);
        expect([path, $ref, typeof found]).toEqual([path, $ref, "object"]);
      }
    });

    test("gives each field one type, except two fields and a list that depend on a parameter, and the answers about many tokens", () => {
      const several = [...objectsIn(schemas)].filter(
        ([, each]) => "anyOf" in each || "oneOf" in each || "allOf" in each,
      );
      expect(several.map(([path]) => path).sort()).toEqual(
        [...TWO_TYPES, "NftRecords.items", "TokenPrices.items", "CollectionList.properties.result.items"].sort(),
      );
      const items = ["TokenPrice", "UnpricedToken"].map((name) => ({ $ref: `#/components/schemas/${name}` }));
      const records = ["NftRecord", "NoRecord"].map((name) => ({ $ref: `#/components/schemas/${name}` }));
      const collections = ["ListedCollection", "NamedCollection"].map((name) => ({
        $ref: `#/components/schemas/${name}`,
      }));
      for (const [path, { oneOf, anyOf }] of several) {
        if (path === "TokenPrices.items") expect(anyOf).toEqual(items);
        else if (path === "NftRecords.items") expect(anyOf).toEqual(records);
        else if (path.startsWith("CollectionList")) expect(anyOf).toEqual(collections);
        else expect(oneOf[0]).toEqual({ type: "string", enum: [""] });
      }
      const { total, page, page_size } = schemas.NftPage.properties;
      const { possible_spam, verified_collection } = schemas.NftRecord.properties;
      const count = wire === "native" ? "integer" : "string";
      const flag = wire === "native" ? "boolean" : "string";
      expect([total, page, page_size].map(({ type }) => type)).toEqual([count, count, count]);
      expect([total.nullable, page.nullable, page_size.nullable]).toEqual([true, undefined, undefined]);
      expect([possible_spam.type, verified_collection.type]).toEqual([flag, flag]);
    });

    test("states the width of numbers: doubles are not floats, counts and blocks are integers", () => {
      for (const [path, { type, format }] of objectsIn(document)) {
        if (type === "number") expect([path, format]).toEqual([path, "double"]);
        if (type === "integer") expect([path, ["int32", "int64"].includes(format)]).toEqual([path, true]);
      }
      expect(schemas.TokenPrice.properties.usdPrice).toMatchObject({ type: "number", format: "double" });
      expect(schemas.TokenPrice.properties.nativePrice.properties.decimals.type).toBe("integer");
    });

    test("names the schemas of records, provenance and error codes, with all their fields", () => {
      expect(schemas.NftPage.properties.result.items).toEqual({ $ref: "#/components/schemas/NftRecord" });
      expect(schemas.TokenPrice.properties.provenance).toEqual({ $ref: "#/components/schemas/Provenance" });
      expect(schemas.Provenance.properties.route.items).toEqual({ $ref: "#/components/schemas/PoolState" });
      expect(Object.keys(schemas.PoolState.properties)).toContain("sqrtPriceX96");
      expect(schemas.ErrorBody.properties.code).toEqual({ $ref: "#/components/schemas/ErrorCode" });
      expect(schemas.ErrorCode.enum).toEqual([...ERROR_CODES]);
    });

    test("gives every parameter, header and answer an example that is valid by its schema", () => {
      const ajv = documentValidator(document);
      const faults = (schema: Json, example: unknown) => {
        const validate =
          schema.$ref === undefined
            ? ajv.compile(schema)
            : (ajv.getSchema(`document${schema.$ref}`) ?? ajv.compile(schema));
        validate(example);
        return validate.errors ?? [];
      };
      let [parameters, bodies, answers] = [0, 0, 0];
      const operations = Object.entries<Json>(document.paths).flatMap(([path, item]) =>
        Object.entries<Json>(item).map(([method, operation]) => [`${method} ${path}`, operation] as const),
      );
      for (const [path, operation] of operations) {
        for (const { name, schema, example, description } of operation.parameters ?? []) {
          expect([path, name, example === undefined, faults(schema, example)]).toEqual([path, name, false, []]);
          expect([path, name, typeof description]).toEqual([path, name, "string"]);
          parameters++;
        }
        for (const { schema, example } of Object.values<Json>(operation.requestBody?.content ?? {})) {
          expect([path, example === undefined, faults(schema, example)]).toEqual([path, false, []]);
          bodies++;
        }
        for (const [status, { content = {}, headers }] of Object.entries<Json>(operation.responses)) {
          expect([path, status, headers["x-request-id"]]).toEqual([
            path,
            status,
            { $ref: "#/components/headers/RequestId" },
          ]);
          for (const [type, { schema, example }] of Object.entries<Json>(content)) {
            if (type === "image/webp") continue;
            expect([path, status, example === undefined, faults(schema, example)]).toEqual([path, status, false, []]);
            answers++;
          }
        }
      }
      for (const [name, { schema, example }] of Object.entries<Json>(document.components.headers)) {
        expect([name, example === undefined, faults(schema, example)]).toEqual([name, false, []]);
      }
      expect(operations.length).toBe(operationsOf(500).length);
      expect(Math.min(parameters, bodies, answers)).toBeGreaterThan(0);
    });

    test("describes each status with the word that the console and the command line show", () => {
      const fields = [
        [schemas.NftPage.properties.status, LISTING_WORDS],
        [schemas.ListedCollection.properties.status, COLLECTION_WORDS],
        [schemas.CollectionDetails.properties.status, COLLECTION_WORDS],
        [schemas.ChainStatus.properties.state, CHAIN_WORDS],
        [schemas.EndpointState.properties.state, ENDPOINT_WORDS],
        [schemas.ArchiveState.properties.state, ARCHIVE_WORDS],
        [schemas.Media.properties.status, MEDIA_WORDS],
      ] as const;
      for (const [{ enum: values, description }, words] of fields) {
        expect(values).toEqual(Object.keys(words));
        for (const [value, { word, meaning }] of Object.entries(words))
          expect(description).toMatch(new RegExp(`\\b${value}(?: \\(${word}\\))?: ${meaning}`));
      }
    });

    test("describes the headers of all answers, including refusals", async () => {
      const documented = (path: string, status: number) =>
        Object.keys(document.paths[path].get.responses[status].headers);
      for (const [path, query] of [
        ["/api/v2/nft/{address}", ""],
        ["/api/v2/nft/{address}", "limit=0"],
        ["/api/v2/erc20/{address}/price", ""],
        ["/api/v2/erc20/{address}/price", "include="],
        ["/health/live", ""],
        ["/health/ready", ""],
      ] as const) {
        const { status, headers } = await service.get(`${path.replace("{address}", ADDRESS)}?${query}`);
        const own = [...headers.keys()].filter(
          (name) => /^(?:x-|etag$|cache-control$|retry-after$)/.test(name) && !name.startsWith("access-control-"),
        );
        const known = documented(path, status);
        expect([path, status, own.filter((name) => !known.includes(name))]).toEqual([path, status, []]);
      }
    });

    test("rejects an answer with a field that it does not name", async () => {
      const { body } = await service.get(`/api/v2/nft/${ADDRESS}?disable_total=false`);
      expect(await schemaFaults(service, "NftPage", body)).toEqual([]);
      expect(await schemaFaults(service, "NftPage", { ...body, more: 1 })).toHaveLength(1);
      expect(await schemaFaults(service, "NftPage", { ...body, total: null })).toEqual([]);
    });
  });
}
