/** Checks answers against the schemas of the OpenAPI document of the same service, with an independent validator. */
import { Ajv } from "ajv";
import type { TestService } from "./service.ts";

/** OpenAPI's formats for the width of numbers, and the time format that the service writes. */
const FORMATS = {
  int32: { type: "number", validate: (value: number) => value === (value | 0) },
  int64: { type: "number", validate: Number.isSafeInteger },
  double: { type: "number", validate: Number.isFinite },
  "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/,
  uri: /^[a-z][a-z0-9+.-]*:/,
} as const;

/** Compiles the document's schemas. Not strict, because `example` and the like are not keywords of JSON Schema. */
export function documentValidator(document: { readonly components: object }): Ajv {
  const ajv = new Ajv({ strict: false, allErrors: true, formats: FORMATS });
  // The schemas refer to each other by their place in the document.
  ajv.addSchema({ $id: "document", components: closed(document.components) });
  return ajv;
}

/** Forbids fields that a schema doesn't name, unless the schema allows them itself. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed);
  if (typeof schema !== "object" || schema === null) return schema;
  const copy: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(schema)) {
    copy[key] = key === "$ref" ? `document${value}` : key === "example" ? value : closed(value);
  }
  if (copy["type"] === "object" && "properties" in copy && !("additionalProperties" in copy)) {
    copy["additionalProperties"] = false;
  }
  return copy;
}

/** Returns the validator's errors for an answer's body. An empty list means the body is valid. */
export async function schemaFaults(service: TestService, schema: string, body: unknown): Promise<string[]> {
  const validate = documentValidator((await service.get("/swagger/json")).body).getSchema(
    `document#/components/schemas/${schema}`,
  );
  if (validate === undefined) throw new Error(`the document has no schema ${schema}`);
  validate(body);
  return (validate.errors ?? []).map(({ instancePath, message, params }) =>
    "additionalProperty" in params
      ? `${instancePath} ${message}: ${params["additionalProperty"]}`
      : `${instancePath} ${message}`,
  );
}
