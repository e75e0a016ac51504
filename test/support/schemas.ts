/** Answers held against the schemas of the OpenAPI document that the same service serves, by a validator from outside. */
import { Ajv } from "ajv";
import type { TestService } from "./service.ts";

/** OpenAPI's formats that say how wide a number is, and the one of times that the service writes. */
const FORMATS = {
  int32: { type: "number", validate: (value: number) => value === (value | 0) },
  int64: { type: "number", validate: Number.isSafeInteger },
  double: { type: "number", validate: Number.isFinite },
  "date-time": /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/,
  uri: /^[a-z][a-z0-9+.-]*:/,
} as const;

/** The document's validators; `example` and the like say nothing of what is valid. */
export function documentValidator(document: { readonly components: object }): Ajv {
  const ajv = new Ajv({ strict: false, allErrors: true, formats: FORMATS });
  // The schemas name each other by their place in the document.
  ajv.addSchema({ $id: "document", components: closed(document.components) });
  return ajv;
}

/** The schemas without room for fields that they don't name, save where they say so themselves. */
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

/** What of an answer's body is not as the document says, in the validator's words; empty when all of it is. */
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
